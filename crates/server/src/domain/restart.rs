//! How soon an attached agent that has failed may register again: after a pause, and only so often within an hour.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time over which failures are counted.
pub const WINDOW: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub restarts_max: usize,
    pub cooldown: Duration,
}

/// How long an agent with these failures has to wait, if at all.
pub fn wait(mut failures: Vec<Timestamp>, limits: Limits, now: Timestamp) -> Option<Duration> {
    failures.retain(|at| until(*at, WINDOW, now).is_some());
    failures.sort();
    let pause = failures.last().and_then(|last| until(*last, limits.cooldown, now));
    let too_many = failures.len().checked_sub(limits.restarts_max + 1);
    let full = too_many.and_then(|oldest| until(failures[oldest], WINDOW, now));
    pause.max(full)
}

/// What is left of a time that began then.
fn until(began: Timestamp, lasts: Duration, now: Timestamp) -> Option<Duration> {
    let passed = now.duration_since(began).max(SignedDuration::ZERO).unsigned_abs();
    lasts.checked_sub(passed).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_waits_after_a_failure_and_longer_after_many() {
        let limits = Limits { restarts_max: 3, cooldown: Duration::from_secs(60) };
        let now = Timestamp::constant(1_750_000_000, 0);
        // Seconds since each failure, and how long to wait.
        let table: &[(&[i64], Option<u64>)] = &[
            (&[], None),
            (&[0], Some(60)),
            (&[59], Some(1)),
            (&[60], None),
            (&[60, 70, 80], None),
            (&[10, 70, 80], Some(50)),
            (&[60, 70, 80, 90], Some(3510)),
            (&[90, 80, 3599, 70, 60], Some(3510)),
            (&[60, 70, 80, 3599], Some(1)),
            (&[60, 70, 80, 3600], None),
            (&[-5], Some(60)),
        ];
        for (ago, seconds) in table {
            let failures = ago.iter().map(|ago| now - SignedDuration::from_secs(*ago)).collect();
            assert_eq!(wait(failures, limits, now), seconds.map(Duration::from_secs), "{ago:?}");
        }
    }
}
