//! The one driver of loops.

use std::{fmt::Debug, time::Duration};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Runs a tick on a period and when woken, until stopped. A tick that fails is told of and runs again. After each there is
/// at least a pause of `settle`, however often it is woken.
pub async fn every<F, R, E>(
    name: &'static str,
    period: Duration,
    settle: Duration,
    wake: &Notify,
    stop: CancellationToken,
    tick: impl Fn() -> F,
) where
    F: Future<Output = Result<R, E>>,
    R: Debug + Default + PartialEq,
    E: std::fmt::Display,
{
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
            () = wake.notified() => {}
        }
        match tick().instrument(tracing::debug_span!("tick", name)).await {
            Ok(report) if report == R::default() => {}
            Ok(report) => tracing::info!(?report, "{name} did something"),
            Err(error) => tracing::warn!(%error, "{name} could not run"),
        }
        if !settle.is_zero() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(settle) => {}
            }
        }
    }
}
