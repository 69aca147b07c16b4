//! Agents that attach from outside.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use omoi_protocol::{
    AgentId,
    agent::{Agent, Claim, Heartbeat, HeartbeatAck, NewAgent},
    page::Page,
};

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get_one))
        .routes(routes!(heartbeat))
        .routes(routes!(claim))
}

/// List attached agents, newest first
#[utoipa::path(get, path = "/api/v1/agents", params(Paging), responses((status = 200, body = Page<Agent>)), tag = "agents")]
async fn list(
    State(api): State<Api>,
    _: Viewer,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Agent>>> {
    let limit = paging.limit()?;
    let rows = api.store.agent_list(paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |agent| agent.id.to_string()))
}

/// Register an agent
#[utoipa::path(post, path = "/api/v1/agents", request_body = NewAgent, responses((status = 201, body = Agent)), tag = "agents")]
async fn create(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<NewAgent>,
) -> ApiResult<(StatusCode, Answer<Agent>)> {
    Ok((StatusCode::CREATED, Answer(api.store.agent_create(who.name(), new).await?)))
}

/// Show an agent
#[utoipa::path(get, path = "/api/v1/agents/{id}", params(("id" = AgentId, Path)), responses((status = 200, body = Agent)), tag = "agents")]
async fn get_one(State(api): State<Api>, _: Viewer, Path(id): Path<AgentId>) -> ApiResult<Answer<Agent>> {
    Ok(Answer(api.store.agent_get(&id).await?))
}

/// Report a sign of life
#[utoipa::path(post, path = "/api/v1/agents/{id}/heartbeat", params(("id" = AgentId, Path)), request_body = Heartbeat,
    responses((status = 200, body = HeartbeatAck)), tag = "agents")]
async fn heartbeat(
    State(api): State<Api>,
    _: Operator,
    Path(id): Path<AgentId>,
    Json(beat): Json<Heartbeat>,
) -> ApiResult<Answer<HeartbeatAck>> {
    Ok(Answer(api.store.agent_heartbeat(&id, beat).await?))
}

/// Claim the best task that the agent can do
///
/// The claim is a sandbox of provider `external`; its token is in the answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/agents/{id}/claim", params(("id" = AgentId, Path)),
    responses((status = 200, body = Claim), (status = 204, description = "Nothing to do")), tag = "agents")]
async fn claim(State(api): State<Api>, _: Operator, Path(id): Path<AgentId>) -> ApiResult<Response> {
    Ok(match api.store.task_claim_next(&id).await? {
        Some(claim) => Answer(claim).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}
