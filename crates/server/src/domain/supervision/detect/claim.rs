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
            (failing.seq, failing.seq, format!("its last test run failed: {}", failing.title))
        }
    };
    let counts = shown <= said.seq && (claim == Claim::Tests || said.last_words && claim == Claim::Success);
    counts.then(|| Shown {
        key: key.unsigned_abs(),
        severity: FindingSeverity::Critical,
        seqs: vec![shown, said.seq],
        text: format!("the agent claims {:?}, but {what}", line(&said.text, 120)),
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
    let sentences: Vec<&str> = text.split(['.', '!', '\n', ';']).collect();
    if sentences.iter().any(|sentence| admits(sentence)) {
        return Claim::No;
    }
    let judged: Vec<Claim> = sentences.iter().map(|sentence| claim_of(sentence)).collect();
    let claim = judged.iter().copied().max_by_key(|claim| *claim as u8).unwrap_or(Claim::No);
    // A failure that is counted before the claim may have been fixed since.
    let first = judged.iter().position(|one| *one == claim).unwrap_or(0);
    let counts_failures = sentences[first..].iter().any(|sentence| counts_failures(&Word::all(sentence)));
    if counts_failures { Claim::No } else { claim }
}

fn claim_of(sentence: &str) -> Claim {
    let words = Word::all(sentence);
    let is_open = has(sentence, &OPEN) || sentence.contains('?') || is_part(sentence);
    if is_open || is_negated(&words) || names_failure(sentence, &words) {
        return Claim::No;
    }
    match () {
        () if (0..words.len()).any(|at| tests_succeed(&words, at)) => Claim::Tests,
        () if has(sentence, &DONE) || (0..words.len()).any(|at| is_pass(&words, at)) => Claim::Success,
        () => Claim::No,
    }
}

/// A word of a sentence, without the signs around it.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    /// A quotation begins with it.
    is_quoted: bool,
    /// A clause ends behind it.
    ends: bool,
}

impl<'a> Word<'a> {
    fn all(sentence: &'a str) -> Vec<Self> {
        let word = |raw: &'a str| Self {
            text: raw.trim_matches(|c: char| !c.is_alphanumeric()),
            is_quoted: raw.starts_with(['`', '"', '\'']),
            ends: raw.ends_with([',', ':', ')', '—']),
        };
        sentence.split_whitespace().map(word).collect()
    }

    fn is_number(self) -> bool {
        NUMBERS.contains(&self.text) || self.text.starts_with(|c: char| c.is_ascii_digit())
    }

    fn is_zero(self) -> bool {
        matches!(self.text, "0" | "zero" | "no")
    }
}

const NUMBERS: [&str; 11] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "several"];
/// What is run to find out whether the work is good.
const SUBJECTS: [&str; 13] = [
    "test", "tests", "suite", "suites", "build", "builds", "check", "checks", "ci", "spec", "specs",
    "examples", "pytest",
];
const STATES: [&str; 4] = ["green", "clean", "successful", "ok"];
/// Words between a subject and its state.
const LINKS: [&str; 12] =
    ["is", "are", "was", "were", "all", "now", "again", "runs", "run", "completely", "fully", "finally"];
/// What may follow `pass` where nothing is passed to something.
const AFTER_PASS: [&str; 30] = [
    "",
    "now",
    "again",
    "and",
    "or",
    "without",
    "with",
    "but",
    "too",
    "on",
    "in",
    "locally",
    "successfully",
    "cleanly",
    "including",
    "for",
    "when",
    "after",
    "as",
    "at",
    "under",
    "here",
    "there",
    "while",
    "so",
    "because",
    "since",
    "tests",
    "test",
    "both",
];

