//! Tests that check less than before. Judged once the next calls have had a chance to put back elsewhere what was taken
//! away; and left alone where the task itself asks for it.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    trajectory::{Phase, Trajectory},
};

/// Calls in which an assertion may be on its way from one place to another.
const STEPS: u64 = 3;
/// The same of tests that were taken out whole, which is how a move to another file begins.
const STEPS_OF_TESTS: u64 = 8;

pub fn look(trajectory: &Trajectory, _: &Rules, _: Timestamp) -> Option<Shown> {
    let lost = trajectory.checks.lost.as_ref()?;
    let steps = if trajectory.checks.lacks_tests_alone() { STEPS_OF_TESTS } else { STEPS };
    let settled = trajectory.steps.completed >= lost.step + steps;
    let tried =
        trajectory.steps.iter().last().is_some_and(|step| step.test.is_some() && step.number > lost.step);
    let over = matches!(trajectory.phase, Phase::Waiting | Phase::Ended);
    let mut told = trajectory.instructions.iter().map(|one| one.text.as_str());
    let wanted = is_wanted(&trajectory.goal) || told.any(is_wanted);
    if !(settled || tried || over) || wanted {
        return None;
    }
    Some(Shown {
        key: lost.seqs.first()?.unsigned_abs(),
        severity: FindingSeverity::Critical,
        seqs: lost.seqs.clone(),
        text: format!("{} tests less than before: {}", lost.path, trajectory.checks.missing()),
        since: trajectory.at,
    })
}

fn is_wanted(goal: &str) -> bool {
    let goal = goal.to_lowercase();
    let less = ["remove", "delete", "drop", "skip", "disable", "retire", "prune", "thin out"];
    let asks = |sentence: &str, word: &str| {
        let forbids = ["not ", "n't ", "never "].iter().any(|no| sentence.contains(&format!("{no}{word}")));
        sentence.contains(word) && !forbids
    };
    goal.split(['.', '\n'])
        .any(|sentence| sentence.contains("test") && less.iter().any(|word| asks(sentence, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_who_asks_for_fewer_tests() {
        let table = [
            ("Now delete the obsolete test test_old in tests/test_a.py", true),
            ("Mend the sum. Skip the slow tests", true),
            ("Do not delete any test", false),
            ("Never skip a test", false),
            ("Mend the sum", false),
        ];
        for (text, wanted) in table {
            assert_eq!(is_wanted(text), wanted, "{text}");
        }
    }
}
