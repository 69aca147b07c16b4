//! Messages to a worker: queued by people and Guardian, taken by the worker, answered for.

use std::{ops::Deref, time::Duration};

use axum::{
    Json as Answer,
    extract::{FromRequestParts, State},
    http::{HeaderMap, Method, StatusCode, request::Parts},
};
use omoi_protocol::{
    MessageId, MessageState, SandboxId,
    message::{Message, MessageHandedOut, MessageQueued, MessageReport, NewMessage},
};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::{
    Api, Watched,
    auth::{Caller, Operator, Secret, WorkerOf, admit, path_id},
    check,
    extract::{Json, Path, Query},
    page, parameters,
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
    session,
};

/// A long poll looks again this often by itself: a message whose delivery was not confirmed comes due in silence.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

pub fn routes() -> Routes {
    Routes::new().routes(routes!(queue, take)).routes(routes!(report))
}

/// Queue a message for the worker
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/messages", params(("id" = SandboxId, Path)), request_body = NewMessage,
    responses((status = 200, body = MessageQueued)), tag = "messages")]
async fn queue(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
    Json(new): Json<NewMessage>,
) -> ApiResult<Answer<MessageQueued>> {
    let sender = who.name();
    let limit = api.limits.message_bytes_max;
    if new.content.len() > limit {
        let detail = format!("content has {} bytes; {limit} are allowed", new.content.len());
        return Err(ApiError::too_large("message_too_large", detail));
    }
    let message = api.store.message_queue(sender, &id, new).await?;
    Ok(Answer(MessageQueued { status: MessageState::Queued, message_id: message.id, sandbox_id: id }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Taking {
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<i64>,
    /// Seconds to wait for a message when there is none.
    #[param(minimum = 0, maximum = 600)]
    wait: Option<i64>,
    /// Lists all messages with their states, newest first, and hands nothing out.
    history: Option<bool>,
    /// With `history`: the last message of the page before.
    cursor: Option<MessageId>,
}

admit! {
    /// A caller who may look at the messages of a sandbox, or who may take them. To take is to change, whatever the method is
    /// called.
    Taker: |who, parts| {
        let id = path_id(parts).await;
        match parameters::value(parts, "history").as_deref() {
            Some("true") => who.reader_of(&id),
            _ => who.worker_of(&id).and_then(|()| session::may_change(&parts.headers)),
        }
    };
}

/// Take messages, oldest first
///
/// Handing out marks a message `delivered`. It is offered again until the worker reports it `injected`. As this changes
/// something, a session's cookie needs the header `X-Omoi-Csrf: 1` here too, unless `history` is asked for.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/messages", params(("id" = SandboxId, Path), Taking),
    responses(
        (status = 200, body = Vec<MessageHandedOut>),
        (status = 507, body = omoi_protocol::problem::Problem, content_type = "application/problem+json",
            description = "The disk is full; try again once there is room"),
    ), tag = "messages")]
async fn take(
    State(api): State<Api>,
    _: Taker,
    method: Method,
    headers: HeaderMap,
    Path(id): Path<SandboxId>,
    Query(query): Query<Taking>,
) -> ApiResult<Answer<Vec<MessageHandedOut>>> {
    let limit = page::limit(query.limit, 100, 500)?;
    check::range("wait", query.wait, 0, 600).map_err(|why| ApiError::invalid("validation_failed", why))?;
    if query.history == Some(true) {
        return Ok(handed_out(api.store.message_list(&id, query.cursor, limit).await?));
    }
    if method == Method::HEAD {
        let detail = "messages are taken with GET; add history=true to look at them";
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail));
    }
    let wait = Duration::from_secs(query.wait.unwrap_or(0).unsigned_abs()).min(api.long_poll_max);
    let until = Instant::now() + wait;
    let queued = api.bus.messages_for(&id);
    // A call that does not wait was checked a moment ago.
    let token = Secret::of(&headers).filter(|_| !wait.is_zero()).map(|secret| api.watch(&secret));
    let mut told = false;
    loop {
        // Listening begins before looking, so that a message in between is not missed.
        let mut woken = std::pin::pin!(queued.notified());
        woken.as_mut().enable();
        let messages = if told || api.store.message_waiting(&id).await? {
            api.store.message_deliver(&id, limit).await?
        } else {
            Vec::new()
        };
        let now = Instant::now();
        if !messages.is_empty() || now >= until || api.stop.is_cancelled() {
            return Ok(handed_out(messages));
        }
        told = tokio::select! {
            () = woken => true,
            () = ended(token.as_ref()) => return Err(Watched::refusal()),
            () = api.stop.cancelled() => false,
            () = tokio::time::sleep_until(until.min(now + LOOK_AGAIN)) => false,
        };
    }
}

fn handed_out(messages: Vec<Message>) -> Answer<Vec<MessageHandedOut>> {
    Answer(messages.into_iter().map(MessageHandedOut::from).collect())
}

async fn ended(token: Option<&Watched>) {
    match token {
        Some(token) => token.ended().await,
        None => std::future::pending().await,
    }
}

/// Report what became of a message
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/messages/{message_id}/ack", params(("id" = SandboxId, Path), ("message_id" = MessageId, Path)),
    request_body = MessageReport, responses((status = 200, body = MessageHandedOut)), tag = "messages")]
async fn report(
    State(api): State<Api>,
    who: WorkerOf,
    Path((id, message)): Path<(SandboxId, MessageId)>,
    Json(said): Json<MessageReport>,
) -> ApiResult<Answer<MessageHandedOut>> {
    let reported = api.store.message_report(&id, &message, said.state).await;
    reported.map(|message| Answer(message.into())).map_err(|error| who.refused(error))
}
