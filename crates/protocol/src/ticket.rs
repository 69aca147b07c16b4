//! A ticket: something a person wants.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Priority, ProjectId, TaskId, TicketId, TicketStatus, TicketType, launch::Check};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewTicket {
    pub project_id: ProjectId,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: String,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 100_000))]
    pub description: String,
    #[serde(default = "feature")]
    #[cfg_attr(feature = "schema", schema(default = "feature"))]
    pub ticket_type: TicketType,
    #[serde(default = "medium")]
    #[cfg_attr(feature = "schema", schema(default = "MEDIUM"))]
    pub priority: Priority,
    /// Whether one task that does the whole ticket is made with it.
    #[serde(default = "yes")]
    #[cfg_attr(feature = "schema", schema(default = true))]
    pub create_task: bool,
    /// What proves its tasks, in the place of the project's checks; an empty list is none.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 20))]
    pub checks: Option<Vec<Check>>,
}

fn feature() -> TicketType {
    TicketType::Feature
}

fn medium() -> Priority {
    Priority::Medium
}

fn yes() -> bool {
    true
}

/// Absent fields stay as they are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TicketPatch {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: Option<String>,
    #[cfg_attr(feature = "schema", schema(max_length = 100_000))]
    pub description: Option<String>,
    pub ticket_type: Option<TicketType>,
    pub priority: Option<Priority>,
    pub status: Option<TicketStatus>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 20))]
    pub checks: Option<Vec<Check>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ticket {
    pub id: TicketId,
    pub project_id: ProjectId,
    /// Counts the tickets of a project from 1.
    pub number: i64,
    pub title: String,
    pub description: String,
    pub ticket_type: TicketType,
    pub priority: Priority,
    pub status: TicketStatus,
    /// What proves its tasks, in the place of the project's checks.
    #[serde(default)]
    pub checks: Option<Vec<Check>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TicketCreated {
    #[serde(flatten)]
    pub ticket: Ticket,
    /// The task made with it, when one was.
    pub task_id: Option<TaskId>,
}
