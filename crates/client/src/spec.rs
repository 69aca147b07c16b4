//! Specs.

use omoi_protocol::{
    ProjectId, SpecId, SpecPhase, SpecStatus,
    page::Page,
    spec::{
        ApprovePhase, DecideDuplicate, EditPhase, ExecuteSpec, ImportSpec, NewSpec, PhaseDetail,
        RequestChanges, SetSpecGates, SpecBranch, SpecCoverage, SpecDetail, SpecDuplicate, SpecExecution,
        SpecFiles, SpecGates, SpecLayout, SpecPatch, SpecSummary,
    },
};
use serde::Serialize;

use crate::{Client, Error};

/// Which specs are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SpecQuery {
    pub project_id: Option<ProjectId>,
    pub status: Option<SpecStatus>,
    pub archived: Option<bool>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

fn path(id: &SpecId, rest: &str) -> String {
    format!("/api/v1/specs/{id}{rest}")
}

impl Client {
    pub async fn spec_list(&self, query: &SpecQuery) -> Result<Page<SpecSummary>, Error> {
        self.get("/api/v1/specs").query(query).json().await
    }

    pub async fn spec_create(&self, new: &NewSpec) -> Result<SpecDetail, Error> {
        self.post("/api/v1/specs").body(new).json().await
    }

    pub async fn spec_get(&self, id: &SpecId) -> Result<SpecDetail, Error> {
        self.get(&path(id, "")).json().await
    }

    pub async fn spec_patch(&self, id: &SpecId, patch: &SpecPatch) -> Result<SpecDetail, Error> {
        self.patch(&path(id, "")).body(patch).json().await
    }

    /// Its sandbox is not there yet when this returns. Asked twice, it is executed once.
    pub async fn spec_execute(&self, id: &SpecId, asked: &ExecuteSpec) -> Result<SpecExecution, Error> {
        self.post(&path(id, "/execute")).body(asked).json().await
    }

    pub async fn spec_approve(&self, id: &SpecId, said: &ApprovePhase) -> Result<SpecDetail, Error> {
        self.post(&path(id, "/approve")).body(said).json().await
    }

    pub async fn spec_request_changes(
        &self,
        id: &SpecId,
        said: &RequestChanges,
    ) -> Result<SpecDetail, Error> {
        self.post(&path(id, "/request-changes")).body(said).json().await
    }

    /// The last attempt at a phase.
    pub async fn spec_phase(&self, id: &SpecId, phase: SpecPhase) -> Result<PhaseDetail, Error> {
        self.get(&path(id, &format!("/phases/{phase}"))).json().await
    }

    pub async fn spec_phase_edit(
        &self,
        id: &SpecId,
        phase: SpecPhase,
        said: &EditPhase,
    ) -> Result<SpecDetail, Error> {
        self.put(&path(id, &format!("/phases/{phase}"))).body(said).json().await
    }

    /// What stands of it, as files.
    pub async fn spec_export(&self, id: &SpecId, layout: SpecLayout) -> Result<SpecFiles, Error> {
        self.get(&path(id, "/export")).query(&[("layout", layout)]).json().await
    }

    pub async fn spec_import(&self, files: &ImportSpec) -> Result<SpecDetail, Error> {
        self.post("/api/v1/specs/import").body(files).json().await
    }

    pub async fn spec_coverage(&self, id: &SpecId) -> Result<SpecCoverage, Error> {
        self.get(&path(id, "/coverage")).json().await
    }

    /// Lists leave it out from then on.
    pub async fn spec_archive(&self, id: &SpecId) -> Result<SpecDetail, Error> {
        self.post(&path(id, "/archive")).json().await
    }

    /// The branch that holds the work of all its tasks.
    pub async fn spec_branch(&self, id: &SpecId) -> Result<SpecBranch, Error> {
        self.get(&path(id, "/branch")).json().await
    }

    /// Has that branch made, or made again; it is not there yet when this returns.
    pub async fn spec_branch_make(&self, id: &SpecId) -> Result<SpecDetail, Error> {
        self.post(&path(id, "/branch")).json().await
    }

    /// Tasks of it that may exist already.
    pub async fn spec_duplicates(&self, id: &SpecId) -> Result<Vec<SpecDuplicate>, Error> {
        self.get(&path(id, "/duplicates")).json().await
    }

    pub async fn spec_duplicate_decide(
        &self,
        id: &SpecId,
        said: &DecideDuplicate,
    ) -> Result<SpecDetail, Error> {
        self.post(&path(id, "/duplicates")).body(said).json().await
    }

    pub async fn project_gates(&self, id: &ProjectId) -> Result<SpecGates, Error> {
        self.get(&format!("/api/v1/projects/{id}/spec-gates")).json().await
    }

    pub async fn project_set_gates(&self, id: &ProjectId, said: &SetSpecGates) -> Result<SpecGates, Error> {
        self.put(&format!("/api/v1/projects/{id}/spec-gates")).body(said).json().await
    }
}
