//! A question as the Messages API wants it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::agent::{
    model::{
        answer::{Ask, is_blank, tool_name},
        chat,
    },
    talk::{Block, Message, Role, ToolSpec},
};

pub fn body(model: &str, ask: &Ask<'_>) -> serde_json::Result<Vec<u8>> {
    let mut tools: Vec<_> = ask.tools.iter().map(Tool::new).collect();
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(Cache::Ephemeral);
    }
    let mut messages: Vec<_> = ask.messages.iter().filter_map(Said::new).collect();
    if let Some(last) = messages.iter_mut().next_back().and_then(Said::last_markable) {
        last.cache_control = Some(Cache::Ephemeral);
    }
    let system = (!is_blank(ask.system))
        .then_some([System::Text { text: ask.system, cache_control: Cache::Ephemeral }]);
    serde_json::to_vec(&Body { model, max_tokens: ask.max_tokens, stream: true, system, tools, messages })
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[System<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Said<'a>>,
}

/// Everything up to here is to be remembered for the next question.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Cache {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum System<'a> {
    Text { text: &'a str, cache_control: Cache },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

impl<'a> Tool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let (name, description) = (spec.name.as_str(), spec.description.as_str());
        Self { name, description, input_schema: &spec.input_schema, cache_control: None }
    }
}

#[derive(Serialize)]
struct Said<'a> {
    role: Role,
    content: Vec<Marked<'a>>,
}

#[derive(Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    block: Cow<'a, Block>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Cache>,
}

impl<'a> Said<'a> {
    /// None when nothing is left that can be sent.
    fn new(message: &'a Message) -> Option<Self> {
        let blocks = message.content.iter().filter_map(sent);
        let content: Vec<_> = blocks.map(|block| Marked { block, cache_control: None }).collect();
        (!content.is_empty()).then_some(Self { role: message.role, content })
    }

    fn last_markable(&mut self) -> Option<&mut Marked<'a>> {
        let is_thought =
            |block: &Block| matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. });
        self.content.iter_mut().rev().find(|marked| !is_thought(&marked.block))
    }
}

/// Thoughts that this vendor has not signed and texts without a character are refused, so they stay here.
fn sent(block: &Block) -> Option<Cow<'_, Block>> {
    match block {
        Block::Text { text } => (!is_blank(text)).then_some(Cow::Borrowed(block)),
        Block::Thinking { signature, .. } => {
            (!signature.is_empty() && signature != chat::REASONING_CONTENT).then_some(Cow::Borrowed(block))
        }
        Block::ToolUse { id, name, input } => Some(match tool_name(name) {
            Cow::Borrowed(same) if same == name => Cow::Borrowed(block),
            fit => {
                Cow::Owned(Block::ToolUse { id: id.clone(), name: fit.into_owned(), input: input.clone() })
            }
        }),
        Block::RedactedThinking { .. } | Block::ToolResult { .. } => Some(Cow::Borrowed(block)),
    }
}
