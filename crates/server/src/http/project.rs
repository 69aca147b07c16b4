//! Projects.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ProjectId,
    page::Page,
    project::{NewProject, Project, ProjectPatch},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    auth::Caller,
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::ApiResult,
};

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get_one, update))
}

/// List projects, newest first
#[utoipa::path(get, path = "/api/v1/projects", params(Paging), responses((status = 200, body = Page<Project>)), tag = "projects")]
async fn list(
    State(api): State<Api>,
    who: Caller,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Project>>> {
    who.viewer()?;
    let limit = paging.limit()?;
    let rows = api.store.project_list(paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |project| project.id.to_string()))
}

/// Create a project
#[utoipa::path(post, path = "/api/v1/projects", request_body = NewProject, responses((status = 201, body = Project)), tag = "projects")]
async fn create(
    State(api): State<Api>,
    who: Caller,
    Json(new): Json<NewProject>,
) -> ApiResult<(StatusCode, Answer<Project>)> {
    Ok((StatusCode::CREATED, Answer(api.store.project_create(who.operator()?, new).await?)))
}

/// Show a project
#[utoipa::path(get, path = "/api/v1/projects/{id}", params(("id" = ProjectId, Path)), responses((status = 200, body = Project)), tag = "projects")]
async fn get_one(
    State(api): State<Api>,
    who: Caller,
    Path(id): Path<ProjectId>,
) -> ApiResult<Answer<Project>> {
    who.viewer()?;
    Ok(Answer(api.store.project_get(&id).await?))
}

/// Change a project
#[utoipa::path(patch, path = "/api/v1/projects/{id}", params(("id" = ProjectId, Path)), request_body = ProjectPatch,
    responses((status = 200, body = Project)), tag = "projects")]
async fn update(
    State(api): State<Api>,
    who: Caller,
    Path(id): Path<ProjectId>,
    Json(patch): Json<ProjectPatch>,
) -> ApiResult<Answer<Project>> {
    Ok(Answer(api.store.project_update(who.operator()?, &id, patch).await?))
}
