//! Sandboxes.

use omoi_protocol::{
    EventId, ProjectId, SandboxId, SandboxStatus, TaskId,
    page::Page,
    sandbox::{AttachSandbox, Diff, Sandbox, SandboxAttached, TaskComplete, TaskCompleted, Transcript},
    task::{Reason, Task},
};
use serde::Serialize;

use crate::{Client, Error};

/// Which sandboxes are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SandboxQuery {
    pub status: Option<SandboxStatus>,
    pub project_id: Option<ProjectId>,
    pub task_id: Option<TaskId>,
    pub live: Option<bool>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

pub(crate) fn path(id: &SandboxId, rest: &str) -> String {
    format!("/api/v1/sandboxes/{id}{rest}")
}

impl Client {
    /// Newest first.
    pub async fn sandbox_list(&self, query: &SandboxQuery) -> Result<Page<Sandbox>, Error> {
        self.get("/api/v1/sandboxes").query(query).json().await
    }

    pub async fn sandbox_get(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        self.get(&path(id, "")).json().await
    }

    pub async fn sandbox_attach(&self, new: &AttachSandbox) -> Result<SandboxAttached, Error> {
        self.post("/api/v1/sandboxes").body(new).json().await
    }

    pub async fn sandbox_terminate(&self, id: &SandboxId, reason: &Reason) -> Result<Sandbox, Error> {
        self.post(&path(id, "/terminate")).body(reason).repeatable().json().await
    }

    /// The task that it holds or held.
    pub async fn sandbox_task(&self, id: &SandboxId) -> Result<Task, Error> {
        self.get(&path(id, "/task")).json().await
    }

    pub async fn sandbox_task_complete(
        &self,
        id: &SandboxId,
        word: &TaskComplete,
    ) -> Result<TaskCompleted, Error> {
        self.post(&path(id, "/task-complete")).body(word).json().await
    }

    /// Its events as readable lines.
    pub async fn sandbox_logs(&self, id: &SandboxId, tail: Option<usize>) -> Result<String, Error> {
        self.get(&path(id, "/logs")).query(&[("tail", tail)]).text().await
    }

    pub async fn sandbox_diff(&self, id: &SandboxId, event: EventId) -> Result<Diff, Error> {
        self.get(&path(id, &format!("/diffs/{event}"))).json().await
    }

    pub async fn sandbox_transcript(&self, id: &SandboxId) -> Result<Transcript, Error> {
        self.get(&path(id, "/transcript")).json().await
    }
}
