//! The loop guard: an agent that makes the same call and gets the same result again and again is told so, and in the end
//! stopped.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

/// How far back it looks.
const WINDOW: usize = 24;
const WARN_AT: usize = 4;
const STOP_AT: usize = 10;
const _: () = assert!(WARN_AT < STOP_AT && STOP_AT <= WINDOW);

#[derive(Debug, Default)]
pub struct Guard(VecDeque<u64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Well,
    /// The same, this many times.
    Warn(usize),
    Stop(usize),
}

impl Guard {
    /// Takes note of a call and what came of it.
    pub fn note(&mut self, tool: &str, input: &Value, result: &str) -> Verdict {
        let mut hasher = DefaultHasher::new();
        (tool, input.to_string(), result).hash(&mut hasher);
        let this = hasher.finish();
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(this);
        match self.0.iter().filter(|one| **one == this).count() {
            times @ STOP_AT.. => Verdict::Stop(times),
            times @ WARN_AT.. => Verdict::Warn(times),
            _ => Verdict::Well,
        }
    }

    /// Somebody has spoken: what was a loop may be wanted now.
    pub fn forgive(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_call_with_the_same_result_is_warned_of_and_then_stopped() {
        let mut guard = Guard::default();
        let verdicts: Vec<_> =
            (0..STOP_AT).map(|_| guard.note("Bash", &json!({ "command": "make" }), "no rule")).collect();
        assert_eq!(verdicts[..WARN_AT - 1], [Verdict::Well; WARN_AT - 1]);
        assert_eq!(verdicts[WARN_AT - 1], Verdict::Warn(WARN_AT));
        assert_eq!(verdicts[STOP_AT - 1], Verdict::Stop(STOP_AT));
        guard.forgive();
        assert_eq!(guard.note("Bash", &json!({ "command": "make" }), "no rule"), Verdict::Well);
    }

    #[test]
    fn a_call_whose_result_changes_is_no_loop() {
        let mut guard = Guard::default();
        for n in 0..100 {
            assert_eq!(guard.note("Bash", &json!({ "command": "date" }), &n.to_string()), Verdict::Well);
        }
    }
}
