//! Who calls, and what that allows.

use std::{ops::Deref, sync::Arc};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
};
use omoi_protocol::{Role, SandboxId};

use super::{
    Api,
    problem::{ApiError, ApiResult},
    session,
};
use crate::store::{Bearer, Error};

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
        Ok(Self(api.enter(&parts.extensions, secret).await?))
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

/// A caller who is known to have the role before the body of the request is read, let alone parsed.
macro_rules! with_role {
    ($name:ident, $role:ident) => {
        pub struct $name(Caller);

        impl FromRequestParts<Api> for $name {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
                let who = Caller::from_request_parts(parts, api).await?;
                who.$role()?;
                Ok(Self(who))
            }
        }

        impl Deref for $name {
            type Target = Caller;

            fn deref(&self) -> &Caller {
                &self.0
            }
        }
    };
}

with_role!(Operator, operator);
with_role!(Admin, admin);

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
