//! Tasks and what they wait for.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ProjectId, TaskId, TaskStatus, TicketId,
    batch::{NewTaskBatch, TaskBatch},
    page::Page,
    sandbox::{NewSandbox, Sandbox},
    task::{
        Dependencies, DependencyList, Evidence, NewTask, Reason, SetTimeout, Task, TaskPatch, TimeoutStatus,
    },
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::store::{BatchMade, TaskFilter};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(create_batch))
        .routes(routes!(get_one, update))
        .routes(routes!(evidence))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(start))
        .routes(routes!(set_timeout))
        .routes(routes!(timeout_status))
        .routes(routes!(dependencies, add_dependencies, replace_dependencies))
        .routes(routes!(remove_dependency))
        .routes(routes!(check_circular))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    status: Option<TaskStatus>,
    project_id: Option<ProjectId>,
    ticket_id: Option<TicketId>,
    phase_id: Option<String>,
    /// Only tasks with a live sandbox, or only those without.
    has_sandbox: Option<bool>,
}

/// List tasks, newest first
#[utoipa::path(get, path = "/api/v1/tasks", params(Filter, Paging), responses((status = 200, body = Page<Task>)), tag = "tasks")]
async fn list(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Task>>> {
    let limit = paging.limit()?;
    let filter = TaskFilter {
        status: filter.status,
        project_id: filter.project_id,
        ticket_id: filter.ticket_id,
        phase_id: filter.phase_id,
        has_sandbox: filter.has_sandbox,
    };
    let rows = api.store.task_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |task| task.id.to_string()))
}

/// Create a task
#[utoipa::path(post, path = "/api/v1/tasks", request_body = NewTask, responses((status = 201, body = Task)), tag = "tasks")]
async fn create(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<NewTask>,
) -> ApiResult<(StatusCode, Answer<Task>)> {
    Ok((StatusCode::CREATED, Answer(api.store.task_create(who.name(), new).await?)))
}

/// Create tasks that depend on each other, all or none
///
/// With a `batch_key`, sending again after a lost answer is harmless: it answers the tasks that were made.
#[utoipa::path(post, path = "/api/v1/tasks/batch", request_body = NewTaskBatch,
    responses((status = 201, body = TaskBatch), (status = 200, body = TaskBatch, description = "Made before")), tag = "tasks")]
async fn create_batch(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<NewTaskBatch>,
) -> ApiResult<(StatusCode, Answer<TaskBatch>)> {
    Ok(match api.store.batch_create(who.name(), new).await? {
        BatchMade::Now(batch) => {
            api.wake.notify_one();
            (StatusCode::CREATED, Answer(batch))
        }
        BatchMade::Before(batch) => (StatusCode::OK, Answer(batch)),
    })
}

/// Show a task
#[utoipa::path(get, path = "/api/v1/tasks/{id}", params(("id" = TaskId, Path)), responses((status = 200, body = Task)), tag = "tasks")]
async fn get_one(State(api): State<Api>, _: Viewer, Path(id): Path<TaskId>) -> ApiResult<Answer<Task>> {
    Ok(Answer(api.store.task_get(&id).await?))
}

/// Show what proves a task: the checks that ran on its commit, and every attempt at it
#[utoipa::path(get, path = "/api/v1/tasks/{id}/evidence", params(("id" = TaskId, Path)),
    responses((status = 200, body = Evidence)), tag = "tasks")]
async fn evidence(State(api): State<Api>, _: Viewer, Path(id): Path<TaskId>) -> ApiResult<Answer<Evidence>> {
    Ok(Answer(api.store.task_evidence(&id).await?))
}

/// Change a task
#[utoipa::path(patch, path = "/api/v1/tasks/{id}", params(("id" = TaskId, Path)), request_body = TaskPatch,
    responses((status = 200, body = Task)), tag = "tasks")]
async fn update(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TaskId>,
    Json(patch): Json<TaskPatch>,
) -> ApiResult<Answer<Task>> {
    Ok(Answer(api.store.task_update(who.name(), &id, patch).await?))
}

/// Cancel a task, and end the sandbox that holds it
#[utoipa::path(post, path = "/api/v1/tasks/{id}/cancel", params(("id" = TaskId, Path)), request_body = Reason,
    responses((status = 200, body = Task)), tag = "tasks")]
async fn cancel(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TaskId>,
    Json(why): Json<Reason>,
) -> ApiResult<Answer<Task>> {
    let task = api.store.task_cancel(who.name(), &id, why.reason).await?;
    api.gate.doubt_all();
    Ok(Answer(task))
}

/// Offer a failed or cancelled task again
#[utoipa::path(post, path = "/api/v1/tasks/{id}/retry", params(("id" = TaskId, Path)), responses((status = 200, body = Task)), tag = "tasks")]
async fn retry(State(api): State<Api>, who: Operator, Path(id): Path<TaskId>) -> ApiResult<Answer<Task>> {
    Ok(Answer(api.store.task_retry(who.name(), &id).await?))
}

