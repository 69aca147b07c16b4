//! Tasks that get their sandboxes without anybody asking: which, in what order, and why others wait.

use std::time::Duration;

use omoi_protocol::sandbox::{RESUME_BYTES_MAX, TRANSCRIPT_PART_BYTES_MAX};
use omoi_server::orchestrator::dispatch;
use serde_json::{Value, json};

use crate::{
    app::{App, On, unique},
    on_both,
};

const MANY: usize = 100;

/// A project with a repository, which nobody looks at here.
async fn project(app: &App, more: Value) -> String {
    let mut body = json!({ "name": unique("project"), "repository_url": "/nowhere" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned()
}

async fn dispatched(app: &App) -> usize {
    dispatch(app.store(), MANY).await.unwrap().dispatched
}

async fn waits_for(app: &App, task: &str) -> Value {
    let task = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
    let waiting = task["waiting_for"].clone();
    assert!(waiting.is_null() || !waiting["text"].as_str().unwrap().is_empty());
    waiting["reason"].clone()
}

async fn live(app: &App) -> Vec<Value> {
    let page = app.get("/api/v1/sandboxes?live=true&limit=200").await.expect(200);
    page["items"].as_array().unwrap().clone()
}

/// The sandbox that holds a task ends it well, as its worker would say.
async fn complete(app: &App, task: &str) {
    let task = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
    let id = task["sandbox_id"].as_str().unwrap();
    let sandbox = app.worker_of(id).await;
    app.event(&sandbox, "agent.completed", json!({ "success": true })).await.expect(200);
}

on_both! {
    async fn the_best_task_goes_first_and_its_project_s_limit_holds(app: App) {
        let project = project(&app, json!({ "max_concurrent": 2 })).await;
        let mut tasks = Vec::new();
        for priority in ["LOW", "CRITICAL", "MEDIUM", "HIGH"] {
            tasks.push(app.task(&project, json!({ "priority": priority })).await);
        }
        let [low, critical, medium, high] = &tasks[..] else { unreachable!() };
        assert_eq!(dispatched(&app).await, 2);
        for (task, status) in [(critical, "assigned"), (high, "assigned"), (medium, "pending"), (low, "pending")] {
            assert_eq!(app.task_status(task).await, status);
        }
        assert_eq!(waits_for(&app, medium).await, "project_limit");
        assert_eq!(dispatched(&app).await, 0, "there is no room");

        complete(&app, critical).await;
        assert_eq!(waits_for(&app, medium).await, Value::Null, "it is its turn");
        assert_eq!(dispatched(&app).await, 1);
        assert_eq!((app.task_status(medium).await, app.task_status(low).await), ("assigned".into(), "pending".into()));
        let held = app.get(&format!("/api/v1/tasks/{medium}")).await.expect(200);
        let sandbox = app.get(&format!("/api/v1/sandboxes/{}", held["sandbox_id"].as_str().unwrap())).await.expect(200);
        assert_eq!((&sandbox["place"], &sandbox["provider"], &sandbox["generation"]), (&json!("wanted"), &json!("local"), &json!(1)));
        assert_eq!(sandbox["branch_name"], held["branch_name"]);
    }

    async fn what_waits_says_for_what(app: App) {
        let open = project(&app, json!({})).await;
        let bare = app.project(&unique("bare")).await;
        let closed = project(&app, json!({ "settings": { "autonomous": false } })).await;
        let first = app.task(&open, json!({ "execution_config": { "autonomous": false } })).await;
        let later = app.task(&open, json!({ "dependencies": [&first] })).await;
        let able = app.task(&open, json!({ "required_capabilities": ["gpu"] })).await;
        let homeless = app.task(&bare, json!({})).await;
        let shy = app.task(&closed, json!({})).await;
        assert_eq!(dispatched(&app).await, 0);
        for (task, reason) in [
            (&first, "not_autonomous"),
            (&later, "dependencies"),
            (&able, "capabilities"),
            (&homeless, "no_repository"),
            (&shy, "not_autonomous"),
        ] {
            assert_eq!(waits_for(&app, task).await, reason);
        }
        app.patch(&format!("/api/v1/projects/{open}"), json!({ "archived": true })).await.expect(200);
        assert_eq!(waits_for(&app, &first).await, "archived");
        let listed = app.get(&format!("/api/v1/tasks?project_id={open}")).await.expect(200);
        assert!(listed["items"][0].get("waiting_for").is_none(), "a list does not ask for each");
    }

    async fn a_person_starts_what_dispatch_leaves_alone(app: App) {
        let project = project(&app, json!({ "settings": { "autonomous": false }, "max_concurrent": 1 })).await;
        let forced = app.task(&project, json!({ "execution_config": { "force_execute": true } })).await;
        let shy = app.task(&project, json!({ "priority": "CRITICAL" })).await;
        assert_eq!(dispatched(&app).await, 1, "one says that it is to be done all the same");
        assert_eq!((app.task_status(&forced).await, app.task_status(&shy).await), ("assigned".into(), "pending".into()));

        let start = format!("/api/v1/tasks/{shy}/start");
        let sandbox = app.post(&start, json!({ "memory_gb": 1 })).await.expect(202);
        assert_eq!((&sandbox["task_id"], &sandbox["place"]), (&json!(shy), &json!("wanted")), "over the limit");
        app.post(&start, json!({})).await.refused(409, "task_held");
        app.post(&start, json!({ "task_id": forced })).await.refused(422, "validation_failed");
        for body in [json!({ "provider": "docker" }), json!({ "provider": "external" }), json!({ "memory_gb": 9 }), json!({ "cpu": 5 }), json!({ "disk_gb": 11 })] {
            app.post(&start, body).await.refused(422, "validation_failed");
        }
        app.patch(&format!("/api/v1/tasks/{shy}"), json!({ "execution_config": { "provider": "kubernetes" } })).await.refused(422, "validation_failed");
        app.post("/api/v1/tasks/task-none/start", json!({})).await.expect(404);

        app.patch(&format!("/api/v1/projects/{project}"), json!({ "settings": { "autonomous": "yes" } })).await.refused(422, "validation_failed");
        let switched = json!({ "settings": { "autonomous": true }, "max_concurrent": 9 });
        app.patch(&format!("/api/v1/projects/{project}"), switched).await.expect(200);
        let next = app.task(&project, json!({})).await;
        assert_eq!(dispatched(&app).await, 1, "the switch counts at once");
        assert_eq!(app.task_status(&next).await, "assigned");
    }

    async fn nobody_starts_anything_in_a_paused_project(app: App) {
        let project = project(&app, json!({})).await;
        let task = app.task(&project, json!({})).await;
        let spec = json!({ "project_id": project, "title": "log in", "description": "with a password" });
        let spec = app.post("/api/v1/specs", spec).await.expect(201);
        let hold = json!({ "project_id": project, "reason": "a release" });
        app.post("/api/v1/guardian/intervention/pause", hold.clone()).await.expect(201);
        let asked = [
            format!("/api/v1/tasks/{task}/start"),
            format!("/api/v1/projects/{project}/sandboxes"),
            format!("/api/v1/specs/{}/execute", spec["id"].as_str().unwrap()),
        ];
        for path in &asked {
            app.post(path, json!({})).await.refused(409, "project_paused");
        }
        assert!(live(&app).await.is_empty());
        app.post("/api/v1/guardian/intervention/resume", hold).await.expect(201);
        for path in &asked {
            app.post(path, json!({})).await.expect(202);
        }
        let of_project = app.get(&format!("/api/v1/sandboxes?live=true&project_id={project}")).await.expect(200);
        assert_eq!((live(&app).await.len(), of_project["items"].as_array().unwrap().len()), (3, 3));
    }

    async fn two_at_once_give_each_task_one_sandbox(app: App) {
        let project = project(&app, json!({ "max_concurrent": 50 })).await;
        let mut tasks = Vec::new();
        for _ in 0..12 {
            tasks.push(app.task(&project, json!({})).await);
        }
        let (one, other, third) = tokio::join!(dispatched(&app), dispatched(&app), dispatched(&app));
        assert_eq!(one + other + third, 8, "dispatch.max_live");
        let mut held: Vec<String> = live(&app).await.iter().map(|s| s["task_id"].to_string()).collect();
        held.sort();
        held.dedup();
        assert_eq!(held.len(), 8);
        let waiting = app.get("/api/v1/tasks?status=pending").await.expect(200);
        let left = waiting["items"][0]["id"].as_str().unwrap().to_owned();
        assert_eq!(waits_for(&app, &left).await, "global_limit");
    }

    async fn a_task_that_cannot_be_started_stands_in_nobody_s_way(app: App) {
        let project = project(&app, json!({})).await;
        let first = app.task(&project, json!({ "execution_config": { "autonomous": false } })).await;
        let started = app.post(&format!("/api/v1/tasks/{first}/start"), json!({})).await.expect(202);
        let sandbox = app.worker_of(started["id"].as_str().unwrap()).await;
        let append = async |offset: usize, bytes: usize| {
            let data_b64 = "AAAA".repeat(bytes / 3);
            app.post_as(&sandbox, "/transcript", json!({ "session_id": "s", "offset": offset, "data_b64": data_b64 })).await.expect(200)
        };
        append(0, 3).await;
        let bad = json!({ "priority": "CRITICAL", "execution_config": { "resume_session_id": "s" } });
        let bad = app.task(&project, bad).await;
        // The session grows to more than a launch may carry.
        let part = TRANSCRIPT_PART_BYTES_MAX / 3 * 3;
        for n in 0..=RESUME_BYTES_MAX / part {
            append(3 + n * part, part).await;
        }
        let good = app.task(&project, json!({})).await;
        dispatched(&app).await;
        assert_eq!(app.task_status(&bad).await, "cancelled");
        assert_eq!(app.task_status(&good).await, "assigned");
    }

    async fn a_retry_goes_on_with_what_was_cut_off_and_begins_afresh_after_a_mistake(app: App) {
        let project = project(&app, json!({})).await;
        let task = app.task(&project, json!({ "max_retries": 5 })).await;
        for (event, resumes, feedback) in [
            (json!({ "error": "no memory", "failure_kind": "out_of_memory" }), true, "no memory"),
            (json!({ "error": "the tests fail", "failure_kind": "checks" }), false, "the tests fail"),
            (json!({ "error": "gone wrong" }), false, "gone wrong"),
        ] {
            assert_eq!(dispatched(&app).await, 1);
            let id = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200)["sandbox_id"].as_str().unwrap().to_owned();
            let sandbox = app.worker_of(&id).await;
            app.post_as(&sandbox, "/transcript", json!({ "session_id": &id, "offset": 0, "data_b64": "AAAA" })).await.expect(200);
            app.event(&sandbox, "agent.failed", event).await.expect(200);
            assert_eq!(waits_for(&app, &task).await, "not_before");
            app.advance(Duration::from_secs(60)).await;
            assert_eq!(waits_for(&app, &task).await, "keeping");
            assert_eq!(dispatched(&app).await, 0, "its work is not kept yet");
            app.store().place_kept(&id.parse().unwrap(), Default::default(), 0).await.unwrap();

            assert_eq!(dispatched(&app).await, 1);
            let next = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200)["sandbox_id"].as_str().unwrap().to_owned();
            let facts = app.store().place_facts(&next.parse().unwrap()).await.unwrap();
            assert_eq!(facts.wish.resume_session_id, resumes.then_some(id));
            assert_eq!(facts.before.feedback.as_deref(), Some(feedback));
            app.post(&format!("/api/v1/tasks/{task}/cancel"), json!({})).await.expect(200);
            app.store().place_kept(&next.parse().unwrap(), Default::default(), 0).await.unwrap();
            app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        }
    }

    async fn checks_begin_while_what_the_work_left_is_still_being_kept(app: App) {
        let checks = json!([{ "name": "tests", "command": "make test" }]);
        let project = project(&app, json!({ "settings": { "checks": checks } })).await;
        let task = app.task(&project, json!({ "max_retries": 1 })).await;
        assert_eq!(dispatched(&app).await, 1);
        let first = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200)["sandbox_id"].clone();
        complete(&app, &task).await;
        assert_eq!(waits_for(&app, &task).await, json!(null));
        assert_eq!(dispatched(&app).await, 1);
        let shown = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
        assert_eq!((&shown["status"], &shown["stage"]), (&json!("assigned"), &json!("check")));
        assert_ne!(shown["sandbox_id"], first);
        // Once there is work again, it waits for what both have left.
        let sandbox = app.worker_of(shown["sandbox_id"].as_str().unwrap()).await;
        let failed = json!({ "error": "they fail", "failure_kind": "checks" });
        app.event(&sandbox, "agent.failed", failed).await.expect(200);
        app.advance(Duration::from_secs(60)).await;
        assert_eq!(waits_for(&app, &task).await, "keeping");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_database_give_each_task_one_sandbox() {
    let app = App::start(On::Postgres).await;
    let beside = app.beside().await;
    let project = project(&app, json!({ "max_concurrent": 50 })).await;
    for _ in 0..12 {
        app.task(&project, json!({})).await;
    }
    let (one, other) = tokio::join!(dispatched(&app), dispatched(&beside));
    assert_eq!(one + other, 8);
    assert_eq!(live(&app).await.len(), 8);
}
