//! A speech on the wire of chat completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    messages::pieces,
    speech::{Part, Speech, Stop},
};

/// The whole answer as one document.
pub fn whole(speech: &Speech) -> Bytes {
    let joined = |of: fn(&Part) -> Option<&str>| {
        let text: String = speech.parts.iter().filter_map(of).collect();
        (!text.is_empty()).then_some(text)
    };
    let mut message = json!({ "role": "assistant", "content": joined(text) });
    if let Some(thought) = joined(thought) {
        message["reasoning_content"] = thought.into();
    }
    let calls: Vec<Value> = speech.parts.iter().filter_map(|part| call(part, &arguments(part)?)).collect();
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": stop(speech.stop) });
    let mut completion = head(speech, "chat.completion", choice);
    completion["usage"] = usage(speech);
    completion.to_string().into()
}

/// The answer as events, each of them a chunk.
pub fn stream(speech: &Speech) -> Vec<Bytes> {
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    let mut calls = 0;
    for part in &speech.parts {
        match part {
            Part::Thinking(text) => {
                deltas.extend(pieces(text).into_iter().map(|piece| json!({ "reasoning_content": piece })));
            }
            Part::Text(text) => {
                deltas.extend(pieces(text).into_iter().map(|piece| json!({ "content": piece })));
            }
            Part::Call { arguments, .. } => {
                let indexed = |mut call: Value| {
                    call["index"] = calls.into();
                    json!({ "tool_calls": [call] })
                };
                deltas.extend(call(part, "").map(indexed));
                let more = |piece: String| indexed(json!({ "function": { "arguments": piece } }));
                deltas.extend(pieces(&arguments.text()).into_iter().map(more));
                calls += 1;
            }
        }
    }
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        head(speech, "chat.completion.chunk", choice)
    };
    let mut chunks: Vec<Value> = deltas.into_iter().map(|delta| chunk(delta, None)).collect();
    chunks.push(chunk(json!({}), Some(stop(speech.stop))));
    let mut last = chunk(json!({}), None);
    last["choices"] = json!([]);
    last["usage"] = usage(speech);
    chunks.push(last);
    chunks.iter().map(event).chain([Bytes::from_static(b"data: [DONE]\n\n")]).collect()
}

pub fn error(kind: &str, message: &str) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": null, "code": kind } })
}

pub fn event(event: &Value) -> Bytes {
    format!("data: {event}\n\n").into()
}

/// `created` is no time, so that the same is said to the same.
fn head(speech: &Speech, object: &str, choice: Value) -> Value {
    json!({ "id": speech.id, "object": object, "created": 0, "model": speech.model, "choices": [choice] })
}

fn text(part: &Part) -> Option<&str> {
    if let Part::Text(text) = part { Some(text) } else { None }
}

fn thought(part: &Part) -> Option<&str> {
    if let Part::Thinking(text) = part { Some(text) } else { None }
}

fn arguments(part: &Part) -> Option<String> {
    if let Part::Call { arguments, .. } = part { Some(arguments.text()) } else { None }
}

fn call(part: &Part, arguments: &str) -> Option<Value> {
    let Part::Call { id, tool, .. } = part else { return None };
    Some(json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": arguments } }))
}

/// Here the prompt includes what was cached.
fn usage(speech: &Speech) -> Value {
    let (used, prompt) = (&speech.usage, speech.usage.input + speech.usage.cache_read);
    json!({
        "prompt_tokens": prompt, "completion_tokens": used.output, "total_tokens": prompt + used.output,
        "prompt_tokens_details": { "cached_tokens": used.cache_read },
    })
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
    }
}
