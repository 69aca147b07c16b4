//! What a model API says when it gives no answer, and what is to be made of it. Refusals of the server's own are marked by
//! a header; what a vendor means is for `omoi_protocol::model` to say.

use std::time::Duration;

use omoi_protocol::{
    ModelFailure, Vendor,
    model::{REFUSED_HEADER, error_of},
};
use reqwest::{Response, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::time::timeout;

use super::error::{Error, Fault, Origin};
use crate::agent::http::{chain, quote};

const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_WAIT: Duration = Duration::from_secs(10);
const MESSAGE_CHARS_MAX: usize = 600;
const PAGE_CHARS_MAX: usize = 200;
/// The code by which the server says that there is no money left.
const OVER_BUDGET: &str = "budget_exceeded";
/// The code by which it ends an answer that is longer than it lets pass.
const ANSWER_TOO_LONG: &str = "answer_too_long";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// None inside a stream whose error names none.
    status: Option<u16>,
    /// The vendor's or the server's word for it.
    pub code: String,
    pub message: String,
    /// What a vendor means by it.
    failure: ModelFailure,
    /// The server itself refuses, and no vendor.
    by_server: bool,
    after: Option<Duration>,
    should_retry: Option<bool>,
}

impl Refusal {
    /// The error of an event.
    pub fn of(error: &Value) -> Self {
        let told = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        Self { status: told, ..Self::parse(None, error) }
    }

    fn parse(status: Option<u16>, error: &Value) -> Self {
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = text("message")
            .or_else(|| text("detail"))
            .or_else(|| error.as_str().map(str::to_owned))
            .unwrap_or_else(|| error.to_string());
        // The server puts its own code before the message, because Anthropic's errors have no place for it.
        let (prefix, rest) = match message.split_once(": ") {
            Some((prefix, rest)) if is_code(prefix) => (Some(prefix.to_owned()), rest),
            _ => (None, message.as_str()),
        };
        let message = quote(rest, MESSAGE_CHARS_MAX);
        let code = text("code").or(prefix).or_else(|| text("type")).unwrap_or_default();
        Self {
            status,
            code: quote(&code, PAGE_CHARS_MAX),
            message,
            failure: ModelFailure::of(status, error),
            by_server: false,
            after: None,
            should_retry: None,
        }
    }

    pub async fn read(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = body(response).await;
        let error = match error_of(&body) {
            Value::String(page) => Value::String(quote(&page, PAGE_CHARS_MAX)),
            error => error,
        };
        let mut refusal = Self::parse(Some(status.as_u16()), &error);
        if refusal.code.is_empty() {
            refusal.code = status.canonical_reason().unwrap_or("unknown").to_lowercase().replace(' ', "_");
        }
        if refusal.message.is_empty() {
            refusal.message = "it does not say why".to_owned();
        }
        let should_retry = header(&headers, "x-should-retry").map(|word| word == "true");
        let by_server = headers.contains_key(REFUSED_HEADER);
        Self { by_server, after: after(&headers), should_retry, ..refusal }
    }

    /// As the answer to a request, on the wire of a vendor.
    pub fn fault(self, vendor: Vendor) -> Fault {
        let status = self.status.unwrap_or_default();
        let origin = if self.by_server { Origin::Server } else { Origin::Vendor(vendor, self.failure) };
        if self.by_server && self.code == OVER_BUDGET {
            return Fault::Final(Error::OverBudget { message: self.message });
        }
        if self.failure == ModelFailure::ContextTooLong {
            return Fault::Final(Error::TooLong { message: self.message });
        }
        if self.may_pass(status) {
            let text = format!("{status} ({}): {}", self.code, self.message);
            return Fault::Passing { origin: Some(origin), status: Some(status), text, after: self.after };
        }
        Fault::Final(Error::Refused { origin, status, code: self.code, message: self.message })
    }

    /// As an event amid an answer, which has no status of its own.
    pub fn in_stream(mut self, vendor: Vendor) -> Fault {
        let told = self.status.take().filter(|status| (400..600).contains(status));
        let status = Some(told.unwrap_or(self.failure.status()));
        // The status was sent before the server could know.
        if self.code == ANSWER_TOO_LONG {
            (self.by_server, self.should_retry) = (true, Some(false));
        }
        Self { status, ..self }.fault(vendor)
    }

