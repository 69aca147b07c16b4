//! The Guardian: what it finds, what it does, and by which policy.

use omoi_protocol::{
    FindingKind, InterventionId, InterventionMode, ProjectId, SandboxId, TaskId,
    guardian::{
        ApproveIntervention, DismissIntervention, GuardianFinding, GuardianIntervention, GuardianJudgement,
        GuardianPolicy, GuardianStatus, NewNudge, PolicyTried, PutPolicy, SandboxSummary, TryPolicy,
    },
    page::Page,
};
use serde::Serialize;

use crate::{Client, Error};

/// Which findings are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FindingQuery {
    pub project_id: Option<ProjectId>,
    pub sandbox_id: Option<SandboxId>,
    pub task_id: Option<TaskId>,
    pub kind: Option<FindingKind>,
    pub open: Option<bool>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

/// Which interventions are wanted; whatever is absent does not matter. Notes only by their mode.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InterventionQuery {
    pub project_id: Option<ProjectId>,
    pub sandbox_id: Option<SandboxId>,
    pub task_id: Option<TaskId>,
    pub mode: Option<InterventionMode>,
    pub waiting: Option<bool>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

impl Client {
    pub async fn guardian_status(&self) -> Result<GuardianStatus, Error> {
        self.get("/api/v1/guardian/status").json().await
    }

    pub async fn finding_list(&self, query: &FindingQuery) -> Result<Page<GuardianFinding>, Error> {
        self.get("/api/v1/findings").query(query).json().await
    }

    pub async fn intervention_list(
        &self,
        query: &InterventionQuery,
    ) -> Result<Page<GuardianIntervention>, Error> {
        self.get("/api/v1/interventions").query(query).json().await
    }

    pub async fn intervention_approve(
        &self,
        id: &InterventionId,
        said: &ApproveIntervention,
    ) -> Result<GuardianIntervention, Error> {
        self.post(&format!("/api/v1/interventions/{id}/approve")).body(said).json().await
    }

    pub async fn intervention_dismiss(
        &self,
        id: &InterventionId,
        said: &DismissIntervention,
    ) -> Result<GuardianIntervention, Error> {
        self.post(&format!("/api/v1/interventions/{id}/dismiss")).body(said).json().await
    }

    pub async fn sandbox_nudge(&self, id: &SandboxId, new: &NewNudge) -> Result<GuardianIntervention, Error> {
        self.post(&format!("/api/v1/sandboxes/{id}/nudge")).body(new).json().await
    }

    /// The newest of a sandbox.
    pub async fn sandbox_judgements(
        &self,
        id: &SandboxId,
        limit: usize,
    ) -> Result<Page<GuardianJudgement>, Error> {
        self.get(&format!("/api/v1/sandboxes/{id}/judgements")).query(&[("limit", limit)]).json().await
    }

    pub async fn sandbox_judge(&self, id: &SandboxId) -> Result<GuardianJudgement, Error> {
        self.post(&format!("/api/v1/sandboxes/{id}/judge")).json().await
    }

    /// The id of an attached agent stands for the sandbox that it works in.
    pub async fn sandbox_summary(&self, id: &SandboxId) -> Result<SandboxSummary, Error> {
        self.get(&format!("/api/v1/sandboxes/{id}/summary")).json().await
    }

    pub async fn policy_get(&self, id: &ProjectId) -> Result<GuardianPolicy, Error> {
        self.get(&format!("/api/v1/projects/{id}/policy")).json().await
    }

    pub async fn policy_put(&self, id: &ProjectId, new: &PutPolicy) -> Result<GuardianPolicy, Error> {
        self.put(&format!("/api/v1/projects/{id}/policy")).body(new).json().await
    }

    pub async fn policy_reset(&self, id: &ProjectId) -> Result<GuardianPolicy, Error> {
        self.delete(&format!("/api/v1/projects/{id}/policy")).json().await
    }

    pub async fn policy_try(&self, id: &ProjectId, asked: &TryPolicy) -> Result<PolicyTried, Error> {
        self.post(&format!("/api/v1/projects/{id}/policy/try")).body(asked).json().await
    }
}
