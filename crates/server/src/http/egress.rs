//! What sandboxes reached for outside.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{SandboxId, egress::EgressRequest, page::Page};

use super::{
    Api,
    auth::ReaderOf,
    extract::{Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(get_egress))
}

/// List what a sandbox reached for outside, newest first
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/egress", params(("id" = SandboxId, Path), Paging),
    responses((status = 200, body = Page<EgressRequest>)), tag = "sandboxes")]
async fn get_egress(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<EgressRequest>>> {
    let limit = paging.limit()?;
    let rows = api.store.egress_list(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |line| line.id.to_string()))
}
