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
            ("tool", content) => {
                let text = text_of(&content);
                // This wire has no word for a failed call; agents begin the text with it.
                let is_error = text.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("error"));
                self.results.push(ToolResult { text, is_error });
            }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn both_wires_come_to_the_same() {
        let anthropic = json!({ "system": "s", "tools": [{ "name": "T" }], "stream": true, "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "task" }, { "type": "image" }] },
            { "role": "assistant", "content": [{ "type": "thinking" }, { "type": "tool_use", "id": "a" },
                { "type": "tool_use", "id": "b" }] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "one" },
                { "type": "tool_result", "tool_use_id": "b", "content": [{ "type": "text", "text": "error: two" }],
                    "is_error": true },
                { "type": "text", "text": " <system-reminder>no message</system-reminder>" },
                { "type": "text", "text": "a message" }] },
        ] });
        let openai = json!({ "tools": [{}], "stream": true, "messages": [
            { "role": "system", "content": "s" }, { "role": "user", "content": "task" },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "a" }, { "id": "b" }] },
            { "role": "tool", "tool_call_id": "a", "content": "one" },
            { "role": "tool", "tool_call_id": "b", "content": "error: two" },
            { "role": "user", "content": "a message" },
        ] });
        for (vendor, body) in [(Vendor::Anthropic, anthropic), (Vendor::Openai, openai)] {
            let body = body.to_string();
            let talk = Talk::parse(vendor, body.as_bytes()).unwrap();
            assert!(talk.tools && talk.stream);
            assert_eq!(talk.opening.text(), "task");
            let [exchange] = &talk.exchanges[..] else { panic!("{talk:?}") };
            assert_eq!(exchange.ids, ["a", "b"]);
            let results: Vec<_> =
                exchange.heard.results.iter().map(|result| (result.text.as_str(), result.is_error)).collect();
            assert_eq!(results, [("one", false), ("error: two", true)]);
            assert_eq!(exchange.heard.message().as_deref(), Some("a message"));
            assert!(talk.fresh_bytes > 100 && talk.fresh_bytes < body.len() as u64);
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for body in
            ["", "{}", "[]", r#"{"messages":{}}"#, r#"{"messages":[1]}"#, r#"{"messages":[{"role":1}]}"#]
        {
            assert!(Talk::parse(Vendor::Anthropic, body.as_bytes()).is_err(), "{body}");
        }
    }

    proptest! {
        #[test]
        fn nonsense_never_panics(role in "assistant|user|tool|x", content in "[\\[\\]{}\",:a-z0-9 ]{0,40}") {
            let body = format!(r#"{{"messages":[{{"role":"{role}","content":{content}}}]}}"#);
            for vendor in [Vendor::Anthropic, Vendor::Openai] {
                let _ = Talk::parse(vendor, body.as_bytes());
            }
        }
    }
}
