//! The messages of the Agent Client Protocol, as far as they tell of a run.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Rpc {
    pub id: Option<Value>,
    pub method: Option<String>,
    #[serde(default)]
    pub params: Value,
    pub result: Option<Value>,
}

#[derive(Deserialize)]
pub struct Prompt {
    #[serde(default)]
    pub prompt: Vec<Part>,
}

#[derive(Deserialize)]
pub struct Notification {
    pub update: SessionMessage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    pub tool_call: CallUpdate,
}

#[derive(Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub enum SessionMessage {
    UserMessageChunk(Chunk),
    AgentMessageChunk(Chunk),
    ToolCall(CallUpdate),
    ToolCallUpdate(CallUpdate),
    UsageUpdate { cost: Option<Cost> },
    AgentThoughtChunk,
    Plan,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    ConfigOptionUpdate,
    SessionInfoUpdate,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    pub content: Part,
    pub message_id: Option<String>,
}

#[derive(Deserialize)]
pub struct Cost {
    pub amount: f64,
    pub currency: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    Content {
        content: Box<Self>,
    },
    #[serde(rename_all = "camelCase")]
    Diff {
        path: String,
        old_text: Option<String>,
        new_text: String,
    },
    #[serde(other)]
    Other,
}

impl Part {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Content { content } => content.text(),
            Self::Diff { .. } | Self::Other => None,
        }
    }
}

/// What is told of a call: each message has some of it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct CallUpdate {
    pub tool_call_id: String,
    pub title: Option<String>,
    pub kind: Option<String>,
    pub status: Option<Status>,
    pub content: Option<Vec<Part>>,
    pub locations: Option<Vec<Location>>,
    pub raw_input: Option<Value>,
    pub raw_output: Option<Value>,
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
pub struct Location {
    pub path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub stop_reason: String,
    pub usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_write_tokens: Option<u64>,
}

pub fn texts(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n")
}
