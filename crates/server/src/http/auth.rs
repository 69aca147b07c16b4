//! Who calls, and what that allows.
//!
//! Every operation names one of the extractors below as its first argument after the state. The extractor checks the token, then
//! what its bearer may do, and last that the operation has the query parameters of the request. Path, query and body are parsed
//! behind it. So a caller who may not use an operation gets 401 or 403 whatever else is wrong with the request.

use std::{ops::Deref, sync::Arc};

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::{HeaderMap, header, request::Parts},
};
use omoi_protocol::{Role, SandboxId};

use super::{
    Api, parameters,
    problem::{ApiError, ApiResult},
    session,
};
use crate::store::{Bearer, Error};

/// Who calls.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Bearer>);

impl Caller {
    /// The bearer of the token or the session that a request shows.
    pub async fn of(parts: &Parts, api: &Api) -> ApiResult<Self> {
        let secret = Secret::of(&parts.headers);
        if let Some(Secret::Session(_)) = secret {
            session::from_own_page(parts)?;
        }
        Ok(Self(api.enter(&parts.extensions, secret).await?))
    }

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

    fn operator(&self) -> ApiResult<&str> {
        self.role(Role::Operator)
    }

    pub fn admin(&self) -> ApiResult<&str> {
        self.role(Role::Admin)
    }

    /// The sandbox itself, or an operator in its place. The id comes as the request has it, which may be no id at all.
    pub fn worker_of(&self, id: &str) -> ApiResult<()> {
        self.own_or(id, Role::Operator)
    }

    pub fn is_sandbox(&self) -> bool {
        matches!(&*self.0, Bearer::Sandbox { .. })
    }

    /// The sandbox itself and nobody in its place.
    fn sandbox_itself(&self, id: &str) -> ApiResult<()> {
        match &*self.0 {
            Bearer::Sandbox { .. } => self.own_or(id, Role::Admin),
            Bearer::Operator { .. } => {
                let detail = "only the sandbox itself may do this, with its own token";
                Err(ApiError::forbidden("sandbox_needed", detail))
            }
        }
    }

    /// The sandbox itself, or any operator.
    pub fn reader_of(&self, id: &str) -> ApiResult<()> {
        self.own_or(id, Role::Viewer)
    }

    fn own_or(&self, id: &str, role: Role) -> ApiResult<()> {
        match &*self.0 {
            Bearer::Sandbox { id: own, .. } if own.as_str() == id => Ok(()),
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

/// Declares extractors of callers, each with the rule that admits them.
macro_rules! admit {
    ($($(#[$doc:meta])* $name:ident: |$who:ident, $parts:ident| $rule:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name(Caller);

        impl FromRequestParts<Api> for $name {
            type Rejection = ApiError;

            async fn from_request_parts($parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
                let $who = Caller::of($parts, api).await?;
                $rule?;
                parameters::check($parts)?;
                Ok(Self($who))
            }
        }

        impl Deref for $name {
            type Target = Caller;

            fn deref(&self) -> &Caller {
                &self.0
            }
        }
    )*};
}

pub(super) use admit;

admit! {
    /// Any operator and any sandbox.
    Anybody: |who, parts| ApiResult::Ok(());
    /// An operator, whatever the role.
    Viewer: |who, parts| who.viewer();
    /// An operator whose role allows changes.
    Operator: |who, parts| who.operator();
    /// An operator who may do everything.
    Admin: |who, parts| who.admin();
    /// The sandbox that the path names, or any operator.
    ReaderOf: |who, parts| who.reader_of(&path_id(parts).await);
    /// The sandbox that the path names, or an operator in its place.
    WorkerOf: |who, parts| who.worker_of(&path_id(parts).await);
    /// The sandbox that the path names.
    SandboxItself: |who, parts| who.sandbox_itself(&path_id(parts).await);
    /// A sandbox, or an operator in its place; whose task it is about is in the body.
    Worker: |who, parts| who.sandbox_or_operator();
}

/// A request that shows no token, because its operation needs none.
pub struct Stranger;

impl FromRequestParts<Api> for Stranger {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, ApiError> {
        parameters::check(parts)?;
        Ok(Self)
    }
}

/// The `id` of the path as it was sent; empty if there is none that can be read.
pub async fn path_id(parts: &mut Parts) -> String {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let id = params.as_ref().ok().and_then(|params| params.iter().find(|(name, _)| *name == "id"));
    id.map(|(_, value)| value.to_owned()).unwrap_or_default()
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
}

pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}
