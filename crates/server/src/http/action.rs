//! What people do to work by the authority of their role, and take back.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ActionId, ActionKind, ProjectId,
    action::{Action, CancelTask, OverridePriority, PauseOrResume, Reallocate},
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Admin, Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(cancel_task))
        .routes(routes!(override_priority))
        .routes(routes!(reallocate))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(list_actions))
        .routes(routes!(get_action))
        .routes(routes!(revert))
}

type Done = ApiResult<(StatusCode, Answer<Action>)>;

fn done(action: Action) -> Done {
    Ok((StatusCode::CREATED, Answer(action)))
}

/// Cancel a task, so that it can be taken back
#[utoipa::path(post, path = "/api/v1/guardian/intervention/cancel-task", request_body = CancelTask,
    responses((status = 201, body = Action)), tag = "guardian")]
async fn cancel_task(State(api): State<Api>, who: Operator, Json(new): Json<CancelTask>) -> Done {
    let action = api.store.action_cancel(who.name(), new).await?;
    api.gate.doubt_all();
    done(action)
}

/// Override the priority of a task
#[utoipa::path(post, path = "/api/v1/guardian/intervention/override-priority", request_body = OverridePriority,
    responses((status = 201, body = Action)), tag = "guardian")]
async fn override_priority(State(api): State<Api>, who: Operator, Json(new): Json<OverridePriority>) -> Done {
    done(api.store.action_prioritise(who.name(), new).await?)
}

/// Move places for sandboxes from one project to another
///
/// It changes the limits of both, which needs the role admin.
#[utoipa::path(post, path = "/api/v1/guardian/intervention/reallocate", request_body = Reallocate,
    responses((status = 201, body = Action)), tag = "guardian")]
async fn reallocate(State(api): State<Api>, who: Admin, Json(new): Json<Reallocate>) -> Done {
    let action = api.store.action_reallocate(who.name(), new).await?;
    api.wake.notify_one();
    done(action)
}

/// Pause a project, whose tasks then wait, or a sandbox, whose agent then halts
#[utoipa::path(post, path = "/api/v1/guardian/intervention/pause", request_body = PauseOrResume,
    responses((status = 201, body = Action)), tag = "guardian")]
async fn pause(State(api): State<Api>, who: Operator, Json(new): Json<PauseOrResume>) -> Done {
    done(api.store.action_pause(who.name(), new).await?)
}

/// Let a paused project or sandbox go on
#[utoipa::path(post, path = "/api/v1/guardian/intervention/resume", request_body = PauseOrResume,
    responses((status = 201, body = Action)), tag = "guardian")]
async fn resume(State(api): State<Api>, who: Operator, Json(new): Json<PauseOrResume>) -> Done {
    let action = api.store.action_resume(who.name(), new).await?;
    api.wake.notify_one();
    done(action)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    project_id: Option<ProjectId>,
}

/// List actions, newest first
#[utoipa::path(get, path = "/api/v1/guardian/actions", params(Filter, Paging),
    responses((status = 200, body = Page<Action>)), tag = "guardian")]
async fn list_actions(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Action>>> {
    let limit = paging.limit()?;
    let rows = api.store.action_list(filter.project_id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |action| action.id.to_string()))
}

/// Show an action, with what was before and after
#[utoipa::path(get, path = "/api/v1/guardian/actions/{id}", params(("id" = ActionId, Path)),
    responses((status = 200, body = Action)), tag = "guardian")]
async fn get_action(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<ActionId>,
) -> ApiResult<Answer<Action>> {
    Ok(Answer(api.store.action_get(&id).await?))
}

/// Take an action back
///
/// Puts back what was before, unless somebody has changed it since. What an agent was told cannot be taken back. It
/// needs the role that the action needed.
#[utoipa::path(post, path = "/api/v1/guardian/actions/{id}/revert", params(("id" = ActionId, Path)),
    responses((status = 200, body = Action)), tag = "guardian")]
async fn revert(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<ActionId>,
) -> ApiResult<Answer<Action>> {
    let actor = match api.store.action_get(&id).await?.action_type {
        ActionKind::ReallocateCapacity => who.admin()?,
        ActionKind::CancelTask | ActionKind::OverridePriority | ActionKind::Pause | ActionKind::Resume => {
            who.name()
        }
    };
    let action = api.store.action_revert(actor, &id).await?;
    api.wake.notify_one();
    Ok(Answer(action))
}
