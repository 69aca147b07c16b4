//! Bad input: each is answered with a clear problem, nothing of it is stored, and none of it is the server's fault.

use std::{sync::Arc, time::Duration};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    app::{Answer, App, On, Sandbox, answer, soon},
    on_both,
    work::LEASE,
};

/// What is wrong, and how it must be refused.
struct Bad {
    what: String,
    request: RequestBuilder,
    status: u16,
    code: &'static str,
}

fn bad(what: impl Into<String>, request: RequestBuilder, status: u16, code: &'static str) -> Bad {
    Bad { what: what.into(), request, status, code }
}

impl App {
    fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(token)
    }

    fn posting(&self, sandbox: &Sandbox, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let path = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        let request = self.request(Method::POST, &path, &sandbox.token);
        request.header("content-type", "application/json").body(body)
    }

    /// Everything that is stored leaves a trace here.
    async fn trace(&self) -> (i64, Value) {
        let audit = self.get("/api/v1/audit?limit=1").await.expect(200);
        (self.position().await, audit["items"][0]["n"].clone())
    }

    async fn refuses(&self, cases: Vec<Bad>) {
        for Bad { what, request, status, code } in cases {
            let before = self.trace().await;
            let answer = soon(answer(request)).await;
            check(&what, &answer, status, code);
            assert_eq!(self.trace().await, before, "{what}: something was stored");
        }
        self.get("/ready").await.expect(200);
    }

    /// A request written by hand, for what a client would put right.
    async fn raw(&self, head: &str, headers: &str) -> Answer {
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

fn check(what: &str, answer: &Answer, status: u16, code: &str) {
    let got = (answer.status.as_u16(), answer.body["code"].as_str());
    assert_eq!(got, (status, Some(code)), "{what}: {}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{what}");
    assert_eq!(answer.body["status"], status, "{what}");
    assert!(answer.body["detail"].as_str().is_some_and(|detail| detail.len() > 5), "{what}: {}", answer.body);
}

on_both! {
    async fn a_token_opens_what_it_is_for_and_nothing_else(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let (lost, ended) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let expires = json!({ "name": "short", "role": "admin", "expires_at": app.after(Duration::from_secs(60)) });
        let expired = app.post("/api/v1/tokens", expires).await.expect(201)["secret"].as_str().unwrap().to_owned();
        let made = app.post("/api/v1/tokens", json!({ "name": "gone", "role": "admin" })).await.expect(201);
        let revoked = made["secret"].as_str().unwrap();
        app.delete(&format!("/api/v1/tokens/{}", made["id"].as_str().unwrap())).await.expect(200);
        app.event(&ended, "agent.started", json!({})).await.expect(200);
        app.post(&format!("/api/v1/sandboxes/{}/terminate", ended.id), json!({})).await.expect(200);
        app.advance(LEASE).await;
        app.advance(app.config.lease.late_report_grace).await;

        let mut cases = Vec::new();
        for (what, token, own, status, code) in [
            ("a wrong token", "omoi_op_wrong", &sandbox, 401, "token_wrong"),
            ("no token", "", &sandbox, 401, "token_missing"),
            ("a token in other letters", &sandbox.token.to_uppercase(), &sandbox, 401, "token_wrong"),
            ("an expired token", &expired, &sandbox, 401, "token_expired"),
            ("a revoked token", revoked, &sandbox, 401, "token_wrong"),
            ("the token of another sandbox", &app.attach(json!({})).await.token, &other, 403, "wrong_sandbox"),
            ("the token of a sandbox that was ended", &ended.token, &ended, 401, "token_ended"),
            ("the token of a lease that has passed", &lost.token, &lost, 401, "token_ended"),
        ] {
            let at = |rest: &str| format!("/api/v1/sandboxes/{}{rest}", own.id);
            let event = json!({ "event_type": "agent.completed" });
            let message = json!({ "state": "injected" });
            let done = json!({ "task_id": "task-1", "success": true });
            for request in [
                app.request(Method::POST, &at("/events"), token).json(&event),
                app.request(Method::POST, &at("/events"), token).json(&json!({ "events": [event] })),
                app.request(Method::POST, &at("/messages/msg-1/ack"), token).json(&message),
                app.request(Method::POST, &at("/task-complete"), token).json(&done),
                app.request(Method::GET, &at(""), token),
                app.request(Method::GET, &at("/events"), token),
                app.request(Method::GET, &at("/trajectory"), token),
                app.request(Method::GET, &at("/messages"), token),
                app.request(Method::GET, &at("/messages?history=true"), token),
                app.request(Method::GET, &at("/task"), token),
                app.request(Method::GET, &at("/logs"), token),
                app.request(Method::GET, &at("/transcript"), token),
                app.request(Method::GET, &at("/diffs/evt-1"), token),
            ] {
                cases.push(bad(what, request, status, code));
            }
        }
        let url = format!("{}/api/v1/sandboxes/{}/events", app.base, sandbox.id);
        cases.push(bad("no header", app.http.get(&url), 401, "token_missing"));
        let basic = app.http.get(&url).basic_auth("admin", Some(&app.token));
        cases.push(bad("another scheme", basic, 401, "token_missing"));
        cases.push(bad("the token in the address", app.http.get(format!("{url}?token={}", app.token)), 401, "token_missing"));
        app.refuses(cases).await;
    }

    async fn who_may_do_little_can_do_no_more(app: App) {
        let project = app.project("p").await;
        let sandbox = app.sandbox().await;
        let task = app.task(&project, json!({})).await;
        let ticket = app.ticket(&project, json!({})).await["id"].as_str().unwrap().to_owned();
        let (viewer, operator) = (app.operator("v", "viewer").await, app.operator("o", "operator").await);
        let agent = app.agent(&[]).await;
        let (get, post, patch) = (Method::GET, Method::POST, Method::PATCH);
        let reading = [
            ("/api/v1/sandboxes".to_owned(), "role_too_low"),
            ("/api/v1/projects".to_owned(), ""),
            (format!("/api/v1/projects/{project}"), ""),
            ("/api/v1/tickets".to_owned(), ""),
            (format!("/api/v1/tickets/{ticket}"), ""),
            ("/api/v1/tasks".to_owned(), ""),
            (format!("/api/v1/tasks/{task}"), ""),
            ("/api/v1/agents".to_owned(), ""),
            ("/metrics".to_owned(), ""),
            ("/api/v1/stream".to_owned(), ""),
        ];
        let writing = [
            (&post, "/api/v1/sandboxes".to_owned(), json!({})),
            (&post, format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})),
            (&post, format!("/api/v1/sandboxes/{}/messages", sandbox.id), json!({ "content": "hello" })),
            (&post, "/api/v1/projects".to_owned(), json!({ "name": "mine" })),
            (&patch, format!("/api/v1/projects/{project}"), json!({ "name": "mine" })),
            (&post, "/api/v1/tickets".to_owned(), json!({ "project_id": project, "title": "t" })),
            (&patch, format!("/api/v1/tickets/{ticket}"), json!({ "title": "mine" })),
            (&post, "/api/v1/tasks".to_owned(), json!({ "project_id": project, "title": "t" })),
            (&patch, format!("/api/v1/tasks/{task}"), json!({ "title": "mine" })),
            (&post, format!("/api/v1/tasks/{task}/cancel"), json!({})),
            (&post, format!("/api/v1/tasks/{task}/retry"), json!({})),
            (&post, format!("/api/v1/tasks/{task}/set-timeout"), json!({ "timeout_seconds": 60 })),
            (&post, format!("/api/v1/tasks/{task}/dependencies"), json!({ "depends_on": [] })),
            (&Method::PUT, format!("/api/v1/tasks/{task}/dependencies"), json!({ "depends_on": [] })),
            (&Method::DELETE, format!("/api/v1/tasks/{task}/dependencies/{task}"), Value::Null),
            (&post, "/api/v1/agents".to_owned(), json!({ "name": "mine" })),
            (&post, format!("/api/v1/agents/{agent}/heartbeat"), json!({ "sequence_number": 1 })),
            (&post, format!("/api/v1/agents/{agent}/claim"), json!({})),
        ];
        let administering = [
            (&get, "/api/v1/tokens".to_owned(), Value::Null),
            (&post, "/api/v1/tokens".to_owned(), json!({ "name": "mine", "role": "admin" })),
            (&Method::DELETE, "/api/v1/tokens/tok-1".to_owned(), Value::Null),
            (&get, "/api/v1/audit".to_owned(), Value::Null),
            (&get, "/api/v1/audit/verify".to_owned(), Value::Null),
        ];
        let mut cases = Vec::new();
        for (path, _) in &reading {
            cases.push(bad(format!("GET {path} by a sandbox"), app.request(get.clone(), path, &sandbox.token), 403, "operator_needed"));
        }
        for (needs, calls) in [("operator", &writing[..]), ("admin", &administering[..])] {
            for (method, path, body) in calls {
                let by = |token: &str| {
                    let request = app.request((*method).clone(), path, token);
                    if body.is_null() { request } else { request.json(body) }
                };
                let what = format!("{method} {path}");
                cases.push(bad(format!("{what} by a sandbox"), by(&sandbox.token), 403, "operator_needed"));
                cases.push(bad(format!("{what} by a viewer"), by(&viewer), 403, "role_too_low"));
                if needs == "admin" {
                    cases.push(bad(format!("{what} by an operator"), by(&operator), 403, "role_too_low"));
                }
            }
        }
        let events = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        let event = app.request(post.clone(), &events, &viewer).json(&json!({ "event_type": "agent.started" }));
        cases.push(bad("an event by a viewer", event, 403, "role_too_low"));
        app.refuses(cases).await;
        for (path, _) in reading.iter().filter(|(path, _)| path != "/api/v1/stream") {
            app.call(get.clone(), path, &viewer, None).await.expect(200);
        }
    }

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
            let request = app.request(method.clone(), &format!("/api/v1/sandboxes/sbx-unknown{rest}"), &token);
            let request = if body.is_null() { request } else { request.json(&body) };
            cases.push(bad(format!("{method} {rest} of an unknown sandbox"), request, 404, "sandbox_not_found"));
        }
        for path in ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/sandboxes", "/api/v1/sandboxes/a/b/c"] {
            cases.push(bad(path, app.request(Method::GET, path, &token), 404, "no_such_path"));
            cases.push(bad(path, app.request(Method::POST, path, &token).json(&json!({})), 404, "no_such_path"));
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
            app.post("/api/v1/sandboxes", json!({ "sandbox_id": id })).await.refused(422, "validation_failed");
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
                app.posting(&sandbox, event(&format!(r#"{{"a":{}{}}}"#, "[".repeat(1 << 19), "]".repeat(1 << 19)))),
                422,
                "nested_too_deep",
            ),
            bad(
                "1 MB of nested objects",
                app.posting(&sandbox, event(&format!("{}1{}", r#"{"a":"#.repeat(1 << 17), "}".repeat(1 << 17)))),
                422,
                "nested_too_deep",
            ),
        ];
        let ended = ["", "{", "{]", "nonsense", "{\"event_type\":", "{\"event_type\":\"a\"} trailing", "\u{feff}{}"];
        for text in ended {
            cases.push(bad(format!("{text:?}"), app.posting(&sandbox, text), 400, "invalid_json"));
        }
        for text in ["[]", "null", "1", "\"agent.started\"", "[{\"event_type\":\"agent.started\"}]"] {
            cases.push(bad(text, app.posting(&sandbox, text), 422, "validation_failed"));
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/html"] {
            let request = app.request(Method::POST, &path, &sandbox.token).header("content-type", kind);
            let request = request.body(r#"{"event_type":"agent.started"}"#);
            cases.push(bad(format!("content type {kind:?}"), request, 415, "not_json"));
        }
        app.refuses(cases).await;
    }

    async fn a_body_that_is_too_large_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let event = |bytes: usize| format!(r#"{{"event_type":"a","event_data":{{"a":"{}"}}}}"#, "x".repeat(bytes));
        let in_pieces = |bytes: usize| {
            let whole = event(bytes).into_bytes();
            let pieces: Vec<Result<Vec<u8>, std::io::Error>> = whole.chunks(60_000).map(|piece| Ok(piece.to_vec())).collect();
            reqwest::Body::wrap_stream(futures_util::stream::iter(pieces))
        };
        let messages = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        let mut cases = Vec::new();
        for _ in 0..5 {
            cases.push(bad("10 MB", app.posting(&sandbox, event(10_000_000)), 413, "body_too_large"));
            cases.push(bad("10 MB of unknown length", app.posting(&sandbox, in_pieces(10_000_000)), 413, "body_too_large"));
        }
        cases.push(bad("an event of 2 MB", app.posting(&sandbox, event(2_000_000)), 413, "event_too_large"));
        let message = app.request(Method::POST, &messages, &app.token).json(&json!({ "content": "é".repeat(40_000) }));
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
        for (list, most) in [("/events?", 500), ("/trajectory?", 1000), ("/messages?history=true&", 500), ("/messages?", 500)] {
            paths.extend(["0", "-1", "-9223372036854775808", "9223372036854775807", "99999999999999999999", "ten", "1.5", ""]
                .map(|limit| format!("{own}{list}limit={limit}")));
            paths.push(format!("{own}{list}limit={}", most + 1));
        }
        paths.extend(["0", "-1", "501"].map(|tail| format!("{own}/logs?tail={tail}")));
        for list in ["sandboxes", "projects", "tickets", "tasks", "agents", "tokens", "audit"] {
            paths.extend(["0", "-1", "501", "x"].map(|limit| format!("/api/v1/{list}?limit={limit}")));
            paths.extend(["..", "a%2Fb", "%00"].map(|cursor| format!("/api/v1/{list}?cursor={cursor}")));
        }
        for field in ["offset", "after", "before"] {
            paths.extend(["-1", "9223372036854775807", "99999999999999999999", "x"]
                .map(|value| format!("{own}/events?{field}={value}")));
        }
        paths.extend(
            [
                "/events?event_type=", "/events?event_type=a%00b", "/trajectory?cursor=1", "/trajectory?cursor=evt-x",
                "/trajectory?direction=up", "/messages?wait=-1", "/messages?wait=601", "/messages?wait=x",
                "/messages?history=maybe", "/messages?history=true&cursor=..", "/diffs/1", "/diffs/evt-", "/diffs/evt--1",
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

    async fn a_request_to_another_name_is_not_for_us(app: App) {
        let port = app.base.rsplit(':').next().unwrap().to_owned();
        let to = |host: String| app.request(Method::GET, "/api/v1/whoami", &app.token).header("host", host);
        let mut cases = Vec::new();
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "omoi", "evil.example:80"] {
            cases.push(bad(host, to(host.to_owned()), 421, "host_refused"));
            let open = app.http.get(format!("{}/health", app.base)).header("host", host);
            cases.push(bad(format!("health at {host}"), open, 421, "host_refused"));
        }
        app.refuses(cases).await;
        for host in [format!("localhost:{port}"), format!("LOCALHOST:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
            answer(to(host)).await.expect(200);
        }
        let nameless = app.raw("GET /health HTTP/1.0", "").await;
        check("no host", &nameless, 421, "host_refused");
    }

    async fn a_page_of_another_site_may_not_call(app: App) {
        let port = app.base.rsplit(':').next().unwrap().to_owned();
        let from = |origin: &str| app.request(Method::GET, "/api/v1/whoami", &app.token).header("origin", origin);
        let mut cases = Vec::new();
        for origin in ["https://evil.example", "null", "", "http://127.0.0.1", "http://localhost:1", "file://"] {
            cases.push(bad(origin, from(origin), 403, "origin_refused"));
            let write = app.request(Method::POST, "/api/v1/projects", &app.token).header("origin", origin);
            cases.push(bad(origin, write.json(&json!({ "name": "forged" })), 403, "origin_refused"));
        }
        app.refuses(cases).await;
        answer(from(&app.base)).await.expect(200);
        let page = format!("http://localhost:{port}");
        answer(from(&page).header("host", format!("localhost:{port}"))).await.expect(200);
        let mut handshake = app.handshake(&app.token, "");
        handshake.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
        let refused = tokio_tungstenite::connect_async(handshake).await.unwrap_err();
        assert!(refused.to_string().contains("403"), "{refused}");
    }

    async fn every_answer_is_hardened_and_named(app: App) {
        let sandbox = app.sandbox().await;
        let requests = [
            app.http.get(format!("{}/health", app.base)),
            app.request(Method::GET, "/api/v1/whoami", &app.token),
            app.request(Method::GET, "/api/v1/whoami", "wrong"),
            app.request(Method::GET, "/api/v1/nothing", &app.token),
            app.request(Method::DELETE, "/api/v1/audit", &app.token),
            app.request(Method::GET, "/health", "").header("host", "evil.example"),
            app.posting(&sandbox, "{"),
            app.posting(&sandbox, r#"{"event_type":"agent.started"}"#),
        ];
        for request in requests {
            let answer = answer(request).await;
            for (header, value) in [
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "no-referrer"),
                ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
                ("cache-control", "no-store"),
                ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ] {
                assert_eq!(answer.headers[header], value, "{header} of {}", answer.status);
            }
            assert_eq!(answer.headers["x-request-id"].len(), 8, "a short name is made up");
            if answer.status == 401 {
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
            }
        }
        let named = |id: &str| app.request(Method::GET, "/api/v1/nothing", &app.token).header("x-request-id", id);
        assert_eq!(answer(named("deploy-42/a")).await.headers["x-request-id"], "deploy-42/a");
        let long = "x".repeat(65);
        for odd in [long.as_str(), "two words", "\u{e9}", ""] {
            let answer = answer(named(odd)).await;
            assert_ne!(answer.headers["x-request-id"], odd);
        }
    }
}

on_both! {
    |config| config.server.allowed_origins = vec!["https://omoi.example".to_owned()] =>

    async fn a_page_that_is_allowed_may_call(app: App) {
        let from = |origin: &str| app.request(Method::GET, "/api/v1/whoami", &app.token).header("origin", origin);
        answer(from("https://omoi.example")).await.expect(200);
        app.refuses(vec![
            bad("plain", from("http://omoi.example"), 403, "origin_refused"),
            bad("longer", from("https://omoi.example.evil.example"), 403, "origin_refused"),
        ])
        .await;
    }
}

on_both! {
    |config| (config.limits.requests_per_second, config.limits.request_burst) = (1, 5) =>

    async fn a_token_that_calls_too_fast_is_slowed_and_no_other(app: App) {
        let other = app.operator("other", "viewer").await;
        let mut calls = 0;
        let refused = loop {
            let answer = app.get("/api/v1/whoami").await;
            if answer.status != 200 {
                break answer;
            }
            calls += 1;
            assert!(calls < 200, "the limit never shows");
        };
        assert_eq!(refused.headers["retry-after"], "1");
        refused.refused(429, "rate_limited");
        app.call(Method::GET, "/api/v1/whoami", &other, None).await.expect(200);
        app.get("/health").await.expect(200);
    }
}

on_both! {
    |config| config.limits.failed_logins_per_minute = 3 =>

    async fn an_address_that_guesses_tokens_is_slowed(app: App) {
        for _ in 0..3 {
            app.call(Method::GET, "/api/v1/whoami", "guess", None).await.refused(401, "token_wrong");
        }
        let refused = app.call(Method::GET, "/api/v1/whoami", "guess", None).await;
        assert_eq!(refused.headers["retry-after"], "60");
        refused.refused(429, "too_many_wrong_tokens");
        app.get("/api/v1/whoami").await.expect(200);
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
        let mut stored: Vec<_> =
            page["events"].as_array().unwrap().iter().map(|e| e["event_data"]["n"].as_i64().unwrap()).collect();
        stored.sort_unstable();
        acknowledged.sort_unstable();
        assert_eq!(stored, acknowledged);
        assert!(!acknowledged.is_empty());
    }
}

/// The other server still believes in the token that it saw a moment ago; the store does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_was_ended_at_one_server_can_do_nothing_at_another() {
    let one = App::start(On::Postgres).await;
    let two = one.beside().await;
    let sandbox = one.sandbox_with_task().await;
    let task = sandbox.task.clone().unwrap();
    two.event(&sandbox, "agent.started", json!({})).await.expect(200);
    one.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);
    let before = one.trace().await;
    two.event(&sandbox, "agent.completed", json!({})).await.refused(401, "token_ended");
    let done = json!({ "task_id": task, "success": true });
    two.post_as(&sandbox, "/task-complete", done).await.refused(401, "token_ended");
    let result = json!({ "task_id": task, "result_type": "implementation", "summary": "s", "content": "c" });
    let handed_in = two.call(Method::POST, "/api/v1/results", &sandbox.token, Some(&result)).await;
    handed_in.refused(401, "token_ended");
    assert_eq!(one.task_status(&task).await, "cancelled");
    assert_eq!(one.trace().await, before);
}
