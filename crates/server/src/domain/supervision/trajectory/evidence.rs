//! What was seen to fail and not seen to pass since.

use super::{
    super::text::{hash, line},
    step::{Exit, Step, Test},
};

const FAILING_MAX: usize = 8;
const TITLE_CHARS: usize = 120;

#[derive(Debug, Clone)]
pub struct Failing {
    pub seq: i64,
    pub title: String,
    runner: u64,
    targets: Vec<u64>,
    by: By,
}

/// What has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Runner,
    /// Something that runs other runners.
    Wrapper,
    /// A compiler or a linter.
    Lint,
    /// A program that the agent has written.
    Program,
    /// A check of the platform.
    Check,
}

#[derive(Debug, Clone, Default)]
pub struct Evidence {
    failing: Vec<Failing>,
}

impl Evidence {
    /// A command that tries whether things work has ended. Nothing is recorded where it does not show how.
    pub fn tried(&mut self, step: &Step, test: &Test, text: &str, failed: bool) {
        let Some(failed) = has_failed(test, text, failed) else { return };
        let by = match () {
            () if test.is_lint => By::Lint,
            () if test.is_wrapper => By::Wrapper,
            () => By::Runner,
        };
        self.record(step.seq, &step.title, test.runner, &test.targets, failed.then_some(by));
        // All tests pass, so what ran them by another name would pass too, and what is built for them is built. A program
        // that was to show a fault has shown it.
        if !failed && by != By::Lint && test.targets.is_empty() {
            self.failing.retain(|old| matches!(old.by, By::Runner | By::Check));
        }
    }

    /// A program that the agent has written was run.
    pub fn ran(&mut self, step: &Step, file: u64, failed: bool) {
        self.record(step.seq, &step.title, file, &[], failed.then_some(By::Program));
    }

    pub fn checked(&mut self, name: &str, passed: bool, seq: i64) {
        self.record(seq, &format!("the check {name}"), hash(name), &[], (!passed).then_some(By::Check));
    }

    /// The newest last.
    pub fn failing(&self) -> &[Failing] {
        &self.failing
    }

    fn record(&mut self, seq: i64, title: &str, runner: u64, targets: &[u64], failed: Option<By>) {
        let about = |old: &Failing| {
            let apart = !old.targets.is_empty() && !targets.is_empty();
            old.runner == runner && (!apart || old.targets.iter().any(|one| targets.contains(one)))
        };
        self.failing.retain(|old| !about(old));
        let Some(by) = failed else { return };
        if self.failing.len() == FAILING_MAX {
            self.failing.remove(0);
        }
        self.failing.push(Failing {
            seq,
            title: line(title, TITLE_CHARS),
            runner,
            targets: targets.to_vec(),
            by,
        });
    }

    pub fn heap_bytes(&self) -> usize {
        let one = |one: &Failing| one.title.capacity() + one.targets.capacity() * size_of::<u64>();
        self.failing.capacity() * size_of::<Failing>() + self.failing.iter().map(one).sum::<usize>()
    }
}

/// None where neither the exit code nor the text says it.
fn has_failed(test: &Test, text: &str, failed: bool) -> Option<bool> {
    let told = tells_failure(text);
    match test.exit {
        Exit::Own => Some(failed || told == Some(true)),
        Exit::Guards if !failed => Some(told == Some(true)),
        Exit::Searched if is_empty(text) => Some(false),
        Exit::Lost if test.is_lint && is_empty(text) && !failed => Some(false),
        Exit::Guards | Exit::Searched | Exit::Lost => told,
    }
}

fn is_empty(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| {
        line.is_empty() || line.starts_with("[exit code") || matches!(line, "(no output)" | "no output")
    })
}

/// Whether some tests fail, by the lines in which a runner sums up; none where there is no such line.
fn tells_failure(text: &str) -> Option<bool> {
    let newest = || text.lines().rev().take(40).map(str::trim);
    let is_built =
        || newest().find(|line| !line.is_empty()).is_some_and(|line| line.starts_with("Finished "));
    match () {
        () if newest().any(sums_up_failure) => Some(true),
        () if newest().any(sums_up_success) || is_built() => Some(false),
        () => None,
    }
}

fn sums_up_failure(line: &str) -> bool {
    let begins = [
        "FAILED (",
        "FAILED ",
        "FAILURES!",
        "FAIL\t",
        "FAIL ",
        "--- FAIL",
        "Failed!",
        "test result: FAILED",
        "error: test failed",
        "error: could not compile",
        "make: ***",
    ];
    let is_tap = line.starts_with("not ok ") && !line.contains("# TODO") && !line.contains("# SKIP");
    begins.iter().any(|begin| line.starts_with(begin))
        || matches!(line, "FAILED" | "FAIL")
        || line.starts_with("test ") && line.ends_with(" FAILED")
        || is_tap
        || line.contains("BUILD FAILURE")
        || line.contains("BUILD FAILED")
        || is_sum(line) && [" failed", " failure", " failing"].iter().any(|word| counted_before(line, word))
        || line.starts_with(['#', 'ℹ']) && counted_after(line, " fail ")
        || line.contains("Tests") && ["Failures: ", "Errors: "].iter().any(|word| counted_after(line, word))
}

