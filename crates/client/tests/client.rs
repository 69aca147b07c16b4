//! The client against a server that answers from a script: what is sent again, what is not, and how a live stream
//! goes on after a break.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use omoi_client::{Client, Error, LiveFilter, Retry};
use omoi_protocol::{EventSource, SandboxId, event::NewEvent, message::NewMessage, task::NewTask};
use serde_json::{json, value::RawValue};

const QUICK: Retry = Retry { attempts_max: 3, base: Duration::from_millis(1), cap: Duration::from_millis(2) };

struct Seen {
    method: Method,
    path: String,
    headers: HeaderMap,
}

#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Response>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Script {
    /// A client of a server that gives these answers, one after the other.
    async fn start(answers: impl IntoIterator<Item = Response>) -> (Client, Self) {
        let script = Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(Self::answer).with_state(script.clone());
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        (Client::new(&url, "omoi_op_test").unwrap().with_retry(QUICK), script)
    }

    async fn answer(State(script): State<Self>, request: Request) -> Response {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let (method, headers) = (request.method().clone(), request.headers().clone());
        script.seen.lock().unwrap().push(Seen { method, path, headers });
        let next = script.answers.lock().unwrap().pop_front();
        next.unwrap_or_else(|| (StatusCode::IM_A_TEAPOT, "the script is over").into_response())
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn paths(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }

    fn header(&self, at: usize, name: &str) -> Option<String> {
        Some(self.seen.lock().unwrap()[at].headers.get(name)?.to_str().unwrap().to_owned())
    }
}

fn me() -> Response {
    axum::Json(json!({ "kind": "operator", "name": "ada", "role": "admin" })).into_response()
}

fn status(code: u16) -> Response {
    StatusCode::from_u16(code).unwrap().into_response()
}

fn problem(code: u16, word: &str, retry_after: Option<&str>) -> Response {
    let body =
        json!({ "status": code, "title": "No", "code": word, "detail": "not like this", "expected": 7 });
    let mut response = (StatusCode::from_u16(code).unwrap(), axum::Json(body)).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", seconds.parse().unwrap());
    }
    response
}

fn sandbox() -> SandboxId {
    "sbx-1".parse().unwrap()
}

fn event(worker_seq: Option<i64>) -> NewEvent {
    let event_data = RawValue::from_string("{}".to_owned()).unwrap();
    NewEvent { event_type: "agent.message".to_owned(), event_data, source: EventSource::Worker, worker_seq }
}

fn received() -> Response {
    axum::Json(json!({ "status": "received", "sandbox_id": "sbx-1", "events": [] })).into_response()
}

#[tokio::test]
async fn a_question_is_asked_again_until_there_is_an_answer() {
    let answers = [status(502), problem(503, "unavailable", Some("0")), me()];
    let (client, script) = Script::start(answers).await;
    assert_eq!(client.whoami().await.unwrap().name, "ada");
    assert_eq!(script.paths(), ["GET /api/v1/whoami"; 3]);
    assert_eq!(script.header(0, "authorization").unwrap(), "Bearer omoi_op_test");
}

