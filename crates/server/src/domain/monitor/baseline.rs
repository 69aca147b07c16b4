//! What is usual for a kind of agent in a phase, learned from attempts that have ended.

use serde::{Deserialize, Serialize};

/// How much a new attempt counts against all before.
const ALPHA: f64 = 0.1;

/// One attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    pub latency_ms: f64,
    /// From 0, well, to 1, failed. Of one that still runs: the share of the attempts at its task that failed.
    pub errors: f64,
    /// Processors' time in the time taken.
    pub cpu: Option<f64>,
    pub memory_bytes: Option<f64>,
    /// It goes on, so that little time taken means nothing yet.
    pub is_running: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Baseline {
    pub samples: u64,
    pub latency_ms: f64,
    pub latency_std: f64,
    pub error_rate: f64,
    pub cpu: f64,
    pub memory_bytes: f64,
}

impl Baseline {
    #[must_use]
    pub fn learn(self, reading: &Reading) -> Self {
        let first = self.samples == 0;
        let towards = |old: f64, new: f64| if first { new } else { old + ALPHA * (new - old) };
        let off = if first { 0.0 } else { reading.latency_ms - self.latency_ms };
        let variance = (1.0 - ALPHA) * (self.latency_std.powi(2) + ALPHA * off.powi(2));
        Self {
            samples: self.samples + 1,
            latency_ms: towards(self.latency_ms, reading.latency_ms),
            latency_std: variance.sqrt(),
            error_rate: towards(self.error_rate, reading.errors.clamp(0.0, 1.0)),
            cpu: reading.cpu.map_or(self.cpu, |cpu| towards(self.cpu, cpu)),
            memory_bytes: reading
                .memory_bytes
                .map_or(self.memory_bytes, |bytes| towards(self.memory_bytes, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_the_baseline_and_later_ones_move_it_by_a_tenth() {
        let reading =
            |latency_ms, errors| Reading { latency_ms, errors, cpu: Some(0.5), ..Reading::default() };
        let one = Baseline::default().learn(&reading(1000.0, 0.0));
        assert_eq!((one.samples, one.latency_ms, one.latency_std, one.cpu), (1, 1000.0, 0.0, 0.5));
        let two = one.learn(&reading(2000.0, 1.0));
        assert_eq!((two.latency_ms, two.error_rate), (1100.0, 0.1));
        assert!((two.latency_std - 300.0).abs() < 1e-9, "{two:?}");
        let silent = two.learn(&Reading { latency_ms: 1100.0, ..Reading::default() });
        assert_eq!((silent.cpu, silent.memory_bytes), (0.5, 0.0), "what was not measured moves nothing");
    }

    #[test]
    fn what_stays_the_same_is_learned() {
        let reading = Reading { latency_ms: 500.0, memory_bytes: Some(7e6), ..Reading::default() };
        let start = Baseline { samples: 1, latency_ms: 9000.0, latency_std: 800.0, ..Baseline::default() };
        let learned = (0..200).fold(start, |baseline, _| baseline.learn(&reading));
        assert!((learned.latency_ms - 500.0).abs() < 1.0 && learned.latency_std < 50.0, "{learned:?}");
        assert!((learned.memory_bytes - 7e6).abs() < 1.0);
    }
}
