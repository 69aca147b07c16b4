//! PostgreSQL goes away, under load and otherwise: nothing that was acknowledged is lost, nothing is stored that
//! was neither acknowledged nor sent again, everybody is told to come back, and all comes back by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use omoi_server::{
    config::{Config, DatabaseUrl},
    store::Store,
};
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    app::{Answer, App, On, Sandbox, eventually, execute, postgres_url, soon},
    viewer::{Said, positions},
    wire::Wire,
};

pub async fn start_with(change: impl FnOnce(&mut Config)) -> (App, Wire) {
    let wire = Wire::to(database().parse().unwrap()).await;
    let app = App::start_with(On::Postgres, |config| {
        let rewired = url(config).replace(&database(), &wire.address.to_string());
        config.database.url = DatabaseUrl::Postgres(rewired.into());
        change(config);
    })
    .await;
    (app, wire)
}

/// The host and port of PostgreSQL itself.
fn database() -> String {
    let url = postgres_url();
    let (_, rest) = url.rsplit_once("://").unwrap();
    let (address, _) = rest.rsplit_once('/').unwrap();
    address.rsplit('@').next().unwrap().to_owned()
}

fn url(config: &Config) -> String {
    let DatabaseUrl::Postgres(url) = &config.database.url else { panic!("on PostgreSQL") };
    url.expose_secret().to_owned()
}

fn past_the_wire(app: &App, wire: &Wire) -> String {
    url(&app.config).replace(&wire.address.to_string(), &database())
}

async fn start() -> (App, Wire) {
    start_with(|_| {}).await
}

/// A wire that hangs must be noticed by whoever waits at its end.
fn impatient(config: &mut Config) {
    config.database.connect_timeout = Duration::from_millis(300);
    config.database.statement_timeout = Duration::from_millis(300);
}

impl App {
    /// Several times in a row, since each connection to the database comes back for itself.
    async fn becomes_ready(&self) {
        let mut in_a_row = 0;
        eventually(async || {
            in_a_row = if self.get("/ready").await.status == 200 { in_a_row + 1 } else { 0 };
            (in_a_row == 20).then_some(())
        })
        .await;
    }
}

#[track_caller]
fn try_again(what: &str, answer: &Answer) {
    let got = (answer.status.as_u16(), answer.body["code"].as_str());
    assert_eq!(got, (503, Some("database_unavailable")), "{what}: {}", answer.body);
    let after: u32 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&after), "{what}: {after}");
}

/// One of each kind of request, with what must be stored and what must be read.
async fn everything_says_try_again(app: &App, sandbox: &Sandbox) {
    let own = format!("/api/v1/sandboxes/{}", sandbox.id);
    let event = json!({ "event_type": "agent.thinking", "worker_seq": 1 });
    for (method, path, body) in [
        (Method::POST, format!("{own}/events"), Some(event.clone())),
        (Method::POST, format!("{own}/events"), Some(json!({ "events": [event] }))),
        (Method::POST, format!("{own}/messages"), Some(json!({ "content": "hello" }))),
        (Method::POST, format!("{own}/terminate"), Some(json!({}))),
        (Method::POST, "/api/v1/projects".to_owned(), Some(json!({ "name": "p" }))),
        (Method::POST, "/api/v1/tokens".to_owned(), Some(json!({ "name": "t", "role": "admin" }))),
        (Method::GET, own.clone(), None),
        (Method::GET, format!("{own}/events"), None),
        (Method::GET, format!("{own}/trajectory"), None),
        (Method::GET, format!("{own}/messages"), None),
        (Method::GET, format!("{own}/messages?wait=30"), None),
        (Method::GET, format!("{own}/messages?history=true"), None),
        (Method::GET, "/api/v1/sandboxes".to_owned(), None),
        (Method::GET, "/api/v1/audit".to_owned(), None),
        (Method::GET, "/api/v1/stream?since=0".to_owned(), None),
        (Method::GET, "/ready".to_owned(), None),
    ] {
        let answer = soon(app.call(method.clone(), &path, &app.token, body.as_ref())).await;
        try_again(&format!("{method} {path}"), &answer);
    }
    for open in ["/health", "/api/v1/sandboxes/health"] {
        assert_eq!(app.get(open).await.expect(200)["status"], "ok", "the process itself is well");
    }
}

