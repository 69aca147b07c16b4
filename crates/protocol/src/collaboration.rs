//! What one agent says to another of the same project.

use serde::{Deserialize, Serialize};

use crate::{SandboxId, Telling};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewTelling {
    /// To exactly one.
    pub to_sandbox_id: SandboxId,
    #[serde(default = "info")]
    #[cfg_attr(feature = "schema", schema(default = "info"))]
    pub kind: Telling,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 16_384))]
    pub content: String,
}

fn info() -> Telling {
    Telling::Info
}

/// Another agent at work in the same project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Peer {
    pub sandbox_id: SandboxId,
    pub task_id: Option<crate::TaskId>,
    pub title: Option<String>,
    pub branch_name: Option<String>,
}
