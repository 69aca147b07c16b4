//! Retry: whether a failed attempt is made again by itself, and after how long. A person may retry anything
//! that failed; that is a matter of the task alone.

use std::time::Duration;

use omoi_protocol::FailureKind;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// For tasks that do not bring a number of their own.
    pub max_retries: i64,
    /// How long the first retry waits.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub base: Duration,
    /// How much longer each retry waits than the one before.
    pub factor: u32,
    /// How far a delay is spread to either side, so that what failed together does not return together.
    pub jitter_percent: u32,
    /// The longest delay, jitter included.
    #[serde(with = "jiff::fmt::serde::unsigned_duration::friendly::compact::required")]
    pub cap: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            base: Duration::from_secs(1),
            factor: 2,
            jitter_percent: 25,
            cap: Duration::from_secs(60),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    Again { after: Duration },
    GiveUp { reason: GiveUp },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GiveUp {
    #[error("a repeat would meet the same fault")]
    Hopeless,
    #[error("a limit was reached and has to be raised first")]
    LimitReached,
    #[error("all {max_retries} retries are used up")]
    RetriesUsed { max_retries: i64 },
}

/// What follows a failure after `retry_count` retries. `jitter` is a random number in `0..1`.
pub fn decide(
    kind: FailureKind,
    retry_count: i64,
    max_retries: i64,
    policy: &Policy,
    jitter: f64,
) -> RetryDecision {
    match kind {
        FailureKind::Invalid => RetryDecision::GiveUp { reason: GiveUp::Hopeless },
        FailureKind::Limit => RetryDecision::GiveUp { reason: GiveUp::LimitReached },
        FailureKind::Agent
        | FailureKind::Checks
        | FailureKind::Lost
        | FailureKind::Crashed
        | FailureKind::ShutDown
        | FailureKind::OutOfMemory
        | FailureKind::TimedOut
        | FailureKind::Spawn
        | FailureKind::Unavailable => {
            if retry_count < max_retries {
                RetryDecision::Again { after: delay(retry_count, policy, jitter) }
            } else {
                RetryDecision::GiveUp { reason: GiveUp::RetriesUsed { max_retries } }
            }
        }
    }
}

/// Whether the next attempt goes on with the conversation: it was cut off. One that came to a wrong end begins afresh,
/// and is told what was wrong.
pub fn resumes(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Lost
        | FailureKind::Crashed
        | FailureKind::ShutDown
        | FailureKind::OutOfMemory
        | FailureKind::TimedOut
        | FailureKind::Unavailable
        | FailureKind::Limit
        // It never began, so what was before it counts.
        | FailureKind::Spawn => true,
        FailureKind::Agent | FailureKind::Checks | FailureKind::Invalid => false,
    }
}

fn delay(retry_count: i64, policy: &Policy, jitter: f64) -> Duration {
    let exponent = i32::try_from(retry_count.max(0)).unwrap_or(i32::MAX);
    let grown = policy.base.as_secs_f64() * f64::from(policy.factor).powi(exponent);
    let spread = f64::from(policy.jitter_percent) / 100.0 * (2.0 * jitter - 1.0);
    let seconds = (grown * (1.0 + spread)).max(0.0);
    // What has grown beyond any duration is beyond the cap as well.
    let delay = Duration::try_from_secs_f64(seconds).map_or(policy.cap, |delay| delay.min(policy.cap));
    // Whole microseconds, as the store keeps them: what is told is what is stored.
    Duration::from_micros(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIDDLE: f64 = 0.5;

    fn wait(retry_count: i64, jitter: f64) -> Duration {
        match decide(FailureKind::Lost, retry_count, i64::MAX, &Policy::default(), jitter) {
            RetryDecision::Again { after } => after,
            RetryDecision::GiveUp { reason } => panic!("gave up: {reason}"),
        }
    }

    #[test]
    fn the_kind_of_failure_decides_whether_a_repeat_can_help() {
        for kind in FailureKind::ALL {
            let expected = match kind {
                FailureKind::Invalid => RetryDecision::GiveUp { reason: GiveUp::Hopeless },
                FailureKind::Limit => RetryDecision::GiveUp { reason: GiveUp::LimitReached },
                _ => RetryDecision::Again { after: Duration::from_secs(1) },
            };
            assert_eq!(decide(*kind, 0, 3, &Policy::default(), MIDDLE), expected, "{kind}");
        }
    }

    #[test]
    fn what_was_cut_off_goes_on_and_what_came_to_a_wrong_end_begins_afresh() {
        let afresh: Vec<_> = FailureKind::ALL.iter().filter(|kind| !resumes(**kind)).copied().collect();
        assert_eq!(afresh, [FailureKind::Agent, FailureKind::Checks, FailureKind::Invalid]);
    }

    #[test]
    fn retries_have_a_last_one() {
        for (retry_count, max_retries, again) in
            [(0, 3, true), (2, 3, true), (3, 3, false), (9, 3, false), (0, 0, false)]
        {
            let decision = decide(FailureKind::Agent, retry_count, max_retries, &Policy::default(), MIDDLE);
            let gave_up = RetryDecision::GiveUp { reason: GiveUp::RetriesUsed { max_retries } };
            assert_eq!(decision != gave_up, again, "{retry_count} of {max_retries}");
        }
    }

    #[test]
    fn delays_double_and_the_cap_holds_after_jitter() {
        for (retry_count, jitter, millis) in [
            (0, MIDDLE, 1_000),
            (1, MIDDLE, 2_000),
            (5, MIDDLE, 32_000),
            (6, MIDDLE, 60_000),
            (0, 0.0, 750),
            (0, 1.0, 1_250),
            (5, 1.0, 40_000),
            (6, 0.0, 48_000),
            (6, 1.0, 60_000),
            (i64::MAX - 1, MIDDLE, 60_000),
        ] {
            assert_eq!(
                wait(retry_count, jitter),
                Duration::from_millis(millis),
                "retry {retry_count}, jitter {jitter}"
            );
        }
    }

    #[test]
    fn the_policy_is_written_in_plain_durations_and_refuses_unknown_keys() {
        let policy: Policy = serde_json::from_str(r#"{"base": "500ms", "cap": "5m"}"#).unwrap();
        let expected =
            Policy { base: Duration::from_millis(500), cap: Duration::from_secs(300), ..Policy::default() };
        assert_eq!(policy, expected);
        assert_eq!(serde_json::from_value::<Policy>(serde_json::to_value(&policy).unwrap()).unwrap(), policy);
        assert!(serde_json::from_str::<Policy>(r#"{"bace": "1s"}"#).is_err());
    }

    proptest! {
        #[test]
        fn no_policy_waits_longer_than_its_cap(
            (retry_count, factor, jitter_percent) in any::<(i64, u32, u32)>(),
            (base, cap) in any::<(Duration, Duration)>(),
            jitter in 0.0..1.0,
        ) {
            let policy = Policy { max_retries: 3, base, factor, jitter_percent, cap };
            prop_assert!(delay(retry_count, &policy, jitter) <= cap);
        }
    }
}
