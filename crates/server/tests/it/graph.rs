//! The graph of a project's tasks, and tasks under way that touch the same files.

use omoi_server::orchestrator;
use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox},
    on_both,
    work::{MINUTE, SECOND, text},
};

impl App {
    async fn graph(&self, project: &str) -> Value {
        self.get(&format!("/api/v1/projects/{project}/graph")).await.expect(200)
    }

    async fn overlaps(&self, project: &str) -> Value {
        self.get(&format!("/api/v1/projects/{project}/overlaps")).await.expect(200)["items"].clone()
    }

    pub async fn at_work(&self, project: &str, more: Value) -> Sandbox {
        self.attached_to(&self.task(project, more).await).await
    }

    async fn edits(&self, sandbox: &Sandbox, path: &str) {
        self.event(sandbox, "agent.file_edited", json!({ "file_path": path })).await.expect(200);
    }

    async fn tell_overlaps(&self) -> usize {
        orchestrator::overlaps(self.store()).await.unwrap().overlaps_told
    }
}

fn files(overlaps: &Value) -> Vec<Value> {
    overlaps.as_array().unwrap().iter().map(|overlap| overlap["files"].clone()).collect()
}

on_both! {
    async fn a_diamond_is_drawn_with_its_groups_and_its_longest_chain(app: App) {
        let project = app.project("parser").await;
        let task = |key: &str, on: &[&str], seconds: i64| {
            json!({ "key": key, "title": key, "depends_on": on, "execution_config": { "estimated_seconds": seconds } })
        };
        let tasks = json!([
            task("top", &[], 10), task("left", &["top"], 100), task("right", &["top"], 40),
            { "key": "foot", "title": "foot", "depends_on": ["left", "right"] },
        ]);
        let made = app.post("/api/v1/tasks/batch", json!({ "project_id": project, "tasks": tasks })).await.expect(201);
        let id = |key: &str| text(&made["tasks"][key]["id"]);
        let graph = app.graph(&project).await;
        assert_eq!(graph["critical_path"], json!([id("top"), id("left"), id("foot")]));
        assert_eq!((&graph["critical_path_seconds"], &graph["truncated"]), (&json!(111), &json!(false)));
        let mut middle = vec![id("left"), id("right")];
        middle.sort();
        assert_eq!(graph["groups"], json!([[id("top")], middle, [id("foot")]]));
        assert_eq!(graph["edges"].as_array().unwrap().len(), 4);
        assert!(graph["edges"].as_array().unwrap().contains(&json!({ "task_id": id("left"), "depends_on": id("top") })));
        let top = &graph["nodes"][0];
        assert_eq!(
            top,
            &json!({ "id": id("top"), "title": "top", "status": "pending", "priority": "MEDIUM",
                "estimated_seconds": 10, "duration_seconds": null })
        );

        // How long it took counts for more than how long it was thought to take.
        let sandbox = app.attached_to(&id("top")).await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        app.advance(MINUTE).await;
        app.event(&sandbox, "agent.completed", json!({})).await.expect(200);
        let graph = app.graph(&project).await;
        assert_eq!((&graph["critical_path_seconds"], &graph["nodes"][0]["duration_seconds"]), (&json!(161), &json!(60)));
    }

    async fn the_graph_of_a_ticket_holds_its_tasks_alone(app: App) {
        let project = app.project("parser").await;
        let other = app.task(&project, json!({})).await;
        let ticket = app.ticket(&project, json!({})).await;
        let (ticket, first) = (text(&ticket["id"]), text(&ticket["task_id"]));
        app.task(&project, json!({ "ticket_id": ticket, "dependencies": [other, first] })).await;
        let graph = app.get(&format!("/api/v1/projects/{project}/graph?ticket_id={ticket}")).await.expect(200);
        assert_eq!((graph["nodes"].as_array().unwrap().len(), graph["edges"].as_array().unwrap().len()), (2, 1));
        assert_eq!(app.graph(&project).await["nodes"].as_array().unwrap().len(), 3);

        let elsewhere = app.project("other").await;
        assert_eq!(app.graph(&elsewhere).await["critical_path"], json!([]));
        app.get(&format!("/api/v1/projects/{elsewhere}/graph?ticket_id={ticket}")).await.refused(422, "project_mismatch");
        app.get(&format!("/api/v1/projects/{project}/graph?ticket_id=tkt-none")).await.refused(404, "ticket_not_found");
        app.get("/api/v1/projects/prj-none/graph").await.refused(404, "project_not_found");
        let sandbox = app.sandbox().await;
        let path = format!("/api/v1/projects/{project}/graph");
        app.call(reqwest::Method::GET, &path, &sandbox.token, None).await.refused(403, "operator_needed");
    }

    async fn a_graph_has_an_end(app: App) {
        let project = app.project("parser").await;
        for part in 0..3 {
            let tasks: Vec<Value> = (0..700).map(|n| json!({ "key": format!("k{n}"), "title": format!("{part} {n}") })).collect();
            app.post("/api/v1/tasks/batch", json!({ "project_id": project, "tasks": tasks })).await.expect(201);
            app.advance(SECOND).await;
        }
        let graph = app.graph(&project).await;
        let nodes = graph["nodes"].as_array().unwrap();
        assert_eq!((nodes.len(), &graph["truncated"]), (2000, &json!(true)));
        assert!(nodes.iter().any(|node| node["title"] == "2 699"), "the newest are shown");
    }

    async fn an_estimate_that_is_no_number_is_refused(app: App) {
        let project = app.project("parser").await;
        let new = json!({ "project_id": project, "title": "x", "execution_config": { "estimated_seconds": "soon" } });
        app.post("/api/v1/tasks", new).await.refused(422, "validation_failed");
    }

    async fn tasks_under_way_that_touch_the_same_files_are_listed(app: App) {
        let project = app.project("parser").await;
        let declared = app.at_work(&project, json!({ "owned_files": ["src/**/*.rs"] })).await;
        let seen = app.at_work(&project, json!({})).await;
        assert_eq!(app.overlaps(&project).await, json!([]));
        app.edits(&seen, "docs/a.md").await;
        assert_eq!(app.overlaps(&project).await, json!([]));
        app.edits(&seen, "src/deep/a.rs").await;
        app.edits(&seen, "src/deep/a.rs").await;
        let (one, other) = (declared.task.clone().unwrap(), seen.task.clone().unwrap());
        let expected = json!([{ "task_id": one, "title": "fix the parser", "other_id": other, "other_title": "fix the parser",
            "files": ["src/deep/a.rs"] }]);
        assert_eq!(app.overlaps(&project).await, expected);

        let third = app.at_work(&project, json!({})).await;
        app.event(&third, "agent.file_edited", json!({ "file_path": "new.md", "previous_path": "docs/a.md" })).await.expect(200);
        assert_eq!(files(&app.overlaps(&project).await), [json!(["src/deep/a.rs"]), json!(["docs/a.md"])]);

        // What is over, or waits, or belongs to another project touches nothing.
        app.event(&seen, "agent.completed", json!({})).await.expect(200);
        app.task(&project, json!({ "owned_files": ["**"] })).await;
        app.at_work(&app.project("other").await, json!({ "owned_files": ["**"] })).await;
        assert_eq!(app.overlaps(&project).await, json!([]));
        app.get("/api/v1/projects/prj-none/overlaps").await.refused(404, "project_not_found");
    }

    async fn an_overlap_is_told_once(app: App) {
        let project = app.project("parser").await;
        let first = app.at_work(&project, json!({ "owned_files": ["src/**"] })).await;
        assert_eq!(app.tell_overlaps().await, 0);
        let second = app.at_work(&project, json!({ "owned_files": ["src/a.rs"] })).await;
        assert_eq!(app.tell_overlaps().await, 1);
        app.edits(&first, "src/a.rs").await;
        app.edits(&second, "src/a.rs").await;
        assert_eq!(app.tell_overlaps().await, 0);
        let third = app.at_work(&project, json!({})).await;
        app.edits(&third, "src/a.rs").await;
        assert_eq!(app.tell_overlaps().await, 2);
        let told = app.told_of("TASK_FOOTPRINT_OVERLAP").await;
        assert_eq!(told.len(), 3);
        let expected = json!({ "project_id": project, "task_id": first.task, "other_id": second.task,
            "files": ["src/** and src/a.rs"] });
        assert_eq!(told[0], expected);
    }

    async fn what_is_seen_of_a_sandbox_has_an_end_and_odd_events_are_only_kept(app: App) {
        let project = app.project("parser").await;
        let sandbox = app.at_work(&project, json!({})).await;
        for part in 0..3 {
            let events: Vec<Value> = (0..700)
                .map(|n| json!({ "event_type": "agent.file_edited", "event_data": { "file_path": format!("f{part}-{n}") } }))
                .collect();
            app.post_as(&sandbox, "/events", json!({ "events": events })).await.expect(200);
        }
        let seen = async || app.column("SELECT CAST(count(*) AS TEXT) FROM footprints").await;
        assert_eq!(seen().await, ["2000"]);
        let none = app.at_work(&project, json!({})).await;
        for data in [json!({}), json!({ "file_path": 7 }), json!({ "file_path": "" }), json!({ "file_path": "x".repeat(5000) })] {
            app.event(&none, "agent.file_edited", data).await.expect(200);
        }
        let without_task = app.sandbox().await;
        app.edits(&without_task, "a").await;
        assert_eq!(seen().await, ["2000"]);
    }
}
