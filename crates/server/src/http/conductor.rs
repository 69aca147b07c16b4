//! What the Conductor sees across sandboxes.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    ProjectId,
    conductor::{Conflict, Matrix},
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    auth::Caller,
    extract::Query,
    page::{self, Paging},
    problem::ApiResult,
};
use crate::store::ConflictFilter;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(conflicts)).routes(routes!(matrix))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    project_id: Option<ProjectId>,
    /// Only those that are not over, or only those that are.
    open: Option<bool>,
}

/// List conflicts between tasks, newest first
///
/// Branches that do not merge, lines that two change, and files that two change where nobody knows the lines.
#[utoipa::path(get, path = "/api/v1/conductor/conflicts", params(Filter, Paging), responses((status = 200, body = Page<Conflict>)), tag = "conductor")]
async fn conflicts(
    State(api): State<Api>,
    who: Caller,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Conflict>>> {
    who.viewer()?;
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
async fn matrix(State(api): State<Api>, who: Caller, Query(of): Query<Of>) -> ApiResult<Answer<Matrix>> {
    who.viewer()?;
    Ok(Answer(api.store.radar_matrix(&of.project_id).await?))
}
