//! How unusual one agent is, all in one number from 0 to 1: how long it takes, how often it fails, what it takes of the
//! machine, and how many wait for it.

use omoi_protocol::AnomalySeverity;

use super::baseline::{Baseline, Reading};

const LATENCY: f64 = 0.35;
const ERRORS: f64 = 0.30;
const RESOURCES: f64 = 0.20;
const IMPACT: f64 = 0.15;
/// From here on it is unusual.
pub const THRESHOLD: f64 = 0.8;
/// So many readings in a row make an anomaly of it.
const IN_A_ROW: u32 = 3;
/// So many standard deviations are as much as can be.
const LATENCY_Z_MAX: f64 = 3.0;
/// Attempts that must have ended before one is called unusual.
const ATTEMPTS_MIN: u64 = 10;
/// From here on a part of the score matters to a person by itself.
const SERIOUS: f64 = 0.5;
const BLOCKED_MAX: f64 = 10.0;
/// Below these, deviations are noise.
const LATENCY_NOISE_MS: f64 = 1_000.0;
const LATENCY_NOISE_SHARE: f64 = 0.1;
const CPU_NOISE: f64 = 0.25;
const MEMORY_NOISE: f64 = 64.0 * 1024.0 * 1024.0;

/// Who waits for it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Impact {
    pub dependants: u32,
    pub is_critical: bool,
}

/// The parts, each from 0 to 1, and their weighted sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Score {
    pub latency: f64,
    pub errors: f64,
    pub resources: f64,
    pub impact: f64,
    pub total: f64,
}

/// None while too little is known of what is usual.
pub fn score(reading: &Reading, impact: Impact, usual: &Baseline) -> Option<Score> {
    if usual.samples < ATTEMPTS_MIN {
        return None;
    }
    let spread = usual.latency_std.max(LATENCY_NOISE_MS).max(usual.latency_ms * LATENCY_NOISE_SHARE);
    let z = (reading.latency_ms - usual.latency_ms) / spread;
    let z = if reading.is_running { z.max(0.0) } else { z.abs() };
    let latency = share(z / LATENCY_Z_MAX);
    let errors = share((reading.errors - usual.error_rate) / (1.0 - usual.error_rate).max(f64::EPSILON));
    let off = |value: Option<f64>, usual: f64, noise: f64| {
        value.map_or(0.0, |value| share((value - usual).abs() / usual.max(noise)))
    };
    let cpu = off(reading.cpu, usual.cpu, CPU_NOISE);
    let memory = off(reading.memory_bytes, usual.memory_bytes, MEMORY_NOISE);
    let resources = cpu.max(memory);
    let doubled = if impact.is_critical { 2.0 } else { 1.0 };
    let impact = share(f64::from(impact.dependants) * doubled / BLOCKED_MAX);
    let total = LATENCY * latency + ERRORS * errors + RESOURCES * resources + IMPACT * impact;
    Some(Score { latency, errors, resources, impact, total: share(total) })
}

impl Score {
    /// What it means to a person: an agent that only takes long is worth a look, one whose task fails or on which much work
    /// waits is an error, and both together are critical.
    pub fn severity(&self) -> AnomalySeverity {
        match (self.errors >= SERIOUS, self.impact >= SERIOUS) {
            (true, true) => AnomalySeverity::Critical,
            (true, false) | (false, true) => AnomalySeverity::Error,
            (false, false) => AnomalySeverity::Warning,
        }
    }
}

/// How many unusual readings there are in a row with this one.
pub fn streak(before: u32, score: Option<&Score>) -> u32 {
    if score.is_some_and(|score| score.total >= THRESHOLD) { before.saturating_add(1) } else { 0 }
}

/// Whether the row has just become an anomaly; a longer one is the same.
pub fn is_new(streak: u32) -> bool {
    streak == IN_A_ROW
}

