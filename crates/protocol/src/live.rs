//! What a live viewer is sent, on the WebSocket and on the event stream alike.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Something that happened to an entity. `position` is its place in the one order of everything stored; a viewer
/// that comes back with it as `since` misses nothing and sees nothing twice.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LiveEvent {
    pub position: i64,
    /// For a sandbox's own events `SANDBOX_` and the type the worker gave.
    pub event_type: String,
    pub entity_type: String,
    pub entity_id: String,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub payload: Box<RawValue>,
    /// The event's place among those of its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    pub timestamp: Timestamp,
}

/// What a viewer is told besides events. Whoever comes back with the last `position` heard as `since` misses nothing, even if
/// its filters have let no event pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveSign {
    /// The first word of an event stream: where it begins. A WebSocket begins with a ping.
    Hello { position: i64 },
    /// The stream lives, and everything up to here has been looked through.
    Ping { position: i64 },
    /// The last word of an event stream; a WebSocket is closed with the same.
    Bye { code: u16, reason: String },
}

/// What a viewer may say on the WebSocket to change its filters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Subscribe {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_types: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_types: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_ids: Option<Vec<String>>,
}
