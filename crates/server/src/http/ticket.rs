//! Tickets.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ProjectId, TicketId, TicketStatus,
    page::Page,
    ticket::{NewTicket, Ticket, TicketCreated, TicketPatch},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list, create)).routes(routes!(get_one, update))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    project_id: Option<ProjectId>,
    status: Option<TicketStatus>,
}

/// List tickets, newest first
#[utoipa::path(get, path = "/api/v1/tickets", params(Filter, Paging), responses((status = 200, body = Page<Ticket>)), tag = "tickets")]
async fn list(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Ticket>>> {
    let limit = paging.limit()?;
    let rows = api.store.ticket_list(filter.project_id, filter.status, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |ticket| ticket.id.to_string()))
}

/// Create a ticket, and by default the task that does it
#[utoipa::path(post, path = "/api/v1/tickets", request_body = NewTicket, responses((status = 201, body = TicketCreated)), tag = "tickets")]
async fn create(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<NewTicket>,
) -> ApiResult<(StatusCode, Answer<TicketCreated>)> {
    Ok((StatusCode::CREATED, Answer(api.store.ticket_create(who.name(), new).await?)))
}

/// Show a ticket
#[utoipa::path(get, path = "/api/v1/tickets/{id}", params(("id" = TicketId, Path)), responses((status = 200, body = Ticket)), tag = "tickets")]
async fn get_one(State(api): State<Api>, _: Viewer, Path(id): Path<TicketId>) -> ApiResult<Answer<Ticket>> {
    Ok(Answer(api.store.ticket_get(&id).await?))
}

/// Change a ticket
#[utoipa::path(patch, path = "/api/v1/tickets/{id}", params(("id" = TicketId, Path)), request_body = TicketPatch,
    responses((status = 200, body = Ticket)), tag = "tickets")]
async fn update(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TicketId>,
    Json(patch): Json<TicketPatch>,
) -> ApiResult<Answer<Ticket>> {
    Ok(Answer(api.store.ticket_update(who.name(), &id, patch).await?))
}
