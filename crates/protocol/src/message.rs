//! A message: something said to a running worker, and what became of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{MessageId, MessageState, MessageType, SandboxId};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewMessage {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 65_536))]
    pub content: String,
    #[serde(default = "user_message")]
    #[cfg_attr(feature = "schema", schema(default = "user_message"))]
    pub message_type: MessageType,
}

fn user_message() -> MessageType {
    MessageType::UserMessage
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageQueued {
    /// `queued`.
    pub status: MessageState,
    pub message_id: MessageId,
    pub sandbox_id: SandboxId,
}

/// A message and the times of its states.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Message {
    pub id: MessageId,
    pub sandbox_id: SandboxId,
    pub content: String,
    pub message_type: MessageType,
    /// Who said it: an operator's token name, `guardian`, or `system`.
    pub sender: String,
    pub state: MessageState,
    /// When it was said.
    pub timestamp: Timestamp,
    pub delivered_at: Option<Timestamp>,
    pub injected_at: Option<Timestamp>,
    pub acknowledged_at: Option<Timestamp>,
    pub expired_at: Option<Timestamp>,
    /// How often it was handed out.
    pub deliveries: i64,
}

/// A message as it is handed out: with the names, besides `id` and `sender`, that workers of the earlier system read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageHandedOut {
    #[serde(flatten)]
    pub message: Message,
    /// The same as `id`.
    pub message_id: MessageId,
    /// The same as `sender`.
    pub sender_id: String,
}

impl From<Message> for MessageHandedOut {
    fn from(message: Message) -> Self {
        Self { message_id: message.id.clone(), sender_id: message.sender.clone(), message }
    }
}

/// What the worker tells of a message it was handed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MessageReport {
    /// `delivered` (the worker still has it, the agent is busy), `injected` or `acknowledged`.
    pub state: MessageState,
}
