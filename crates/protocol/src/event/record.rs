//! An event as a worker posts it and as it is stored.
//!
//! Raw JSON cannot be read through `#[serde(untagged)]` or `#[serde(flatten)]`: a body that is either one event
//! or several must be told apart by hand.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Payload, is_heartbeat, is_work};
use crate::{EventId, EventSource, SandboxId};

/// What a worker posts. Fields that this version does not know are ignored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewEvent {
    pub event_type: String,
    /// A JSON object; `{}` when left out.
    #[serde(default = "empty_object")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub event_data: Box<RawValue>,
    #[serde(default = "agent")]
    pub source: EventSource,
    /// The worker's own numbering, which makes a repeat harmless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_seq: Option<i64>,
}

impl NewEvent {
    pub fn new(payload: &Payload, source: EventSource) -> Self {
        let event_type = payload.event_type().to_owned();
        Self { event_type, event_data: payload.to_raw(), source, worker_seq: None }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StoredEvent {
    pub id: EventId,
    pub sandbox_id: SandboxId,
    /// Its place among the events of its sandbox.
    pub seq: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_seq: Option<i64>,
    pub event_type: String,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub event_data: Box<RawValue>,
    pub source: EventSource,
    pub created_at: Timestamp,
}

macro_rules! views {
    ($($name:ident),+) => {$(
        impl $name {
            pub fn payload(&self) -> Payload {
                Payload::parse(&self.event_type, &self.event_data)
            }

            pub fn is_heartbeat(&self) -> bool {
                is_heartbeat(&self.event_type)
            }

            pub fn is_work(&self) -> bool {
                is_work(&self.event_type)
            }
        }
    )+};
}

views!(NewEvent, StoredEvent);

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("{} is JSON")
}

fn agent() -> EventSource {
    EventSource::Agent
}
