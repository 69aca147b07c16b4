//! The gate that every caller comes through: whom a secret belongs to, where it counts, how fast it may call, and how often
//! a place may be wrong. Secrets are random and compared by their SHA-256, so a comparison tells nothing about them
//! by the time it takes.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::Extensions;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use jiff::Timestamp;
use omoi_protocol::ProviderKind;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    auth::Secret,
    guess::{Guesses, Place},
    problem::{ApiError, ApiResult},
    token_watch::{TokenWatch, Watched},
};
use crate::{
    clock::Clock,
    config,
    gateway::door::Through,
    store::{Bearer, Error, Store, TokenHash, token_hash},
};

/// How long an answer of the store about a secret is believed. A transaction asks for itself.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long it is remembered that a secret was good. Such a one is no guess, whoever else guesses at the same place.
const REMEMBERED: Duration = Duration::from_secs(3600);
const KNOWN_MAX: usize = 10_000;
/// As many doubts as there never are: what was looked up then is not believed.
const NEVER: u64 = u64::MAX;
const TIDY_PERIOD: Duration = Duration::from_secs(60);

impl Shared {
    /// Whom the secret belongs to, if it counts where it is shown: the one way in for requests of every kind.
    pub async fn enter(&self, request: &Extensions, secret: Option<Secret>) -> ApiResult<Arc<Bearer>> {
        let bearer = self.gate.admit(&self.store, request, secret, self.clock.now()).await?;
        through_own_door(request.get(), &bearer)?;
        Ok(bearer)
    }

    /// Watches the secret that a stream was opened with. This is not a use of it.
    pub fn watch(&self, secret: &Secret) -> Watched {
        self.gate.streams.watch(Key::of(secret))
    }
}

/// What comes through the door of a sandbox speaks for that sandbox, whatever other token was found inside. And a sandbox
/// that has a door needs no other way in: its token on the server's own port was carried out of it.
fn through_own_door(door: Option<&Through>, bearer: &Bearer) -> ApiResult<()> {
    match (door, bearer) {
        (None, Bearer::Sandbox { id, provider, .. }) if *provider != ProviderKind::External => {
            tracing::warn!(
                sandbox.id = %id,
                "the token of sandbox {id} was shown on the server's own port and refused there; end the sandbox if its token \
                 may be in other hands"
            );
            let detail = format!(
                "the token of sandbox {id} is accepted only at the address in the sandbox's CALLBACK_URL, not on this \
                 port; use an operator's token here"
            );
            Err(ApiError::forbidden("own_door_only", detail))
        }
        (None, _) => Ok(()),
        (Some(Through(door)), Bearer::Sandbox { id, .. }) if id == door => Ok(()),
        (Some(_), _) => {
            let detail = "through a sandbox's door only that sandbox's own token counts";
            Err(ApiError::forbidden("wrong_door", detail))
        }
    }
}

/// A token in a cookie is no session, and a session in a header no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Token(TokenHash),
    Session(TokenHash),
}

impl Key {
    fn of(secret: &Secret) -> Self {
        match secret {
            Secret::Token(secret) => Self::Token(token_hash(secret)),
            Secret::Session(secret) => Self::Session(token_hash(secret)),
        }
    }
}

/// What is known of a secret that was good when it was last looked up.
#[derive(Clone)]
struct Known {
    bearer: Arc<Bearer>,
    /// When the next use of a session should be noted.
    moves_on_at: Option<Timestamp>,
    at: Instant,
    /// How often everything had been doubted before it was looked up.
    doubts: u64,
}

/// Knows secrets for a moment, and limits how fast each may call and how often a place may be wrong.
pub struct Gate {
    known: Mutex<HashMap<Key, Known>>,
    doubts: AtomicU64,
    per_secret: Option<DefaultKeyedRateLimiter<Key>>,
    guesses: Guesses,
    streams: Arc<TokenWatch>,
}

