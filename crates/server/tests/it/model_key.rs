//! A task whose model has no key: no sandbox is made for it, it says what it waits for, and it stands in nobody's way.

use omoi_server::{config::Config, orchestrator::dispatch};
use serde_json::{Value, json};

use crate::{
    app::{App, unique},
    on_both,
};

const SCRIPTED: &str = "scripted/binomial";

fn without_key(config: &mut Config) {
    config.worker.model = "claude-sonnet-4-5".to_owned();
}

async fn project(app: &App, settings: Value) -> String {
    let body = json!({ "name": unique("project"), "repository_url": "/nowhere", "settings": settings });
    app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned()
}

async fn dispatch_all(app: &App) {
    dispatch(app.store(), 100).await.unwrap();
}

async fn waiting_for(app: &App, task: &str) -> Value {
    app.show(task).await["waiting_for"].clone()
}

async fn sandboxes(app: &App) -> usize {
    app.get("/api/v1/sandboxes?limit=200").await.expect(200)["items"].as_array().unwrap().len()
}

on_both! { without_key =>
    async fn a_task_whose_model_has_no_key_is_refused_before_a_sandbox_is_made(app: App) {
        let project = project(&app, json!({})).await;
        for (model, key) in [(Value::Null, "ANTHROPIC_API_KEY"), (json!("claude-opus-4-5"), "ANTHROPIC_API_KEY"), (json!("gpt-5"), "OPENAI_API_KEY")] {
            let config = json!({ "model": model, "autonomous": false });
            let task = app.task(&project, json!({ "execution_config": config })).await;
            let sandbox = json!({ "task_id": task });
            for (path, body) in [
                (format!("/api/v1/tasks/{task}/start"), json!({})),
                (format!("/api/v1/projects/{project}/sandboxes"), sandbox),
            ] {
                let problem = app.post(&path, body).await.refused(409, "model_key_missing");
                let detail = problem["detail"].as_str().unwrap();
                assert!(detail.contains(key) && detail.contains("restart the server"), "{detail}");
            }
            assert_eq!(app.task_status(&task).await, "pending");
            let waiting = waiting_for(&app, &task).await;
            assert_eq!(waiting["reason"], "model_key");
            assert!(waiting["text"].as_str().unwrap().contains(key), "{waiting}");
            // A sandbox elsewhere brings a model of its own, and a command needs none.
            app.attach(json!({ "task_id": task })).await;
            let task = app.task(&project, json!({ "execution_config": config })).await;
            app.post(&format!("/api/v1/tasks/{task}/start"), json!({ "command": ["make"] })).await.expect(202);
            let task = app.task(&project, json!({ "execution_config": { "model": SCRIPTED, "autonomous": false } })).await;
            app.post(&format!("/api/v1/tasks/{task}/start"), json!({})).await.expect(202);
        }
        assert_eq!(sandboxes(&app).await, 9);
    }

    async fn dispatch_passes_over_tasks_without_a_key_until_there_is_one(app: App) {
        let mut app = app;
        let project = project(&app, json!({})).await;
        let mut keyless = Vec::new();
        for _ in 0..4 {
            keyless.push(app.task(&project, json!({ "priority": "CRITICAL" })).await);
        }
        let able = app.task(&project, json!({ "priority": "LOW", "execution_config": { "model": SCRIPTED } })).await;
        dispatch_all(&app).await;
        assert_eq!(app.task_status(&able).await, "assigned", "those before it do not hold it up");
        for task in &keyless {
            assert_eq!(app.task_status(task).await, "pending");
            assert_eq!(waiting_for(&app, task).await["reason"], "model_key");
        }
        assert_eq!(sandboxes(&app).await, 1);

        // The task names another model.
        app.patch(&format!("/api/v1/tasks/{}", keyless[0]), json!({ "execution_config": { "model": SCRIPTED } })).await.expect(200);
        assert_eq!(waiting_for(&app, &keyless[0]).await, Value::Null);
        dispatch_all(&app).await;
        assert_eq!(app.task_status(&keyless[0]).await, "assigned");
        assert_eq!(app.task_status(&keyless[1]).await, "pending");

        // The server has the key.
        app.stop().await;
        app.config.model.anthropic_api_key = "sk-ant-something-0123456789".into();
        app.start_again().await;
        app.store().task_keys_changed().await.unwrap();
        assert_eq!(waiting_for(&app, &keyless[1]).await, Value::Null);
        dispatch_all(&app).await;
        for task in &keyless {
            assert_eq!(app.task_status(task).await, "assigned");
        }
    }

    async fn a_project_that_names_another_model_has_its_tasks_dispatched(app: App) {
        let (project, other) = (project(&app, json!({ "model": "gpt-5" })).await, project(&app, json!({})).await);
        let (task, elsewhere) = (app.task(&project, json!({})).await, app.task(&other, json!({})).await);
        dispatch_all(&app).await;
        assert_eq!(waiting_for(&app, &task).await["reason"], "model_key");
        app.patch(&format!("/api/v1/projects/{project}"), json!({ "settings": { "model": SCRIPTED } })).await.expect(200);
        dispatch_all(&app).await;
        assert_eq!((app.task_status(&task).await, app.task_status(&elsewhere).await), ("assigned".into(), "pending".into()));
        // An attached agent takes what dispatch has passed over.
        let agent = app.agent(&[]).await;
        assert_eq!(app.claim(&agent).await.unwrap()["task"]["id"], elsewhere);
    }

    async fn a_spec_whose_model_has_no_key_is_not_executed(app: App) {
        let project = project(&app, json!({})).await;
        let body = json!({ "title": "Sums", "description": "Add numbers.", "project_id": project });
        let spec = app.post("/api/v1/specs", body).await.expect(201);
        let path = format!("/api/v1/specs/{}", spec["id"].as_str().unwrap());
        app.post(&format!("{path}/execute"), json!({})).await.refused(409, "model_key_missing");
        assert_eq!(app.get(&path).await.expect(200)["status"], "draft");
        assert!(app.pages(&format!("/api/v1/tasks?project_id={project}"), 10).await.is_empty());
        assert_eq!(sandboxes(&app).await, 0);
        app.patch(&format!("/api/v1/projects/{project}"), json!({ "settings": { "model": SCRIPTED } })).await.expect(200);
        app.post(&format!("{path}/execute"), json!({})).await.expect(202);
    }
}
