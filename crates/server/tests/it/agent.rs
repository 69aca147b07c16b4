//! Agents that somebody runs elsewhere: registered, heard of, given up on, and given work.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::App,
    on_both,
    work::{LEASE, SECOND, ids, sandbox_of, text, time},
};

impl App {
    async fn beat(&self, agent: &str, number: i64, more: Value) -> Value {
        let mut body = json!({ "sequence_number": number });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post(&format!("/api/v1/agents/{agent}/heartbeat"), body).await.expect(200)
    }

    async fn show_agent(&self, agent: &str) -> Value {
        self.get(&format!("/api/v1/agents/{agent}")).await.expect(200)
    }

    async fn agent_status(&self, agent: &str) -> String {
        text(&self.show_agent(agent).await["status"])
    }
}

on_both! {
    async fn an_agent_registers_and_is_found_again(app: App) {
        let new = json!({ "name": "desk 3", "agent_type": "reviewer", "capabilities": ["rust", "sql"] });
        let made = app.post("/api/v1/agents", new.clone()).await.expect(201);
        for (field, value) in new.as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
        assert_eq!((&made["status"], &made["last_heartbeat_at"]), (&json!("idle"), &json!(null)));
        let agent = text(&made["id"]);
        assert_eq!(app.show_agent(&agent).await, made);
        assert_eq!(app.post("/api/v1/agents", json!({ "name": "x" })).await.expect(201)["agent_type"], "implementer");
        app.get("/api/v1/agents/agent-none").await.refused(404, "agent_not_found");
        app.post("/api/v1/agents", json!({ "name": "" })).await.refused(422, "validation_failed");
    }

    async fn agents_are_listed_newest_first_page_by_page(app: App) {
        let mut made = Vec::new();
        for _ in 0..5 {
            made.push(app.agent(&[]).await);
        }
        made.reverse();
        assert_eq!(ids(&app.pages("/api/v1/agents", 2).await), made);
    }

    async fn heartbeats_are_counted_and_a_gap_is_told(app: App) {
        let agent = app.agent(&[]).await;
        // The number of a beat, how many are missing before it, and whether it counts.
        for (number, missed, received) in [
            (7, 0, true),
            (8, 0, true),
            (12, 3, true),
            (12, 0, false),
            (9, 0, false),
            (13, 0, true),
        ] {
            app.advance(SECOND).await;
            let answer = app.beat(&agent, number, json!({})).await;
            assert_eq!((&answer["missed"], &answer["received"]), (&json!(missed), &json!(received)), "beat {number}");
            let shown = app.show_agent(&agent).await;
            let last = if received { number } else { 12 };
            assert_eq!(shown["heartbeat_sequence"], last, "beat {number}");
            assert_eq!(time(&shown["last_heartbeat_at"]) == app.now(), received, "beat {number}");
        }
        let path = format!("/api/v1/agents/{agent}/heartbeat");
        app.post(&path, json!({ "sequence_number": -1 })).await.refused(422, "validation_failed");
        app.post(&path, json!({ "sequence_number": 14, "status": "dancing" })).await.refused(422, "validation_failed");
        let nobody = "/api/v1/agents/agent-none/heartbeat";
        app.post(nobody, json!({ "sequence_number": 1 })).await.refused(404, "agent_not_found");
    }

    async fn a_silent_agent_is_degraded_then_failed_and_comes_back_with_its_next_heartbeat(app: App) {
        for (status, ttl_seconds) in [("idle", 30), ("running", 15)] {
            let agent = app.agent(&[]).await;
            let ttl = Duration::from_secs(ttl_seconds);
            app.beat(&agent, 1, json!({ "status": status })).await;
            app.advance(2 * ttl - SECOND).await;
            assert_eq!(app.agent_status(&agent).await, status);
            app.advance(SECOND).await;
            assert_eq!(app.agent_status(&agent).await, "degraded", "was {status}");
            app.beat(&agent, 2, json!({ "status": status })).await;
            assert_eq!(app.agent_status(&agent).await, status);
            app.advance(3 * ttl).await;
            assert_eq!(app.agent_status(&agent).await, "failed", "was {status}");
            app.beat(&agent, 3, json!({ "status": status })).await;
            assert_eq!(app.agent_status(&agent).await, status);
            let missed: Vec<_> = app.told().await.into_iter()
                .filter(|event| event["event_type"] == "HEARTBEAT_MISSED" && event["entity_id"] == agent.as_str())
                .map(|event| text(&event["payload"]["status"]))
                .collect();
            assert_eq!(missed, ["degraded", "failed"]);
        }
    }

    async fn an_agent_that_falls_silent_at_work_has_failed_sooner_than_one_at_rest(app: App) {
        let project = app.project("parser").await;
        app.task(&project, json!({})).await;
        let agent = app.agent(&[]).await;
        app.claimed(&agent).await;
        app.beat(&agent, 1, json!({ "status": "running" })).await;
        let mut statuses = Vec::new();
        for _ in 0..3 {
            app.advance(15 * SECOND).await;
            statuses.push(app.agent_status(&agent).await);
        }
        assert_eq!(statuses, ["running", "degraded", "failed"]);
    }

    async fn what_an_agent_claims_it_holds_as_a_sandbox_elsewhere(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let agent = app.agent(&[]).await;
        let claim = app.claim(&agent).await.unwrap();
        assert_eq!((&claim["sandbox"]["provider"], &claim["sandbox"]["agent_id"]), (&json!("external"), &json!(agent)));
        assert_eq!(claim["task"]["assigned_agent_id"], agent.as_str());
        let shown = app.show(&task).await;
        assert_eq!(shown["assigned_agent_id"], agent.as_str());
        assert_eq!(shown["sandbox_id"], claim["sandbox"]["id"], "there is one owner, and this is it");
        app.event(&sandbox_of(&claim), "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.show(&task).await["assigned_agent_id"], agent.as_str(), "who did it");
    }

    async fn a_task_that_no_agent_holds_names_none(app: App) {
        let sandbox = app.sandbox_with_task().await;
        assert_eq!(app.show(sandbox.task.as_ref().unwrap()).await["assigned_agent_id"], json!(null));
        app.cancel(sandbox.task.as_ref().unwrap()).await;

        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        app.claimed(&app.agent(&[]).await).await;
        app.advance(LEASE).await;
        let offered = app.show(&task).await;
        assert_eq!((&offered["status"], &offered["assigned_agent_id"]), (&json!("pending"), &json!(null)));
    }

    async fn heartbeats_of_an_agent_keep_the_leases_of_all_it_holds(app: App) {
        let project = app.project("parser").await;
        let tasks = [app.task(&project, json!({})).await, app.task(&project, json!({})).await];
        let (busy, silent) = (app.agent(&[]).await, app.agent(&[]).await);
        app.claimed(&busy).await;
        app.claimed(&busy).await;
        let other = app.task(&project, json!({})).await;
        app.claimed(&silent).await;
        for number in 1..=5 {
            app.advance(LEASE - SECOND).await;
            app.beat(&busy, number, json!({ "status": "running" })).await;
        }
        for task in &tasks {
            assert_eq!(app.task_status(task).await, "assigned");
        }
        assert_eq!(app.task_status(&other).await, "pending", "nobody spoke for it");
    }

    async fn a_silent_agent_is_degraded_then_failed_then_loses_its_task_to_another(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let (silent, other) = (app.agent(&[]).await, app.agent(&[]).await);
        let lost = app.claimed(&silent).await;
        app.beat(&silent, 1, json!({ "status": "running" })).await;
        let mut seen = Vec::new();
        for wait in [30, 15, 74, 1] {
            app.advance(wait * SECOND).await;
            seen.push((app.agent_status(&silent).await, app.task_status(&task).await));
        }
        let expected = [("degraded", "assigned"), ("failed", "assigned"), ("failed", "assigned"), ("failed", "pending")];
        assert_eq!(seen, expected.map(|(agent, task)| (agent.to_owned(), task.to_owned())));
        app.advance(LEASE).await;
        let claim = app.claim(&other).await.unwrap();
        assert_eq!(claim["task"]["id"], task.as_str());
        let late = app.event(&lost, "agent.completed", json!({})).await.expect(200);
        assert_eq!(late["refused"], "lease_passed_on");
        app.event(&sandbox_of(&claim), "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.show(&task).await["assigned_agent_id"], other.as_str());
    }

    async fn an_agent_that_is_heard_of_at_work_again_has_its_task_again(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let agent = app.agent(&[]).await;
        let held = app.claimed(&agent).await;
        app.advance(LEASE).await;
        assert_eq!(app.show_sandbox(&held).await["status"], "lost");
        app.beat(&agent, 1, json!({ "status": "idle" })).await;
        assert_eq!(app.task_status(&task).await, "pending", "it works on nothing");
        app.beat(&agent, 2, json!({ "status": "running" })).await;
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["retry_count"]), (&json!("assigned"), &json!(0)));
        assert_eq!(shown["sandbox_id"], held.id.as_str());
    }

    async fn an_agent_that_keeps_failing_registers_ever_later(app: App) {
        let register = async || app.post("/api/v1/agents", json!({ "name": "desk 3" })).await;
        let started = app.now();
        for restart in 0..4 {
            let agent = text(&register().await.expect(201)["id"]);
            app.beat(&agent, 1, json!({})).await;
            app.advance(Duration::from_secs(90)).await;
            assert_eq!(app.agent_status(&agent).await, "failed");
            let early = register().await;
            let wait: u64 = early.headers["retry-after"].to_str().unwrap().parse().unwrap();
            early.refused(429, "restarts_limited");
            if restart == 3 {
                // The first failure was after 90 seconds, and counts for an hour.
                let passed = app.now().duration_since(started).as_secs() as u64;
                assert_eq!(wait, 90 + 3600 - passed);
            } else {
                assert_eq!(wait, 60);
            }
            app.post("/api/v1/agents", json!({ "name": "desk 4" })).await.expect(201);
            app.advance(Duration::from_secs(wait - 1)).await;
            register().await.refused(429, "restarts_limited");
            app.advance(SECOND).await;
        }
        register().await.expect(201);
    }

    async fn an_agent_that_came_back_has_not_failed(app: App) {
        let agent = text(&app.post("/api/v1/agents", json!({ "name": "desk 3" })).await.expect(201)["id"]);
        app.beat(&agent, 1, json!({})).await;
        app.advance(Duration::from_secs(90)).await;
        app.beat(&agent, 2, json!({})).await;
        app.post("/api/v1/agents", json!({ "name": "desk 3" })).await.expect(201);
    }

    async fn only_an_operator_registers_and_claims(app: App) {
        let agent = app.agent(&[]).await;
        let viewer = app.operator("viewer", "viewer").await;
        let sandbox = app.sandbox().await;
        let new = json!({ "name": "x" });
        let beat = json!({ "sequence_number": 1 });
        for (path, body) in [
            ("/api/v1/agents".to_owned(), &new),
            (format!("/api/v1/agents/{agent}/claim"), &new),
            (format!("/api/v1/agents/{agent}/heartbeat"), &beat),
        ] {
            app.call(Method::POST, &path, &viewer, Some(body)).await.refused(403, "role_too_low");
            app.call(Method::POST, &path, &sandbox.token, Some(body)).await.refused(403, "operator_needed");
        }
        app.post("/api/v1/agents/agent-none/claim", json!({})).await.refused(404, "agent_not_found");
    }
}
