//! What the Conductor sees across sandboxes, and how the whole is doing.

use omoi_protocol::{
    ProjectId,
    conductor::{ConductorStatus, Conflict, Duplicate, Matrix},
    monitor::Dashboard,
    page::Page,
};

use crate::{Client, Error};

impl Client {
    pub async fn conductor_status(&self) -> Result<ConductorStatus, Error> {
        self.get("/api/v1/conductor/status").json().await
    }

    /// Those that are not over.
    pub async fn conflict_list_open(&self, project: Option<&ProjectId>) -> Result<Page<Conflict>, Error> {
        let query = (("project_id", project), ("open", true));
        self.get("/api/v1/conductor/conflicts").query(&query).json().await
    }

    /// Those that nobody has dismissed.
    pub async fn duplicate_list_open(&self, project: Option<&ProjectId>) -> Result<Page<Duplicate>, Error> {
        let query = (("project_id", project), ("open", true));
        self.get("/api/v1/conductor/duplicates").query(&query).json().await
    }

    pub async fn conductor_matrix(&self, project: &ProjectId) -> Result<Matrix, Error> {
        self.get("/api/v1/conductor/matrix").query(&[("project_id", project)]).json().await
    }

    pub async fn monitor_dashboard(&self) -> Result<Dashboard, Error> {
        self.get("/api/v1/monitor/dashboard").json().await
    }
}
