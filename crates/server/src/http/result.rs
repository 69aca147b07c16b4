//! The results that sandboxes hand in.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    TaskId,
    page::Page,
    result::{NewResult, TaskResult},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Viewer, Worker},
    extract::{Json, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list_results, hand_in))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct OfTask {
    task_id: TaskId,
}

/// List the results of a task, oldest first
///
/// A page has 8 MiB of content at most and at least one result.
#[utoipa::path(get, path = "/api/v1/results", params(OfTask, Paging), responses((status = 200, body = Page<TaskResult>)), tag = "results")]
async fn list_results(
    State(api): State<Api>,
    _: Viewer,
    Query(of): Query<OfTask>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<TaskResult>>> {
    let found = api.store.result_list(&of.task_id, paging.cursor()?, paging.limit()?).await?;
    Ok(page::portion(found, |result| result.id.to_string()))
}

/// Hand in a result
///
/// With the token of the sandbox that holds the task, or as an operator in its place.
#[utoipa::path(post, path = "/api/v1/results", request_body = NewResult, responses((status = 201, body = TaskResult)), tag = "results")]
async fn hand_in(
    State(api): State<Api>,
    who: Worker,
    Json(new): Json<NewResult>,
) -> ApiResult<(StatusCode, Answer<TaskResult>)> {
    let stored = api.store.result_create(who.sandbox_or_operator()?, new).await;
    stored.map(|result| (StatusCode::CREATED, Answer(result))).map_err(|error| who.refused(error))
}
