//! Tests that check less than before. Judged once the next calls have had a chance to put back elsewhere what was taken
//! away; and left alone where the task itself asks for it.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    trajectory::{Phase, Trajectory},
};

/// Calls in which a test may be on its way from one file to another.
const STEPS: u64 = 3;

pub fn look(trajectory: &Trajectory, _: &Rules, _: Timestamp) -> Option<Shown> {
    let lost = trajectory.checks.lost.as_ref()?;
    let settled = trajectory.steps.completed >= lost.step + STEPS;
    let tried =
        trajectory.steps.iter().last().is_some_and(|step| step.test.is_some() && step.number > lost.step);
    let over = matches!(trajectory.phase, Phase::Waiting | Phase::Ended);
    if !(settled || tried || over) || is_wanted(&trajectory.goal) {
        return None;
    }
    Some(Shown {
        key: lost.seqs.first()?.unsigned_abs(),
        severity: FindingSeverity::Critical,
        seqs: lost.seqs.clone(),
        text: format!("{} checks less than before: {}", lost.path, trajectory.checks.missing()),
        since: trajectory.at,
    })
}

fn is_wanted(goal: &str) -> bool {
    let goal = goal.to_lowercase();
    let less = ["remove", "delete", "drop", "skip", "disable", "retire", "prune", "thin out"];
    goal.split(['.', '\n'])
        .any(|sentence| sentence.contains("test") && less.iter().any(|word| sentence.contains(word)))
}
