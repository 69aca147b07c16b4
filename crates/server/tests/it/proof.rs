//! Done means proven: declared checks stand between the work and its completion, and nobody's word replaces them.

use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, unique},
    on_both,
    work::{LEASE, MINUTE, text},
};

const COMMIT: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";

impl App {
    /// A project with a repository, in which nobody runs anything here.
    async fn project_with_checks(&self, checks: Value) -> String {
        let body = json!({
            "name": unique("project"), "repository_url": "/nowhere/repository", "settings": { "checks": checks },
        });
        text(&self.post("/api/v1/projects", body).await.expect(201)["id"])
    }

    async fn proven_by_tests(&self, more: Value) -> String {
        let project = self.project_with_checks(json!([{ "name": "tests", "command": "make test" }])).await;
        self.task(&project, more).await
    }

    /// A worker elsewhere does the task and says so.
    async fn work_done(&self, task: &str) -> Sandbox {
        let sandbox = self.attached_to(task).await;
        self.event(&sandbox, "agent.started", json!({})).await.expect(200);
        let said = json!({ "commit": COMMIT, "final_output": "done", "turns": 3 });
        let answer = self.event(&sandbox, "agent.completed", said).await.expect(200);
        assert_eq!(answer["refused"], json!(null), "{answer}");
        sandbox
    }

    /// A sandbox for the checks, as its worker would speak from it.
    async fn order_checks(&self, task: &str) -> Sandbox {
        let project = text(&self.show(task).await["project_id"]);
        let path = format!("/api/v1/projects/{project}/sandboxes");
        let ordered = self.post(&path, json!({ "task_id": task })).await.expect(202);
        assert_eq!(ordered["stage"], "check", "{ordered}");
        Sandbox { task: Some(task.to_owned()), ..self.worker_of(&text(&ordered["id"])).await }
    }

    async fn evidence(&self, task: &str) -> Value {
        self.get(&format!("/api/v1/tasks/{task}/evidence")).await.expect(200)
    }

    async fn assert_at(&self, task: &str, status: &str, stage: &str, retries: i64) {
        let shown = self.show(task).await;
        let found = (&shown["status"], &shown["stage"], &shown["retry_count"]);
        assert_eq!(found, (&json!(status), &json!(stage), &json!(retries)), "{shown}");
    }
}

fn result(passed: bool) -> Value {
    let exit_code = i64::from(!passed);
    json!([{
        "name": "tests", "command": "make test", "passed": passed, "exit_code": exit_code, "duration_ms": 12,
        "output_preview": "the last lines",
    }])
}

fn failed_checks() -> Value {
    json!({ "error": "1 of 1 checks failed: tests\nassertion failed", "failure_kind": "checks", "checks": result(false) })
}

