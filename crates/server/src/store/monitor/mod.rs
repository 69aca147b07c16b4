//! The monitor's figures, what is usual, what is not, and the dashboard.

mod anomaly;
mod baseline;
mod dashboard;
mod sample;

pub use baseline::Working;
