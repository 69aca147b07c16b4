//! What model calls cost.

use std::ops::Deref;

use axum::{
    Json as Answer,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use jiff::Timestamp;
use omoi_protocol::{
    ProjectId, SandboxId, TaskId,
    cost::{CostGroupBy, CostGroups, CostPage},
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Caller, Viewer, admit},
    extract::Query,
    page::Paging,
    parameters,
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::store::CallFilter;

/// More groups are of no use to a reader.
const GROUPS_MAX: usize = 500;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(groups))
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

impl Filter {
    fn calls(self) -> CallFilter {
        let Self { project_id, task_id, sandbox_id, since } = self;
        CallFilter { project_id, task_id, sandbox_id, since }
    }
}

admit! {
    /// The sandbox whose calls are asked for, or any operator.
    Payer: |who, parts| match parameters::value(parts, "sandbox_id") {
        Some(id) => who.reader_of(&id),
        None => who.viewer().map(|_| ()),
    };
}

/// List model calls, newest first, with the sums of all that fit
///
/// A sandbox may ask for its own.
#[utoipa::path(get, path = "/api/v1/costs", params(Filter, Paging), responses((status = 200, body = CostPage)), tag = "costs")]
async fn list(
    State(api): State<Api>,
    _: Payer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<CostPage>> {
    let limit = paging.limit()?;
    let filter = filter.calls();
    let totals = api.store.call_totals(filter.clone()).await?;
    let rows = api.store.call_list(filter, paging.cursor()?, limit + 1).await?;
    let Page { items, next } = Page::cut(rows, limit, |call| call.id.to_string());
    Ok(Answer(CostPage { items, next, totals }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Grouping {
    #[param(inline)]
    by: CostGroupBy,
}

/// Add model calls up by what they have in common, dearest first
///
/// Days are those of UTC, newest first. At most 500 groups.
#[utoipa::path(get, path = "/api/v1/costs/groups", params(Grouping, Filter), responses((status = 200, body = CostGroups)), tag = "costs")]
async fn groups(
    State(api): State<Api>,
    _: Viewer,
    Query(Grouping { by }): Query<Grouping>,
    Query(filter): Query<Filter>,
) -> ApiResult<Answer<CostGroups>> {
    let mut items = api.store.call_groups(filter.calls(), by, GROUPS_MAX + 1).await?;
    let is_cut = items.len() > GROUPS_MAX;
    items.truncate(GROUPS_MAX);
    Ok(Answer(CostGroups { items, is_cut }))
}
