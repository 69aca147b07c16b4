//! The graph of a project's tasks as pages draw it, and where tasks that run together touch the same files.

use serde::{Deserialize, Serialize};

use crate::{Priority, ProjectId, TaskId, TaskStatus, TicketId};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskGraph {
    pub project_id: ProjectId,
    pub ticket_id: Option<TicketId>,
    /// Oldest first.
    pub nodes: Vec<GraphNode>,
    /// Those between two of the nodes.
    pub edges: Vec<GraphEdge>,
    /// The chain that takes longest, in the order of work.
    pub critical_path: Vec<TaskId>,
    /// What that chain takes: where nothing is known of a task, it counts as one second.
    pub critical_path_seconds: i64,
    /// Tasks that can be worked on together; each group waits for those before it alone.
    pub groups: Vec<Vec<TaskId>>,
    /// There are more tasks or dependencies than are shown; the newest tasks are.
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GraphNode {
    pub id: TaskId,
    pub title: String,
    pub status: TaskStatus,
    pub priority: Priority,
    /// As `execution_config.estimated_seconds` says.
    pub estimated_seconds: Option<i64>,
    /// How long it took, once completed.
    pub duration_seconds: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GraphEdge {
    pub task_id: TaskId,
    pub depends_on: TaskId,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Overlaps {
    pub project_id: ProjectId,
    pub items: Vec<Overlap>,
}

/// Two tasks under way that change the same files, by what they declare or by what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Overlap {
    pub task_id: TaskId,
    pub title: String,
    pub other_id: TaskId,
    pub other_title: String,
    /// Paths, or globs where only those are known; the first few.
    pub files: Vec<String>,
}
