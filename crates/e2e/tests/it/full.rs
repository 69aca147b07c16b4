//! A server whose disk is full says so, keeps what it has acknowledged, and goes on once there is room.

use omoi_protocol::DiskState;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    disk::Tmpfs,
    house::{House, eventually},
};

const EVENT_BYTES: usize = 256 * 1024;
/// More of them than go onto the disk.
const EVENTS_MAX: i64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_loses_nothing_and_is_gone_when_there_is_room() {
    let outside = tempfile::tempdir().unwrap();
    let disk = Tmpfs::mount(outside.path().join("disk"), "48m");
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 24 << 20]).unwrap();
    let house = House::open_in(tempfile::tempdir_in(disk.path()).unwrap()).await;
    let sandbox = house.attach(None).await;
    let (http, id) = (Client::new(), &sandbox.sandbox.id);
    let post = async |n: i64| -> Response {
        let data = json!({ "n": n, "text": "x".repeat(EVENT_BYTES) });
        let event = json!({ "event_type": "agent.message", "event_data": data, "worker_seq": n });
        let url = format!("{}/api/v1/sandboxes/{id}/events", house.url());
        http.post(url).bearer_auth(&sandbox.token).json(&event).send().await.unwrap()
    };

    let mut next = 1;
    let refused = loop {
        assert!(next < EVENTS_MAX, "the disk does not get full");
        let answer = post(next).await;
        if answer.status() != StatusCode::OK {
            break answer;
        }
        next += 1;
    };
    assert_eq!(refused.status(), StatusCode::INSUFFICIENT_STORAGE);
    assert!(refused.headers().contains_key("retry-after"));
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["code"], "disk_full");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("is full") && detail.contains("free some space"), "{detail}");
    let ready = async || http.get(format!("{}/ready", house.url())).send().await.unwrap();
    let not_ready = ready().await;
    assert_eq!(not_ready.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(not_ready.json::<Value>().await.unwrap()["code"], "disk_full");
    let disk = house.client.monitor_dashboard().await.unwrap().disk.unwrap();
    assert_eq!(
        (disk.state, disk.path),
        (DiskState::Full, house.dir.path().join("data").display().to_string())
    );
    assert_eq!(house.events(id).await.len() as i64, next - 1, "what was acknowledged is there, and no more");

    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(ready().await.status(), StatusCode::OK, "there is room, and the next write will succeed");
    eventually(async || (post(next).await.status() == StatusCode::OK).then_some(())).await;
    let stored = house.events(id).await;
    let numbers: Vec<_> = stored.iter().map(|event| (event.seq, event.worker_seq)).collect();
    assert_eq!(numbers, (1..=next).map(|n| (n, Some(n))).collect::<Vec<_>>());
}
