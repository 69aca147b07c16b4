//! What a person said is not followed: a file is changed that was to be left alone, the agent goes on after a bare
//! "stop", or nothing that it says or does takes up a word of what it was told.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    text::line,
    trajectory::{Trajectory, instruction::Instruction},
};

/// Calls after a bare "stop" that may have been under way.
const CALLS_AFTER_STOP: u32 = 3;

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    trajectory.instructions.iter().rev().find_map(|one| judge(one, trajectory, rules))
}

fn judge(one: &Instruction, trajectory: &Trajectory, rules: &Rules) -> Option<Shown> {
    let said = line(&one.text, 160);
    let (severity, seq, text) = match one.broken {
        Some(seq) => (
            FindingSeverity::Critical,
            seq,
            format!("the agent changed a file that it was told to leave alone: {said}"),
        ),
        None if one.stop && one.calls_after >= CALLS_AFTER_STOP => {
            let text = format!("it was told to stop and made {} calls since", one.calls_after);
            (FindingSeverity::Critical, trajectory.seq, text)
        }
        None if !one.stop && !one.is_heard() && one.calls_after as usize >= rules.instruction_calls => {
            let text = format!(
                "none of the agent's {} tool calls since then refers to the instruction: {said}",
                one.calls_after
            );
            (FindingSeverity::Warning, trajectory.seq, text)
        }
        None => return None,
    };
    // Once it is followed it is over; what was done cannot be undone by a later word.
    let key = one.seq.unsigned_abs() << 1 | u64::from(one.broken.is_some());
    Some(Shown { key, severity, seqs: vec![one.seq, seq], text, since: one.at })
}
