//! Sandboxes whose work cannot be kept: how long a task waits for one, what a person can decide, and what is never removed.

use std::time::Duration;

use omoi_protocol::{SandboxId, sandbox::Kept};
use omoi_server::orchestrator::dispatch;
use serde_json::{Value, json};

use crate::{
    app::{App, unique},
    on_both,
};

const NODE: &str = "node-1";
const BASE: &str = "1111111111111111111111111111111111111111";
const KEPT: &str = "2222222222222222222222222222222222222222";
const REFUSED: &str = "the push of refs/preserved is refused: too large";

async fn project(app: &App) -> String {
    let body = json!({ "name": unique("project"), "repository_url": "/nowhere" });
    app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned()
}

/// A sandbox on this machine for a person, with a work tree.
async fn up(app: &App) -> SandboxId {
    let path = format!("/api/v1/projects/{}/sandboxes", project(app).await);
    let made = app.post(&path, json!({ "command": ["true"] })).await.expect(202);
    let id: SandboxId = made["id"].as_str().unwrap().parse().unwrap();
    make(app, &id).await;
    id
}

async fn make(app: &App, id: &SandboxId) {
    assert!(app.store().place_take(id, NODE, 100).await.unwrap());
    app.store().place_set_base(id, BASE).await.unwrap();
    app.store().place_up(id, json!({})).await.unwrap();
}

async fn terminate(app: &App, id: &SandboxId) {
    app.post(&format!("/api/v1/sandboxes/{id}/terminate"), json!({})).await.expect(200);
}

/// The sandbox of the task's newest attempt, which dispatch has just ordered.
async fn dispatched(app: &App, task: &str) -> SandboxId {
    assert_eq!(dispatch(app.store(), 10).await.unwrap().dispatched, 1);
    let shown = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
    shown["sandbox_id"].as_str().unwrap().parse().unwrap()
}

/// Its worker says that the attempt failed, and the wait before the retry is over.
async fn fail(app: &App, id: &SandboxId) {
    let sandbox = app.worker_of(id.as_str()).await;
    app.event(&sandbox, "agent.failed", json!({ "error": "gone wrong" })).await.expect(200);
    app.advance(Duration::from_secs(60)).await;
}

async fn waits_for(app: &App, task: &str) -> Value {
    app.get(&format!("/api/v1/tasks/{task}")).await.expect(200)["waiting_for"]["reason"].clone()
}

async fn shown(app: &App, id: &SandboxId) -> Value {
    app.get(&format!("/api/v1/sandboxes/{id}")).await.expect(200)
}

