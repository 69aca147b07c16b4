//! Specs as the API shows them, and what is said to start one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ProjectId, SandboxId, SpecId, SpecPhase, SpecStatus};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecView {
    pub id: SpecId,
    pub project_id: ProjectId,
    pub title: String,
    pub description: Option<String>,
    pub status: SpecStatus,
    pub current_phase: SpecPhase,
    /// Per cent; see `SpecPhase::progress_started` and `progress_completed`.
    pub progress: u8,
    pub requirements_approved: bool,
    pub design_approved: bool,
    pub branch_name: Option<String>,
    pub pull_request_url: Option<String>,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The body of `POST /specs/{id}/execute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ExecuteSpec {
    /// Whether to look for duplicates among what exists.
    pub enable_embeddings: bool,
    /// Takes up from this phase; otherwise from where the spec stands.
    pub resume_from_phase: Option<SpecPhase>,
}

impl Default for ExecuteSpec {
    fn default() -> Self {
        Self { enable_embeddings: true, resume_from_phase: None }
    }
}

/// The answer to `POST /specs/{id}/execute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecExecution {
    pub spec_id: SpecId,
    pub status: ExecutionStatus,
    /// Null until the phase has been dispatched: a request records what is wanted and runs nothing.
    pub sandbox_id: Option<SandboxId>,
    pub current_phase: SpecPhase,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ExecutionStatus {
    Started,
    AlreadyRunning,
}
