//! The same call with the same result, again and again, with no change and no word from a person in between. Whoever
//! waits before looking again is given longer.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    trajectory::{Trajectory, step::Step},
};

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let since = trajectory.fresh_seq();
    let steps: Vec<&Step> = trajectory.steps.since(since).collect();
    // One other call in between does not make it another behaviour.
    let alike = |one: &Step| {
        let times = if one.polls { rules.repeated_polls } else { rules.repeated_times };
        let window = steps.iter().take(times + times / 2);
        let all: Vec<&Step> = window.filter(|other| other.pair() == one.pair()).copied().collect();
        (all.len() >= times).then_some(all)
    };
    let all = steps.iter().take(3).find_map(|step| alike(step))?;
    let step = all.first()?;
    Some(Shown {
        key: step.pair()?,
        severity: FindingSeverity::Warning,
        seqs: all.iter().map(|step| step.seq).collect(),
        text: format!("the same call {} times, with the same result: {}", all.len(), step.title),
        since: all.last()?.at,
    })
}
