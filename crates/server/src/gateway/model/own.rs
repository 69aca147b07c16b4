//! A question of the server's own about a sandbox: one call that is answered by one tool, read whole. It goes the way of all
//! calls, to a vendor or to a scenario, and is admitted, metered and booked like them.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use bytes::Bytes;
use omoi_protocol::{CallId, CallPurpose, ModelFailure, SandboxId, Vendor, launch::Wire, model::error_of};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    call::Call,
    calls::Calls,
    door::{self, COMPLETIONS, MESSAGES},
    refusal::Refusal,
    request::Request,
    upstream::Letter,
};
use crate::{
    domain::charge::{Ceiling, Output},
    store::NewCall,
};

const CHUNKS_MAX: usize = 16;
/// A longer answer is none.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Of what a vendor says in place of an answer, so much is told.
const ERROR_CHARS_MAX: usize = 300;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

#[derive(Debug, Clone)]
pub struct Own {
    pub purpose: CallPurpose,
    pub sandbox_id: SandboxId,
    pub model: String,
    pub system: &'static str,
    pub text: String,
    pub tool: Tool,
    /// Tokens that the answer may have.
    pub output_max: u64,
    /// How long it may take in all.
    pub within: Duration,
}

/// The one by which the model answers.
#[derive(Debug, Clone)]
pub struct Tool {
    pub name: &'static str,
    pub about: &'static str,
    /// Of its input.
    pub schema: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    #[error("{0}")]
    Budget(String),
    #[error("{0}")]
    Unavailable(String),
    #[error("no answer came within {0:?}")]
    TimedOut(Duration),
    #[error("the model declined to answer")]
    Declined,
    #[error("{0}")]
    Malformed(String),
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        match refusal.is_about_money() {
            true => Self::Budget(refusal.into_message()),
            false => Self::Unavailable(refusal.into_message()),
        }
    }
}

impl Calls {
    /// The input of the tool, as the model gave it. The call is booked by then, unless it took too long: then it is cut off,
    /// and booked in a moment. `id` is what its record is called, if it comes to one.
    pub async fn ask(&self, id: CallId, own: Own) -> Result<Value, Unanswered> {
        let within = own.within;
        timeout(within, self.put(id, own)).await.unwrap_or(Err(Unanswered::TimedOut(within)))
    }

    async fn put(&self, id: CallId, own: Own) -> Result<Value, Unanswered> {
        let wire = Wire::of_model(&own.model);
        let vendor = wire.vendor();
        let target = match wire {
            Wire::Messages => MESSAGES,
            Wire::Chat => COMPLETIONS,
        };
        let body = Bytes::from(body(vendor, &own).to_string());
        let ceiling = Ceiling { request_bytes: body.len() as u64, output: Output::bounded(own.output_max) };
        let booking = NewCall {
            id,
            sandbox_id: own.sandbox_id,
            vendor,
            model: own.model,
            purpose: own.purpose,
            request_bytes: ceiling.request_bytes,
            output_max: ceiling.output.expected,
        };
        let request = match door::scripted(self, Some(&booking), &body)? {
            Some(request) => request,
            None => {
                let headers =
                    HeaderMap::from_iter([(header::CONTENT_TYPE, JSON), (header::ACCEPT, JSON), VERSION]);
                let letter = Letter { method: Method::POST, path: target.path.to_owned(), headers, body };
                Request::Vendor(self.upstreams.of(vendor).request(letter)?)
            }
        };
        let (head, answer) = oneshot::channel();
        let (chunks, mut parts) = mpsc::channel(CHUNKS_MAX);
        // How many are under way at once is for the caller to limit.
        let call = Call {
            calls: self.clone(),
            vendor,
            request,
            ceiling,
            booking: Some(booking),
            slot: None,
            token: None,
        };
        self.tracker.spawn(call.run(head, chunks));
        let broken = |_| Unanswered::Unavailable("the answer broke off".to_owned());
        let head = answer.await.map_err(|_| Unanswered::Unavailable("the call was cut off".to_owned()))??;
        let mut bytes = Vec::new();
        // The end of it comes when the call is booked.
        while let Some(chunk) = parts.recv().await {
            bytes.extend_from_slice(&chunk.map_err(broken)?);
            if bytes.len() > ANSWER_BYTES_MAX {
                return Err(Unanswered::Malformed(format!(
                    "the answer has more than {ANSWER_BYTES_MAX} bytes"
                )));
            }
        }
        if !head.status.is_success() {
            let said: String = String::from_utf8_lossy(&bytes).chars().take(ERROR_CHARS_MAX).collect();
            let status = head.status.as_u16();
            let advice = ModelFailure::of(Some(status), &error_of(&bytes)).advice(vendor);
            return Err(Unanswered::Unavailable(format!(
                "the {} answered {status}: {said}; {advice}",
                vendor.api()
            )));
        }
        read(vendor, own.tool.name, &bytes)
    }
}