#[tokio::test]
async fn attempts_have_an_end_and_the_last_answer_is_told() {
    let (client, script) = Script::start((0..9).map(|_| problem(503, "unavailable", None))).await;
    let error = client.whoami().await.unwrap_err();
    assert_eq!(
        (error.status(), error.code(), error.to_string().as_str()),
        (Some(503), Some("unavailable"), "not like this")
    );
    assert_eq!(script.count(), 3);
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_is_left_alone() {
    let (client, script) = Script::start([problem(429, "too_many_requests", Some("3600")), me()]).await;
    assert_eq!(client.whoami().await.unwrap_err().status(), Some(429));
    assert_eq!(script.count(), 1);
}

#[tokio::test]
async fn what_may_have_happened_is_not_done_twice() {
    let (client, script) = Script::start([status(502), status(503)]).await;
    let task: NewTask = serde_json::from_value(json!({ "title": "once" })).unwrap();
    assert!(matches!(client.task_create(&task).await, Err(Error::Stranger { .. })));
    let hello: NewMessage = serde_json::from_value(json!({ "content": "hello" })).unwrap();
    assert!(matches!(client.message_send(&sandbox(), &hello).await, Err(Error::Stranger { .. })));
    assert_eq!(script.paths(), ["POST /api/v1/tasks", "POST /api/v1/sandboxes/sbx-1/messages"]);
}

#[tokio::test]
async fn what_was_turned_away_at_the_door_is_tried_again() {
    let task = problem(422, "invalid", None);
    let (client, script) = Script::start([problem(429, "too_many_requests", Some("0")), task]).await;
    let new: NewTask = serde_json::from_value(json!({ "title": "once" })).unwrap();
    let Err(Error::Problem(problem)) = client.task_create(&new).await else { panic!("a problem") };
    assert_eq!((problem.code.as_str(), &problem.facts["expected"]), ("invalid", &json!(7)));
    assert_eq!(script.count(), 2);
}

#[tokio::test]
async fn numbered_events_are_sent_again_and_others_are_not() {
    let (client, script) = Script::start([status(502), received(), status(502)]).await;
    client.event_append_all(&sandbox(), &[event(Some(1)), event(Some(2))]).await.unwrap();
    assert_eq!(script.count(), 2);
    let error = client.event_append_all(&sandbox(), &[event(Some(3)), event(None)]).await.unwrap_err();
    assert_eq!((error.status(), script.count()), (Some(502), 3));
}

#[tokio::test]
async fn nobody_there_is_named_with_the_next_step() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Client::new(&url, "t").unwrap().with_retry(QUICK).whoami().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&url), "{error}");
    assert!(error.hint().unwrap().contains("omoi serve"));
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::new(&url, "t").unwrap();
    let client =
        client.with_timeout(Duration::from_millis(20)).with_retry(Retry { attempts_max: 1, ..QUICK });
    assert!(matches!(client.whoami().await, Err(Error::TimedOut { .. })));
}

#[tokio::test]
async fn an_answer_of_another_program_is_told_from_ours() {
    let (client, _) = Script::start([(StatusCode::OK, "<html>").into_response(), status(302)]).await;
    assert!(matches!(client.whoami().await, Err(Error::Unreadable { .. })));
    assert!(matches!(client.whoami().await, Err(Error::Stranger { .. })));
}

