//! What the judge said last, while it says that the agent has to be steered and nobody has spoken to the agent since.

use jiff::Timestamp;
use omoi_protocol::{FindingSeverity, SteeringType};

use super::Shown;
use crate::domain::supervision::{policy::Rules, trajectory::Trajectory};

pub fn look(trajectory: &Trajectory, _: &Rules, _: Timestamp) -> Option<Shown> {
    let (said, steering) = trajectory.judged.steering()?;
    if trajectory.told_seq > said.seq {
        return None;
    }
    let severity = match steering.kind {
        SteeringType::Guidance => FindingSeverity::Notice,
        SteeringType::Correction => FindingSeverity::Warning,
        SteeringType::Emergency => FindingSeverity::Critical,
    };
    Some(Shown {
        // From a hint to a correction is a new finding.
        key: steering.kind as u64,
        severity,
        seqs: vec![said.seq],
        text: steering.recommendation.clone(),
        since: said.at,
    })
}
