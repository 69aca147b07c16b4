//! One open stream: what it is sent, from its first word to its last. It is told where it begins, and with every sign of life
//! how far it was looked through, so that whoever comes back misses nothing, whatever the filters let pass.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::ws::{CloseFrame, Message, WebSocket},
    response::sse::Event,
};
use futures_util::{SinkExt, StreamExt};
use omoi_protocol::live::{LiveSign, Subscribe};
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::{Interval, interval, timeout},
};

use super::filter::Filter;
use crate::{
    bus::{Live, Viewer},
    http::{Api, Watched},
};

/// How many events go out in one write.
const BATCH: usize = 256;
/// How long a reader that does not read is offered the reason why it is cut off.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(1);

pub type Batch = Vec<Result<Event, Infallible>>;

pub struct Watch {
    pub viewer: Viewer,
    pub filter: Filter,
    pub token: Watched,
    pub api: Api,
    pub _seat: OwnedSemaphorePermit,
}

/// Why a stream ends while its reader is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    Unauthorized,
    TokenEnded,
    TooSlow,
    DatabaseAway,
    Stopping,
}

impl Goodbye {
    /// As a WebSocket is closed with.
    fn code(self) -> u16 {
        match self {
            Self::Stopping => 1001,
            Self::DatabaseAway => 1013,
            Self::Unauthorized | Self::TokenEnded => 4401,
            Self::TooSlow => 4408,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Unauthorized => "a valid token is needed",
            Self::TokenEnded => "the token has ended",
            Self::TooSlow => "too slow; come back with since",
            Self::DatabaseAway => "the database does not answer; come back with since",
            Self::Stopping => "the server is stopping",
        }
    }

    pub fn frame(self) -> Message {
        Message::Close(Some(CloseFrame { code: self.code(), reason: self.reason().into() }))
    }

    pub fn event(self) -> Event {
        let bye = LiveSign::Bye { code: self.code(), reason: self.reason().to_owned() };
        Event::default().event("bye").data(text(&bye))
    }
}

impl Watch {
    /// Feeds a stream of server-sent events until its reader leaves or is sent away; the reason comes behind all else.
    pub async fn feed(mut self, batches: mpsc::Sender<Batch>, last: oneshot::Sender<Goodbye>) {
        if let Some(goodbye) = self.feed_on(&batches).await {
            let _ = last.send(goodbye);
        }
    }

    async fn feed_on(&mut self, batches: &mpsc::Sender<Batch>) -> Option<Goodbye> {
        let mut ping = self.pings();
        let position = self.viewer.position();
        let hello = text(&LiveSign::Hello { position });
        let mut events = vec![Ok(Event::default().event("hello").id(position.to_string()).data(hello))];
        loop {
            if !events.is_empty() {
                let sent = timeout(self.api.live.viewer_stall_timeout, batches.send(events));
                let sent = tokio::select! {
                    biased;
                    () = self.token.ended() => return Some(Goodbye::TokenEnded),
                    sent = sent => sent,
                };
                match sent {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return None,
                    Err(_) => return Some(self.dropped()),
                }
            }
            events = tokio::select! {
                () = self.token.ended() => return Some(Goodbye::TokenEnded),
                () = batches.closed() => return None,
                () = self.api.stop.cancelled() => return Some(Goodbye::Stopping),
                rows = self.viewer.next(BATCH) => match rows {
                    Ok(rows) => rows.iter().filter(|row| self.filter.wants(row)).map(sse).collect(),
                    Err(_) => return Some(Goodbye::DatabaseAway),
                },
                _ = ping.tick() => {
                    // A browser keeps the id of an event without data, and shows nobody the event.
                    vec![Ok(Event::default().comment("ping").id(self.viewer.position().to_string()))]
                }
            };
        }
    }

    pub async fn run(mut self, socket: WebSocket) {
        let (mut out, mut from) = socket.split();
        let mut ping = self.pings();
        // Pages of the earlier system take every frame for an event but a ping, so their first frame is one.
        let mut messages = vec![sign(&LiveSign::Ping { position: self.viewer.position() })];
        let goodbye = loop {
            let sent = timeout(self.api.live.viewer_stall_timeout, async {
                for message in messages {
                    out.feed(message).await?;
                }
                out.flush().await
            });
            let sent = tokio::select! {
                biased;
                () = self.token.ended() => break Some(Goodbye::TokenEnded),
                sent = sent => sent,
            };
            match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => break None,
                Err(_) => break Some(self.dropped()),
            }
            messages = tokio::select! {
                () = self.token.ended() => break Some(Goodbye::TokenEnded),
                () = self.api.stop.cancelled() => break Some(Goodbye::Stopping),
                rows = self.viewer.next(BATCH) => match rows {
                    Ok(rows) => rows
                        .iter()
                        .filter(|row| self.filter.wants(row))
                        .map(|row| Message::Text(row.frame().clone()))
                        .collect(),
                    Err(_) => break Some(Goodbye::DatabaseAway),
                },
                said = from.next() => match said {
                    Some(Ok(Message::Text(text))) => vec![self.hear(&text)],
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
                    Some(Ok(_)) => Vec::new(),
                },
                _ = ping.tick() => vec![sign(&LiveSign::Ping { position: self.viewer.position() })],
            };
        };
        if let Some(goodbye) = goodbye {
            // One that does not read does not hear it either.
            let _ = timeout(GOODBYE_PATIENCE, out.send(goodbye.frame())).await;
        }
    }

    fn hear(&mut self, text: &str) -> Message {
        let answer = match serde_json::from_str::<Subscribe>(text) {
            Ok(said) if said.kind == "subscribe" => match Filter::said(said) {
                Ok(filter) => {
                    self.filter = filter;
                    json!({ "status": "subscribed", "filters": self.filter })
                }
                Err(refused) => json!({ "error": refused.to_string() }),
            },
            Ok(said) if said.kind == "ping" => json!({ "type": "pong" }),
            Ok(said) if said.kind == "pong" => json!({ "type": "ok" }),
            Ok(_) => json!({ "error": "say {\"type\":\"subscribe\"} with filters" }),
            Err(_) => json!({ "error": "Invalid JSON message" }),
        };
        Message::text(answer.to_string())
    }

    fn pings(&self) -> Interval {
        let mut pings = interval(self.api.live.ping_interval);
        pings.reset();
        pings
    }

    fn dropped(&self) -> Goodbye {
        metrics::counter!("omoi_live_viewers_dropped_total").increment(1);
        tracing::info!(position = self.viewer.position(), "dropped a viewer that does not read");
        Goodbye::TooSlow
    }
}

fn sse(row: &Arc<Live>) -> Result<Event, Infallible> {
    Ok(Event::default().id(row.entry.pos.to_string()).data(row.frame().as_str()))
}

fn sign(sign: &LiveSign) -> Message {
    Message::text(text(sign))
}

fn text(sign: &LiveSign) -> String {
    serde_json::to_string(sign).unwrap_or_default()
}