fn body(vendor: Vendor, own: &Own) -> Value {
    let Tool { name, about, schema } = &own.tool;
    match vendor {
        Vendor::Anthropic => json!({
            "model": own.model, "max_tokens": own.output_max, "system": own.system,
            "messages": [{ "role": "user", "content": own.text }],
            "tools": [{ "name": name, "description": about, "input_schema": schema }],
            "tool_choice": { "type": "tool", "name": name },
        }),
        Vendor::Openai => json!({
            "model": own.model, "max_completion_tokens": own.output_max,
            "messages": [{ "role": "system", "content": own.system }, { "role": "user", "content": own.text }],
            "tools": [{ "type": "function", "function": { "name": name, "description": about, "parameters": schema } }],
            "tool_choice": { "type": "function", "function": { "name": name } },
        }),
    }
}

/// What the model handed to the tool.
fn read(vendor: Vendor, tool: &str, answer: &[u8]) -> Result<Value, Unanswered> {
    let malformed = |what: &str| Unanswered::Malformed(what.to_owned());
    let answer: Value = serde_json::from_slice(answer).map_err(|_| malformed("the answer is no JSON"))?;
    let (declined, input) = match vendor {
        Vendor::Anthropic => {
            let blocks = answer["content"].as_array().map_or(&[][..], Vec::as_slice);
            let call = blocks.iter().find(|block| block["type"] == "tool_use" && block["name"] == tool);
            (answer["stop_reason"] == "refusal", call.map(|call| call["input"].clone()))
        }
        Vendor::Openai => {
            let (choice, message) = (&answer["choices"][0], &answer["choices"][0]["message"]);
            let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
            let call = calls.iter().map(|call| &call["function"]).find(|call| call["name"] == tool);
            let input = call.and_then(|call| call["arguments"].as_str());
            let input = input.map(|text| serde_json::from_str(text).unwrap_or(Value::Null));
            (choice["finish_reason"] == "content_filter" || message["refusal"].is_string(), input)
        }
    };
    match input {
        _ if declined => Err(Unanswered::Declined),
        Some(input) if input.is_object() => Ok(input),
        Some(_) => Err(malformed("what was handed to the tool is no JSON object")),
        None => Err(malformed("the answer does not call the tool")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_of_the_tool_is_the_answer_and_nothing_else_is() {
        use Vendor::{Anthropic, Openai};
        let chat = |message: Value| json!({ "choices": [{ "message": message, "finish_reason": "stop" }] });
        let called = |arguments: &str| {
            chat(json!({ "tool_calls": [{ "function": { "name": "t", "arguments": arguments } }] }))
        };
        let input = json!({ "a": 1 });
        let use_of = |name: &str| json!({ "type": "tool_use", "name": name, "input": input });
        let malformed = |what: &str| Err(Unanswered::Malformed(what.to_owned()));
        let no_call = || malformed("the answer does not call the tool");
        for (vendor, answer, expected) in [
            (
                Anthropic,
                json!({ "content": [{ "type": "text", "text": "hm" }, use_of("t")] }),
                Ok(input.clone()),
            ),
            (Anthropic, json!({ "content": [use_of("other")] }), no_call()),
            (Anthropic, json!({ "content": [{ "type": "text", "text": "{\"a\":1}" }] }), no_call()),
            (
                Anthropic,
                json!({ "content": [use_of("t")], "stop_reason": "refusal" }),
                Err(Unanswered::Declined),
            ),
            (Anthropic, json!([]), no_call()),
            (Openai, called("{\"a\":1}"), Ok(input.clone())),
            (Openai, called("{\"a\":"), malformed("what was handed to the tool is no JSON object")),
            (Openai, chat(json!({ "content": "fine" })), no_call()),
            (Openai, chat(json!({ "refusal": "no" })), Err(Unanswered::Declined)),
        ] {
            assert_eq!(read(vendor, "t", answer.to_string().as_bytes()), expected, "{answer}");
        }
        assert_eq!(read(Anthropic, "t", b"<html>"), malformed("the answer is no JSON"));
    }
}
