//! Errors as callers see them: `application/problem+json` with a stable code, a cause and a next step.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use omoi_protocol::problem::{CONTENT_TYPE, Problem};
use serde_json::{Map, Value as Json_, json};

use super::request_id;
use crate::store;

pub type ApiResult<T> = Result<T, ApiError>;

#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: String,
    detail: String,
    facts: Map<String, Json_>,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { status, code: code.into(), detail: detail.into(), facts: Map::new(), retry_after: None }
    }

    pub fn invalid(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub fn unauthorized(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, detail)
    }

    pub fn forbidden(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    pub fn too_large(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, code, detail)
    }

    pub fn too_many(code: &str, detail: impl Into<String>, after: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, code, detail).retry_after(after)
    }

    /// What went wrong is for the log; the caller is told where to look for it.
    pub fn defect(error: &str) -> Self {
        let id = request_id::current();
        tracing::error!(request.id = id, error, "a request failed through a defect of the server");
        let detail = "the server made a mistake; its log says more under this request's X-Request-ID";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", detail)
    }

    fn fact(mut self, key: &str, value: Json_) -> Self {
        self.facts.insert(key.to_owned(), value);
        self
    }

    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Whether a better token would help, as opposed to another moment.
    pub fn blames_the_token(&self) -> bool {
        matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Status, code, detail and when to try again: for answers of another shape.
    pub fn into_parts(self) -> (StatusCode, String, String, Option<Duration>) {
        (self.status, self.code, self.detail, self.retry_after)
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = Problem {
            status: self.status.as_u16(),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            code: self.code,
            detail: self.detail,
            facts: self.facts,
        };
        let mut response = (self.status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        use store::Error as E;
        let text = error.to_string();
        match error {
            E::NotFound { kind, .. } => {
                Self::new(StatusCode::NOT_FOUND, format!("{}_not_found", kind.replace(' ', "_")), text)
            }
            E::Conflict { code, .. } => Self::new(StatusCode::CONFLICT, code, text),
            E::SequenceGap { expected, .. } => {
                Self::new(StatusCode::CONFLICT, "sequence_gap", text).fact("expected", json!(expected))
            }
            E::Misplaced { code, size, .. } => {
                Self::new(StatusCode::CONFLICT, code, text).fact("size", json!(size))
            }
            E::Full { code, .. } => Self::too_large(code, text),
            E::Cycle { cycle } => Self::invalid("dependency_cycle", text).fact("cycle", json!(cycle)),
            E::TokenEnded => Self::unauthorized("token_ended", text),
            E::Invalid { code, .. } => Self::invalid(code, text),
            E::TooSoon { code, after, .. } => Self::too_many(code, text, after),
            E::Busy => Self::too_many("queue_full", format!("{text}; send it again in a moment"), SOON),
            E::Unavailable(cause) => {
                let id = request_id::current();
                tracing::warn!(request.id = id, %cause, "the database is not available");
                let detail = "the database does not answer; send it again in a moment";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database_unavailable", detail).retry_after(SOON)
            }
            E::Io(cause) => {
                let id = request_id::current();
                tracing::error!(request.id = id, %cause, "the database's files cannot be read or written");
                let detail =
                    "the server cannot read or write its database; its log says why; try again in a moment";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database_unavailable", detail).retry_after(SOON)
            }
            E::DiskFull(_) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", text).retry_after(ROOM)
            }
            E::Removed(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database_removed", text).retry_after(ROOM)
            }
            E::Statement(_) | E::Corrupt { .. } => Self::defect(&text),
        }
    }
}

const SOON: Duration = Duration::from_secs(1);
/// Somebody has to put something right first.
const ROOM: Duration = Duration::from_secs(5);
