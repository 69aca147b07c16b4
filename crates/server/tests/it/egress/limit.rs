//! Limits: slow and huge heads, hosts that stall, too many connections, and a stop in the middle.

use std::time::Duration;

use omoi_server::config::Config;

use super::{head, open_loopback, with_stand_in};
use crate::app::{App, On, eventually, soon};

fn short(config: &mut Config) {
    open_loopback(config);
    config.egress.head_timeout = Duration::from_millis(300);
    config.egress.idle_timeout = Duration::from_millis(300);
    config.egress.connections_max = 2;
}

#[tokio::test]
async fn a_head_that_trickles_in_is_not_waited_for() {
    let app = App::start_with(On::Sqlite, short).await;
    let (proxy, _stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.dial().await;
    client.send(format!("CONNECT {target} HTTP/1.1\r\nX-Slow: ").as_bytes()).await;
    let (read, mut write) = client.0.into_split();
    // A byte now and then does not keep it open.
    let trickle = async {
        while tokio::io::AsyncWriteExt::write_all(&mut write, b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = async {
        let mut read = tokio::io::BufReader::new(read);
        let mut line = String::new();
        soon(tokio::io::AsyncBufReadExt::read_line(&mut read, &mut line)).await.unwrap();
        line
    };
    tokio::select! {
        line = answer => assert_eq!(line, "HTTP/1.1 408 Request Timeout\r\n"),
        () = trickle => panic!("cut off without an answer"),
    }
}

#[tokio::test]
async fn ten_megabytes_of_headers_are_refused_and_not_kept() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let many = "X-Filler: 0123456789\r\n".repeat(10 * 1024 * 1024 / 22);
    let long = "x".repeat(10 * 1024 * 1024);
    for request in [
        format!("CONNECT {target} HTTP/1.1\r\n{many}\r\n"),
        format!("GET http://{target}/{long} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
    ] {
        proxy.ask(&request).await.refused(431, "head_too_large", &["32768 bytes", "egress.head_bytes_max"]);
    }
    let hundred = "X-Filler: 0\r\n".repeat(101);
    let request = format!("CONNECT {target} HTTP/1.1\r\n{hundred}\r\n");
    proxy.ask(&request).await.refused(400, "malformed", &["100 headers"]);
    assert!(stand_in.is_untouched());
    assert!(proxy.log(&app).await.iter().all(|line| line["reason"].as_str().unwrap().len() <= 500));
}

#[tokio::test]
async fn a_host_that_stalls_is_given_up() {
    let app = App::start_with(On::Sqlite, short).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    client.send(b"hello?").await;
    assert_eq!(client.rest().await, b"", "the tunnel is closed");
    assert_eq!(host.rest().await, b"hello?");

    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let (answer, _host) = tokio::join!(proxy.ask(&request), stand_in.accept());
    answer.refused(504, "idle_timeout", &["good.example", "300ms"]);

    let answer = async {
        let mut host = stand_in.accept().await;
        head(&mut host).await;
        host.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart").await;
        host
    };
    let (answer, _host) = tokio::join!(proxy.ask(&request), answer);
    assert_eq!(answer.body(), "part", "an answer that stops is cut off, not completed");

    let log = proxy.log(&app).await;
    assert!(log.iter().all(|line| line["code"] == "idle_timeout"), "{log:?}");
    let decisions: Vec<_> = log.iter().map(|line| line["decision"].as_str().unwrap()).collect();
    assert_eq!(decisions, ["allowed", "failed", "allowed"]);
}

#[tokio::test]
async fn a_sandbox_has_so_many_connections_and_no_more() {
    let app = App::start_with(On::Sqlite, |config| {
        short(config);
        config.egress.idle_timeout = Duration::from_secs(60);
    })
    .await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let first = proxy.tunnel(&target).await;
    let _second = proxy.tunnel(&target).await;
    let (first_host, _second_host) = (stand_in.accept().await, stand_in.accept().await);
    proxy.connect(&target).await.refused(
        503,
        "too_many_connections",
        &["2 connections", "egress.connections_max"],
    );
    assert!(stand_in.is_untouched());
    // One that ends makes room.
    drop((first, first_host));
    eventually(async || {
        let answer = {
            let mut client = proxy.dial().await;
            client.send(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await;
            head(&mut client).await
        };
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stop_closes_the_door_and_lets_what_is_under_way_end() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    let address = proxy.address;
    let ending = async {
        eventually(async || tokio::net::TcpStream::connect(address).await.is_err().then_some(())).await;
        client.send(b"still here").await;
        assert_eq!(host.expect(10).await, b"still here");
        drop((client, host));
    };
    tokio::join!(proxy.stop(), ending);
    let log = app.pages(&format!("/api/v1/sandboxes/{}/egress", proxy.sandbox.id), 10).await;
    assert_eq!((log.len(), log[0]["code"].is_null(), log[0]["bytes_up"].as_i64()), (1, true, Some(10)));
}
