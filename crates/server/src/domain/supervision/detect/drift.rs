//! Changes outside of the files that the task declares. Files that follow from others (locks, lists of what to ignore)
//! are the policy's to allow; a file that holds again what it held is no longer changed.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::{
    footprint::covers,
    supervision::{policy::Rules, trajectory::Trajectory},
};

/// So many are more than a slip.
const MANY: usize = 3;
const NAMED: usize = 5;

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let changed = trajectory.files.iter().filter(|file| file.outside && !file.is_restored());
    let outside: Vec<_> = changed.filter(|file| !covers(&rules.drift_allowed, &file.path)).collect();
    let first = outside.iter().min_by_key(|file| file.first_seq)?;
    let names: Vec<&str> = outside.iter().take(NAMED).map(|file| file.path.as_str()).collect();
    let declared = trajectory.charter.owned_files.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let severity = if outside.len() >= MANY { FindingSeverity::Warning } else { FindingSeverity::Notice };
    Some(Shown {
        // From a slip to a habit is a new finding.
        key: u64::from(outside.len() >= MANY),
        severity,
        seqs: outside.iter().map(|file| file.first_seq).collect(),
        text: format!("{} changed, and the task declares {declared}", names.join(", ")),
        since: first.first_at,
    })
}
