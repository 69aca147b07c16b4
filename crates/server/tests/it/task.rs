//! Tasks: made, found, changed, and moved through their life by events and by people.

use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox, unique},
    on_both,
    work::{MINUTE, SECOND, ids, sandbox_of, text, time},
};

/// A task of a new project, and a sandbox that holds and has started it.
async fn running(app: &App) -> (String, Sandbox) {
    let sandbox = app.sandbox_with_task().await;
    app.event(&sandbox, "agent.started", json!({})).await.expect(200);
    (sandbox.task.clone().unwrap(), sandbox)
}

on_both! {
    async fn within_a_run_of_iterations_its_own_end_decides(app: App) {
        let ends = [
            (json!({ "validation_passed": true }), "completed", json!(null), "task_completed"),
            (json!({ "validation_passed": false, "stop_reason": "completion_signal" }), "pending", json!(null), "checks_failed"),
            (json!({ "stop_reason": "max_iterations_reached" }), "failed", json!("limit"), "limit"),
        ];
        for (n, (data, status, kind, reason)) in ends.into_iter().enumerate() {
            let sandbox = app.sandbox_with_task().await;
            let task = sandbox.task.as_ref().unwrap();
            let begin = [("agent.started", json!({})), ("continuous.started", json!({})), ("agent.completed", json!({ "turns": 3 }))];
            if n == 0 {
                // In one request, so that no event of it is stored yet when the last one is looked at.
                let batch: Vec<_> = begin.iter().map(|(kind, data)| json!({ "event_type": kind, "event_data": data })).collect();
                app.post_as(&sandbox, "/events", json!({ "events": batch })).await.expect(200);
            } else {
                for (event_type, data) in begin {
                    app.event(&sandbox, event_type, data).await.expect(200);
                }
            }
            // Another write forgets what is remembered of the sandbox.
            app.sandbox_with_task().await;
            for data in [json!({}), json!({ "success": true }), json!({ "success": false, "error": "e" })] {
                let answer = app.event(&sandbox, "agent.completed", data.clone()).await.expect(200);
                assert_eq!((&answer["refused"], app.task_status(task).await), (&json!(null), "running".to_owned()), "{data}");
            }
            let answer = app.event(&sandbox, "continuous.completed", data.clone()).await.expect(200);
            assert_eq!(answer["refused"], json!(null), "{data}");
            let shown = app.show(task).await;
            assert_eq!((&shown["status"], &shown["failure_kind"]), (&json!(status), &kind), "{data}");
            assert_eq!(app.show_sandbox(&sandbox).await["end_reason"], reason, "{data}");
        }
    }

    async fn a_worker_that_is_shut_down_has_not_done_its_task(app: App) {
        let told = [
            ("agent.completed", json!({ "reason": "shutdown", "success": true, "turns": 3 })),
            ("agent.completed", json!({ "stop_reason": "shutdown_signal" })),
            ("continuous.completed", json!({ "stop_reason": "shutdown_signal", "validation_passed": false })),
        ];
        for (event_type, data) in told {
            let project = app.project(&unique("project")).await;
            let task = app.task(&project, json!({ "max_retries": 1 })).await;
            let sandbox = app.attached_to(&task).await;
            app.event(&sandbox, event_type, data.clone()).await.expect(200);
            let shown = app.show(&task).await;
            assert_eq!((&shown["status"], &shown["retry_count"]), (&json!("pending"), &json!(1)), "{event_type} {data}");
            assert_eq!(shown["error_message"], "the worker was shut down before the work was done");
            let ended = app.show_sandbox(&sandbox).await;
            assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("failed"), &json!("shut_down")));
            app.advance(MINUTE).await;
            let again = app.attached_to(&task).await;
            app.event(&again, event_type, data).await.expect(200);
            let shown = app.show(&task).await;
            assert_eq!((&shown["status"], &shown["failure_kind"]), (&json!("failed"), &json!("shut_down")));
        }
    }

    async fn the_next_attempt_may_end_without_iterations(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        for (event_type, data) in [("continuous.started", json!({})), ("agent.failed", json!({ "error": "e" }))] {
            app.event(&sandbox, event_type, data).await.expect(200);
        }
        assert_eq!(app.task_status(&task).await, "pending", "the run itself has failed");
        app.advance(MINUTE).await;
        let second = app.attached_to(&task).await;
        app.event(&second, "agent.completed", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "completed");
    }

    async fn a_task_is_made_with_defaults(app: App) {
        let project = app.project("parser").await;
        let made = app.post("/api/v1/tasks", json!({ "project_id": project, "title": "x" })).await.expect(201);
        let expected = json!({
            "title": "x", "description": "", "status": "pending", "priority": "MEDIUM",
            "task_type": "implementation", "phase_id": "PHASE_IMPLEMENTATION", "dependency_policy": "block",
            "retry_count": 0, "max_retries": 3, "dependencies": [], "unmet_dependencies": 0,
            "sandbox_id": null, "assigned_agent_id": null, "branch_name": null, "result": null,
            "failure_kind": null, "error_message": null, "timeout_seconds": null, "not_before": null,
            "started_at": null, "completed_at": null, "score": 0.275,
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
        let mut shown = app.show(&text(&made["id"])).await;
        assert_eq!(shown["waiting_for"]["reason"], "no_repository", "who looks at one task is told what it waits for");
        shown.as_object_mut().unwrap().remove("waiting_for");
        assert_eq!(shown, made);
    }

    async fn a_task_keeps_everything_it_was_made_with(app: App) {
        let project = app.project("parser").await;
        let parent = app.task(&project, json!({})).await;
        let new = json!({
            "project_id": project, "title": "fix it", "description": "all of it", "priority": "CRITICAL",
            "task_type": "fix", "phase_id": "PHASE_TESTING", "parent_task_id": parent, "dependencies": [parent],
            "dependency_policy": "skip", "required_capabilities": ["rust", "sql"], "owned_files": ["src/**/*.rs"],
            "max_retries": 0, "timeout_seconds": 90, "deadline_at": "2026-02-03T04:05:06.789Z",
            "execution_config": { "depth": { "of": ["thought", 1, null] } },
        });
        let made = app.post("/api/v1/tasks", new.clone()).await.expect(201);
        for (field, value) in new.as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
    }

    async fn a_task_belongs_to_the_project_of_its_ticket(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        let ticket = app.ticket(&parser, json!({ "create_task": false })).await;
        let by_ticket = json!({ "ticket_id": ticket["id"], "title": "x" });
        let made = app.post("/api/v1/tasks", by_ticket).await.expect(201);
        assert_eq!(made["project_id"], parser.as_str());

        let torn = json!({ "ticket_id": ticket["id"], "project_id": printer, "title": "x" });
        app.post("/api/v1/tasks", torn).await.refused(422, "project_mismatch");
        app.post("/api/v1/tasks", json!({ "title": "x" })).await.refused(422, "project_missing");
        let orphan = json!({ "project_id": parser, "title": "x", "parent_task_id": "task-none" });
        app.post("/api/v1/tasks", orphan).await.refused(404, "task_not_found");
        assert_eq!(app.pages("/api/v1/tasks", 10).await.len(), 1);
    }

    async fn tasks_are_listed_by_what_is_known_of_them(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        let ticket = app.ticket(&parser, json!({})).await;
        let of_ticket = text(&ticket["task_id"]);
        let testing = app.task(&parser, json!({ "phase_id": "PHASE_TESTING" })).await;
        let held = app.task(&printer, json!({})).await;
        app.attached_to(&held).await;
        let over = app.task(&printer, json!({})).await;
        app.complete(&over).await;

        let table = [
            ("", vec![&over, &held, &testing, &of_ticket]),
            ("?status=pending", vec![&testing, &of_ticket]),
            ("?status=assigned", vec![&held]),
            ("?status=completed", vec![&over]),
            ("?status=failed", vec![]),
            ("?phase_id=PHASE_TESTING", vec![&testing]),
            ("?has_sandbox=true", vec![&held]),
            ("?has_sandbox=false", vec![&over, &testing, &of_ticket]),
            (&format!("?project_id={printer}"), vec![&over, &held]),
            (&format!("?ticket_id={}", text(&ticket["id"])), vec![&of_ticket]),
            (&format!("?project_id={parser}&status=pending&has_sandbox=false"), vec![&testing, &of_ticket]),
            (&format!("?project_id={parser}&status=assigned"), vec![]),
        ];
        for (query, expected) in table {
            let listed = ids(&app.pages(&format!("/api/v1/tasks{query}"), 2).await);
            assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{query}");
        }
        app.get("/api/v1/tasks?status=sleeping").await.refused(422, "invalid_query");
    }

    async fn a_page_of_tasks_has_a_size_from_1_to_500(app: App) {
        for limit in ["0", "-1", "501", "9223372036854775807"] {
            app.get(&format!("/api/v1/tasks?limit={limit}")).await.refused(422, "validation_failed");
        }
        app.get("/api/v1/tasks?limit=many").await.refused(422, "invalid_query");
        app.get("/api/v1/tasks?cursor=../etc").await.refused(422, "invalid_cursor");
        app.get("/api/v1/tasks?limit=500").await.expect(200);
    }

    async fn a_patch_changes_what_it_names_and_never_the_status(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({ "description": "old" })).await;
        let path = format!("/api/v1/tasks/{task}");
        let mut expected = app.show(&task).await;
        let waiting = expected.as_object_mut().unwrap().remove("waiting_for").unwrap();
        app.advance(SECOND).await;
        let patch = json!({ "title": "new", "priority": "HIGH", "deadline_at": "2027-01-01T00:00:00Z" });
        let changed = app.patch(&path, patch.clone()).await.expect(200);
        expected.as_object_mut().unwrap().extend(patch.as_object().unwrap().clone());
        expected["updated_at"] = json!(app.now().to_string());
        expected["score"] = changed["score"].clone();
        assert_eq!(changed, expected);
        assert!((changed["score"].as_f64().unwrap() - 0.3875).abs() < 0.001, "{}", changed["score"]);

        for forbidden in ["status", "sandbox_id", "assigned_agent_id", "result", "branch_name"] {
            app.patch(&path, json!({ forbidden: "completed" })).await.refused(422, "validation_failed");
        }
        expected["waiting_for"] = waiting;
        assert_eq!(app.show(&task).await, expected);
        app.patch("/api/v1/tasks/task-none", json!({})).await.refused(404, "task_not_found");
    }

    async fn events_move_a_task(app: App) {
        let looped = |passed: bool, why: &str| json!({ "validation_passed": passed, "stop_reason": why });
        let invalid = json!({ "error": "no access", "failure_kind": "invalid" });
        // What is reported, what becomes of the task, and why.
        let table = [
            (vec![("agent.heartbeat", json!({}))], "assigned", json!(null)),
            (vec![("agent.tool_use", json!({ "tool": "Bash" }))], "assigned", json!(null)),
            (vec![("agent.started", json!({}))], "running", json!(null)),
            (vec![("agent.started", json!({})), ("agent.started", json!({}))], "running", json!(null)),
            (vec![("agent.started", json!({})), ("agent.completed", json!({}))], "completed", json!(null)),
            (vec![("agent.completed", json!({ "success": true }))], "completed", json!(null)),
            (vec![("agent.completed", json!({ "success": false, "failure_kind": "invalid" }))], "failed", json!("invalid")),
            (vec![("agent.completed", json!({ "success": false }))], "pending", json!(null)),
            (vec![("agent.completed", json!({ "continuous": true }))], "assigned", json!(null)),
            (vec![("agent.failed", json!({ "error": "gave up" }))], "pending", json!(null)),
            (vec![("agent.failed", invalid)], "failed", json!("invalid")),
            (vec![("agent.error", json!({ "error": "one tool" }))], "assigned", json!(null)),
            (vec![("agent.error", json!({ "error": "all", "fatal": true }))], "pending", json!(null)),
            (vec![("continuous.completed", looped(true, "validation_passed"))], "completed", json!(null)),
            (vec![("continuous.completed", looped(false, "completion_signal"))], "pending", json!(null)),
            (vec![("continuous.completed", looped(false, "max_iterations_reached"))], "failed", json!("limit")),
            (vec![("continuous.completed", json!({ "state": { "validation_passed": true } }))], "completed", json!(null)),
        ];
        for (events, status, kind) in table {
            let sandbox = app.sandbox_with_task().await;
            for (event_type, data) in &events {
                let answer = app.event(&sandbox, event_type, data.clone()).await.expect(200);
                assert_eq!(answer["refused"], json!(null), "{events:?}");
            }
            let task = app.show(sandbox.task.as_ref().unwrap()).await;
            assert_eq!((&task["status"], &task["failure_kind"]), (&json!(status), &kind), "{events:?}");
        }
    }

    async fn a_task_says_when_it_began_and_ended_and_who_held_it(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        app.advance(SECOND).await;
        let began = app.now();
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        app.advance(MINUTE).await;
        app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        let shown = app.show(&task).await;
        assert_eq!((time(&shown["started_at"]), time(&shown["completed_at"])), (began, app.now()));
        assert_eq!(shown["sandbox_id"], sandbox.id.as_str());
        let ended = app.show_sandbox(&sandbox).await;
        assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("completed"), &json!("task_completed")));
        assert_eq!((time(&ended["ended_at"]), &ended["lease_expires_at"]), (app.now(), &json!(null)));
        assert_eq!(app.get_as(&sandbox, "/task").await.expect(200)["id"], task.as_str());
    }

    async fn each_step_of_a_task_is_told_in_order(app: App) {
        let (task, sandbox) = running(&app).await;
        app.event(&sandbox, "agent.completed", json!({ "turns": 2 })).await.expect(200);
        let told: Vec<_> = app.told().await;
        let steps: Vec<_> = told.iter().filter(|event| event["entity_id"] == task.as_str()).collect();
        let names: Vec<_> = steps.iter().map(|event| text(&event["event_type"])).collect();
        assert_eq!(names, ["TASK_CREATED", "TASK_ASSIGNED", "TASK_STARTED", "TASK_COMPLETED"]);
        let statuses: Vec<_> = steps[1..].iter().map(|event| &event["payload"]["old_status"]).collect();
        assert_eq!(statuses, ["pending", "assigned", "running"]);
        assert_eq!(steps[3]["payload"]["has_result"], true);
    }

    async fn a_whole_run_may_come_in_one_batch(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let event = |kind: &str| json!({ "event_type": kind, "event_data": {} });
        let batch = json!({ "events": [event("agent.started"), event("agent.completed"), event("agent.failed")] });
        let answer = app.post_as(&sandbox, "/events", batch).await.expect(200);
        let refused: Vec<_> = (0..3).map(|n| &answer["events"][n]["refused"]).collect();
        assert_eq!(refused, [&json!(null), &json!(null), &json!("task_final")]);
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "completed");
    }

    async fn a_completed_task_cannot_be_un_completed(app: App) {
        let (task, sandbox) = running(&app).await;
        app.event(&sandbox, "agent.completed", json!({ "turns": 3 })).await.expect(200);
        let done = app.show(&task).await;
        let stored_before = app.get(&format!("/api/v1/sandboxes/{}/events", sandbox.id)).await.expect(200);
        app.advance(SECOND).await;

        let late = [
            ("agent.started", json!({})),
            ("agent.completed", json!({ "turns": 99 })),
            ("agent.completed", json!({ "success": false })),
            ("agent.failed", json!({ "error": "late", "failure_kind": "invalid" })),
            ("agent.error", json!({ "error": "late", "fatal": true })),
            ("continuous.completed", json!({ "validation_passed": false })),
            ("continuous.completed", json!({ "validation_passed": true })),
        ];
        for (event_type, data) in &late {
            let answer = app.event(&sandbox, event_type, data.clone()).await.expect(200);
            assert_eq!((&answer["status"], &answer["refused"]), (&json!("received"), &json!("task_final")));
        }
        let complete = json!({ "task_id": task, "success": false });
        app.post_as(&sandbox, "/task-complete", complete).await.refused(409, "task_final");
        let path = format!("/api/v1/tasks/{task}");
        app.post(&format!("{path}/cancel"), json!({})).await.refused(409, "task_final");
        app.post(&format!("{path}/retry"), json!({})).await.refused(409, "task_final");
        app.attach_refused(&task, 409, "task_held").await;
        app.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);

        assert_eq!(app.show(&task).await, with_score_of(&done, &app.show(&task).await));
        let stored = app.get(&format!("/api/v1/sandboxes/{}/events", sandbox.id)).await.expect(200);
        let more = stored["total_count"].as_i64().unwrap() - stored_before["total_count"].as_i64().unwrap();
        assert_eq!(more, late.len() as i64, "what is refused as a step is kept as news");
    }

    async fn a_result_is_added_to_and_never_written_over(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let first = app.attached_to(&task).await;
        let noted = json!({
            "task_id": task, "success": false, "error_message": "not yet",
            "result": { "spec_task_id": "st-7", "revision_feedback": ["too slow"] },
        });
        app.post_as(&first, "/task-complete", noted).await.expect(200);
        let shown = app.show(&task).await;
        assert_eq!(shown["result"], json!({ "spec_task_id": "st-7", "revision_feedback": ["too slow"] }));

        app.advance(MINUTE).await;
        let second = app.attached_to(&task).await;
        app.event(&second, "agent.completed", json!({ "turns": 3, "final_output": "done" })).await.expect(200);
        let result = app.show(&task).await["result"].clone();
        assert_eq!((&result["spec_task_id"], &result["revision_feedback"]), (&json!("st-7"), &json!(["too slow"])));
        assert_eq!((&result["turns"], &result["output"], &result["success"]), (&json!(3), &json!("done"), &json!(true)));
        assert_eq!(result["verification"], "unverified", "nothing was checked, and it says so");
    }

    async fn a_worker_says_directly_that_its_task_is_over(app: App) {
        let (task, sandbox) = running(&app).await;
        let said = json!({ "task_id": task, "result": { "answer": 42 } });
        let answer = app.post_as(&sandbox, "/task-complete", said).await.expect(200);
        let expected = json!({
            "status": "accepted", "task_id": task, "new_status": "completed", "unblocked_tasks": [],
        });
        assert_eq!(answer, expected);
        let shown = app.show(&task).await;
        let result = json!({ "answer": 42, "verification": "unverified" });
        assert_eq!((&shown["status"], &shown["result"]), (&json!("completed"), &result));
    }

    async fn only_the_sandbox_that_holds_a_task_ends_it(app: App) {
        let (task, _holder) = running(&app).await;
        let (other_task, other) = running(&app).await;
        let said = json!({ "task_id": task });
        app.post_as(&other, "/task-complete", said.clone()).await.refused(409, "not_the_owner");
        let without_task = app.sandbox().await;
        app.post_as(&without_task, "/task-complete", said).await.refused(409, "not_the_owner");
        assert_eq!(app.task_status(&task).await, "running");
        assert_eq!(app.task_status(&other_task).await, "running");
    }

    async fn cancelling_a_pending_task_takes_it_from_the_offer(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let path = format!("/api/v1/tasks/{task}/cancel");
        let cancelled = app.post(&path, json!({ "reason": "not needed" })).await.expect(200);
        assert_eq!((&cancelled["status"], &cancelled["error_message"]), (&json!("cancelled"), &json!("not needed")));
        assert_eq!(app.claim(&app.agent(&[]).await).await, None);
        app.post(&path, json!({})).await.refused(409, "task_final");
        app.post("/api/v1/tasks/task-none/cancel", json!({})).await.refused(404, "task_not_found");
    }

    async fn cancelling_a_running_task_ends_its_sandbox_and_its_token(app: App) {
        let (task, sandbox) = running(&app).await;
        app.get_as(&sandbox, "/task").await.expect(200);
        app.cancel(&task).await;

        let ended = app.show_sandbox(&sandbox).await;
        assert_eq!((&ended["status"], &ended["end_reason"]), (&json!("terminated"), &json!("task_cancelled")));
        app.event(&sandbox, "agent.completed", json!({})).await.refused(401, "token_ended");
        app.get_as(&sandbox, "/task").await.refused(401, "token_ended");
        app.get_as(&sandbox, "/messages").await.refused(401, "token_ended");
        let said = json!({ "task_id": task });
        app.post_as(&sandbox, "/task-complete", said).await.refused(401, "token_ended");
        assert_eq!(app.task_status(&task).await, "cancelled");
        assert_eq!(app.pages("/api/v1/sandboxes?live=true", 10).await.len(), 0);
    }

    async fn terminating_a_sandbox_cancels_the_task_it_holds(app: App) {
        let (task, sandbox) = running(&app).await;
        let path = format!("/api/v1/sandboxes/{}/terminate", sandbox.id);
        let ended = app.post(&path, json!({ "reason": "burns money" })).await.expect(200);
        assert_eq!(ended["status"], "terminated");
        let shown = app.show(&task).await;
        assert_eq!((&shown["status"], &shown["error_message"]), (&json!("cancelled"), &json!("burns money")));
        app.event(&sandbox, "agent.completed", json!({})).await.refused(401, "token_ended");
        assert_eq!(app.post(&path, json!({})).await.expect(200)["status"], "terminated", "twice is harmless");
    }

    async fn what_failed_or_was_cancelled_can_be_retried_and_nothing_else(app: App) {
        let project = app.project("parser").await;
        let retry = async |task: &str| app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await;
        let task = app.task(&project, json!({})).await;
        retry(&task).await.refused(409, "not_over");
        app.fail(&task).await;
        let offered = retry(&task).await.expect(200);
        let expected = json!({
            "status": "pending", "retry_count": 0, "not_before": null, "failure_kind": null, "error_message": null,
            "sandbox_id": null, "started_at": null, "completed_at": null,
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&offered[field], value, "{field}");
        }
        let again = app.claim(&app.agent(&[]).await).await.unwrap();
        assert_eq!(again["task"]["id"], task.as_str());
        assert_eq!((&again["sandbox"]["generation"], &again["task"]["status"]), (&json!(2), &json!("assigned")));
        retry(&task).await.refused(409, "not_over");

        app.cancel(&task).await;
        assert_eq!(retry(&task).await.expect(200)["status"], "pending");
        retry("task-none").await.refused(404, "task_not_found");
    }

    async fn a_retry_counts_its_attempts_afresh(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({ "max_retries": 1 })).await;
        let attempt = async || {
            app.advance(MINUTE).await;
            let sandbox = app.attached_to(&task).await;
            app.event(&sandbox, "agent.failed", json!({ "error": "gave up" })).await.expect(200);
            let shown = app.show(&task).await;
            (text(&shown["status"]), shown["retry_count"].as_i64().unwrap())
        };
        assert_eq!(attempt().await, ("pending".to_owned(), 1));
        assert_eq!(attempt().await, ("failed".to_owned(), 1));
        assert_eq!(app.show(&task).await["failure_kind"], "agent");
        app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        assert_eq!(attempt().await, ("pending".to_owned(), 1));
        assert_eq!(attempt().await, ("failed".to_owned(), 1));
    }

    async fn a_timeout_is_set_counted_down_and_taken_away(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let path = format!("/api/v1/tasks/{task}");
        let status = async || app.get(&format!("{path}/timeout-status")).await.expect(200);
        let mut expected = json!({
            "task_id": task, "status": "pending", "timeout_seconds": null, "elapsed_seconds": null,
            "time_remaining": null, "is_timed_out": false, "can_cancel": true,
        });
        assert_eq!(status().await, expected);
        let set = app.post(&format!("{path}/set-timeout"), json!({ "timeout_seconds": 100 })).await.expect(200);
        expected["timeout_seconds"] = json!(100);
        assert_eq!(set, expected);

        let sandbox = app.attached_to(&task).await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        app.advance(MINUTE).await;
        expected["status"] = json!("running");
        expected["elapsed_seconds"] = json!(60);
        expected["time_remaining"] = json!(40);
        assert_eq!(status().await, expected);

        app.post(&format!("{path}/set-timeout"), json!({ "timeout_seconds": null })).await.expect(200);
        expected["timeout_seconds"] = json!(null);
        expected["time_remaining"] = json!(null);
        assert_eq!(status().await, expected);
        for bad in [json!(0), json!(-5), json!("soon"), json!(31_536_001)] {
            let body = json!({ "timeout_seconds": bad });
            app.post(&format!("{path}/set-timeout"), body).await.refused(422, "validation_failed");
        }
        app.get("/api/v1/tasks/task-none/timeout-status").await.refused(404, "task_not_found");
    }

    async fn a_sandbox_shows_its_task_and_one_without_has_none(app: App) {
        let claim = {
            let project = app.project("parser").await;
            app.task(&project, json!({})).await;
            app.claim(&app.agent(&[]).await).await.unwrap()
        };
        let holder = sandbox_of(&claim);
        assert_eq!(app.get_as(&holder, "/task").await.expect(200)["id"], claim["task"]["id"]);
        let without = app.sandbox().await;
        app.get_as(&without, "/task").await.refused(404, "task_of_sandbox_not_found");
    }
}

impl App {
    async fn attach_refused(&self, task: &str, status: u16, code: &str) {
        self.post("/api/v1/sandboxes", json!({ "task_id": task })).await.refused(status, code);
    }
}

/// The score is that of the moment of asking.
fn with_score_of(task: &Value, other: &Value) -> Value {
    let mut task = task.clone();
    task["score"] = other["score"].clone();
    task
}
