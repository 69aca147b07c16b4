//! What the Conductor sees across sandboxes.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    DuplicateId, ProjectId,
    conductor::{Analysis, ConductorStatus, Conflict, Duplicate, Matrix},
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};
use crate::store::ConflictFilter;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(status))
        .routes(routes!(analyses))
        .routes(routes!(conflicts))
        .routes(routes!(matrix))
        .routes(routes!(duplicates))
        .routes(routes!(dismiss))
}

/// Show how well all that is under way fits together
#[utoipa::path(get, path = "/api/v1/conductor/status", responses((status = 200, body = ConductorStatus)), tag = "conductor")]
async fn status(State(api): State<Api>, _: Viewer) -> ApiResult<Answer<ConductorStatus>> {
    Ok(Answer(api.store.conductor_status(&api.conductor).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OfProject {
    /// Of all projects together where it is not said.
    project_id: Option<ProjectId>,
}

/// List the looks over all that was under way, newest first
///
/// Two days of them are kept.
#[utoipa::path(get, path = "/api/v1/conductor/analyses", params(OfProject, Paging), responses((status = 200, body = Page<Analysis>)), tag = "conductor")]
async fn analyses(
    State(api): State<Api>,
    _: Viewer,
    Query(of): Query<OfProject>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Analysis>>> {
    let limit = paging.limit()?;
    let rows = api.store.analysis_list(of.project_id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |analysis| analysis.id.to_string()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    project_id: Option<ProjectId>,
    /// Only those that are not over, or only those that are. A duplicate is over when somebody has dismissed it or one of its
    /// tasks has ended.
    open: Option<bool>,
}

/// List conflicts between tasks, newest first
///
/// Branches that do not merge, lines that two change, and files that two change where nobody knows the lines.
#[utoipa::path(get, path = "/api/v1/conductor/conflicts", params(Filter, Paging), responses((status = 200, body = Page<Conflict>)), tag = "conductor")]
async fn conflicts(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Conflict>>> {
    let limit = paging.limit()?;
    let Filter { project_id, open } = filter;
    let rows =
        api.store.conflict_list(ConflictFilter { project_id, open }, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |conflict| conflict.id.to_string()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Of {
    project_id: ProjectId,
}

/// Show everybody against everybody, as the radar last saw it
///
/// At most 64 members: live sandboxes first, then completed tasks whose branch is not merged.
#[utoipa::path(get, path = "/api/v1/conductor/matrix", params(Of), responses((status = 200, body = Matrix)), tag = "conductor")]
async fn matrix(State(api): State<Api>, _: Viewer, Query(of): Query<Of>) -> ApiResult<Answer<Matrix>> {
    Ok(Answer(api.store.radar_matrix(&of.project_id).await?))
}

/// List tasks that seem to be the same work, newest first
#[utoipa::path(get, path = "/api/v1/conductor/duplicates", params(Filter, Paging), responses((status = 200, body = Page<Duplicate>)), tag = "conductor")]
async fn duplicates(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Duplicate>>> {
    let limit = paging.limit()?;
    let rows = api.store.duplicate_list(filter.project_id, filter.open, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |duplicate| duplicate.id.to_string()))
}

/// Say that two tasks are not the same work
#[utoipa::path(post, path = "/api/v1/conductor/duplicates/{id}/dismiss", params(("id" = DuplicateId, Path)),
    responses((status = 200, body = Duplicate)), tag = "conductor")]
async fn dismiss(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<DuplicateId>,
) -> ApiResult<Answer<Duplicate>> {
    Ok(Answer(api.store.duplicate_dismiss(who.name(), &id).await?))
}
