//! A policy: when something is a finding, which commands nobody may run, and what is done about which finding. It is a
//! YAML file; the one that comes with the program documents every key.

mod read;

use std::time::Duration;

use omoi_protocol::{FindingKind, FindingSeverity, Intervention, Steering};

use super::{finding::Finding, judge::Judging, shell::Pattern};
pub use read::Error;

/// What holds where nobody says otherwise.
pub const DEFAULT: &str = include_str!("default.yaml");

#[derive(Debug, Clone)]
pub struct Policy {
    pub steering: Steering,
    pub rules: Rules,
    /// The rules with nearer thresholds: what only these show is doubtful.
    pub near: Rules,
    pub judging: Judging,
    pub limits: Limits,
    responses: Vec<Response>,
}

/// When something is a finding: what the detectors are given.
#[derive(Debug, Clone)]
pub struct Rules {
    pub repeated_times: usize,
    pub repeated_polls: usize,
    pub alternating_rounds: usize,
    pub error_times: usize,
    pub undo_times: usize,
    pub idle_steps: usize,
    pub quiet_after: Duration,
    pub drift_allowed: Vec<String>,
    pub instruction_calls: usize,
    pub question_after: Duration,
    /// Of a budget, without anything that came of it.
    pub burn_share: f64,
    /// The same where there is no budget.
    pub burn_usd: f64,
    pub burn_tokens: u64,
    pub helpers_at_once: usize,
    pub helpers_total: usize,
    pub helpers_same: usize,
    pub forbidden: Vec<Pattern>,
}

impl Rules {
    /// The same, with what is counted at three fifths of its thresholds. Times are left: one who waits shows nothing that
    /// could be judged.
    fn near(&self) -> Self {
        let part = |count: usize, least: usize| (count * 3 / 5).max(least);
        Self {
            repeated_times: part(self.repeated_times, 2),
            repeated_polls: part(self.repeated_polls, 2),
            alternating_rounds: part(self.alternating_rounds, 2),
            error_times: part(self.error_times, 2),
            undo_times: part(self.undo_times, 1),
            idle_steps: part(self.idle_steps, 5),
            instruction_calls: part(self.instruction_calls, 1),
            burn_share: self.burn_share * 0.6,
            burn_usd: self.burn_usd * 0.6,
            burn_tokens: self.burn_tokens / 5 * 3,
            helpers_at_once: part(self.helpers_at_once, 1),
            helpers_total: part(self.helpers_total, 1),
            helpers_same: part(self.helpers_same, 2),
            ..self.clone()
        }
    }
}

/// Of all interventions in one sandbox.
#[derive(Debug, Clone)]
pub struct Limits {
    pub interventions: u32,
    pub cool_down: Duration,
}

/// What is done about a kind of finding.
#[derive(Debug, Clone)]
pub struct Response {
    on: FindingKind,
    severity: FindingSeverity,
    /// From this finding of its kind on.
    count: u32,
    pub cool_down: Duration,
    /// So many interventions of it in one sandbox.
    pub limit: u32,
    /// By how many of it there were: the first stands for none.
    steps: Vec<Rung>,
}

#[derive(Debug, Clone)]
pub struct Rung {
    after: u32,
    pub action: Intervention,
    pub text: String,
}

impl Policy {
    /// The policy in a YAML text; `name` is named in errors.
    pub fn read(name: &str, text: &str) -> Result<Self, Error> {
        read::policy(name, text)
    }

    pub fn shipped() -> Self {
        Self::read("the default policy", DEFAULT).expect("a test reads the default policy")
    }

    /// The first rule that fits.
    pub fn response(&self, finding: &Finding) -> Option<&Response> {
        self.responses.iter().find(|response| {
            let severe = finding.severity >= response.severity;
            response.on == finding.kind && severe && finding.number >= response.count
        })
    }
}

impl Response {
    /// What comes after so many interventions of it.
    pub fn rung(&self, made: u32) -> &Rung {
        let reached = self.steps.iter().rev().find(|step| step.after <= made);
        reached.unwrap_or(&self.steps[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_answers_to_every_kind() {
        let policy = Policy::shipped();
        assert_eq!(policy.steering, Steering::Suggest);
        for kind in FindingKind::ALL {
            assert!(policy.responses.iter().any(|response| response.on == *kind), "{kind}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let table = [
            ("steering: maybe", "maybe"),
            ("stering: on", "stering"),
            (
                "thresholds: { repeated_action: { times: 1 } }",
                "thresholds.repeated_action.times: takes 2 to 21",
            ),
            (
                "thresholds: { budget_burn: { share: 2 } }",
                "thresholds.budget_burn.share: takes more than 0, up to 1",
            ),
            ("thresholds: { no_progress: { quiet: soon } }", "soon"),
            ("forbidden_commands: ['curl |']", "forbidden_commands[0]: \"curl |\" lacks a command"),
            ("judge: { when: always }", "always"),
            ("judge: { period: 0s }", "judge.period: takes more than 0"),
            ("rules: [{ on: boredom, do: nudge }]", "boredom"),
            ("rules: [{ on: drift, do: nudge }]", "rules[0].text: a nudge needs a text"),
            (
                "rules: [{ on: drift, do: note, escalate: [{ after: 2, do: ask }, { after: 2, do: pause }] }]",
                "rules[0].escalate[1].after: takes more than 2, the one before it",
            ),
            (
                "rules: [{ on: drift, do: nudge, text: 'see {fnding}' }]",
                "rules[0].text: {fnding} is not known",
            ),
            ("rules:\n  - on: drift\n    do: note\n    cooldown: 3m", "line 4"),
            ("[]", "p.yaml"),
        ];
        for (text, expected) in table {
            let error = Policy::read("p.yaml", text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("p.yaml"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_left_out_is_as_in_the_default() {
        let policy =
            Policy::read("p.yaml", "steering: on\nrules: [{ on: drift, do: terminate, text: out }]").unwrap();
        assert_eq!((policy.steering, policy.responses.len()), (Steering::On, 1));
        let shipped = Policy::shipped();
        assert_eq!(policy.rules.repeated_times, shipped.rules.repeated_times);
        assert_eq!(policy.rules.forbidden, shipped.rules.forbidden);
        let same = Policy::read("p.yaml", "thresholds: { no_progress: { quiet: 20m } }").unwrap();
        assert_eq!(same.responses.len(), shipped.responses.len());
        assert_eq!((same.rules.quiet_after, same.rules.idle_steps), (Duration::from_secs(1200), 15));
    }
}
