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
        });
    }

    pub fn heap_bytes(&self) -> usize {
        let one = |one: &Failing| one.title.capacity() + one.targets.capacity() * size_of::<u64>();
        self.failing.capacity() * size_of::<Failing>() + self.failing.iter().map(one).sum::<usize>()
    }
}

/// What runners of tests write when some fail, for whoever has lost their exit code in a pipe.
fn tells_failure(text: &str) -> bool {
    let counted = |line: &str| {
        let (number, _) = line.split_once(" failed")?;
        number.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    text.lines().rev().take(40).any(|line| {
        line.starts_with("FAILED")
            || line.starts_with("test result: FAILED")
            || line.starts_with("FAIL\t")
            || line.starts_with("--- FAIL")
            || counted(line).is_some_and(|count| count > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_although_the_exit_code_is_lost() {
        assert!(tells_failure("E\n\nRan 3 tests\n\nFAILED (failures=1)"));
        assert!(tells_failure("== 2 failed, 1 passed in 0.1s =="));
        assert!(!tells_failure("== 0 failed, 3 passed =="));
        assert!(!tells_failure("Ran 3 tests in 0.1s\n\nOK"));
    }
}
