//! Tickets: made together with their task, numbered per project, following what becomes of their tasks.

use futures_util::future::join_all;
use omoi_server::config::DatabaseUrl;
use serde_json::{Value, json};

use crate::{
    app::App,
    on_both,
    work::{MINUTE, ids, text},
};

async fn status(app: &App, ticket: &Value) -> String {
    let shown = app.get(&format!("/api/v1/tickets/{}", text(&ticket["id"]))).await.expect(200);
    text(&shown["status"])
}

on_both! {
    async fn a_ticket_comes_with_the_task_that_does_it(app: App) {
        let project = app.project("parser").await;
        let more = json!({ "description": "with a password", "priority": "HIGH", "ticket_type": "bug" });
        let ticket = app.ticket(&project, more).await;
        assert_eq!(ticket["status"], "backlog");

        let task = app.show(&text(&ticket["task_id"])).await;
        assert_eq!(task["ticket_id"], ticket["id"]);
        assert_eq!(task["project_id"], project.as_str());
        assert_eq!((&task["title"], &task["description"]), (&ticket["title"], &ticket["description"]));
        assert_eq!((&task["priority"], &task["status"]), (&json!("HIGH"), &json!("pending")));
    }

    async fn a_ticket_whose_task_cannot_be_stored_is_not_stored_either(app: App) {
        let project = app.project("parser").await;
        // The second half of the transaction fails.
        match app.config.database.url {
            DatabaseUrl::Postgres(_) => app.sql(
                "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN \
                 RAISE EXCEPTION 'no tasks' USING ERRCODE = 'check_violation'; END $$ \
                 LANGUAGE plpgsql; CREATE TRIGGER no_tasks BEFORE INSERT ON tasks \
                 FOR EACH ROW EXECUTE FUNCTION refuse()",
            ).await,
            _ => app.sql(
                "CREATE TRIGGER no_tasks BEFORE INSERT ON tasks BEGIN SELECT RAISE(ABORT, 'no tasks'); END",
            ).await,
        }
        let new = json!({ "project_id": project, "title": "let people log in" });
        app.post("/api/v1/tickets", new).await.refused(500, "internal_error");
        assert!(app.pages("/api/v1/tickets", 10).await.is_empty());
        let newest = app.get("/api/v1/audit?limit=1").await.expect(200)["items"][0].clone();
        assert_eq!(newest["entity_id"], project.as_str(), "no line says that it was made");
        assert!(app.told_of("TICKET_CREATED").await.is_empty());

        match app.config.database.url {
            DatabaseUrl::Postgres(_) => app.sql("DROP TRIGGER no_tasks ON tasks").await,
            _ => app.sql("DROP TRIGGER no_tasks").await,
        }
        assert_eq!(app.ticket(&project, json!({})).await["number"], 1, "no number was lost");
    }

    async fn a_ticket_without_a_task_is_made_when_asked_for(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({ "create_task": false })).await;
        assert_eq!(ticket["task_id"], json!(null));
        assert!(app.pages("/api/v1/tasks", 10).await.is_empty());
    }

    async fn tickets_are_numbered_per_project(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        let mut numbers = Vec::new();
        for project in [&parser, &parser, &printer, &parser, &printer] {
            numbers.push(app.ticket(project, json!({})).await["number"].as_i64().unwrap());
        }
        assert_eq!(numbers, [1, 2, 1, 3, 2]);
    }

    async fn tickets_made_at_once_get_different_numbers(app: App) {
        let project = app.project("parser").await;
        let tickets = join_all((0..40).map(|_| app.ticket(&project, json!({})))).await;
        let mut numbers: Vec<i64> = tickets.iter().map(|t| t["number"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    }

    async fn a_ticket_is_building_while_its_task_is_under_way_and_done_with_it(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({})).await;
        assert_eq!(status(&app, &ticket).await, "backlog");
        let sandbox = app.attached_to(&text(&ticket["task_id"])).await;
        assert_eq!(status(&app, &ticket).await, "building", "from the claim on");
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(status(&app, &ticket).await, "building");
        app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        assert_eq!(status(&app, &ticket).await, "done");
        let told = app.told_of("TICKET_STATUS_CHANGED").await;
        let step = |from: &str, to: &str| json!({ "old_status": from, "status": to });
        assert_eq!(told, [step("backlog", "building"), step("building", "done")]);
    }

    async fn a_ticket_is_done_only_when_all_its_tasks_are(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({})).await;
        let second = app.task(&project, json!({ "ticket_id": ticket["id"] })).await;
        app.complete(&text(&ticket["task_id"])).await;
        assert_eq!(status(&app, &ticket).await, "building");
        app.complete(&second).await;
        assert_eq!(status(&app, &ticket).await, "done");

        let third = app.task(&project, json!({ "ticket_id": ticket["id"] })).await;
        let sandbox = app.attached_to(&third).await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(status(&app, &ticket).await, "building", "there is more to do");
    }

    async fn a_ticket_whose_task_failed_is_not_done(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({})).await;
        app.fail(&text(&ticket["task_id"])).await;
        assert_eq!(status(&app, &ticket).await, "building");
    }

    async fn a_cancelled_ticket_stays_cancelled_whatever_its_task_does(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({})).await;
        let path = format!("/api/v1/tickets/{}", text(&ticket["id"]));
        app.patch(&path, json!({ "status": "cancelled" })).await.expect(200);
        app.complete(&text(&ticket["task_id"])).await;
        assert_eq!(status(&app, &ticket).await, "cancelled");
    }

    async fn a_patch_changes_what_it_names_and_nothing_else(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({ "description": "old", "create_task": false })).await;
        let path = format!("/api/v1/tickets/{}", text(&ticket["id"]));
        let mut expected = app.get(&path).await.expect(200);
        app.advance(MINUTE).await;
        let patch = json!({ "title": "new", "priority": "CRITICAL", "ticket_type": "chore", "status": "testing" });
        let changed = app.patch(&path, patch.clone()).await.expect(200);
        expected.as_object_mut().unwrap().extend(patch.as_object().unwrap().clone());
        expected["updated_at"] = json!(app.now().to_string());
        assert_eq!(changed, expected);
        assert_eq!(app.get(&path).await.expect(200), expected);
        app.patch(&path, json!({ "status": "finished" })).await.refused(422, "validation_failed");
        app.patch(&path, json!({ "number": 9 })).await.refused(422, "validation_failed");
    }

    async fn tickets_are_listed_by_project_and_status_page_by_page(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        let mut made = Vec::new();
        for n in 0..6 {
            let project = if n % 2 == 0 { &parser } else { &printer };
            made.push(text(&app.ticket(project, json!({ "create_task": false })).await["id"]));
        }
        app.patch(&format!("/api/v1/tickets/{}", made[2]), json!({ "status": "done" })).await.expect(200);
        let listed = async |query: &str| ids(&app.pages(&format!("/api/v1/tickets{query}"), 2).await);
        let of = |these: &[usize]| these.iter().map(|n| made[*n].clone()).collect::<Vec<_>>();
        assert_eq!(listed("").await, of(&[5, 4, 3, 2, 1, 0]));
        assert_eq!(listed(&format!("?project_id={parser}")).await, of(&[4, 2, 0]));
        assert_eq!(listed("?status=done").await, of(&[2]));
        assert_eq!(listed(&format!("?project_id={printer}&status=backlog")).await, of(&[5, 3, 1]));
        app.get("/api/v1/tickets?status=open").await.refused(422, "invalid_query");
    }

    async fn an_unknown_ticket_is_not_found(app: App) {
        app.get("/api/v1/tickets/tkt-none").await.refused(404, "ticket_not_found");
        app.patch("/api/v1/tickets/tkt-none", json!({ "title": "x" })).await.refused(404, "ticket_not_found");
        let task = json!({ "ticket_id": "tkt-none", "title": "x" });
        app.post("/api/v1/tasks", task).await.refused(404, "ticket_not_found");
    }
}
