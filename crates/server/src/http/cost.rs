//! What model calls cost.

use axum::{Json as Answer, extract::State};
use jiff::Timestamp;
use omoi_protocol::{ProjectId, SandboxId, TaskId, cost::CostPage, page::Page};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Api, auth::Caller, extract::Query, page::Paging, problem::ApiResult};
use crate::store::CallFilter;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    project_id: Option<ProjectId>,
    task_id: Option<TaskId>,
    sandbox_id: Option<SandboxId>,
    /// Only calls that began at this time or later.
    since: Option<Timestamp>,
}

/// List model calls, newest first, with the sums of all that fit
///
/// A sandbox may ask for its own.
#[utoipa::path(get, path = "/api/v1/costs", params(Filter, Paging), responses((status = 200, body = CostPage)), tag = "costs")]
async fn list(
    State(api): State<Api>,
    who: Caller,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<CostPage>> {
    match &filter.sandbox_id {
        Some(id) => who.reader_of(id)?,
        None => who.viewer().map(|_| ())?,
    }
    let limit = paging.limit()?;
    let filter = CallFilter {
        project_id: filter.project_id,
        task_id: filter.task_id,
        sandbox_id: filter.sandbox_id,
        since: filter.since,
    };
    let totals = api.store.call_totals(filter.clone()).await?;
    let rows = api.store.call_list(filter, paging.cursor()?, limit + 1).await?;
    let Page { items, next } = Page::cut(rows, limit, |call| call.id.to_string());
    Ok(Answer(CostPage { items, next, totals }))
}
