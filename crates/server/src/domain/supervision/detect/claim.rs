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

/// Who admits that something does not work claims nothing, whatever else is said.
fn claim(text: &str) -> Claim {
    const ADMITS: [&str; 22] = [
        "still fail",
        " fails",
        "failing",
        "could not",
        "couldn't",
        "cannot",
        "can't",
        "unable",
        "not fixed",
        "not pass",
        "n't pass",
        "do not",
        "does not",
        "doesn't",
        "did not",
        "didn't",
        "not work",
        "task failed",
        "incomplete",
        "unfinished",
        "not yet",
        "remains broken",
    ];
    const OPEN: [&str; 8] = ["should ", "would ", "will ", "if ", "once ", "until ", "to make ", "let me"];
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
    let text = text.to_lowercase();
    let has = |sentence: &str, words: &[&str]| words.iter().any(|word| sentence.contains(word));
    if has(&text, &ADMITS) {
        return Claim::No;
    }
    let sentences =
        text.split(['.', '!', '\n', ';']).filter(|sentence| !has(sentence, &OPEN) && !sentence.contains('?'));
    let judged = sentences.map(|sentence| {
        let about_tests = has(sentence, &["test", "suite", "check", "build"]);
        match () {
            () if about_tests && has(sentence, &GOOD) => Claim::Tests,
            () if has(sentence, &DONE) => Claim::Success,
            () => Claim::No,
        }
    });
    judged.max_by_key(|claim| *claim as u8).unwrap_or(Claim::No)
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
        ];
        for (text, expected) in table {
            assert_eq!(claim(text), expected, "{text}");
        }
    }
}
