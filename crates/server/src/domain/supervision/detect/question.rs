//! The agent has halted with a question, and nobody answers; or it has ended with one.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    text::line,
    trajectory::{Phase, Trajectory},
};

pub fn look(trajectory: &Trajectory, rules: &Rules, now: Timestamp) -> Option<Shown> {
    let question = trajectory.question.as_ref()?;
    let waits = now.duration_since(question.at).unsigned_abs();
    let ended = trajectory.phase == Phase::Ended;
    if !ended && (trajectory.phase != Phase::Waiting || waits < rules.question_after) {
        return None;
    }
    let how = if ended { "it ended with a question" } else { "it waits for an answer" };
    Some(Shown {
        key: question.seq.unsigned_abs(),
        severity: FindingSeverity::Warning,
        seqs: vec![question.seq],
        text: format!("{how}: {}", line(&question.text, 240)),
        since: question.at,
    })
}
