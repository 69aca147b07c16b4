//! Figures that are far above what they were: by standard deviations, and by a size that matters to a person. Both must be
//! reached, and the severity is the lesser of the two.

use omoi_protocol::AnomalySeverity;

/// Samples of stretches with work in them; fewer say nothing about what is usual.
pub const SAMPLES_MIN: usize = 20;
/// More are not looked at.
pub const HISTORY_MAX: usize = 100;
/// Standard deviations above the mean.
const DEVIATIONS: [f64; 3] = [2.0, 2.5, 3.0];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    pub severity: AnomalySeverity,
    pub mean: f64,
    /// In standard deviations.
    pub by: f64,
}

/// Returns what is unusual about a value, if anything is. `noise` is the least that counts as one standard deviation; `rise`
/// says how much more than usual is a warning, an error, and critical.
pub fn deviation(history: &[f64], value: f64, noise: f64, rise: [f64; 3]) -> Option<Deviation> {
    if history.len() < SAMPLES_MIN || !value.is_finite() {
        return None;
    }
    let count = history.len() as f64;
    let mean = history.iter().sum::<f64>() / count;
    let variance = history.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let by = (value - mean) / variance.sqrt().max(noise).max(f64::MIN_POSITIVE);
    let by_spread = level(by, DEVIATIONS.map(|least| by > least));
    let by_size = level(by, rise.map(|least| value - mean >= least));
    let severity = by_spread?.min(by_size?);
    Some(Deviation { severity, mean, by })
}

/// The highest level that is reached, of something that has risen.
fn level(by: f64, reached: [bool; 3]) -> Option<AnomalySeverity> {
    let levels = [AnomalySeverity::Critical, AnomalySeverity::Error, AnomalySeverity::Warning];
    let highest = levels.into_iter().zip(reached.into_iter().rev()).find(|(_, reached)| *reached);
    highest.filter(|_| by > 0.0).map(|(level, _)| level)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn severity_is_the_lesser_of_the_spread_and_the_size() {
        // A mean of 10 and a standard deviation of 2.
        let usual: Vec<f64> = (0..20).map(|n| if n % 2 == 0 { 8.0 } else { 12.0 }).collect();
        let small = [4.0, 5.0, 6.0];
        let table = [
            (10.0, small, None),
            (14.0, small, None),
            (14.5, small, Some(AnomalySeverity::Warning)),
            (15.5, small, Some(AnomalySeverity::Error)),
            (17.0, small, Some(AnomalySeverity::Critical)),
            (17.0, [4.0, 100.0, 1000.0], Some(AnomalySeverity::Warning)),
            (17.0, [100.0, 1000.0, 10_000.0], None),
            (1e6, [1.0, f64::INFINITY, f64::INFINITY], Some(AnomalySeverity::Warning)),
            (3.0, small, None),
            (f64::NAN, small, None),
        ];
        for (value, rise, expected) in table {
            let found = deviation(&usual, value, 0.1, rise).map(|found| found.severity);
            assert_eq!(found, expected, "{value} {rise:?}");
        }
        assert_eq!(deviation(&usual[..SAMPLES_MIN - 1], 100.0, 0.1, small), None, "too few");
    }

    #[test]
    fn a_steady_figure_may_move_within_its_noise() {
        let steady = [0.0; 50];
        assert_eq!(deviation(&steady, 2.0, 1.0, [0.1; 3]), None);
        assert!(deviation(&steady, 2.1, 1.0, [0.1; 3]).is_some());
    }

    proptest! {
        #[test]
        fn further_away_is_never_less_severe(
            history in prop::collection::vec(0.0f64..100.0, 20..60), value in 0.0f64..1000.0, more in 0.0f64..1000.0,
        ) {
            let mean = history.iter().sum::<f64>() / history.len() as f64;
            let of = |by: f64| deviation(&history, mean + by, 1.0, [3.0, 30.0, 300.0]).map(|found| found.severity);
            prop_assert!(of(value) <= of(value + more));
            prop_assert!(of(-value).is_none());
        }
    }
}
