//! Addresses that are refused whatever a list says, in every notation, and names that lead to them.

use serde_json::json;

use super::{Proxy, StandIn, open_loopback, with_stand_in};
use crate::app::{App, On};

#[tokio::test]
async fn private_addresses_are_refused_even_when_they_are_on_the_list() {
    let app = App::start(On::Sqlite).await;
    let listed = [
        "127.0.0.1",
        "169.254.169.254",
        "[::1]",
        "10.0.0.1",
        "localhost",
        "metadata.example",
        "mixed.example",
    ];
    let proxy = Proxy::start(&app, json!({ "egress_allow": listed })).await;
    proxy.names.set("localhost", &[&["::1", "127.0.0.1"]]);
    proxy.names.set("metadata.example", &[&["169.254.169.254"]]);
    proxy.names.set("mixed.example", &[&["198.17.0.1", "10.1.2.3"]]);
    for (target, class) in [
        ("127.0.0.1:443", "loopback"),
        ("127.0.0.1.:443", "loopback"),
        ("localhost:443", "loopback"),
        ("LOCALHOST.:443", "loopback"),
        ("169.254.169.254:80", "link-local"),
        ("[::1]:443", "loopback"),
        ("[0:0:0:0:0:0:0:1]:443", "loopback"),
        ("[::ffff:127.0.0.1]:443", "loopback"),
        ("[::ffff:a9fe:a9fe]:80", "link-local"),
        ("[64:ff9b::7f00:1]:443", "loopback"),
        ("[2002:7f00:1::]:443", "loopback"),
        ("[fe80::1]:443", "link-local"),
        ("[fd00:ec2::254]:80", "private"),
        ("[::]:443", "unspecified"),
        ("0.0.0.0:443", "unspecified"),
        ("10.0.0.1:443", "private"),
        ("100.64.0.1:443", "shared"),
        ("255.255.255.255:443", "broadcast"),
        ("metadata.example:80", "link-local"),
        // One bad address among good ones is enough.
        ("mixed.example:443", "private"),
    ] {
        let answer = proxy.connect(target).await;
        answer.refused(403, "address_refused", &[&format!("a {class} address"), "egress.allow_private"]);
    }
    for request in [
        "GET http://127.0.0.1/latest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        "GET http://metadata.example/latest HTTP/1.1\r\nHost: metadata.example\r\n\r\n",
    ] {
        proxy.ask(request).await.refused(403, "address_refused", &["address"]);
    }
}

#[tokio::test]
async fn odd_notations_of_an_address_are_refused_before_any_rule() {
    let app = App::start_with(On::Sqlite, |config| {
        open_loopback(config);
        config.egress.open_allowed = true;
    })
    .await;
    let proxy = Proxy::start(&app, json!({ "network": "open" })).await;
    for host in [
        "0x7f000001",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "127.0.0.01",
        "0x7f.0.0.1",
        "[::1%25lo]",
        "[::1%lo]",
        "[127.0.0.1]",
        "a@127.0.0.1",
        "*",
        "a..b",
        "exa_mple..com",
        "%31%32%37.0.0.1",
    ] {
        let answer = proxy.connect(&format!("{host}:443")).await;
        assert!(matches!(answer.status(), 400 | 403), "{host}: {}", answer.0);
        assert!(
            matches!(answer.header("x-omoi-refused"), Some("bad_host" | "malformed")),
            "{host}: {}",
            answer.0
        );
    }
    assert_eq!(proxy.names.asked(), 0, "no name server was asked");
}

#[tokio::test]
async fn a_name_is_resolved_once_and_what_was_judged_is_what_is_connected_to() {
    let app = App::start_with(On::Sqlite, |config| {
        // The judged address alone is open; the one that the name changes to would be refused.
        config.egress.allow_private = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    proxy.names.set("good.example", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let _tunnel = proxy.tunnel(&target).await;
    let _host = stand_in.accept().await;
    assert_eq!(proxy.names.asked(), 1);
    // The second request finds the changed name, and is refused.
    proxy.connect(&target).await.refused(403, "address_refused", &["127.0.0.2", "loopback"]);
    assert_eq!(proxy.names.asked(), 2);
    assert!(stand_in.is_untouched());
}

#[tokio::test]
async fn a_name_that_is_not_allowed_is_never_looked_up() {
    let app = App::start_with(On::Sqlite, open_loopback).await;
    let (proxy, stand_in, target) = with_stand_in(&app).await;
    proxy.connect("secret-in-a-name.evil.example:443").await.refused(
        403,
        "not_listed",
        &["secret-in-a-name.evil.example", "add it to the project's egress_allow"],
    );
    proxy.connect("good.example:9").await.refused(403, "port_not_allowed", &["port 9 of good.example"]);
    assert_eq!(proxy.names.asked(), 0);
    let _tunnel = proxy.tunnel(&target).await;
    assert!(!stand_in.is_untouched());
}

#[tokio::test]
async fn the_control_plane_is_not_reached_through_the_proxy() {
    let app = App::start_with(On::Sqlite, |config| {
        open_loopback(config);
        config.server.public_url = Some("https://omoi.example".to_owned());
    })
    .await;
    let port = app.base.rsplit_once(':').unwrap().1.to_owned();
    let stand_in = StandIn::start().await;
    let allow = [
        format!("127.0.0.1:{port}"),
        format!("api.example:{port}"),
        "omoi.example".to_owned(),
        format!("127.0.0.1:{}", stand_in.port),
    ];
    let proxy = Proxy::start(&app, json!({ "egress_allow": allow })).await;
    proxy.names.set("api.example", &[&["127.0.0.1"]]);
    proxy.names.set("omoi.example", &[&["198.17.0.1"]]);
    for target in [format!("127.0.0.1:{port}"), format!("api.example:{port}"), "omoi.example:443".to_owned()]
    {
        proxy.connect(&target).await.refused(403, "control_plane", &["is the control plane itself"]);
    }
    let _tunnel = proxy.tunnel(&format!("127.0.0.1:{}", stand_in.port)).await;
}
