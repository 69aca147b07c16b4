//! Batches: tasks that name each other by keys and are made together, all or none.

use serde_json::{Value, json};

use crate::{
    app::{Answer, App},
    on_both,
    work::{sandbox_of, text},
};

impl App {
    async fn batch(&self, project: &str, tasks: Value) -> Answer {
        self.post("/api/v1/tasks/batch", json!({ "project_id": project, "tasks": tasks })).await
    }

    async fn count(&self) -> usize {
        self.pages("/api/v1/tasks", 500).await.len()
    }
}

fn task(key: &str, depends_on: &[&str]) -> Value {
    json!({ "key": key, "title": format!("do {key}"), "depends_on": depends_on })
}

on_both! {
    async fn a_batch_becomes_tasks_that_wait_for_each_other(app: App) {
        let project = app.project("parser").await;
        let before = app.task(&project, json!({})).await;
        let tasks = json!([
            { "key": "docs", "title": "do docs", "depends_on": ["code", "tests"], "priority": "LOW", "owned_files": ["docs/**"] },
            task("tests", &["code"]),
            task("code", &[&before, &before]),
        ]);
        let made = app.batch(&project, tasks).await.expect(201);
        let id = |key: &str| text(&made["tasks"][key]["id"]);
        let mut both = vec![id("code"), id("tests")];
        both.sort();
        assert_eq!(made["tasks"]["docs"]["dependencies"], json!(both));
        assert_eq!((&made["tasks"]["docs"]["priority"], &made["tasks"]["docs"]["owned_files"]), (&json!("LOW"), &json!(["docs/**"])));
        assert_eq!(made["tasks"]["code"]["dependencies"], json!([before]), "each once");
        for (key, unmet) in [("docs", 2), ("tests", 1), ("code", 1)] {
            assert_eq!(made["tasks"][key]["unmet_dependencies"], unmet, "{key}");
            let shown = app.show(&id(key)).await;
            for field in ["title", "status", "dependencies", "unmet_dependencies", "score", "created_at"] {
                assert_eq!(shown[field], made["tasks"][key][field], "{field} of {key}");
            }
        }
        let agent = app.agent(&[]).await;
        let mut order = Vec::new();
        while let Some(claim) = app.claim(&agent).await {
            order.push(text(&claim["task"]["id"]));
            app.event(&sandbox_of(&claim), "agent.completed", json!({})).await.expect(200);
        }
        assert_eq!(order, [before, id("code"), id("tests"), id("docs")]);
        assert_eq!(app.told_of("TASK_CREATED").await.len(), 4);
    }

    async fn those_that_wait_inside_a_batch_raise_the_score_of_what_they_wait_for(app: App) {
        let project = app.project("parser").await;
        let outside = app.task(&project, json!({})).await;
        let made = app.batch(&project, json!([task("a", &[&outside]), task("b", &["a"]), task("c", &["a"])])).await.expect(201);
        let score = |task: &Value| task["score"].as_f64().unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(score(&made["tasks"]["a"]), 0.275 + 0.15 * 0.2), "{made}");
        assert!(close(score(&made["tasks"]["b"]), 0.275), "{made}");
        assert!(close(score(&app.show(&outside).await), 0.275 + 0.15 * 0.1));
    }

    async fn a_batch_of_a_ticket_belongs_to_its_project(app: App) {
        let project = app.project("parser").await;
        let ticket = text(&app.ticket(&project, json!({})).await["id"]);
        let made = app.post("/api/v1/tasks/batch", json!({ "ticket_id": ticket, "tasks": [task("a", &[])] })).await.expect(201);
        assert_eq!((&made["tasks"]["a"]["ticket_id"], &made["tasks"]["a"]["project_id"]), (&json!(ticket), &json!(project)));
        let other = app.project("other").await;
        let both = json!({ "ticket_id": ticket, "project_id": other, "tasks": [task("a", &[])] });
        app.post("/api/v1/tasks/batch", both).await.refused(422, "project_mismatch");
        app.post("/api/v1/tasks/batch", json!({ "tasks": [task("a", &[])] })).await.refused(422, "project_missing");
    }

    async fn a_batch_that_cannot_be_is_refused_by_name_and_nothing_of_it_is_made(app: App) {
        let project = app.project("parser").await;
        let elsewhere = app.task(&app.project("other").await, json!({})).await;
        let table = [
            (json!([task("a", &["b"])]), "unknown_dependency", "b"),
            (json!([task("a", &["no key at all"])]), "unknown_dependency", "no key at all"),
            (json!([task("same", &[]), task("same", &[])]), "duplicate_key", "same"),
            (json!([task("a", &["b"]), task("b", &["a"])]), "dependency_cycle", "a -> b -> a"),
            (json!([task("x", &[]), task("a", &["a"])]), "dependency_cycle", "a -> a"),
            (json!([task("x", &[]), task("a", &[&elsewhere])]), "dependency_in_other_project", elsewhere.as_str()),
            (json!([]), "validation_failed", "tasks"),
            (json!([{ "key": "late", "title": "" }]), "validation_failed", "late"),
            (json!([{ "key": "a", "title": "x", "dependencies": [] }]), "validation_failed", "dependencies"),
        ];
        for (tasks, code, named) in table {
            let problem = app.batch(&project, tasks).await.refused(422, code);
            assert!(text(&problem["detail"]).contains(named), "{problem}");
        }
        let late = json!([task("x", &[]), { "key": "a", "title": "x", "parent_task_id": "task-none" }]);
        app.batch(&project, late).await.refused(404, "task_not_found");
        let many: Vec<Value> = (0..1001).map(|n| task(&format!("k{n}"), &[])).collect();
        app.batch(&project, json!(many)).await.refused(422, "validation_failed");
        assert_eq!(app.count().await, 1, "the one of the other project");
        let viewer = app.operator("viewer", "viewer").await;
        let body = json!({ "project_id": project, "tasks": [task("a", &[])] });
        app.call(reqwest::Method::POST, "/api/v1/tasks/batch", &viewer, Some(&body)).await.refused(403, "role_too_low");
    }

    async fn the_same_batch_under_its_key_is_made_once(app: App) {
        let project = app.project("parser").await;
        let body = json!({ "project_id": project, "batch_key": "plan 1", "tasks": [task("a", &[]), task("b", &["a"])] });
        let first = app.post("/api/v1/tasks/batch", body.clone()).await.expect(201);
        app.complete(&text(&first["tasks"]["a"]["id"])).await;
        let again = app.post("/api/v1/tasks/batch", body.clone()).await.expect(200);
        for key in ["a", "b"] {
            assert_eq!(again["tasks"][key]["id"], first["tasks"][key]["id"]);
        }
        assert_eq!(again["tasks"]["a"]["status"], "completed", "as it is now");
        let mut other = body.clone();
        other["tasks"][0]["title"] = json!("something else");
        app.post("/api/v1/tasks/batch", other).await.refused(409, "batch_key_reused");
        assert_eq!(app.count().await, 2);

        let mut elsewhere = body.clone();
        elsewhere["project_id"] = json!(app.project("other").await);
        app.post("/api/v1/tasks/batch", elsewhere).await.expect(201);
        let unnamed = json!({ "project_id": project, "tasks": [task("a", &[])] });
        for _ in 0..2 {
            app.post("/api/v1/tasks/batch", unnamed.clone()).await.expect(201);
        }
        assert_eq!(app.count().await, 6);
    }

    async fn a_batch_follows_the_policies_for_what_failed_before_it(app: App) {
        let project = app.project("parser").await;
        let over = app.task(&project, json!({})).await;
        app.fail(&over).await;
        let with = |key: &str, on: &str, policy: &str| json!({ "key": key, "title": "x", "depends_on": [on], "dependency_policy": policy });
        let tasks = json!([
            with("blocked", &over, "block"), with("skips", &over, "skip"), with("fails", &over, "fail"),
            with("fails too", "fails", "fail"), with("goes on", "fails", "skip"),
        ]);
        let made = app.batch(&project, tasks).await.expect(201);
        for (key, status, unmet) in [
            ("blocked", "pending", 1), ("skips", "pending", 0), ("fails", "failed", 1),
            ("fails too", "failed", 1), ("goes on", "pending", 0),
        ] {
            let task = &made["tasks"][key];
            assert_eq!((&task["status"], &task["unmet_dependencies"]), (&json!(status), &json!(unmet)), "{key}");
        }
    }

    async fn a_full_batch_is_one_transaction(app: App) {
        let project = app.project("parser").await;
        let tasks: Vec<Value> = (0..1000)
            .map(|n| match n {
                0 => task("k0", &[]),
                n => task(&format!("k{n}"), &[&format!("k{}", n - 1), "k0"]),
            })
            .collect();
        let made = app.batch(&project, json!(tasks)).await.expect(201);
        assert_eq!(made["tasks"].as_object().unwrap().len(), 1000);
        assert_eq!(app.column("SELECT CAST(count(*) AS TEXT) FROM dependencies").await, ["1997"]);
        let ready = app.column("SELECT id FROM tasks WHERE unmet_dependencies = 0").await;
        assert_eq!(ready, [text(&made["tasks"]["k0"]["id"])]);
    }
}
