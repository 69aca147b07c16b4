//! `kill -9` of the server under load, again and again: nothing acknowledged is lost, doubled or out of order.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    place::{Place, Served, http, lasting_address},
    reader::{LAST, Reader},
    writer::{Writer, data},
};

const KILLS: u64 = 20;
const WRITERS: u64 = 64;
/// How many events are acknowledged between a start and the next kill, at least; up to twice as many.
const LIFE_EVENTS: u64 = 600;
const LIMIT: Duration = Duration::from_secs(150);
/// Nobody is to lose a lease here, however slow the machine.
const ENV: &[(&str, &str)] = &[("OMOI_LEASE_DURATION", "1h")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_loses_nothing_on_sqlite() {
    let place = Place::sqlite();
    kill_9_under_load(&place).await;
    let check = place.omoi(&["db", "check"], &[]).output().await.unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_loses_nothing_on_postgres() {
    kill_9_under_load(&Place::postgres().await).await;
}

async fn kill_9_under_load(place: &Place) {
    if timeout(LIMIT, Box::pin(run(place))).await.is_err() {
        panic!("it does not come to an end; the server said: {}", place.last_words());
    }
}

async fn run(place: &Place) {
    let listen = lasting_address();
    let server = place.serve(&listen, &[], ENV).await;
    let (url, token) = (server.url.clone(), server.first_token.clone().unwrap());
    let (load, ask) = (http(), Ask { http: http(), url: &url, token: &token });

    let (up, see_up) = watch::channel(true);
    let (stop, see_stop) = watch::channel(false);
    let (acknowledged, mut see_acknowledged) = watch::channel(0);
    let reading = tokio::spawn(Reader::new(&load, &url, &token).run(see_up.clone()));
    let mut writing = JoinSet::new();
    for n in 0..WRITERS {
        let attached = ask.post("/api/v1/sandboxes", json!({})).await;
        let writer = Writer::new(&load, &url, &attached, n);
        writing.spawn(writer.run(see_up.clone(), see_stop.clone(), acknowledged.clone()));
    }

    let mut server = Some(server);
    for kill in 1..=KILLS {
        let alive_until = *see_acknowledged.borrow() + LIFE_EVENTS + kill * 7919 % LIFE_EVENTS;
        tokio::select! {
            enough = see_acknowledged.wait_for(|total| *total >= alive_until) => drop(enough.unwrap()),
            ended = writing.join_next() => panic!("a writer gave up: {:?}", ended.map(|ended| ended.map(drop))),
        }
        assert!(!reading.is_finished(), "the reader gave up");
        server = Some(again(place, &listen, server.take().unwrap(), &up).await);
    }
    stop.send_replace(true);
    let mut writers = Vec::new();
    while let Some(writer) = writing.join_next().await {
        writers.push(writer.expect("every writer ends well"));
    }
    let total: i64 = writers.iter().map(|writer| writer.acknowledged).sum();
    assert_eq!(total as u64, *see_acknowledged.borrow());
    assert!(total as u64 >= KILLS * LIFE_EVENTS, "{total} events are no load");

    // What the old connections lead to was killed.
    let ask = Ask { http: http(), ..ask };
    ask.post("/api/v1/sandboxes", json!({ "sandbox_id": LAST })).await;
    let reader = reading.await.expect("the reader saw each position once, in order");
    assert!(reader.connections > 1, "the reader was never cut off");

    assert_eq!(writers.len() as u64, WRITERS);
    for writer in &writers {
        assert_eq!(
            reader.seen[&writer.sandbox], writer.acknowledged,
            "{} as the reader saw it",
            writer.sandbox
        );
        assert_stored(&ask, writer).await;
    }
    let verdict = ask.get("/api/v1/audit/verify").await;
    assert_eq!(verdict["broken_at"], Value::Null, "{verdict}");
    server.unwrap().kill().await;
}

/// Kills the server without a word and starts the next on the same data and address.
async fn again(place: &Place, listen: &str, server: Served, up: &watch::Sender<bool>) -> Served {
    up.send_replace(false);
    server.kill().await;
    let next = place.serve(listen, &[], ENV).await;
    assert_eq!(next.first_token, None, "a restart makes no token");
    up.send_replace(true);
    next
}

/// Every acknowledged event is there once, in order, as it was sent.
async fn assert_stored(ask: &Ask<'_>, writer: &Writer) {
    let mut seq = 0;
    let mut position = 0;
    loop {
        let page =
            ask.get(&format!("/api/v1/sandboxes/{}/events?limit=500&after={seq}", writer.sandbox)).await;
        assert_eq!(page["total_count"], writer.acknowledged, "{}", writer.sandbox);
        let events = page["events"].as_array().unwrap();
        if events.is_empty() {
            break;
        }
        for event in events.iter().rev() {
            seq += 1;
            assert_eq!((&event["seq"], &event["worker_seq"]), (&json!(seq), &json!(seq)), "{event}");
            assert_eq!(event["event_data"], data(&writer.sandbox, seq), "{event}");
            let at: i64 = event["id"].as_str().unwrap().strip_prefix("evt-").unwrap().parse().unwrap();
            assert!(at > position, "{event} is placed before the one that came before it");
            position = at;
        }
    }
    assert_eq!(seq, writer.acknowledged, "{}", writer.sandbox);
}

/// As the first operator.
struct Ask<'a> {
    http: reqwest::Client,
    url: &'a str,
    token: &'a str,
}

impl Ask<'_> {
    async fn get(&self, path: &str) -> Value {
        self.answer(self.http.get(format!("{}{path}", self.url))).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.answer(self.http.post(format!("{}{path}", self.url)).json(&body)).await
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Value {
        let response = request.bearer_auth(self.token).send().await.unwrap();
        let (status, body) = (response.status(), response.json::<Value>().await.unwrap());
        assert!([StatusCode::OK, StatusCode::CREATED].contains(&status), "{status} {body}");
        body
    }
}
