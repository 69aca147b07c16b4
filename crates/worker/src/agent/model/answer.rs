//! A question, its answer, and what both wires do alike when they put an answer together.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use omoi_protocol::outcome::Tokens;
use serde_json::{Map, Value};

use super::error::Fault;
use crate::agent::{
    http::quote,
    talk::{Block, Message, ToolSpec},
};

/// What an answer may hold in memory.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a block costs besides its text.
const BLOCK_BYTES: usize = 256;
const ARGUMENTS_QUOTED_CHARS: usize = 200;
/// What both vendors allow in the name of a tool.
const TOOL_NAME_CHARS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub system: &'a str,
    pub tools: &'a [ToolSpec],
    pub messages: &'a [Message],
    pub max_tokens: u32,
}

/// What can be shown while the answer comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<'a> {
    Text(&'a str),
    Thinking(&'a str),
    /// Whatever was told of this answer before is void.
    Retrying {
        /// How many have failed.
        attempt: u32,
        /// 0 while nobody listens at the address: then time is what ends it, and not a number.
        attempts_max: u32,
        delay: Duration,
        status: Option<u16>,
        error: String,
    },
}

pub type Tell<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub id: String,
    /// As the answer names it.
    pub model: String,
    pub content: Vec<Block>,
    pub stop: Stop,
    pub usage: Tokens,
    /// As it was told, or null.
    pub raw_usage: Value,
    /// Calls whose arguments are no JSON object, by their ids, and what is wrong with them. Their block has the input {}.
    pub broken: BTreeMap<String, String>,
}

/// Why the answer ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    PauseTurn,
    ContextExceeded,
    Other(String),
}

impl Stop {
    /// As the Messages API says it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
            Self::PauseTurn => "pause_turn",
            Self::ContextExceeded => "model_context_window_exceeded",
            Self::Other(word) => word,
        }
    }
}

/// One wire's way to read an answer.
pub trait Reader: Send {
    fn event(&mut self, data: &str, tell: Tell<'_>) -> Result<Flow, Fault>;

    /// Whether the model has begun to speak; before that it may be thinking in silence.
    fn has_begun(&self) -> bool;

    /// The stream is over, by its own word or by its end.
    fn finish(self: Box<Self>) -> Result<Answer, Fault>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    More,
    Done,
}

/// Keeps an answer within its bounds.
#[derive(Debug, Default)]
pub struct Weight(usize);

impl Weight {
    pub fn add(&mut self, bytes: usize) -> Result<(), Fault> {
        self.0 += bytes;
        if self.0 > ANSWER_BYTES_MAX {
            return Err(Fault::void(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    pub fn add_block(&mut self) -> Result<(), Fault> {
        self.add(BLOCK_BYTES)
    }
}

/// The arguments of a call, or what is wrong with them.
pub fn arguments(json: &str) -> Result<Value, String> {
    if json.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let begin = || quote(json, ARGUMENTS_QUOTED_CHARS);
    match serde_json::from_str::<Value>(json) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(format!("the arguments are JSON but no object: {}", begin())),
        Err(error) => Err(format!("the arguments are no valid JSON ({error}): {}", begin())),
    }
}

/// A name as it may be sent: a model that called a tool by an impossible name would be refused ever after.
pub fn tool_name(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        Cow::Borrowed("unnamed")
    } else if name.len() <= TOOL_NAME_CHARS_MAX && name.chars().all(fits) {
        Cow::Borrowed(name)
    } else {
        let chars = name.chars().take(TOOL_NAME_CHARS_MAX);
        Cow::Owned(chars.map(|c| if fits(c) { c } else { '_' }).collect())
    }
}

/// Nothing that could be read; the vendors refuse to be sent it.
pub fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_an_object_or_it_is_said_what_they_are() {
        assert_eq!(arguments(" "), Ok(json!({})));
        assert_eq!(arguments(r#"{"a":[1]}"#), Ok(json!({ "a": [1] })));
        for (text, part) in [("[1]", "no object: [1]"), (r#"{"a":"#, "EOF"), ("{}{}", "trailing")] {
            let error = arguments(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn names_are_made_fit_to_be_sent() {
        assert_eq!(tool_name("Bash"), "Bash");
        assert_eq!(tool_name(""), "unnamed");
        assert_eq!(tool_name("functions.Bash öh"), "functions_Bash__h");
        assert_eq!(tool_name(&"x".repeat(99)).len(), TOOL_NAME_CHARS_MAX);
    }

    #[test]
    fn an_endless_answer_is_void() {
        let mut weight = Weight::default();
        assert!(weight.add(ANSWER_BYTES_MAX).is_ok());
        assert!(weight.add_block().is_err());
    }
}