#[tokio::test]
async fn nothing_to_claim_is_an_answer() {
    let (client, _) = Script::start([status(204)]).await;
    assert!(client.agent_claim(&"agent-1".parse().unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn lists_are_asked_for_with_what_is_wanted_and_nothing_else() {
    let page = || axum::Json(json!({ "items": [] })).into_response();
    let (client, script) = Script::start([page(), page(), page()]).await;
    client.project_list(5, None).await.unwrap();
    client.project_list(5, Some("prj-9")).await.unwrap();
    let query = omoi_client::TaskQuery { has_sandbox: Some(true), ..Default::default() };
    client.task_list(&query).await.unwrap();
    let asked = ["/projects?limit=5", "/projects?limit=5&cursor=prj-9", "/tasks?has_sandbox=true"];
    assert_eq!(script.paths(), asked.map(|path| format!("GET /api/v1{path}")));
}

#[tokio::test]
async fn a_part_of_a_log_that_belongs_elsewhere_says_where_to_go_on() {
    let gap =
        json!({ "status": 409, "title": "Conflict", "code": "transcript_gap", "detail": "a gap", "size": 7 });
    let answers = [
        status(503),
        axum::Json(json!({ "session_id": "s", "size": 5 })).into_response(),
        (StatusCode::CONFLICT, axum::Json(gap)).into_response(),
        problem(409, "transcript_conflict", None),
    ];
    let (client, script) = Script::start(answers).await;
    let id: SandboxId = "sbx-1".parse().unwrap();
    assert_eq!(client.transcript_append(&id, "s", 0, b"hello").await.unwrap(), 5);
    assert_eq!(script.paths(), ["POST /api/v1/sandboxes/sbx-1/transcript"; 2], "a repeat is harmless");
    let misplaced = client.transcript_append(&id, "s", 9, b"!").await.unwrap_err();
    assert_eq!((misplaced.code(), misplaced.size()), (Some("transcript_gap"), Some(7)));
    assert_eq!(client.transcript_append(&id, "s", 0, b"x").await.unwrap_err().size(), None);
}

/// Frames as the server sends them, and the end of the connection.
fn frames(text: String) -> Response {
    ([("content-type", "text/event-stream")], Body::from(text)).into_response()
}

fn frame(position: i64) -> String {
    let data = json!({
        "position": position, "event_type": "TASK_CREATED", "entity_type": "task", "entity_id": "task-1",
        "payload": {}, "timestamp": "2026-01-01T00:00:00Z",
    });
    format!("id: {position}\ndata: {data}\n\n")
}

#[tokio::test]
async fn a_stream_goes_on_where_it_broke_off() {
    let answers = [
        frames(format!("{}: ping\n\n{}id: 6\ndata: {{\"cut", frame(4), frame(5))),
        status(502),
        frames(format!("{}{}", frame(5), frame(6))),
        problem(401, "token_revoked", None),
    ];
    let (client, script) = Script::start(answers).await;
    let filter = LiveFilter { entity_ids: vec!["a".to_owned(), "b".to_owned()], ..LiveFilter::default() };
    let seen: Vec<_> = client.stream(&filter, Some(3)).collect().await;
    let positions: Vec<_> =
        seen.iter().map(|event| event.as_ref().ok().map(|event| event.position)).collect();
    assert_eq!(positions, [Some(4), Some(5), Some(6), None]);
    assert!(matches!(seen.last(), Some(Err(Error::Problem(_)))));
    assert_eq!(script.paths()[0], "GET /api/v1/stream?entity_ids=a%2Cb&since=3");
    let resumed_from: Vec<_> = (0..4).map(|at| script.header(at, "last-event-id").unwrap()).collect();
    assert_eq!(resumed_from, ["3", "5", "5", "6"]);
}

#[tokio::test]
async fn a_stream_that_has_seen_no_event_goes_on_where_it_was_told_to_be() {
    let hello = "event: hello\nid: 7\ndata: {\"type\":\"hello\",\"position\":7}\n\n".to_owned();
    let bye = "event: bye\ndata: {\"type\":\"bye\",\"code\":1001,\"reason\":\"the server is stopping\"}\n\n";
    let answers = [
        frames(hello.clone()),
        frames(format!("{hello}: ping\nid: 9\n\n{bye}")),
        frames(frame(10)),
        problem(401, "token_revoked", None),
    ];
    let (client, script) = Script::start(answers).await;
    let seen: Vec<_> = client.stream(&LiveFilter::default(), None).collect().await;
    let positions: Vec<_> = seen.iter().filter_map(|event| Some(event.as_ref().ok()?.position)).collect();
    assert_eq!(positions, [10]);
    let resumed_from: Vec<_> = (0..4).map(|at| script.header(at, "last-event-id")).collect();
    assert_eq!(resumed_from, [None, Some("7".into()), Some("9".into()), Some("10".into())]);
}

#[tokio::test]
async fn a_stream_that_never_came_up_says_so() {
    let (client, script) = Script::start((0..9).map(|_| status(503))).await;
    let seen: Vec<_> = client.stream(&LiveFilter::default(), None).collect().await;
    assert!(matches!(seen.as_slice(), [Err(Error::Stranger { .. })]));
    assert_eq!((script.count(), script.header(0, "last-event-id")), (3, None));
}
