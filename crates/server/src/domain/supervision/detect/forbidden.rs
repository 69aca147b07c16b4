//! A command that the policy forbids, as it is about to be run.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{policy::Rules, shell, text::line, trajectory::Trajectory};

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let command = trajectory.command.as_ref().filter(|command| command.seq == trajectory.seq)?;
    let run = shell::commands(&command.text);
    let pattern = rules.forbidden.iter().find(|pattern| pattern.matches(&run))?;
    Some(Shown {
        key: command.seq.unsigned_abs(),
        severity: FindingSeverity::Critical,
        seqs: vec![command.seq],
        text: format!("{:?} is forbidden: {}", pattern.as_str(), line(&command.text, 200)),
        since: command.at,
    })
}
