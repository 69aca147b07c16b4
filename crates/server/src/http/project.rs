//! Projects.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ProjectId,
    page::Page,
    project::{NewProject, Project, ProjectPatch},
};
use serde_json::{Map, Value};

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::domain::egress::{Mode, Settings};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list, create)).routes(routes!(get_one, update))
}

/// List projects, newest first
#[utoipa::path(get, path = "/api/v1/projects", params(Paging), responses((status = 200, body = Page<Project>)), tag = "projects")]
async fn list(
    State(api): State<Api>,
    _: Viewer,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Project>>> {
    let limit = paging.limit()?;
    let rows = api.store.project_list(paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |project| project.id.to_string()))
}

/// Create a project
#[utoipa::path(post, path = "/api/v1/projects", request_body = NewProject, responses((status = 201, body = Project)), tag = "projects")]
async fn create(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<NewProject>,
) -> ApiResult<(StatusCode, Answer<Project>)> {
    let actor = who.name();
    may_be_open(&api, &new.settings)?;
    Ok((StatusCode::CREATED, Answer(api.store.project_create(actor, new).await?)))
}

/// Show a project
#[utoipa::path(get, path = "/api/v1/projects/{id}", params(("id" = ProjectId, Path)), responses((status = 200, body = Project)), tag = "projects")]
async fn get_one(State(api): State<Api>, _: Viewer, Path(id): Path<ProjectId>) -> ApiResult<Answer<Project>> {
    Ok(Answer(api.store.project_get(&id).await?))
}

/// Change a project
#[utoipa::path(patch, path = "/api/v1/projects/{id}", params(("id" = ProjectId, Path)), request_body = ProjectPatch,
    responses((status = 200, body = Project)), tag = "projects")]
async fn update(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<ProjectId>,
    Json(patch): Json<ProjectPatch>,
) -> ApiResult<Answer<Project>> {
    let actor = who.name();
    patch.settings.as_ref().map_or(Ok(()), |settings| may_be_open(&api, settings))?;
    Ok(Answer(api.store.project_update(actor, &id, patch).await?))
}

fn may_be_open(api: &Api, settings: &Map<String, Value>) -> ApiResult<()> {
    let is_open = Settings::parse(settings).is_ok_and(|settings| settings.mode == Mode::Open);
    if is_open && !api.open_allowed {
        let detail = "settings.network is \"open\", which an administrator has to allow with egress.open_allowed; \
                      name hosts in settings.egress_allow instead";
        return Err(ApiError::invalid("open_not_allowed", detail));
    }
    Ok(())
}
