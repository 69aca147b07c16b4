//! Leases: silence frees a task, signs of life keep it, and whoever lost it changes nothing any more.

use std::time::Duration;

use omoi_server::orchestrator;
use serde_json::{Value, json};

use crate::{
    app::{App, On, Sandbox},
    on_both,
    work::{LEASE, MINUTE, SECOND, text, time},
};

/// How long a sandbox may report after it has lost its lease, by default.
pub const LATE_REPORTS: Duration = Duration::from_secs(3_600);

impl App {
    /// A running attempt at a new task.
    pub async fn under_way(&self, more: Value) -> (String, Sandbox) {
        let project = self.project(&crate::app::unique("project")).await;
        let task = self.task(&project, more).await;
        let sandbox = self.attached_to(&task).await;
        self.event(&sandbox, "agent.started", json!({})).await.expect(200);
        (task, sandbox)
    }

    /// Seconds until the task is offered again.
    async fn backoff(&self, task: &str) -> f64 {
        let not_before = time(&self.show(task).await["not_before"]);
        not_before.duration_since(self.now()).as_secs_f64()
    }
}

on_both! {
    async fn a_task_whose_sandbox_falls_silent_is_offered_again_after_a_wait(app: App) {
        let (task, silent) = app.under_way(json!({})).await;
        app.advance(LEASE).await;

        let offered = app.show(&task).await;
        let expected = json!({
            "status": "pending", "retry_count": 1, "sandbox_id": null, "assigned_agent_id": null,
            "started_at": null, "failure_kind": null,
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&offered[field], value, "{field}");
        }
        assert!(text(&offered["error_message"]).contains("lease"), "{offered}");
        let lost = app.show_sandbox(&silent).await;
        assert_eq!((&lost["status"], &lost["end_reason"]), (&json!("lost"), &json!("lease_expired")));
        let told = app.told_of("TASK_RETRY_SCHEDULED").await;
        assert_eq!((told.len(), &told[0]["not_before"]), (1, &offered["not_before"]));

        let agent = app.agent(&[]).await;
        assert_eq!(app.claim(&agent).await, None, "the wait is not over");
        app.advance(2 * SECOND).await;
        let claim = app.claim(&agent).await.expect("the wait is over");
        assert_eq!((&claim["task"]["id"], &claim["sandbox"]["generation"]), (&json!(task), &json!(2)));
        assert_eq!((&claim["task"]["not_before"], &claim["task"]["error_message"]), (&json!(null), &json!(null)));
    }

    async fn what_nobody_could_hear_while_the_server_was_away_is_not_lost(app: App) {
        let (task, sandbox) = app.under_way(json!({})).await;
        orchestrator::attend(app.store(), "here").await.unwrap();
        // Down, asleep, or without its database: nobody looked.
        app.clock.advance(jiff::SignedDuration::from_mins(20));
        let back = orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!((back.leases_resumed, back.leases_expired), (1, 0));
        assert_eq!(app.show(&task).await["status"], "running");

        // From now on it is heard in time, or lost like any other.
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        for _ in 0..4 {
            app.clock.advance(jiff::SignedDuration::try_from(LEASE / 4).unwrap());
            assert_eq!(orchestrator::attend(app.store(), "here").await.unwrap().leases_resumed, 0);
        }
        assert_eq!(app.show_sandbox(&sandbox).await["end_reason"], "lease_expired");
    }

    async fn a_lease_runs_out_although_the_clocks_of_two_servers_differ(app: App) {
        let (_, sandbox) = app.under_way(json!({})).await;
        let (ahead, step) = (jiff::SignedDuration::from_mins(1), jiff::SignedDuration::try_from(LEASE / 8).unwrap());
        let look = async |node| orchestrator::attend(app.store(), node).await.unwrap().leases_resumed;
        assert_eq!(look("behind").await, 1, "it looks for the first time");
        app.clock.advance(ahead);
        assert_eq!(look("ahead").await, 1);
        for _ in 0..8 {
            app.clock.advance(step - ahead);
            assert_eq!(look("behind").await, 0);
            app.clock.advance(ahead);
            assert_eq!(look("ahead").await, 0);
        }
        assert_eq!(app.show_sandbox(&sandbox).await["end_reason"], "lease_expired");
    }

    async fn a_clock_that_is_set_back_lets_nobody_wait_until_it_has_caught_up(app: App) {
        let (task, dead) = app.under_way(json!({})).await;
        let (failed, sandbox) = app.under_way(json!({})).await;
        let (_, listener) = app.under_way(json!({})).await;
        app.event(&sandbox, "agent.failed", json!({ "error": "e" })).await.expect(200);
        app.say(&listener, json!({ "content": "look at the tests" })).await.expect(200);
        orchestrator::attend(app.store(), "here").await.unwrap();
        app.clock.advance(jiff::SignedDuration::from_hours(-24));
        for _ in 0..9 {
            orchestrator::attend(app.store(), "here").await.unwrap();
            app.event(&listener, "agent.heartbeat", json!({})).await.expect(200);
            app.clock.advance(jiff::SignedDuration::try_from(LEASE / 8).unwrap());
        }
        orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!(app.show_sandbox(&dead).await["end_reason"], "lease_expired");
        assert_eq!(app.show(&task).await["status"], "pending");
        assert_eq!(app.show(&failed).await["not_before"], json!(null), "its wait is over");
        assert_eq!(app.take(&listener).await.len(), 1);
    }

    async fn time_in_which_nobody_looked_is_not_counted_against_a_task(app: App) {
        let (task, sandbox) = app.under_way(json!({ "timeout_seconds": 1800 })).await;
        orchestrator::attend(app.store(), "here").await.unwrap();
        app.clock.advance(jiff::SignedDuration::from_hours(8));
        orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!(app.show(&task).await["status"], "running", "the machine was asleep, and the task with it");
        for _ in 0..120 {
            app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
            app.clock.advance(jiff::SignedDuration::from_secs(15));
            orchestrator::attend(app.store(), "here").await.unwrap();
        }
        assert_eq!(app.show_sandbox(&sandbox).await["end_reason"], "timed_out");
    }

    async fn a_server_whose_clock_was_set_back_shortens_no_lease_while_another_s_is_ahead(app: App) {
        let (_, sandbox) = app.under_way(json!({})).await;
        for node in ["here", "there"] {
            orchestrator::attend(app.store(), node).await.unwrap();
        }
        let lease = app.show_sandbox(&sandbox).await["lease_expires_at"].clone();
        app.clock.advance(jiff::SignedDuration::from_hours(-24));
        orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!(app.show_sandbox(&sandbox).await["lease_expires_at"], lease);
    }

    async fn a_node_that_was_gone_for_long_puts_no_start_into_the_future(app: App) {
        orchestrator::attend(app.store(), "gone").await.unwrap();
        app.clock.advance(jiff::SignedDuration::from_hours(24 * 7));
        let (task, _) = app.under_way(json!({ "timeout_seconds": 60 })).await;
        orchestrator::attend(app.store(), "gone").await.unwrap();
        assert_eq!(time(&app.show(&task).await["started_at"]), app.now());
        app.advance(MINUTE).await;
        assert_ne!(app.task_status(&task).await, "running", "its time is over");
    }

    async fn a_lease_lasts_to_its_last_moment_and_no_longer(app: App) {
        let (task, sandbox) = app.under_way(json!({})).await;
        assert_eq!(time(&app.show_sandbox(&sandbox).await["lease_expires_at"]), app.now() + LEASE);
        app.advance(LEASE - Duration::from_micros(1)).await;
        assert_eq!(app.task_status(&task).await, "running");
        app.advance(Duration::from_micros(1)).await;
        assert_eq!(app.task_status(&task).await, "pending");
    }

    async fn a_sandbox_that_never_spoke_loses_its_task_too(app: App) {
        let sandbox = app.sandbox_with_task().await;
        app.advance(LEASE).await;
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "pending");
        assert_eq!(app.show_sandbox(&sandbox).await["status"], "lost");
    }

    async fn a_sandbox_without_a_task_ends_when_it_falls_silent(app: App) {
        let sandbox = app.sandbox().await;
        app.advance(LEASE - SECOND).await;
        assert_eq!(app.show_sandbox(&sandbox).await["status"], "creating");
        app.advance(SECOND).await;
        assert_eq!(app.show_sandbox(&sandbox).await["status"], "lost");
    }

    async fn heartbeats_keep_a_lease_for_as_long_as_they_come(app: App) {
        let (task, sandbox) = app.under_way(json!({})).await;
        for _ in 0..30 {
            app.advance(LEASE - SECOND).await;
            app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
            let shown = app.show_sandbox(&sandbox).await;
            assert_eq!(time(&shown["lease_expires_at"]), app.now() + LEASE);
            assert_eq!(time(&shown["last_heartbeat_at"]), app.now());
        }
        assert_eq!(app.task_status(&task).await, "running");
        assert_eq!(app.show(&task).await["retry_count"], 0);
    }

    async fn work_keeps_a_lease_as_heartbeats_do(app: App) {
        let (task, sandbox) = app.under_way(json!({})).await;
        for _ in 0..10 {
            app.advance(LEASE - SECOND).await;
            app.event(&sandbox, "agent.tool_use", json!({ "tool": "Bash" })).await.expect(200);
        }
        assert_eq!(app.task_status(&task).await, "running");
        assert_eq!(app.show_sandbox(&sandbox).await["last_heartbeat_at"], json!(null));
    }

    async fn a_worker_that_was_late_but_not_missed_goes_on(app: App) {
        let (task, sandbox) = app.under_way(json!({})).await;
        // Time passes, and no loop has looked yet.
        app.clock.advance((LEASE + MINUTE).try_into().unwrap());
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        app.advance(SECOND).await;
        assert_eq!(app.task_status(&task).await, "running");
        let done = app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        assert_eq!((&done["refused"], app.task_status(&task).await), (&json!(null), "completed".to_owned()));
    }

    async fn the_wait_doubles_from_attempt_to_attempt(app: App) {
        let (task, _) = app.under_way(json!({ "max_retries": 8 })).await;
        for seconds in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
            app.advance(LEASE).await;
            let wait = app.backoff(&task).await;
            assert!((seconds * 0.75..=seconds * 1.25).contains(&wait), "{wait}, not {seconds}");
            app.advance(Duration::from_secs_f64(wait)).await;
            app.attached_to(&task).await;
        }
        app.advance(LEASE).await;
        let wait = app.backoff(&task).await;
        assert!((48.0..=60.0).contains(&wait), "{wait} is above the cap");
    }

    async fn a_task_is_given_up_after_its_last_retry(app: App) {
        let (task, _) = app.under_way(json!({ "max_retries": 2 })).await;
        let waiting = {
            let project = text(&app.show(&task).await["project_id"]);
            app.task(&project, json!({ "dependencies": [task], "dependency_policy": "fail" })).await
        };
        for retry in 1..=2 {
            app.advance(LEASE).await;
            let shown = app.show(&task).await;
            assert_eq!((&shown["status"], &shown["retry_count"]), (&json!("pending"), &json!(retry)));
            app.advance(MINUTE).await;
            app.attached_to(&task).await;
        }
        app.advance(LEASE).await;
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["failure_kind"]), (&json!("failed"), &json!("lost")));
        assert_eq!(time(&shown["completed_at"]), app.now());
        assert_eq!(app.task_status(&waiting).await, "failed", "what waits for it is told");
        app.advance(LATE_REPORTS).await;
        assert_eq!(app.claim(&app.agent(&[]).await).await, None);
    }

    async fn a_late_report_is_stored_and_changes_nothing_while_another_holds_the_task(app: App) {
        let (task, lost) = app.under_way(json!({})).await;
        app.advance(LEASE).await;
        app.advance(MINUTE).await;
        let holder = app.attached_to(&task).await;
        app.event(&holder, "agent.started", json!({})).await.expect(200);
        let before = app.show(&task).await;

        let late = [
            ("agent.started", json!({})),
            ("agent.completed", json!({ "turns": 99 })),
            ("agent.failed", json!({ "error": "late", "failure_kind": "invalid" })),
            ("agent.error", json!({ "error": "late", "fatal": true })),
            ("continuous.completed", json!({ "validation_passed": true })),
        ];
        for (event_type, data) in &late {
            let answer = app.event(&lost, event_type, data.clone()).await.expect(200);
            assert_eq!((&answer["status"], &answer["refused"]), (&json!("received"), &json!("lease_passed_on")));
        }
        let said = json!({ "task_id": task });
        app.post_as(&lost, "/task-complete", said).await.refused(409, "lease_passed_on");
        let result = json!({ "task_id": task, "result_type": "fix", "summary": "s", "content": "c" });
        let handed_in = app.call(reqwest::Method::POST, "/api/v1/results", &lost.token, Some(&result)).await;
        handed_in.refused(409, "not_the_owner");
        assert_eq!(app.show(&task).await, before);

        let kept = app.get(&format!("/api/v1/sandboxes/{}/events?after=1", lost.id)).await.expect(200);
        let kinds: Vec<_> = kept["events"].as_array().unwrap().iter().rev().map(|e| text(&e["event_type"])).collect();
        assert_eq!(kinds, late.iter().map(|(kind, _)| *kind).collect::<Vec<_>>());
        assert_eq!(app.show_sandbox(&lost).await["status"], "lost");

        app.event(&holder, "agent.completed", json!({ "turns": 1 })).await.expect(200);
        let done = app.show(&task).await;
        assert_eq!((&done["status"], &done["result"]["turns"]), (&json!("completed"), &json!(1)));
        let answer = app.event(&lost, "agent.failed", json!({})).await.expect(200);
        assert_eq!((&answer["refused"], app.task_status(&task).await), (&json!("task_final"), "completed".to_owned()));
    }

    async fn a_late_report_that_is_repeated_is_refused_again(app: App) {
        let (task, lost) = app.under_way(json!({})).await;
        app.advance(LEASE).await;
        app.advance(MINUTE).await;
        app.attached_to(&task).await;
        let late = json!({ "event_type": "agent.completed", "worker_seq": 1 });
        let answer = app.post_as(&lost, "/events", late.clone()).await.expect(200);
        assert_eq!(answer["refused"], "lease_passed_on");
        assert_eq!(app.post_as(&lost, "/events", late).await.expect(200), answer);
    }

    async fn signs_of_life_of_the_lost_keep_nobody_s_lease(app: App) {
        let (task, lost) = app.under_way(json!({})).await;
        app.advance(LEASE).await;
        app.advance(2 * SECOND).await;
        let holder = app.attached_to(&task).await;
        app.advance(LEASE - SECOND).await;
        app.event(&lost, "agent.heartbeat", json!({})).await.expect(200);
        assert_eq!(app.show_sandbox(&lost).await["lease_expires_at"], json!(null));
        app.advance(SECOND).await;
        assert_eq!(app.show_sandbox(&holder).await["status"], "lost");
        assert_eq!(app.show(&task).await["retry_count"], 2);
    }

    async fn the_token_of_the_lost_ends_after_a_time_of_grace(app: App) {
        let (task, lost) = app.under_way(json!({})).await;
        app.advance(LEASE).await;
        app.advance(MINUTE).await;
        app.complete(&task).await;
        app.advance(LATE_REPORTS - MINUTE - SECOND).await;
        app.event(&lost, "agent.message", json!({ "content": "last words" })).await.expect(200);
        app.advance(SECOND).await;
        app.event(&lost, "agent.message", json!({})).await.refused(401, "token_ended");
    }

    /// Two servers share a database and their clocks differ: the one that is behind takes nothing away.
    async fn a_sign_of_life_never_shortens_a_lease(app: App) {
        let (_, sandbox) = app.under_way(json!({})).await;
        let agent = app.agent(&[]).await;
        let project = app.project("parser").await;
        app.task(&project, json!({})).await;
        let held = app.claim(&agent).await.unwrap();
        let held = Sandbox { id: text(&held["sandbox"]["id"]), token: text(&held["token"]), task: None };
        let lease = async |of: &Sandbox| time(&app.show_sandbox(of).await["lease_expires_at"]);
        let mut sequence = 0;
        let mut beat = async || {
            sequence += 1;
            let body = json!({ "sequence_number": sequence });
            app.post(&format!("/api/v1/agents/{agent}/heartbeat"), body).await.expect(200);
        };
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        beat().await;
        let (first, second) = (lease(&sandbox).await, lease(&held).await);
        app.clock.advance(-jiff::SignedDuration::from_mins(1));
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        app.event(&sandbox, "agent.message", json!({})).await.expect(200);
        beat().await;
        assert_eq!((lease(&sandbox).await, lease(&held).await), (first, second));
        app.clock.advance(jiff::SignedDuration::from_mins(2));
        app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        beat().await;
        assert!(lease(&sandbox).await > first && lease(&held).await > second);
    }

    async fn a_sandbox_is_attached_with_the_lease_that_it_asks_for(app: App) {
        let project = app.project(&crate::app::unique("project")).await;
        let task = app.task(&project, json!({})).await;
        let sandbox = app.attach(json!({ "task_id": task, "lease_seconds": 1_800 })).await;
        let lease = Duration::from_secs(1_800);
        let ends = async || time(&app.show_sandbox(&sandbox).await["lease_expires_at"]);
        assert_eq!(ends().await, app.now() + lease);
        for event_type in ["agent.heartbeat", "agent.tool_use"] {
            app.advance(lease - SECOND).await;
            app.event(&sandbox, event_type, json!({})).await.expect(200);
            assert_eq!(ends().await, app.now() + lease, "{event_type}");
        }
        let usual = app.sandbox().await;
        app.event(&usual, "agent.tool_use", json!({})).await.expect(200);
        assert_eq!(time(&app.show_sandbox(&usual).await["lease_expires_at"]), app.now() + LEASE);

        // After the server was away, the sandbox has the lease that it asked for anew.
        orchestrator::attend(app.store(), "here").await.unwrap();
        app.clock.advance(jiff::SignedDuration::from_hours(3));
        orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!(ends().await, app.now() + lease);
        app.clock.advance(jiff::SignedDuration::from_hours(-24));
        orchestrator::attend(app.store(), "here").await.unwrap();
        assert_eq!(ends().await, app.now() + lease);
        app.advance(lease).await;
        assert_eq!(app.show_sandbox(&sandbox).await["end_reason"], "lease_expired");
    }

    async fn a_lease_out_of_range_is_refused_with_the_bounds(app: App) {
        for seconds in [i64::MIN, -1, 0, 1, 9, 86_401, i64::MAX] {
            let asked = json!({ "lease_seconds": seconds });
            let problem = app.post("/api/v1/sandboxes", asked).await.refused(422, "lease_out_of_range");
            let detail = text(&problem["detail"]);
            for part in [seconds.to_string().as_str(), "10 to 86400 seconds", "lease.request_min"] {
                assert!(detail.contains(part), "{part:?} is not in {detail:?}");
            }
        }
        for seconds in [10, 86_400] {
            app.attach(json!({ "lease_seconds": seconds })).await;
        }
    }

    async fn a_fault_in_one_part_of_the_upkeep_holds_up_no_other(app: App) {
        app.sandbox().await;
        let agent = app.agent(&[]).await;
        let body = json!({ "sequence_number": 1 });
        app.post(&format!("/api/v1/agents/{agent}/heartbeat"), body).await.expect(200);
        app.breaks("UPDATE ON sandboxes", "NEW.live = 0").await;
        app.clock.advance(jiff::SignedDuration::from_hours(1));
        assert!(omoi_server::orchestrator::upkeep(app.store()).await.is_err(), "the fault is told");
        let shown = app.get(&format!("/api/v1/agents/{agent}")).await.expect(200);
        assert_eq!(shown["status"], "failed");
    }

    async fn every_attempt_works_on_the_branch_of_the_first(app: App) {
        let (task, first) = app.under_way(json!({})).await;
        let branch = app.show(&task).await["branch_name"].clone();
        assert!(branch.is_string(), "{branch}");
        assert_eq!(app.show_sandbox(&first).await["branch_name"], branch);
        app.patch(&format!("/api/v1/tasks/{task}"), json!({ "title": "another title" })).await.expect(200);
        app.advance(LEASE).await;
        assert_eq!(app.show(&task).await["branch_name"], branch, "kept while it waits");
        app.advance(MINUTE).await;
        let second = app.attached_to(&task).await;
        assert_eq!(app.show_sandbox(&second).await["branch_name"], branch);
        app.cancel(&task).await;
        app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        let third = app.attached_to(&task).await;
        assert_eq!(app.show_sandbox(&third).await["branch_name"], branch);
    }

    async fn a_task_that_runs_longer_than_its_timeout_is_taken_from_its_sandbox(app: App) {
        let (task, sandbox) = app.under_way(json!({ "timeout_seconds": 300, "max_retries": 1 })).await;
        for _ in 0..4 {
            app.advance(MINUTE).await;
            app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
        }
        assert_eq!(app.task_status(&task).await, "running");
        app.advance(MINUTE).await;
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["retry_count"]), (&json!("pending"), &json!(1)));
        assert_eq!(app.show_sandbox(&sandbox).await["status"], "failed");
        assert_eq!(app.told_of("TASK_TIMED_OUT").await, [json!({ "task_id": task })]);
        let late = app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        assert_eq!(late["refused"], "lease_passed_on");

        app.advance(MINUTE).await;
        let second = app.attached_to(&task).await;
        app.event(&second, "agent.started", json!({})).await.expect(200);
        for _ in 0..5 {
            app.event(&second, "agent.heartbeat", json!({})).await.expect(200);
            app.advance(MINUTE).await;
        }
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["failure_kind"]), (&json!("failed"), &json!("timed_out")));
    }

    async fn time_runs_from_the_start_of_the_work_and_not_from_the_claim(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({ "timeout_seconds": 100 })).await;
        app.advance(MINUTE * 5).await;
        let sandbox = app.attached_to(&task).await;
        app.advance(MINUTE + 50 * SECOND).await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        app.advance(99 * SECOND).await;
        assert_eq!(app.task_status(&task).await, "running");
        app.advance(SECOND).await;
        assert_eq!(app.task_status(&task).await, "pending");
    }

    async fn a_lost_sandbox_frees_its_place_in_the_project(app: App) {
        let project = app.post("/api/v1/projects", json!({ "name": "parser", "max_concurrent": 1 })).await.expect(201);
        let project = text(&project["id"]);
        let first = app.task(&project, json!({ "priority": "HIGH" })).await;
        let second = app.task(&project, json!({ "priority": "LOW" })).await;
        let agent = app.agent(&[]).await;
        assert_eq!(app.claim(&agent).await.unwrap()["task"]["id"], first.as_str());
        assert_eq!(app.claim(&agent).await, None);
        app.advance(LEASE).await;
        assert_eq!(app.claim(&agent).await.unwrap()["task"]["id"], second.as_str(), "the first waits its turn");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_length_of_a_lease_is_configured() {
    let app = App::start_with(On::Sqlite, |config| {
        config.lease.duration = Duration::from_secs(10);
        config.lease.late_report_grace = Duration::ZERO;
        config.retry.max_retries = 0;
    })
    .await;
    let (task, sandbox) = app.under_way(json!({})).await;
    app.advance(Duration::from_secs(9)).await;
    assert_eq!(app.task_status(&task).await, "running");
    app.advance(SECOND).await;
    assert_eq!(app.task_status(&task).await, "failed", "there are no retries");
    app.event(&sandbox, "agent.message", json!({})).await.refused(401, "token_ended");
}