    /// Which of two words for the same thing the server wants: see `chat::LengthField`.
    pub fn names(&self, word: &str) -> bool {
        self.status == Some(400) && self.message.contains(word)
    }

    fn may_pass(&self, status: u16) -> bool {
        use ModelFailure::{ContentRefused, KeyInvalid, ModelNotFound, NoCredit, NotAllowed};
        let is_final =
            matches!(self.failure, ContentRefused | KeyInvalid | ModelNotFound | NoCredit | NotAllowed);
        match status {
            _ if is_final && !self.by_server => false,
            400 | 401 | 403 | 404 | 413 | 422 => false,
            408 | 409 | 429 | 500..600 => self.should_retry != Some(false),
            _ => self.should_retry == Some(true),
        }
    }
}

/// Not an answer at all, though it says 200: a page of some proxy, as a rule.
pub async fn no_stream(response: Response, content_type: &str) -> Fault {
    let (status, content_type) = (response.status().as_u16(), quote(content_type, PAGE_CHARS_MAX));
    let page = quote(&String::from_utf8_lossy(&body(response).await), PAGE_CHARS_MAX);
    let text = format!(
        "{status} with {content_type:?} in place of a stream of events, probably from a proxy or a wrong address; it \
         begins: {page}"
    );
    Fault::Passing { origin: None, status: Some(status), text, after: None }
}

/// Before there was any answer.
pub fn unsent(error: reqwest::Error) -> Fault {
    let is_connect = error.is_connect();
    let text = chain(&error.without_url());
    if is_connect { Fault::Away(text) } else { Fault::void(text) }
}

pub fn is_ok(response: &Response) -> bool {
    response.status() == StatusCode::OK
}

/// As much of it as is worth looking at, and as comes in time.
async fn body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = BODY_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == BODY_BYTES_MAX {
                break;
            }
        }
    };
    let _ = timeout(BODY_WAIT, read).await;
    body
}

