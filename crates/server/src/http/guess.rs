//! Guesses: how often a secret that nobody here knows came from one place. An address may be wrong a few times a minute;
//! beyond that, what it shows is not even looked up.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{extract::ConnectInfo, http::Extensions};
use omoi_protocol::SandboxId;

use crate::gateway::door::Through;

const MINUTE: f64 = 60.0;
/// Whoever has more addresses than this is not slowed by counting them, and one more is not counted.
const PLACES_MAX: usize = 100_000;
/// What one line is given of IPv6; whoever has it has every address in it.
const LINE_V6: u128 = !0 << 64;

/// Where a secret is shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    Address(IpAddr),
    Door(SandboxId),
}

impl Place {
    pub fn of(request: &Extensions) -> Option<Self> {
        if let Some(Through(sandbox)) = request.get() {
            return Some(Self::Door(sandbox.clone()));
        }
        request.get::<ConnectInfo<std::net::SocketAddr>>().map(|info| Self::address(info.0.ip()))
    }

    fn address(ip: IpAddr) -> Self {
        // A socket for both kinds of addresses shows those of the older kind inside newer ones.
        Self::Address(match ip.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & LINE_V6).into(),
            v4 => v4,
        })
    }
}

pub struct Guesses {
    per_minute: f64,
    places: Mutex<HashMap<Place, Left>>,
}

/// How many guesses a place had left, and when.
#[derive(Debug, Clone, Copy)]
struct Left {
    count: f64,
    at: Instant,
}

impl Guesses {
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute: f64::from(per_minute.max(1)), places: Mutex::new(HashMap::new()) }
    }

    /// How long the place must wait, in whole seconds, if it has been wrong too often.
    pub fn wait(&self, place: &Place, now: Instant) -> Option<Duration> {
        let left = self.left(*self.lock().get(place)?, now);
        (left < 1.0).then(|| Duration::from_secs_f64(((1.0 - left) * MINUTE / self.per_minute).ceil()))
    }

    /// It was wrong.
    pub fn count(&self, place: Place, now: Instant) {
        let mut places = self.lock();
        if places.len() >= PLACES_MAX && !places.contains_key(&place) {
            return;
        }
        let left = places.get(&place).map_or(self.per_minute, |left| self.left(*left, now));
        places.insert(place, Left { count: (left - 1.0).max(0.0), at: now });
    }

    /// Lets go of places that may be wrong as often as any other.
    pub fn tidy(&self, now: Instant) {
        self.lock().retain(|_, left| self.left(*left, now) < self.per_minute);
    }

    fn left(&self, Left { count, at }: Left, now: Instant) -> f64 {
        let gained = now.saturating_duration_since(at).as_secs_f64() * self.per_minute / MINUTE;
        (count + gained).min(self.per_minute)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Left>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ip: &str) -> Place {
        Place::address(ip.parse().unwrap())
    }

    #[test]
    fn a_place_that_was_wrong_too_often_waits_for_its_next_guess_and_no_other_does() {
        let (guesses, now) = (Guesses::new(3), Instant::now());
        let (bad, good) = (place("192.0.2.1"), place("192.0.2.2"));
        for _ in 0..3 {
            assert_eq!(guesses.wait(&bad, now), None);
            guesses.count(bad.clone(), now);
        }
        assert_eq!(guesses.wait(&bad, now), Some(Duration::from_secs(20)));
        assert_eq!(guesses.wait(&good, now), None);
        let later = now + Duration::from_secs(20);
        assert_eq!(guesses.wait(&bad, later), None);
        guesses.count(bad.clone(), later);
        assert!(guesses.wait(&bad, later).is_some());
    }

    #[test]
    fn a_place_is_forgotten_once_it_may_be_wrong_as_often_as_any() {
        let (guesses, now) = (Guesses::new(60), Instant::now());
        for host in 0..100 {
            guesses.count(place(&format!("192.0.2.{host}")), now);
        }
        guesses.count(place("198.51.100.1"), now + Duration::from_secs(1));
        guesses.tidy(now);
        assert_eq!(guesses.lock().len(), 101);
        guesses.tidy(now + Duration::from_secs(1));
        assert_eq!(guesses.lock().keys().cloned().collect::<Vec<_>>(), [place("198.51.100.1")]);
    }

    #[test]
    fn the_addresses_of_one_line_are_one_place() {
        assert_eq!(place("2001:db8:1:2::1"), place("2001:db8:1:2:ffff::9"));
        assert_ne!(place("2001:db8:1:2::1"), place("2001:db8:1:3::1"));
        assert_eq!(place("::ffff:192.0.2.1"), place("192.0.2.1"));
        assert_ne!(place("::ffff:192.0.2.1"), place("::ffff:192.0.2.2"));
    }
}
