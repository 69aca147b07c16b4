//! Tickets that cannot go on: told of once, with proposals that wait for a person.

use omoi_server::orchestrator::diagnose;
use serde_json::{Value, json};

use crate::{
    app::App,
    on_both,
    work::{MINUTE, text},
};

impl App {
    /// A ticket whose only task has failed for good, and a task behind it.
    async fn stuck(&self) -> (String, String) {
        let project = self.project("parser").await;
        let ticket = self.ticket(&project, json!({})).await;
        let task = text(&ticket["task_id"]);
        self.task(&project, json!({ "ticket_id": ticket["id"], "dependencies": [task] })).await;
        self.fail(&task).await;
        (text(&ticket["id"]), task)
    }

    async fn diagnosed(&self) -> usize {
        diagnose(self.store()).await.unwrap().diagnosed
    }

    async fn diagnoses(&self, ticket: &str) -> Vec<Value> {
        self.pages(&format!("/api/v1/diagnoses?ticket_id={ticket}"), 10).await
    }
}

on_both! {
    async fn a_stuck_ticket_is_told_of_once_with_its_cause(app: App) {
        let (ticket, task) = app.stuck().await;
        assert_eq!(app.diagnosed().await, 0, "it has just happened");
        app.advance(2 * MINUTE).await;
        assert_eq!(app.diagnosed().await, 1);
        assert_eq!(app.diagnosed().await, 0, "once");
        let found = &app.diagnoses(&ticket).await[0];
        assert_eq!(found["state"], "open");
        let cause = text(&found["root_cause"]);
        assert!(cause.contains("no such repository") && cause.contains("1 tasks wait"), "{cause}");
        assert_eq!((&found["total_tasks"], &found["failed_tasks"]), (&json!(2), &json!(1)));
        assert_eq!(found["proposals"][0]["about"], task);
        assert_eq!(app.told_of("diagnostic.completed").await.len(), 1);
    }

    async fn whoever_asks_need_not_wait_and_one_that_can_go_on_has_none(app: App) {
        let (ticket, _) = app.stuck().await;
        let path = format!("/api/v1/tickets/{ticket}/diagnose");
        let found = app.post(&path, json!({})).await.expect(200);
        assert_eq!(app.post(&path, json!({})).await.expect(200)["id"], found["id"], "the open one");
        app.post(&format!("/api/v1/diagnoses/{}/dismiss", text(&found["id"])), json!({})).await.expect(200);
        app.post(&path, json!({})).await.refused(409, "not_stuck");
        app.post("/api/v1/tickets/tkt-none/diagnose", json!({})).await.refused(404, "ticket_not_found");
    }

    async fn an_accepted_proposal_becomes_a_task_and_nothing_else_does(app: App) {
        let (ticket, task) = app.stuck().await;
        app.advance(2 * MINUTE).await;
        app.diagnosed().await;
        let before = app.pages("/api/v1/tasks", 10).await.len();
        let id = text(&app.diagnoses(&ticket).await[0]["id"]);
        let path = format!("/api/v1/diagnoses/{id}/accept");
        app.post(&path, json!({ "proposals": [3] })).await.refused(422, "no_such_proposal");
        assert_eq!(app.pages("/api/v1/tasks", 10).await.len(), before, "a mistake makes nothing");

        let accepted = app.post(&path, json!({})).await.expect(200);
        let made = app.show(&text(&accepted["proposals"][0]["task_id"])).await;
        assert_eq!((&made["ticket_id"], &made["parent_task_id"]), (&json!(ticket), &json!(task)));
        assert_eq!(made["task_type"], "discovery_diagnostic");
        app.post(&path, json!({})).await.refused(409, "already_decided");
        assert_eq!(app.pages("/api/v1/tasks", 10).await.len(), before + 1);
    }

    async fn what_the_surroundings_did_is_tried_again_when_accepted(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({ "create_task": false })).await;
        let task = app.task(&project, json!({ "ticket_id": ticket["id"], "max_retries": 0 })).await;
        let sandbox = app.attached_to(&task).await;
        app.event(&sandbox, "agent.failed", json!({ "error": "no route", "failure_kind": "unavailable" })).await.expect(200);
        app.advance(2 * MINUTE).await;
        assert_eq!(app.diagnosed().await, 1);
        let found = app.diagnoses(&text(&ticket["id"])).await.remove(0);
        assert_eq!(found["proposals"][0]["kind"], "retry");
        app.post(&format!("/api/v1/diagnoses/{}/accept", text(&found["id"])), json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "pending");
    }

    async fn a_dismissed_diagnosis_comes_back_only_when_something_has_changed(app: App) {
        let (ticket, task) = app.stuck().await;
        app.advance(2 * MINUTE).await;
        app.diagnosed().await;
        let id = text(&app.diagnoses(&ticket).await[0]["id"]);
        app.post(&format!("/api/v1/diagnoses/{id}/dismiss"), json!({})).await.expect(200);
        app.advance(2 * MINUTE).await;
        assert_eq!(app.diagnosed().await, 0);

        app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        app.fail(&task).await;
        app.advance(2 * MINUTE).await;
        assert_eq!(app.diagnosed().await, 1);
        assert_eq!(app.diagnoses(&ticket).await[0]["number"], 2);
    }

    async fn after_ten_diagnoses_a_ticket_is_left_to_people(app: App) {
        let (ticket, task) = app.stuck().await;
        for n in 1..=12 {
            app.advance(2 * MINUTE).await;
            assert_eq!(app.diagnosed().await, usize::from(n <= 10), "{n}");
            if n <= 10 {
                let id = text(&app.diagnoses(&ticket).await[0]["id"]);
                app.post(&format!("/api/v1/diagnoses/{id}/dismiss"), json!({})).await.expect(200);
            }
            app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
            app.fail(&task).await;
        }
    }

    async fn an_open_diagnosis_is_overtaken_when_somebody_gets_the_ticket_going(app: App) {
        let (ticket, task) = app.stuck().await;
        app.advance(2 * MINUTE).await;
        app.diagnosed().await;
        app.post(&format!("/api/v1/tasks/{task}/retry"), json!({})).await.expect(200);
        app.attached_to(&task).await;
        assert_eq!(diagnose(app.store()).await.unwrap().overtaken, 1);
        assert_eq!(app.diagnoses(&ticket).await[0]["state"], "overtaken");
    }

    async fn a_ticket_with_something_at_work_is_not_stuck(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({})).await;
        let other = app.task(&project, json!({ "ticket_id": ticket["id"] })).await;
        app.fail(&text(&ticket["task_id"])).await;
        app.advance(2 * MINUTE).await;
        assert_eq!(app.diagnosed().await, 0, "the other waits for its turn");
        app.fail(&other).await;
        app.advance(2 * MINUTE).await;
        assert_eq!(app.diagnosed().await, 1);
    }
}
