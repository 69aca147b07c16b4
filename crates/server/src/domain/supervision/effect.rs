//! What came of an intervention: whether the agent does otherwise once it has heard it. To be told is no change by itself,
//! so what counts is what follows: work that goes on, or calls that do not show the same again.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{FindingKind, InterventionId, SteeringEffect};

use super::{
    finding::News,
    guard::Guard,
    trajectory::{Phase, Progress},
};

/// So many calls without the finding are enough.
const CALLS: u64 = 20;
/// And so long is waited for them.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// An intervention that the agent has heard and of which it is not known yet what came of it.
#[derive(Debug, Clone)]
pub struct Heard {
    pub id: InterventionId,
    kind: FindingKind,
    seq: i64,
    at: Timestamp,
    step: u64,
}

impl Heard {
    /// The guard has just taken the event by which the agent heard it.
    pub fn new(id: InterventionId, kind: FindingKind, guard: &Guard) -> Self {
        let trajectory = &guard.trajectory;
        Self { id, kind, seq: trajectory.seq, at: trajectory.at, step: trajectory.steps.completed }
    }

    /// After each event and each look at the clock; `news` is what that brought.
    pub fn judge(&self, guard: &Guard, news: &[News], now: Timestamp) -> Option<(SteeringEffect, String)> {
        let again = news.iter().find_map(|one| match one {
            News::Found(finding) if finding.kind == self.kind => Some(finding.seq),
            _ => None,
        });
        if let Some(seq) = again {
            return Some((SteeringEffect::Unchanged, format!("found again by event {seq}")));
        }
        if self.kind == FindingKind::Misaligned {
            return self.judge_again(guard, now);
        }
        let (trajectory, open) = (&guard.trajectory, guard.is_open(self.kind));
        let calls = trajectory.steps.completed.saturating_sub(self.step);
        let worked = trajectory.work.filter(|mark| mark.seq > self.seq && !open);
        match () {
            () if trajectory.phase == Phase::Ended => Some(self.end(guard)),
            () if worked.is_some() => worked.map(|mark| {
                let what = match mark.what {
                    Progress::Content => "a change that is new",
                    Progress::Push => "a push",
                    Progress::Check | Progress::News => "a check that passed",
                };
                (SteeringEffect::Changed, format!("{what}, event {}", mark.seq))
            }),
            () if calls >= CALLS => Some(self.lasting(open, calls)),
            () if now.duration_since(self.at).unsigned_abs() >= PATIENCE => Some(match calls {
                0 if !open => (SteeringEffect::Unknown, "nothing was done since".to_owned()),
                _ => self.lasting(open, calls),
            }),
            () => None,
        }
    }

    /// Whether a course is another, nobody can tell but who told of it.
    fn judge_again(&self, guard: &Guard, now: Timestamp) -> Option<(SteeringEffect, String)> {
        let said = guard.trajectory.judged.last.as_ref().filter(|said| said.seq > self.seq);
        match (said, guard.trajectory.phase) {
            (_, Phase::Ended) => Some(self.end(guard)),
            (Some(said), _) if said.opinion.steering.is_none() => {
                Some((SteeringEffect::Changed, format!("judged to be on its course, event {}", said.seq)))
            }
            _ if now.duration_since(self.at).unsigned_abs() >= PATIENCE => {
                Some((SteeringEffect::Unknown, "nobody has judged it again".to_owned()))
            }
            _ => None,
        }
    }

    /// The run is over.
    pub fn end(&self, guard: &Guard) -> (SteeringEffect, String) {
        match (guard.is_open(self.kind), guard.trajectory.success) {
            (true, _) => (SteeringEffect::Unchanged, "the run ended with it".to_owned()),
            (false, Some(true)) => (SteeringEffect::Changed, "the run ended well".to_owned()),
            (false, _) => (SteeringEffect::Unknown, "the run ended before it could be told".to_owned()),
        }
    }

