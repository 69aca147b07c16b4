//! Restart is boring: what was stored is there, what was under way goes on, and nothing is made twice.

use omoi_server::orchestrator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{App, On},
    work::{LEASE, MINUTE, SECOND, text},
};

/// `on_both!` hands out an app that cannot be restarted.
macro_rules! restarted_on_both {
    ($(async fn $name:ident($app:ident: App) $body:block)*) => {$(
        mod $name {
            use super::*;

            async fn run(mut $app: App) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                run(App::start(On::Sqlite).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                run(App::start(On::Postgres).await).await;
            }
        }
    )*};
}

async fn everything(app: &App, sandbox: &str, task: &str) -> Vec<Value> {
    let mut shown = Vec::new();
    for path in [
        "/api/v1/projects".to_owned(),
        "/api/v1/tickets".to_owned(),
        "/api/v1/tasks".to_owned(),
        "/api/v1/agents".to_owned(),
        "/api/v1/tokens".to_owned(),
        "/api/v1/audit".to_owned(),
        "/api/v1/audit/verify".to_owned(),
        "/api/v1/sandboxes".to_owned(),
        format!("/api/v1/sandboxes/{sandbox}/events"),
        format!("/api/v1/sandboxes/{sandbox}/trajectory"),
        format!("/api/v1/sandboxes/{sandbox}/messages?history=true"),
        format!("/api/v1/tasks/{task}/dependencies"),
        format!("/api/v1/results?task_id={task}"),
    ] {
        shown.push(app.get(&path).await.expect(200));
    }
    shown
}

restarted_on_both! {
    async fn a_restart_keeps_everything(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({})).await;
        let task = text(&ticket["task_id"]);
        app.task(&project, json!({ "dependencies": [task] })).await;
        let sandbox = app.claimed(&app.agent(&["rust"]).await).await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        let message = json!({ "content": "hello", "message_type": "user_message" });
        app.post(&format!("/api/v1/sandboxes/{}/messages", sandbox.id), message).await.expect(200);
        let result = json!({ "task_id": task, "result_type": "fix", "summary": "s", "content": "c" });
        app.call(Method::POST, "/api/v1/results", &sandbox.token, Some(&result)).await.expect(201);
        app.operator("ada", "viewer").await;

        let before = everything(&app, &sandbox.id, &task).await;
        for _ in 0..3 {
            app.restart().await;
            assert_eq!(everything(&app, &sandbox.id, &task).await, before);
        }
    }

    async fn tokens_open_the_same_doors_after_a_restart(app: App) {
        let viewer = app.operator("viewer", "viewer").await;
        let gone = app.post("/api/v1/tokens", json!({ "name": "gone", "role": "admin" })).await.expect(201);
        app.delete(&format!("/api/v1/tokens/{}", text(&gone["id"]))).await.expect(200);
        let sandbox = app.sandbox_with_task().await;
        let cancelled = app.sandbox_with_task().await;
        app.cancel(cancelled.task.as_ref().unwrap()).await;

        app.restart().await;
        app.get("/api/v1/tokens").await.expect(200);
        app.call(Method::GET, "/api/v1/projects", &viewer, None).await.expect(200);
        app.call(Method::GET, "/api/v1/tokens", &viewer, None).await.refused(403, "role_too_low");
        app.call(Method::GET, "/api/v1/projects", &text(&gone["secret"]), None).await.refused(401, "token_wrong");
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        app.event(&cancelled, "agent.started", json!({})).await.refused(401, "token_ended");
    }

    async fn a_second_start_makes_no_token(app: App) {
        let before = app.pages("/api/v1/tokens", 10).await;
        assert_eq!((before.len(), &before[0]["name"]), (1, &json!("first")));
        app.restart().await;
        assert_eq!(app.pages("/api/v1/tokens", 10).await, before);
        // Even when the first one has been revoked: somebody chose that.
        let admin = app.operator("admin", "admin").await;
        app.delete(&format!("/api/v1/tokens/{}", text(&before[0]["id"]))).await.expect(200);
        app.token = admin;
        app.restart().await;
        assert_eq!(app.pages("/api/v1/tokens", 10).await.len(), 2);
    }

    async fn a_worker_goes_on_where_it_was(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let numbered = |n: i64, kind: &str| json!({ "event_type": kind, "event_data": { "n": n }, "worker_seq": n });
        app.post_as(&sandbox, "/events", numbered(1, "agent.started")).await.expect(200);
        let second = app.post_as(&sandbox, "/events", numbered(2, "agent.message")).await.expect(200);

        app.restart().await;
        let repeated = app.post_as(&sandbox, "/events", numbered(2, "agent.message")).await.expect(200);
        assert_eq!(repeated, second, "a repeat is known across the restart");
        let gap = app.post_as(&sandbox, "/events", numbered(4, "agent.message")).await.refused(409, "sequence_gap");
        assert_eq!(gap["expected"], 3);
        let third = app.post_as(&sandbox, "/events", numbered(3, "agent.completed")).await.expect(200);
        assert_eq!((&third["seq"], &third["refused"]), (&json!(3), &json!(null)));
        assert_eq!(app.task_status(&task).await, "completed");
    }

    async fn a_server_that_was_down_hears_out_whoever_held_a_lease_before_it_acts(app: App) {
        let silent = app.sandbox_with_task().await;
        let talking = app.sandbox_with_task().await;
        app.clock.advance((LEASE + SECOND).try_into().unwrap());
        app.restart().await;
        orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!(app.task_status(silent.task.as_ref().unwrap()).await, "assigned", "it could not be heard");
        for _ in 0..4 {
            app.event(&talking, "agent.heartbeat", json!({})).await.expect(200);
            app.clock.advance((LEASE / 4).try_into().unwrap());
            orchestrator::attend(app.store(), "here").await.unwrap();
        }
        assert_eq!(app.task_status(silent.task.as_ref().unwrap()).await, "pending");
        assert_eq!(app.task_status(talking.task.as_ref().unwrap()).await, "assigned", "it had only to speak");
        app.advance(MINUTE).await;
        let claim = app.claim(&app.agent(&[]).await).await.unwrap();
        assert_eq!((&claim["task"]["id"], &claim["sandbox"]["generation"]), (&json!(silent.task), &json!(2)));
    }

    async fn numbers_and_positions_go_on_from_where_they_were(app: App) {
        let project = app.project("parser").await;
        app.ticket(&project, json!({})).await;
        let before = app.told().await;
        app.restart().await;
        assert_eq!(app.ticket(&project, json!({})).await["number"], 2);
        let after = app.told().await;
        assert_eq!(after[..before.len()], before, "the past has not changed");
        let positions: Vec<_> = after.iter().map(|event| event["position"].as_i64().unwrap()).collect();
        assert_eq!(positions, (1..=positions.len() as i64).collect::<Vec<_>>());
    }

    async fn work_is_claimed_in_the_same_order_after_a_restart(app: App) {
        let project = app.project("parser").await;
        let mut tasks = Vec::new();
        for priority in ["LOW", "CRITICAL", "MEDIUM"] {
            tasks.push(app.task(&project, json!({ "priority": priority })).await);
        }
        let agent = app.agent(&[]).await;
        let mut order = Vec::new();
        for _ in 0..3 {
            app.restart().await;
            order.push(app.claimed(&agent).await.task.unwrap());
        }
        assert_eq!(order, [tasks[1].clone(), tasks[2].clone(), tasks[0].clone()]);
    }
}
