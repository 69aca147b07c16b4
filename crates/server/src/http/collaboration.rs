//! What agents of one project say to each other.

use axum::{Json as Answer, extract::State};
use omoi_protocol::{
    MessageState, SandboxId,
    collaboration::{NewTelling, Peer},
    message::MessageQueued,
};

use super::{
    Api,
    auth::{ReaderOf, SandboxItself},
    extract::{Json, Path},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(tell, peers))
}

/// Say something to another agent of the same project
///
/// Only the sandbox itself may, to exactly one other that is at work, and as far as the project's setting
/// `collaboration` allows (`off`, `related`, `project`).
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/peers", params(("id" = SandboxId, Path)), request_body = NewTelling,
    responses((status = 200, body = MessageQueued)), tag = "messages")]
async fn tell(
    State(api): State<Api>,
    who: SandboxItself,
    Path(id): Path<SandboxId>,
    Json(new): Json<NewTelling>,
) -> ApiResult<Answer<MessageQueued>> {
    let to = new.to_sandbox_id.clone();
    let sent = api.store.collaboration_tell(&id, new).await.map_err(|error| who.refused(error))?;
    Ok(Answer(MessageQueued { status: MessageState::Queued, message_id: sent.id, sandbox_id: to }))
}

/// List the agents that a sandbox may speak to
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/peers", params(("id" = SandboxId, Path)),
    responses((status = 200, body = Vec<Peer>)), tag = "messages")]
async fn peers(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
) -> ApiResult<Answer<Vec<Peer>>> {
    Ok(Answer(api.store.collaboration_peers(&id).await?))
}
