//! A gateway between worker and server that answers 502 for a while.

use std::sync::Arc;

use omoi_protocol::SandboxId;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    house::{House, assert_dense, eventually},
    worker::{Worker, launch},
};

const BAD: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

struct Gateway {
    url: String,
    is_bad: Arc<watch::Sender<bool>>,
    refused: Arc<watch::Sender<usize>>,
}

impl Gateway {
    async fn before(house: &House) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = house.url().strip_prefix("http://").unwrap().to_owned();
        let (is_bad, refused) = (Arc::new(watch::Sender::new(false)), Arc::new(watch::Sender::new(0)));
        let (bad, count) = (is_bad.clone(), refused.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(pass(socket, server.clone(), bad.subscribe(), count.clone()));
            }
        });
        Self { url, is_bad, refused }
    }
}

/// One connection: passed on until the gateway turns bad, or refused.
async fn pass(
    mut socket: TcpStream,
    server: String,
    mut bad: watch::Receiver<bool>,
    count: Arc<watch::Sender<usize>>,
) {
    if *bad.borrow() {
        let mut head = [0; 4096];
        if socket.read(&mut head).await.is_ok_and(|read| read > 0) {
            let is_events = head.starts_with(b"POST") && String::from_utf8_lossy(&head).contains("/events");
            let _ = socket.write_all(BAD).await;
            count.send_modify(|count| *count += usize::from(is_events));
        }
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut socket, &mut server) => {}
        _ = bad.wait_for(|bad| *bad) => {}
    }
}

/// A worker that has been heard of through the gateway, and works until there is a file `go`.
async fn beating(house: &House, gateway: &Gateway) -> (SandboxId, Worker) {
    let attached = house.attach(None).await;
    let mut launch = launch(house, &attached, &["sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"]);
    launch.limits.heartbeat_seconds = 1;
    launch.door.url.clone_from(&gateway.url);
    let worker = Worker::run(house.dir.path(), &launch);
    house.told(&attached.sandbox.id, "agent.heartbeat").await;
    (attached.sandbox.id, worker)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_502_for_heartbeats_is_quiet_and_the_worker_goes_on() {
    let house = House::open().await;
    let gateway = Gateway::before(&house).await;
    let (id, worker) = beating(&house, &gateway).await;
    let id = &id;
    gateway.is_bad.send_replace(true);
    let enough = gateway.refused.subscribe().wait_for(|refused| *refused >= 2).await.map(|_| ());
    enough.unwrap();
    gateway.is_bad.send_replace(false);
    let beats = async || house.events(id).await.iter().filter(|event| event.is_heartbeat()).count();
    let before = beats().await;
    eventually(async || (beats().await > before).then_some(())).await;
    std::fs::write(house.dir.path().join("workspace/go"), "").unwrap();
    let ended = worker.end().await;
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_dense(&house.events(id).await);
}

/// Also when a heartbeat was the first to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_wait_are_told_of_once() {
    let house = House::open().await;
    let gateway = Gateway::before(&house).await;
    let (id, worker) = beating(&house, &gateway).await;
    let id = &id;
    gateway.is_bad.send_replace(true);
    let refused = async |more: usize| {
        let mut count = gateway.refused.subscribe();
        let enough = *count.borrow() + more;
        count.wait_for(|count| *count >= enough).await.map(|_| ()).unwrap();
    };
    refused(1).await;
    std::fs::write(house.dir.path().join("workspace/go"), "").unwrap();
    let spool = house.dir.path().join("spool/events.jsonl");
    let waits = || std::fs::read_to_string(&spool).is_ok_and(|text| text.contains("command.completed"));
    eventually(async || waits().then_some(())).await;
    // One may have been on its way before.
    refused(3).await;
    gateway.is_bad.send_replace(false);
    let ended = worker.end().await;
    assert_eq!(ended.status.code(), Some(0));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(said.matches("events wait").count(), 1, "{said}");
    assert_dense(&house.events(id).await);
}
