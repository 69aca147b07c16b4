//! A task: one unit of agent work.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentId, DependencyPolicy, FailureKind, Priority, ProjectId, SandboxId, SandboxStatus, Stage, TaskId,
    TaskStatus, TicketId, Verification, WaitingFor, cost::ReportedCost, outcome::CheckResult,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewTask {
    /// Needed where no ticket is named.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    #[serde(default)]
    pub ticket_id: Option<TicketId>,
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
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 1_000))]
    pub dependencies: Vec<TaskId>,
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

impl NewTask {
    /// One of this title, as it is where nothing else is said. It still lacks a project or a ticket.
    pub fn plain(title: impl Into<String>) -> Self {
        Self {
            project_id: None,
            ticket_id: None,
            title: title.into(),
            description: String::new(),
            task_type: implementation(),
            phase_id: implementation_phase(),
            priority: medium(),
            dependencies: Vec::new(),
            dependency_policy: block(),
            parent_task_id: None,
            required_capabilities: Vec::new(),
            owned_files: Vec::new(),
            max_retries: None,
            timeout_seconds: None,
            deadline_at: None,
            execution_config: Map::new(),
        }
    }
}

pub(crate) fn implementation() -> String {
    "implementation".to_owned()
}

/// The phase of a task that names none.
pub const USUAL_PHASE: &str = "PHASE_IMPLEMENTATION";

pub(crate) fn implementation_phase() -> String {
    USUAL_PHASE.to_owned()
}

pub(crate) fn medium() -> Priority {
    Priority::Medium
}

fn work() -> Stage {
    Stage::Work
}

pub(crate) fn block() -> DependencyPolicy {
    DependencyPolicy::Block
}

/// Absent fields stay as they are. A status changes by its own verbs only.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskPatch {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: Option<String>,
    #[cfg_attr(feature = "schema", schema(max_length = 100_000))]
    pub description: Option<String>,
    pub priority: Option<Priority>,
    pub deadline_at: Option<Timestamp>,
    /// Replaces the whole of it.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub execution_config: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Task {
    pub id: TaskId,
    pub project_id: ProjectId,
    pub ticket_id: Option<TicketId>,
    pub parent_task_id: Option<TaskId>,
    pub phase_id: String,
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub priority: Priority,
    pub status: TaskStatus,
    /// `check` while its commit waits to be proven or is.
    #[serde(default = "work")]
    pub stage: Stage,
    /// The scheduling score at the time of the answer.
    pub score: f64,
    /// The sandbox that holds it, or held it last.
    pub sandbox_id: Option<SandboxId>,
    /// Filled only when that sandbox is one of provider `external`.
    pub assigned_agent_id: Option<AgentId>,
    pub branch_name: Option<String>,
    pub dependencies: Vec<TaskId>,
    /// How many of them are not completed yet.
    pub unmet_dependencies: i64,
    pub dependency_policy: DependencyPolicy,
    pub required_capabilities: Vec<String>,
    pub owned_files: Vec<String>,
    pub retry_count: i64,
    pub max_retries: i64,
    /// Not offered before this time, while a retry waits.
    pub not_before: Option<Timestamp>,
    pub timeout_seconds: Option<i64>,
    pub deadline_at: Option<Timestamp>,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub execution_config: Map<String, Value>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub result: Option<Value>,
    pub failure_kind: Option<FailureKind>,
    pub error_message: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// Why it cannot go on until somebody decides, such as `budget_exceeded: …`. A change to the task or to its
    /// project's settings takes it away.
    #[serde(default)]
    pub waiting_reason: Option<String>,
    /// Why a pending task has no sandbox yet; only where one task is shown, and absent when it is about to get one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<Waiting>,
    /// What the model calls of all its attempts have cost.
    #[serde(default)]
    pub cost_usd: f64,
    /// What the workers of its attempts report of their own cost; absent where they report none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<ReportedCost>,
}

/// What shows that a task is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Evidence {
    pub task_id: TaskId,
    pub status: TaskStatus,
    pub stage: Stage,
    pub verification: Verification,
    /// The commit that was last checked, or is to be.
    pub commit: Option<String>,
    /// What the last run of the declared checks came to.
    pub checks: Vec<CheckResult>,
    /// The last hundred, oldest first.
    pub attempts: Vec<AttemptMade>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AttemptMade {
    pub sandbox_id: SandboxId,
    pub stage: Stage,
    pub status: SandboxStatus,
    pub end_reason: Option<String>,
    pub base_commit: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

/// What a pending task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Waiting {
    pub reason: WaitingFor,
    /// The same for people.
    pub text: String,
}

/// The tasks a task waits for and those that wait for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Dependencies {
    pub task_id: TaskId,
    pub depends_on: Vec<TaskId>,
    pub blocks: Vec<TaskId>,
    pub all_completed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DependencyList {
    #[cfg_attr(feature = "schema", schema(max_items = 1_000))]
    pub depends_on: Vec<TaskId>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reason {
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 2_000))]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetTimeout {
    /// Absent or null takes the limit away.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_536_000))]
    pub timeout_seconds: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TimeoutStatus {
    pub task_id: TaskId,
    pub status: TaskStatus,
    pub timeout_seconds: Option<i64>,
    pub elapsed_seconds: Option<i64>,
    pub time_remaining: Option<i64>,
    pub is_timed_out: bool,
    pub can_cancel: bool,
}
