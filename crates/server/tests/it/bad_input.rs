//! Bad input: each is answered with a clear problem, nothing of it is stored, none of it is the server's fault.

use std::{sync::Arc, time::Duration};

use omoi_protocol::FailureKind;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    app::{Answer, App, Sandbox, answer, soon},
    on_both,
};

/// What is wrong, and how it must be refused.
pub struct Bad {
    what: String,
    request: RequestBuilder,
    status: u16,
    code: &'static str,
}

pub fn bad(what: impl Into<String>, request: RequestBuilder, status: u16, code: &'static str) -> Bad {
    Bad { what: what.into(), request, status, code }
}

impl App {
    pub fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_of(token))).bearer_auth(token)
    }

    pub fn posting(&self, sandbox: &Sandbox, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let path = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        let request = self.request(Method::POST, &path, &sandbox.token);
        request.header("content-type", "application/json").body(body)
    }

    /// Everything that is stored leaves a trace here.
    pub async fn trace(&self) -> (i64, Value) {
        let audit = self.get("/api/v1/audit?limit=1").await.expect(200);
        (self.position().await, audit["items"][0]["n"].clone())
    }

    pub async fn refuses(&self, cases: Vec<Bad>) {
        for Bad { what, request, status, code } in cases {
            let before = self.trace().await;
            let answer = soon(answer(request)).await;
            check(&what, &answer, status, code);
            assert_eq!(self.trace().await, before, "{what}: something was stored");
        }
        self.get("/ready").await.expect(200);
    }

    /// A request written by hand, for what a client would put right.
    pub async fn raw(&self, head: &str, headers: &str) -> Answer {
        let address = self.base.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("{head}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        soon(stream.read_to_end(&mut bytes)).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (top, body) = text.split_once("\r\n\r\n").unwrap();
        let status = top.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = reqwest::header::HeaderMap::new();
        for (name, value) in top.lines().filter_map(|line| line.split_once(": ")) {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        Answer { status, body: serde_json::from_str(body).unwrap_or_default(), headers }
    }

    async fn get_raw(&self, path: &str) -> Answer {
        let host = self.base.trim_start_matches("http://");
        let headers = format!("Host: {host}\r\nAuthorization: Bearer {}\r\n", self.token);
        self.raw(&format!("GET {path} HTTP/1.1"), &headers).await
    }
}

pub fn check(what: &str, answer: &Answer, status: u16, code: &str) {
    let got = (answer.status.as_u16(), answer.body["code"].as_str());
    assert_eq!(got, (status, Some(code)), "{what}: {}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{what}");
    assert_eq!(answer.body["status"], status, "{what}");
    assert!(answer.body["detail"].as_str().is_some_and(|detail| detail.len() > 5), "{what}: {}", answer.body);
}

on_both! {
    async fn what_is_not_there_is_not_found(app: App) {
        let token = app.token.clone();
        let mut cases = Vec::new();
        for (method, rest, body) in [
            (Method::GET, "", Value::Null),
            (Method::GET, "/events", Value::Null),
            (Method::POST, "/events", json!({ "event_type": "agent.started" })),
            (Method::POST, "/events", json!({ "events": [{ "event_type": "agent.started" }] })),
            (Method::GET, "/trajectory", Value::Null),
            (Method::GET, "/messages", Value::Null),
            (Method::GET, "/messages?wait=30", Value::Null),
            (Method::GET, "/messages?history=true", Value::Null),
            (Method::POST, "/messages", json!({ "content": "hello" })),
            (Method::POST, "/messages/msg-1/ack", json!({ "state": "injected" })),
            (Method::GET, "/task", Value::Null),
            (Method::GET, "/logs", Value::Null),
            (Method::GET, "/transcript", Value::Null),
            (Method::GET, "/diffs/evt-1", Value::Null),
            (Method::POST, "/terminate", json!({})),
        ] {
            let request =
                app.request(method.clone(), &format!("/api/v1/sandboxes/sbx-unknown{rest}"), &token);
            let request = if body.is_null() { request } else { request.json(&body) };
            cases.push(bad(
                format!("{method} {rest} of an unknown sandbox"),
                request,
                404,
                "sandbox_not_found",
            ));
        }
        for path in
            ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/sandboxes", "/api/v1/sandboxes/a/b/c"]
        {
            cases.push(bad(path, app.request(Method::GET, path, &token), 404, "no_such_path"));
            cases.push(bad(
                path,
                app.request(Method::POST, path, &token).json(&json!({})),
                404,
                "no_such_path",
            ));
        }
        app.refuses(cases).await;
    }

    async fn a_method_that_a_path_does_not_have_is_refused_and_those_it_has_are_named(app: App) {
        let sandbox = app.sandbox().await;
        let events = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        let mut cases = Vec::new();
        for (method, path) in [
            (Method::DELETE, events.as_str()),
            (Method::PUT, &events),
            (Method::PATCH, &events),
            (Method::POST, "/health"),
            (Method::POST, "/api/v1/audit"),
            (Method::DELETE, "/api/v1/projects"),
        ] {
            let request = app.request(method.clone(), path, &app.token);
            cases.push(bad(format!("{method} {path}"), request, 405, "method_not_allowed"));
        }
        app.refuses(cases).await;
        let answer = app.call(Method::DELETE, &events, &app.token, None).await;
        let allow = answer.headers["allow"].to_str().unwrap().to_owned();
        assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
    }

    async fn an_id_is_a_plain_word(app: App) {
        let long = "x".repeat(101);
        let before = app.trace().await;
        for (id, status, code) in [
            ("..", 422, "invalid_id"),
            ("%2e%2e", 422, "invalid_id"),
            ("..%2f..%2fetc%2fpasswd", 422, "invalid_id"),
            ("a%2Fb", 422, "invalid_id"),
            ("a%5Cb", 422, "invalid_id"),
            (".hidden", 422, "invalid_id"),
            ("-dash", 422, "invalid_id"),
            ("a%00b", 422, "invalid_id"),
            ("%ff", 422, "invalid_id"),
            ("a%20b", 422, "invalid_id"),
            ("%C3%BC", 422, "invalid_id"),
            ("';DROP", 422, "invalid_id"),
            (long.as_str(), 422, "invalid_id"),
            ("a/b", 404, "no_such_path"),
            ("../..", 404, "no_such_path"),
            ("", 422, "invalid_id"),
        ] {
            for rest in ["events", "messages", "trajectory", "logs"] {
                let answer = app.get_raw(&format!("/api/v1/sandboxes/{id}/{rest}")).await;
                check(&format!("{id}/{rest}"), &answer, status, code);
            }
        }
        for id in ["..", "a/b", "", "a b", "ü", long.as_str()] {
            app.post("/api/v1/sandboxes", json!({ "sandbox_id": id }))
                .await
                .refused(422, "validation_failed");
        }
        assert_eq!(app.trace().await, before);
    }

    async fn a_body_that_cannot_be_read_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let path = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        let event = |data: &str| format!(r#"{{"event_type":"agent.thinking","event_data":{data}}}"#);
        let mut not_utf8 = event(r#"{"text":"?"}"#).into_bytes();
        let at = not_utf8.iter().position(|byte| *byte == b'?').unwrap();
        not_utf8[at] = 0xff;
        let mut not_utf8_type = br#"{"event_type":"agent.?"}"#.to_vec();
        not_utf8_type[21] = 0xc3;
        let mut cases = vec![
            bad("invalid UTF-8 in data", app.posting(&sandbox, not_utf8), 400, "invalid_json"),
            bad("invalid UTF-8 in the type", app.posting(&sandbox, not_utf8_type), 400, "invalid_json"),
            bad("a bare NUL", app.posting(&sandbox, event("{\"a\":\"\0\"}")), 400, "invalid_json"),
            bad("NUL in text", app.posting(&sandbox, event(r#"{"a":"x\u0000y"}"#)), 422, "nul_in_text"),
            bad("NUL in a key", app.posting(&sandbox, event(r#"{"\u0000":1}"#)), 422, "nul_in_text"),
            bad("NUL in the type", app.posting(&sandbox, r#"{"event_type":"a\u0000b"}"#), 422, "nul_in_text"),
            bad("1 MB of brackets", app.posting(&sandbox, "[".repeat(1 << 20)), 422, "nested_too_deep"),
            bad(
                "1 MB of nesting",
                app.posting(
                    &sandbox,
                    event(&format!(r#"{{"a":{}{}}}"#, "[".repeat(1 << 19), "]".repeat(1 << 19))),
                ),
                422,
                "nested_too_deep",
            ),
            bad(
                "1 MB of nested objects",
                app.posting(
                    &sandbox,
                    event(&format!("{}1{}", r#"{"a":"#.repeat(1 << 17), "}".repeat(1 << 17))),
                ),
                422,
                "nested_too_deep",
            ),
        ];
        let ended =
            ["", "{", "{]", "nonsense", "{\"event_type\":", "{\"event_type\":\"a\"} trailing", "\u{feff}{}"];
        for text in ended {
            cases.push(bad(format!("{text:?}"), app.posting(&sandbox, text), 400, "invalid_json"));
        }
        for text in ["[]", "null", "1", "\"agent.started\"", "[{\"event_type\":\"agent.started\"}]"] {
            cases.push(bad(text, app.posting(&sandbox, text), 422, "validation_failed"));
        }
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/html"]
        {
            let request = app.request(Method::POST, &path, &sandbox.token).header("content-type", kind);
            let request = request.body(r#"{"event_type":"agent.started"}"#);
            cases.push(bad(format!("content type {kind:?}"), request, 415, "not_json"));
        }
        app.refuses(cases).await;
    }

    async fn a_body_that_is_too_large_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let event =
            |bytes: usize| format!(r#"{{"event_type":"a","event_data":{{"a":"{}"}}}}"#, "x".repeat(bytes));
        let in_pieces = |bytes: usize| {
            let whole = event(bytes).into_bytes();
            let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
                whole.chunks(60_000).map(|piece| Ok(piece.to_vec())).collect();
            reqwest::Body::wrap_stream(futures_util::stream::iter(pieces))
        };
        let messages = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        let mut cases = Vec::new();
        for _ in 0..5 {
            cases.push(bad("10 MB", app.posting(&sandbox, event(10_000_000)), 413, "body_too_large"));
            cases.push(bad(
                "10 MB of unknown length",
                app.posting(&sandbox, in_pieces(10_000_000)),
                413,
                "body_too_large",
            ));
        }
        cases.push(bad("an event of 2 MB", app.posting(&sandbox, event(2_000_000)), 413, "event_too_large"));
        let message =
            app.request(Method::POST, &messages, &app.token).json(&json!({ "content": "é".repeat(40_000) }));
        cases.push(bad("a message of 80 kB", message, 413, "message_too_large"));
        app.refuses(cases).await;
        let large = app.posting(&sandbox, event(1_000_000));
        answer(large).await.expect(200);
    }

    async fn an_event_that_is_not_one_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let fine = json!({ "event_type": "agent.thinking" });
        let with = |field: &str, value: Value| {
            let mut event = fine.clone();
            event[field] = value;
            event
        };
        let future = app.after(Duration::from_secs(301));
        let far = "9999-12-30T22:00:00Z";
        let mut cases = Vec::new();
        for (event, code) in [
            (json!({}), "validation_failed"),
            (with("event_type", json!("")), "validation_failed"),
            (with("event_type", json!(7)), "validation_failed"),
            (with("event_type", json!("two words")), "validation_failed"),
            (with("event_type", json!("line\nbreak")), "validation_failed"),
            (with("event_type", json!("x".repeat(101))), "validation_failed"),
            (with("event_data", json!([])), "validation_failed"),
            (with("event_data", json!("text")), "validation_failed"),
            (with("event_data", json!(1)), "validation_failed"),
            (with("source", json!("guardian")), "validation_failed"),
            (with("source", json!(1)), "validation_failed"),
            (with("worker_seq", json!(0)), "validation_failed"),
            (with("worker_seq", json!(-1)), "validation_failed"),
            (with("worker_seq", json!(1.5)), "validation_failed"),
            (with("worker_seq", json!("1")), "validation_failed"),
            (with("worker_seq", json!(i64::MAX)), "validation_failed"),
            (with("worker_seq", json!(u64::MAX)), "validation_failed"),
            (with("timestamp", json!(future)), "clock_in_future"),
            (with("timestamp", json!(far)), "clock_in_future"),
            (with("timestamp", json!("yesterday")), "validation_failed"),
            (with("timestamp", json!(1_700_000_000)), "validation_failed"),
        ] {
            cases.push(bad(event.to_string(), app.posting(&sandbox, event.to_string()), 422, code));
            let batch = json!({ "events": [fine, event] });
            cases.push(bad(batch.to_string(), app.posting(&sandbox, batch.to_string()), 422, code));
        }
        let many: Vec<_> = (0..1001).map(|_| fine.clone()).collect();
        for (body, code) in [
            (json!({ "events": [] }), "batch_size"),
            (json!({ "events": many }), "batch_size"),
            (json!({ "events": fine }), "validation_failed"),
            (json!({ "events": [[]] }), "validation_failed"),
            (json!({ "event_type": "a", "events": [fine] }), "validation_failed"),
        ] {
            cases.push(bad(body.to_string(), app.posting(&sandbox, body.to_string()), 422, code));
        }
        app.refuses(cases).await;
        assert_eq!(app.event_count(&sandbox).await, 0);
        let near = with("timestamp", json!(app.after(Duration::from_secs(299))));
        answer(app.posting(&sandbox, near.to_string())).await.expect(200);
    }

    async fn a_message_that_is_not_one_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let path = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        let mut cases = Vec::new();
        for (body, code) in [
            (json!({ "content": "x", "message_type": "agent_collaboration" }), "validation_failed"),
            (json!({ "content": "x", "message_type": "" }), "validation_failed"),
            (json!({ "content": "x", "message_type": 1 }), "validation_failed"),
            (json!({ "content": 1 }), "validation_failed"),
            (json!({ "content": ["x"] }), "validation_failed"),
            (json!({ "content": "a\u{0}b" }), "nul_in_text"),
            (json!({ "message_type": "system" }), "validation_failed"),
        ] {
            let request = app.request(Method::POST, &path, &app.token).json(&body);
            cases.push(bad(body.to_string(), request, 422, code));
        }
        app.refuses(cases).await;
    }

    async fn a_query_out_of_range_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
        let own = format!("/api/v1/sandboxes/{}", sandbox.id);
        let mut paths = Vec::new();
        for (list, most) in
            [("/events?", 500), ("/trajectory?", 1000), ("/messages?history=true&", 500), ("/messages?", 500)]
        {
            paths.extend(
                [
                    "0",
                    "-1",
                    "-9223372036854775808",
                    "9223372036854775807",
                    "99999999999999999999",
                    "ten",
                    "1.5",
                    "",
                ]
                .map(|limit| format!("{own}{list}limit={limit}")),
            );
            paths.push(format!("{own}{list}limit={}", most + 1));
        }
        paths.extend(["0", "-1", "501"].map(|tail| format!("{own}/logs?tail={tail}")));
        for list in ["sandboxes", "projects", "tickets", "tasks", "agents", "tokens", "audit"] {
            paths.extend(["0", "-1", "501", "x"].map(|limit| format!("/api/v1/{list}?limit={limit}")));
            paths.extend(["..", "a%2Fb", "%00"].map(|cursor| format!("/api/v1/{list}?cursor={cursor}")));
        }
        for field in ["offset", "after", "before"] {
            paths.extend(
                ["-1", "9223372036854775807", "99999999999999999999", "x"]
                    .map(|value| format!("{own}/events?{field}={value}")),
            );
        }
        paths.extend(
            ["tasks?phase_id=%00", "tasks?phase_id=a%00", "audit?actor=%00", "audit?entity_id=%00&limit=1"]
                .map(|list| format!("/api/v1/{list}")),
        );
        paths.extend(
            [
                "/events?event_type=",
                "/events?event_type=a%00b",
                "/trajectory?cursor=1",
                "/trajectory?cursor=evt-x",
                "/trajectory?direction=up",
                "/messages?wait=-1",
                "/messages?wait=601",
                "/messages?wait=x",
                "/messages?history=maybe",
                "/messages?history=true&cursor=..",
                "/diffs/1",
                "/diffs/evt-",
                "/diffs/evt--1",
            ]
            .map(|rest| format!("{own}{rest}")),
        );
        let token = app.token.clone();
        for path in paths {
            let before = app.trace().await;
            let answer = app.call(Method::GET, &path, &token, None).await;
            assert_eq!(answer.status, 422, "{path}: {}", answer.body);
            assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
            assert_eq!(app.trace().await, before, "{path}");
        }
    }
}

on_both! {
    async fn a_heartbeat_with_impossible_figures_is_a_heartbeat_without_them(app: App) {
        let sandbox = app.sandbox().await;
        let most = i64::MAX;
        for figures in [
            json!({ "cpu_seconds": 1.0, "io_bytes": 1, "memory_bytes": 1 }),
            json!({ "cpu_seconds": -1.0, "io_bytes": -1, "memory_bytes": -1 }),
            json!({ "cpu_seconds": 1e300, "io_bytes": most, "memory_bytes": most }),
            json!({ "cpu_seconds": -1e300, "io_bytes": i64::MIN, "memory_bytes": i64::MIN }),
            json!({ "cpu_seconds": 1e10, "io_bytes": 1_i64 << 50, "memory_bytes": 1_i64 << 50 }),
            json!({ "cpu_seconds": 0, "io_bytes": 0, "memory_bytes": 0 }),
            json!({ "cpu_seconds": u64::MAX, "io_bytes": u64::MAX, "memory_bytes": u64::MAX }),
            json!({ "cpu_seconds": "much", "io_bytes": 1.5, "memory_bytes": [] }),
        ] {
            for _ in 0..2 {
                app.clock.advance(jiff::SignedDuration::from_secs(1));
                app.event(&sandbox, "agent.heartbeat", figures.clone()).await.expect(200);
                let shown = app.show_sandbox(&sandbox).await;
                assert_eq!(shown["last_heartbeat_at"], app.now().to_string(), "{figures}");
            }
        }
    }

    async fn what_a_program_said_with_nul_is_kept_without_it(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let error = "the worker said: \0\0 and died";
        app.store().place_failed(&sandbox.id.parse().unwrap(), FailureKind::Crashed, error).await.unwrap();
        let shown = app.show_sandbox(&sandbox).await;
        assert_eq!(shown["place_error"], "the worker said: \u{fffd}\u{fffd} and died");
    }
}

on_both! {
    |config| config.limits.write_queue_max = 1 =>

    async fn what_does_not_fit_the_queue_is_refused_and_what_was_acknowledged_is_there(app: App) {
        let sandbox = app.sandbox().await;
        let app = Arc::new(app);
        let mut writers = JoinSet::new();
        for n in 0..64 {
            let (app, sandbox) = (app.clone(), sandbox.clone());
            writers.spawn(async move { (n, app.event(&sandbox, "agent.thinking", json!({ "n": n })).await) });
        }
        let mut acknowledged = Vec::new();
        for (n, answer) in writers.join_all().await {
            match answer.status.as_u16() {
                200 => acknowledged.push(n),
                _ => {
                    assert_eq!(answer.headers["retry-after"], "1");
                    answer.refused(429, "queue_full");
                }
            }
        }
        let page = app.events(&sandbox, "limit=500").await;
        let mut stored: Vec<_> = page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["event_data"]["n"].as_i64().unwrap())
            .collect();
        stored.sort_unstable();
        acknowledged.sort_unstable();
        assert_eq!(stored, acknowledged);
        assert!(!acknowledged.is_empty());
    }
}
