//! What is done about findings: a pure function of the trajectory, the findings, the policy, what was done before, and
//! the time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use omoi_protocol::{FindingKind, Intervention, Steering};
pub use omoi_protocol::{HeldReason as Held, InterventionMode as Mode};
use serde::Serialize;

use super::{
    finding::Finding,
    policy::{Policy, Response},
    text::{clip, line},
    trajectory::{Phase, Trajectory},
};

const GOAL_CHARS: usize = 300;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Action {
    pub finding: FindingKind,
    /// Which finding of its kind.
    pub number: u32,
    #[serde(rename = "do")]
    pub intervention: Intervention,
    pub mode: Mode,
    pub text: String,
    pub seqs: Vec<i64>,
    pub at: Timestamp,
    /// Why no more than a note is made of it, where the policy asks for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

/// What was done in one sandbox.
#[derive(Debug, Clone, Default)]
pub struct History {
    made: BTreeMap<FindingKind, (u32, Timestamp)>,
    total: u32,
    last: Option<Timestamp>,
}

impl History {
    /// Notes are no interventions.
    pub fn record(&mut self, action: &Action) {
        if action.mode != Mode::Record {
            self.made(action.finding, action.at);
        }
    }

    /// An intervention, in the order of time.
    pub fn made(&mut self, kind: FindingKind, at: Timestamp) {
        let made = self.made.entry(kind).or_insert((0, at));
        *made = (made.0 + 1, at);
        self.total += 1;
        self.last = Some(at);
    }

    fn times(&self, kind: FindingKind) -> u32 {
        self.made.get(&kind).map_or(0, |(times, _)| *times)
    }
}

/// One action per finding that a rule of the policy fits, and at most one of them an intervention: the strongest.
pub fn decide(
    trajectory: &Trajectory,
    findings: &[Finding],
    policy: &Policy,
    history: &History,
    now: Timestamp,
) -> Vec<Action> {
    let one = |finding| answer(trajectory, finding, policy, history, now);
    let mut actions: Vec<Action> = findings.iter().filter_map(one).collect();
    let made = |action: &&Action| action.mode != Mode::Record;
    let strongest = actions.iter().filter(made).map(|action| action.intervention).max();
    let mut room = strongest.is_some();
    for action in actions.iter_mut().filter(|action| action.mode != Mode::Record) {
        if Some(action.intervention) == strongest && std::mem::take(&mut room) {
            continue;
        }
        hold(action, Held::OneAtATime);
    }
    actions
}

fn answer(
    trajectory: &Trajectory,
    finding: &Finding,
    policy: &Policy,
    history: &History,
    now: Timestamp,
) -> Option<Action> {
    let response = policy.response(finding)?;
    let rung = response.rung(history.times(finding.kind));
    let mut action = Action {
        finding: finding.kind,
        number: finding.number,
        intervention: rung.action,
        mode: Mode::Record,
        text: fill(&rung.text, finding, &trajectory.goal),
        seqs: finding.seqs.clone(),
        at: now,
        held: None,
    };
    if rung.action == Intervention::Note {
        return Some(action);
    }
    match held(trajectory, finding, policy, response, history, &action) {
        Some(held) => hold(&mut action, held),
        None => action.mode = if policy.steering == Steering::On { Mode::Act } else { Mode::Suggest },
    }
    Some(action)
}

fn held(
    trajectory: &Trajectory,
    finding: &Finding,
    policy: &Policy,
    response: &Response,
    history: &History,
    action: &Action,
) -> Option<Held> {
    let cools = |last: Option<Timestamp>, span: std::time::Duration| {
        last.is_some_and(|last| action.at.duration_since(last).unsigned_abs() < span)
    };
    let last = history.made.get(&finding.kind).map(|(_, at)| *at);
    let over = history.times(finding.kind) >= response.limit || history.total >= policy.limits.interventions;
    // A person can still be asked about one that has ended.
    let gone = trajectory.phase == Phase::Ended && action.intervention != Intervention::Ask;
    match () {
        () if policy.steering == Steering::Off => Some(Held::SteeringOff),
        () if gone => Some(Held::Ended),
        () if over => Some(Held::Limit),
        () if cools(last, response.cool_down) || cools(history.last, policy.limits.cool_down) => {
            Some(Held::CoolDown)
        }
        () => None,
    }
}

fn hold(action: &mut Action, why: Held) {
    (action.intervention, action.mode, action.held) = (Intervention::Note, Mode::Record, Some(why));
}

fn fill(text: &str, finding: &Finding, goal: &str) -> String {
    let filled =
        text.replace("{count}", &finding.number.to_string()).replace("{goal}", &line(goal, GOAL_CHARS));
    // Last, since what an agent wrote may hold anything.
    clip(&filled.replace("{finding}", &finding.text), 4_000)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use omoi_protocol::FindingSeverity;

    use super::*;
    use crate::domain::supervision::trajectory::Charter;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn finding(kind: FindingKind, severity: FindingSeverity, number: u32, seconds: i64) -> Finding {
        let (since, at) = (at(seconds), at(seconds));
        Finding {
            kind,
            severity,
            key: 0,
            seqs: vec![7],
            text: "it loops".to_owned(),
            since,
            seq: 9,
            at,
            number,
        }
    }

    fn policy(steering: &str) -> Policy {
        let text = format!(
            "steering: {steering}\nlimits: {{ interventions: 4, cool_down: 10s }}\nrules:\n\
             - {{ on: repeated_action, do: nudge, text: 'Look: {{finding}}, {{count}}', cool_down: 60s, limit: 3, \
             escalate: [{{ after: 2, do: pause }}] }}\n\
             - {{ on: drift, severity: warning, count: 2, do: ask }}\n- {{ on: drift, do: note }}\n\
             - {{ on: forbidden_command, do: terminate }}\n"
        );
        Policy::read("p.yaml", &text).unwrap()
    }

    /// What a policy makes of findings, one after the other: (kind, severity, number, second).
    fn play(
        policy: &Policy,
        findings: &[(FindingKind, FindingSeverity, u32, i64)],
    ) -> Vec<(Intervention, Mode, Option<Held>)> {
        let (trajectory, mut history) = (Trajectory::new(Arc::new(Charter::default())), History::default());
        let mut made = Vec::new();
        for (kind, severity, number, second) in findings {
            let found = [finding(*kind, *severity, *number, *second)];
            for action in decide(&trajectory, &found, policy, &history, at(*second)) {
                history.record(&action);
                made.push((action.intervention, action.mode, action.held));
            }
        }
        made
    }

    const LOOP: FindingKind = FindingKind::RepeatedAction;
    const WARNING: FindingSeverity = FindingSeverity::Warning;

    #[test]
    fn interventions_cool_down_escalate_and_end() {
        use Intervention::{Note, Nudge, Pause};
        let seconds = [0, 30, 60, 120, 180];
        let findings: Vec<_> =
            seconds.iter().zip(1..).map(|(second, number)| (LOOP, WARNING, number, *second)).collect();
        assert_eq!(
            play(&policy("on"), &findings),
            [
                (Nudge, Mode::Act, None),
                (Note, Mode::Record, Some(Held::CoolDown)),
                (Nudge, Mode::Act, None),
                (Pause, Mode::Act, None),
                (Note, Mode::Record, Some(Held::Limit)),
            ]
        );
    }

    #[test]
    fn steering_says_how_far_it_goes() {
        let one = [(LOOP, WARNING, 1, 0)];
        assert_eq!(play(&policy("off"), &one), [(Intervention::Note, Mode::Record, Some(Held::SteeringOff))]);
        assert_eq!(play(&policy("suggest"), &one), [(Intervention::Nudge, Mode::Suggest, None)]);
        assert_eq!(play(&policy("on"), &one), [(Intervention::Nudge, Mode::Act, None)]);
    }

    #[test]
    fn a_rule_may_want_severity_and_number() {
        let drift = FindingKind::Drift;
        let found = [(drift, FindingSeverity::Notice, 1, 0), (drift, WARNING, 1, 0), (drift, WARNING, 2, 0)];
        let made: Vec<_> = play(&policy("on"), &found).into_iter().map(|(made, ..)| made).collect();
        assert_eq!(made, [Intervention::Note, Intervention::Note, Intervention::Ask]);
        assert_eq!(play(&policy("on"), &[(FindingKind::FalseClaim, WARNING, 1, 0)]), []);
    }

    #[test]
    fn of_several_at_once_the_strongest_is_made() {
        let trajectory = Trajectory::new(Arc::new(Charter::default()));
        let both = [finding(LOOP, WARNING, 1, 0), finding(FindingKind::ForbiddenCommand, WARNING, 1, 0)];
        let actions = decide(&trajectory, &both, &policy("on"), &History::default(), at(0));
        let made: Vec<_> = actions.iter().map(|action| (action.intervention, action.held)).collect();
        assert_eq!(made, [(Intervention::Note, Some(Held::OneAtATime)), (Intervention::Terminate, None)]);
        assert_eq!(actions[0].text, "Look: it loops, 1");
    }

    #[test]
    fn nobody_is_told_once_it_has_ended() {
        let mut trajectory = Trajectory::new(Arc::new(Charter::default()));
        trajectory.phase = Phase::Ended;
        let found = [finding(LOOP, WARNING, 1, 0)];
        let actions = decide(&trajectory, &found, &policy("on"), &History::default(), at(0));
        assert_eq!(actions[0].held, Some(Held::Ended));
    }
}
