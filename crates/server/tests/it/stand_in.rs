//! A model API on loopback in the place of the vendors': it keeps what it got and answers what the test says.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use omoi_server::config::Config;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::app::{Answer, App, Sandbox, answer};

pub const KEY: &str = "sk-ant-very-secret-0123456789";
pub const OPENAI_KEY: &str = "sk-openai-very-secret-0123456789";
/// A price list that makes sums easy: a USD per million tokens of input, ten of output.
pub const MODEL: &str = "test-model";

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Got {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

type Reply = Arc<dyn Fn(&Got) -> Response + Send + Sync>;

#[derive(Clone)]
pub struct StandIn(Arc<Inner>);

struct Inner {
    got: Mutex<Vec<Got>>,
    reply: Mutex<Reply>,
}

/// Puts a stand-in behind the server that is about to start.
pub fn behind(config: &mut Config) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let reply: Reply = Arc::new(|_| whole(200, message(10, 20)));
    let stand_in = StandIn(Arc::new(Inner { got: Mutex::default(), reply: Mutex::new(reply) }));
    let app = Router::new().fallback(take).with_state(stand_in.clone());
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    config.model.anthropic_base_url = format!("http://{address}/prefix");
    config.model.openai_base_url = format!("http://{address}/other/v1");
    config.model.anthropic_api_key = KEY.into();
    config.model.openai_api_key = OPENAI_KEY.into();
    config.model.prices = vec![format!("{MODEL}=1/10/0.1/2").parse().unwrap()];
    stand_ins().lock().unwrap().insert(config.model.anthropic_base_url.clone(), stand_in);
}

fn stand_ins() -> &'static Mutex<HashMap<String, StandIn>> {
    static ALL: OnceLock<Mutex<HashMap<String, StandIn>>> = OnceLock::new();
    ALL.get_or_init(Mutex::default)
}

async fn take(State(stand_in): State<StandIn>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let got = Got { path: parts.uri.to_string(), headers: parts.headers, body };
    stand_in.0.got.lock().unwrap().push(got.clone());
    let reply = stand_in.0.reply.lock().unwrap().clone();
    reply(&got)
}

impl StandIn {
    pub fn of(app: &App) -> Self {
        stand_ins().lock().unwrap()[&app.config.model.anthropic_base_url].clone()
    }

    pub fn replies(&self, reply: impl Fn(&Got) -> Response + Send + Sync + 'static) {
        *self.0.reply.lock().unwrap() = Arc::new(reply);
    }

    pub fn got(&self) -> Vec<Got> {
        self.0.got.lock().unwrap().clone()
    }

    /// Answers with a stream that the test feeds. The receiver gets a sender for each request; it is closed when the
    /// server has hung up.
    pub fn streams(&self) -> mpsc::Receiver<mpsc::Sender<Result<Bytes, std::io::Error>>> {
        let (feeds, fed) = mpsc::channel(64);
        self.replies(move |_| {
            let (feed, mut chunks) = mpsc::channel(64);
            feeds.try_send(feed).unwrap();
            let body = Body::from_stream(stream::poll_fn(move |cx| chunks.poll_recv(cx)));
            ([("content-type", "text/event-stream; charset=utf-8")], body).into_response()
        });
        fed
    }
}

pub fn whole(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

/// A whole answer of Anthropic's.
pub fn message(input: u64, output: u64) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": [{ "type": "text", "text": "Hello" }],
        "model": MODEL, "stop_reason": "end_turn",
        "usage": { "input_tokens": input, "output_tokens": output },
    })
}

/// A stream of Anthropic's, whole.
pub fn events(input: u64, output: u64) -> String {
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "type": "message", "model": MODEL,
        "usage": { "input_tokens": input, "output_tokens": 1, "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 50 } } });
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "Grüße" } });
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" },
        "usage": { "output_tokens": output } });
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    let stop = event(&json!({ "type": "message_stop" }));
    format!("{}{}{}{stop}", event(&start), event(&delta), event(&end))
}

pub fn hello() -> Value {
    json!({ "model": MODEL, "max_tokens": 1000, "messages": [{ "role": "user", "content": "hi" }] })
}

impl App {
    pub fn model_request(&self, token: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.post(format!("{}/model{path}", self.base)).header("x-api-key", token)
    }

    /// A call as the sandbox, read whole.
    pub async fn ask(&self, sandbox: &Sandbox, body: &Value) -> Answer {
        answer(self.model_request(&sandbox.token, "/anthropic/v1/messages").json(body)).await
    }

    pub async fn costs(&self, query: &str) -> Value {
        self.get(&format!("/api/v1/costs?{query}")).await.expect(200)
    }

    /// The newest call.
    pub async fn last_call(&self, sandbox: &Sandbox) -> Value {
        self.costs(&format!("sandbox_id={}", sandbox.id)).await["items"][0].clone()
    }

    /// Data of the sandbox's events of one type, oldest first.
    pub async fn events_of(&self, sandbox: &Sandbox, kind: &str) -> Vec<Value> {
        let page =
            self.get(&format!("/api/v1/sandboxes/{}/events?event_type={kind}", sandbox.id)).await.expect(200);
        let mut events = page["events"].as_array().unwrap().clone();
        events.reverse();
        events.iter().map(|event| event["event_data"].clone()).collect()
    }
}

impl Answer {
    /// A refusal in Anthropic's shape: its type, and the code at the head of its message.
    #[track_caller]
    pub fn refused_call(self, status: u16, kind: &str, code: &str) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!((&self.body["type"], &self.body["error"]["type"]), (&json!("error"), &json!(kind)));
        let message = self.body["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(&format!("{code}: ")), "{message}");
        message
    }
}
