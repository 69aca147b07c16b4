//! How a project's tasks hang together: what waits for what, and which that run together touch the same files.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    ProjectId, TicketId,
    graph::{Overlaps, TaskGraph},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::Viewer,
    extract::{Path, Query},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(graph)).routes(routes!(overlaps))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Only the tasks of this ticket.
    ticket_id: Option<TicketId>,
}

/// Show the graph of a project's tasks
///
/// The newest 2,000 tasks, what they wait for, the chain that takes longest, and the groups that can be worked on
/// together.
#[utoipa::path(get, path = "/api/v1/projects/{id}/graph", params(("id" = ProjectId, Path), Filter),
    responses((status = 200, body = TaskGraph)), tag = "projects")]
async fn graph(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<ProjectId>,
    Query(filter): Query<Filter>,
) -> ApiResult<Answer<TaskGraph>> {
    Ok(Answer(api.store.graph_get(&id, filter.ticket_id.as_ref()).await?))
}

/// List tasks under way that touch the same files
#[utoipa::path(get, path = "/api/v1/projects/{id}/overlaps", params(("id" = ProjectId, Path)),
    responses((status = 200, body = Overlaps)), tag = "projects")]
async fn overlaps(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<ProjectId>,
) -> ApiResult<Answer<Overlaps>> {
    let items = api.store.overlap_list(&id).await?;
    Ok(Answer(Overlaps { project_id: id, items }))
}
