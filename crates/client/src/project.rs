//! Projects.

use omoi_protocol::{
    ProjectId, TicketId,
    graph::{Overlaps, TaskGraph},
    page::Page,
    project::{NewProject, Project, ProjectPatch},
};

use crate::{Client, Error};

impl Client {
    pub async fn project_list(&self, limit: usize, cursor: Option<&str>) -> Result<Page<Project>, Error> {
        self.get("/api/v1/projects").query(&(("limit", limit), ("cursor", cursor))).json().await
    }

    pub async fn project_create(&self, new: &NewProject) -> Result<Project, Error> {
        self.post("/api/v1/projects").body(new).json().await
    }

    pub async fn project_get(&self, id: &ProjectId) -> Result<Project, Error> {
        self.get(&format!("/api/v1/projects/{id}")).json().await
    }

    pub async fn project_patch(&self, id: &ProjectId, patch: &ProjectPatch) -> Result<Project, Error> {
        self.patch(&format!("/api/v1/projects/{id}")).body(patch).json().await
    }

    /// How its tasks hang together, or those of one ticket.
    pub async fn project_graph(&self, id: &ProjectId, ticket: Option<&TicketId>) -> Result<TaskGraph, Error> {
        self.get(&format!("/api/v1/projects/{id}/graph")).query(&[("ticket_id", ticket)]).json().await
    }

    /// Its tasks under way that touch the same files.
    pub async fn project_overlaps(&self, id: &ProjectId) -> Result<Overlaps, Error> {
        self.get(&format!("/api/v1/projects/{id}/overlaps")).json().await
    }
}