fn sums_up_success(line: &str) -> bool {
    let begins = [
        "OK (",
        "ok ",
        "ok\t",
        "PASS ",
        "PASS\t",
        "Passed!",
        "test result: ok",
        "# fail 0",
        "ℹ fail 0",
        "BUILD SUCCESS",
    ];
    begins.iter().any(|begin| line.starts_with(begin))
        || matches!(line, "OK" | "PASS")
        || line.contains("] BUILD SUCCESS")
        || line.contains("Tests run:") && line.contains("Failures: 0")
        || is_sum(line)
            && ([" passed", " passing"].iter().any(|word| counted_before(line, word))
                || line.contains(" 0 failures"))
}

/// Whether a line holds nothing but counts of tests and the words for what became of them.
fn is_sum(line: &str) -> bool {
    const WORDS: [&str; 49] = [
        "tests",
        "test",
        "files",
        "file",
        "suites",
        "suite",
        "specs",
        "examples",
        "example",
        "assertions",
        "run",
        "ran",
        "summary",
        "total",
        "passed",
        "passing",
        "failed",
        "failing",
        "failure",
        "failures",
        "error",
        "errors",
        "skipped",
        "pending",
        "ignored",
        "todo",
        "xfailed",
        "xpassed",
        "warning",
        "warnings",
        "deselected",
        "rerun",
        "subtests",
        "slow",
        "leaky",
        "flaky",
        "across",
        "binary",
        "binaries",
        "snapshots",
        "omitted",
        "in",
        "out",
        "of",
        "and",
        "s",
        "ms",
        "seconds",
        "ok",
    ];
    let mut words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.all(|word| {
        word.starts_with(|c: char| c.is_ascii_digit()) || WORDS.contains(&word.to_lowercase().as_str())
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
    use jiff::Timestamp;

    use super::{
        super::{super::sign::Call, step::Steps},
        *,
    };

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
            "Tests:       1 failed, 7 passed, 8 total",
            " Test Files  1 failed | 2 passed (3)",
            "Summary [   0.004s] 8 tests run: 7 passed, 1 failed, 0 skipped",
            "test cart::adds ... FAILED",
            "ℹ pass 7\nℹ fail 1",
        ];
        for text in failures {
            assert_eq!(tells_failure(text), Some(true), "{text}");
        }
        let passes = [
            "== 0 failed, 3 passed ==",
            "Ran 3 tests in 0.1s\n\nOK",
            "8 examples, 0 failures",
            "[INFO] Tests run: 8, Failures: 0, Errors: 0, Skipped: 0",
            "Passed!  - Failed:     0, Passed:     8",
            "ok 1\nnot ok 2 # TODO later",
            "attempt 1 failed, retrying\nTests:  8 passed, 8 total",
            "ok  \tshop/cart\t0.01s",
            "ℹ pass 8\nℹ fail 0",
            "   Compiling shop\n    Finished `dev` profile in 0.2s",
        ];
        for text in passes {
            assert_eq!(tells_failure(text), Some(false), "{text}");
        }
        for text in ["", "attempt 1 failed, retrying", "ls: cannot access 'missing'", "[exit code 1]"] {
            assert_eq!(tells_failure(text), None, "{text}");
        }
    }

    /// Commands in turn, with their output and whether they failed.
    fn after(runs: &[(&str, &str, bool)]) -> Vec<String> {
        let (mut steps, mut evidence) = (Steps::default(), Evidence::default());
        for (at, (command, text, failed)) in (1..).zip(runs) {
            let call = Call { id: at.to_string(), command: Some((*command).to_owned()), ..Call::default() };
            steps.call(&call, at, Timestamp::UNIX_EPOCH);
            let step = steps.result(&call.id, text, *failed).cloned().unwrap();
            match &step.test {
                Some(test) => evidence.tried(&step, test, text, *failed),
                None => evidence.ran(&step, hash(command), *failed),
            }
        }
        evidence.failing().iter().map(|one| one.title.trim().to_owned()).collect()
    }

    /// The command, what it printed, and whether it failed.
    type Run = (&'static str, &'static str, bool);

    #[test]
    fn what_failed_stays_until_it_is_seen_to_pass() {
        let fails = "test result: FAILED. 7 passed; 1 failed";
        let table: [(&[Run], &[&str]); 12] = [
            (&[("cargo test", fails, true)], &["cargo test"]),
            (&[("cargo test 2>&1 | tail -3", fails, false)], &["cargo test 2>&1 | tail -3"]),
            (&[("cargo test 2>&1 | grep -E 'FAILED|panicked'", "[exit code 1]", true)], &[]),
            (&[("cargo test", fails, true), ("cargo test 2>&1 | grep -E 'FAILED|panicked'", "", true)], &[]),
            (&[("pytest -q && git commit -m x", "8 passed in 0.1s\nnothing to commit", true)], &[]),
            (&[("cargo test | tail && ls missing", "test result: ok. 8 passed\nls: missing", true)], &[]),
            (&[("python repro.py", "Traceback", true), ("pytest", "8 passed in 0.1s", false)], &[]),
            (
                &[("python repro.py", "Traceback", true), ("pytest tests/a.py", "1 passed in 0.1s", false)],
                &["python repro.py"],
            ),
            (&[("npm test", "attempt 1 failed, retrying\ndone", false)], &[]),
            (&[("cargo test", fails, true), ("cargo check", "Finished", false)], &["cargo test"]),
            (&[("npm test", "1 failed", true), ("npx tsc", "", false)], &["npm test"]),
            (&[("go test ./...", "FAIL\tshop", true), ("go vet ./...", "", false)], &["go test ./..."]),
        ];
        for (runs, failing) in table {
            assert_eq!(after(runs), failing, "{runs:?}");
        }
        assert_eq!(after(&[("cargo check", "error", true), ("cargo test", "", false)]), [""; 0]);
    }
}
