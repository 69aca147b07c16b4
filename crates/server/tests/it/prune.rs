//! What is left of ended sandboxes: how long it stays, and what goes when there is too much of it.

use std::time::Duration;

use omoi_protocol::SandboxId;
use serde_json::{Value, json};

use crate::{
    app::{App, unique},
    on_both,
};

const MIB: u64 = 1 << 20;
const NODE: &str = "node-1";

/// A sandbox that has ended on this machine and whose work is kept.
async fn ended(app: &App, bytes: u64) -> SandboxId {
    let id = live(app).await;
    app.post(&format!("/api/v1/sandboxes/{id}/terminate"), json!({})).await.expect(200);
    app.store().place_kept(&id, Default::default(), bytes).await.unwrap();
    app.advance(Duration::from_secs(60)).await;
    id
}

async fn live(app: &App) -> SandboxId {
    let body = json!({ "name": unique("project"), "repository_url": "/nowhere" });
    let project = app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/projects/{project}/sandboxes");
    let made = app.post(&path, json!({ "command": ["true"] })).await.expect(202);
    let id: SandboxId = made["id"].as_str().unwrap().parse().unwrap();
    assert!(app.store().place_take(&id, NODE, 100).await.unwrap());
    app.store().place_up(&id, json!({})).await.unwrap();
    id
}

/// Those that the loop of places removes next, with their reasons.
async fn going(app: &App) -> Vec<(SandboxId, String)> {
    let rows = app.store().place_list(NODE, 100).await.unwrap();
    rows.into_iter().filter_map(|row| Some((row.id, row.removal?.to_string()))).collect()
}

async fn ask(app: &App, body: Value) -> Vec<(String, String)> {
    let pruned = app.post("/api/v1/sandboxes/prune", body).await.expect(200);
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let items = pruned["items"].as_array().unwrap();
    items.iter().map(|one| (text(one, "sandbox_id"), text(one, "reason"))).collect()
}

fn named(all: &[(&SandboxId, &str)]) -> Vec<(SandboxId, String)> {
    let mut all: Vec<_> = all.iter().map(|(id, why)| ((*id).clone(), (*why).to_owned())).collect();
    all.sort();
    all
}

on_both! {
    |config| {
        config.sandbox.keep_ended = Duration::from_secs(3600);
        config.sandbox.keep_ended_max = 3;
        config.sandbox.keep_ended_bytes_max = 100 << 20;
        config.sandbox.disk_free_min = 1 << 30;
    } =>

    async fn what_is_too_old_too_many_or_too_large_goes_oldest_first_and_what_lives_stays(app: App) {
        let lives = live(&app).await;
        let first = ended(&app, 10 * MIB).await;
        let second = ended(&app, 95 * MIB).await;
        let third = ended(&app, MIB).await;
        assert_eq!(app.store().place_prune(NODE, Some(2 << 30)).await.unwrap(), 1);
        assert_eq!(going(&app).await, named(&[(&first, "disk_use")]));
        assert_eq!(app.store().place_prune(NODE, Some((1 << 30) - 1)).await.unwrap(), 1);
        assert_eq!(going(&app).await, named(&[(&first, "disk_use"), (&second, "disk_free")]));
        assert_eq!(app.store().place_prune(NODE, None).await.unwrap(), 0);
        let more = [ended(&app, 0).await, ended(&app, 0).await, ended(&app, 0).await];
        assert_eq!(app.store().place_prune(NODE, None).await.unwrap(), 1);
        assert_eq!(going(&app).await.iter().filter(|(id, why)| *id == third && why == "too_many").count(), 1);
        app.store().place_prune("another machine", Some(0)).await.unwrap();
        assert_eq!(going(&app).await.len(), 3, "its disk is not ours");
        app.advance(Duration::from_secs(3600)).await;
        assert_eq!(app.store().place_prune(NODE, None).await.unwrap(), more.len());

        for (id, why) in going(&app).await {
            app.store().place_gone(&id).await.unwrap();
            app.store().place_gone(&id).await.unwrap();
            let told = app.told().await;
            let removed: Vec<_> = told.iter().filter(|event| event["event_type"] == "SANDBOX_REMOVED" && event["entity_id"] == json!(id)).collect();
            assert_eq!(removed.len(), 1, "told once");
            assert_eq!(removed[0]["payload"]["reason"], why);
        }
        let shown = app.get(&format!("/api/v1/sandboxes/{lives}")).await.expect(200);
        assert_eq!(shown["place"], "up");
    }

    async fn who_asks_is_told_what_would_go_and_why_by_the_same_rule(app: App) {
        let (first, second) = (ended(&app, 10 * MIB).await, ended(&app, 95 * MIB).await);
        let not_kept = live(&app).await;
        app.post(&format!("/api/v1/sandboxes/{not_kept}/terminate"), json!({})).await.expect(200);
        let would = ask(&app, json!({ "dry_run": true })).await;
        assert_eq!(would, [(first.to_string(), "disk_use".to_owned())]);
        assert_eq!(going(&app).await, [], "nothing was done");
        let all = ask(&app, json!({ "dry_run": true, "older_than_seconds": 0 })).await;
        assert_eq!(all, [(first.to_string(), "age".to_owned()), (second.to_string(), "age".to_owned())]);
        assert_eq!(ask(&app, json!({})).await, would);
        assert_eq!(going(&app).await, named(&[(&first, "disk_use")]));
        assert_eq!(ask(&app, json!({})).await, [], "once");
        let audit = app.get("/api/v1/audit?limit=1").await.expect(200);
        assert_eq!(audit["items"][0]["action"], "sandbox.prune", "{audit}");
    }
}

on_both! {
    async fn what_is_not_to_stay_goes_as_soon_as_it_is_kept(app: App) {
        let id = ended(&app, 0).await;
        assert_eq!(going(&app).await, named(&[(&id, "age")]));
    }
}
