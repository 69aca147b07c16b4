//! CONNECT: bytes both ways, each side ending when it likes, and a look at the first ones.

use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore, pki_types::ServerName};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{Proxy, StandIn, open_loopback, with_stand_in};
use crate::app::{App, On, eventually};

/// What a TLS client sends first.
fn client_hello(host: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

#[tokio::test]
async fn a_tunnel_to_an_allowed_host_carries_bytes_both_ways() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    client.send(b"ping").await;
    assert_eq!(host.expect(4).await, b"ping");
    host.send(b"pong!").await;
    assert_eq!(client.expect(5).await, b"pong!");
    drop((client, host));

    let log = proxy.log(&app).await;
    let line = &log[0];
    assert_eq!((line["method"].as_str(), line["host"].as_str()), (Some("CONNECT"), Some("good.example")));
    assert_eq!((line["bytes_up"].as_i64(), line["bytes_down"].as_i64()), (Some(4), Some(5)));
    assert_eq!((line["decision"].as_str(), line["tls"].as_str()), (Some("allowed"), Some("not_tls")));
    assert_eq!((line["address"].as_str(), line["requests"].as_i64()), (Some("127.0.0.1"), Some(1)));
    assert_eq!((log.len(), line["port"].as_i64()), (1, Some(i64::from(stand_in.port))));
    assert!(line["duration_ms"].is_i64() && line["code"].is_null(), "{line}");
}

#[tokio::test]
async fn a_host_that_speaks_first_is_heard() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.tunnel(&target).await;
    stand_in.accept().await.send(b"SSH-2.0-stand-in\r\n").await;
    assert_eq!(client.expect(18).await, b"SSH-2.0-stand-in\r\n");
}

#[tokio::test]
async fn what_comes_with_the_request_belongs_to_the_tunnel() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.dial().await;
    client.send(format!("CONNECT {target} HTTP/1.1\r\n\r\nearly").as_bytes()).await;
    assert_eq!(stand_in.accept().await.expect(5).await, b"early");
}

#[tokio::test]
async fn one_side_may_end_and_still_hear_the_other() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    client.send(b"question").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(host.rest().await, b"question");
    let answer = vec![7; 1_000_000];
    let (_, heard) = tokio::join!(
        async {
            host.send(&answer).await;
            host.0.shutdown().await.unwrap();
        },
        client.rest()
    );
    assert_eq!(heard, answer);

    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    host.0.shutdown().await.unwrap();
    assert_eq!(client.rest().await, b"");
    client.send(b"last words").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(host.rest().await, b"last words");
}

#[tokio::test]
async fn a_handshake_for_another_host_does_not_pass() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    client.send(&client_hello("evil.example")).await;
    assert_eq!(client.rest().await, ALERT);
    assert_eq!(host.rest().await, b"", "not a byte of it got out");

    let mut client = proxy.tunnel(&target).await;
    let mut host = stand_in.accept().await;
    client.send(&[22, 3, 1, 0, 1, 9]).await;
    assert_eq!(client.rest().await, ALERT);
    assert_eq!(host.rest().await, b"");

    let log = proxy.log(&app).await;
    let told: Vec<_> = log.iter().map(|line| (line["decision"].as_str(), line["code"].as_str())).collect();
    assert_eq!(
        told,
        [(Some("refused"), Some("tls_unreadable")), (Some("refused"), Some("tls_name_refused"))]
    );
    assert!(log[1]["reason"].as_str().unwrap().contains("\"evil.example\""), "{}", log[1]);
}

#[tokio::test]
async fn a_handshake_for_an_allowed_host_passes_and_one_without_a_name_is_marked() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let stand_in = StandIn::start().await;
    let port = stand_in.port;
    let allow = [format!("good.example:{port}"), format!("*.good.example:{port}")];
    let mut proxy = Proxy::start(&app, json!({ "egress_allow": allow })).await;
    proxy.names.set("good.example", &[&["127.0.0.1"]]);
    for name in ["GOOD.example", "cdn.good.example", "192.0.2.7"] {
        let mut client = proxy.tunnel(&format!("good.example:{port}")).await;
        let mut host = stand_in.accept().await;
        let hello = client_hello(name);
        client.send(&hello).await;
        assert_eq!(host.expect(hello.len()).await, hello, "{name}");
    }
    let log = proxy.log(&app).await;
    let mut seen: Vec<_> = log.iter().map(|line| line["tls"].as_str().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["named", "named", "unnamed"]);
}

#[tokio::test]
async fn a_tunnel_that_is_open_shows_in_the_log() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let _client = proxy.tunnel(&target).await;
    let _host = stand_in.accept().await;
    let path = format!("/api/v1/sandboxes/{}/egress", proxy.sandbox.id);
    let line = eventually(async || app.pages(&path, 10).await.pop()).await;
    assert_eq!((line["decision"].as_str(), line["duration_ms"].is_null()), (Some("allowed"), true));
    // It is cut off when the proxy stops, and its line says so.
    let log = proxy.log(&app).await;
    assert_eq!((log.len(), log[0]["id"].as_str()), (1, line["id"].as_str()));
    assert_eq!((log[0]["code"].as_str(), log[0]["duration_ms"].is_i64()), (Some("stopping"), true));
}

#[tokio::test]
async fn a_host_that_refuses_the_connection_is_told_apart_from_a_rule() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let port = stand_in.port;
    drop(stand_in);
    proxy.connect(&target).await.refused(502, "not_connected", &["good.example", "127.0.0.1"]);
    proxy.names.set("good.example", &[&[]]);
    proxy.connect(&target).await.refused(502, "not_resolved", &["good.example has no address"]);
    let log = proxy.log(&app).await;
    assert!(log.iter().all(|line| line["decision"] == "failed" && line["port"] == port), "{log:?}");
}
