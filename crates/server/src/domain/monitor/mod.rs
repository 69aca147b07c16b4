//! How the whole is doing: what figures there are, how they are put together over time, what is usual, and what is not.

mod anomaly;
mod baseline;
mod metric;
mod score;

pub use anomaly::{Deviation, HISTORY_MAX, SAMPLES_MIN, deviation};
pub use baseline::{Baseline, Reading};
pub use metric::{METRICS, Metric, is_busy, merge};
pub use score::{Impact, Score, THRESHOLD, is_new, score, streak};