/// A date is not worth a clock: then the usual pause does.
fn after(headers: &HeaderMap) -> Option<Duration> {
    let millis =
        header(headers, "retry-after-ms").and_then(|text| text.parse().ok()).map(Duration::from_millis);
    millis.or_else(|| {
        let seconds = header(headers, "retry-after")?.parse::<f64>().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    })
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn is_code(word: &str) -> bool {
    word.contains('_') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VENDOR: Vendor = Vendor::Anthropic;

    fn refusal(status: u16, error: Value) -> Refusal {
        Refusal::parse(Some(status), &error)
    }

    fn message(text: &str) -> Value {
        json!({ "type": "invalid_request_error", "message": text })
    }

    #[test]
    fn a_status_decides_whether_to_ask_again_unless_the_other_side_does() {
        for (status, should_retry, again) in [
            (400, None, false),
            (400, Some(true), false),
            (401, Some(true), false),
            (403, Some(true), false),
            (404, Some(true), false),
            (422, Some(true), false),
            (302, None, false),
            (402, None, false),
            (418, Some(true), true),
            (408, None, true),
            (409, None, true),
            (409, Some(false), false),
            (429, None, true),
            (429, Some(false), false),
            (500, None, true),
            (502, None, true),
            (529, None, true),
            (529, Some(false), false),
        ] {
            let refusal = Refusal { should_retry, ..refusal(status, message("no")) };
            let fault = refusal.fault(VENDOR);
            assert_eq!(matches!(fault, Fault::Passing { .. }), again, "{status} {should_retry:?}: {fault:?}");
        }
    }

    #[test]
    fn the_vendors_words_for_a_prompt_that_is_too_long_are_known() {
        let too_long = |status, error| {
            matches!(refusal(status, error).fault(VENDOR), Fault::Final(Error::TooLong { .. }))
        };
        for text in [
            "prompt is too long: 212345 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "This model's maximum context length is 128000 tokens.",
            "Input is too long for requested model.",
            "the request exceeds the available context size",
            "Please reduce the length of the messages or completion.",
        ] {
            assert!(too_long(400, message(text)), "{text}");
            assert!(!too_long(500, message(text)), "{text}");
        }
        assert!(too_long(
            413,
            json!({ "type": "request_too_large", "message": "Request exceeds the maximum size" })
        ));
        assert!(too_long(400, json!({ "code": "context_length_exceeded", "message": "x" })));
        assert!(!too_long(400, message("messages.1: tool_use ids were found without tool_result")));
    }

    #[test]
    fn the_servers_own_refusals_are_told_from_a_vendor_s_on_both_wires() {
        let of_server = |error: Value| Refusal { by_server: true, ..refusal(403, error) };
        let text = "budget_exceeded: the budget of this task is used up: 5 of 5 USD are spent";
        let anthropic = json!({ "type": "permission_error", "message": text });
        let openai =
            json!({ "type": "permission_error", "message": text, "param": null, "code": "budget_exceeded" });
        for error in [anthropic, openai] {
            let message = "the budget of this task is used up: 5 of 5 USD are spent".to_owned();
            assert_eq!(of_server(error.clone()).fault(VENDOR), Fault::Final(Error::OverBudget { message }));
            // A vendor's own budget is none of ours.
            let of_vendor = refusal(403, error).fault(VENDOR);
            let origin = Origin::Vendor(VENDOR, ModelFailure::NotAllowed);
            assert!(matches!(of_vendor, Fault::Final(Error::Refused { origin: told, .. }) if told == origin));
        }
        let ended =
            json!({ "type": "permission_error", "message": "token_ended: it holds its task no more" });
        let (code, message) = ("token_ended".to_owned(), "it holds its task no more".to_owned());
        let refused = Error::Refused { origin: Origin::Server, status: 403, code, message };
        assert!(refused.to_string().contains("the sandbox's token"), "{refused}");
        assert_eq!(of_server(ended).fault(VENDOR), Fault::Final(refused));
    }

    #[test]
    fn a_vendor_s_refusal_names_the_vendor_and_the_setting_and_no_token() {
        for (status, error, parts) in [
            (
                401,
                json!({ "type": "authentication_error", "message": "invalid x-api-key" }),
                [
                    "the server's key for Anthropic is not valid",
                    "model.anthropic_api_key (ANTHROPIC_API_KEY)",
                ],
            ),
            (
                400,
                json!({ "type": "invalid_request_error", "message": "Your credit balance is too low to access the API" }),
                ["has no credit or quota left", "add credit in the billing settings"],
            ),
            (
                429,
                json!({ "type": "insufficient_quota", "code": "insufficient_quota", "message": "pay" }),
                ["has no credit or quota left", "ANTHROPIC_API_KEY"],
            ),
            (
                404,
                json!({ "type": "not_found_error", "message": "model: m" }),
                ["does not offer this model", "worker.model"],
            ),
        ] {
            let Fault::Final(refused) = refusal(status, error).fault(VENDOR) else { panic!("{status}") };
            let text = refused.to_string();
            assert!(parts.iter().all(|part| text.contains(part)) && !text.contains("token"), "{text}");
        }
    }

    #[test]
    fn errors_amid_a_stream_are_judged_by_their_name() {
        for (error, status) in [
            (json!({ "type": "overloaded_error", "message": "Overloaded" }), Some(529)),
            (json!({ "type": "api_error", "message": "x" }), Some(500)),
            (json!({ "type": "rate_limit_error", "message": "x" }), Some(429)),
            (json!({ "code": 502, "message": "Provider returned error" }), Some(502)),
            (json!("something"), Some(500)),
            (json!({ "type": "invalid_request_error", "message": "x" }), None),
            (json!({ "type": "authentication_error", "message": "x" }), None),
            (json!({ "code": 404, "message": "x" }), None),
            (json!({ "type": "billing_error", "message": "x" }), None),
            (json!({ "type": "api_error", "message": "answer_too_long: it has more than 9 bytes" }), None),
        ] {
            let passing = match Refusal::of(&error).in_stream(VENDOR) {
                Fault::Passing { status, .. } => status,
                _ => None,
            };
            assert_eq!(passing, status, "{error}");
        }
    }
}
