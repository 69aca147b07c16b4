//! A request as far as a scenario must understand it: what the model has called, and what it was told since. Both wires
//! come to the same.

use omoi_protocol::Vendor;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::super::refusal::Refusal;

/// What an agent tells the model beside the user; it is no message.
const REMINDER: &str = "<system-reminder>";

#[derive(Debug, Default)]
pub struct Talk {
    pub stream: bool,
    /// Whether the model is offered tools. Without, it is asked for a text, such as a summary.
    pub tools: bool,
    /// Before the model said anything.
    pub opening: Heard,
    pub exchanges: Vec<Exchange>,
    /// Bytes of the request since the model spoke last; none of it was in the request before.
    pub fresh_bytes: u64,
}

/// Something the model said, and what it heard in answer.
#[derive(Debug, Default)]
pub struct Exchange {
    /// Of its tool calls.
    pub ids: Vec<String>,
    pub heard: Heard,
}

#[derive(Debug, Default)]
pub struct Heard {
    pub texts: Vec<String>,
    pub results: Vec<ToolResult>,
}

#[derive(Debug)]
pub struct ToolResult {
    pub text: String,
    pub is_error: bool,
}

#[derive(Deserialize)]
struct Request<'a> {
    stream: Option<bool>,
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: String,
}

impl Talk {
    pub fn parse(vendor: Vendor, body: &[u8]) -> Result<Self, Refusal> {
        let unreadable = |error| Refusal::invalid(format!("the request cannot be read: {error}"));
        let request: Request<'_> = serde_json::from_slice(body).map_err(unreadable)?;
        let mut talk = Self {
            stream: request.stream == Some(true),
            tools: request.tools.is_some_and(|tools| !tools.is_empty()),
            ..Self::default()
        };
        for raw in request.messages {
            let message: Message = serde_json::from_str(raw.get()).map_err(unreadable)?;
            if message.role == "assistant" {
                talk.fresh_bytes = 0;
                talk.exchanges.push(Exchange { ids: ids(vendor, &message), ..Exchange::default() });
            } else {
                talk.heard().add(message);
            }
            talk.fresh_bytes += raw.get().len() as u64;
        }
        if talk.exchanges.is_empty() {
            talk.fresh_bytes = body.len() as u64;
        }
        Ok(talk)
    }

    /// What was said to the model last, in words, since it began.
    pub fn last_message(&self) -> Option<String> {
        self.exchanges.iter().rev().find_map(|exchange| exchange.heard.message())
    }

    pub fn last_result(&self) -> Option<&str> {
        let results = self.exchanges.iter().rev().flat_map(|exchange| exchange.heard.results.iter().rev());
        results.map(|result| result.text.as_str()).next()
    }

    fn heard(&mut self) -> &mut Heard {
        self.exchanges.last_mut().map_or(&mut self.opening, |exchange| &mut exchange.heard)
    }
}

impl Heard {
    pub fn message(&self) -> Option<String> {
        (!self.texts.is_empty()).then(|| self.text())
    }

    pub fn text(&self) -> String {
        self.texts.join("\n")
    }

    fn add(&mut self, message: Message) {
        match (message.role.as_str(), message.content) {
            // The chat wire has no word for a failed call.
            ("tool", content) => self.results.push(ToolResult { text: text_of(&content), is_error: false }),
            ("user", Value::String(text)) => self.say(text),
            ("user", Value::Array(blocks)) => blocks.iter().for_each(|block| self.add_block(block)),
            _ => {}
        }
    }

    fn add_block(&mut self, block: &Value) {
        match block["type"].as_str() {
            Some("text") => self.say(block["text"].as_str().unwrap_or_default().to_owned()),
            Some("tool_result") => {
                let is_error = block["is_error"] == true;
                self.results.push(ToolResult { text: text_of(&block["content"]), is_error });
            }
            _ => {}
        }
    }

    fn say(&mut self, text: String) {
        if !text.trim().is_empty() && !text.trim_start().starts_with(REMINDER) {
            self.texts.push(text);
        }
    }
}

fn ids(vendor: Vendor, message: &Message) -> Vec<String> {
    let blocks = message.content.as_array().map_or(&[][..], Vec::as_slice);
    match vendor {
        Vendor::Anthropic => blocks
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .filter_map(|block| block["id"].as_str().map(str::to_owned))
            .collect(),
        Vendor::Openai => message.tool_calls.iter().flatten().map(|call| call.id.clone()).collect(),
    }
}

/// Text alone, or the texts of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
