//! The live stream, as WebSocket and as server-sent events: stored events from a position on, without gap or repeat.

mod filter;
mod watch;

use std::time::Duration;

use axum::{
    extract::{
        FromRequestParts, Request, State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response, sse::Sse},
};
use futures_util::{StreamExt, stream};
use omoi_protocol::live::LiveEvent;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use utoipa::IntoParams;

use super::{
    Api, Watched,
    auth::{Caller, Secret},
    extract::Query,
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
    session,
};
use crate::bus::Viewer;
use filter::Filter;
use watch::{Batch, Goodbye, Watch};

/// Words in the filters of one stream, all lists together.
const WORDS_MAX: usize = 256;
/// What a viewer may say at once.
const SAID_BYTES_MAX: usize = 64 * 1024;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(ws_events)).routes(routes!(stream_events))
}

/// Lists separated by commas; one of each list must fit.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct LiveQuery {
    event_types: Option<String>,
    entity_types: Option<String>,
    entity_ids: Option<String>,
    /// The last position that was seen; absent: from now on.
    #[param(minimum = 0)]
    since: Option<i64>,
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Named {
    /// For pages of the earlier system, whose WebSocket cannot send a header.
    token: Option<String>,
}

fn filter(query: &LiveQuery) -> ApiResult<Filter> {
    Filter::asked(query).map_err(|refused| ApiError::invalid("filter_too_long", refused.to_string()))
}

/// Where to begin. A position that no store has given out belongs to another one.
async fn viewer(api: &Api, since: Option<i64>) -> ApiResult<Viewer> {
    if let Some(since) = since {
        let last = api.store.event_last_position().await?;
        if since < 0 || since > last {
            let detail = format!("position {since} is not one of this store, whose last is {last}");
            return Err(ApiError::invalid("position_unknown", detail));
        }
    }
    Ok(api.bus.view(since, api.store.clone()))
}

fn seat(api: &Api) -> ApiResult<OwnedSemaphorePermit> {
    api.viewers.clone().try_acquire_owned().map_err(|_| {
        let detail = "as many live streams are open as limits.viewers_max allows";
        ApiError::too_many("viewers_full", detail, Duration::from_secs(5))
    })
}

/// Follow events as server-sent events
///
/// `id:` is the position; `Last-Event-ID` resumes behind it. The first event is `hello`, whose id is where the stream begins; an
/// `id:` without data says how far it has come; `bye` says why it ends.
#[utoipa::path(get, path = "/api/v1/stream", params(LiveQuery),
    responses((status = 200, body = LiveEvent, content_type = "text/event-stream")), tag = "live")]
async fn stream_events(
    State(api): State<Api>,
    who: Caller,
    headers: HeaderMap,
    Query(query): Query<LiveQuery>,
) -> ApiResult<Response> {
    who.viewer()?;
    let resumed = match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
        Some(id) => Some(
            id.parse().map_err(|_| ApiError::invalid("position_unknown", "Last-Event-ID is a position"))?,
        ),
        None => query.since,
    };
    let filter = filter(&query)?;
    let seat = seat(&api)?;
    let viewer = viewer(&api, resumed).await?;
    let (batches, taken) = mpsc::channel(1);
    let (last, goodbye) = oneshot::channel();
    let Some(secret) = Secret::of(&headers) else { return Err(Watched::refusal()) };
    let token = api.watch(&secret);
    let (ended, has_ended) = (token.clone(), token.clone());
    tokio::spawn(Watch { viewer, filter, token, api, _seat: seat }.feed(batches, last));
    let events = stream::unfold(taken, async |mut taken| {
        let batch: Batch = taken.recv().await?;
        Some((stream::iter(batch), taken))
    });
    // What still waits for the reader when the token ends is not sent.
    let events = events.flatten().take_until(async move { ended.ended().await });
    let bye = stream::once(async move {
        if has_ended.has_ended() {
            return Some(Ok(Goodbye::TokenEnded.event()));
        }
        Some(Ok(goodbye.await.ok()?.event()))
    });
    let bye = bye.filter_map(std::future::ready);
    Ok(Sse::new(events.chain(bye)).into_response())
}

/// Follow events on a WebSocket
///
/// Text frames, one event each. `{"type":"ping","position":N}` says how far the stream has come: the first frame is one, and says
/// where the stream begins. `{"type":"subscribe", …}` changes the filters.
#[utoipa::path(get, path = "/api/v1/ws/events", params(LiveQuery, Named), responses((status = 101)), tag = "live")]
async fn ws_events(
    State(api): State<Api>,
    Query(query): Query<LiveQuery>,
    request: Request,
) -> ApiResult<Response> {
    let (mut parts, _) = request.into_parts();
    // The one secret that a query may bring.
    let named: Named = axum::extract::Query::try_from_uri(&parts.uri)
        .map(|axum::extract::Query(named)| named)
        .map_err(|bad| ApiError::invalid("invalid_query", bad.body_text()))?;
    let named = named.token.map(Secret::Token);
    let secret = if parts.headers.contains_key(header::AUTHORIZATION) {
        Secret::of(&parts.headers).or(named)
    } else {
        named.or_else(|| Secret::of(&parts.headers))
    };
    if let Some(Secret::Session(_)) = secret {
        session::from_own_page(&parts)?;
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &api)
        .await
        .map_err(|bad| ApiError::new(StatusCode::BAD_REQUEST, "not_a_websocket", bad.body_text()))?
        .max_message_size(SAID_BYTES_MAX)
        .max_frame_size(SAID_BYTES_MAX);
    let entered = api.enter(&parts.extensions, secret.clone()).await;
    match entered.and_then(|bearer| Caller::new(bearer).viewer().map(|_| ())) {
        Ok(()) => {}
        Err(refused) if refused.blames_the_token() => {
            return Ok(upgrade.on_upgrade(async move |socket| turn_away(socket, refused.detail()).await));
        }
        Err(passing) => return Err(passing),
    }
    let filter = filter(&query)?;
    let seat = seat(&api)?;
    let viewer = viewer(&api, query.since).await?;
    let Some(secret) = secret else { return Err(Watched::refusal()) };
    let token = api.watch(&secret);
    let watch = Watch { viewer, filter, token, api, _seat: seat };
    Ok(upgrade.on_upgrade(async move |socket| watch.run(socket).await))
}

async fn turn_away(mut socket: WebSocket, detail: &str) {
    let _ = socket.send(Message::text(json!({ "error": detail }).to_string())).await;
    let _ = socket.send(Goodbye::Unauthorized.frame()).await;
}
