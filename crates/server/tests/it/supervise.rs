//! Sandboxes that get nowhere, and such as only seem to.

use std::time::Duration;

use omoi_server::{
    domain::idle::Patience,
    orchestrator::{dispatch, supervise},
};
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, unique},
    on_both,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A sandbox that is on its machine and holds a task.
pub async fn up(app: &App, task: Value) -> Sandbox {
    let body = json!({ "name": unique("project"), "repository_url": "/nowhere" });
    let project = app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned();
    let task = app.task(&project, task).await;
    assert_eq!(dispatch(app.store(), 1).await.unwrap().dispatched, 1);
    let held = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
    let id = held["sandbox_id"].as_str().unwrap().to_owned();
    let sandbox = Sandbox { task: Some(task), ..app.worker_of(&id).await };
    app.store().place_up(&id.parse().unwrap(), json!({})).await.unwrap();
    app.event(&sandbox, "agent.started", json!({})).await.expect(200);
    sandbox
}

/// Minutes pass, in each of which the worker says how it is.
pub async fn pass(app: &App, sandbox: &Sandbox, minutes: u32, beat: impl Fn(u32) -> Value) {
    for minute in 0..minutes {
        app.event(sandbox, "agent.heartbeat", beat(minute)).await.expect(200);
        app.advance(MINUTE).await;
    }
}

pub async fn judged(app: &App) -> (usize, usize) {
    let patience = Patience::configured(&app.config.supervise);
    let report = supervise(app.store(), &app.clock, &patience, Duration::ZERO).await.unwrap();
    (report.idle, report.stuck)
}

pub fn quiet(status: &str) -> impl Fn(u32) -> Value {
    move |_| json!({ "status": status, "cpu_seconds": 3.5, "io_bytes": 4096, "processes": 2 })
}

on_both! {
    async fn a_sandbox_that_works_at_nothing_is_ended_and_its_task_offered_again(app: App) {
        let sandbox = up(&app, json!({})).await;
        app.event(&sandbox, "agent.tool_use", json!({ "tool": "bash" })).await.expect(200);
        pass(&app, &sandbox, 14, quiet("running")).await;
        assert_eq!(judged(&app).await, (0, 0));
        pass(&app, &sandbox, 2, quiet("running")).await;
        assert_eq!(judged(&app).await, (0, 1));
        assert_eq!(judged(&app).await, (0, 0), "once");

        let ended = app.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
        assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("failed"), &json!("stuck_running")));
        let task = app.get(&format!("/api/v1/tasks/{}", sandbox.task.as_ref().unwrap())).await.expect(200);
        assert_eq!((&task["status"], &task["retry_count"]), (&json!("pending"), &json!(1)));
        assert!(task["error_message"].as_str().unwrap().starts_with("stuck_running: "), "{task}");
        let told = app.store().event_after(0, 10_000, usize::MAX).await.unwrap().rows;
        let told = told.iter().find(|row| row.event_type == "SANDBOX_TERMINATED_IDLE").unwrap();
        let told: Value = serde_json::from_str(&told.data).unwrap();
        assert_eq!((&told["reason"], &told["task_id"]), (&json!("stuck_running"), &task["id"]));
        assert!(told["idle_duration_seconds"].as_u64().unwrap() >= 900, "{told}");
    }

    async fn a_long_build_is_left_alone(app: App) {
        let sandbox = up(&app, json!({})).await;
        pass(&app, &sandbox, 60, |minute| json!({ "status": "running", "cpu_seconds": f64::from(minute) * 50.0 })).await;
        assert_eq!(judged(&app).await, (0, 0));
        pass(&app, &sandbox, 60, |minute| {
            json!({ "status": "running", "cpu_seconds": 2950.0, "io_bytes": u64::from(minute) * 10_000_000 })
        }).await;
        assert_eq!(judged(&app).await, (0, 0), "it downloads");
        // What a worker does to say that it lives is no work.
        pass(&app, &sandbox, 16, |minute| {
            json!({ "status": "running", "cpu_seconds": 2950.0 + f64::from(minute) * 0.1, "io_bytes": 590_000_000 + u64::from(minute) * 9_000 })
        }).await;
        assert_eq!(judged(&app).await, (0, 1));
    }

    async fn one_with_nothing_to_do_is_idle_unless_it_waits_for_a_person(app: App) {
        let staying = up(&app, json!({ "execution_config": { "idle_seconds": 1800 } })).await;
        let interrupted = up(&app, json!({})).await;
        let idle = up(&app, json!({})).await;
        app.event(&interrupted, "agent.interrupted", json!({ "reason": "stop" })).await.expect(200);
        for _ in 0..11 {
            for sandbox in [&staying, &interrupted, &idle] {
                app.event(sandbox, "agent.heartbeat", quiet("waiting")(0)).await.expect(200);
            }
            app.advance(MINUTE).await;
        }
        assert_eq!(judged(&app).await, (1, 0));
        let ended = app.get(&format!("/api/v1/sandboxes/{}", idle.id)).await.expect(200);
        assert_eq!(ended["end_reason"], "idle_timeout");
        for minute in 0..29 {
            assert_eq!(judged(&app).await, (0, 0), "minute {minute}");
            for sandbox in [&staying, &interrupted] {
                app.event(sandbox, "agent.heartbeat", quiet("waiting")(0)).await.expect(200);
            }
            app.advance(MINUTE).await;
        }
        assert_eq!(judged(&app).await, (1, 0), "its time to stay is long over");
    }

    async fn one_that_is_out_of_reach_has_time_to_come_back(app: App) {
        let (sandbox, lost) = (up(&app, json!({})).await, up(&app, json!({})).await);
        app.advance(Duration::from_secs(11 * 60)).await;
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "running", "its machine would say if it were dead");
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        app.advance(Duration::from_secs(2 * 60)).await;
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "running");
        assert_eq!(app.task_status(lost.task.as_ref().unwrap()).await, "pending");
        let ended = app.get(&format!("/api/v1/sandboxes/{}", lost.id)).await.expect(200);
        assert_eq!(ended["end_reason"], "lease_expired");
    }

    async fn whoever_begins_to_look_after_sandboxes_gives_them_time_to_be_heard(app: App) {
        let sandbox = up(&app, json!({})).await;
        app.clock.advance(jiff::SignedDuration::from_hours(5));
        app.store().place_adopt("node-1").await.unwrap();
        app.advance(MINUTE).await;
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "running");
    }

    async fn a_cancelled_task_and_one_out_of_time_end_their_sandboxes(app: App) {
        let cancelled = up(&app, json!({})).await;
        app.post(&format!("/api/v1/tasks/{}/cancel", cancelled.task.as_ref().unwrap()), json!({})).await.expect(200);
        let late = up(&app, json!({ "timeout_seconds": 30 })).await;
        app.advance(MINUTE).await;
        for (sandbox, status, reason) in [(&cancelled, "terminated", "task_cancelled"), (&late, "failed", "timed_out")] {
            let ended = app.get(&format!("/api/v1/sandboxes/{}", sandbox.id)).await.expect(200);
            assert_eq!((&ended["status"], &ended["end_reason"], &ended["place"]), (&json!(status), &json!(reason), &json!("up")));
        }
    }
}
