//! Why a call is not made or not answered, in the shape that the vendor's own errors have, so that an agent shows it.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use omoi_protocol::{Vendor, model::REFUSED_HEADER};
use serde_json::{Value, json};

use super::meter::Excess;
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
    /// A repeat would be refused again, whatever agents make of the status.
    for_good: bool,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let for_good = status.is_client_error();
        Self { status, code: code.to_owned(), message: message.into(), retry_after: None, for_good }
    }

    /// For what would cost the same again and come to the same.
    pub fn for_good(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { for_good: true, ..Self::new(status, code, message) }
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
            "running calls have reserved the rest of this {}'s budget; retry when one of them ends",
            of.level
        );
        Self::busy(RESERVED, message)
    }

    /// Whether it is refused because there is no money for it.
    pub fn is_about_money(&self) -> bool {
        self.code == OVER_BUDGET || self.code == RESERVED
    }

    pub fn code(&self) -> &str {
        &self.code
    }

    pub fn into_message(self) -> String {
        self.message
    }

    /// The vendor's address does not answer as it should.
    pub fn bad_gateway(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "model_unavailable", message)
    }

    /// An answer that is longer than it may be.
    pub fn too_long(excess: Excess) -> Self {
        let message =
            format!("the answer of the model API was cut off: {excess}; ask for a shorter one (max_tokens)");
        Self::for_good(StatusCode::BAD_GATEWAY, "answer_too_long", message)
    }

    pub fn into_response(self, vendor: Vendor) -> Response {
        let mut response = (self.status, Json(self.body(vendor))).into_response();
        let headers = response.headers_mut();
        if let Ok(code) = HeaderValue::from_str(&self.code) {
            headers.insert(HeaderName::from_static(REFUSED_HEADER), code);
        }
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        } else if self.for_good {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }

    /// As the last event of a stream that has begun. It begins with the end of whatever event was under way.
    pub fn into_event(self, vendor: Vendor) -> Bytes {
        let name = if vendor == Vendor::Anthropic { "event: error\n" } else { "" };
        format!("\n\n{name}data: {}\n\n", self.body(vendor)).into()
    }

    fn body(&self, vendor: Vendor) -> Value {
        let (kind, code) = (kind(self.status), &self.code);
        let message = format!("{code}: {}", self.message);
        match vendor {
            Vendor::Anthropic => json!({ "type": "error", "error": { "type": kind, "message": message } }),
            Vendor::Openai => {
                json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
            }
        }
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
        Self { retry_after, ..Self::new(status, &code, message) }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            // Not 401, at which agents try again for minutes.
            store::Error::TokenEnded => {
                let message = "the sandbox's attempt has ended, so the server refuses its model calls";
                Self::new(StatusCode::FORBIDDEN, "token_ended", message)
            }
            error => ApiError::from(error).into(),
        }
    }
}
