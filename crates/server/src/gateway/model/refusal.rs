//! Why a call is not made or not answered, in the shape that the vendor's own errors have, so that an agent shows it.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use omoi_protocol::Vendor;
use serde_json::json;

use crate::{
    domain::{budget::Standing, money::Usd},
    http::problem::ApiError,
    store,
};

/// What the vendors' libraries heed before the status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const OVER_BUDGET: &str = "budget_exceeded";
const RESERVED: &str = "budget_reserved";
const SOON: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    code: String,
    message: String,
    retry_after: Option<Duration>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), retry_after: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub fn busy(code: &str, message: impl Into<String>) -> Self {
        Self { retry_after: Some(SOON), ..Self::new(StatusCode::TOO_MANY_REQUESTS, code, message) }
    }

    /// 403, because agents try again what is answered with 401, 429 or 5xx, and it would be refused again.
    pub fn over_budget(of: &Standing) -> Self {
        let limit = of.limit.unwrap_or_default();
        let message = format!(
            "the budget of this {} is used up: {} of {limit} USD are spent; somebody must raise it before the work \
             can go on",
            of.level, of.spent
        );
        Self::new(StatusCode::FORBIDDEN, OVER_BUDGET, message)
    }

    pub fn judge_over_budget(spent: Usd, limit: Usd) -> Self {
        let message = format!(
            "the judge was not asked, because its budget is used up: {spent} of {limit} USD of 24 hours \
             (judge.day_budget_usd)"
        );
        Self::new(StatusCode::FORBIDDEN, OVER_BUDGET, message)
    }

    pub fn reserved(of: &Standing) -> Self {
        let message = format!(
            "what is left of the budget of this {} is reserved by calls under way; try again when one has ended",
            of.level
        );
        Self::busy(RESERVED, message)
    }

    /// Whether it is refused because there is no money for it.
    pub fn is_about_money(&self) -> bool {
        self.code == OVER_BUDGET || self.code == RESERVED
    }

    pub fn into_message(self) -> String {
        self.message
    }

    /// The vendor's address does not answer as it should.
    pub fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "model_unavailable", message)
    }

    pub fn into_response(self, vendor: Vendor) -> Response {
        let (kind, code) = (kind(self.status), self.code);
        let message = format!("{code}: {}", self.message);
        let body = match vendor {
            Vendor::Anthropic => json!({ "type": "error", "error": { "type": kind, "message": message } }),
            Vendor::Openai => {
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        } else if self.status.is_client_error() {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

/// Anthropic's words, which OpenAI's libraries take as well.
fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::GATEWAY_TIMEOUT => "timeout_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        let (status, code, message, retry_after) = error.into_parts();
        Self { status, code, message, retry_after }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            // Not 401, at which agents try again for minutes.
            store::Error::TokenEnded => {
                let message = "the sandbox holds its task no more, so it makes no more model calls";
                Self::new(StatusCode::FORBIDDEN, "token_ended", message)
            }
            error => ApiError::from(error).into(),
        }
    }
}