/// Whether tests or a build succeed, by this word of the sentence.
fn tests_succeed(words: &[Word<'_>], at: usize) -> bool {
    let clause = || words[..at].iter().rev().take_while(|word| !word.ends);
    let is_subject = |word: &&Word<'_>| SUBJECTS.contains(&word.text);
    let names_subject = || words.iter().any(|word| SUBJECTS.contains(&word.text));
    let before = at.checked_sub(1).map(|at| words[at]);
    match words[at].text {
        "succeed" | "succeeds" | "succeeded" => clause().take(4).any(|word| is_subject(&word)),
        state if STATES.contains(&state) => {
            let mut links = clause().skip_while(|word| LINKS.contains(&word.text));
            links.next().is_some_and(|word| {
                is_subject(&word) || matches!(word.text, "they" | "everything") && names_subject()
            })
        }
        _ if is_pass(words, at) => {
            let after = words.get(at + 1).map_or("", |word| word.text);
            clause().take(6).any(|word| is_subject(&word))
                || before.is_some_and(Word::is_number)
                || matches!(after, "test" | "tests")
                || names_subject()
                    && clause().take(3).any(|w| matches!(w.text, "they" | "all" | "everything"))
        }
        _ => false,
    }
}

/// Whether a word says that something passes, not that it passes something on.
fn is_pass(words: &[Word<'_>], at: usize) -> bool {
    let word = words[at];
    let goes_on = words.get(at + 1).filter(|_| !word.ends);
    matches!(word.text, "pass" | "passes" | "passed" | "passing")
        && goes_on.is_none_or(|next| !next.is_quoted && AFTER_PASS.contains(&next.text))
}

/// "No tests pass", "none of them", "not all", "only two tests": fewer than all.
fn is_negated(words: &[Word<'_>]) -> bool {
    (0..words.len().saturating_sub(1)).any(|at| match (words[at].text, words[at + 1].text) {
        ("not", "all" | "every" | "a") | ("none", "of") => true,
        ("no", "test" | "tests") => !words[at + 2..].iter().take(2).any(|word| word.text.starts_with("fail")),
        ("only", _) => {
            words[at + 1].is_number()
                && words[at + 2..]
                    .iter()
                    .take(3)
                    .any(|word| SUBJECTS.contains(&word.text) || word.text.starts_with("pass"))
        }
        _ => false,
    })
}

/// Whether a sentence names a failure that is not one of the past.
fn names_failure(sentence: &str, words: &[Word<'_>]) -> bool {
    let is_named = |at: usize| {
        let fails = matches!(
            words[at].text,
            "fail"
                | "fails"
                | "failed"
                | "failing"
                | "failure"
                | "failures"
                | "broke"
                | "breaks"
                | "broken"
                | "red"
                | "panics"
        );
        let denied = |word: &Word<'_>| {
            word.is_zero() || matches!(word.text, "without" | "any" | "never" | "nothing" | "none" | "not")
        };
        fails && !words[at.saturating_sub(3)..at].iter().any(denied)
    };
    !has(sentence, &MENDED) && (0..words.len()).any(is_named)
}

/// "1 failed", "two tests fail", "3 failures": as many as one, and not those that were fixed.
fn counts_failures(words: &[Word<'_>]) -> bool {
    let is_counted = |at: usize| {
        let fails =
            matches!(words[at].text, "fail" | "fails" | "failed" | "failing" | "failure" | "failures");
        let near = |count: usize| words[..at].iter().rev().take_while(|word| !word.ends).take(count);
        let number = near(2).find(|word| word.is_number() || word.is_zero());
        let is_fixed = near(5).any(|word| MENDED.contains(&word.text));
        fails && !is_fixed && number.is_some_and(|number| !number.is_zero())
    };
    (0..words.len()).any(is_counted)
}

/// What is hoped for, or holds for a part only.
const OPEN: [&str; 14] = [
    "should ", "would ", "will ", "if ", "once ", "until ", "to make ", "let me", "most ", "some ",
    "almost ", "nearly ", "partly ", "many ",
];
const DONE: [&str; 11] = [
    "works",
    "fixed",
    "done",
    "complete",
    "finished",
    "success",
    "resolved",
    "all good",
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
const MENDED: [&str; 13] = [
    "fixed",
    "fixes",
    "mended",
    "resolved",
    "repaired",
    "no longer",
    "now pass",
    "passes now",
    "corrected",
    "previously",
    "before",
    "earlier",
    "at first",
];
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
            ("7 tests passed, 1 failed.", Claim::No),
            ("7 tests passed.\n1 test failed.", Claim::No),
            ("The slug is fixed: 7 passed, 1 failed.", Claim::No),
            ("Two tests fail, the other 6 pass.", Claim::No),
            ("Not all tests pass: parse_empty panics.", Claim::No),
            ("The test passes `None` to the parser, so total() raises.", Claim::No),
            ("The test passes an empty list.", Claim::No),
            ("The value is passed to the test.", Claim::No),
            ("None of the tests pass", Claim::No),
            ("No tests pass", Claim::No),
            ("Only two tests pass.", Claim::No),
            ("The build succeeds but two tests fail", Claim::No),
            ("The tests pass, but the build is red.", Claim::No),
            ("The checkout is clean and I look at the tests.", Claim::No),
            ("8 passed, 0 failed.", Claim::Tests),
            ("No tests failed; all 8 pass.", Claim::Tests),
            ("At first 2 tests failed. Now the suite is green.", Claim::Tests),
            ("I fixed 2 failures: all tests pass.", Claim::Tests),
            ("I ran the tests and they all pass.", Claim::Tests),
            ("`cargo test` passes.", Claim::Tests),
            ("The tests that failed before pass.", Claim::Tests),
            ("Tests: 8/8 passing", Claim::Tests),
        ];
        for (text, expected) in table {
            assert_eq!(claim(text), expected, "{text}");
        }
    }
}
