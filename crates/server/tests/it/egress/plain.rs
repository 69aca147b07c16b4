//! Plain HTTP: a request written anew for its host, an answer streamed back, and nothing ambiguous passed on.

use std::time::Duration;

use omoi_server::config::Config;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Answer, Proxy, StandIn, head, open_loopback, with_stand_in};
use crate::app::{App, On};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: timeout=5\r\nX-From: host\r\n\r\nhello";

#[tokio::test]
async fn a_request_is_passed_on_as_one_to_the_host_itself() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let request = format!(
        "GET http://{target}/a/b?c=d HTTP/1.1\r\nHost: {target}\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nConnection: keep-alive, X-Private, Host\r\nX-Private: 1\r\n\
         TE: trailers\r\nKeep-Alive: 5\r\nAccept: */*\r\n\r\n"
    );
    let (answer, received) = tokio::join!(proxy.ask(&request), stand_in.answer(OK));
    let mut lines: Vec<&str> = received.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "GET /a/b?c=d HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: {target}");
    assert_eq!(lines, ["accept: */*", "connection: close", host.as_str(), "via: 1.1 omoi-egress"]);

    assert_eq!((answer.status(), answer.body(), answer.header("x-from")), (200, "hello", Some("host")));
    assert_eq!((answer.header("keep-alive"), answer.header("connection")), (None, Some("close")));
    let log = proxy.log(&app).await;
    assert_eq!((log[0]["method"].as_str(), log[0]["decision"].as_str()), (Some("GET"), Some("allowed")));
    assert_eq!(log[0]["bytes_up"], received.len());
    assert_eq!(log[0]["bytes_down"], OK.len());
}

#[tokio::test]
async fn a_body_goes_up_and_a_long_answer_comes_down_in_pieces() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.dial().await;
    let start = format!(
        "POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
    );
    client.send(start.as_bytes()).await;
    let mut host = stand_in.accept().await;
    let received = head(&mut host).await.to_lowercase();
    assert!(
        received.contains("transfer-encoding: chunked") && !received.contains("content-length"),
        "{received}"
    );
    assert_eq!(host.expect(10).await, b"5\r\nfirst\r\n");
    client.send(b"6\r\nsecond\r\n0\r\n\r\n").await;
    assert_eq!(host.expect(16).await, b"6\r\nsecond\r\n0\r\n\r\n");
    // The first piece of the answer arrives before the second is sent.
    host.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").await;
    let start = head(&mut client).await;
    assert!(start.starts_with("HTTP/1.1 200 OK\r\n"), "{start}");
    assert_eq!(client.expect(8).await, b"3\r\none\r\n");
    host.send(b"3\r\ntwo\r\n0\r\n\r\n").await;
    assert_eq!(client.rest().await, b"3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_gets_it() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.dial().await;
    let start = format!(
        "PUT http://{target}/ HTTP/1.1\r\nHost: {target}\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    );
    client.send(start.as_bytes()).await;
    assert!(head(&mut client).await.starts_with("HTTP/1.1 100"));
    client.send(b"body").await;
    let mut host = stand_in.accept().await;
    let received = head(&mut host).await.to_lowercase();
    assert!(received.contains("content-length: 4") && !received.contains("expect"), "{received}");
    assert_eq!(host.expect(4).await, b"body");
    host.send(OK.as_bytes()).await;
    assert_eq!(client.answer().await.status(), 200);
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_is_refused_and_reaches_nobody() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    for (headers, status, code) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", 400, "ambiguous_length"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4", 400, "ambiguous_length"),
        ("Content-Length: 4\r\nContent-Length: 40", 400, "ambiguous_length"),
        ("Transfer-Encoding: xchunked", 400, "ambiguous_length"),
        ("Transfer-Encoding: chunked, identity", 400, "ambiguous_length"),
        ("Transfer-Encoding:\x0bchunked", 400, "malformed"),
        ("X: y\n Transfer-Encoding: chunked", 400, "malformed"),
        ("X: y\nContent-Length: 4", 400, "malformed"),
        ("Content-Length : 4", 400, "malformed"),
        ("Host: other.example", 400, "malformed"),
        ("Upgrade: websocket\r\nConnection: upgrade", 403, "upgrade_refused"),
        ("Via: 1.1 omoi-egress", 508, "loop"),
    ] {
        let request = format!(
            "POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\n{headers}\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
        );
        proxy.ask(&request).await.refused(status, code, &[]);
    }
    assert!(stand_in.is_untouched());
}

#[tokio::test]
async fn a_second_request_behind_the_first_is_not_passed_on() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let both = format!("{request}GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    let (answer, _) = tokio::join!(proxy.ask(&both), stand_in.answer(OK));
    assert_eq!(answer.0.matches("HTTP/1.1").count(), 1, "{}", answer.0);
    assert!(stand_in.is_untouched());
}

#[tokio::test]
async fn a_request_must_be_one_to_a_proxy_and_mean_the_host_it_names() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let ask = async |request: String| proxy.ask(&request).await;
    ask(format!("GET / HTTP/1.1\r\nHost: {target}\r\n\r\n")).await.refused(
        400,
        "not_a_proxy",
        &["CONNECT host:port"],
    );
    ask(format!("GET https://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n")).await.refused(
        400,
        "not_a_proxy",
        &[],
    );
    ask(format!("GET http://{target}/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")).await.refused(
        400,
        "host_mismatch",
        &["evil.example", &target],
    );
    ask(format!("GET http://u:p@{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n")).await.refused(
        403,
        "bad_host",
        &[],
    );
    ask("HEAD http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned()).await.refused(
        403,
        "not_listed",
        &[],
    );
    assert!(stand_in.is_untouched());
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_bad_gateway() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(1_000_000));
    for nonsense in [
        "",
        long.as_str(),
        "SSH-2.0-stand-in\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ] {
        let (answer, _): (Answer, _) = tokio::join!(proxy.ask(&request), stand_in.answer(nonsense));
        answer.refused(502, "bad_answer", &["good.example"]);
    }
}

