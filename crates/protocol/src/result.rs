//! A result: what a sandbox hands in for its task, as text.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ResultId, ResultType, SandboxId, TaskId, Verification};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewResult {
    pub task_id: TaskId,
    pub result_type: ResultType,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 2_000))]
    pub summary: String,
    /// Markdown.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 102_400))]
    pub content: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskResult {
    pub id: ResultId,
    pub task_id: TaskId,
    pub sandbox_id: SandboxId,
    pub result_type: ResultType,
    pub summary: String,
    pub content: String,
    pub verification_status: Verification,
    pub created_at: Timestamp,
}
