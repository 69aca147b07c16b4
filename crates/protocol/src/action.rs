//! An action: something done to work by the authority of whoever asks, with what was before and after, so that it can
//! be taken back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ActionId, ActionKind, Priority, ProjectId, SandboxId, TaskId};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CancelTask {
    pub task_id: TaskId,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 2_000))]
    pub reason: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OverridePriority {
    pub task_id: TaskId,
    pub priority: Priority,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 2_000))]
    pub reason: String,
}

/// Moves places for sandboxes from one project to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reallocate {
    pub from_project_id: ProjectId,
    pub to_project_id: ProjectId,
    /// How many places.
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10_000))]
    pub capacity: i64,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 2_000))]
    pub reason: String,
}

/// What is paused or goes on: a project, whose tasks then wait, or a sandbox, whose agent then halts. One of the two.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PauseOrResume {
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    #[serde(default)]
    pub sandbox_id: Option<SandboxId>,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 2_000))]
    pub reason: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Action {
    pub id: ActionId,
    pub action_type: ActionKind,
    pub project_id: ProjectId,
    /// `task`, `project` or `sandbox`.
    pub entity_type: String,
    /// What it was done to.
    pub target_entity: String,
    pub reason: String,
    pub initiated_by: String,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub before: Value,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub after: Value,
    pub executed_at: Timestamp,
    pub reverted_at: Option<Timestamp>,
    pub reverted_by: Option<String>,
}
