//! A worker that was silent for longer than its lease: what it says counts until another sandbox has the task.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    app::{App, On, Sandbox, unique},
    lease::LATE_REPORTS,
    on_both,
    work::{LEASE, MINUTE, SECOND, text, time},
};

impl App {
    /// A running attempt at a new task whose worker is silent for too long.
    async fn lapsed(&self, more: Value) -> (String, Sandbox) {
        let (task, sandbox) = self.under_way(more).await;
        self.advance(LEASE).await;
        let shown = self.show(&task).await;
        assert_eq!((&shown["status"], &shown["retry_count"]), (&json!("pending"), &json!(1)), "{shown}");
        assert_eq!(self.show_sandbox(&sandbox).await["end_reason"], "lease_expired");
        (task, sandbox)
    }
}

on_both! {
    async fn the_last_holder_completes_its_task_while_no_other_sandbox_has_it(app: App) {
        // While the retry waits, and after that.
        for wait in [Duration::ZERO, MINUTE] {
            let (task, late) = app.lapsed(json!({})).await;
            let project = text(&app.show(&task).await["project_id"]);
            let next = app.task(&project, json!({ "dependencies": [task] })).await;
            let began = app.now() - SignedDuration::try_from(LEASE).unwrap();
            app.advance(wait).await;
            let said = json!({ "turns": 7, "final_output": "done" });
            let answer = app.event(&late, "agent.completed", said).await.expect(200);
            assert_eq!((&answer["refused"], &answer["refused_because"]), (&json!(null), &json!(null)));

            let done = app.show(&task).await;
            let expected = json!({
                "status": "completed", "retry_count": 0, "not_before": null, "error_message": null, "failure_kind": null,
                "started_at": began, "completed_at": app.now(),
            });
            for (field, value) in expected.as_object().unwrap() {
                assert_eq!(&done[field], value, "{field} after {wait:?}");
            }
            assert_eq!(done["result"]["turns"], 7);
            let ended = app.show_sandbox(&late).await;
            assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("completed"), &json!("task_completed")));
            assert_eq!(ended["ended_at"], json!(app.now()));
            assert_eq!(app.show(&next).await["unmet_dependencies"], 0, "what waits for it is ready");
            let live = format!("SELECT CAST(live_sandboxes AS TEXT) FROM projects WHERE id = '{project}'");
            assert_eq!(app.column(&live).await, ["0"]);
            app.cancel(&next).await;
            assert_eq!(app.claim(&app.agent(&[]).await).await, None, "the work is not done twice");
        }
    }

    async fn a_late_failure_is_told_as_it_was_and_counts_one_retry(app: App) {
        let (task, late) = app.lapsed(json!({ "max_retries": 1 })).await;
        app.advance(MINUTE).await;
        let said = json!({ "error": "the tests do not pass", "failure_kind": "checks" });
        let answer = app.event(&late, "agent.failed", said).await.expect(200);
        assert_eq!(answer["refused"], json!(null));
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["retry_count"]), (&json!("pending"), &json!(1)));
        assert_eq!(shown["error_message"], "the tests do not pass");
        assert!(time(&shown["not_before"]) > app.now(), "the wait begins with the report");
        let ended = app.show_sandbox(&late).await;
        assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("failed"), &json!("checks_failed")));

        let (task, late) = app.lapsed(json!({})).await;
        app.event(&late, "agent.failed", json!({ "failure_kind": "invalid" })).await.expect(200);
        assert_eq!(app.task_status(&task).await, "failed", "a repeat would fail in the same way");
    }

    async fn any_event_of_the_last_holder_gives_it_the_lease_back(app: App) {
        for (event_type, wait) in [("agent.tool_completed", Duration::ZERO), ("agent.heartbeat", MINUTE), ("agent.started", MINUTE)] {
            let (task, late) = app.lapsed(json!({})).await;
            let began = app.now() - SignedDuration::try_from(LEASE).unwrap();
            app.advance(wait).await;
            app.event(&late, event_type, json!({})).await.expect(200);
            let shown = app.show(&task).await;
            let expected = json!({
                "status": "running", "retry_count": 0, "not_before": null, "error_message": null, "started_at": began,
                "sandbox_id": late.id,
            });
            for (field, value) in expected.as_object().unwrap() {
                assert_eq!(&shown[field], value, "{field} after {event_type}");
            }
            let back = app.show_sandbox(&late).await;
            assert_eq!((&back["status"], &back["end_reason"], &back["ended_at"]), (&json!("running"), &json!(null), &json!(null)));
            assert_eq!(time(&back["lease_expires_at"]), app.now() + LEASE);
            assert_eq!(app.claim(&app.agent(&[]).await).await, None, "it is held");
            app.post("/api/v1/sandboxes", json!({ "task_id": task })).await.refused(409, "task_held");

            // From here on it is as if it had never been lost: it may be silent again, and report after the grace.
            for _ in 0..40 {
                app.advance(LEASE - SECOND).await;
                app.event(&late, "agent.heartbeat", json!({})).await.expect(200);
            }
            let done = app.event(&late, "agent.completed", json!({})).await.expect(200);
            assert_eq!((&done["refused"], app.task_status(&task).await), (&json!(null), "completed".to_owned()));
        }
        let told = app.told_of("SANDBOX_RETURNED").await;
        assert_eq!((told.len(), &told[0]["status"]), (3, &json!("running")));
    }

    async fn a_worker_that_had_not_begun_is_assigned_again_and_begins_late(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        app.advance(LEASE).await;
        app.event(&sandbox, "sandbox.booting", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "assigned");
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["started_at"]), (&json!("running"), &json!(app.now())));
    }

    async fn a_batch_that_comes_late_counts_as_a_whole(app: App) {
        let (task, late) = app.lapsed(json!({})).await;
        let batch = json!({ "events": [
            { "event_type": "agent.tool_completed", "worker_seq": 1 },
            { "event_type": "agent.completed", "worker_seq": 2 },
            { "event_type": "agent.shutdown", "worker_seq": 3 },
        ]});
        let answer = app.post_as(&late, "/events", batch.clone()).await.expect(200);
        assert!(answer["events"].as_array().unwrap().iter().all(|event| event["refused"].is_null()), "{answer}");
        assert_eq!(app.task_status(&task).await, "completed");
        assert_eq!(app.post_as(&late, "/events", batch).await.expect(200), answer, "a repeat is harmless");
    }

    async fn what_else_the_last_holder_hands_in_late_counts_too(app: App) {
        let (task, late) = app.lapsed(json!({})).await;
        let result = json!({ "task_id": task, "result_type": "fix", "summary": "s", "content": "c" });
        app.call(reqwest::Method::POST, "/api/v1/results", &late.token, Some(&result)).await.expect(201);
        assert_eq!(app.task_status(&task).await, "running");
        app.advance(LEASE).await;
        let said = json!({ "task_id": task, "success": true, "result": { "turns": 2 } });
        let accepted = app.post_as(&late, "/task-complete", said).await.expect(200);
        assert_eq!(accepted["new_status"], "completed");
        assert_eq!(app.show(&task).await["result"]["turns"], 2);
    }

    /// One transaction decides: the claim or the report, never both.
    async fn of_a_claim_and_a_late_report_at_once_one_is_made(app: App) {
        let agent = app.agent(&[]).await;
        let mut claims = 0;
        for round in 0..24 {
            let (task, late) = app.lapsed(json!({})).await;
            app.advance(MINUTE).await;
            let word = if round % 2 == 0 { "agent.completed" } else { "agent.heartbeat" };
            let (claimed, reported) = tokio::join!(app.claim(&agent), app.event(&late, word, json!({})));
            let reported = reported.expect(200);
            let status = app.task_status(&task).await;
            match &claimed {
                Some(claim) => {
                    claims += 1;
                    assert_eq!((&claim["task"]["id"], status.as_str()), (&json!(task), "assigned"));
                    assert_eq!(app.show_sandbox(&late).await["status"], "lost");
                    if word == "agent.completed" {
                        assert_eq!(reported["refused"], "lease_passed_on");
                    }
                }
                None => {
                    assert_eq!(reported["refused"], json!(null));
                    assert_eq!(status, if round % 2 == 0 { "completed" } else { "running" });
                }
            }
            let live = format!("SELECT id FROM sandboxes WHERE live = 1 AND task_id = '{task}'");
            assert!(app.column(&live).await.len() <= 1);
            if status != "completed" {
                app.cancel(&task).await;
            }
        }
        assert!(claims <= 24);
    }

    async fn a_task_that_is_over_or_tried_afresh_stays_as_it_is(app: App) {
        let (cancelled, late) = app.lapsed(json!({})).await;
        app.cancel(&cancelled).await;
        let answer = app.event(&late, "agent.completed", json!({})).await.expect(200);
        assert_eq!((&answer["refused"], app.task_status(&cancelled).await), (&json!("task_final"), "cancelled".to_owned()));
        assert!(text(&answer["refused_because"]).contains("is cancelled already"), "{answer}");
        app.post(&format!("/api/v1/tasks/{cancelled}/retry"), json!({})).await.expect(200);
        for event_type in ["agent.heartbeat", "agent.started", "agent.completed"] {
            app.event(&late, event_type, json!({})).await.expect(200);
        }
        assert_eq!(app.task_status(&cancelled).await, "pending", "a person wants a new attempt");
        assert_eq!(app.show_sandbox(&late).await["status"], "lost");

        let (failed, late) = app.under_way(json!({ "max_retries": 0 })).await;
        app.advance(LEASE).await;
        let answer = app.event(&late, "agent.completed", json!({})).await.expect(200);
        assert_eq!((&answer["refused"], app.task_status(&failed).await), (&json!("task_final"), "failed".to_owned()));
    }

    async fn a_holder_before_the_last_has_nothing_to_say(app: App) {
        let (task, first) = app.lapsed(json!({ "max_retries": 5 })).await;
        app.advance(MINUTE).await;
        let second = app.attached_to(&task).await;
        let answer = app.event(&first, "agent.completed", json!({})).await.expect(200);
        assert_eq!(answer["refused"], "lease_passed_on");
        let because = text(&answer["refused_because"]);
        for part in [&first.id, &second.id, &task, "silent for longer than its lease", "has taken the task since"] {
            assert!(because.contains(part), "{part:?} is not in {because:?}");
        }
        let said = json!({ "task_id": task });
        let refused = app.post_as(&first, "/task-complete", said).await.refused(409, "lease_passed_on");
        assert_eq!(refused["detail"], because.as_str());

        app.advance(LEASE).await;
        assert_eq!(app.task_status(&task).await, "pending", "the second is lost as well");
        let answer = app.event(&first, "agent.completed", json!({})).await.expect(200);
        assert_eq!((&answer["refused"], app.task_status(&task).await), (&json!("lease_passed_on"), "pending".to_owned()));
        app.event(&second, "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "completed");
    }

    async fn an_attempt_that_did_not_end_by_silence_is_over(app: App) {
        let (task, sandbox) = app.under_way(json!({ "timeout_seconds": 60 })).await;
        app.advance(MINUTE).await;
        assert_eq!(app.show_sandbox(&sandbox).await["end_reason"], "timed_out");
        let answer = app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        assert_eq!((&answer["refused"], app.task_status(&task).await), (&json!("lease_passed_on"), "pending".to_owned()));
        assert!(text(&answer["refused_because"]).contains("(timed_out)"), "{answer}");
    }

    async fn a_late_report_comes_within_the_grace(app: App) {
        let (task, late) = app.lapsed(json!({})).await;
        app.advance(LATE_REPORTS - SECOND).await;
        app.event(&late, "agent.heartbeat", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "running");
        app.advance(LEASE).await;
        app.advance(LATE_REPORTS).await;
        app.event(&late, "agent.completed", json!({})).await.refused(401, "token_ended");
        assert_eq!(app.task_status(&task).await, "pending");
    }

    async fn a_lease_comes_back_as_long_as_it_was(app: App) {
        let project = app.project(&unique("project")).await;
        let task = app.task(&project, json!({})).await;
        let late = app.attach(json!({ "task_id": task, "lease_seconds": 1_800 })).await;
        app.advance(Duration::from_secs(1_800)).await;
        assert_eq!(app.show_sandbox(&late).await["end_reason"], "lease_expired");
        app.event(&late, "agent.tool_use", json!({})).await.expect(200);
        let ends = time(&app.show_sandbox(&late).await["lease_expires_at"]);
        assert_eq!(ends, app.now() + Duration::from_secs(1_800));
    }

    async fn a_paused_project_and_its_limit_keep_no_worker_from_going_on(app: App) {
        let project = app.post("/api/v1/projects", json!({ "name": unique("project"), "max_concurrent": 1 })).await.expect(201);
        let project = text(&project["id"]);
        let task = app.task(&project, json!({})).await;
        let late = app.attached_to(&task).await;
        app.advance(LEASE).await;
        app.task(&project, json!({})).await;
        let agent = app.agent(&[]).await;
        app.claim(&agent).await.expect("the first waits its turn");
        app.event(&late, "agent.heartbeat", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "assigned", "nothing new is started with that");
        app.task(&project, json!({})).await;
        assert_eq!(app.claim(&agent).await, None, "both count");
        app.event(&late, "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.claim(&agent).await, None, "one is left, and the limit is one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_grace_a_lost_lease_is_lost() {
    let app = App::start_with(On::Sqlite, |config| config.lease.late_report_grace = Duration::ZERO).await;
    let (task, late) = app.lapsed(json!({})).await;
    app.event(&late, "agent.completed", json!({})).await.refused(401, "token_ended");
    assert_eq!(app.task_status(&task).await, "pending");
}