impl Gate {
    pub fn new(limits: &config::Limits) -> Self {
        let burst = NonZeroU32::new(limits.request_burst).unwrap_or(NonZeroU32::MIN);
        let rate = NonZeroU32::new(limits.requests_per_second);
        Self {
            known: Mutex::new(HashMap::new()),
            doubts: AtomicU64::new(0),
            per_secret: rate.map(|rate| RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst))),
            guesses: Guesses::new(limits.failed_logins_per_minute),
            streams: Arc::default(),
        }
    }

    /// Looks everything up anew, so that a revoked token is refused at once and its streams end.
    pub fn doubt_all(&self) {
        self.doubts.fetch_add(1, Ordering::SeqCst);
        self.streams.check_now();
    }

    pub fn forget(&self, secret: &Secret) {
        self.lock().remove(&Key::of(secret));
        self.streams.check_now();
    }

    /// Ends the streams of tokens that have ended, until stopped.
    pub async fn end_streams(self: Arc<Self>, store: Store, clock: Clock, stop: CancellationToken) {
        self.streams.run(&store, &clock, stop).await;
    }

    /// Lets go of what is no longer needed, until stopped.
    pub async fn tidy(self: Arc<Self>, stop: CancellationToken) {
        let mut period = tokio::time::interval(TIDY_PERIOD);
        while stop.run_until_cancelled(period.tick()).await.is_some() {
            self.let_go(Instant::now());
        }
    }

    fn let_go(&self, now: Instant) {
        self.lock().retain(|_, known| now.saturating_duration_since(known.at) < REMEMBERED);
        self.guesses.tidy(now);
        if let Some(limiter) = &self.per_secret {
            limiter.retain_recent();
        }
    }

    async fn admit(
        &self,
        store: &Store,
        request: &Extensions,
        secret: Option<Secret>,
        now: Timestamp,
    ) -> ApiResult<Arc<Bearer>> {
        let Some(secret) = secret else {
            let detail =
                "send a token in the header `Authorization: Bearer …`; `omoi token create` makes one";
            return Err(ApiError::unauthorized("token_missing", detail));
        };
        let key = Key::of(&secret);
        let known = self.welcome(store, key, request, now).await?;
        if let (Key::Session(hash), Some(at)) = (key, known.moves_on_at)
            && at <= now
        {
            store.session_move_on(&hash).await?;
            self.doubt(&key);
        }
        match &self.per_secret {
            Some(limiter) if limiter.check_key(&key).is_err() => {
                let detail = "the token calls faster than limits.requests_per_second allows";
                Err(ApiError::too_many("rate_limited", detail, Duration::from_secs(1)))
            }
            _ => Ok(known.bearer),
        }
    }

    /// What is known of a secret that has not ended.
    async fn welcome(
        &self,
        store: &Store,
        key: Key,
        request: &Extensions,
        now: Timestamp,
    ) -> ApiResult<Known> {
        let recalled = self.lock().get(&key).cloned();
        let known = match recalled {
            // A sandbox that is heard of in time after its lease ran out goes on, and its token with it.
            Some(known) if self.believes(&known) && known.bearer.ended_at().is_none_or(|end| end > now) => {
                known
            }
            recalled => {
                let place = Place::of(request);
                if recalled.is_none() {
                    self.may_guess(place.as_ref())?;
                }
                self.look_up(store, key).await?.ok_or_else(|| self.wrong(key, place))?
            }
        };
        if known.bearer.ended_at().is_none_or(|end| end > now) {
            return Ok(known);
        }
        Err(match (key, &*known.bearer) {
            (Key::Session(_), _) => session_ended(),
            (Key::Token(_), Bearer::Sandbox { .. }) => Error::TokenEnded.into(),
            (Key::Token(_), Bearer::Operator { .. }) => {
                ApiError::unauthorized("token_expired", "the token has expired")
            }
        })
    }

    fn believes(&self, known: &Known) -> bool {
        known.at.elapsed() < BELIEVED && known.doubts == self.doubts.load(Ordering::SeqCst)
    }

    /// Looks it up anew the next time.
    fn doubt(&self, key: &Key) {
        if let Some(known) = self.lock().get_mut(key) {
            known.doubts = NEVER;
        }
    }

    async fn look_up(&self, store: &Store, key: Key) -> Result<Option<Known>, Error> {
        // What is doubted while the store looks is not believed.
        let doubts = self.doubts.load(Ordering::SeqCst);
        let found = match key {
            Key::Token(hash) => store.token_bearer(&hash).await?.map(|bearer| (bearer, None)),
            Key::Session(hash) => {
                store.session_bearer(&hash).await?.map(|found| (found.bearer, Some(found.moves_on_at)))
            }
        };
        let mut all = self.lock();
        let Some((bearer, moves_on_at)) = found else {
            all.remove(&key);
            return Ok(None);
        };
        let known = Known { bearer: Arc::new(bearer), moves_on_at, at: Instant::now(), doubts };
        if all.len() >= KNOWN_MAX {
            all.retain(|_, known| known.at.elapsed() < BELIEVED);
        }
        if all.len() < KNOWN_MAX {
            all.insert(key, known.clone());
        }
        Ok(Some(known))
    }

    fn may_guess(&self, place: Option<&Place>) -> ApiResult<()> {
        let Some(wait) = place.and_then(|place| self.guesses.wait(place, Instant::now())) else {
            return Ok(());
        };
        let detail =
            "too many tokens and sessions from this address are not known here; try again in a moment";
        Err(ApiError::too_many("too_many_wrong_tokens", detail, wait))
    }

    fn wrong(&self, key: Key, place: Option<Place>) -> ApiError {
        if let Some(place) = place {
            self.guesses.count(place, Instant::now());
        }
        match key {
            Key::Token(_) => {
                ApiError::unauthorized("token_wrong", "the token is not known here, or was revoked")
            }
            Key::Session(_) => session_ended(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn session_ended() -> ApiError {
    ApiError::unauthorized("session_ended", "the session has ended; sign in again")
}

#[cfg(test)]
mod tests {
    use omoi_protocol::{Role, TokenId};

    use super::*;
    use crate::config::Config;

    #[test]
    fn whoever_has_gone_is_forgotten_after_a_while() {
        // So fast that a call leaves no trace a moment later.
        let limits = config::Limits {
            requests_per_second: u32::MAX,
            request_burst: u32::MAX,
            ..Config::default().limits
        };
        let (gate, now) = (Gate::new(&limits), Instant::now());
        let bearer = Arc::new(Bearer::Operator {
            id: TokenId::generate(),
            name: "ada".to_owned(),
            role: Role::Viewer,
            expires_at: None,
        });
        for n in 0..100 {
            let key = Key::of(&Secret::Token(n.to_string()));
            gate.per_secret.as_ref().unwrap().check_key(&key).unwrap();
            gate.lock().insert(key, Known { bearer: bearer.clone(), moves_on_at: None, at: now, doubts: 0 });
        }
        gate.let_go(now + REMEMBERED - BELIEVED);
        assert_eq!(gate.lock().len(), 100);
        gate.let_go(now + REMEMBERED);
        assert_eq!(gate.lock().len(), 0);
        assert!(gate.per_secret.as_ref().unwrap().is_empty());
    }
}
