//! Figures that are far from what they were: more than two standard deviations from the mean of the last ones.

use omoi_protocol::{AnomalySeverity, AnomalyType};

/// Fewer samples say nothing about what is usual.
pub const SAMPLES_MIN: usize = 10;
/// More are not looked at.
pub const HISTORY_MAX: usize = 100;
const WARNING: f64 = 2.0;
const ERROR: f64 = 2.5;
const CRITICAL: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deviation {
    pub anomaly_type: AnomalyType,
    pub severity: AnomalySeverity,
    pub mean: f64,
    /// In standard deviations.
    pub by: f64,
}

/// What is unusual about a value, if anything is. `noise` is the least that counts as one standard deviation.
pub fn deviation(history: &[f64], value: f64, noise: f64) -> Option<Deviation> {
    if history.len() < SAMPLES_MIN || !value.is_finite() {
        return None;
    }
    let count = history.len() as f64;
    let mean = history.iter().sum::<f64>() / count;
    let variance = history.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let by = (value - mean) / variance.sqrt().max(noise).max(f64::MIN_POSITIVE);
    let severity = match by.abs() {
        by if by > CRITICAL => AnomalySeverity::Critical,
        by if by > ERROR => AnomalySeverity::Error,
        by if by > WARNING => AnomalySeverity::Warning,
        _ => return None,
    };
    let anomaly_type = if by > 0.0 { AnomalyType::Spike } else { AnomalyType::Drop };
    Some(Deviation { anomaly_type, severity, mean, by })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn severity_grows_with_the_distance() {
        // A mean of 10 and a standard deviation of 2.
        let usual: Vec<f64> = (0..20).map(|n| if n % 2 == 0 { 8.0 } else { 12.0 }).collect();
        let table = [
            (10.0, None),
            (14.0, None),
            (14.5, Some((AnomalyType::Spike, AnomalySeverity::Warning))),
            (15.5, Some((AnomalyType::Spike, AnomalySeverity::Error))),
            (17.0, Some((AnomalyType::Spike, AnomalySeverity::Critical))),
            (5.5, Some((AnomalyType::Drop, AnomalySeverity::Warning))),
            (3.0, Some((AnomalyType::Drop, AnomalySeverity::Critical))),
            (f64::NAN, None),
        ];
        for (value, expected) in table {
            let found = deviation(&usual, value, 0.1).map(|found| (found.anomaly_type, found.severity));
            assert_eq!(found, expected, "{value}");
        }
        assert_eq!(deviation(&usual[..9], 100.0, 0.1), None, "too few");
    }

    #[test]
    fn a_steady_figure_may_move_within_its_noise() {
        let steady = [0.0; 50];
        assert_eq!(deviation(&steady, 2.0, 1.0), None);
        assert!(deviation(&steady, 2.1, 1.0).is_some());
    }

    proptest! {
        #[test]
        fn further_away_is_never_less_severe(
            history in prop::collection::vec(0.0f64..100.0, 10..60), value in 0.0f64..1000.0, more in 0.0f64..1000.0,
        ) {
            let mean = history.iter().sum::<f64>() / history.len() as f64;
            let of = |by: f64| deviation(&history, mean + by, 1.0).map(|found| found.severity);
            prop_assert!(of(value) <= of(value + more));
            prop_assert!(of(-value) <= of(-value - more));
        }
    }
}
