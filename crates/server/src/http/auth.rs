//! Who calls, and what that allows. Secrets are random and compared by their SHA-256, so a comparison tells nothing
//! about them by the time it takes.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{HeaderMap, header, request::Parts},
};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use jiff::Timestamp;
use omoi_protocol::{Role, SandboxId};

use super::{
    Api,
    problem::{ApiError, ApiResult},
    session,
};
use crate::{
    config,
    gateway::door::Through,
    store::{Bearer, Error, Store, TokenHash, token_hash},
};

/// How long an answer of the store about a token is believed. A transaction asks for itself.
const BELIEVED: Duration = Duration::from_secs(1);
const BELIEVED_MAX: usize = 10_000;

/// Who calls.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Bearer>);

impl FromRequestParts<Api> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let secret = Secret::of(&parts.headers);
        if let Some(Secret::Session(_)) = secret {
            session::from_own_page(parts)?;
        }
        let bearer = api.gate.admit_by(&api.store, secret, address(parts), api.clock.now()).await?;
        through_own_door(parts.extensions.get(), &bearer)?;
        Ok(Self(bearer))
    }
}

pub fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

/// What comes through the door of a sandbox speaks for that sandbox, whatever other token was found inside.
pub fn through_own_door(door: Option<&Through>, bearer: &Bearer) -> ApiResult<()> {
    match (door, bearer) {
        (None, _) => Ok(()),
        (Some(Through(door)), Bearer::Sandbox { id, .. }) if id == door => Ok(()),
        (Some(_), _) => {
            let detail = "through a sandbox's door only that sandbox's own token counts";
            Err(ApiError::forbidden("wrong_door", detail))
        }
    }
}

impl Caller {
    pub fn new(bearer: Arc<Bearer>) -> Self {
        Self(bearer)
    }

    pub fn bearer(&self) -> &Bearer {
        &self.0
    }

    /// The name under which deeds are recorded.
    pub fn name(&self) -> &str {
        match &*self.0 {
            Bearer::Operator { name, .. } => name,
            Bearer::Sandbox { id, .. } => id.as_str(),
        }
    }

    fn role(&self, needed: Role) -> ApiResult<&str> {
        match &*self.0 {
            Bearer::Operator { name, role, .. } if *role >= needed => Ok(name),
            Bearer::Operator { role, .. } => {
                let detail = format!("this needs the role {needed}, and the token's role is {role}");
                Err(ApiError::forbidden("role_too_low", detail))
            }
            Bearer::Sandbox { .. } => {
                let detail =
                    format!("this needs an operator's token with the role {needed}, not a sandbox's");
                Err(ApiError::forbidden("operator_needed", detail))
            }
        }
    }

    pub fn viewer(&self) -> ApiResult<&str> {
        self.role(Role::Viewer)
    }

    pub fn operator(&self) -> ApiResult<&str> {
        self.role(Role::Operator)
    }

    pub fn admin(&self) -> ApiResult<&str> {
        self.role(Role::Admin)
    }

    /// The sandbox itself, or an operator in its place.
    pub fn worker_of(&self, id: &SandboxId) -> ApiResult<()> {
        self.own_or(id, Role::Operator)
    }

    pub fn is_sandbox(&self) -> bool {
        matches!(&*self.0, Bearer::Sandbox { .. })
    }

    /// The sandbox itself and nobody in its place.
    pub fn sandbox_itself(&self, id: &SandboxId) -> ApiResult<()> {
        match &*self.0 {
            Bearer::Sandbox { .. } => self.own_or(id, Role::Admin),
            Bearer::Operator { .. } => {
                let detail = "only the sandbox itself may do this, with its own token";
                Err(ApiError::forbidden("sandbox_needed", detail))
            }
        }
    }

    /// The sandbox itself, or any operator.
    pub fn reader_of(&self, id: &SandboxId) -> ApiResult<()> {
        self.own_or(id, Role::Viewer)
    }

    fn own_or(&self, id: &SandboxId, role: Role) -> ApiResult<()> {
        match &*self.0 {
            Bearer::Sandbox { id: own, .. } if own == id => Ok(()),
            Bearer::Sandbox { .. } => {
                Err(ApiError::forbidden("wrong_sandbox", "the token belongs to another sandbox"))
            }
            Bearer::Operator { .. } => self.role(role).map(|_| ()),
        }
    }

    /// Why a report for a sandbox was refused. If the sandbox has ended, a worker's token has with it; an operator's
    /// is as good as ever.
    pub fn refused(&self, error: Error) -> ApiError {
        match (&*self.0, error) {
            (Bearer::Operator { .. }, Error::TokenEnded) => {
                let detail = "the sandbox has ended and takes no more reports";
                Error::conflict("sandbox_ended", detail).into()
            }
            (_, error) => error.into(),
        }
    }

    /// The sandbox whose token this is, or none for an operator in its place.
    pub fn sandbox_or_operator(&self) -> ApiResult<Option<&SandboxId>> {
        match &*self.0 {
            Bearer::Sandbox { id, .. } => Ok(Some(id)),
            Bearer::Operator { .. } => self.operator().map(|_| None),
        }
    }
}

/// What a request shows to prove who sent it. A cookie counts only where nothing else is shown.
#[derive(Clone)]
pub enum Secret {
    Token(String),
    Session(String),
}

