//! The log of requests and what the sandbox's stream is told, on both databases.

use omoi_server::config::Config;
use serde_json::{Value, json};

use super::{Proxy, open_loopback, with_stand_in};
use crate::{
    app::{App, On, eventually},
    database_away, on_both,
    work::{LEASE, SECOND, text},
};

async fn events(app: &App, proxy: &Proxy) -> Vec<Value> {
    let path = format!("/api/v1/sandboxes/{}/events?event_type=egress.denied&limit=500", proxy.sandbox.id);
    app.get(&path).await.expect(200)["events"].as_array().unwrap().clone()
}

on_both! { |config: &mut Config| open_loopback(config) =>
    async fn every_request_is_logged_with_the_sandbox_that_made_it(app: App) {
        let (mut one, stand_in, target) = with_stand_in(&app).await;
        let mut other = Proxy::start(&app, json!({})).await;
        let mut client = one.tunnel(&target).await;
        let mut host = stand_in.accept().await;
        client.send(b"abc").await;
        host.expect(3).await;
        drop((client, host));
        one.connect("evil.example:443").await.refused(403, "not_listed", &["evil.example"]);
        other.connect("elsewhere.example:443").await.refused(403, "not_listed", &["elsewhere.example"]);

        let log = one.log(&app).await;
        let line = log.iter().find(|line| line["decision"] == "refused").unwrap();
        assert_eq!(log.len(), 2);
        assert_eq!(text(&line["sandbox_id"]), one.sandbox.id);
        assert_eq!((text(&line["at"]), text(&line["last_at"])), (app.now().to_string(), app.now().to_string()));
        assert_eq!((text(&line["host"]), &line["port"], text(&line["code"])),
            ("evil.example".to_owned(), &json!(443), "not_listed".to_owned()));
        assert!(text(&line["reason"]).ends_with("add it to the project's egress_allow"));
        assert_eq!((&line["bytes_up"], &line["bytes_down"], &line["address"]), (&json!(0), &json!(0), &json!(null)));
        let log = other.log(&app).await;
        assert_eq!((log.len(), text(&log[0]["host"])), (1, "elsewhere.example".to_owned()));

        // The sandbox may read its own, and no other's.
        assert_eq!(app.get_as(&one.sandbox, "/egress").await.expect(200)["items"].as_array().unwrap().len(), 2);
        let path = format!("/api/v1/sandboxes/{}/egress", other.sandbox.id);
        app.call(reqwest::Method::GET, &path, &one.sandbox.token, None).await.refused(403, "wrong_sandbox");
        app.get("/api/v1/sandboxes/nobody/egress").await.refused(404, "sandbox_not_found");
    }

    async fn the_log_is_read_in_pages(app: App) {
        let mut proxy = Proxy::start(&app, json!({})).await;
        for n in 0..5 {
            proxy.connect(&format!("h{n}.example:443")).await.refused(403, "not_listed", &[]);
        }
        proxy.stop().await;
        let pages = app.pages(&format!("/api/v1/sandboxes/{}/egress", proxy.sandbox.id), 2).await;
        let hosts: Vec<_> = pages.iter().map(|line| text(&line["host"])).collect();
        assert_eq!(hosts, ["h4.example", "h3.example", "h2.example", "h1.example", "h0.example"]);
    }

    async fn a_loop_of_refusals_is_one_line_and_one_event(app: App) {
        let mut proxy = Proxy::start(&app, json!({})).await;
        for _ in 0..50 {
            proxy.connect("evil.example:443").await.refused(403, "not_listed", &[]);
        }
        proxy.connect("evil.example:8443").await.refused(403, "not_listed", &[]);
        let log = proxy.log(&app).await;
        let counts: Vec<_> = log.iter().map(|line| (line["port"].as_i64(), line["requests"].as_i64())).collect();
        assert_eq!(counts, [(Some(8443), Some(1)), (Some(443), Some(50))]);
        let told = events(&app, &proxy).await;
        assert_eq!(told.len(), 1, "once per host");
        assert_eq!((text(&told[0]["source"]), &told[0]["worker_seq"]), ("system".to_owned(), &json!(null)));
        let data = &told[0]["event_data"];
        assert_eq!((text(&data["host"]), &data["port"]), ("evil.example".to_owned(), &json!(443)));
        assert_eq!(text(&data["code"]), "not_listed");
        assert!(text(&data["reason"]).contains("not on the project's list"));
    }

    async fn ever_new_hosts_fill_neither_the_log_nor_the_stream(app: App) {
        let mut proxy = Proxy::start(&app, json!({})).await;
        for n in 0..230 {
            proxy.connect(&format!("h{n}.example:443")).await.refused(403, "not_listed", &[]);
        }
        let log = proxy.log(&app).await;
        assert_eq!(log.len(), 201);
        let many = log.iter().find(|line| line["host"] == "*").unwrap();
        assert_eq!(many["requests"], 30);
        assert_eq!(events(&app, &proxy).await.len(), 50);
    }

    async fn a_refused_request_is_no_sign_of_life_and_keeps_the_worker_s_numbering(app: App) {
        let mut proxy = Proxy::start(&app, json!({})).await;
        let sandbox = proxy.sandbox.clone();
        let event = |n: i64| json!({ "event_type": "agent.message", "event_data": { "turn": n }, "worker_seq": n });
        app.post_as(&sandbox, "/events", event(1)).await.expect(200);
        app.advance(LEASE - SECOND).await;
        proxy.connect("evil.example:443").await.refused(403, "not_listed", &[]);
        proxy.stop().await;
        assert_eq!(events(&app, &proxy).await[0]["seq"], 2);
        let received = app.post_as(&sandbox, "/events", event(2)).await.expect(200);
        assert_eq!(received["seq"], 3);
        // A repeat is found behind the system's event.
        assert_eq!(app.post_as(&sandbox, "/events", event(2)).await.expect(200)["event_id"], received["event_id"]);

        let mut silent = Proxy::start(&app, json!({})).await;
        silent.connect("evil.example:443").await.refused(403, "not_listed", &[]);
        silent.stop().await;
        assert_eq!(events(&app, &silent).await.len(), 1);
        let shown = app.show_sandbox(&silent.sandbox).await;
        assert_eq!(text(&shown["status"]), "creating", "its worker has not said a word");
        app.advance(LEASE + SECOND).await;
        assert_eq!(text(&app.show_sandbox(&silent.sandbox).await["status"]), "lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_nothing_passes_and_every_line_is_written_afterwards() {
    let (app, wire) = database_away::start_with(open_loopback).await;
    let mut proxy = Proxy::start(&app, json!({})).await;
    let mut asked = 0;
    let mut until = async |status: u16| {
        eventually(async || {
            asked += 1;
            let answer = proxy.connect("evil.example:443").await;
            (answer.status() == status).then_some(answer)
        })
        .await
    };
    until(403).await;
    wire.cut();
    until(503).await.refused(503, "settings_unavailable", &["try again"]);
    wire.mend();
    until(403).await;
    proxy.stop().await;
    let path = format!("/api/v1/sandboxes/{}/egress", proxy.sandbox.id);
    let log =
        eventually(async || Some(app.get(&path).await).filter(|answer| answer.status == 200)).await.body;
    let logged: i64 =
        log["items"].as_array().unwrap().iter().map(|line| line["requests"].as_i64().unwrap()).sum();
    assert_eq!(logged, asked);
}

#[tokio::test]
async fn a_loop_of_allowed_requests_shares_a_line_beyond_a_number() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let _stand_in = stand_in.hang_up();
    for _ in 0..620 {
        assert_eq!(proxy.connect(&target).await.status(), 200);
    }
    let log = proxy.log(&app).await;
    let requests = |line: &Value| line["requests"].as_i64().unwrap();
    assert_eq!((log.len(), log.iter().map(requests).sum::<i64>()), (601, 620));
    assert_eq!(log.iter().map(requests).max(), Some(20));
    assert!(log.iter().all(|line| line["decision"] == "allowed" && line["duration_ms"].is_i64()));
}
