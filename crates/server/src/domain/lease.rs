//! A lease: who may act for a task, until when, and the generation that fences older holders. When a lease is
//! given or taken away is up to the task; this file only answers whether one still counts.
//!
//! A lease that has run out still counts until somebody acts on it: a worker that was slow to renew, while
//! nobody else took the task, goes on with its work.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::SandboxId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub holder: SandboxId,
    /// Counts the leases of one task; each is higher than all before it.
    pub generation: i64,
    pub expires_at: Timestamp,
}

impl Lease {
    /// The same hold for `duration` from now. It never ends earlier than it did, whatever clocks say.
    #[must_use]
    pub fn renew(&self, now: Timestamp, duration: Duration) -> Self {
        let until = now.saturating_add(duration).unwrap_or(Timestamp::MAX);
        Self { expires_at: self.expires_at.max(until), ..self.clone() }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    pub fn fence(&self) -> Fence {
        Fence { current: self.generation }
    }
}

/// Below this nobody was away: loops may be late.
const ABSENCE_MIN: Duration = Duration::from_secs(5);

/// How long nobody may look after leases before those who hold them could not have been heard in time.
pub fn absence(lease: Duration) -> Duration {
    (lease / 4).max(ABSENCE_MIN)
}

/// Whether nobody looked after leases for too long: the server was down, or its machine asleep, or its database away. A
/// clock that was set back says nothing.
pub fn was_absent(last_look: Option<Timestamp>, now: Timestamp, lease: Duration) -> bool {
    last_look.is_none_or(|last| {
        now.duration_since(last) > absence(lease).try_into().unwrap_or(SignedDuration::MAX)
    })
}

/// Whether the clock was set back by more than what a loop may be late.
pub fn was_set_back(last_look: Option<Timestamp>, now: Timestamp, lease: Duration) -> bool {
    last_look.is_some_and(|last| {
        last.duration_since(now) > absence(lease).try_into().unwrap_or(SignedDuration::MAX)
    })
}

/// Lets the holder of the current generation through and nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub current: i64,
}

impl Fence {
    pub fn check(self, reporter: i64) -> Result<(), PassedOn> {
        if reporter == self.current { Ok(()) } else { Err(PassedOn { reporter }) }
    }
}

/// The reporter does not hold the task, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease of generation {reporter} has passed on")]
pub struct PassedOn {
    pub reporter: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn lease(expires_at: &str) -> Lease {
        Lease { holder: "sbx-1".parse().unwrap(), generation: 3, expires_at: expires_at.parse().unwrap() }
    }

    #[test]
    fn a_lease_runs_out_at_its_end_and_not_before() {
        let lease = lease("2025-06-01T12:00:00Z");
        for (now, expired) in [
            ("2025-06-01T11:59:59.999Z", false),
            ("2025-06-01T12:00:00Z", true),
            ("2025-06-01T12:00:01Z", true),
        ] {
            assert_eq!(lease.is_expired(now.parse().unwrap()), expired, "{now}");
        }
    }

    #[test]
    fn nobody_is_away_for_a_moment_and_somebody_is_after_a_quarter_of_a_lease() {
        let now: Timestamp = "2025-06-01T12:00:00Z".parse().unwrap();
        let (second, lease) = (Duration::from_secs(1), 2 * MINUTE);
        for (ago, absent) in [(second, false), (30 * second, false), (31 * second, true), (60 * MINUTE, true)]
        {
            assert_eq!(was_absent(Some(now - ago), now, lease), absent, "{ago:?}");
        }
        assert!(!was_absent(Some(now + MINUTE), now, lease), "a clock that was set back");
        assert!(!was_absent(Some(now - 5 * second), now, second), "loops may be late");
        assert!(was_absent(None, now, lease), "nobody knows");
    }

    #[test]
    fn renewal_moves_the_end_forward_and_never_back() {
        let now = "2025-06-01T12:00:00Z".parse().unwrap();
        let renewed = "2025-06-01T12:01:00Z".parse::<Timestamp>().unwrap();
        let far = "2025-06-01T13:00:00Z";

        assert_eq!(lease("2025-06-01T12:00:30Z").renew(now, MINUTE).expires_at, renewed);
        assert_eq!(
            lease("2025-06-01T11:00:00Z").renew(now, MINUTE).expires_at,
            renewed,
            "ran out, nobody took it"
        );
        assert_eq!(lease(far).renew(now, MINUTE), lease(far));
        assert_eq!(lease(far).renew(now, Duration::MAX).expires_at, Timestamp::MAX);
    }

    #[test]
    fn only_the_current_generation_passes_the_fence() {
        let fence = lease("2025-06-01T12:00:00Z").fence();
        assert_eq!(fence.check(3), Ok(()));
        for other in [2, 4, 0, -1, i64::MAX] {
            assert_eq!(fence.check(other), Err(PassedOn { reporter: other }));
        }
        assert_eq!(fence.check(2).unwrap_err().to_string(), "the lease of generation 2 has passed on");
    }
}
