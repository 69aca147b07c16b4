//! Tickets.

use omoi_protocol::{
    ProjectId, TicketId, TicketStatus,
    diagnosis::Diagnosis,
    page::Page,
    ticket::{NewTicket, Ticket, TicketCreated, TicketPatch},
};
use serde::Serialize;

use crate::{Client, Error};

/// Which tickets are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TicketQuery {
    pub project_id: Option<ProjectId>,
    pub status: Option<TicketStatus>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

impl Client {
    pub async fn ticket_list(&self, query: &TicketQuery) -> Result<Page<Ticket>, Error> {
        self.get("/api/v1/tickets").query(query).json().await
    }

    pub async fn ticket_create(&self, new: &NewTicket) -> Result<TicketCreated, Error> {
        self.post("/api/v1/tickets").body(new).json().await
    }

    pub async fn ticket_get(&self, id: &TicketId) -> Result<Ticket, Error> {
        self.get(&format!("/api/v1/tickets/{id}")).json().await
    }

    /// Says at once why it cannot go on; refused where it can.
    pub async fn ticket_diagnose(&self, id: &TicketId) -> Result<Diagnosis, Error> {
        self.post(&format!("/api/v1/tickets/{id}/diagnose")).json().await
    }

    pub async fn ticket_patch(&self, id: &TicketId, patch: &TicketPatch) -> Result<Ticket, Error> {
        self.patch(&format!("/api/v1/tickets/{id}")).body(patch).json().await
    }
}
