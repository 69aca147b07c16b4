//! The audit trail: who did what and when, and whether the chain of its lines is whole.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    page::Page,
    token::{AuditEntry, AuditVerdict},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::Admin,
    extract::Query,
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};
use crate::store::AuditFilter;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list_audit)).routes(routes!(verify_audit))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// The name of who did it.
    actor: Option<String>,
    /// Such as `task.cancel`.
    action: Option<String>,
    /// Such as `task`.
    entity_type: Option<String>,
    entity_id: Option<String>,
}

/// List the audit trail, newest first
#[utoipa::path(get, path = "/api/v1/audit", params(AuditQuery, Paging), responses((status = 200, body = Page<AuditEntry>)), tag = "audit")]
async fn list_audit(
    State(api): State<Api>,
    _: Admin,
    Query(query): Query<AuditQuery>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<AuditEntry>>> {
    let limit = paging.limit()?;
    let AuditQuery { actor, action, entity_type, entity_id } = query;
    let filter = AuditFilter { actor, action, entity_type, entity_id };
    let rows = api.store.audit_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |entry| entry.n.to_string()))
}

/// Follow the chain of hashes from its first line, to the last that this server has recorded
#[utoipa::path(get, path = "/api/v1/audit/verify", responses((status = 200, body = AuditVerdict)), tag = "audit")]
async fn verify_audit(State(api): State<Api>, _: Admin) -> ApiResult<Answer<AuditVerdict>> {
    Ok(Answer(api.store.audit_verify(None).await?))
}
