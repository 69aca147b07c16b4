//! Actions by authority: each written down with what was before and after, and taken back where that can be.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{Answer, App},
    on_both,
    work::text,
};

impl App {
    async fn act(&self, what: &str, body: Value) -> Answer {
        self.post(&format!("/api/v1/guardian/intervention/{what}"), body).await
    }

    async fn revert(&self, action: &Value) -> Answer {
        self.post(&format!("/api/v1/guardian/actions/{}/revert", text(&action["id"])), json!({})).await
    }

    async fn limit_of(&self, project: &str) -> Value {
        self.get(&format!("/api/v1/projects/{project}")).await.expect(200)["max_concurrent"].clone()
    }
}

on_both! {
    async fn a_cancelled_task_ends_its_sandbox_and_is_offered_again_when_that_is_taken_back(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let action = app.act("cancel-task", json!({ "task_id": task, "reason": "the wrong repository" })).await.expect(201);
        assert_eq!((&action["action_type"], &action["before"]["status"]), (&json!("cancel_task"), &json!("assigned")));
        let cancelled = app.show(&task).await;
        assert_eq!((&cancelled["status"], &cancelled["error_message"]), (&json!("cancelled"), &json!("the wrong repository")));
        assert_eq!(app.show_sandbox(&sandbox).await["status"], "terminated");

        let reverted = app.revert(&action).await.expect(200);
        assert!(reverted["reverted_at"].is_string());
        assert_eq!(app.task_status(&task).await, "pending");
        app.revert(&action).await.refused(409, "already_reverted");
    }

    async fn a_priority_is_put_back_unless_somebody_has_changed_it_since(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({ "priority": "LOW" })).await;
        let raise = json!({ "task_id": task, "priority": "CRITICAL", "reason": "customers wait" });
        let action = app.act("override-priority", raise.clone()).await.expect(201);
        assert_eq!(app.show(&task).await["priority"], "CRITICAL");
        app.revert(&action).await.expect(200);
        assert_eq!(app.show(&task).await["priority"], "LOW");

        let action = app.act("override-priority", raise).await.expect(201);
        app.patch(&format!("/api/v1/tasks/{task}"), json!({ "priority": "HIGH" })).await.expect(200);
        app.revert(&action).await.refused(409, "changed_since");
        assert_eq!(app.show(&task).await["priority"], "HIGH");
    }

    async fn an_overridden_priority_changes_what_is_claimed_next(app: App) {
        let project = app.project("parser").await;
        let _first = app.task(&project, json!({ "priority": "HIGH" })).await;
        let second = app.task(&project, json!({ "priority": "LOW" })).await;
        app.act("override-priority", json!({ "task_id": second, "priority": "CRITICAL", "reason": "now" })).await.expect(201);
        let agent = app.agent(&[]).await;
        assert_eq!(app.claimed(&agent).await.task, Some(second));
    }

    async fn places_move_between_projects_and_never_more_than_there_are(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        app.patch(&format!("/api/v1/projects/{parser}"), json!({ "max_concurrent": 3 })).await.expect(200);
        app.patch(&format!("/api/v1/projects/{printer}"), json!({ "max_concurrent": 1 })).await.expect(200);
        let moving = |capacity: i64| json!({
            "from_project_id": parser, "to_project_id": printer, "capacity": capacity, "reason": "the printer is late",
        });
        app.act("reallocate", moving(4)).await.refused(409, "capacity_missing");
        let action = app.act("reallocate", moving(2)).await.expect(201);
        assert_eq!((app.limit_of(&parser).await, app.limit_of(&printer).await), (json!(1), json!(3)));
        let operator = app.operator("olga", "operator").await;
        let path = format!("/api/v1/guardian/actions/{}/revert", text(&action["id"]));
        app.call(Method::POST, &path, &operator, None).await.refused(403, "role_too_low");
        assert_eq!((app.limit_of(&parser).await, app.limit_of(&printer).await), (json!(1), json!(3)));
        app.revert(&action).await.expect(200);
        assert_eq!((app.limit_of(&parser).await, app.limit_of(&printer).await), (json!(3), json!(1)));
    }

    async fn a_paused_project_starts_nothing_and_says_so(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        let body = json!({ "project_id": project, "reason": "the disk is full" });
        let action = app.act("pause", body.clone()).await.expect(201);
        app.act("pause", body.clone()).await.refused(409, "already_paused");
        let agent = app.agent(&[]).await;
        assert!(app.claim(&agent).await.is_none());
        assert_eq!(app.show(&task).await["waiting_for"]["reason"], "paused");

        app.revert(&action).await.expect(200);
        assert_eq!(app.claimed(&agent).await.task, Some(task));
        app.act("resume", body).await.refused(409, "not_paused");
    }

    async fn a_paused_agent_is_interrupted_and_told_to_go_on(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let body = json!({ "sandbox_id": sandbox.id, "reason": "wait for the review" });
        let action = app.act("pause", body.clone()).await.expect(201);
        app.act("resume", body).await.expect(201);
        let heard = app.take(&sandbox).await;
        let types: Vec<&Value> = heard.iter().map(|message| &message["message_type"]).collect();
        assert_eq!(types, ["interrupt", "user_message"]);
        assert_eq!(heard[0]["content"], "wait for the review");
        app.revert(&action).await.refused(409, "not_reversible");
    }

    async fn a_role_that_is_too_low_changes_nothing(app: App) {
        let project = app.project("parser").await;
        let other = app.project("printer").await;
        let task = app.task(&project, json!({})).await;
        let (viewer, operator) = (app.operator("eve", "viewer").await, app.operator("olga", "operator").await);
        let cases = [
            (&viewer, "cancel-task", json!({ "task_id": task, "reason": "x" })),
            (&viewer, "pause", json!({ "project_id": project, "reason": "x" })),
            (&operator, "reallocate", json!({ "from_project_id": project, "to_project_id": other, "capacity": 1, "reason": "x" })),
        ];
        for (token, what, body) in cases {
            let path = format!("/api/v1/guardian/intervention/{what}");
            app.call(Method::POST, &path, token, Some(&body)).await.refused(403, "role_too_low");
        }
        assert_eq!(app.task_status(&task).await, "pending");
        assert!(app.pages("/api/v1/guardian/actions", 10).await.is_empty());
    }

    async fn actions_are_listed_audited_and_told(app: App) {
        let project = app.project("parser").await;
        let task = app.task(&project, json!({})).await;
        for priority in ["HIGH", "LOW", "CRITICAL"] {
            app.act("override-priority", json!({ "task_id": task, "priority": priority, "reason": "x" })).await.expect(201);
        }
        let listed = app.pages(&format!("/api/v1/guardian/actions?project_id={project}"), 2).await;
        let after: Vec<&Value> = listed.iter().map(|action| &action["after"]["priority"]).collect();
        assert_eq!(after, ["CRITICAL", "LOW", "HIGH"]);
        let audit = app.get("/api/v1/audit?action=action.override_priority&limit=10").await.expect(200);
        assert_eq!(audit["items"].as_array().unwrap().len(), 3);
        assert_eq!(app.told_of("guardian.intervention.completed").await.len(), 3);
        app.act("override-priority", json!({ "task_id": task, "priority": "LOW", "reason": " " })).await.refused(422, "validation_failed");
        app.act("pause", json!({ "reason": "x" })).await.refused(422, "one_target");
    }
}