    fn lasting(&self, open: bool, calls: u64) -> (SteeringEffect, String) {
        match open {
            true => (SteeringEffect::Unchanged, format!("it goes on after {calls} calls")),
            false => (SteeringEffect::Changed, format!("{calls} calls without it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use omoi_protocol::{
        EventId, EventSource,
        event::{AgentFileEdited, AgentToolResult, AgentToolUse, Payload, StoredEvent},
    };
    use serde_json::json;

    use super::*;
    use crate::domain::supervision::{policy::Policy, trajectory::Charter};

    struct Run {
        guard: Guard,
        policy: Policy,
        heard: Option<Heard>,
        seq: i64,
    }

    impl Run {
        fn new() -> Self {
            let guard = Guard::new(Arc::new(Charter::default()));
            Self { guard, policy: Policy::shipped(), heard: None, seq: 0 }
        }

        fn take(&mut self, payload: impl Into<Payload>) -> Option<(SteeringEffect, String)> {
            let payload = payload.into();
            self.seq += 1;
            let event = StoredEvent {
                id: EventId(self.seq),
                sandbox_id: "sbx-1".parse().unwrap(),
                seq: self.seq,
                worker_seq: None,
                event_type: payload.event_type().to_owned(),
                event_data: payload.to_raw(),
                source: EventSource::Agent,
                created_at: Timestamp::from_second(1_000_000 + self.seq).unwrap(),
            };
            let news = self.guard.take(&event, &self.policy.rules);
            let now = self.guard.trajectory.at;
            self.heard.as_ref().and_then(|heard| heard.judge(&self.guard, &news, now))
        }

        fn call(&mut self, command: &str) -> Option<(SteeringEffect, String)> {
            let id = Some(format!("c{}", self.seq));
            let called = self.take(AgentToolUse {
                tool: Some("Bash".to_owned()),
                tool_use_id: id.clone(),
                input: Some(json!({ "command": command })),
                ..AgentToolUse::default()
            });
            let done = self.take(AgentToolResult {
                tool_use_id: id,
                result: Some(format!("{command}: the same")),
                ..AgentToolResult::default()
            });
            called.or(done)
        }

        fn told(&mut self) {
            self.take(omoi_protocol::event::AgentMessageInjected {
                message_type: Some("guardian_nudge".to_owned()),
                content: Some("look".to_owned()),
                ..Default::default()
            });
            self.heard =
                Some(Heard::new(InterventionId::generate(), FindingKind::RepeatedAction, &self.guard));
        }
    }

    #[test]
    fn one_that_does_the_same_again_has_not_changed() {
        let mut run = Run::new();
        (0..6).for_each(|_| assert_eq!(run.call("make"), None));
        assert!(run.guard.is_open(FindingKind::RepeatedAction));
        run.told();
        assert!(!run.guard.is_open(FindingKind::RepeatedAction), "to be told makes a new beginning");
        let verdict = (0..10).find_map(|_| run.call("make"));
        assert_eq!(verdict, Some((SteeringEffect::Unchanged, "found again by event 23".to_owned())));
    }

    #[test]
    fn one_that_changes_something_or_does_other_things_for_long_has() {
        let mut run = Run::new();
        (0..6).for_each(|_| assert_eq!(run.call("make"), None));
        run.told();
        assert_eq!(run.call("ls"), None);
        let mut other = Run { guard: run.guard.clone(), policy: Policy::shipped(), ..run };
        let edit = AgentFileEdited {
            file_path: Some("a.py".to_owned()),
            diff_preview: Some("+x".to_owned()),
            ..AgentFileEdited::default()
        };
        assert_eq!(other.take(edit).map(|(effect, _)| effect), Some(SteeringEffect::Changed));
        let mut long = Run { guard: other.guard.clone(), policy: Policy::shipped(), ..other };
        long.told();
        let verdict = (0..25).find_map(|n| long.call(&format!("cat {n}")));
        assert_eq!(verdict, Some((SteeringEffect::Changed, "20 calls without it".to_owned())));
    }

    #[test]
    fn silence_tells_nothing() {
        let mut run = Run::new();
        run.told();
        let heard = run.heard.clone().unwrap();
        let later = |minutes: i64| run.guard.trajectory.at + jiff::SignedDuration::from_mins(minutes);
        assert_eq!(heard.judge(&run.guard, &[], later(29)), None);
        let verdict = heard.judge(&run.guard, &[], later(30)).map(|(effect, _)| effect);
        assert_eq!(verdict, Some(SteeringEffect::Unknown));
    }
}
