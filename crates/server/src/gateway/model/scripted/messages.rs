//! A speech on the Messages wire.

use bytes::Bytes;
use serde_json::{Value, json};

use super::speech::{Arguments, Part, Speech, Stop};

/// Stands for the vendor's signature of a thought, which nobody here checks.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";
const TEXT_CHARS: usize = 24;

/// The whole answer as one document.
pub fn whole(speech: &Speech) -> Bytes {
    let content: Vec<Value> = speech.parts.iter().map(block).collect();
    let mut message = head(speech);
    message["content"] = content.into();
    message["stop_reason"] = stop(speech.stop).into();
    message["usage"]["output_tokens"] = speech.usage.output.into();
    message.to_string().into()
}

/// The answer as events, each of them a chunk.
pub fn stream(speech: &Speech) -> Vec<Bytes> {
    let mut events =
        vec![json!({ "type": "message_start", "message": head(speech) }), json!({ "type": "ping" })];
    for (index, part) in speech.parts.iter().enumerate() {
        let delta = |delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": empty(part) }));
        events.extend(deltas(part).into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop(speech.stop), "stop_sequence": null },
        "usage": { "output_tokens": speech.usage.output },
    }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(event).collect()
}

/// An error, as an event within a stream or as a whole answer.
pub fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

pub fn event(event: &Value) -> Bytes {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()).into()
}

/// Pieces of a text as they come from a model.
pub fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(TEXT_CHARS).map(|piece| piece.iter().collect()).collect()
}

fn head(speech: &Speech) -> Value {
    json!({
        "id": speech.id, "type": "message", "role": "assistant", "model": speech.model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": speech.usage.input, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": speech.usage.cache_read, "output_tokens": 1,
        },
    })
}

fn block(part: &Part) -> Value {
    let mut block = empty(part);
    match part {
        Part::Thinking(text) => {
            block["thinking"] = text.as_str().into();
            block["signature"] = SIGNATURE.into();
        }
        Part::Text(text) => block["text"] = text.as_str().into(),
        Part::Call { arguments, .. } => {
            block["input"] = match arguments {
                Arguments::Whole(input) => Value::Object(input.clone()),
                // As near as a whole document can come to it.
                Arguments::Broken(text) => text.as_str().into(),
            };
        }
    }
    block
}

fn empty(part: &Part) -> Value {
    match part {
        Part::Thinking(_) => json!({ "type": "thinking", "thinking": "", "signature": "" }),
        Part::Text(_) => json!({ "type": "text", "text": "" }),
        Part::Call { id, tool, .. } => json!({ "type": "tool_use", "id": id, "name": tool, "input": {} }),
    }
}

fn deltas(part: &Part) -> Vec<Value> {
    match part {
        Part::Thinking(text) => {
            let thought = |piece: String| json!({ "type": "thinking_delta", "thinking": piece });
            let signed = json!({ "type": "signature_delta", "signature": SIGNATURE });
            pieces(text).into_iter().map(thought).chain([signed]).collect()
        }
        Part::Text(text) => {
            let said = |piece: String| json!({ "type": "text_delta", "text": piece });
            pieces(text).into_iter().map(said).collect()
        }
        Part::Call { arguments, .. } => {
            let part = |piece: String| json!({ "type": "input_json_delta", "partial_json": piece });
            pieces(&arguments.text()).into_iter().map(part).collect()
        }
    }
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::Refusal => "refusal",
    }
}
