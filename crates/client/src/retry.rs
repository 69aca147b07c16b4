//! How often a call is repeated, and how long to wait before it is.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// A server that wants us to stay away for longer is believed, and the call fails.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The wait doubles from `base` to `cap`, give or take a quarter; the server's own word comes first.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// With the first one; 1 means never again.
    pub attempts_max: u32,
    pub base: Duration,
    pub cap: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts_max: 4, base: Duration::from_millis(250), cap: Duration::from_secs(5) }
    }
}

impl Retry {
    /// How long to wait after `failed` attempts, or `None` when that was the last one.
    pub fn pause(&self, failed: u32, asked: Option<Duration>) -> Option<Duration> {
        if failed >= self.attempts_max {
            return None;
        }
        match asked {
            Some(asked) => (asked <= RETRY_AFTER_MAX).then_some(asked),
            None => {
                let doubled = self.base.saturating_mul(1 << failed.saturating_sub(1).min(16));
                Some(doubled.min(self.cap).mul_f64(0.75 + random_share() / 2.0))
            }
        }
    }
}

/// A number in `0..1` that differs between processes and calls: good enough to spread what would come together.
fn random_share() -> f64 {
    let random = RandomState::new().build_hasher().finish() as u32;
    f64::from(random) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_its_cap_and_has_an_end() {
        let retry = Retry { attempts_max: 5, base: Duration::from_secs(1), cap: Duration::from_secs(3) };
        for (failed, seconds) in [(1, 1.0), (2, 2.0), (3, 3.0), (4, 3.0)] {
            let pause = retry.pause(failed, None).unwrap().as_secs_f64();
            assert!((seconds * 0.75..seconds * 1.25).contains(&pause), "{failed}: {pause}");
        }
        assert_eq!(retry.pause(5, None), None);
    }

    #[test]
    fn the_server_says_when_unless_it_says_never() {
        let retry = Retry::default();
        assert_eq!(retry.pause(1, Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(retry.pause(1, Some(Duration::from_secs(3600))), None);
    }
}
