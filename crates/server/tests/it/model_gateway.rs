//! Model calls through the server: what goes out, what comes back, and what is counted.

use std::time::Instant;

use axum::{body::Body, http::HeaderMap, response::IntoResponse};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{
    app::{App, answer, soon},
    on_both,
    stand_in::{KEY, MODEL, OPENAI_KEY, StandIn, behind, events, hello, message, whole},
};

fn close(left: &Value, right: f64) -> bool {
    (left.as_f64().unwrap() - right).abs() < 1e-12
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

on_both! { behind =>
    async fn the_key_goes_out_and_the_token_stays(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let body = hello().to_string();
        let request = app
            .http
            .post(format!("{}/model/anthropic/v1/messages?beta=true", app.base))
            .bearer_auth(&sandbox.token)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .header("anthropic-version", "2023-06-01")
            .header("anthropic-beta", "a-beta")
            .header("user-agent", "an-agent/1")
            .header("cookie", "a=b")
            .header("x-forwarded-for", "10.0.0.1")
            .header("x-stainless-os", "Linux")
            .body(body.clone());
        answer(request).await.expect(200);
        let got = stand_in.got().remove(0);
        assert_eq!(got.path, "/prefix/v1/messages?beta=true");
        assert_eq!(got.body, body);
        assert_eq!(header(&got.headers, "x-api-key"), Some(KEY));
        for (name, value) in [
            ("content-type", "application/json"), ("accept", "application/json"), ("user-agent", "an-agent/1"),
            ("anthropic-version", "2023-06-01"), ("anthropic-beta", "a-beta"),
        ] {
            assert_eq!(header(&got.headers, name), Some(value));
        }
        for name in ["authorization", "cookie", "x-forwarded-for", "x-stainless-os"] {
            assert_eq!(header(&got.headers, name), None, "{name}");
        }
        assert!(!format!("{got:?}").contains(&sandbox.token));

        let request = app.http.post(format!("{}/model/openai/v1/chat/completions", app.base));
        answer(request.bearer_auth(&sandbox.token).json(&hello())).await.expect(200);
        let got = stand_in.got().remove(1);
        assert_eq!(got.path, "/other/v1/chat/completions");
        assert_eq!(header(&got.headers, "authorization"), Some(format!("Bearer {OPENAI_KEY}").as_str()));
        assert!(!format!("{got:?}").contains(&sandbox.token));
    }

    async fn the_query_and_the_headers_go_out_without_secrets(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let request = app
            .http
            .post(format!("{}/model/anthropic/v1/messages?beta={}", app.base, sandbox.token))
            .bearer_auth(&sandbox.token)
            .header("anthropic-beta", format!("a-{}", sandbox.token))
            .header("user-agent", format!("agent/{KEY}"))
            .json(&hello());
        answer(request).await.expect(200);
        let got = stand_in.got().remove(0);
        let masked = format!("omoi_sbx_{}", "*".repeat(43));
        assert_eq!(got.path, format!("/prefix/v1/messages?beta={masked}"));
        assert_eq!(header(&got.headers, "anthropic-beta"), Some(format!("a-{masked}").as_str()));
        assert_eq!(header(&got.headers, "user-agent"), Some(format!("agent/{}", "*".repeat(KEY.len())).as_str()));
    }

    async fn a_stream_passes_byte_for_byte_as_it_comes_and_is_counted(app: App) {
        let mut feeds = StandIn::of(&app).streams();
        let sandbox = app.sandbox_with_task().await;
        let mut body = hello();
        body["stream"] = json!(true);
        let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&body).send();
        let (response, feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
        let (mut response, feed) = (response.unwrap(), feed.unwrap());
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        // Cut in odd places, in the middle of lines and of characters; each piece arrives before the next is sent.
        let text = events(25, 15);
        for piece in text.as_bytes().chunks(37) {
            feed.send(Ok(Bytes::copy_from_slice(piece))).await.unwrap();
            let mut arrived = Vec::new();
            while arrived.len() < piece.len() {
                arrived.extend_from_slice(&soon(response.chunk()).await.unwrap().unwrap());
            }
            assert_eq!(arrived, piece);
        }
        drop(feed);
        assert_eq!(soon(response.chunk()).await.unwrap(), None);

        let call = app.last_call(&sandbox).await;
        // 25 + 150 + 10 + 100 millionths of a USD.
        let expected = json!({
            "sandbox_id": sandbox.id, "task_id": sandbox.task, "vendor": "anthropic", "model": MODEL,
            "state": "done", "status_code": 200, "stop_reason": "tool_use", "input_tokens": 25,
            "output_tokens": 15, "cache_read_tokens": 100, "cache_write_tokens": 50, "estimated": false,
            "request_bytes": body.to_string().len(),
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&call[field], value, "{field}");
        }
        assert!(close(&call["cost_usd"], 0.000_285), "{call}");
        assert!(call["first_byte_ms"].is_u64() && call["ended_at"].is_string() && call["project_id"].is_string());

        let told = &app.events_of(&sandbox, "model.call").await[0];
        assert_eq!((&told["call_id"], &told["cost_usd"]), (&call["id"], &call["cost_usd"]));
        assert_eq!(told["output_tokens"], 15);
        assert!(close(&app.show_sandbox(&sandbox).await["cost_usd"], 0.000_285));
        assert!(close(&app.show(sandbox.task.as_ref().unwrap()).await["cost_usd"], 0.000_285));
    }

    async fn every_form_of_usage_is_counted(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let usage = json!({ "prompt_tokens": 100, "completion_tokens": 9,
            "prompt_tokens_details": { "cached_tokens": 60 } });
        let chunk = json!({ "choices": [{ "delta": { "content": "Hello" }, "finish_reason": "stop" }] });
        let last = json!({ "choices": [], "usage": usage });
        let stream = format!("data: {chunk}\n\ndata: {last}\n\ndata: [DONE]\n\n");
        let completion = json!({ "choices": [{ "message": { "content": "Hello" }, "finish_reason": "length" }],
            "usage": usage });
        let silent = json!({ "choices": [{ "message": { "content": "Hello" }, "finish_reason": "stop" }] });
        let sse = |text: String| move || ([("content-type", "text/event-stream")], text.clone()).into_response();
        let json = |body: Value| move || whole(200, body.clone());
        type Reply = Box<dyn Fn() -> axum::response::Response + Send + Sync>;
        type Case = (&'static str, bool, Reply, [u64; 4], &'static str, bool);
        let cases: Vec<Case> = vec![
            ("anthropic/v1/messages", false, Box::new(json(message(10, 20))), [10, 20, 0, 0], "end_turn", false),
            ("anthropic/v1/messages", true, Box::new(sse(events(1, 2))), [1, 2, 100, 50], "tool_use", false),
            ("openai/v1/chat/completions", false, Box::new(json(completion)), [40, 9, 60, 0], "length", false),
            ("openai/v1/chat/completions", true, Box::new(sse(stream)), [40, 9, 60, 0], "stop", false),
            // Nobody tells: guessed by the bytes.
            ("openai/v1/chat/completions", false, Box::new(json(silent.clone())), [25, 18, 0, 0], "stop", true),
        ];
        for (path, streaming, reply, tokens, stop, estimated) in cases {
            stand_in.replies(move |_| reply());
            let mut body = hello();
            body["stream"] = json!(streaming);
            let text = body.to_string();
            let request = app.model_request(&sandbox.token, &format!("/{path}"));
            answer(request.header("content-type", "application/json").body(text.clone())).await.expect(200);
            let call = app.last_call(&sandbox).await;
            let mut tokens = tokens;
            if estimated {
                tokens[0] = text.len().div_ceil(4) as u64;
                tokens[1] = silent.to_string().len().div_ceil(4) as u64;
            }
            let counted = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
                .map(|field| call[field].as_u64().unwrap());
            assert_eq!((counted, call["stop_reason"].as_str()), (tokens, Some(stop)), "{path} {streaming}");
            assert_eq!(call["estimated"], estimated, "{path} {streaming}");
            let [input, output, read, write] = tokens;
            let cost = (10 * input + 100 * output + read + 20 * write) as f64 / 1e7;
            assert!(close(&call["cost_usd"], cost), "{path} {streaming}: {call}");
            let sent: Value = serde_json::from_slice(&stand_in.got().pop().unwrap().body).unwrap();
            let asked = path.starts_with("openai") && streaming;
            assert_eq!(sent["stream_options"]["include_usage"] == true, asked, "{path} {streaming}");
        }
    }

    async fn what_costs_nothing_passes_and_is_not_recorded(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        stand_in.replies(|got| whole(200, json!({ "path": got.path })));
        let counted = app.model_request(&sandbox.token, "/anthropic/v1/messages/count_tokens?beta=true");
        let counted = answer(counted.json(&hello())).await.expect(200);
        assert_eq!(counted["path"], "/prefix/v1/messages/count_tokens?beta=true");
        for (path, upstream) in [("anthropic", "/prefix/v1/models?limit=5"), ("openai", "/other/v1/models?limit=5")] {
            let url = format!("{}/model/{path}/v1/models?limit=5", app.base);
            let models = answer(app.http.get(url).bearer_auth(&sandbox.token)).await.expect(200);
            assert_eq!(models["path"], upstream);
        }
        assert_eq!(app.costs("").await["totals"]["calls"], 0);
        assert_eq!(stand_in.got().len(), 3);
        let elsewhere = app.model_request(&sandbox.token, "/anthropic/v1/organizations");
        answer(elsewhere.json(&hello())).await.refused_call(404, "not_found_error", "not_found");
        assert_eq!(stand_in.got().len(), 3);
        let head = app.http.head(format!("{}/model/anthropic", app.base)).send().await.unwrap();
        assert_eq!(head.status(), 200);
    }

    async fn a_key_that_is_echoed_does_not_reach_the_sandbox(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        stand_in.replies(|got| {
            let echo = format!("{{\"error\":\"{:?}\"}}", got.headers["x-api-key"].to_str().unwrap());
            let key = got.headers["x-api-key"].to_str().unwrap().to_owned();
            let (front, back) = echo.split_at(20);
            let parts = [front, back].map(|part| Ok::<_, std::io::Error>(Bytes::copy_from_slice(part.as_bytes())));
            let body = Body::from_stream(futures_util::stream::iter(parts));
            let headers = [
                ("request-id", format!("req for {key}")), ("set-cookie", "a=b".to_owned()), ("x-leak", key),
                ("retry-after", "7".to_owned()), ("anthropic-ratelimit-requests-remaining", "3".to_owned()),
                ("anthropic-organization-id", "org".to_owned()), ("content-type", "application/json".to_owned()),
            ];
            (axum::http::StatusCode::UNAUTHORIZED, headers, body).into_response()
        });
        let answer = app.ask(&sandbox, &hello()).await;
        assert_eq!(answer.status, 401);
        let shown = format!("{answer:?}");
        assert!(!shown.contains(KEY) && !shown.contains("very-secret"), "{shown}");
        assert!(answer.body.to_string().contains("***"));
        assert_eq!(header(&answer.headers, "request-id"), Some(format!("req for {}", "*".repeat(KEY.len())).as_str()));
        assert_eq!(header(&answer.headers, "retry-after"), Some("7"));
        assert_eq!(header(&answer.headers, "anthropic-ratelimit-requests-remaining"), Some("3"));
        for name in ["set-cookie", "x-leak", "anthropic-organization-id"] {
            assert_eq!(header(&answer.headers, name), None, "{name}");
        }
        let call = app.last_call(&sandbox).await;
        assert_eq!((&call["status_code"], &call["cost_usd"], &call["estimated"]), (&json!(401), &json!(0.0), &json!(false)));
    }

    async fn a_large_request_passes_and_a_larger_one_is_refused(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let mut body = hello();
        body["messages"][0]["content"] = json!("x".repeat(10 << 20));
        app.ask(&sandbox, &body).await.expect(200);
        assert_eq!(stand_in.got()[0].body, body.to_string());
        body["messages"][0]["content"] = json!("x".repeat(33 << 20));
        app.ask(&sandbox, &body).await.refused_call(413, "request_too_large", "body_too_large");
        assert_eq!(stand_in.got().len(), 1);
        for bad in [json!([]), json!({}), json!({ "model": 5 })] {
            app.ask(&sandbox, &bad).await.refused_call(400, "invalid_request_error", "invalid_request");
        }
    }

    async fn a_model_without_a_price_has_the_dearest_one(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let mut body = hello();
        body["model"] = json!("nobody-knows");
        app.ask(&sandbox, &body).await.expect(200);
        let call = app.last_call(&sandbox).await;
        assert_eq!(call["estimated"], true);
        assert!(call["cost_usd"].as_f64().unwrap() > 0.001, "{call}");
    }

    async fn costs_are_listed_and_summed_by_whom_they_belong_to(app: App) {
        let project = app.project("one").await;
        let (first, second) = (app.task(&project, json!({})).await, app.task(&project, json!({})).await);
        let sandboxes = [app.attached_to(&first).await, app.attached_to(&second).await, app.sandbox_with_task().await];
        for (n, sandbox) in sandboxes.iter().enumerate() {
            for _ in 0..=n {
                app.ask(sandbox, &hello()).await.expect(200);
            }
        }
        app.advance(std::time::Duration::from_secs(60)).await;
        let since = app.now().to_string();
        for sandbox in &sandboxes {
            app.ask(sandbox, &hello()).await.expect(200);
        }
        for (query, calls) in [
            (String::new(), 9),
            (format!("project_id={project}"), 5),
            (format!("task_id={second}"), 3),
            (format!("sandbox_id={}", sandboxes[2].id), 4),
            (format!("since={since}"), 3),
            (format!("project_id={project}&since={since}"), 2),
            (format!("project_id={project}&task_id={first}"), 2),
            (format!("sandbox_id={}&task_id={first}", sandboxes[2].id), 0),
            ("task_id=task-none".to_owned(), 0),
        ] {
            let totals = &app.costs(&query).await["totals"];
            assert_eq!(totals["calls"], calls, "{query}");
            assert_eq!(totals["output_tokens"], calls * 20, "{query}");
            assert!(close(&totals["cost_usd"], calls as f64 * 0.000_21), "{query}: {totals}");
            let items = app.pages(&format!("/api/v1/costs?{query}"), 2).await;
            assert_eq!(items.len() as u64, calls, "{query}");
            assert!(items.is_sorted_by_key(|call| std::cmp::Reverse(call["started_at"].as_str().unwrap().to_owned())));
        }
        let own = format!("/api/v1/costs?sandbox_id={}", sandboxes[0].id);
        app.call(reqwest::Method::GET, &own, &sandboxes[0].token, None).await.expect(200);
        app.call(reqwest::Method::GET, &own, &sandboxes[1].token, None).await.refused(403, "wrong_sandbox");
        app.call(reqwest::Method::GET, "/api/v1/costs", &sandboxes[1].token, None).await.refused(403, "operator_needed");
    }

    async fn costs_are_added_up_by_project_task_model_and_day(app: App) {
        let project = app.project("one").await;
        let task = app.task(&project, json!({})).await;
        let cheap = app.attached_to(&task).await;
        app.ask(&cheap, &hello()).await.expect(200);
        let since = app.now().to_string();
        app.advance(std::time::Duration::from_secs(86_400)).await;
        let dear = app.sandbox_with_task().await;
        for _ in 0..2 {
            app.ask(&dear, &hello()).await.expect(200);
        }
        let groups = async |query: &str| {
            let answer = app.get(&format!("/api/v1/costs/groups?{query}")).await.expect(200);
            assert_eq!(answer["is_cut"], false);
            let items = answer["items"].as_array().unwrap().clone();
            items.iter().map(|group| (group["key"].clone(), group["calls"].as_u64().unwrap())).collect::<Vec<_>>()
        };
        let by_project = groups("by=project").await;
        assert_eq!((by_project[0].1, by_project[1].clone()), (2, (json!(project), 1)), "dearest first");
        assert_eq!(groups(&format!("by=task&project_id={project}")).await, [(json!(task), 1)]);
        assert_eq!(groups("by=sandbox").await, [(json!(dear.id), 2), (json!(cheap.id), 1)]);
        assert_eq!(groups("by=model").await, [(hello()["model"].clone(), 3)]);
        for by in ["project", "task", "sandbox", "model", "day"] {
            let lately = groups(&format!("by={by}&since={}", app.now())).await;
            assert_eq!(lately.iter().map(|(_, calls)| *calls).collect::<Vec<_>>(), [2], "{by}");
        }
        let days = groups("by=day").await;
        let (today, yesterday) = (days[0].0.as_str().unwrap(), days[1].0.as_str().unwrap());
        assert_eq!((days[0].1, days[1].1), (2, 1), "newest first");
        assert!(since.starts_with(yesterday) && app.now().to_string().starts_with(today), "{days:?}");
        app.get("/api/v1/costs/groups?by=colour").await.refused(422, "invalid_query");
        app.call(reqwest::Method::GET, "/api/v1/costs/groups?by=day", &dear.token, None).await.refused(403, "operator_needed");
    }
}

/// Prints, and decides nothing: how much later a chunk arrives because it passes through the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_delay_of_a_chunk_is_measured() {
    let app = App::start_with(crate::app::On::Sqlite, behind).await;
    let mut feeds = StandIn::of(&app).streams();
    let sandbox = app.sandbox_with_task().await;
    let direct =
        app.http.post(format!("{}/v1/messages", app.config.model.anthropic_base_url)).body("{}").send();
    let (direct, direct_feed) = soon(async { tokio::join!(direct, feeds.recv()) }).await;
    let through = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
    let (through, through_feed) = soon(async { tokio::join!(through, feeds.recv()) }).await;
    for (name, response, feed) in [
        ("direct", direct.unwrap(), direct_feed.unwrap()),
        ("through the server", through.unwrap(), through_feed.unwrap()),
    ] {
        let mut chunks = response.bytes_stream();
        let mut delays = Vec::new();
        for n in 0..500 {
            let event =
                format!("data: {{\"type\":\"content_block_delta\",\"delta\":{{\"text\":\"word {n}\"}}}}\n\n");
            let sent = Instant::now();
            feed.send(Ok(Bytes::from(event))).await.unwrap();
            soon(chunks.next()).await.unwrap().unwrap();
            delays.push(sent.elapsed());
        }
        delays.sort_unstable();
        println!("{name}: median {:?}, 99th percentile {:?}", delays[250], delays[495]);
    }
}
