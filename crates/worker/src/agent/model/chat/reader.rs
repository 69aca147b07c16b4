//! An answer in chat completions, put together from its chunks.

use std::collections::BTreeMap;

use omoi_protocol::{Vendor, outcome::Tokens};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::REASONING_CONTENT;
use crate::agent::{
    model::{
        answer::{Answer, Flow, Progress, Reader, Stop, Tell, Weight, arguments},
        error::Fault,
        refusal::Refusal,
        retry::random,
    },
    talk::Block,
};

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Map<String, Value>>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

/// A call that is being read.
#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    json: String,
}

#[derive(Default)]
pub struct ChatReader {
    id: String,
    model: String,
    thinking: String,
    /// Where the thoughts came under.
    signature: &'static str,
    text: String,
    calls: Vec<Call>,
    finish_reason: Option<String>,
    refused: bool,
    usage: Option<Map<String, Value>>,
    weight: Weight,
}

impl Reader for ChatReader {
    fn event(&mut self, data: &str, tell: Tell<'_>) -> Result<Flow, Fault> {
        if data.trim() == "[DONE]" {
            return Ok(Flow::Done);
        }
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| Fault::void(format!("an event of the stream is no valid JSON: {error}")))?;
        if let Some(error) = chunk.error {
            return Err(Refusal::of(&error).in_stream(Vendor::Openai));
        }
        note(&mut self.id, chunk.id);
        note(&mut self.model, chunk.model);
        self.usage = chunk.usage.or(self.usage.take());
        // One answer was asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.grow(delta, tell)?;
            }
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
        Ok(Flow::More)
    }

    /// Models may think in silence, and the first event does not tell.
    fn has_begun(&self) -> bool {
        !self.text.is_empty()
            || !self.thinking.is_empty()
            || !self.calls.is_empty()
            || self.finish_reason.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Answer, Fault> {
        let Some(reason) = self.finish_reason else {
            return Err(Fault::void("the answer ended before its end: it has no finish_reason"));
        };
        if matches!(reason.as_str(), "error" | "insufficient_system_resource") {
            return Err(Fault::void(format!("the answer broke off: its finish_reason is {reason}")));
        }
        let stop = stop(reason, self.refused, !self.calls.is_empty());
        let usage = self.usage.as_ref().map(tokens).unwrap_or_default();
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            let signature = self.signature.to_owned();
            content.push(Block::Thinking { thinking: self.thinking, signature });
        }
        if !self.text.is_empty() {
            content.push(Block::Text { text: self.text });
        }
        let broken = finish_calls(self.calls, &mut content);
        let raw_usage = self.usage.map_or(Value::Null, Value::Object);
        Ok(Answer { id: self.id, model: self.model, content, stop, usage, raw_usage, broken })
    }
}

impl ChatReader {
    fn grow(&mut self, delta: Delta, tell: Tell<'_>) -> Result<(), Fault> {
        let content = delta.reasoning_content.filter(|text| !text.is_empty());
        let (thought, signature) =
            if content.is_some() { (content, REASONING_CONTENT) } else { (delta.reasoning, "") };
        if let Some(thought) = thought.filter(|text| !text.is_empty()) {
            tell(Progress::Thinking(&thought));
            self.weight.add(thought.len())?;
            self.thinking.push_str(&thought);
            self.signature = signature;
        }
        self.refused |= delta.refusal.as_ref().is_some_and(|text| !text.is_empty());
        for text in [delta.content, delta.refusal].into_iter().flatten().filter(|text| !text.is_empty()) {
            tell(Progress::Text(&text));
            self.weight.add(text.len())?;
            self.text.push_str(&text);
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.grow_call(call)?;
        }
        Ok(())
    }

    fn grow_call(&mut self, delta: CallDelta) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let (name, json) = match delta.function {
            Some(function) => {
                (function.name.unwrap_or_default(), function.arguments.map_or_else(String::new, text))
            }
            None => Default::default(),
        };
        let at = self.place(delta.index, &id, !name.is_empty())?;
        let call = &mut self.calls[at];
        self.weight.add(json.len() + name.len() + id.len())?;
        call.json.push_str(&json);
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        Ok(())
    }

    /// Which call a piece belongs to. Some servers give all calls the same number but ids of their own, some give no
    /// numbers at all.
    fn place(&mut self, index: Option<u64>, id: &str, named: bool) -> Result<usize, Fault> {
        let same = |call: &Call| match index {
            Some(_) => call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id),
            None => !named || (!id.is_empty() && call.id == id),
        };
        let known = match index {
            // The newest of its number, unless it has another id.
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.len().checked_sub(1),
        };
        match known {
            Some(at) if same(&self.calls[at]) => Ok(at),
            _ => {
                self.weight.add_block()?;
                self.calls.push(Call { index, ..Call::default() });
                Ok(self.calls.len() - 1)
            }
        }
    }
}

fn note(held: &mut String, told: Option<String>) {
    if held.is_empty() {
        *held = told.unwrap_or_default();
    }
}

/// Arguments are a text, or JSON that somebody has read too early.
fn text(arguments: Value) -> String {
    match arguments {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A call without an id, or with one that another has, gets one: results are told apart by it.
fn finish_calls(calls: Vec<Call>, content: &mut Vec<Block>) -> BTreeMap<String, String> {
    let mut broken = BTreeMap::new();
    let mut ids: Vec<String> = Vec::new();
    for call in calls {
        let unusable = call.id.is_empty() || ids.contains(&call.id);
        let id = if unusable { format!("call_{:016x}", random()) } else { call.id };
        ids.push(id.clone());
        let input = arguments(&call.json).unwrap_or_else(|error| {
            broken.insert(id.clone(), error);
            Value::Object(Map::new())
        });
        content.push(Block::ToolUse { id, name: call.name, input });
    }
    broken
}

fn stop(reason: String, refused: bool, calls: bool) -> Stop {
    match reason.as_str() {
        // Some say `stop` after calls, too.
        "tool_calls" | "function_call" => Stop::ToolUse,
        "stop" if calls => Stop::ToolUse,
        "stop" if refused => Stop::Refusal,
        "stop" | "eos" | "end_turn" => Stop::EndTurn,
        "length" | "max_tokens" => Stop::MaxTokens,
        "content_filter" => Stop::Refusal,
        _ => Stop::Other(reason),
    }
}

/// Here the prompt includes what was cached.
fn tokens(usage: &Map<String, Value>) -> Tokens {
    let number = |value: Option<&Value>| value.and_then(Value::as_u64);
    let detail =
        |name: &str| number(usage.get("prompt_tokens_details").and_then(|details| details.get(name)));
    let read = detail("cached_tokens")
        .or_else(|| number(usage.get("prompt_cache_hit_tokens")))
        .or_else(|| number(usage.get("cached_tokens")))
        .unwrap_or(0);
    let write = detail("cache_write_tokens").unwrap_or(0);
    let prompt = number(usage.get("prompt_tokens")).unwrap_or(0);
    Tokens {
        input_tokens: prompt.saturating_sub(read).saturating_sub(write),
        output_tokens: number(usage.get("completion_tokens")).unwrap_or(0),
        cache_read_tokens: read,
        cache_write_tokens: write,
    }
}
