//! An artefact: a file that a sandbox hands in beside its branch, such as a report or a build.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ArtifactId, SandboxId, TaskId};

pub const ARTIFACT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What all artefacts of one sandbox may have together.
pub const ARTIFACTS_BYTES_MAX: usize = 64 * 1024 * 1024;
pub const ARTIFACTS_MAX: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Artifact {
    pub id: ArtifactId,
    pub sandbox_id: SandboxId,
    /// The task that the sandbox holds or held.
    pub task_id: Option<TaskId>,
    pub name: String,
    /// As the sandbox said; nothing was checked.
    pub content_type: String,
    /// In bytes.
    pub size: i64,
    pub sha256: String,
    pub created_at: Timestamp,
}
