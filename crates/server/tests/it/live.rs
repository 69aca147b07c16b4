//! The live stream, as WebSocket and as server-sent events: everything once, in order, from any position on.

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
};
use tokio_tungstenite::{
    MaybeTlsStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    app::{App, On, Sandbox, eventually, soon},
    on_both,
    viewer::{Block, Said, Viewer, positions},
};

/// As many thoughts of a sandbox, one request each.
async fn think(app: &App, sandbox: &Sandbox, count: usize) {
    for n in 0..count {
        app.event(sandbox, "agent.thinking", json!({ "n": n })).await.expect(200);
    }
}

/// Numbers that look like chance and are the same every time.
struct Dice(u64);

impl Dice {
    fn up_to(&mut self, most: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % most + 1).unwrap()
    }
}

/// A viewer with little room for what it does not read.
async fn viewer_with_little_room(app: &App, since: i64) -> Viewer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(128 * 1024).unwrap();
    let stream = socket.connect(app.base.trim_start_matches("http://").parse().unwrap()).await.unwrap();
    let request = app.handshake(&app.token, &format!("since={since}"));
    let (socket, _) = client_async(request, MaybeTlsStream::Plain(stream)).await.unwrap();
    Viewer(socket)
}

/// A stream of server-sent events that nobody reads.
async fn stream_with_little_room(app: &App, since: i64) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(128 * 1024).unwrap();
    let address = app.base.trim_start_matches("http://");
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!(
        "GET /api/v1/stream?since={since} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Connection: close\r\n\r\n",
        app.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// More than all buffers between the server and a viewer hold.
async fn flood(app: &App, sandbox: &Sandbox) {
    let text = "x".repeat(500_000);
    for n in 0..30 {
        app.event(sandbox, "agent.tool_result", json!({ "n": n, "text": text })).await.expect(200);
    }
}

async fn viewers_dropped(app: &App) -> u64 {
    let figures = app.get("/metrics").await.expect(200);
    let line = figures
        .as_str()
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("omoi_live_viewers_dropped_total "));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Eight writers, while one viewer comes and goes at random and must see everything once and in order.
async fn come_and_go_while_eight_write(app: App) {
    const WRITERS: usize = 8;
    const EACH: usize = 40;
    let app = Arc::new(app);
    let mut sandboxes = Vec::new();
    for _ in 0..WRITERS {
        sandboxes.push(app.sandbox().await);
    }
    let start = app.position().await;
    let mut writers = JoinSet::new();
    for sandbox in sandboxes.clone() {
        let app = app.clone();
        writers.spawn(async move { think(&app, &sandbox, EACH).await });
    }
    let (mut seen, mut dice) = (Vec::<Value>::new(), Dice(7));
    while seen.len() < WRITERS * EACH {
        let since = seen.last().map_or(start, |event| event["position"].as_i64().unwrap());
        let count = dice.up_to(30).min(WRITERS * EACH - seen.len());
        seen.extend(match dice.up_to(3) {
            1 => app.watch_since(since, "").await.take(count).await,
            2 => app.stream_since(since, "").await.take(count).await,
            _ => {
                let since = since.to_string();
                app.open_stream("", &[("last-event-id", &since)]).await.take(count).await
            }
        });
    }
    writers.join_all().await;
    let end = app.position().await;
    assert_eq!(positions(&seen), (start + 1..=end).collect::<Vec<_>>());
    for sandbox in &sandboxes {
        let own = seen.iter().filter(|event| event["entity_id"] == sandbox.id);
        let own: Vec<_> = own.map(|event| event["payload"]["n"].as_u64().unwrap()).collect();
        assert_eq!(own, (0..EACH as u64).collect::<Vec<_>>());
    }
}

on_both! {
    /// EV-3
    async fn a_posted_event_reaches_a_subscriber_of_its_type(app: App) {
        let sandbox = app.sandbox().await;
        let mut viewer = app.watch("event_types=SANDBOX_agent.tool_use").await;
        app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
        let posted = app.event(&sandbox, "agent.tool_use", json!({ "tool": "Read" })).await.expect(200);
        let event = viewer.next().await;
        assert_eq!(
            event,
            json!({
                "position": event["position"], "event_type": "SANDBOX_agent.tool_use",
                "entity_type": "sandbox", "entity_id": sandbox.id, "seq": 2, "timestamp": app.now(),
                "payload": { "tool": "Read", "source": "agent", "original_event_type": "agent.tool_use" },
            })
        );
        assert_eq!(posted["event_id"], format!("evt-{}", event["position"]));
    }

    /// EV-4
    async fn a_subscriber_of_sandboxes_hears_of_sandboxes(app: App) {
        let sandbox = app.sandbox().await;
        let mut viewer = app.watch("entity_types=sandbox").await;
        app.project("not a sandbox").await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["event_type"], "SANDBOX_agent.started");
    }

    /// EV-5
    async fn a_subscriber_of_one_sandbox_hears_of_no_other(app: App) {
        let abc = app.attach(json!({ "sandbox_id": "sandbox-abc" })).await;
        let xyz = app.attach(json!({ "sandbox_id": "sandbox-xyz" })).await;
        let mut viewer = app.watch("entity_ids=sandbox-abc").await;
        app.event(&xyz, "agent.tool_use", json!({})).await.expect(200);
        app.event(&abc, "agent.tool_use", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["entity_id"], "sandbox-abc");
    }

    async fn filters_choose_alike_on_both_kinds_of_stream(app: App) {
        let (a, b) = (app.sandbox().await, app.sandbox().await);
        let since = app.position().await;
        // Twice, so that whatever a filter lets through wrongly comes before something that it wants.
        for round in 0..2 {
            app.project(&format!("project {round}")).await;
            for sandbox in [&b, &a] {
                for kind in ["agent.started", "agent.thinking", "agent.tool_use"] {
                    app.event(sandbox, kind, json!({})).await.expect(200);
                }
            }
            app.queue(&a, "hello").await;
        }
        let count = usize::try_from(app.position().await - since).unwrap();
        let all = app.watch_since(since, "").await.take(count).await;
        assert_eq!(app.stream_since(since, "").await.take(count).await, all);
        type Wanted<'a> = Box<dyn Fn(&Value) -> bool + 'a>;
        let cases: [(String, Wanted<'_>); 8] = [
            (
                "event_types=SANDBOX_agent.tool_use".into(),
                Box::new(|e| e["event_type"] == "SANDBOX_agent.tool_use"),
            ),
            ("event_types=PROJECT_CREATED".into(), Box::new(|e| e["event_type"] == "PROJECT_CREATED")),
            (
                "event_types=SANDBOX_agent.started,%20SANDBOX_MESSAGE_QUEUED".into(),
                Box::new(|e| {
                    e["event_type"] == "SANDBOX_agent.started" || e["event_type"] == "SANDBOX_MESSAGE_QUEUED"
                }),
            ),
            ("entity_types=project".into(), Box::new(|e| e["entity_type"] == "project")),
            ("entity_types=project,sandbox".into(), Box::new(|_| true)),
            (format!("entity_ids={}", a.id), Box::new(|e| e["entity_id"] == a.id)),
            (format!("entity_ids={},{}", a.id, b.id), Box::new(|e| e["entity_type"] == "sandbox")),
            (
                format!("entity_types=sandbox&entity_ids={}&event_types=SANDBOX_agent.thinking", b.id),
                Box::new(|e| e["entity_id"] == b.id && e["event_type"] == "SANDBOX_agent.thinking"),
            ),
        ];
        for (filters, wanted) in cases {
            let expected: Vec<_> = all.iter().filter(|event| wanted(event)).cloned().collect();
            assert!(expected.len() >= 2, "{filters}");
            assert_eq!(
                app.watch_since(since, &filters).await.take(expected.len()).await,
                expected,
                "{filters}"
            );
            assert_eq!(
                app.stream_since(since, &filters).await.take(expected.len()).await,
                expected,
                "{filters}"
            );
        }
    }

    async fn a_viewer_that_names_no_position_sees_what_comes(app: App) {
        let sandbox = app.sandbox().await;
        think(&app, &sandbox, 3).await;
        // When one viewer has seen the past, it is past for all.
        let count = usize::try_from(app.position().await).unwrap();
        app.watch_since(0, "").await.take(count).await;
        let mut viewer = app.try_watch(&app.token, "").await.unwrap();
        let mut stream = app.open_stream("", &[]).await;
        app.event(&sandbox, "agent.waiting", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["event_type"], "SANDBOX_agent.waiting");
        assert_eq!(stream.next().await["event_type"], "SANDBOX_agent.waiting");
    }

    async fn a_viewer_that_comes_and_goes_sees_everything_once_and_in_order(app: App) {
        come_and_go_while_eight_write(app).await;
    }

    async fn last_event_id_goes_before_since(app: App) {
        let sandbox = app.sandbox().await;
        think(&app, &sandbox, 3).await;
        let last = app.position().await;
        let before = (last - 1).to_string();
        let mut stream = app.open_stream("since=0", &[("last-event-id", &before)]).await;
        assert_eq!(stream.next().await["position"], last);
    }

    async fn a_subscriber_changes_its_mind(app: App) {
        let (a, b) = (app.sandbox().await, app.sandbox().await);
        let mut viewer = app.watch(&format!("entity_ids={}", a.id)).await;
        app.event(&a, "agent.started", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["entity_id"], a.id);

        let started = ["SANDBOX_agent.started"];
        let subscribe = json!({ "type": "subscribe", "entity_ids": [b.id], "event_types": started });
        viewer.say(&subscribe.to_string()).await;
        assert_eq!(
            viewer.next().await,
            json!({
                "status": "subscribed",
                "filters": { "event_types": started, "entity_types": null, "entity_ids": [b.id] },
            })
        );
        for sandbox in [&a, &b] {
            app.event(sandbox, "agent.thinking", json!({})).await.expect(200);
            app.event(sandbox, "agent.started", json!({})).await.expect(200);
        }
        let event = viewer.next().await;
        assert_eq!(
            (&event["entity_id"], &event["event_type"]),
            (&json!(b.id), &json!("SANDBOX_agent.started"))
        );

        viewer.say(r#"{"type":"subscribe"}"#).await;
        assert_eq!(viewer.next().await["status"], "subscribed");
        app.event(&a, "agent.waiting", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["event_type"], "SANDBOX_agent.waiting");
    }

    async fn a_viewer_that_talks_nonsense_is_told_so_and_stays(app: App) {
        let sandbox = app.sandbox().await;
        let mut viewer = app.watch("").await;
        for (said, answer) in [
            ("{", json!({ "error": "Invalid JSON message" })),
            ("[]", json!({ "error": "Invalid JSON message" })),
            (r#"{"type":"ping"}"#, json!({ "type": "pong" })),
        ] {
            viewer.say(said).await;
            assert_eq!(viewer.next().await, answer, "{said}");
        }
        viewer.say(r#"{"type":"dance"}"#).await;
        assert!(viewer.next().await["error"].is_string());
        app.event(&sandbox, "agent.waiting", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["event_type"], "SANDBOX_agent.waiting");
    }

    async fn filters_have_only_so_many_words(app: App) {
        let words = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>();
        let query = |count: usize| format!("entity_types=sandbox&entity_ids={}", words(count).join(","));
        let refused = app.try_watch(&app.token, &query(256)).await.err().expect("too many words");
        refused.refused(422, "filter_too_long");
        app.get(&format!("/api/v1/stream?{}", query(256))).await.refused(422, "filter_too_long");
        app.open_stream(&query(255), &[]).await;
        let mut viewer = app.try_watch(&app.token, &query(255)).await.unwrap();
        let subscribe = json!({ "type": "subscribe", "event_types": words(200), "entity_ids": words(57) });
        viewer.say(&subscribe.to_string()).await;
        assert_eq!(viewer.next().await["error"], "the filters have 257 words; 256 are allowed");
    }

    async fn a_viewer_that_says_too_much_at_once_is_cut_off(app: App) {
        let mut viewer = app.watch("").await;
        viewer.sign("ping").await;
        // It may be cut off before it has said all.
        let _ = viewer.0.send(Message::text("x".repeat(65 * 1024))).await;
        assert_eq!(viewer.hear().await, Said::Gone);
    }

    async fn a_bad_token_is_told_so_and_shown_out(app: App) {
        let sandbox = app.sandbox().await;
        let made = app.post("/api/v1/tokens", json!({ "name": "gone", "role": "viewer" })).await.expect(201);
        let (id, revoked) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
        app.delete(&format!("/api/v1/tokens/{id}")).await.expect(200);
        for (token, status) in
            [("omoi_op_wrong", 401), ("", 401), (revoked, 401), (sandbox.token.as_str(), 403)]
        {
            let mut viewer = app.try_watch(token, "").await.unwrap();
            let Said::Json(said) = viewer.hear().await else { panic!("it is told why") };
            assert!(!said["error"].as_str().unwrap().is_empty(), "{token}");
            assert_eq!(viewer.hear().await, Said::Closed(4401), "{token}");
            let answer = app.call(reqwest::Method::GET, "/api/v1/stream", token, None).await;
            assert_eq!(answer.status, status, "{token}");
        }
    }

    async fn a_page_that_cannot_send_headers_sends_its_token_in_the_address(app: App) {
        let sandbox = app.sandbox().await;
        let since = app.position().await;
        let url = format!("{}/api/v1/ws/events?since={since}", app.base.replace("http", "ws"));
        let request = format!("{url}&token={}", app.token).into_client_request().unwrap();
        let (socket, _) = soon(tokio_tungstenite::connect_async(request)).await.unwrap();
        let mut viewer = Viewer(socket);
        app.event(&sandbox, "agent.waiting", json!({})).await.expect(200);
        assert_eq!(viewer.next().await["event_type"], "SANDBOX_agent.waiting");
        let (socket, _) = soon(tokio_tungstenite::connect_async(url)).await.unwrap();
        let mut nobody = Viewer(socket);
        assert!(matches!(nobody.hear().await, Said::Json(said) if said["error"].is_string()));
        assert_eq!(nobody.hear().await, Said::Closed(4401));
    }

    async fn a_position_that_was_never_given_out_is_refused(app: App) {
        let beyond = (app.position().await + 1).to_string();
        for (since, code) in [
            (beyond.as_str(), "position_unknown"),
            ("9223372036854775807", "position_unknown"),
            ("-1", "position_unknown"),
            ("evt-1", "invalid_query"),
            ("", "invalid_query"),
        ] {
            let query = format!("since={since}");
            let refused = app.try_watch(&app.token, &query).await.err().expect(since);
            refused.refused(422, code);
            app.get(&format!("/api/v1/stream?{query}")).await.refused(422, code);
        }
        for id in [beyond.as_str(), "-1", "evt-1"] {
            let request = app.http.get(format!("{}/api/v1/stream", app.base)).bearer_auth(&app.token);
            let answer = crate::app::answer(request.header("last-event-id", id)).await;
            answer.refused(422, "position_unknown");
        }
    }

    async fn a_plain_request_is_no_websocket(app: App) {
        app.get("/api/v1/ws/events").await.refused(400, "not_a_websocket");
    }

    async fn a_stopping_server_says_goodbye_and_its_viewers_resume_at_the_next(app: App) {
        let mut app = app;
        let sandbox = app.sandbox().await;
        let mut viewer = app.watch("").await;
        let mut stream = app.stream_since(app.position().await, "").await;
        think(&app, &sandbox, 1).await;
        let last = viewer.next().await["position"].as_i64().unwrap();
        assert_eq!(stream.next().await["position"], last);
        app.restart().await;
        assert_eq!(viewer.hear().await, Said::Closed(1001));
        assert_eq!(stream.end().await, Some(1001));
        think(&app, &sandbox, 1).await;
        assert_eq!(app.watch_since(last, "").await.next().await["position"], last + 1);
        assert_eq!(app.stream_since(last, "").await.next().await["position"], last + 1);
    }
}

on_both! {
    |config| config.live.ring_events = 16 =>

    async fn a_viewer_far_behind_reads_from_the_store_and_catches_up(app: App) {
        let sandbox = app.sandbox().await;
        let batch: Vec<_> =
            (0..700).map(|n| json!({ "event_type": "agent.thinking", "event_data": { "n": n } })).collect();
        let start = app.position().await;
        app.post_as(&sandbox, "/events", json!({ "events": batch })).await.expect(200);
        let mut viewer = app.watch_since(start, "").await;
        assert_eq!(positions(&viewer.take(700).await), (start + 1..=start + 700).collect::<Vec<_>>());
        think(&app, &sandbox, 3).await;
        assert_eq!(positions(&viewer.take(3).await), (start + 701..=start + 703).collect::<Vec<_>>());
    }

    async fn a_viewer_that_comes_and_goes_sees_everything_once_even_past_the_memory(app: App) {
        come_and_go_while_eight_write(app).await;
    }
}

on_both! {
    |config| config.live.viewer_stall_timeout = Duration::from_secs(3600) =>

    async fn a_viewer_that_does_not_read_slows_nobody(app: App) {
        let sandbox = app.sandbox().await;
        let start = app.position().await;
        let stalled = viewer_with_little_room(&app, start).await;
        let (mut viewer, mut stream) = (app.watch("").await, app.stream_since(start, "").await);
        flood(&app, &sandbox).await;
        think(&app, &sandbox, 20).await;
        let all: Vec<_> = (start + 1..=start + 50).collect();
        assert_eq!(positions(&viewer.take(50).await), all);
        assert_eq!(positions(&stream.take(50).await), all);
        drop(stalled);
    }
}

on_both! {
    |config| config.live.viewer_stall_timeout = Duration::from_millis(200) =>

    async fn a_viewer_that_does_not_read_is_dropped_with_a_reason_and_resumes(app: App) {
        let dropped = viewers_dropped(&app).await;
        let sandbox = app.sandbox().await;
        let start = app.position().await;
        let mut stalled = viewer_with_little_room(&app, start).await;
        // It begins to read when it was given up, while the flood goes on: the reason is not offered for long.
        let reading = async {
            eventually(async || (viewers_dropped(&app).await > dropped).then_some(())).await;
            let mut texts = Vec::new();
            loop {
                match soon(stalled.0.next()).await {
                    Some(Ok(Message::Text(text))) => texts.push(text),
                    Some(Ok(Message::Close(Some(frame)))) => return (texts, u16::from(frame.code)),
                    other => panic!("{other:?} after {} events", texts.len()),
                }
            }
        };
        let ((texts, code), ()) = tokio::join!(reading, flood(&app, &sandbox));
        let mut seen: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        seen.retain(|said| said["event_type"].is_string());
        assert_eq!(code, 4408);
        assert!(seen.len() < 30, "not all of it fits on the way");
        let since = seen.last().map_or(start, |event| event["position"].as_i64().unwrap());
        seen.extend(app.watch_since(since, "").await.take(30 - seen.len()).await);
        assert_eq!(positions(&seen), (start + 1..=start + 30).collect::<Vec<_>>());
    }

    async fn a_stream_that_nobody_reads_is_ended_too(app: App) {
        let dropped = viewers_dropped(&app).await;
        let sandbox = app.sandbox().await;
        let mut stalled = stream_with_little_room(&app, app.position().await).await;
        flood(&app, &sandbox).await;
        eventually(async || (viewers_dropped(&app).await > dropped).then_some(())).await;
        let mut sent = Vec::new();
        soon(stalled.read_to_end(&mut sent)).await.unwrap();
        let sent = String::from_utf8_lossy(&sent);
        let events = sent.matches(r#""event_type":"#).count();
        assert!((1..30).contains(&events), "{events} events fit on the way");
        assert!(sent.contains("event: bye\ndata: {\"type\":\"bye\",\"code\":4408,"), "it is told why");
    }
}

on_both! {
    |config| config.live.ping_interval = Duration::from_millis(20) =>

    async fn a_quiet_stream_shows_that_it_lives(app: App) {
        let position = app.position().await;
        let (mut viewer, mut stream) = (app.watch("").await, app.stream_since(position, "").await);
        let begins = json!({ "type": "ping", "position": position });
        assert_eq!(viewer.hear().await, Said::Json(begins), "pages of the earlier system pass over a ping");
        let hello = stream.block().await.unwrap();
        assert_eq!((hello.event.as_str(), hello.id), ("hello", Some(position)));
        for _ in 0..3 {
            assert_eq!(viewer.hear().await, Said::Json(json!({ "type": "ping", "position": position })));
            let sign = Block { event: String::new(), id: Some(position), data: Value::Null };
            assert_eq!(stream.block().await.unwrap(), sign);
        }
    }

    async fn a_viewer_whose_filters_let_nothing_pass_hears_how_far_it_has_come(app: App) {
        let sandbox = app.sandbox().await;
        let mut viewer = app.watch("event_types=none").await;
        let mut stream = app.stream_since(app.position().await, "event_types=none").await;
        think(&app, &sandbox, 3).await;
        let last = app.position().await;
        while viewer.hear().await != Said::Json(json!({ "type": "ping", "position": last })) {}
        while stream.block().await.unwrap().id != Some(last) {}
    }

    async fn a_viewer_that_names_no_position_is_told_where_it_begins(app: App) {
        let sandbox = app.sandbox().await;
        let mut viewer = app.try_watch(&app.token, "").await.unwrap();
        let from = viewer.sign("ping").await;
        let mut stream = app.open_stream("", &[]).await;
        let hello = stream.block().await.unwrap();
        assert_eq!((&hello.data["type"], hello.id), (&json!("hello"), hello.data["position"].as_i64()));
        drop((viewer, stream));
        think(&app, &sandbox, 1).await;
        // Whoever was cut off before the first event comes back and has missed none.
        let last = app.position().await;
        for since in [from, hello.id.unwrap()] {
            let count = usize::try_from(last - since).unwrap();
            assert_eq!(app.watch_since(since, "").await.take(count).await.last().unwrap()["position"], last);
        }
    }
}

on_both! {
    |config| config.limits.viewers_max = 1 =>

    async fn there_are_only_so_many_seats(app: App) {
        let seated = app.watch("").await;
        let refused = app.try_watch(&app.token, "").await.err().expect("no second seat");
        assert_eq!(refused.headers["retry-after"], "5");
        refused.refused(429, "viewers_full");
        app.get("/api/v1/stream").await.refused(429, "viewers_full");
        drop(seated);
        eventually(async || Box::pin(app.try_watch(&app.token, "")).await.ok()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_database_show_the_same_order() {
    const EACH: usize = 25;
    let one = Arc::new(App::start(On::Postgres).await);
    let two = Arc::new(one.beside().await);
    let mut sandboxes = Vec::new();
    for _ in 0..4 {
        sandboxes.push(one.sandbox().await);
    }
    let start = one.position().await;
    let (mut at_one, mut at_two) = (one.watch("").await, two.watch("").await);
    let mut stream_at_two = two.stream_since(start, "").await;
    let mut writers = JoinSet::new();
    for (at, sandbox) in sandboxes.iter().cloned().enumerate() {
        let app = if at % 2 == 0 { one.clone() } else { two.clone() };
        writers.spawn(async move { think(&app, &sandbox, EACH).await });
    }
    let count = sandboxes.len() * EACH;
    let seen = at_one.take(count).await;
    assert_eq!(at_two.take(count).await, seen);
    assert_eq!(stream_at_two.take(count).await, seen);
    writers.join_all().await;
    assert_eq!(positions(&seen), (start + 1..=one.position().await).collect::<Vec<_>>());
    for sandbox in &sandboxes {
        let own = seen.iter().filter(|event| event["entity_id"] == sandbox.id);
        let own: Vec<_> = own.map(|event| event["payload"]["n"].as_u64().unwrap()).collect();
        assert_eq!(own, (0..EACH as u64).collect::<Vec<_>>());
    }
}

/// The numbers of a sandbox stay dense when its worker moves from one server to the other with every event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_may_speak_to_either_of_two_servers() {
    let one = App::start(On::Postgres).await;
    let two = one.beside().await;
    let sandbox = one.sandbox().await;
    for n in 1..=20 {
        let event = json!({ "event_type": "agent.thinking", "worker_seq": n });
        let (here, there) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let answer = here.post_as(&sandbox, "/events", event.clone()).await.expect(200);
        assert_eq!(answer["seq"], n);
        assert_eq!(
            there.post_as(&sandbox, "/events", event).await.expect(200),
            answer,
            "a repeat at the other"
        );
    }
    assert_eq!(one.event_count(&sandbox).await, 20);
}

/// Twenty rounds in ten seconds: by looking again once a second it would take twenty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_queued_at_one_server_wakes_a_poll_at_another() {
    let one = App::start(On::Postgres).await;
    let two = Arc::new(one.beside().await);
    let sandbox = one.sandbox().await;
    let rounds = async {
        for round in 0..20 {
            let polling = tokio::spawn({
                let (two, sandbox) = (two.clone(), sandbox.clone());
                async move { two.get_as(&sandbox, "/messages?wait=30").await.expect(200) }
            });
            two.get("/api/v1/whoami").await.expect(200);
            let id = one.queue(&sandbox, &round.to_string()).await;
            let taken = polling.await.unwrap();
            assert_eq!(taken[0]["id"], id);
            assert_eq!(taken.as_array().unwrap().len(), 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), rounds).await.expect("polls are woken from afar");
}
