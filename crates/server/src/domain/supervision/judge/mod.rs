//! The judge: a model that is asked whether an agent keeps to its task, where the detectors are not sure or once in a
//! while. It does nothing by itself: what it says is an event of the run like any other, and the rules make of it what
//! they make of events.
//!
//! Here is when it is asked (`due`), in which words (`prompt`), and what counts as an answer (`answer`).

pub mod answer;
pub mod prompt;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{FindingKind, FindingSeverity, JudgementCause};
use serde::Deserialize;

use super::{
    detect::{DETECTORS, Detector},
    guard::Guard,
    policy::Policy,
    trajectory::{Phase, Trajectory},
};

/// The event by which a judgement, or its failure, stands on the sandbox's time line.
pub const EVENT: &str = "guardian.judgement";

/// Fewer calls tell nothing of a course.
const CALLS_MIN: u64 = 3;
/// After failures it is asked less and less often, but at least this often.
const WAIT_MAX: Duration = Duration::from_secs(3600);
const DOUBLINGS_MAX: u32 = 6;

/// When a project wants it to be asked.
#[derive(Debug, Clone, Copy)]
pub struct Judging {
    pub when: When,
    /// The least time between two questions about a sandbox.
    pub period: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    Off,
    /// Where a detector is not sure.
    Unsure,
    /// Then, and once a period.
    Period,
}

/// A question that is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub cause: JudgementCause,
    pub doubts: Vec<FindingKind>,
}

/// Whether it is to be asked now. `asked_at` is when it was asked last.
pub fn due(guard: &Guard, policy: &Policy, asked_at: Option<Timestamp>, now: Timestamp) -> Option<Due> {
    let (trajectory, judging) = (&guard.trajectory, &policy.judging);
    if judging.when == When::Off || !is_worth_it(trajectory) {
        return None;
    }
    let last = asked_at.max(trajectory.judged.at);
    if let Some(last) = last {
        let is_news = trajectory.pulse.worked_at.is_some_and(|worked| worked > last);
        if !is_news || passed(last, now) < wait(judging.period, trajectory.judged.failures) {
            return None;
        }
    }
    let doubts: Vec<FindingKind> =
        DETECTORS.iter().filter(|one| is_unsure(one, guard, policy, now)).map(|one| one.kind).collect();
    let is_time = || {
        let since = last.or(trajectory.began_at);
        judging.when == When::Period && since.is_some_and(|since| passed(since, now) >= judging.period)
    };
    match () {
        () if !doubts.is_empty() => Some(Due { cause: JudgementCause::Unsure, doubts }),
        () if is_time() => Some(Due { cause: JudgementCause::Period, doubts }),
        () => None,
    }
}

/// There is a course, and something that it can be held against.
fn is_worth_it(trajectory: &Trajectory) -> bool {
    matches!(trajectory.phase, Phase::Working | Phase::Waiting)
        && !trajectory.goal.is_empty()
        && trajectory.steps.completed >= CALLS_MIN
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(since).try_into().unwrap_or_default()
}

fn wait(period: Duration, failures: u32) -> Duration {
    let longer = period.saturating_mul(1 << failures.min(DOUBLINGS_MAX));
    longer.min(WAIT_MAX.max(period))
}

/// What it has found is a mere notice, or it would find something if its thresholds were a little nearer.
fn is_unsure(detector: &Detector, guard: &Guard, policy: &Policy, now: Timestamp) -> bool {
    let trajectory = &guard.trajectory;
    match detector.kind {
        // What the judge has said of it holds until it says something else.
        FindingKind::Misaligned => trajectory.judged.steering().is_some(),
        kind if guard.is_open(kind) => (detector.look)(trajectory, &policy.rules, now)
            .is_some_and(|shown| shown.severity == FindingSeverity::Notice),
        _ => (detector.look)(trajectory, &policy.near, now).is_some(),
    }
}
