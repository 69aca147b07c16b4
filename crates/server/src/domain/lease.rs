//! A lease: who may act for a task, until when, and the generation that fences older holders. When a lease is
//! given or taken away is up to the task; this file only answers whether one still counts.
//!
//! A lease that has run out still counts until the server acts on it. After that it is a [`Lapse`]: until another sandbox
//! takes the task, the last holder may reclaim it for a while. So a worker that was silent for longer than its lease goes
//! on with its work, and the same work is not done twice.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::{Place, SandboxId};

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

/// A lease that ran out before its task was over, while no other sandbox has had the task since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lapse {
    pub lease: Lease,
    /// When the task was taken from its holder.
    pub at: Timestamp,
    /// The worker had reported that it began.
    pub started: bool,
    /// Where the holder is. The server removes a sandbox of its own making once its lease has run out.
    pub place: Place,
}

/// What the last holder of a lapsed lease says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Any event: the worker lives and goes on.
    Alive,
    /// How the attempt ended.
    End,
}

impl Lapse {
    /// The lease as its last holder has it again, for `duration` from now. The end of an attempt counts wherever the holder
    /// is; only a sandbox that somebody else runs goes on with its work.
    pub fn reclaim(
        &self,
        reporter: i64,
        word: Word,
        grace: Duration,
        duration: Duration,
        now: Timestamp,
    ) -> Result<Lease, NotReclaimed> {
        self.lease.fence().check(reporter)?;
        if now >= self.at.saturating_add(grace).unwrap_or(Timestamp::MAX) {
            return Err(NotReclaimed::TooLate);
        }
        match (word, self.place) {
            (Word::End, _) | (Word::Alive, Place::None) => Ok(self.lease.renew(now, duration)),
            (Word::Alive, _) => Err(NotReclaimed::Removed),
        }
    }
}

/// Why a lapsed lease does not go back to a reporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReclaimed {
    #[error(transparent)]
    PassedOn(#[from] PassedOn),
    #[error("the time for late reports is over")]
    TooLate,
    #[error("the server is removing the sandbox; it accepts only the final report of the attempt")]
    Removed,
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
    fn a_lapsed_lease_goes_back_to_its_last_holder_alone_and_within_the_grace() {
        use NotReclaimed::{Removed, TooLate};
        let ended: Timestamp = "2025-06-01T12:00:00Z".parse().unwrap();
        let grace = 60 * MINUTE;
        let lapse = |place| Lapse { lease: lease("2025-06-01T12:00:00Z"), at: ended, started: true, place };
        let (elsewhere, here) = (Place::None, Place::Up);
        let other = |reporter| Err(NotReclaimed::PassedOn(PassedOn { reporter }));
        let table = [
            (elsewhere, 3, Word::Alive, MINUTE, Ok(())),
            (elsewhere, 3, Word::End, MINUTE, Ok(())),
            (elsewhere, 3, Word::End, grace - Duration::from_micros(1), Ok(())),
            (elsewhere, 3, Word::End, grace, Err(TooLate)),
            (elsewhere, 3, Word::Alive, grace, Err(TooLate)),
            (elsewhere, 2, Word::End, MINUTE, other(2)),
            (elsewhere, 4, Word::Alive, MINUTE, other(4)),
            (here, 3, Word::Alive, MINUTE, Err(Removed)),
            (here, 3, Word::End, MINUTE, Ok(())),
            (here, 3, Word::End, grace, Err(TooLate)),
            (Place::Kept, 3, Word::End, MINUTE, Ok(())),
        ];
        for (place, reporter, word, later, expected) in table {
            let now = ended + later;
            let reclaimed = lapse(place).reclaim(reporter, word, grace, MINUTE, now);
            let told = format!("{place}, generation {reporter}, {word:?} after {later:?}");
            assert_eq!(reclaimed.clone().map(|_| ()), expected, "{told}");
            if let Ok(lease) = reclaimed {
                assert_eq!((lease.generation, lease.expires_at), (3, now + MINUTE), "{told}");
            }
        }
        let at_once = lapse(elsewhere).reclaim(3, Word::End, Duration::ZERO, MINUTE, ended);
        assert_eq!(at_once, Err(TooLate), "without a grace every report is too late");
        assert!(lapse(elsewhere).reclaim(3, Word::End, Duration::MAX, MINUTE, ended + grace).is_ok());
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