#[tokio::test]
async fn a_request_without_a_path_asks_for_the_root() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let stand_in = StandIn::start().await;
    let proxy = Proxy::start(&app, json!({ "egress_allow": [format!("127.0.0.1:{}", stand_in.port)] })).await;
    let port = stand_in.port;
    for (uri, line) in [("", "GET / HTTP/1.1"), ("?q=1", "GET /?q=1 HTTP/1.1")] {
        let request = format!("GET http://127.0.0.1:{port}{uri} HTTP/1.0\r\n\r\n");
        let (answer, received) = tokio::join!(proxy.ask(&request), stand_in.answer(OK));
        assert_eq!((answer.status(), received.lines().next()), (200, Some(line)));
    }
}

#[tokio::test]
async fn only_known_methods_are_passed_on() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    for method in ["TRACE", "TRACK"] {
        let request = format!("{method} http://{target}/ HTTP/1.1\r\nHost: {target}\r\nCookie: a=b\r\n\r\n");
        let answer = proxy.ask(&request).await;
        answer.refused(405, "method_not_allowed", &[method, "CONNECT"]);
        assert_eq!(answer.header("allow"), Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    }
    for method in ["trace", "Trace", "get", "BREW", "PRI", "PROPFIND"] {
        let request = format!("{method} http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
        proxy.ask(&request).await.refused(501, "method_unknown", &[method]);
    }
    assert!(stand_in.is_untouched());
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let request = format!("{method} http://{target}/x HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let (answer, received) = tokio::join!(proxy.ask(&request), stand_in.answer(OK));
        assert_eq!(answer.status(), 200, "{method}");
        assert!(received.starts_with(&format!("{method} /x HTTP/1.1\r\n")), "{received}");
    }
    let log = proxy.log(&app).await;
    let refused: Vec<_> = log.iter().filter(|line| line["decision"] == "refused").collect();
    assert!(
        refused.iter().any(|line| line["method"] == "TRACE" && line["host"] == "good.example"),
        "{log:?}"
    );
}

/// The host has done nothing wrong, so the client is not told of a bad gateway.
#[tokio::test]
async fn a_body_that_is_none_is_the_client_s_fault() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let chunked = "Transfer-Encoding: chunked";
    for (headers, body) in [
        (chunked, "zz\r\nhello\r\n"),
        (chunked, "5\r\nhelloXX0\r\n\r\n"),
        (chunked, "-5\r\nhello\r\n"),
        (chunked, "11111111111111111\r\nhello\r\n"),
        (chunked, "5\r\nhello\r\n"),
        (chunked, ""),
        ("Content-Length: 10", "hello"),
    ] {
        let request = format!("POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\n{headers}\r\n\r\n{body}");
        let asked = async {
            let mut client = proxy.dial().await;
            client.send(request.as_bytes()).await;
            // What was not sent by now does not come.
            client.0.shutdown().await.unwrap();
            client.answer().await
        };
        // The host hears the request out, and has nothing to say before its end.
        let (answer, ()) = tokio::join!(asked, async {
            stand_in.accept().await.rest().await;
        });
        answer.refused(400, "bad_body", &["good.example"]);
    }
    let log = proxy.log(&app).await;
    assert!(log.iter().all(|line| line["decision"] == "refused" && line["code"] == "bad_body"), "{log:?}");
}

fn impatient(config: &mut Config) {
    open_loopback(config);
    config.egress.idle_timeout = Duration::from_millis(300);
}

#[tokio::test]
async fn who_keeps_the_other_side_waiting_is_named() {
    let app = App::start_with(On::Sqlite, impatient).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    for (body, status, code) in [("hel", 408, "body_too_slow"), ("hello", 504, "idle_timeout")] {
        let request =
            format!("POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nContent-Length: 5\r\n\r\n{body}");
        let (answer, _) = tokio::join!(proxy.ask(&request), async { stand_in.accept().await.rest().await });
        answer.refused(status, code, &["egress.idle_timeout"]);
    }
}

#[tokio::test]
async fn a_host_that_stops_reading_a_body_is_named_and_not_the_client() {
    let app = App::start_with(On::Sqlite, impatient).await;
    let (mut proxy, stand_in, target) = with_stand_in(&app).await;
    let mut client = proxy.dial().await;
    let (part, parts) = (vec![b'x'; 1 << 20], 256);
    let length = part.len() * parts;
    let start =
        format!("POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nContent-Length: {length}\r\n\r\n");
    client.send(start.as_bytes()).await;
    let _host = stand_in.accept().await;
    let (mut read, mut write) = client.0.split();
    let body = async { while write.write_all(&part).await.is_ok() {} };
    let mut answer = Vec::new();
    let _ = tokio::join!(body, read.read_to_end(&mut answer));
    Answer(String::from_utf8_lossy(&answer).into_owned()).refused(
        504,
        "idle_timeout",
        &["egress.idle_timeout"],
    );
    assert_eq!(proxy.log(&app).await[0]["code"], "idle_timeout");
}
