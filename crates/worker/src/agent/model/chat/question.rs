//! A question in the words of chat completions.

use serde::Serialize;
use serde_json::Value;

use super::REASONING_CONTENT;
use crate::agent::{
    model::answer::{Ask, is_blank, tool_name},
    talk::{Block, Message, Role, ToolSpec},
};

/// How a server wants to be told how long the answer may be. It says so when it wants the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthField {
    MaxTokens,
    /// As OpenAI's models that think want it.
    MaxCompletionTokens,
}

pub fn body(model: &str, ask: &Ask<'_>, length: LengthField) -> serde_json::Result<Vec<u8>> {
    let mut messages = Vec::new();
    if !is_blank(ask.system) {
        messages.push(Said::System { content: ask.system });
    }
    for message in ask.messages {
        match message.role {
            Role::User => say_user(message, &mut messages),
            Role::Assistant => messages.extend(say_assistant(message)),
        }
    }
    let limit = |field| (field == length).then_some(ask.max_tokens);
    serde_json::to_vec(&Body {
        model,
        max_tokens: limit(LengthField::MaxTokens),
        max_completion_tokens: limit(LengthField::MaxCompletionTokens),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        tools: ask.tools.iter().map(Tool::new).collect(),
        messages,
    })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function { function: Function<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> Tool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let (name, description) = (spec.name.as_str(), spec.description.as_str());
        Self::Function { function: Function { name, description, parameters: &spec.input_schema } }
    }
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Said<'a> {
    System {
        content: &'a str,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<SaidCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SaidCall<'a> {
    Function { id: &'a str, function: SaidFunction },
}

#[derive(Serialize)]
struct SaidFunction {
    name: String,
    arguments: String,
}

/// Results come before anything else, right behind the calls they belong to.
fn say_user<'a>(message: &'a Message, said: &mut Vec<Said<'a>>) {
    for block in &message.content {
        if let Block::ToolResult { tool_use_id, content, is_error } = block {
            let content = if *is_error { failed(content) } else { content.clone() };
            said.push(Said::Tool { tool_call_id: tool_use_id, content });
        }
    }
    let content = texts(message);
    if !content.is_empty() {
        said.push(Said::User { content });
    }
}

fn say_assistant(message: &Message) -> Option<Said<'_>> {
    let mut tool_calls = Vec::new();
    let mut thoughts = String::new();
    for block in &message.content {
        match block {
            Block::ToolUse { id, name, input } => tool_calls.push(SaidCall::Function {
                id,
                function: SaidFunction { name: tool_name(name).into_owned(), arguments: input.to_string() },
            }),
            Block::Thinking { thinking, signature } if signature == REASONING_CONTENT => {
                thoughts.push_str(thinking);
            }
            _ => {}
        }
    }
    let content = Some(texts(message)).filter(|text| !text.is_empty());
    if content.is_none() && tool_calls.is_empty() {
        return None;
    }
    let reasoning_content = (!thoughts.is_empty() && !tool_calls.is_empty()).then_some(thoughts);
    Some(Said::Assistant { content, reasoning_content, tool_calls })
}

fn texts(message: &Message) -> String {
    let text = |block: &'_ Block| match block {
        Block::Text { text } if !is_blank(text) => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
}

/// This wire has no word for it.
fn failed(content: &str) -> String {
    let says_so = content.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("error"));
    if says_so { content.to_owned() } else { format!("Error: {content}") }
}
