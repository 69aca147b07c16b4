//! What model calls cost.

use omoi_protocol::{ProjectId, SandboxId, TaskId, cost::CostPage};
use serde::Serialize;

use crate::{Client, Error};

/// Whose calls are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CostQuery {
    pub project_id: Option<ProjectId>,
    pub task_id: Option<TaskId>,
    pub sandbox_id: Option<SandboxId>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

impl Client {
    /// Newest first, with the sums of all that fit.
    pub async fn cost_list(&self, query: &CostQuery) -> Result<CostPage, Error> {
        self.get("/api/v1/costs").query(query).json().await
    }
}
