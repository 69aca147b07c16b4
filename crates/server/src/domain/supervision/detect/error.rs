//! One error that several tries have not changed: other calls, or changes of files in between.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{policy::Rules, trajectory::Trajectory};

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let stubborn = trajectory.troubles.iter().rev();
    let one = stubborn.filter(|one| one.tried).find(|one| one.times as usize >= rules.error_times)?;
    Some(Shown {
        key: one.error,
        severity: FindingSeverity::Warning,
        seqs: one.seqs.clone(),
        text: format!("the same error {} times, whatever was tried: {}", one.times, one.text),
        since: one.since,
    })
}
