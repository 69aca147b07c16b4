//! A project's settings: what they may say, and that a change takes effect while the proxy runs.

use omoi_server::config::Config;
use serde_json::json;

use super::{Proxy, StandIn, head, open_loopback, with_stand_in};
use crate::{
    app::{App, On, eventually},
    on_both,
    work::text,
};

on_both! { |config: &mut Config| open_loopback(config) =>
    async fn settings_that_cannot_be_used_are_refused_by_name(app: App) {
        let project = app.project("parser").await;
        for (settings, code, words) in [
            (json!({ "network": "closed" }), "validation_failed", "settings.network is \"closed\""),
            (json!({ "egress_allow": "crates.io" }), "validation_failed", "settings.egress_allow is no list"),
            (json!({ "egress_allow": ["https://crates.io/"] }), "validation_failed", "\"https://crates.io/\" is a URL"),
            (json!({ "egress_allow": ["*"] }), "validation_failed", "\"*\" is too wide"),
            (json!({ "egress_allow": ["127.1"] }), "validation_failed", "unusual notation"),
            (json!({ "egress_allow": ["crates.io:99999"] }), "validation_failed", "has no port from 1 to 65535"),
            (json!({ "network": "open" }), "open_not_allowed", "egress.open_allowed"),
            (json!({ "git_author_name": " " }), "validation_failed", "settings.git_author_name is"),
            (json!({ "git_author_email": "ada" }), "validation_failed", "write it as name@example.com"),
        ] {
            let new = app.post("/api/v1/projects", json!({ "name": "printer", "settings": settings })).await;
            assert!(text(&new.refused(422, code)["detail"]).contains(words), "{settings}");
            let path = format!("/api/v1/projects/{project}");
            let patch = app.patch(&path, json!({ "settings": settings })).await;
            assert!(text(&patch.refused(422, code)["detail"]).contains(words), "{settings}");
        }
        let settings = json!({ "network": "allow_list", "egress_allow": ["crates.io", "*.example.com", "a.example:22"] });
        let made = app.post("/api/v1/projects", json!({ "name": "printer", "settings": settings })).await.expect(201);
        assert_eq!(made["settings"], settings, "kept as written");
    }

    async fn a_change_of_the_list_takes_effect_while_the_proxy_runs(app: App) {
        let (proxy, stand_in, target) = with_stand_in(&app).await;
        let _stand_in = stand_in.hang_up();
        let answers = async |start: &str| {
            eventually(async || {
                let mut client = proxy.dial().await;
                client.send(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).await;
                Some(head(&mut client).await).filter(|head| head.starts_with(start))
            })
            .await
        };
        let path = format!("/api/v1/projects/{}", proxy.project);
        answers("HTTP/1.1 200").await;
        app.patch(&path, json!({ "settings": { "network": "none", "egress_allow": [target] } })).await.expect(200);
        let refused = answers("HTTP/1.1 403").await;
        assert!(refused.contains("X-Omoi-Refused: no_network"), "{refused}");
        app.patch(&path, json!({ "settings": { "egress_allow": [target] } })).await.expect(200);
        answers("HTTP/1.1 200").await;
    }

    async fn settings_spoilt_behind_our_back_allow_nothing(app: App) {
        let (proxy, _stand_in, target) = with_stand_in(&app).await;
        let spoilt = format!(r#"{{"egress_allow":"{target}"}}"#);
        app.sql(&format!("UPDATE projects SET settings = '{spoilt}' WHERE id = '{}'", proxy.project)).await;
        proxy.connect(&target).await.refused(403, "settings_invalid", &["settings.egress_allow is no list"]);
    }
}

#[tokio::test]
async fn an_open_network_reaches_every_public_host_on_the_usual_ports_where_that_is_allowed() {
    let stand_in = StandIn::start().await;
    let app = App::start_with(On::Sqlite, |config| {
        open_loopback(config);
        config.egress.open_allowed = true;
        config.egress.ports = vec![stand_in.port];
    })
    .await;
    let proxy = Proxy::start(&app, json!({ "network": "open" })).await;
    proxy.names.set("any.example", &[&["127.0.0.1"]]);
    proxy.names.set("inner.example", &[&["10.0.0.1"]]);
    let _tunnel = proxy.tunnel(&format!("any.example:{}", stand_in.port)).await;
    proxy.connect("any.example:25").await.refused(403, "port_not_allowed", &["port 25 of any.example"]);
    let inner = format!("inner.example:{}", stand_in.port);
    proxy.connect(&inner).await.refused(403, "address_refused", &["10.0.0.1", "a private address"]);
}

#[tokio::test]
async fn a_project_without_a_list_has_the_configured_one() {
    let stand_in = StandIn::start().await;
    let target = format!("good.example:{}", stand_in.port);
    let app = App::start_with(On::Sqlite, |config| {
        open_loopback(config);
        config.egress.allow = vec![target.parse().unwrap()];
    })
    .await;
    let proxy = Proxy::start(&app, json!({})).await;
    proxy.names.set("good.example", &[&["127.0.0.1"]]);
    let _tunnel = proxy.tunnel(&target).await;
    let own = Proxy::start(&app, json!({ "egress_allow": [] })).await;
    own.connect(&target).await.refused(403, "not_listed", &["good.example"]);
}