on_both! {
    async fn declared_checks_stand_between_the_work_and_its_completion(app: App) {
        let task = app.proven_by_tests(json!({})).await;
        let project = text(&app.show(&task).await["project_id"]);
        let next = app.task(&project, json!({ "dependencies": [task] })).await;
        let worker = app.work_done(&task).await;

        app.assert_at(&task, "pending", "check", 0).await;
        let waiting = app.show(&task).await;
        assert_eq!((&waiting["not_before"], &waiting["result"]["output"]), (&json!(null), &json!("done")));
        assert_eq!(app.show(&next).await["unmet_dependencies"], 1, "nothing is built on what is not proven");
        let ended = app.show_sandbox(&worker).await;
        assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("completed"), &json!("work_completed")));

        let checks = app.order_checks(&task).await;
        app.event(&checks, "agent.started", json!({ "sdk": "checks" })).await.expect(200);
        app.assert_at(&task, "running", "check", 0).await;
        app.event(&checks, "agent.completed", json!({ "checks": result(true) })).await.expect(200);

        app.assert_at(&task, "completed", "check", 0).await;
        let done = app.show(&task).await;
        let outcome = &done["result"];
        assert_eq!((&outcome["verification"], &outcome["commit"]), (&json!("verified"), &json!(COMMIT)));
        assert_eq!((&outcome["output"], &outcome["turns"]), (&json!("done"), &json!(3)), "the work's own outcome stays");
        assert_eq!(app.show(&next).await["unmet_dependencies"], 0);

        let evidence = app.evidence(&task).await;
        let check = &evidence["checks"][0];
        assert_eq!((&check["name"], &check["passed"], &check["exit_code"]), (&json!("tests"), &json!(true), &json!(0)));
        assert_eq!((&check["sandbox_id"], &check["output_preview"]), (&json!(checks.id), &json!("the last lines")));
        let stages: Vec<_> = evidence["attempts"].as_array().unwrap().iter()
            .map(|attempt| (text(&attempt["sandbox_id"]), text(&attempt["stage"]), text(&attempt["status"]))).collect();
        let expected = [(worker.id, "work", "completed"), (checks.id, "check", "completed")];
        assert_eq!(stages, expected.map(|(id, stage, status)| (id, stage.to_owned(), status.to_owned())));
    }

    async fn failed_checks_go_back_to_work_with_what_they_said(app: App) {
        let task = app.proven_by_tests(json!({ "max_retries": 1 })).await;
        app.work_done(&task).await;
        let checks = app.order_checks(&task).await;
        app.event(&checks, "agent.failed", failed_checks()).await.expect(200);

        app.assert_at(&task, "pending", "work", 1).await;
        let evidence = app.evidence(&task).await;
        assert_eq!((&evidence["verification"], &evidence["checks"][0]["passed"]), (&json!("disputed"), &json!(false)));
        assert_eq!(app.show_sandbox(&checks).await["end_reason"], "checks_failed");
        app.advance(MINUTE).await;
        let again = app.attached_to(&task).await;
        app.event(&again, "agent.failed", json!({ "error": "lost its way", "failure_kind": "invalid" })).await.expect(200);
        app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        app.assert_at(&task, "pending", "work", 0).await;

        let project = text(&app.show(&task).await["project_id"]);
        let ordered = app.post(&format!("/api/v1/projects/{project}/sandboxes"), json!({ "task_id": task })).await.expect(202);
        let facts = app.store().place_facts(&text(&ordered["id"]).parse().unwrap()).await.unwrap();
        assert!(facts.feedback.unwrap().contains("assertion failed"), "whoever works on it next is told");
        assert_eq!((facts.owed, &ordered["branch_name"]), (None, &app.show(&task).await["branch_name"]));
    }

    async fn checks_that_fail_to_the_last_fail_the_task(app: App) {
        let task = app.proven_by_tests(json!({ "max_retries": 0 })).await;
        app.work_done(&task).await;
        let checks = app.order_checks(&task).await;
        app.event(&checks, "agent.failed", failed_checks()).await.expect(200);
        let failed = app.show(&task).await;
        assert_eq!((&failed["status"], &failed["failure_kind"]), (&json!("failed"), &json!("checks")));
        app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        app.assert_at(&task, "pending", "work", 0).await;
    }

    async fn a_success_without_the_declared_results_is_none(app: App) {
        for checks in [json!(null), json!([]), json!("all fine"), result(false), json!([{ "name": "other", "command": "true", "passed": true, "exit_code": 0 }])] {
            let task = app.proven_by_tests(json!({})).await;
            app.work_done(&task).await;
            let sandbox = app.order_checks(&task).await;
            app.event(&sandbox, "agent.completed", json!({ "success": true, "checks": checks })).await.expect(200);
            app.assert_at(&task, "pending", "work", 1).await;
        }
    }

    async fn a_check_sandbox_that_is_lost_leaves_the_work_done(app: App) {
        let task = app.proven_by_tests(json!({})).await;
        app.work_done(&task).await;
        let lost = app.order_checks(&task).await;
        app.event(&lost, "agent.started", json!({})).await.expect(200);
        app.advance(LEASE).await;
        app.assert_at(&task, "pending", "check", 1).await;

        app.advance(MINUTE).await;
        let next = app.order_checks(&task).await;
        let late = app.event(&lost, "agent.completed", json!({ "checks": result(true) })).await.expect(200);
        assert_eq!(late["refused"], "lease_passed_on", "{late}");
        app.event(&next, "agent.completed", json!({ "checks": result(true) })).await.expect(200);
        app.assert_at(&task, "completed", "check", 1).await;
    }

    async fn late_success_has_to_be_proven_like_any(app: App) {
        let task = app.proven_by_tests(json!({})).await;
        let late = app.attached_to(&task).await;
        app.event(&late, "agent.started", json!({})).await.expect(200);
        app.advance(LEASE).await;
        app.assert_at(&task, "pending", "work", 1).await;
        app.advance(MINUTE).await;
        app.event(&late, "agent.completed", json!({ "commit": COMMIT })).await.expect(200);
        app.assert_at(&task, "pending", "check", 0).await;
        assert_eq!(app.evidence(&task).await["commit"], COMMIT);
        assert_eq!(app.show_sandbox(&late).await["end_reason"], "work_completed");
        let checks = app.order_checks(&task).await;
        app.event(&checks, "agent.completed", json!({ "checks": result(true) })).await.expect(200);
        app.assert_at(&task, "completed", "check", 0).await;
    }

    /// The server removes a sandbox of its own making once its lease has run out, so it cannot go on.
    async fn of_a_lost_sandbox_that_was_made_here_only_the_end_of_its_attempt_counts(app: App) {
        let task = app.proven_by_tests(json!({})).await;
        app.work_done(&task).await;
        let late = app.order_checks(&task).await;
        app.event(&late, "agent.started", json!({})).await.expect(200);
        app.advance(LEASE).await;
        for event_type in ["agent.heartbeat", "agent.tool_use", "agent.started"] {
            let answer = app.event(&late, event_type, json!({})).await.expect(200);
            app.assert_at(&task, "pending", "check", 1).await;
            if event_type == "agent.started" {
                assert_eq!(answer["refused"], "lease_passed_on");
                assert!(text(&answer["refused_because"]).contains("only the final report of the attempt"), "{answer}");
            }
        }
        assert_eq!(app.show_sandbox(&late).await["status"], "lost");
        app.event(&late, "agent.completed", json!({ "checks": result(true) })).await.expect(200);
        app.assert_at(&task, "completed", "check", 0).await;
        let ended = app.show_sandbox(&late).await;
        assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("completed"), &json!("task_completed")));
    }

    async fn whoever_did_the_work_cannot_speak_for_its_proof(app: App) {
        let task = app.proven_by_tests(json!({})).await;
        let worker = app.work_done(&task).await;
        let proven = json!({ "checks": result(true), "verification": "verified", "commit": COMMIT });
        for checking in [false, true] {
            if checking {
                app.order_checks(&task).await;
            }
            let late = app.event(&worker, "agent.completed", proven.clone()).await.expect(200);
            assert_eq!(late["refused"], "lease_passed_on", "{late}");
            assert_eq!(app.show(&task).await["stage"], "check");
        }
        app.post("/api/v1/sandboxes", json!({ "task_id": app.proven_by_tests(json!({})).await })).await.expect(201);

        let other = app.proven_by_tests(json!({})).await;
        app.work_done(&other).await;
        app.post("/api/v1/sandboxes", json!({ "task_id": other })).await.refused(409, "checks_alone");
        let agent = app.agent(&[]).await;
        assert_eq!(app.claim(&agent).await, None, "nor may an agent elsewhere take them");
        let project = text(&app.show(&other).await["project_id"]);
        let instead = json!({ "task_id": other, "command": ["true"] });
        app.post(&format!("/api/v1/projects/{project}/sandboxes"), instead).await.refused(409, "checks_alone");
    }

    async fn without_declared_checks_a_task_is_completed_and_says_unverified(app: App) {
        let tests = json!([{ "name": "tests", "command": "make test" }]);
        let project = app.project_with_checks(json!([])).await;
        let none_here = app.task(&project, json!({})).await;
        let project = app.project_with_checks(tests.clone()).await;
        let not_for_this = app.task(&project, json!({ "execution_config": { "checks": [] } })).await;
        let ticket = app.ticket(&project, json!({ "checks": [] })).await;
        for task in [none_here, not_for_this, text(&ticket["task_id"])] {
            let sandbox = app.attached_to(&task).await;
            let boast = json!({ "checks": result(true), "verification": "verified" });
            app.event(&sandbox, "agent.completed", boast).await.expect(200);
            let done = app.show(&task).await;
            assert_eq!((&done["status"], &done["result"]["verification"]), (&json!("completed"), &json!("unverified")), "{done}");
            assert_eq!(app.evidence(&task).await["checks"], json!([]));
        }
        let project = app.project_with_checks(json!([])).await;
        let ticket = app.ticket(&project, json!({ "checks": tests })).await;
        app.work_done(&text(&ticket["task_id"])).await;
        app.assert_at(&text(&ticket["task_id"]), "pending", "check", 0).await;
    }

    async fn a_change_of_the_settings_does_not_change_what_is_owed(app: App) {
        let task = app.proven_by_tests(json!({})).await;
        app.work_done(&task).await;
        let project = text(&app.show(&task).await["project_id"]);
        app.patch(&format!("/api/v1/projects/{project}"), json!({ "settings": {} })).await.expect(200);
        let checks = app.order_checks(&task).await;
        let facts = app.store().place_facts(&checks.id.parse().unwrap()).await.unwrap();
        let owed = facts.owed.unwrap();
        assert_eq!((owed.commit.as_deref(), owed.checks[0].command.as_str()), (Some(COMMIT), "make test"));
    }

    async fn checks_that_cannot_be_run_are_refused_where_they_are_set(app: App) {
        let bad = json!([{ "name": "", "command": "true" }]);
        let project = app.project_with_checks(json!([])).await;
        let new = json!({ "name": unique("p"), "settings": { "checks": bad } });
        for (path, body) in [
            ("/api/v1/projects", new),
            ("/api/v1/tasks", json!({ "project_id": project, "title": "t", "execution_config": { "checks": bad } })),
            ("/api/v1/tickets", json!({ "project_id": project, "title": "t", "checks": bad })),
        ] {
            let refused = app.post(path, body).await;
            assert_eq!(refused.status, 422, "{path}");
            assert!(text(&refused.body["detail"]).contains("checks"), "{}", refused.body);
        }
    }
}
