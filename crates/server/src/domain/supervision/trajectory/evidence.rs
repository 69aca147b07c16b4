//! What was seen to fail and not seen to pass since.

use super::{
    super::text::{hash, line},
    step::{Step, Test},
};

const FAILING_MAX: usize = 8;
const TITLE_CHARS: usize = 120;

#[derive(Debug, Clone)]
pub struct Failing {
    pub seq: i64,
    pub title: String,
    runner: u64,
    targets: Vec<u64>,
    /// It was run by something that runs other runners.
    is_wrapped: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    failing: Vec<Failing>,
}

impl Evidence {
    /// A command that tries whether things work has ended.
    pub fn tried(&mut self, step: &Step, test: &Test, text: &str, failed: bool) {
        let failed = failed || tells_failure(text);
        self.record(step.seq, &step.title, test.runner, &test.targets, failed);
        match failed {
            true => self.failing.last_mut().into_iter().for_each(|last| last.is_wrapped = test.is_wrapper),
            // All tests pass, so what ran them by another name would pass too.
            false if test.targets.is_empty() => self.failing.retain(|old| !old.is_wrapped),
            false => {}
        }
    }

    /// A program that the agent has written was run.
    pub fn ran(&mut self, step: &Step, file: u64, failed: bool) {
        self.record(step.seq, &step.title, file, &[], failed);
    }

    pub fn checked(&mut self, name: &str, passed: bool, seq: i64) {
        self.record(seq, &format!("the check {name}"), hash(name), &[], !passed);
    }

    /// The newest last.
    pub fn failing(&self) -> &[Failing] {
        &self.failing
    }

    fn record(&mut self, seq: i64, title: &str, runner: u64, targets: &[u64], failed: bool) {
        let about = |old: &Failing| {
            let apart = !old.targets.is_empty() && !targets.is_empty();
            old.runner == runner && (!apart || old.targets.iter().any(|one| targets.contains(one)))
        };
        self.failing.retain(|old| !about(old));
        if !failed {
            return;
        }
        if self.failing.len() == FAILING_MAX {
            self.failing.remove(0);
        }
        self.failing.push(Failing {
            seq,
            title: line(title, TITLE_CHARS),
            runner,
            targets: targets.to_vec(),
            is_wrapped: false,
        });
    }

    pub fn heap_bytes(&self) -> usize {
        let one = |one: &Failing| one.title.capacity() + one.targets.capacity() * size_of::<u64>();
        self.failing.capacity() * size_of::<Failing>() + self.failing.iter().map(one).sum::<usize>()
    }
}

/// What runners of tests write when some fail, for whoever has lost their exit code in a pipe.
fn tells_failure(text: &str) -> bool {
    text.lines().rev().take(40).any(|line| {
        let line = line.trim();
        let begins = ["FAILED", "FAILURES!", "test result: FAILED", "FAIL\t", "--- FAIL", "Failed!"];
        let is_tap = line.starts_with("not ok ") && !line.contains("# TODO") && !line.contains("# SKIP");
        begins.iter().any(|begin| line.starts_with(begin))
            || is_tap
            || line.contains("BUILD FAILURE")
            || line.contains("BUILD FAILED")
            || [" failed", " failure", " failing"].iter().any(|word| counted_before(line, word))
            || line.contains("Tests")
                && ["Failures: ", "Errors: "].iter().any(|word| counted_after(line, word))
    })
}

fn counted_before(line: &str, word: &str) -> bool {
    let number =
        line.split_once(word).and_then(|(before, _)| before.rsplit(|c: char| !c.is_ascii_digit()).next());
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|count| count > 0)
}

fn counted_after(line: &str, word: &str) -> bool {
    let number =
        line.split_once(word).and_then(|(_, after)| after.split(|c: char| !c.is_ascii_digit()).next());
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_although_the_exit_code_is_lost() {
        let failures = [
            "E\n\nRan 3 tests\n\nFAILED (failures=1)",
            "== 2 failed, 1 passed in 0.1s ==",
            "8 examples, 1 failure",
            "  5 passing (12ms)\n  2 failing",
            "[ERROR] Tests run: 8, Failures: 1, Errors: 0, Skipped: 0",
            "[INFO] BUILD FAILURE",
            "FAILURES!\nTests: 8, Assertions: 8, Failures: 1.",
            "Failed!  - Failed:     1, Passed:     7",
            "1..2\nok 1\nnot ok 2 - adds",
        ];
        for text in failures {
            assert!(tells_failure(text), "{text}");
        }
        let passes = [
            "== 0 failed, 3 passed ==",
            "Ran 3 tests in 0.1s\n\nOK",
            "8 examples, 0 failures",
            "[INFO] Tests run: 8, Failures: 0, Errors: 0, Skipped: 0",
            "Passed!  - Failed:     0, Passed:     8",
            "ok 1\nnot ok 2 # TODO later",
        ];
        for text in passes {
            assert!(!tells_failure(text), "{text}");
        }
    }
}
