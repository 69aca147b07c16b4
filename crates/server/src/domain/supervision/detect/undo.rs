//! A file that goes back and forth between contents that it has had. To take one change back is no such thing.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{policy::Rules, text::hash, trajectory::Trajectory};

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let file = trajectory.files.iter().find(|file| file.returns as usize >= rules.undo_times)?;
    Some(Shown {
        key: hash(&file.path),
        severity: FindingSeverity::Warning,
        seqs: file.seqs().collect(),
        text: format!("{} went back {} times to what it had held before", file.path, file.returns),
        since: file.first_at,
    })
}
