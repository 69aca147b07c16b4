//! An answer of the Messages API, put together from its events.

use std::collections::BTreeMap;

use omoi_protocol::{Vendor, outcome::Tokens};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agent::{
    model::{
        answer::{Answer, Flow, Progress, Reader, Stop, Tell, Weight, arguments},
        error::Fault,
        refusal::Refusal,
    },
    talk::Block,
};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Opening,
    },
    ContentBlockDelta {
        index: u64,
        delta: Piece,
    },
    MessageDelta {
        delta: Ending,
        usage: Option<Map<String, Value>>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// Pings, ends of blocks, and whatever is still to come.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    usage: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Opening {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Ending {
    stop_reason: Option<String>,
}

/// A block that is being read.
enum Draft {
    Text(String),
    Thinking { thinking: String, signature: String },
    Redacted(String),
    Call { id: String, name: String, given: Value, json: String },
}

#[derive(Default)]
pub struct MessageReader {
    start: Option<Start>,
    blocks: BTreeMap<u64, Draft>,
    stop_reason: Option<String>,
    usage: Map<String, Value>,
    stopped: bool,
    weight: Weight,
}

impl Reader for MessageReader {
    fn event(&mut self, data: &str, tell: Tell<'_>) -> Result<Flow, Fault> {
        let event = serde_json::from_str(data)
            .map_err(|error| Fault::void(format!("an event of the stream is no valid JSON: {error}")))?;
        match event {
            Event::MessageStart { mut message } => {
                self.merge(message.usage.take());
                self.start = Some(message);
            }
            Event::ContentBlockStart { index, content_block } => self.open(index, content_block, tell)?,
            Event::ContentBlockDelta { index, delta } => self.grow(index, delta, tell)?,
            Event::MessageDelta { delta, usage } => {
                self.merge(usage);
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
            }
            Event::MessageStop => {
                self.stopped = true;
                return Ok(Flow::Done);
            }
            Event::Error { error } => return Err(Refusal::of(&error).in_stream(Vendor::Anthropic)),
            Event::Unknown => {}
        }
        Ok(Flow::More)
    }

    /// This vendor sends pings while the model thinks.
    fn has_begun(&self) -> bool {
        self.start.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Answer, Fault> {
        let (true, Some(start)) = (self.stopped, self.start) else {
            return Err(Fault::void("the answer ended before its end: it has no message_stop"));
        };
        let stop_reason = self.stop_reason.ok_or_else(|| Fault::void("the answer has no stop_reason"))?;
        let mut broken = BTreeMap::new();
        let blocks = self.blocks.into_values();
        let content = blocks.filter_map(|draft| draft.finish(&mut broken)).collect();
        Ok(Answer {
            id: start.id,
            model: start.model,
            content,
            stop: stop(stop_reason),
            usage: tokens(&self.usage),
            raw_usage: if self.usage.is_empty() { Value::Null } else { Value::Object(self.usage) },
            broken,
        })
    }
}

impl MessageReader {
    /// Later numbers are sums that include the earlier ones.
    fn merge(&mut self, usage: Option<Map<String, Value>>) {
        let told = usage.into_iter().flatten().filter(|(_, value)| !value.is_null());
        self.usage.extend(told);
    }

    fn open(&mut self, index: u64, opening: Opening, tell: Tell<'_>) -> Result<(), Fault> {
        self.weight.add_block()?;
        let draft = match opening {
            Opening::Text { text } => {
                show(&text, Progress::Text, tell);
                Draft::Text(text)
            }
            Opening::Thinking { thinking, signature } => {
                show(&thinking, Progress::Thinking, tell);
                Draft::Thinking { thinking, signature }
            }
            Opening::RedactedThinking { data } => Draft::Redacted(data),
            Opening::ToolUse { id, name, input } => {
                Draft::Call { id, name, given: input, json: String::new() }
            }
            Opening::Unknown => return Ok(()),
        };
        self.weight.add(draft.len())?;
        match self.blocks.insert(index, draft) {
            None => Ok(()),
            Some(_) => Err(Fault::void(format!("block {index} of the answer begins twice"))),
        }
    }

    /// What belongs to no known block is part of an unknown one.
    fn grow(&mut self, index: u64, delta: Piece, tell: Tell<'_>) -> Result<(), Fault> {
        let Some(draft) = self.blocks.get_mut(&index) else { return Ok(()) };
        let (held, part) = match (draft, &delta) {
            (Draft::Text(held), Piece::TextDelta { text }) => {
                show(text, Progress::Text, tell);
                (held, text)
            }
            (Draft::Thinking { thinking: held, .. }, Piece::ThinkingDelta { thinking }) => {
                show(thinking, Progress::Thinking, tell);
                (held, thinking)
            }
            (Draft::Thinking { signature: held, .. }, Piece::SignatureDelta { signature }) => {
                (held, signature)
            }
            (Draft::Call { json: held, .. }, Piece::InputJsonDelta { partial_json }) => (held, partial_json),
            _ => return Ok(()),
        };
        held.push_str(part);
        self.weight.add(part.len())
    }
}

fn show<'a>(text: &'a str, progress: fn(&'a str) -> Progress<'a>, tell: Tell<'_>) {
    if !text.is_empty() {
        tell(progress(text));
    }
}

impl Draft {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Redacted(text) => text.len(),
            Self::Thinking { thinking, signature } => thinking.len() + signature.len(),
            Self::Call { id, name, json, .. } => id.len() + name.len() + json.len(),
        }
    }

    fn finish(self, broken: &mut BTreeMap<String, String>) -> Option<Block> {
        match self {
            Self::Text(text) => (!text.is_empty()).then_some(Block::Text { text }),
            Self::Thinking { thinking, signature } => Some(Block::Thinking { thinking, signature }),
            Self::Redacted(data) => Some(Block::RedactedThinking { data }),
            // Whole from the start.
            Self::Call { id, name, given: input @ Value::Object(_), json } if json.is_empty() => {
                Some(Block::ToolUse { id, name, input })
            }
            Self::Call { id, name, json, .. } => {
                let input = arguments(&json).unwrap_or_else(|error| {
                    broken.insert(id.clone(), error);
                    Value::Object(Map::new())
                });
                Some(Block::ToolUse { id, name, input })
            }
        }
    }
}

fn stop(reason: String) -> Stop {
    match reason.as_str() {
        "end_turn" | "stop_sequence" => Stop::EndTurn,
        "tool_use" => Stop::ToolUse,
        "max_tokens" => Stop::MaxTokens,
        "refusal" => Stop::Refusal,
        "pause_turn" => Stop::PauseTurn,
        "model_context_window_exceeded" => Stop::ContextExceeded,
        _ => Stop::Other(reason),
    }
}

fn tokens(usage: &Map<String, Value>) -> Tokens {
    let number = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Tokens {
        input_tokens: number("input_tokens"),
        output_tokens: number("output_tokens"),
        cache_read_tokens: number("cache_read_input_tokens"),
        cache_write_tokens: number("cache_creation_input_tokens"),
    }
}