async fn unkept(app: &App) -> Vec<Value> {
    let page = app.get("/api/v1/sandboxes?unkept=true").await.expect(200);
    page["items"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
}

async fn decide(app: &App, id: &SandboxId, what: &str) -> crate::app::Answer {
    app.post(&format!("/api/v1/sandboxes/{id}/{what}"), json!({})).await
}

on_both! {
    async fn a_task_goes_on_without_work_that_could_not_be_kept_and_is_told_so(app: App) {
        let project = project(&app).await;
        let task = app.task(&project, json!({ "max_retries": 5 })).await;
        let first = dispatched(&app, &task).await;
        make(&app, &first).await;
        fail(&app, &first).await;
        app.store().place_rescue_again(&first, REFUSED, Duration::from_secs(2)).await.unwrap();
        assert_eq!(waits_for(&app, &task).await, "keeping", "one failure may pass");
        let rescue = shown(&app, &first).await["rescue"].clone();
        assert_eq!((&rescue["tries"], &rescue["error"]), (&json!(1), &json!(REFUSED)));
        assert!(rescue["next_at"].is_string(), "{rescue}");

        app.store().place_unkept(&first, REFUSED, 4096).await.unwrap();
        let after = shown(&app, &first).await;
        assert_eq!((&after["place"], &after["status"]), (&json!("unkept"), &json!("failed")));
        assert_eq!(after["rescue"], json!({ "tries": 2, "error": REFUSED, "next_at": null, "disk_bytes": 4096 }));
        assert_eq!(waits_for(&app, &task).await, json!(null));
        let second = dispatched(&app, &task).await;
        let facts = app.store().place_facts(&second).await.unwrap();
        let notice = facts.before.notice().unwrap();
        for part in ["gone wrong", REFUSED, first.as_str(), "omoi sandbox rescue", "is not kept"] {
            assert!(notice.contains(part), "{part:?} is missing in {notice:?}");
        }

        assert_eq!(unkept(&app).await, [json!(first)]);
        let dashboard = app.get("/api/v1/monitor/dashboard").await.expect(200);
        assert_eq!(dashboard["unkept_sandboxes"], 1);
        let told = app.told().await;
        assert!(told.iter().any(|event| event["event_type"] == "SANDBOX_UNKEPT" && event["entity_id"] == json!(first)));
    }

    async fn work_that_is_kept_in_part_goes_on_and_its_loss_is_named_until_a_person_decides(app: App) {
        let project = project(&app).await;
        let task = app.task(&project, json!({ "max_retries": 5 })).await;
        let first = dispatched(&app, &task).await;
        make(&app, &first).await;
        fail(&app, &first).await;
        let kept: Kept = serde_json::from_value(json!({
            "kept": true, "ref": format!("refs/preserved/{first}"), "commit": KEPT, "files": 3,
            "set_aside": { "ref": format!("refs/set-aside/{first}"), "commit": BASE, "files": 1 },
            "left_out": [{ "path": "big.bin", "bytes": 157_286_400, "reason": "it is larger than a push" }],
            "left_out_files": 2, "left_out_bytes": 157_286_410,
        })).unwrap();
        let loss = kept.loss().expect("something was left out");
        assert_eq!(loss, "2 items could not be kept: big.bin (157286400 bytes): it is larger than a push; and 1 more");
        app.store().place_kept_in_part(&first, kept, &loss, 4096).await.unwrap();

        let after = shown(&app, &first).await;
        assert_eq!((&after["place"], &after["kept"]["left_out"][0]["path"]), (&json!("unkept"), &json!("big.bin")));
        assert_eq!(after["rescue"], json!({ "tries": 1, "error": loss, "next_at": null, "disk_bytes": 4096 }));
        assert_eq!(unkept(&app).await, [json!(first)]);
        for event_type in ["sandbox.preserved", "sandbox.unkept"] {
            let path = format!("/api/v1/sandboxes/{first}/events?event_type={event_type}");
            let told = app.get(&path).await.expect(200)["events"][0]["event_data"].clone();
            assert_eq!((&told["left_out_files"], &told["left_out"][0]["bytes"]), (&json!(2), &json!(157_286_400)));
        }

        let second = dispatched(&app, &task).await;
        let before = app.store().place_facts(&second).await.unwrap().before;
        assert_eq!(before.commit.as_deref(), Some(KEPT), "the next attempt goes on from what was kept");
        let notice = before.notice().unwrap();
        for part in ["gone wrong", "except for what could not be kept", "big.bin", "omoi sandbox discard"] {
            assert!(notice.contains(part), "{part:?} is missing in {notice:?}");
        }

        app.store().place_gone(&first).await.unwrap();
        assert_eq!(shown(&app, &first).await["place"], "unkept", "nothing is removed before a person decides");
        decide(&app, &first, "discard").await.expect(200);
        app.store().place_gone(&first).await.unwrap();
        let gone = shown(&app, &first).await;
        assert_eq!((&gone["place"], &gone["kept"]["commit"]), (&json!("gone"), &json!(KEPT)));
        decide(&app, &first, "rescue").await.refused(409, "nothing_to_decide");
    }

    async fn what_is_not_kept_is_removed_by_nothing_but_a_person_s_discard_which_names_the_loss(app: App) {
        let id = up(&app).await;
        terminate(&app, &id).await;
        app.store().place_unkept(&id, REFUSED, 4096).await.unwrap();
        app.advance(Duration::from_secs(1_000_000)).await;
        app.store().place_prune(NODE, Some(0)).await.unwrap();
        let pruned = app.post("/api/v1/sandboxes/prune", json!({ "older_than_seconds": 0 })).await.expect(200);
        assert_eq!(pruned["items"], json!([]));
        app.store().place_gone(&id).await.unwrap();
        assert_eq!(shown(&app, &id).await["place"], "unkept");
        assert!(app.store().place_list(NODE, 10).await.unwrap().is_empty(), "the loop has nothing to do with it");

        decide(&app, &id, "discard").await.expect(200);
        let events = app.get(&format!("/api/v1/sandboxes/{id}/events?event_type=sandbox.discarded")).await.expect(200);
        let loss = &events["events"][0]["event_data"];
        assert_eq!((&loss["error"], &loss["base_commit"], &loss["disk_bytes"]), (&json!(REFUSED), &json!(BASE), &json!(4096)));
        assert!(loss["branch_name"].as_str().unwrap().starts_with("sandbox/"), "{loss}");
        let audit = app.get("/api/v1/audit?limit=1").await.expect(200);
        assert_eq!(audit["items"][0]["action"], "sandbox.discard", "{audit}");
        let rows = app.store().place_list(NODE, 10).await.unwrap();
        assert_eq!(rows.iter().map(|row| (&row.id, row.place.as_str())).collect::<Vec<_>>(), [(&id, "discarded")]);
        assert_eq!(unkept(&app).await, [json!(null); 0]);
        app.store().place_gone(&id).await.unwrap();
        assert_eq!(shown(&app, &id).await["place"], "gone");
        decide(&app, &id, "discard").await.refused(409, "nothing_to_decide");
        decide(&app, &id, "rescue").await.refused(409, "nothing_to_decide");
    }

    async fn only_an_ended_sandbox_that_is_not_kept_is_decided_about(app: App) {
        let (live, keeping, kept) = (up(&app).await, up(&app).await, up(&app).await);
        terminate(&app, &keeping).await;
        terminate(&app, &kept).await;
        app.store().place_kept(&kept, Default::default(), 0).await.unwrap();
        let elsewhere: SandboxId = app.sandbox().await.id.parse().unwrap();
        for what in ["discard", "rescue"] {
            decide(&app, &live, what).await.refused(409, "sandbox_live");
            decide(&app, &elsewhere, what).await.refused(409, "sandbox_live");
            decide(&app, &keeping, what).await.refused(409, "nothing_to_decide");
            decide(&app, &kept, what).await.refused(409, "nothing_to_decide");
            decide(&app, &"sbx-none".parse().unwrap(), what).await.refused(404, "sandbox_not_found");
        }
        // While tries go on, a person can have the next one now and discard nothing.
        app.store().place_rescue_again(&keeping, REFUSED, Duration::from_secs(300)).await.unwrap();
        decide(&app, &keeping, "discard").await.refused(409, "nothing_to_decide");
        decide(&app, &keeping, "rescue").await.expect(200);
        let row = app.store().place_list(NODE, 10).await.unwrap().into_iter().find(|row| row.id == keeping).unwrap();
        assert_eq!((row.due_at, row.rescue_tries), (None, 1));
    }

    async fn a_rescue_that_a_person_asks_for_has_all_its_tries_again_and_clears_the_problem(app: App) {
        let id = up(&app).await;
        terminate(&app, &id).await;
        app.store().place_rescue_again(&id, REFUSED, Duration::from_secs(2)).await.unwrap();
        app.store().place_unkept(&id, REFUSED, 1).await.unwrap();
        assert_eq!(shown(&app, &id).await["place_error"], REFUSED);
        decide(&app, &id, "rescue").await.expect(200);
        let row = app.store().place_list(NODE, 10).await.unwrap().into_iter().find(|row| row.id == id).unwrap();
        assert_eq!((row.place.as_str(), row.rescue_tries, row.due_at), ("up", 0, None));
        app.store().place_kept(&id, Default::default(), 0).await.unwrap();
        let after = shown(&app, &id).await;
        assert_eq!((&after["place"], &after["place_error"], &after["rescue"]), (&json!("kept"), &json!(null), &json!(null)));
    }

    async fn a_failed_rescue_does_not_hide_why_the_attempt_failed(app: App) {
        let id = up(&app).await;
        let crashed = omoi_protocol::FailureKind::Crashed;
        app.store().place_failed(&id, crashed, "the worker ended with code 3").await.unwrap();
        app.store().place_rescue_again(&id, REFUSED, Duration::from_secs(2)).await.unwrap();
        let after = shown(&app, &id).await;
        assert_eq!((&after["place_error"], &after["rescue"]["error"]), (&json!("the worker ended with code 3"), &json!(REFUSED)));
    }

    async fn a_task_does_not_wait_for_a_terminated_sandbox_whose_rescue_fails(app: App) {
        let project = project(&app).await;
        let task = app.task(&project, json!({ "max_retries": 5 })).await;
        let first = dispatched(&app, &task).await;
        make(&app, &first).await;
        fail(&app, &first).await;
        terminate(&app, &first).await;
        assert_eq!(waits_for(&app, &task).await, "keeping", "its rescue has not failed");
        app.store().place_rescue_again(&first, REFUSED, Duration::from_secs(2)).await.unwrap();
        assert_eq!(waits_for(&app, &task).await, json!(null));
        assert_ne!(dispatched(&app, &task).await, first);
    }

    async fn an_unkept_sandbox_holds_no_range_of_user_ids_and_gets_its_own_back(app: App) {
        let slot = async |id: &SandboxId| app.store().place_facts(id).await.unwrap().slot;
        let id = up(&app).await;
        let own = slot(&id).await;
        terminate(&app, &id).await;
        app.store().place_unkept(&id, REFUSED, 1).await.unwrap();
        let next = up(&app).await;
        assert_ne!(slot(&next).await, own, "another range is free");
        // Of two ranges both are used, so the third sandbox has the one that nobody uses now.
        let third = {
            let path = format!("/api/v1/projects/{}/sandboxes", project(&app).await);
            let made = app.post(&path, json!({ "command": ["true"] })).await.expect(202);
            made["id"].as_str().unwrap().parse::<SandboxId>().unwrap()
        };
        assert!(app.store().place_take(&third, NODE, 2).await.unwrap());
        assert_eq!(slot(&third).await, own);
        decide(&app, &id, "rescue").await.refused(409, "id_range_in_use");
        assert_eq!(shown(&app, &id).await["place"], "unkept");
    }
}
