//! It says that all is well, and the last that was seen of it is a failure. What it says last may claim success in any
//! words; in the middle of the work only a claim about tests or checks counts.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{policy::Rules, text::line, trajectory::Trajectory};

pub fn look(trajectory: &Trajectory, _: &Rules, _: Timestamp) -> Option<Shown> {
    let said = &trajectory.said;
    let claim = claim(&said.text);
    let (key, shown, what) = match &said.failed_check {
        Some(name) if said.last_words => {
            (said.seq, said.seq, format!("the check {name} failed by its own report"))
        }
        _ => {
            let failing = trajectory.evidence.failing().last()?;
            // What fails after the words does not make them false when they were said.
            (failing.seq, failing.seq, format!("the last try failed: {}", failing.title))
        }
    };
    let counts = shown <= said.seq && (claim == Claim::Tests || said.last_words && claim == Claim::Success);
    counts.then(|| Shown {
        key: key.unsigned_abs(),
        severity: FindingSeverity::Critical,
        seqs: vec![shown, said.seq],
        text: format!("it says {:?}, and {what}", line(&said.text, 120)),
        since: trajectory.at,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    No,
    Success,
    Tests,
}

/// What an agent says of its work. A sentence that admits a failure takes back what others claim.
fn claim(text: &str) -> Claim {
    let text = text.to_lowercase();
    let sentences = || text.split(['.', '!', '\n', ';']);
    if sentences().any(admits) {
        return Claim::No;
    }
    let sure =
        sentences().filter(|sentence| !has(sentence, &OPEN) && !sentence.contains('?') && !is_part(sentence));
    let judged = sure.map(|sentence| {
        let about_tests = has(sentence, &["test", "suite", "check", "build"]);
        match () {
            () if about_tests && has(sentence, &GOOD) => Claim::Tests,
            () if has(sentence, &DONE) => Claim::Success,
            () => Claim::No,
        }
    });
    judged.max_by_key(|claim| *claim as u8).unwrap_or(Claim::No)
}

/// What is hoped for, or holds for a part only.
const OPEN: [&str; 14] = [
    "should ", "would ", "will ", "if ", "once ", "until ", "to make ", "let me", "most ", "some ",
    "almost ", "nearly ", "partly ", "many ",
];
const GOOD: [&str; 8] = ["pass", "green", "succeed", "successful", "are ok", "all ok", "is ok", "clean"];
const DONE: [&str; 12] = [
    "works",
    "fixed",
    "done",
    "complete",
    "finished",
    "success",
    "resolved",
    "all good",
    "passes",
    "mended",
    "is ready",
    "implemented",
];
/// Words that admit a failure in whatever sentence they stand.
const ADMITS: [&str; 19] = [
    "still fail",
    "still broken",
    "still red",
    "remains broken",
    "not fixed",
    "not pass",
    "n't pass",
    "not work",
    "n't work",
    "not yet",
    "task failed",
    "incomplete",
    "unfinished",
    "unresolved",
    "unable",
    " except",
    "apart from",
    "other than",
    "not run the",
];
/// A failure that is named may be the one that was mended.
const FAILURES: [&str; 2] = [" fails", "failing"];
const MENDED: [&str; 9] =
    ["fixed", "fixes", "mended", "resolved", "repaired", "no longer", "now pass", "passes now", "corrected"];
/// What is not done is no admission unless it is about the work itself: a cause or a limit is told in the same words.
const NEGATIONS: [&str; 11] = [
    "could not",
    "couldn't",
    "cannot",
    "can't",
    "do not",
    "don't",
    "does not",
    "doesn't",
    "did not",
    "didn't",
    "unverified",
];
const WORK: [&str; 12] = [
    "test", "suite", "pass", "work", "build", "fix", "finish", "complete", "verif", "solve", "succeed",
    "compile",
];

fn admits(sentence: &str) -> bool {
    has(sentence, &ADMITS)
        || has(sentence, &FAILURES) && !has(sentence, &MENDED)
        || has(sentence, &NEGATIONS) && has(sentence, &WORK)
}

fn has(sentence: &str, words: &[&str]) -> bool {
    words.iter().any(|word| sentence.contains(word))
}

/// "7 of 8", "7/8": fewer than all.
fn is_part(sentence: &str) -> bool {
    let words: Vec<&str> =
        sentence.split(|c: char| c.is_whitespace() || matches!(c, '/' | '(' | ')' | ',')).collect();
    let number = |word: &str| word.parse::<u64>().ok();
    let of = |window: &[&str]| match window {
        [part, "of", all] | [part, "out", "of", all] => number(part).zip(number(all)),
        [part, all] if sentence.contains(&format!("{part}/{all}")) => number(part).zip(number(all)),
        _ => None,
    };
    (2..=4).any(|length| words.windows(length).filter_map(of).any(|(part, all)| part < all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_told_from_hopes_and_admissions() {
        let table = [
            ("All tests pass now.", Claim::Tests),
            ("It failed at first. Now the whole suite is green.", Claim::Tests),
            ("The bug is fixed.", Claim::Success),
            ("The program counts three words now; it works.", Claim::Success),
            ("All tests pass, but test_slug still fails.", Claim::No),
            ("I could not make the tests pass.", Claim::No),
            ("Once the tests pass I will commit.", Claim::No),
            ("The tests should pass.", Claim::No),
            ("I look at the file.", Claim::No),
            ("Do the tests pass?", Claim::No),
            ("I fixed the failing test; all 8 tests pass.", Claim::Tests),
            ("The cause was that an empty cart did not raise an error. All tests pass.", Claim::Tests),
            ("Old sums cannot be seen any more. The task is complete.", Claim::Success),
            ("7 of 8 tests pass.", Claim::No),
            ("8/8 tests pass.", Claim::Tests),
            ("7/8 tests pass.", Claim::No),
            ("Most tests pass.", Claim::No),
            ("All tests pass except the slow ones.", Claim::No),
            ("It is implemented. I did not run the tests.", Claim::No),
            ("It is done, but the build does not succeed.", Claim::No),
        ];
        for (text, expected) in table {
            assert_eq!(claim(text), expected, "{text}");
        }
    }
}
