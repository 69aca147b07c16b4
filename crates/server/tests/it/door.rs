//! The door: who comes in, how far, under which name and how often.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{App, On, answer},
    bad_input::{bad, check},
    on_both,
    work::LEASE,
};

on_both! {
    async fn a_token_opens_what_it_is_for_and_nothing_else(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let (lost, ended) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let expires =
            json!({ "name": "short", "role": "admin", "expires_at": app.after(Duration::from_secs(60)) });
        let expired =
            app.post("/api/v1/tokens", expires).await.expect(201)["secret"].as_str().unwrap().to_owned();
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
            (
                "the token of another sandbox",
                &app.attach(json!({})).await.token,
                &other,
                403,
                "wrong_sandbox",
            ),
            ("the token of a sandbox that was ended", &ended.token, &ended, 401, "token_ended"),
            ("the token of a lease that has passed", &lost.token, &lost, 401, "token_ended"),
        ] {
            let at = |rest: &str| format!("/api/v1/sandboxes/{}{rest}", own.id);
            let event = json!({ "event_type": "agent.completed" });
            let message = json!({ "state": "injected" });
            let done = json!({ "task_id": "task-1", "success": true });
            let part = json!({ "session_id": "s", "offset": 0, "data_b64": "" });
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
                app.request(Method::POST, &at("/transcript"), token).json(&part),
                app.request(Method::GET, &at("/diffs/evt-1"), token),
            ] {
                cases.push(bad(what, request, status, code));
            }
        }
        let url = format!("{}/api/v1/sandboxes/{}/events", app.base, sandbox.id);
        cases.push(bad("no header", app.http.get(&url), 401, "token_missing"));
        let basic = app.http.get(&url).basic_auth("admin", Some(&app.token));
        cases.push(bad("another scheme", basic, 401, "token_missing"));
        cases.push(bad(
            "the token in the address",
            app.http.get(format!("{url}?token={}", app.token)),
            401,
            "token_missing",
        ));
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
            "/api/v1/sandboxes".to_owned(),
            "/api/v1/projects".to_owned(),
            format!("/api/v1/projects/{project}"),
            "/api/v1/tickets".to_owned(),
            format!("/api/v1/tickets/{ticket}"),
            "/api/v1/tasks".to_owned(),
            format!("/api/v1/tasks/{task}"),
            "/api/v1/agents".to_owned(),
            "/metrics".to_owned(),
            "/api/v1/stream".to_owned(),
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
        for path in &reading {
            cases.push(bad(
                format!("GET {path} by a sandbox"),
                app.request(get.clone(), path, &sandbox.token),
                403,
                "operator_needed",
            ));
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
        let event =
            app.request(post.clone(), &events, &viewer).json(&json!({ "event_type": "agent.started" }));
        cases.push(bad("an event by a viewer", event, 403, "role_too_low"));
        app.refuses(cases).await;
        for path in reading.iter().filter(|path| *path != "/api/v1/stream") {
            app.call(get.clone(), path, &viewer, None).await.expect(200);
        }
    }

    async fn a_request_to_another_name_is_not_for_us(app: App) {
        let port = app.base.rsplit(':').next().unwrap().to_owned();
        let to = |host: String| app.request(Method::GET, "/api/v1/whoami", &app.token).header("host", host);
        let mut cases = Vec::new();
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "omoi", "evil.example:80"]
        {
            cases.push(bad(host, to(host.to_owned()), 421, "host_refused"));
            let open = app.http.get(format!("{}/health", app.base)).header("host", host);
            cases.push(bad(format!("health at {host}"), open, 421, "host_refused"));
        }
        app.refuses(cases).await;
        for host in [
            format!("localhost:{port}"),
            format!("LOCALHOST:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
        ] {
            answer(to(host)).await.expect(200);
        }
        let nameless = app.raw("GET /health HTTP/1.0", "").await;
        check("no host", &nameless, 421, "host_refused");
    }

    async fn a_page_of_another_site_may_not_call(app: App) {
        let port = app.base.rsplit(':').next().unwrap().to_owned();
        let from =
            |origin: &str| app.request(Method::GET, "/api/v1/whoami", &app.token).header("origin", origin);
        let mut cases = Vec::new();
        for origin in
            ["https://evil.example", "null", "", "http://127.0.0.1", "http://localhost:1", "file://"]
        {
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
            assert!(!answer.headers.contains_key("strict-transport-security"), "it is reached by http");
            assert_eq!(answer.headers["x-request-id"].len(), 8, "a short name is made up");
            if answer.status == 401 {
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
            }
        }
        let named =
            |id: &str| app.request(Method::GET, "/api/v1/nothing", &app.token).header("x-request-id", id);
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
        let from =
            |origin: &str| app.request(Method::GET, "/api/v1/whoami", &app.token).header("origin", origin);
        answer(from("https://omoi.example")).await.expect(200);
        app.refuses(vec![
            bad("plain", from("http://omoi.example"), 403, "origin_refused"),
            bad("longer", from("https://omoi.example.evil.example"), 403, "origin_refused"),
        ])
        .await;
    }

    async fn the_browser_of_an_allowed_page_is_told_so_and_no_other(app: App) {
        let ask = |origin: &str| {
            let asking = app.http.request(Method::OPTIONS, format!("{}/api/v1/projects", app.base));
            asking.header("origin", origin).header("access-control-request-method", "POST")
        };
        let permission = answer(ask("https://OMOI.example")).await;
        assert_eq!(permission.status, 204);
        assert_eq!(permission.headers["access-control-allow-origin"], "https://OMOI.example");
        let granted = |name: &str, wanted: &str| {
            let value = permission.headers[name].to_str().unwrap();
            assert!(value.split(", ").any(|one| one == wanted), "{name}: {value}");
        };
        for header in ["authorization", "content-type", "last-event-id"] {
            granted("access-control-allow-headers", header);
        }
        for method in ["POST", "PATCH", "PUT", "DELETE"] {
            granted("access-control-allow-methods", method);
        }
        let calls = [
            (app.request(Method::GET, "/api/v1/whoami", &app.token), 200),
            (app.request(Method::GET, "/api/v1/whoami", "wrong"), 401),
        ];
        for (call, status) in calls {
            let told = answer(call.header("origin", "https://omoi.example")).await;
            assert_eq!(told.status, status);
            assert_eq!(told.headers["access-control-allow-origin"], "https://omoi.example");
            assert_eq!(told.headers["vary"], "origin");
            let exposed = told.headers["access-control-expose-headers"].to_str().unwrap();
            assert!(exposed.contains("retry-after") && exposed.contains("x-request-id"), "{exposed}");
            assert!(!told.headers.contains_key("access-control-allow-credentials"), "cookies stay at home");
        }

        let refused = answer(ask("https://evil.example")).await;
        assert!(!refused.headers.contains_key("access-control-allow-origin"));
        refused.refused(403, "origin_refused");
        let own = answer(app.request(Method::GET, "/api/v1/whoami", &app.token).header("origin", &app.base)).await;
        assert!(!own.headers.contains_key("access-control-allow-origin"));
        answer(ask(&app.base)).await.refused(405, "method_not_allowed");
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
        assert_eq!(refused.headers["retry-after"], "20", "three a minute");
        refused.refused(429, "too_many_wrong_tokens");
    }

    async fn whoever_was_let_in_before_is_not_kept_out_by_the_guesses_of_others(app: App) {
        let made = app.post("/api/v1/tokens", json!({ "name": "gone", "role": "viewer" })).await.expect(201);
        let fresh = app.operator("fresh", "viewer").await;
        let whoami = async |token: &str| app.call(Method::GET, "/api/v1/whoami", token, None).await;
        for guess in ["a", "b", "c"] {
            whoami(guess).await.refused(401, "token_wrong");
        }
        whoami("d").await.refused(429, "too_many_wrong_tokens");
        // To tell a good one that nobody has shown before from a guess would take the look that is saved.
        whoami(&fresh).await.refused(429, "too_many_wrong_tokens");
        whoami(&app.token).await.expect(200);
        // From here on everything is looked up anew.
        app.delete(&format!("/api/v1/tokens/{}", made["id"].as_str().unwrap())).await.expect(200);
        whoami(&app.token).await.expect(200);
    }
}

on_both! {
    async fn an_operator_who_reports_for_an_ended_sandbox_is_told_so(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let at = |rest: &str| format!("/api/v1/sandboxes/{}{rest}", sandbox.id);
        app.post(&at("/terminate"), json!({})).await.expect(200);
        let event = json!({ "event_type": "agent.completed" });
        app.post(&at("/events"), event.clone()).await.refused(409, "sandbox_ended");
        app.post(&at("/events"), json!({ "events": [event] })).await.refused(409, "sandbox_ended");
        let done = json!({ "task_id": sandbox.task, "success": true });
        app.post(&at("/task-complete"), done).await.refused(409, "sandbox_ended");
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