fn share(x: f64) -> f64 {
    if x.is_finite() { x.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USUAL: Baseline = Baseline {
        samples: 50,
        latency_ms: 60_000.0,
        latency_std: 10_000.0,
        error_rate: 0.1,
        cpu: 0.5,
        memory_bytes: 200e6,
    };

    fn reading(latency_ms: f64, errors: f64, cpu: f64) -> Reading {
        Reading { latency_ms, errors, cpu: Some(cpu), memory_bytes: Some(200e6), is_running: false }
    }

    #[test]
    fn each_part_counts_by_its_weight() {
        let none = Impact::default();
        let table = [
            (reading(60_000.0, 0.1, 0.5), none, 0.0),
            (reading(90_000.0, 0.1, 0.5), none, 0.35),
            (reading(75_000.0, 0.1, 0.5), none, 0.175),
            (reading(30_000.0, 0.1, 0.5), none, 0.35),
            (Reading { is_running: true, ..reading(30_000.0, 0.1, 0.5) }, none, 0.0),
            (reading(60_000.0, 1.0, 0.5), none, 0.30),
            (reading(60_000.0, 0.0, 0.5), none, 0.0),
            (reading(60_000.0, 0.1, 1.0), none, 0.20),
            (reading(60_000.0, 0.1, 0.5), Impact { dependants: 5, is_critical: false }, 0.075),
            (reading(60_000.0, 0.1, 0.5), Impact { dependants: 5, is_critical: true }, 0.15),
            (reading(1e9, 1.0, 9.0), Impact { dependants: 99, is_critical: true }, 1.0),
        ];
        for (reading, impact, expected) in table {
            let found = score(&reading, impact, &USUAL).unwrap();
            assert!((found.total - expected).abs() < 1e-9, "{reading:?}: {found:?}");
        }
        let young = Baseline { samples: 9, ..USUAL };
        assert_eq!(score(&reading(1e9, 1.0, 9.0), none, &young), None);
    }

    #[test]
    fn severity_follows_what_fails_and_what_waits() {
        let of = |errors, impact| {
            Score { latency: 1.0, total: 1.0, errors, impact, ..Score::default() }.severity()
        };
        assert_eq!(of(0.0, 0.0), AnomalySeverity::Warning);
        assert_eq!(of(1.0, 0.0), AnomalySeverity::Error);
        assert_eq!(of(0.0, 0.5), AnomalySeverity::Error);
        assert_eq!(of(1.0, 1.0), AnomalySeverity::Critical);
    }

    #[test]
    fn three_in_a_row_are_an_anomaly_once() {
        let high = Score { total: THRESHOLD, ..Score::default() };
        let low = Score { total: 0.79, ..Score::default() };
        let scores = [&high, &high, &low, &high, &high, &high, &high];
        let mut row = 0;
        let new: Vec<bool> = scores
            .iter()
            .map(|score| {
                row = streak(row, Some(score));
                is_new(row)
            })
            .collect();
        assert_eq!(new, [false, false, false, false, false, true, false]);
        assert_eq!(streak(2, None), 0);
    }

    proptest! {
        #[test]
        fn a_score_is_from_0_to_1_and_grows_with_what_is_wrong(
            latency in 0.0f64..1e9, more in 0.0f64..1e9, errors in 0.0f64..1.0, cpu in 0.0f64..64.0, memory in 0.0f64..1e12,
            dependants in 0u32..100, is_critical in any::<bool>(), rate in 0.0f64..=1.0, std in 0.0f64..1e6,
        ) {
            let usual = Baseline { error_rate: rate, latency_std: std, ..USUAL };
            let reading = Reading { latency_ms: latency, errors, cpu: Some(cpu), memory_bytes: Some(memory), is_running: true };
            let impact = Impact { dependants, is_critical };
            let of = |reading: &Reading, impact| score(reading, impact, &usual).unwrap().total;
            let total = of(&reading, impact);
            prop_assert!((0.0..=1.0).contains(&total));
            let slower = Reading { latency_ms: latency + more, ..reading };
            let failing = Reading { errors: 1.0, ..reading };
            let blocking = Impact { dependants: dependants + 1, is_critical: true };
            prop_assert!(of(&slower, impact) >= total);
            prop_assert!(of(&failing, impact) >= total);
            prop_assert!(of(&reading, blocking) >= total);
        }
    }
}
