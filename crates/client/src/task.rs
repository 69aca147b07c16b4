//! Tasks and what they wait for.

use omoi_protocol::{
    ProjectId, TaskId, TaskStatus, TicketId,
    batch::{NewTaskBatch, TaskBatch},
    page::Page,
    sandbox::{NewSandbox, Sandbox},
    task::{
        Dependencies, DependencyList, Evidence, NewTask, Reason, SetTimeout, Task, TaskPatch, TimeoutStatus,
    },
};
use serde::Serialize;

use crate::{Client, Error};

/// Which tasks are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TaskQuery {
    pub status: Option<TaskStatus>,
    pub project_id: Option<ProjectId>,
    pub ticket_id: Option<TicketId>,
    pub phase_id: Option<String>,
    pub has_sandbox: Option<bool>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

fn path(id: &TaskId, rest: &str) -> String {
    format!("/api/v1/tasks/{id}{rest}")
}

impl Client {
    pub async fn task_list(&self, query: &TaskQuery) -> Result<Page<Task>, Error> {
        self.get("/api/v1/tasks").query(query).json().await
    }

    pub async fn task_create(&self, new: &NewTask) -> Result<Task, Error> {
        self.post("/api/v1/tasks").body(new).json().await
    }

    /// Makes tasks that depend on each other, all or none. Only a batch with a key is sent again after a lost answer.
    pub async fn task_create_batch(&self, new: &NewTaskBatch) -> Result<TaskBatch, Error> {
        let call = self.post("/api/v1/tasks/batch").body(new);
        if new.batch_key.is_some() { call.repeatable().json().await } else { call.json().await }
    }

    pub async fn task_get(&self, id: &TaskId) -> Result<Task, Error> {
        self.get(&path(id, "")).json().await
    }

    pub async fn task_evidence(&self, id: &TaskId) -> Result<Evidence, Error> {
        self.get(&path(id, "/evidence")).json().await
    }

    pub async fn task_patch(&self, id: &TaskId, patch: &TaskPatch) -> Result<Task, Error> {
        self.patch(&path(id, "")).body(patch).json().await
    }

    pub async fn task_cancel(&self, id: &TaskId, reason: &Reason) -> Result<Task, Error> {
        self.post(&path(id, "/cancel")).body(reason).json().await
    }

    /// Its sandbox is made now. It is not there yet when this returns.
    pub async fn task_start(&self, id: &TaskId, wish: &NewSandbox) -> Result<Sandbox, Error> {
        self.post(&path(id, "/start")).body(wish).json().await
    }

    pub async fn task_retry(&self, id: &TaskId) -> Result<Task, Error> {
        self.post(&path(id, "/retry")).json().await
    }

    pub async fn task_dependencies(&self, id: &TaskId) -> Result<Dependencies, Error> {
        self.get(&path(id, "/dependencies")).json().await
    }

    /// From now on it waits for exactly these.
    pub async fn task_depend(&self, id: &TaskId, on: &DependencyList) -> Result<Dependencies, Error> {
        self.put(&path(id, "/dependencies")).body(on).json().await
    }

    pub async fn task_set_timeout(&self, id: &TaskId, timeout: &SetTimeout) -> Result<TimeoutStatus, Error> {
        self.post(&path(id, "/set-timeout")).body(timeout).repeatable().json().await
    }

    pub async fn task_timeout(&self, id: &TaskId) -> Result<TimeoutStatus, Error> {
        self.get(&path(id, "/timeout-status")).json().await
    }
}
