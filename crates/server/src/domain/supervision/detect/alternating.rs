//! Two or three calls in turn, each with the same result every time. Polling and changes of files are judged elsewhere.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    trajectory::{Trajectory, step::Step},
};

const PERIODS: [usize; 2] = [2, 3];

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let most = rules.alternating_rounds * PERIODS[1];
    let steps: Vec<&Step> = trajectory.steps.since(trajectory.fresh_seq()).take(most).collect();
    PERIODS.iter().find_map(|period| cycle(&steps, *period, rules.alternating_rounds))
}

/// Newest first.
fn cycle(steps: &[&Step], period: usize, rounds: usize) -> Option<Shown> {
    let steps = steps.get(..period * rounds)?;
    let turns = steps.iter().zip(&steps[period..]).all(|(a, b)| a.pair() == b.pair());
    let round = &steps[..period];
    let differ = round.iter().enumerate().all(|(at, a)| round[..at].iter().all(|b| a.pair() != b.pair()));
    if !turns || !differ || round.iter().any(|step| step.polls || step.edits) {
        return None;
    }
    let titles: Vec<&str> = round.iter().rev().map(|step| step.title.as_str()).collect();
    Some(Shown {
        // The same for whichever call of the round is the last.
        key: round.iter().filter_map(|step| step.pair()).fold(0, u64::wrapping_add),
        severity: FindingSeverity::Warning,
        seqs: steps.iter().map(|step| step.seq).collect(),
        text: format!(
            "{period} calls in turn, {rounds} times, with the same results: {}",
            titles.join(", then ")
        ),
        since: steps.last()?.at,
    })
}