/// Start a pending task
///
/// Its sandbox is made now, whatever limits there are and whether or not its project is autonomous. The fields are those
/// of a sandbox that is asked for; all may be left out. A project that is paused or archived starts nothing (409).
#[utoipa::path(post, path = "/api/v1/tasks/{id}/start", params(("id" = TaskId, Path)), request_body = NewSandbox,
    responses((status = 202, body = Sandbox)), tag = "tasks")]
async fn start(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TaskId>,
    Json(wish): Json<NewSandbox>,
) -> ApiResult<(StatusCode, Answer<Sandbox>)> {
    let actor = who.name();
    if wish.task_id.as_ref().is_some_and(|named| *named != id) {
        return Err(ApiError::invalid("validation_failed", format!("task_id names another task than {id}")));
    }
    let ordered = api.store.task_start(actor, &id, wish).await?;
    api.wake.notify_one();
    Ok((StatusCode::ACCEPTED, Answer(ordered)))
}

/// Set or take away the time a task may run
#[utoipa::path(post, path = "/api/v1/tasks/{id}/set-timeout", params(("id" = TaskId, Path)), request_body = SetTimeout,
    responses((status = 200, body = TimeoutStatus)), tag = "tasks")]
async fn set_timeout(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TaskId>,
    Json(set): Json<SetTimeout>,
) -> ApiResult<Answer<TimeoutStatus>> {
    Ok(Answer(api.store.task_set_timeout(who.name(), &id, set).await?))
}

/// Show how much of its time a task has used
#[utoipa::path(get, path = "/api/v1/tasks/{id}/timeout-status", params(("id" = TaskId, Path)),
    responses((status = 200, body = TimeoutStatus)), tag = "tasks")]
async fn timeout_status(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<TaskId>,
) -> ApiResult<Answer<TimeoutStatus>> {
    Ok(Answer(api.store.task_timeout_status(&id).await?))
}

/// Show what a task waits for, and what waits for it
#[utoipa::path(get, path = "/api/v1/tasks/{id}/dependencies", params(("id" = TaskId, Path)),
    responses((status = 200, body = Dependencies)), tag = "tasks")]
async fn dependencies(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<TaskId>,
) -> ApiResult<Answer<Dependencies>> {
    Ok(Answer(api.store.dependency_get(&id).await?))
}

/// Add dependencies
#[utoipa::path(post, path = "/api/v1/tasks/{id}/dependencies", params(("id" = TaskId, Path)), request_body = DependencyList,
    responses((status = 200, body = Dependencies)), tag = "tasks")]
async fn add_dependencies(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TaskId>,
    Json(list): Json<DependencyList>,
) -> ApiResult<Answer<Dependencies>> {
    Ok(Answer(api.store.dependency_add(who.name(), &id, list.depends_on).await?))
}

/// Replace all dependencies
#[utoipa::path(put, path = "/api/v1/tasks/{id}/dependencies", params(("id" = TaskId, Path)), request_body = DependencyList,
    responses((status = 200, body = Dependencies)), tag = "tasks")]
async fn replace_dependencies(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<TaskId>,
    Json(list): Json<DependencyList>,
) -> ApiResult<Answer<Dependencies>> {
    Ok(Answer(api.store.dependency_replace(who.name(), &id, list.depends_on).await?))
}

/// Remove one dependency
#[utoipa::path(delete, path = "/api/v1/tasks/{id}/dependencies/{other}", params(("id" = TaskId, Path), ("other" = TaskId, Path)),
    responses((status = 200, body = Dependencies)), tag = "tasks")]
async fn remove_dependency(
    State(api): State<Api>,
    who: Operator,
    Path((id, other)): Path<(TaskId, TaskId)>,
) -> ApiResult<Answer<Dependencies>> {
    Ok(Answer(api.store.dependency_remove(who.name(), &id, other).await?))
}

#[derive(Debug, Serialize, ToSchema)]
struct CircularCheck {
    has_cycle: bool,
    /// From a task back to itself.
    cycle: Option<Vec<TaskId>>,
}

/// Check whether dependencies would make a cycle, and change nothing
#[utoipa::path(post, path = "/api/v1/tasks/{id}/check-circular", params(("id" = TaskId, Path)), request_body = DependencyList,
    responses((status = 200, body = CircularCheck)), tag = "tasks")]
async fn check_circular(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<TaskId>,
    Json(list): Json<DependencyList>,
) -> ApiResult<Answer<CircularCheck>> {
    let cycle = api.store.dependency_check(&id, list.depends_on).await?;
    Ok(Answer(CircularCheck { has_cycle: cycle.is_some(), cycle }))
}
