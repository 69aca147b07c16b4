//! Sandboxes, and the commands that people run in them.

use omoi_protocol::{
    CommandId, EventId, ProjectId, SandboxId, SandboxStatus, TaskId,
    launch::base64,
    page::Page,
    sandbox::{
        AttachSandbox, Command, Diff, NewCommand, NewSandbox, Prune, Pruned, Sandbox, SandboxAttached,
        TaskComplete, TaskCompleted, Transcript, TranscriptPart, TranscriptReceived,
    },
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
    /// Only those whose work could not be kept.
    pub unkept: Option<bool>,
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

    /// The server makes it. It is not there yet when this returns.
    pub async fn sandbox_order(&self, of: &ProjectId, new: &NewSandbox) -> Result<Sandbox, Error> {
        self.post(&format!("/api/v1/projects/{of}/sandboxes")).body(new).json().await
    }

    pub async fn sandbox_attach(&self, new: &AttachSandbox) -> Result<SandboxAttached, Error> {
        self.post("/api/v1/sandboxes").body(new).json().await
    }

    pub async fn sandbox_terminate(&self, id: &SandboxId, reason: &Reason) -> Result<Sandbox, Error> {
        self.post(&path(id, "/terminate")).body(reason).repeatable().json().await
    }

    /// Has the work of an ended sandbox rescued again.
    pub async fn sandbox_rescue(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        self.post(&path(id, "/rescue")).json().await
    }

    /// Discards the work of an ended sandbox that could not be kept.
    pub async fn sandbox_discard(&self, id: &SandboxId, reason: &Reason) -> Result<Sandbox, Error> {
        self.post(&path(id, "/discard")).body(reason).json().await
    }

    /// Lets what is left of ended ones go, or says which would.
    pub async fn sandbox_prune(&self, ask: &Prune) -> Result<Pruned, Error> {
        self.post("/api/v1/sandboxes/prune").body(ask).repeatable().json().await
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

    /// Its output and its end are events of the sandbox.
    pub async fn command_run(&self, of: &SandboxId, new: &NewCommand) -> Result<Command, Error> {
        self.post(&path(of, "/commands")).body(new).json().await
    }

    pub async fn command_get(&self, of: &SandboxId, id: &CommandId) -> Result<Command, Error> {
        self.get(&path(of, &format!("/commands/{id}"))).json().await
    }

    /// Newest first.
    pub async fn command_list(
        &self,
        of: &SandboxId,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<Page<Command>, Error> {
        self.get(&path(of, "/commands")).query(&(("limit", limit), ("cursor", cursor))).json().await
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

    /// Appends to a session's log at `offset`, and answers with how much of it is stored. What is stored already may be
    /// sent again; after a refusal with the code `transcript_gap` the next part is the one at `Error::size`.
    pub async fn transcript_append(
        &self,
        id: &SandboxId,
        session_id: &str,
        offset: u64,
        data: &[u8],
    ) -> Result<u64, Error> {
        let part = TranscriptPart {
            session_id: session_id.to_owned(),
            offset: i64::try_from(offset).unwrap_or(i64::MAX),
            data_b64: base64(data),
        };
        let stored: TranscriptReceived =
            self.post(&path(id, "/transcript")).body(&part).repeatable().json().await?;
        Ok(u64::try_from(stored.size).unwrap_or(0))
    }
}
