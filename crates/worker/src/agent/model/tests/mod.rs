//! The client against a stand-in for a model API that plays what it is given, byte by byte.

mod chat;
mod faults;
mod messages;
mod recordings;
mod standin;

use std::time::Duration;

use omoi_protocol::launch::Wire;
use serde_json::{Value, json};

use self::standin::{Reply, Standin};
use super::{Answer, Ask, Error, Model, Progress, RetryPolicy, Settings};
use crate::agent::talk::{Block, Message, ToolSpec};

const QUICK: RetryPolicy = RetryPolicy {
    attempts_max: 3,
    base: Duration::from_millis(1),
    cap: Duration::from_millis(2),
    total_away: Duration::from_secs(60),
};

/// What was told, in words of its own.
#[derive(Debug, Default)]
struct Told {
    text: String,
    thinking: String,
    retries: Vec<(u32, Option<u16>, String)>,
}

impl Told {
    fn note(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Text(text) => self.text.push_str(text),
            Progress::Thinking(text) => self.thinking.push_str(text),
            Progress::Retrying { attempt, status, error, .. } => self.retries.push((attempt, status, error)),
        }
    }
}

fn settings(wire: Wire, url: &str) -> Settings {
    Settings {
        wire,
        base_url: url.to_owned(),
        token: "the-token".to_owned(),
        model: "some-model".to_owned(),
        stall: Duration::from_secs(20),
        total: Duration::from_secs(60),
        retry: QUICK,
    }
}

fn model(wire: Wire, standin: &Standin) -> Model {
    Model::new(settings(wire, &standin.url)).unwrap()
}

async fn ask(model: &Model) -> (Result<Answer, Error>, Told) {
    let messages = [Message::user(vec![Block::text("hello")])];
    let ask = Ask { system: "be brief", tools: &[], messages: &messages, max_tokens: 100 };
    let mut told = Told::default();
    let answer = model.ask(&ask, &mut |progress| told.note(progress)).await;
    (answer, told)
}

/// The answer to one body, at the first attempt.
async fn answer_to(wire: Wire, body: &str) -> (Answer, Told) {
    let standin = Standin::start(vec![Reply::stream(body)]).await;
    let (answer, told) = ask(&model(wire, &standin)).await;
    assert_eq!(told.retries, vec![]);
    (answer.unwrap(), told)
}

/// What one body comes to when it comes every time.
async fn error_to(wire: Wire, reply: Reply) -> (Error, Told) {
    let standin = Standin::start(vec![reply]).await;
    let (answer, told) = ask(&model(wire, &standin)).await;
    (answer.unwrap_err(), told)
}

/// A stream of the Messages API.
fn messages_stream(events: &[Value]) -> String {
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

fn chat_stream(chunks: &[Value]) -> String {
    let chunks: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    format!("{chunks}data: [DONE]\n\n")
}

fn message_start() -> Value {
    let usage = json!({ "input_tokens": 25, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 7,
        "output_tokens": 1, "service_tier": "standard" });
    json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "model": "m-1", "usage": usage } })
}

fn message_end(reason: &str) -> [Value; 2] {
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    [
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 15, "input_tokens": null } }),
        json!({ "type": "message_stop" }),
    ]
}

/// One that says `Grüße`.
fn greeting() -> String {
    let [delta, stop] = message_end("end_turn");
    messages_stream(&[
        message_start(),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "ping" }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Grü" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "ße" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        delta,
        stop,
    ])
}

fn chat_greeting() -> String {
    chat_stream(&[
        json!({ "id": "c-1", "model": "m-1", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "" } }] }),
        json!({ "id": "c-1", "choices": [{ "index": 0, "delta": { "content": "Grüße" } }], "usage": null }),
        json!({ "id": "c-1", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
        json!({ "id": "c-1", "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 9,
            "prompt_tokens_details": { "cached_tokens": 60 } } }),
    ])
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "does it".to_owned(),
        input_schema: json!({ "type": "object" }),
    }
}
