//! What a model API says when it gives no answer, and what is to be made of it. Only here are its words looked at, where
//! the vendors have no code for what they mean.

use std::time::Duration;

use reqwest::{Response, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::time::timeout;

use super::error::{Error, Fault};
use crate::agent::http::{chain, quote};

const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_WAIT: Duration = Duration::from_secs(10);
const MESSAGE_CHARS_MAX: usize = 600;
const PAGE_CHARS_MAX: usize = 200;
/// The code by which the server says that there is no money left.
const OVER_BUDGET: &str = "budget_exceeded";
/// How the vendors say, in their messages, that the prompt is too long.
const TOO_LONG: [&str; 9] = [
    "prompt is too long",
    "input is too long",
    "context length",
    "context limit",
    "context window",
    "context size",
    "maximum context",
    "too many tokens",
    "reduce the length of the messages",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// None inside a stream whose error names none.
    status: Option<u16>,
    /// The vendor's or the server's word for it.
    pub code: String,
    pub message: String,
    after: Option<Duration>,
    should_retry: Option<bool>,
}

impl Refusal {
    /// The error of a body or of an event.
    pub fn of(error: &Value) -> Self {
        let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = text("message")
            .or_else(|| text("detail"))
            .or_else(|| error.as_str().map(str::to_owned))
            .unwrap_or_else(|| error.to_string());
        let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        // The server puts its own code before the message, because Anthropic's errors have no place for it.
        let (prefix, rest) = match message.split_once(": ") {
            Some((prefix, rest)) if is_code(prefix) => (Some(prefix.to_owned()), rest),
            _ => (None, message.as_str()),
        };
        let message = quote(rest, MESSAGE_CHARS_MAX);
        let code = text("code").or(prefix).or_else(|| text("type")).unwrap_or_default();
        Self { status, code: quote(&code, PAGE_CHARS_MAX), message, after: None, should_retry: None }
    }

    pub async fn read(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = body(response).await;
        let mut refusal = match serde_json::from_slice::<Value>(&body) {
            Ok(value) => Self::of(value.get("error").filter(|error| !error.is_null()).unwrap_or(&value)),
            Err(_) => Self::of(&Value::String(quote(&String::from_utf8_lossy(&body), PAGE_CHARS_MAX))),
        };
        if refusal.code.is_empty() {
            refusal.code = status.canonical_reason().unwrap_or("unknown").to_lowercase().replace(' ', "_");
        }
        if refusal.message.is_empty() {
            refusal.message = "it does not say why".to_owned();
        }
        let should_retry = header(&headers, "x-should-retry").map(|word| word == "true");
        Self { status: Some(status.as_u16()), after: after(&headers), should_retry, ..refusal }
    }

    /// As the answer to a request.
    pub fn fault(self) -> Fault {
        let status = self.status.unwrap_or_default();
        if self.is_over_budget() {
            return Fault::Final(Error::OverBudget { message: self.message });
        }
        if self.is_too_long() {
            return Fault::Final(Error::TooLong { message: self.message });
        }
        if self.may_pass(status) {
            let text = format!("{status} ({}): {}", self.code, self.message);
            return Fault::Passing { status: Some(status), text, after: self.after };
        }
        Fault::Final(Error::Refused { status, code: self.code, message: self.message })
    }

    /// As an event amid an answer, which has no status of its own.
    pub fn in_stream(mut self) -> Fault {
        let told = self.status.take().filter(|status| (400..600).contains(status));
        let status = told.unwrap_or(match self.code.as_str() {
            "invalid_request_error" | "context_length_exceeded" => 400,
            "authentication_error" => 401,
            "permission_error" | OVER_BUDGET => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "overloaded_error" => 529,
            _ => 500,
        });
        Self { status: Some(status), ..self }.fault()
    }

    /// Which of two words for the same thing the server wants: see `chat::LengthField`.
    pub fn names(&self, word: &str) -> bool {
        self.status == Some(400) && self.message.contains(word)
    }

    fn is_over_budget(&self) -> bool {
        self.status == Some(403) && self.code == OVER_BUDGET
    }

    fn is_too_long(&self) -> bool {
        match self.status {
            Some(413) => true,
            Some(400 | 422) => {
                let message = self.message.to_lowercase();
                self.code == "context_length_exceeded" || TOO_LONG.iter().any(|words| message.contains(words))
            }
            _ => false,
        }
    }

    fn may_pass(&self, status: u16) -> bool {
        match status {
            400 | 401 | 403 | 404 | 413 | 422 => false,
            // Nobody pays: the vendor has no other status for it.
            429 if self.code == "insufficient_quota" => false,
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
    Fault::Passing { status: Some(status), text, after: None }
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

    fn refusal(status: u16, error: Value) -> Refusal {
        Refusal { status: Some(status), ..Refusal::of(&error) }
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
            let fault = refusal.fault();
            assert_eq!(matches!(fault, Fault::Passing { .. }), again, "{status} {should_retry:?}: {fault:?}");
        }
    }

    #[test]
    fn the_vendors_words_for_a_prompt_that_is_too_long_are_known() {
        let too_long =
            |status, error| matches!(refusal(status, error).fault(), Fault::Final(Error::TooLong { .. }));
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
    fn the_servers_own_codes_are_found_on_both_wires() {
        let text = "budget_exceeded: the budget of this task is used up: 5 of 5 USD are spent";
        let anthropic = json!({ "type": "permission_error", "message": text });
        let openai =
            json!({ "type": "permission_error", "message": text, "param": null, "code": "budget_exceeded" });
        for error in [anthropic, openai] {
            let message = "the budget of this task is used up: 5 of 5 USD are spent".to_owned();
            assert_eq!(refusal(403, error).fault(), Fault::Final(Error::OverBudget { message }));
        }
        let ended =
            json!({ "type": "permission_error", "message": "token_ended: it holds its task no more" });
        let (code, message) = ("token_ended".to_owned(), "it holds its task no more".to_owned());
        assert_eq!(refusal(403, ended).fault(), Fault::Final(Error::Refused { status: 403, code, message }));
        let quota = json!({ "type": "insufficient_quota", "code": "insufficient_quota", "message": "pay" });
        assert!(matches!(refusal(429, quota).fault(), Fault::Final(Error::Refused { .. })));
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
        ] {
            let passing = match Refusal::of(&error).in_stream() {
                Fault::Passing { status, .. } => status,
                _ => None,
            };
            assert_eq!(passing, status, "{error}");
        }
    }
}
