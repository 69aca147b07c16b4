//! The figures, each with how it is put together over time, how much of a change in it is noise, and how much more than
//! usual matters to a person.

use omoi_protocol::monitor::{Figures, MetricPoint};

/// How the figures of several stretches become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    Sum,
    Mean,
    Max,
}

pub struct Metric {
    pub name: &'static str,
    pub get: fn(&Figures) -> Option<f64>,
    set: fn(&mut Figures, f64),
    fold: Fold,
    /// Smaller deviations are noise, however steady the figure was before.
    pub noise: f64,
    /// How much more than usual it must be to be a warning, an error, and critical. More work than usual is no harm, so
    /// figures of it are warnings at most or not judged.
    pub rise: [f64; 3],
}

/// It never gets so bad.
const NEVER: f64 = f64::INFINITY;

macro_rules! metrics {
    ($($name:ident: $fold:ident, $noise:literal, $rise:expr;)* ? $($maybe:ident: $maybe_fold:ident, $maybe_noise:literal, $maybe_rise:expr;)*) => {
        pub const METRICS: &[Metric] = &[
            $(Metric {
                name: stringify!($name), get: |figures| Some(figures.$name), set: |figures, value| figures.$name = value,
                fold: Fold::$fold, noise: $noise, rise: $rise,
            },)*
            $(Metric {
                name: stringify!($maybe), get: |figures| figures.$maybe, set: |figures, value| figures.$maybe = Some(value),
                fold: Fold::$maybe_fold, noise: $maybe_noise, rise: $maybe_rise,
            },)*
        ];
    };
}

metrics! {
    events_per_second: Mean, 1.0, [50.0, NEVER, NEVER];
    completions: Sum, 1.0, [NEVER, NEVER, NEVER];
    failures: Sum, 1.0, [3.0, 8.0, 20.0];
    queue_depth: Mean, 3.0, [10.0, 100.0, NEVER];
    live_sandboxes: Mean, 2.0, [20.0, NEVER, NEVER];
    running_tasks: Mean, 2.0, [20.0, NEVER, NEVER];
    waiting_tasks: Mean, 1.0, [5.0, 20.0, NEVER];
    cost_usd: Sum, 0.05, [1.0, 5.0, 20.0];
    open_conflicts: Mean, 1.0, [3.0, 10.0, NEVER];
    ?
    queue_wait_seconds: Mean, 10.0, [60.0, 600.0, 3600.0];
    task_duration_seconds: Mean, 30.0, [300.0, 1800.0, NEVER];
    spawn_seconds: Mean, 2.0, [10.0, 30.0, 120.0];
    heartbeat_age_seconds: Max, 20.0, [60.0, 180.0, 600.0];
}

/// Whether work was under way. A stretch without any says nothing about what is usual while there is.
pub fn is_busy(figures: &Figures) -> bool {
    let work = [
        figures.live_sandboxes,
        figures.running_tasks,
        figures.queue_depth,
        figures.completions,
        figures.failures,
    ];
    work.iter().any(|count| *count > 0.0)
}

/// Points of `step_seconds` each, from finer ones. Both in the order of time.
pub fn merge(points: &[MetricPoint], step_seconds: i64) -> Vec<MetricPoint> {
    let slot = |point: &MetricPoint| point.at.as_second().div_euclid(step_seconds.max(1));
    points
        .chunk_by(|a, b| slot(a) == slot(b))
        .filter_map(|together| {
            let at = jiff::Timestamp::from_second(slot(together.first()?) * step_seconds.max(1)).ok()?;
            let mut figures = Figures::default();
            for metric in METRICS {
                let values: Vec<f64> =
                    together.iter().filter_map(|point| (metric.get)(&point.figures)).collect();
                if let Some(value) = metric.fold.of(&values) {
                    (metric.set)(&mut figures, value);
                }
            }
            Some(MetricPoint { at, figures })
        })
        .collect()
}

impl Fold {
    fn of(self, values: &[f64]) -> Option<f64> {
        let sum: f64 = values.iter().sum();
        match self {
            _ if values.is_empty() => None,
            Self::Sum => Some(sum),
            Self::Mean => Some(sum / values.len() as f64),
            Self::Max => values.iter().copied().reduce(f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(second: i64, figures: Figures) -> MetricPoint {
        MetricPoint { at: jiff::Timestamp::from_second(second).unwrap(), figures }
    }

    #[test]
    fn sums_are_added_gauges_averaged_and_the_worst_age_kept() {
        let figures = |n: f64, wait: Option<f64>| Figures {
            completions: n,
            queue_depth: n,
            queue_wait_seconds: wait,
            heartbeat_age_seconds: wait,
            ..Figures::default()
        };
        let points = [
            point(600, figures(1.0, Some(4.0))),
            point(630, figures(3.0, None)),
            point(660, figures(5.0, Some(8.0))),
            point(1200, figures(7.0, None)),
        ];
        let merged = merge(&points, 600);
        assert_eq!(merged.len(), 2);
        let first = &merged[0];
        assert_eq!(
            (first.at.as_second(), first.figures.completions, first.figures.queue_depth),
            (600, 9.0, 3.0)
        );
        assert_eq!(
            (first.figures.queue_wait_seconds, first.figures.heartbeat_age_seconds),
            (Some(6.0), Some(8.0))
        );
        assert_eq!(merged[1].figures.queue_wait_seconds, None);
        assert_eq!(merge(&points, 30), points, "as fine as they are, they stay what they are");
        assert_eq!(merge(&[], 30), []);
    }
}
