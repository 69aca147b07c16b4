//! How long things took, over many of them.

use std::time::Duration;

use hdrhistogram::Histogram;

/// What takes longer counts as this long.
const LONGEST: Duration = Duration::from_secs(3600);

/// Kept in microseconds, to three digits.
pub struct Latency(Histogram<u64>);

impl Latency {
    pub fn new() -> anyhow::Result<Self> {
        // Bounds are fixed, since a histogram that grows does not grow for a saturating record.
        Ok(Self(Histogram::new_with_bounds(1, u64::try_from(LONGEST.as_micros())?, 3)?))
    }

    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        Ok(self.0.add(&other.0)?)
    }

    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_are_both_kept() {
        let mut latency = Latency::new().unwrap();
        for ms in 1..=100 {
            latency.record(Duration::from_millis(ms));
        }
        latency.record(Duration::from_secs(90_000));
        assert!((latency.quantile_ms(0.5) - 51.0).abs() < 1.1, "{}", latency.quantile_ms(0.5));
        assert!(latency.quantile_ms(1.0) > 3_590_000.0);
    }
}