async fn all_works_again(app: &App, sandbox: &Sandbox, before: i64) {
    app.becomes_ready().await;
    assert_eq!(app.position().await, before, "nothing was stored meanwhile");
    let event = json!({ "event_type": "agent.thinking", "worker_seq": 1 });
    let stored = async || (app.post_as(sandbox, "/events", event.clone()).await.status == 200).then_some(());
    eventually(stored).await;
    assert_eq!(app.event_count(sandbox).await, 1);
    let id = app.queue(sandbox, "hello again").await;
    assert_eq!(app.take(sandbox).await[0]["id"], id);
    assert_eq!(app.get("/api/v1/audit/verify").await.expect(200)["broken_at"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_everybody_is_told_to_try_again_and_then_all_works() {
    let (app, wire) = start().await;
    let sandbox = app.sandbox().await;
    let before = app.position().await;
    for _ in 0..3 {
        wire.cut();
        everything_says_try_again(&app, &sandbox).await;
        wire.mend();
        app.becomes_ready().await;
    }
    all_works_again(&app, &sandbox, before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_says_nothing_is_away_too() {
    let (app, wire) = start_with(impatient).await;
    let sandbox = app.sandbox().await;
    let before = app.position().await;
    wire.hang();
    everything_says_try_again(&app, &sandbox).await;
    wire.mend();
    app.becomes_ready().await;
    // What hung on the wire may have arrived after all; a number makes sending it again harmless.
    let stored = app.event_count(&sandbox).await;
    assert!(stored <= 1, "one event was sent, under one number");
    let event = json!({ "event_type": "agent.thinking", "worker_seq": 1 });
    let stored = async || (app.post_as(&sandbox, "/events", event.clone()).await.status == 200).then_some(());
    eventually(stored).await;
    assert_eq!(app.event_count(&sandbox).await, 1);
    assert!(app.position().await >= before);
    assert_eq!(app.get("/api/v1/audit/verify").await.expect(200)["broken_at"], Value::Null);
}

/// Sends numbered events one by one, each until it is acknowledged, and says which ids they were given.
async fn write_stubbornly(
    app: Arc<App>,
    sandbox: Sandbox,
    count: u64,
    progress: Arc<Progress>,
) -> Vec<Value> {
    let mut ids = Vec::new();
    for n in 1..=count {
        let event = json!({ "event_type": "agent.thinking", "event_data": { "n": n }, "worker_seq": n });
        let answer = loop {
            let answer = soon(app.post_as(&sandbox, "/events", event.clone())).await;
            if answer.status == 200 {
                break answer.body;
            }
            try_again("a write", &answer);
            progress.refused();
        };
        ids.push(answer["event_id"].clone());
        progress.acknowledged();
    }
    ids
}

/// How far the writers are, so that the wire is cut in their midst and mended when they have felt it.
#[derive(Default)]
struct Progress {
    acknowledged: AtomicU64,
    refused: AtomicU64,
    changed: watch::Sender<()>,
}

impl Progress {
    fn acknowledged(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
        self.changed.send_replace(());
    }

    fn refused(&self) {
        self.refused.fetch_add(1, Ordering::SeqCst);
        self.changed.send_replace(());
    }

    /// Until a count has grown by so much.
    async fn grows(&self, count: &AtomicU64, by: u64) {
        let mut changed = self.changed.subscribe();
        let wanted = count.load(Ordering::SeqCst) + by;
        while count.load(Ordering::SeqCst) < wanted {
            soon(changed.changed()).await.unwrap();
        }
    }
}

async fn survive_outages_under_load(app: App, wire: &Wire, away: impl Fn(&Wire)) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 60;
    const OUTAGES: u64 = 5;
    let (app, progress) = (Arc::new(app), Arc::new(Progress::default()));
    let mut sandboxes = Vec::new();
    for _ in 0..WRITERS {
        sandboxes.push(app.sandbox().await);
    }
    let start = app.position().await;
    let mut writers = JoinSet::new();
    for (at, sandbox) in sandboxes.iter().cloned().enumerate() {
        let (app, progress) = (app.clone(), progress.clone());
        writers.spawn(async move { (at, write_stubbornly(app, sandbox, EACH, progress).await) });
    }
    for _ in 0..OUTAGES {
        progress.grows(&progress.acknowledged, WRITERS * EACH / (OUTAGES + 1)).await;
        away(wire);
        progress.grows(&progress.refused, WRITERS).await;
        wire.mend();
    }
    for (at, acknowledged) in writers.join_all().await {
        let page = app.events(&sandboxes[at], "limit=500").await;
        let mut stored = page["events"].as_array().unwrap().clone();
        stored.reverse();
        let numbers: Vec<_> = stored.iter().map(|event| event["worker_seq"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=EACH).collect::<Vec<_>>(), "each once and in order");
        assert!(stored.iter().all(|event| event["event_data"]["n"] == event["worker_seq"]));
        let ids: Vec<_> = stored.iter().map(|event| event["id"].clone()).collect();
        assert_eq!(ids, acknowledged, "what was acknowledged is what is stored");
    }
    let count = WRITERS * EACH;
    assert_eq!(app.position().await, start + i64::try_from(count).unwrap());
    let seen = app.watch_since(start, "").await.take(usize::try_from(count).unwrap()).await;
    assert_eq!(positions(&seen), (start + 1..=app.position().await).collect::<Vec<_>>());
    assert_eq!(Store::check(&app.config).await.unwrap(), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_under_load_nothing_is_lost_doubled_or_reordered() {
    let (app, wire) = start().await;
    survive_outages_under_load(app, &wire, Wire::cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_under_load_nothing_is_lost_doubled_or_reordered() {
    let (app, wire) = start_with(impatient).await;
    survive_outages_under_load(app, &wire, Wire::hang).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_everything_once_across_an_outage() {
    let (app, wire) = start().await;
    let sandbox = app.sandbox().await;
    let start = app.position().await;
    let mut viewer = app.watch("").await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
        wire.cut();
        let refused = soon(app.event(&sandbox, "agent.thinking", json!({}))).await;
        try_again("a write", &refused);
        wire.mend();
        eventually(async || {
            let answer = app.event(&sandbox, "agent.waiting", json!({})).await;
            (answer.status == 200).then_some(())
        })
        .await;
    }
    while seen.len() < 10 {
        match viewer.hear().await {
            Said::Json(sign) if sign["type"].is_string() => {}
            Said::Json(event) => seen.push(event),
            _ => viewer = app.watch_since(positions(&seen).last().copied().unwrap_or(start), "").await,
        }
    }
    assert_eq!(positions(&seen), (start + 1..=start + 10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_that_cannot_be_made_again_leaves_the_work_to_the_others() {
    let (app, wire) = start().await;
    let sandbox = app.sandbox().await;
    let app = Arc::new(app);
    let mut readers = JoinSet::new();
    for _ in 0..32 {
        let (app, sandbox) = (app.clone(), sandbox.clone());
        readers.spawn(async move { app.event_count(&sandbox).await });
    }
    readers.join_all().await;
    wire.fill();
    let ended = "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name = 'omoi' AND query ILIKE 'SELECT%' \
                 ORDER BY pid LIMIT 1) AS one_reader";
    execute(&past_the_wire(&app, &wire), ended).await;
    let mut refused = 0;
    for _ in 0..100 {
        let answer = app.get_as(&sandbox, "/events").await;
        if answer.status != 200 {
            try_again("a read", &answer);
            refused += 1;
        }
    }
    // A read or two may find out that the connection is gone; half of them would be one reader's share.
    assert!(refused <= 5, "{refused} of 100 reads were refused while a good connection was there");
}

/// A page that is told so forgets its token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_no_token_is_called_wrong() {
    let (app, wire) = start_with(|config| config.live.ping_interval = Duration::from_millis(20)).await;
    let mut viewer = app.watch("").await;
    let fresh = app.operator("fresh", "viewer").await;
    wire.cut();
    let refused = app.try_watch(&fresh, "").await.err().expect("nobody can be let in");
    try_again("a new viewer", &refused);
    // Once the server has stopped believing what it knew of the viewer's own token, it asks for that in vain too.
    eventually(async || (app.get("/api/v1/whoami").await.status == 503).then_some(())).await;
    viewer.say(r#"{"type":"ping"}"#).await;
    while viewer.hear().await != Said::Json(json!({ "type": "pong" })) {}
    for _ in 0..3 {
        viewer.sign("ping").await;
    }
    wire.mend();
    app.becomes_ready().await;
    app.try_watch(&fresh, "").await.unwrap();
}
