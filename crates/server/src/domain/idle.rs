//! Whether a live sandbox still gets somewhere. Work shows in its events, and a long build shows in the processor time
//! and the bytes of its processes; what shows in neither for too long is given up, with one reason.
//!
//! Silence is no matter of this file: a sandbox that is not heard of at all loses its lease.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::EndReason;

/// How long each kind of quiet is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// Nothing to do.
    pub idle_after: Duration,
    /// At work, and nothing comes of it.
    pub stuck_after: Duration,
    /// It waits for a person.
    pub waiting_after: Duration,
}

impl Patience {
    /// Nothing is judged that has been quiet for less than this.
    pub fn least(&self) -> Duration {
        self.idle_after.min(self.stuck_after).min(self.waiting_after)
    }
}

/// What is known of a sandbox when it is judged.
#[derive(Debug, Clone)]
pub struct Seen {
    /// What its newest heartbeat calls its state.
    pub status: Option<String>,
    pub began_at: Timestamp,
    pub last_work_at: Option<Timestamp>,
    /// When its processes were last seen at work.
    pub last_active_at: Option<Timestamp>,
    /// How long its worker was told to wait for more once its work is done.
    pub stays: Duration,
    /// It was interrupted, or has no money left, and somebody has to decide.
    pub needs_person: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Well,
    Idle { quiet: Duration },
    Stuck { quiet: Duration },
}

impl Verdict {
    /// The reason code of an ending, and how long it was quiet.
    pub fn reason(self) -> Option<(EndReason, Duration)> {
        match self {
            Self::Well => None,
            Self::Idle { quiet } => Some((EndReason::IdleTimeout, quiet)),
            Self::Stuck { quiet } => Some((EndReason::StuckRunning, quiet)),
        }
    }
}

pub fn judge(seen: &Seen, patience: &Patience, now: Timestamp) -> Verdict {
    let signs = [Some(seen.began_at), seen.last_work_at, seen.last_active_at];
    let last = signs.into_iter().flatten().max().unwrap_or(seen.began_at);
    let quiet = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    match seen.status.as_deref() {
        _ if seen.needs_person => match quiet >= patience.waiting_after {
            true => Verdict::Idle { quiet },
            false => Verdict::Well,
        },
        // The worker ends by itself when its time to stay is over, so nobody is faster than it.
        Some("waiting" | "idle") if quiet >= patience.idle_after.max(seen.stays + patience.idle_after) => {
            Verdict::Idle { quiet }
        }
        Some("waiting" | "idle") => Verdict::Well,
        _ if quiet >= patience.stuck_after => Verdict::Stuck { quiet },
        _ => Verdict::Well,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + minutes * 60).unwrap()
    }

    fn seen(status: &str, work: Option<i64>, active: Option<i64>) -> Seen {
        Seen {
            status: Some(status.to_owned()),
            began_at: at(0),
            last_work_at: work.map(at),
            last_active_at: active.map(at),
            stays: Duration::ZERO,
            needs_person: false,
        }
    }

    #[test]
    fn quiet_is_judged_by_what_the_sandbox_says_it_does() {
        let patience =
            Patience { idle_after: 10 * MINUTE, stuck_after: 15 * MINUTE, waiting_after: 24 * 60 * MINUTE };
        let idle = |minutes| Verdict::Idle { quiet: minutes * MINUTE };
        let stuck = |minutes| Verdict::Stuck { quiet: minutes * MINUTE };
        let person = |seen: Seen| Seen { needs_person: true, ..seen };
        let staying = |seen: Seen| Seen { stays: 60 * MINUTE, ..seen };
        #[rustfmt::skip]
        let table = [
            (seen("running", Some(5), None), 19, Verdict::Well),
            (seen("running", Some(5), None), 20, stuck(15)),
            (seen("running", None, None), 14, Verdict::Well),
            (seen("running", None, None), 15, stuck(15)),
            // A long build: no events, but its processes work.
            (seen("running", Some(5), Some(59)), 60, Verdict::Well),
            (seen("running", Some(5), Some(59)), 74, stuck(15)),
            (seen("preparing", None, Some(3)), 18, stuck(15)),
            (seen("ending", None, None), 15, stuck(15)),
            (seen("waiting", Some(5), None), 14, Verdict::Well),
            (seen("waiting", Some(5), None), 15, idle(10)),
            (seen("waiting", None, None), 10, idle(10)),
            // It was told to stay for an hour.
            (staying(seen("waiting", Some(5), None)), 74, Verdict::Well),
            (staying(seen("waiting", Some(5), None)), 75, idle(70)),
            (person(seen("waiting", Some(5), None)), 1444, Verdict::Well),
            (person(seen("waiting", Some(5), None)), 1445, idle(1440)),
            (person(seen("running", Some(5), None)), 60, Verdict::Well),
        ];
        for (seen, minute, verdict) in table {
            assert_eq!(judge(&seen, &patience, at(minute)), verdict, "{seen:?} in minute {minute}");
        }
    }

    #[test]
    fn a_worker_of_early_days_that_names_no_status_is_taken_to_work() {
        let patience = Patience { idle_after: MINUTE, stuck_after: 2 * MINUTE, waiting_after: MINUTE };
        let seen = Seen { status: None, ..seen("", None, None) };
        assert_eq!(judge(&seen, &patience, at(1)), Verdict::Well);
        assert_eq!(judge(&seen, &patience, at(2)).reason(), Some((EndReason::StuckRunning, 2 * MINUTE)));
    }
}
