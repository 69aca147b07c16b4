//! Whether a question is asked again, and when.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use tokio::time::Instant;

use super::error::{Error, Fault};

/// Who asks for a longer pause gets this one.
const AFTER_MAX: Duration = Duration::from_secs(300);

/// The pause doubles from `base` to `cap`, give or take a quarter; the other side's own word comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// With the first one.
    pub attempts_max: u32,
    pub base: Duration,
    pub cap: Duration,
    /// How long nobody may listen at the address. Attempts that find nobody are not counted, so that a server's restart
    /// costs time and nothing else.
    pub total_away: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: 10,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(20),
            total_away: Duration::from_secs(30 * 60),
        }
    }
}

/// The attempts at one question.
#[derive(Debug)]
pub struct Tries {
    policy: RetryPolicy,
    failed: u32,
    away: u32,
    away_since: Option<Instant>,
}

/// Before the next attempt.
#[derive(Debug, PartialEq, Eq)]
pub struct Pause {
    /// How many have failed.
    pub attempt: u32,
    /// 0 while nobody listens: then time is what ends it.
    pub attempts_max: u32,
    pub delay: Duration,
    pub status: Option<u16>,
    pub error: String,
}

impl Tries {
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy, failed: 0, away: 0, away_since: None }
    }

    pub fn after(&mut self, fault: Fault, now: Instant) -> Result<Pause, Error> {
        match fault {
            Fault::Final(error) => Err(error),
            Fault::Away(error) => {
                self.away += 1;
                let since = *self.away_since.get_or_insert(now);
                if now.duration_since(since) >= self.policy.total_away {
                    let attempts = self.away + self.failed;
                    return Err(Error::Exhausted { origin: None, attempts, last: error });
                }
                let delay = self.backoff(self.away);
                Ok(Pause { attempt: self.away, attempts_max: 0, delay, status: None, error })
            }
            Fault::Passing { origin, status, text, after } => {
                (self.away, self.away_since) = (0, None);
                self.failed += 1;
                let (attempt, attempts_max) = (self.failed, self.policy.attempts_max);
                if attempt >= attempts_max {
                    return Err(Error::Exhausted { origin, attempts: attempt, last: text });
                }
                let delay = match after {
                    // Many may have been told the same.
                    Some(after) => after.min(AFTER_MAX) + self.policy.base.mul_f64(random_share()),
                    None => self.backoff(attempt),
                };
                Ok(Pause { attempt, attempts_max, delay, status, error: text })
            }
        }
    }

    fn backoff(&self, failed: u32) -> Duration {
        let doubled = self.policy.base.saturating_mul(1 << failed.saturating_sub(1).min(16));
        doubled.min(self.policy.cap).mul_f64(0.75 + random_share() / 2.0)
    }
}

/// A number that differs between processes and calls.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// In `0..1`: good enough to spread what would come together.
fn random_share() -> f64 {
    f64::from(random() as u32) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts_max: 5,
        base: Duration::from_secs(1),
        cap: Duration::from_secs(3),
        total_away: Duration::from_secs(60),
    };

    fn passing(after: Option<u64>) -> Fault {
        let after = after.map(Duration::from_secs);
        Fault::Passing { origin: None, status: Some(529), text: "busy".to_owned(), after }
    }

    #[test]
    fn the_pause_doubles_to_its_cap_and_has_an_end() {
        let mut tries = Tries::new(POLICY);
        let now = Instant::now();
        for (attempt, seconds) in [(1, 1.0), (2, 2.0), (3, 3.0), (4, 3.0)] {
            let pause = tries.after(passing(None), now).unwrap();
            assert_eq!((pause.attempt, pause.attempts_max, pause.status), (attempt, 5, Some(529)));
            let delay = pause.delay.as_secs_f64();
            assert!((seconds * 0.75..seconds * 1.25).contains(&delay), "{attempt}: {delay}");
        }
        let over = Error::Exhausted { origin: None, attempts: 5, last: "busy".to_owned() };
        assert_eq!(tries.after(passing(None), now), Err(over));
    }

    #[test]
    fn the_other_side_says_when_within_bounds() {
        for (asked, least) in [(0, 0.0), (7, 7.0), (3_600, 300.0)] {
            let delay = Tries::new(POLICY).after(passing(Some(asked)), Instant::now()).unwrap().delay;
            assert!((least..least + 1.0).contains(&delay.as_secs_f64()), "{asked}: {delay:?}");
        }
    }

    #[test]
    fn a_server_that_is_away_is_waited_for_by_the_clock() {
        let away = || Fault::Away("refused".to_owned());
        let (mut tries, start) = (Tries::new(POLICY), Instant::now());
        for second in 0..60 {
            let pause = tries.after(away(), start + Duration::from_secs(second)).unwrap();
            assert_eq!((pause.attempts_max, pause.status), (0, None));
            assert!(pause.delay < Duration::from_secs(4));
        }
        let late = start + Duration::from_secs(60);
        assert!(matches!(tries.after(away(), late), Err(Error::Exhausted { attempts: 61, .. })));
        // Once it has been there, the clock starts anew.
        assert!(tries.after(passing(None), late).is_ok());
        assert!(tries.after(away(), late).is_ok());
    }
}
