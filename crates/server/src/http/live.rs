//! The live stream, as WebSocket and as server-sent events: stored events from a position on, without gap or repeat.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts, Request, State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade},
    },
    http::{HeaderMap, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{SinkExt, StreamExt, stream};
use omoi_protocol::live::{LiveEvent, Subscribe};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Caller, Secret},
    extract::Query,
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
    session,
};
use crate::bus::{Live, Viewer};

/// How many events go out in one write.
const BATCH: usize = 256;
const UNAUTHORIZED: u16 = 4401;
const TOO_SLOW: u16 = 4408;
const GOING_AWAY: u16 = 1001;
const TRY_AGAIN: u16 = 1013;

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
    /// For pages of the earlier system, whose WebSocket cannot send a header.
    token: Option<String>,
}

#[derive(Debug, Default, Clone)]
struct Filter {
    event_types: Option<Vec<String>>,
    entity_types: Option<Vec<String>>,
    entity_ids: Option<Vec<String>>,
}

impl Filter {
    fn new(query: &LiveQuery) -> Self {
        let list = |text: &Option<String>| {
            text.as_ref().map(|text| {
                text.split(',').map(|word| word.trim().to_owned()).filter(|w| !w.is_empty()).collect()
            })
        };
        Self {
            event_types: list(&query.event_types),
            entity_types: list(&query.entity_types),
            entity_ids: list(&query.entity_ids),
        }
    }

    fn wants(&self, row: &Live) -> bool {
        let one = |list: &Option<Vec<String>>, word: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|w| w == word))
        };
        one(&self.entity_types, &row.entry.entity_type)
            && one(&self.entity_ids, &row.entry.entity_id)
            && (self.event_types.is_none() || one(&self.event_types, &row.event_type()))
    }
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
/// `id:` is the position; `Last-Event-ID` resumes behind it.
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
    let seat = seat(&api)?;
    let viewer = viewer(&api, resumed).await?;
    let every = api.live.ping_interval;
    let secret = Secret::of(&headers);
    let (batches, taken) = mpsc::channel(1);
    tokio::spawn(Session { viewer, filter: Filter::new(&query), secret, api, _seat: seat }.feed(batches));
    let events = stream::unfold(taken, async |mut taken| {
        let batch: Vec<_> = taken.recv().await?;
        Some((stream::iter(batch), taken))
    });
    Ok(Sse::new(events.flatten()).keep_alive(KeepAlive::new().interval(every)).into_response())
}

fn sse(row: &Arc<Live>) -> Result<Event, Infallible> {
    Ok(Event::default().id(row.entry.pos.to_string()).data(row.frame().as_str()))
}

/// Follow events on a WebSocket
///
/// Text frames, one event each. `{"type":"subscribe", …}` changes the filters.
#[utoipa::path(get, path = "/api/v1/ws/events", params(LiveQuery), responses((status = 101)), tag = "live")]
async fn ws_events(
    State(api): State<Api>,
    Query(query): Query<LiveQuery>,
    request: Request,
) -> ApiResult<Response> {
    let (mut parts, _) = request.into_parts();
    let named = query.token.clone().map(Secret::Token);
    let secret = if parts.headers.contains_key(header::AUTHORIZATION) {
        Secret::of(&parts.headers).or(named)
    } else {
        named.or_else(|| Secret::of(&parts.headers))
    };
    if let Some(Secret::Session(_)) = secret {
        session::from_own_page(&parts)?;
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &api).await.map_err(|bad| {
        ApiError::new(axum::http::StatusCode::BAD_REQUEST, "not_a_websocket", bad.body_text())
    })?;
    let entered = api.enter(&parts.extensions, secret.clone()).await;
    match entered.and_then(|bearer| Caller::new(bearer).viewer().map(|_| ())) {
        Ok(()) => {}
        Err(refused) if refused.blames_the_token() => {
            return Ok(upgrade.on_upgrade(async move |socket| turn_away(socket, refused.detail()).await));
        }
        Err(passing) => return Err(passing),
    }
    let seat = seat(&api)?;
    let viewer = viewer(&api, query.since).await?;
    let session = Session { viewer, filter: Filter::new(&query), secret, api, _seat: seat };
    Ok(upgrade.on_upgrade(async move |socket| session.run(socket).await))
}