impl Secret {
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        if headers.contains_key(header::AUTHORIZATION) {
            return bearer(headers).map(|secret| Self::Token(secret.to_owned()));
        }
        session::cookie(headers).map(|secret| Self::Session(secret.to_owned()))
    }

    fn key(&self) -> Key {
        match self {
            Self::Token(secret) => Key::Token(token_hash(secret)),
            Self::Session(secret) => Key::Session(token_hash(secret)),
        }
    }
}

/// A token in a cookie is no session, and a session in a header no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Token(TokenHash),
    Session(TokenHash),
}

/// What is known of a secret.
#[derive(Clone)]
struct Known {
    bearer: Arc<Bearer>,
    /// When the next use of a session should be noted.
    moves_on_at: Option<Timestamp>,
    at: Instant,
}

pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Knows tokens for a moment, and limits how fast each may call and how often an address may be wrong.
pub struct Gate {
    believed: Mutex<HashMap<Key, Known>>,
    per_token: Option<DefaultKeyedRateLimiter<Key>>,
    wrong: DefaultKeyedRateLimiter<IpAddr>,
}

impl Gate {
    pub fn new(limits: &config::Limits) -> Self {
        let burst = NonZeroU32::new(limits.request_burst).unwrap_or(NonZeroU32::MIN);
        let rate = NonZeroU32::new(limits.requests_per_second);
        let wrong = NonZeroU32::new(limits.failed_logins_per_minute).unwrap_or(NonZeroU32::MIN);
        Self {
            believed: Mutex::new(HashMap::new()),
            per_token: rate.map(|rate| RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst))),
            wrong: RateLimiter::keyed(Quota::per_minute(wrong)),
        }
    }

    /// By a token alone.
    pub async fn admit(
        &self,
        store: &Store,
        secret: Option<&str>,
        from: Option<IpAddr>,
        now: Timestamp,
    ) -> ApiResult<Arc<Bearer>> {
        let secret = secret.map(|secret| Secret::Token(secret.to_owned()));
        self.admit_by(store, secret, from, now).await
    }

    pub async fn admit_by(
        &self,
        store: &Store,
        secret: Option<Secret>,
        from: Option<IpAddr>,
        now: Timestamp,
    ) -> ApiResult<Arc<Bearer>> {
        let Some(secret) = secret else {
            let detail =
                "send a token in the header `Authorization: Bearer …`; `omoi token create` makes one";
            return Err(ApiError::unauthorized("token_missing", detail));
        };
        let key = secret.key();
        let known = self.welcome(store, key, from, now).await?;
        if let (Key::Session(hash), Some(at)) = (key, known.moves_on_at)
            && at <= now
        {
            store.session_move_on(&hash).await?;
            self.lock().remove(&key);
        }
        match &self.per_token {
            Some(limiter) if limiter.check_key(&key).is_err() => {
                let detail = "the token calls faster than limits.requests_per_second allows";
                Err(ApiError::too_many("rate_limited", detail, Duration::from_secs(1)))
            }
            _ => Ok(known.bearer),
        }
    }

    /// Whether a secret that was good has ended since; to ask is no use of it. As long as nobody can say, it has not.
    pub async fn has_ended(&self, store: &Store, secret: &Secret, now: Timestamp) -> bool {
        let known = self.welcome(store, secret.key(), None, now).await;
        known.is_err_and(|refused| refused.blames_the_token())
    }

    async fn welcome(
        &self,
        store: &Store,
        key: Key,
        from: Option<IpAddr>,
        now: Timestamp,
    ) -> ApiResult<Known> {
        let Some(known) = self.known(store, key).await? else {
            return Err(match key {
                Key::Token(_) => self.refuse(from),
                Key::Session(_) => session_ended(),
            });
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

    async fn known(&self, store: &Store, key: Key) -> Result<Option<Known>, Error> {
        let known = self.lock().get(&key).cloned();
        if let Some(known) = known
            && known.at.elapsed() < BELIEVED
        {
            return Ok(Some(known));
        }
        let found = match key {
            Key::Token(hash) => store.token_bearer(&hash).await?.map(|bearer| (bearer, None)),
            Key::Session(hash) => {
                store.session_bearer(&hash).await?.map(|found| (found.bearer, Some(found.moves_on_at)))
            }
        };
        let found = found.map(|(bearer, moves_on_at)| Known {
            bearer: Arc::new(bearer),
            moves_on_at,
            at: Instant::now(),
        });
        let mut believed = self.lock();
        match &found {
            Some(known) => {
                if believed.len() >= BELIEVED_MAX {
                    believed.retain(|_, known| known.at.elapsed() < BELIEVED);
                }
                if believed.len() < BELIEVED_MAX {
                    believed.insert(key, known.clone());
                }
            }
            None => {
                believed.remove(&key);
            }
        }
        Ok(found)
    }

    /// Forgets what it knows, so that a revoked token is refused at once.
    pub fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse(&self, from: Option<IpAddr>) -> ApiError {
        if from.is_some_and(|from| self.wrong.check_key(&from).is_err()) {
            let detail = "too many wrong tokens from this address; wait a minute";
            return ApiError::too_many("too_many_wrong_tokens", detail, Duration::from_secs(60));
        }
        ApiError::unauthorized("token_wrong", "the token is not known here, or was revoked")
    }
}

fn session_ended() -> ApiError {
    ApiError::unauthorized("session_ended", "the session has ended; sign in again")
}
