//! Lists by what they can be asked for. In a debug build the store refuses a statement that may walk through a whole table
//! to find its rows, so asking is the test; what comes back is looked at where the question was rewritten for it.

use serde_json::json;

use crate::{
    app::App,
    on_both,
    work::{ids, text},
};

impl App {
    async fn listed(&self, path: &str) -> Vec<String> {
        let mut found = ids(&self.pages(path, 100).await);
        found.sort();
        found
    }
}

on_both! {
    async fn every_list_finds_what_it_is_asked_for_by_an_index(app: App) {
        let project = app.project("parser").await;
        for path in [
            "tasks?status=pending", "tasks?status=completed", "tasks?phase_id=PHASE_TESTING", "tasks?phase_id=PHASE_IMPLEMENTATION", "tasks?has_sandbox=true",
            "tasks?has_sandbox=false", "tickets?status=done", "sandboxes?live=true", "sandboxes?live=false",
            "sandboxes?status=running", "specs?status=executing", "specs?archived=true", "specs?archived=false",
            "findings?kind=no_progress", "findings?open=true", "findings?open=false", "interventions", "interventions?mode=record", "interventions?waiting=true",
            "interventions?waiting=false", "diagnoses?state=open", "diagnoses?state=dismissed", "audit?actor=root",
            "audit?action=task.create", "audit?entity_type=task", "conductor/conflicts?open=true",
            "conductor/conflicts?open=false", "conductor/duplicates?open=true", "conductor/duplicates?open=false",
            "conductor/analyses", "monitor/anomalies?open=true", "monitor/anomalies?open=false",
        ] {
            let answer = app.get(&format!("/api/v1/{path}")).await;
            assert_eq!(answer.status.as_u16(), 200, "{path}: {}", answer.body);
            if !path.starts_with("audit") && !path.starts_with("monitor") {
                let answer = app.get(&format!("/api/v1/{path}{}project_id={project}", if path.contains('?') { '&' } else { '?' })).await;
                assert_eq!(answer.status.as_u16(), 200, "{path} of a project: {}", answer.body);
            }
        }
        app.get("/api/v1/conductor/status").await.expect(200);
        for range in ["1h", "24h", "7d"] {
            app.get(&format!("/api/v1/monitor/metrics?range={range}")).await.expect(200);
        }
    }

    async fn tasks_and_sandboxes_are_listed_by_who_lives(app: App) {
        let (parser, printer) = (app.project("parser").await, app.project("printer").await);
        let (held, free) = (app.task(&parser, json!({})).await, app.task(&parser, json!({ "phase_id": "PHASE_TESTING" })).await);
        let (elsewhere, over) = (app.task(&printer, json!({})).await, app.task(&printer, json!({})).await);
        let (one, two) = (app.attached_to(&held).await, app.attached_to(&elsewhere).await);
        app.complete(&over).await;
        let table = [
            ("tasks?has_sandbox=true".to_owned(), vec![&held, &elsewhere]),
            ("tasks?has_sandbox=false".to_owned(), vec![&free, &over]),
            (format!("tasks?has_sandbox=true&project_id={parser}"), vec![&held]),
            (format!("tasks?status=completed&project_id={printer}"), vec![&over]),
            (format!("tasks?status=completed&project_id={parser}"), vec![]),
            ("tasks?phase_id=PHASE_TESTING".to_owned(), vec![&free]),
            (format!("tasks?phase_id=PHASE_TESTING&project_id={printer}"), vec![]),
            ("sandboxes?live=true".to_owned(), vec![&one.id, &two.id]),
            (format!("sandboxes?live=true&project_id={printer}"), vec![&two.id]),
        ];
        for (path, mut expected) in table {
            expected.sort();
            let found = app.listed(&format!("/api/v1/{path}")).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{path}");
        }
        assert_eq!(app.listed(&format!("/api/v1/sandboxes?live=false&project_id={printer}")).await.len(), 1);
    }

    async fn a_ticket_follows_its_tasks_whatever_became_of_them(app: App) {
        let project = app.project("parser").await;
        let ticket = app.ticket(&project, json!({ "create_task": false })).await;
        let status = async || app.get(&format!("/api/v1/tickets/{}", text(&ticket["id"]))).await.expect(200)["status"].clone();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            tasks.push(app.task(&project, json!({ "ticket_id": ticket["id"] })).await);
        }
        assert_eq!(status().await, "backlog");
        app.complete(&tasks[0]).await;
        assert_eq!(status().await, "building", "two are not done");
        app.fail(&tasks[1]).await;
        app.complete(&tasks[2]).await;
        assert_eq!(status().await, "building", "one has failed");
        app.post(&format!("/api/v1/tasks/{}/retry", tasks[1]), json!({})).await.expect(200);
        app.complete(&tasks[1]).await;
        assert_eq!(status().await, "done");
    }
}