async fn turn_away(mut socket: WebSocket, detail: &str) {
    let _ = socket.send(Message::text(json!({ "error": detail }).to_string())).await;
    let _ = socket.send(close(UNAUTHORIZED, "a valid token is needed")).await;
}

fn close(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: reason.to_owned().into() }))
}

struct Session {
    viewer: Viewer,
    filter: Filter,
    secret: Option<Secret>,
    api: Api,
    _seat: OwnedSemaphorePermit,
}

impl Session {
    /// Feeds a stream of server-sent events until its reader leaves, or does not read: that one may come back too.
    async fn feed(mut self, batches: mpsc::Sender<Vec<Result<Event, Infallible>>>) {
        let mut look = tokio::time::interval(self.api.live.ping_interval);
        loop {
            let rows = tokio::select! {
                rows = self.viewer.next(BATCH) => rows,
                _ = look.tick() => {
                    if self.is_unwelcome().await {
                        return;
                    }
                    continue;
                }
                () = batches.closed() => return,
                () = self.api.stop.cancelled() => return,
            };
            let Ok(rows) = rows else { return };
            let events: Vec<_> = rows.iter().filter(|row| self.filter.wants(row)).map(sse).collect();
            if events.is_empty() {
                continue;
            }
            match tokio::time::timeout(self.api.live.viewer_stall_timeout, batches.send(events)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => return self.dropped(),
            }
        }
    }

    /// Whether what opened the stream has ended since.
    async fn is_unwelcome(&self) -> bool {
        match &self.secret {
            Some(secret) => self.api.has_ended(secret).await,
            None => true,
        }
    }

    fn dropped(&self) {
        metrics::counter!("omoi_live_viewers_dropped_total").increment(1);
        tracing::info!(position = self.viewer.position(), "dropped a viewer that does not read");
    }

    async fn run(mut self, socket: WebSocket) {
        let (mut out, mut from) = socket.split();
        let stall = self.api.live.viewer_stall_timeout;
        let mut ping = tokio::time::interval(self.api.live.ping_interval);
        ping.reset();
        let goodbye = loop {
            let messages = tokio::select! {
                rows = self.viewer.next(BATCH) => match rows {
                    Ok(rows) => rows
                        .iter()
                        .filter(|row| self.filter.wants(row))
                        .map(|row| Message::Text(row.frame().clone()))
                        .collect(),
                    Err(_) => break Some(close(TRY_AGAIN, "the database does not answer; come back with since")),
                },
                said = from.next() => match said {
                    Some(Ok(Message::Text(text))) => vec![self.hear(&text)],
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
                    Some(Ok(_)) => continue,
                },
                _ = ping.tick() => {
                    if self.is_unwelcome().await {
                        break Some(close(UNAUTHORIZED, "the token has ended"));
                    }
                    vec![Message::text(r#"{"type":"ping"}"#)]
                }
                () = self.api.stop.cancelled() => break Some(close(GOING_AWAY, "the server is stopping")),
            };
            let sent = tokio::time::timeout(stall, async {
                for message in messages {
                    out.feed(message).await?;
                }
                out.flush().await
            });
            match sent.await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break None,
                Err(_) => {
                    self.dropped();
                    break Some(close(TOO_SLOW, "too slow; come back with since"));
                }
            }
        };
        if let Some(goodbye) = goodbye {
            // One that does not read does not hear it either.
            let _ = tokio::time::timeout(Duration::from_secs(1), out.send(goodbye)).await;
        }
    }

    fn hear(&mut self, text: &str) -> Message {
        let answer = match serde_json::from_str::<Subscribe>(text) {
            Ok(Subscribe { kind, event_types, entity_types, entity_ids }) if kind == "subscribe" => {
                self.filter = Filter { event_types, entity_types, entity_ids };
                json!({ "status": "subscribed", "filters": {
                    "event_types": self.filter.event_types,
                    "entity_types": self.filter.entity_types,
                    "entity_ids": self.filter.entity_ids,
                } })
            }
            Ok(Subscribe { kind, .. }) if kind == "ping" => json!({ "type": "pong" }),
            Ok(Subscribe { kind, .. }) if kind == "pong" => json!({ "type": "ok" }),
            Ok(_) => json!({ "error": "say {\"type\":\"subscribe\"} with filters" }),
            Err(_) => json!({ "error": "Invalid JSON message" }),
        };
        Message::text(answer.to_string())
    }
}
