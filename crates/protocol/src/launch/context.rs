//! What the worker is told about its task.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Priority, TaskId, TicketId, TicketType};

/// The content of `TASK_DATA_BASE64`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskContext {
    pub task: TaskBrief,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketBrief>,
    /// What was wrong with the attempt before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// The same in prose, ready for a prompt.
    #[serde(rename = "_markdown_context", default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// `spec`, `requirements`, `design`, `spec_tasks` and whatever else the kind of task brings.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskBrief {
    pub id: TaskId,
    #[serde(rename = "type")]
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub priority: Priority,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TicketBrief {
    pub id: TicketId,
    #[serde(rename = "type")]
    pub ticket_type: TicketType,
    pub title: String,
    pub description: String,
    pub priority: Priority,
    #[serde(default)]
    pub context: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Revision {
    pub feedback: String,
    #[serde(default)]
    pub recommendations: Vec<String>,
    pub iteration: u32,
}
