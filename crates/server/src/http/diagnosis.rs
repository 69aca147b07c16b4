//! Why tickets cannot go on, and what a person decides about it.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    DiagnosisId, DiagnosisState, ProjectId, TicketId,
    diagnosis::{Acceptance, Diagnosis},
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};
use crate::store::DiagnosisFilter;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_diagnoses))
        .routes(routes!(diagnose))
        .routes(routes!(get_diagnosis))
        .routes(routes!(accept_diagnosis))
        .routes(routes!(dismiss_diagnosis))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    project_id: Option<ProjectId>,
    ticket_id: Option<TicketId>,
    state: Option<DiagnosisState>,
}

/// List diagnoses, newest first
#[utoipa::path(get, path = "/api/v1/diagnoses", params(Filter, Paging),
    responses((status = 200, body = Page<Diagnosis>)), tag = "guardian")]
async fn list_diagnoses(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Diagnosis>>> {
    let limit = paging.limit()?;
    let Filter { project_id, ticket_id, state } = filter;
    let filter = DiagnosisFilter { project_id, ticket_id, state };
    let rows = api.store.diagnosis_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |found| found.id.to_string()))
}

/// Diagnose a ticket now
///
/// A ticket that cannot go on is diagnosed by itself a minute after its last change; this does not wait.
#[utoipa::path(post, path = "/api/v1/tickets/{id}/diagnose", params(("id" = TicketId, Path)),
    responses((status = 200, body = Diagnosis)), tag = "guardian")]
async fn diagnose(
    State(api): State<Api>,
    _: Operator,
    Path(id): Path<TicketId>,
) -> ApiResult<Answer<Diagnosis>> {
    Ok(Answer(api.store.diagnosis_now(&id).await?))
}

/// Show a diagnosis
#[utoipa::path(get, path = "/api/v1/diagnoses/{id}", params(("id" = DiagnosisId, Path)),
    responses((status = 200, body = Diagnosis)), tag = "guardian")]
async fn get_diagnosis(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<DiagnosisId>,
) -> ApiResult<Answer<Diagnosis>> {
    Ok(Answer(api.store.diagnosis_get(&id).await?))
}

/// Do what a diagnosis proposes, all of it or what is named
#[utoipa::path(post, path = "/api/v1/diagnoses/{id}/accept", params(("id" = DiagnosisId, Path)), request_body = Acceptance,
    responses((status = 200, body = Diagnosis)), tag = "guardian")]
async fn accept_diagnosis(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<DiagnosisId>,
    Json(acceptance): Json<Acceptance>,
) -> ApiResult<Answer<Diagnosis>> {
    Ok(Answer(api.store.diagnosis_accept(who.name(), &id, acceptance).await?))
}

/// Dismiss a diagnosis
#[utoipa::path(post, path = "/api/v1/diagnoses/{id}/dismiss", params(("id" = DiagnosisId, Path)),
    responses((status = 200, body = Diagnosis)), tag = "guardian")]
async fn dismiss_diagnosis(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<DiagnosisId>,
) -> ApiResult<Answer<Diagnosis>> {
    Ok(Answer(api.store.diagnosis_dismiss(who.name(), &id).await?))
}
