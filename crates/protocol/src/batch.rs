//! A batch: several tasks that are made together, all or none, and name each other by keys.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    DependencyPolicy, Priority, ProjectId, TaskId, TicketId,
    task::{NewTask, Task, block, implementation, implementation_phase, medium},
};

pub const BATCH_TASKS_MAX: usize = 1_000;
/// Dependencies of all tasks of one batch together.
pub const BATCH_EDGES_MAX: usize = 20_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewTaskBatch {
    /// Needed where no ticket is named.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    #[serde(default)]
    pub ticket_id: Option<TicketId>,
    /// Names the batch in its project: sent again under the same key, it makes nothing and answers the same tasks.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub batch_key: Option<String>,
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 1_000))]
    pub tasks: Vec<BatchTask>,
}

/// A task of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchTask {
    /// What the other tasks of the batch call it.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub key: String,
    /// Keys of the batch, or ids of tasks of the same project.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 1_000))]
    pub depends_on: Vec<String>,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: String,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 100_000))]
    pub description: String,
    #[serde(default = "implementation")]
    #[cfg_attr(feature = "schema", schema(default = "implementation", min_length = 1, max_length = 100))]
    pub task_type: String,
    #[serde(default = "implementation_phase")]
    #[cfg_attr(
        feature = "schema",
        schema(default = "PHASE_IMPLEMENTATION", min_length = 1, max_length = 50)
    )]
    pub phase_id: String,
    #[serde(default = "medium")]
    #[cfg_attr(feature = "schema", schema(default = "MEDIUM"))]
    pub priority: Priority,
    #[serde(default = "block")]
    #[cfg_attr(feature = "schema", schema(default = "block"))]
    pub dependency_policy: DependencyPolicy,
    #[serde(default)]
    pub parent_task_id: Option<TaskId>,
    /// What an attached agent must be able to do to claim it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub required_capabilities: Vec<String>,
    /// Globs of the files it means to change.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 1_000))]
    pub owned_files: Vec<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 100))]
    pub max_retries: Option<i64>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_536_000))]
    pub timeout_seconds: Option<i64>,
    #[serde(default)]
    pub deadline_at: Option<Timestamp>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub execution_config: Map<String, Value>,
}

impl BatchTask {
    /// The task by itself, without what it depends on.
    pub fn to_new(&self, project_id: &ProjectId, ticket_id: Option<&TicketId>) -> NewTask {
        let task = self.clone();
        NewTask {
            project_id: Some(project_id.clone()),
            ticket_id: ticket_id.cloned(),
            description: task.description,
            task_type: task.task_type,
            phase_id: task.phase_id,
            priority: task.priority,
            dependency_policy: task.dependency_policy,
            parent_task_id: task.parent_task_id,
            required_capabilities: task.required_capabilities,
            owned_files: task.owned_files,
            max_retries: task.max_retries,
            timeout_seconds: task.timeout_seconds,
            deadline_at: task.deadline_at,
            execution_config: task.execution_config,
            ..NewTask::plain(task.title)
        }
    }
}

/// What a batch has become.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskBatch {
    pub project_id: ProjectId,
    pub batch_key: Option<String>,
    /// By the keys of the batch.
    pub tasks: BTreeMap<String, Task>,
}
