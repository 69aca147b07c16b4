//! Those who watch: a WebSocket and an event stream, each read one event at a time.

use futures_util::{SinkExt, StreamExt};
use reqwest::StatusCode;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest, handshake::client::Request},
};

use crate::app::{Answer, App, soon};

pub struct Viewer(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What a viewer was told last.
#[derive(Debug, PartialEq)]
pub enum Said {
    Json(Value),
    Closed(u16),
    /// The connection ended without a word.
    Gone,
}

impl App {
    /// The last position in the order of everything.
    pub async fn position(&self) -> i64 {
        self.store().event_last_position().await.unwrap()
    }

    /// A viewer on a WebSocket, of what happens from here on.
    pub async fn watch(&self, filters: &str) -> Viewer {
        let since = self.position().await;
        self.watch_since(since, filters).await
    }

    pub async fn watch_since(&self, since: i64, filters: &str) -> Viewer {
        self.try_watch(&self.token, &format!("since={since}&{filters}")).await.unwrap()
    }

    /// A viewer, or the answer of a server that wants none.
    pub async fn try_watch(&self, token: &str, query: &str) -> Result<Viewer, Answer> {
        match soon(connect_async(self.handshake(token, query))).await {
            Ok((socket, _)) => Ok(Viewer(socket)),
            Err(Error::Http(refused)) => {
                let (parts, body) = refused.into_parts();
                let body = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
                let status = StatusCode::from_u16(parts.status.as_u16()).unwrap();
                Err(Answer { status, body, headers: parts.headers })
            }
            Err(error) => panic!("no WebSocket: {error}"),
        }
    }

    pub fn handshake(&self, token: &str, query: &str) -> Request {
        let url = format!("{}/api/v1/ws/events?{query}", self.base.replace("http", "ws"));
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        request
    }

    pub async fn stream_since(&self, since: i64, filters: &str) -> Stream {
        self.open_stream(&format!("since={since}&{filters}"), &[]).await
    }

    /// A viewer of server-sent events.
    pub async fn open_stream(&self, query: &str, headers: &[(&str, &str)]) -> Stream {
        self.open_stream_by(&self.token, query, headers).await
    }

    pub async fn open_stream_by(&self, token: &str, query: &str, headers: &[(&str, &str)]) -> Stream {
        let mut request = self.http.get(format!("{}/api/v1/stream?{query}", self.base)).bearer_auth(token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = soon(request.send()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream { response, bytes: Vec::new() }
    }
}

impl Viewer {
    pub async fn hear(&mut self) -> Said {
        loop {
            match soon(self.0.next()).await {
                Some(Ok(Message::Text(text))) => return Said::Json(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(frame)))) => return Said::Closed(frame.code.into()),
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Said::Gone,
                Some(Ok(_)) => {}
            }
        }
    }

    /// How the connection ends; what comes before does not matter.
    pub async fn hear_last(&mut self) -> Said {
        loop {
            match self.hear().await {
                Said::Json(_) => {}
                ended => return ended,
            }
        }
    }

    /// The position in the next sign of this type, with nothing else before it.
    pub async fn sign(&mut self, kind: &str) -> i64 {
        match self.hear().await {
            Said::Json(sign) if sign["type"] == kind => sign["position"].as_i64().unwrap(),
            other => panic!("{other:?} instead of {kind}"),
        }
    }

    /// The next thing that is not a sign of life.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.hear().await {
                Said::Json(sign) if sign["type"] == "ping" => {}
                Said::Json(said) => return said,
                ended => panic!("the stream has ended: {ended:?}"),
            }
        }
    }

    pub async fn take(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::with_capacity(count);
        for _ in 0..count {
            events.push(self.next().await);
        }
        events
    }

    /// Everything before the first event of this type.
    pub async fn until(&mut self, event_type: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            if event["event_type"] == event_type {
                return events;
            }
            events.push(event);
        }
    }

    pub async fn say(&mut self, what: &str) {
        soon(self.0.send(Message::text(what.to_owned()))).await.unwrap();
    }
}

pub struct Stream {
    response: reqwest::Response,
    bytes: Vec<u8>,
}

/// A server-sent event as it is written.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// Empty for what is not named.
    pub event: String,
    pub id: Option<i64>,
    pub data: Value,
}

impl Stream {
    /// The next block of lines; nothing once the stream has ended.
    pub async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let block = String::from_utf8(block).unwrap();
                let field = |name| block.lines().find_map(|line| line.strip_prefix(name));
                return Some(Block {
                    event: field("event: ").unwrap_or_default().to_owned(),
                    id: field("id: ").map(|id| id.parse().unwrap()),
                    data: field("data: ").map_or(Value::Null, |data| serde_json::from_str(data).unwrap()),
                });
            }
            let chunk = soon(self.response.chunk()).await.ok().flatten()?;
            self.bytes.extend_from_slice(&chunk);
        }
    }

    /// The code that the stream ends with, if it says why; what comes before it does not matter.
    pub async fn end(&mut self) -> Option<u64> {
        let mut code = None;
        while let Some(block) = self.block().await {
            assert_eq!(code, None, "the last word is the last");
            code = (block.event == "bye").then(|| block.data["code"].as_u64().unwrap());
        }
        code
    }

    pub async fn next(&mut self) -> Value {
        loop {
            let Block { event, id, data } = self.block().await.expect("the stream goes on");
            // Named ones and those without data are signs of life.
            if event.is_empty() && !data.is_null() {
                assert_eq!(data["position"].as_i64(), id, "the id of a server-sent event is its position");
                return data;
            }
        }
    }

    pub async fn take(&mut self, count: usize) -> Vec<Value> {
        let mut events = Vec::with_capacity(count);
        for _ in 0..count {
            events.push(self.next().await);
        }
        events
    }
}

pub fn positions(events: &[Value]) -> Vec<i64> {
    events.iter().map(|event| event["position"].as_i64().unwrap()).collect()
}
