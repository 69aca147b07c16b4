//! Projects.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ProjectId, RepositoryReach,
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
use crate::{
    domain::egress::{Mode, Settings},
    git,
};

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
    let (actor, reach) = (who.name(), reach(&who));
    may_be_open(&api, &new.settings)?;
    may_be_fetched(&api, new.repository_url.as_deref(), reach).await?;
    Ok((StatusCode::CREATED, Answer(api.store.project_create(actor, new, reach).await?)))
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
    let (actor, reach) = (who.name(), reach(&who));
    patch.settings.as_ref().map_or(Ok(()), |settings| may_be_open(&api, settings))?;
    // An address that stays was allowed when it was set, and a page sends it along with what changes.
    if patch.repository_url.is_some()
        && patch.repository_url != api.store.project_get(&id).await?.repository_url
    {
        may_be_fetched(&api, patch.repository_url.as_deref(), reach).await?;
    }
    Ok(Answer(api.store.project_update(actor, &id, patch, reach).await?))
}

/// Which repositories the caller may name.
fn reach(who: &Operator) -> RepositoryReach {
    if who.admin().is_ok() { RepositoryReach::Any } else { RepositoryReach::Public }
}

async fn may_be_fetched(api: &Api, address: Option<&str>, reach: RepositoryReach) -> ApiResult<()> {
    let Some(address) = address.filter(|address| !address.is_empty()) else { return Ok(()) };
    match api.mirrors.admit(address, reach).await {
        Err(error @ git::Error::NotAllowed(_)) => {
            Err(ApiError::forbidden("repository_not_allowed", error.to_string()))
        }
        Err(error) => Err(ApiError::invalid("invalid", error.to_string())),
        Ok(()) => Ok(()),
    }
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
