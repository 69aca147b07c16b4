//! Results: what the sandbox that holds a task hands in for it, and nobody else.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox},
    on_both,
    work::{LEASE, MINUTE, ids, text, time},
};

impl App {
    async fn hand_in(&self, sandbox: &Sandbox, body: &Value) -> Answer {
        self.call(Method::POST, "/api/v1/results", &sandbox.token, Some(body)).await
    }

    async fn results(&self, task: &str) -> Vec<Value> {
        self.pages(&format!("/api/v1/results?task_id={task}"), 2).await
    }
}

fn result(task: &str) -> Value {
    json!({ "task_id": task, "result_type": "fix", "summary": "it parses", "content": "# What\n\nIt parses." })
}

on_both! {
    async fn a_result_is_handed_in_and_found_again(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let made = app.hand_in(&sandbox, &result(&task)).await.expect(201);
        for (field, value) in result(&task).as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
        assert_eq!((&made["sandbox_id"], &made["verification_status"]), (&json!(sandbox.id), &json!("unverified")));
        assert_eq!(time(&made["created_at"]), app.now());
        assert_eq!(app.results(&task).await, std::slice::from_ref(&made));
        let told = json!({ "result_id": made["id"], "sandbox_id": sandbox.id, "result_type": "fix" });
        assert_eq!(app.told_of("result.task.submitted").await, [told]);
    }

    async fn the_content_of_a_result_comes_back_as_it_was(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        for content in ["\u{1f980} ünï\r\n\t\\\"' ".to_owned(), "é".repeat(102_400), "same".to_owned(), "same".to_owned()] {
            let mut new = result(&task);
            new["content"] = json!(content);
            app.hand_in(&sandbox, &new).await.expect(201);
            assert_eq!(app.results(&task).await.last().unwrap()["content"], content.as_str());
        }
        assert_eq!(app.results(&task).await.len(), 4);
    }

    async fn results_are_listed_per_task_oldest_first(app: App) {
        let (first, second) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let task = first.task.clone().unwrap();
        let mut made = Vec::new();
        for _ in 0..5 {
            made.push(text(&app.hand_in(&first, &result(&task)).await.expect(201)["id"]));
        }
        app.hand_in(&second, &result(second.task.as_ref().unwrap())).await.expect(201);
        assert_eq!(ids(&app.results(&task).await), made);
        app.get("/api/v1/results?task_id=task-none").await.refused(404, "task_not_found");
        app.get("/api/v1/results").await.refused(422, "invalid_query");
    }

    async fn only_the_sandbox_that_holds_the_task_hands_in(app: App) {
        let (owner, other) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let task = owner.task.clone().unwrap();
        app.hand_in(&other, &result(&task)).await.refused(409, "not_the_owner");
        let without_task = app.sandbox().await;
        app.hand_in(&without_task, &result(&task)).await.refused(409, "not_the_owner");
        app.hand_in(&owner, &result("task-none")).await.refused(404, "task_not_found");
        let viewer = app.operator("viewer", "viewer").await;
        app.call(Method::POST, "/api/v1/results", &viewer, Some(&result(&task))).await.refused(403, "role_too_low");
        let nobody = crate::app::Sandbox { token: "omoi_sbx_wrong".to_owned(), ..owner.clone() };
        app.hand_in(&nobody, &result(&task)).await.refused(401, "token_wrong");
        assert!(app.results(&task).await.is_empty());
    }

    async fn an_operator_hands_in_for_whoever_holds_the_task_and_for_nobody_else(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let made = app.post("/api/v1/results", result(&task)).await.expect(201);
        assert_eq!(made["sandbox_id"], sandbox.id.as_str());
        app.advance(LEASE).await;
        app.post("/api/v1/results", result(&task)).await.refused(409, "not_the_owner");
        assert_eq!(app.results(&task).await.len(), 1);
    }

    async fn the_last_holder_hands_in_after_the_end_and_one_before_it_never(app: App) {
        let lost = app.sandbox_with_task().await;
        let task = lost.task.clone().unwrap();
        app.advance(LEASE).await;
        app.advance(MINUTE).await;
        let holder = app.attached_to(&task).await;
        app.hand_in(&lost, &result(&task)).await.refused(409, "not_the_owner");
        app.event(&holder, "agent.completed", json!({})).await.expect(200);
        app.hand_in(&holder, &result(&task)).await.expect(201);
        app.hand_in(&lost, &result(&task)).await.refused(409, "not_the_owner");
        assert_eq!(app.results(&task).await.len(), 1);
    }

    async fn a_sandbox_hands_in_so_much_and_a_page_shows_some_of_it(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let mut new = result(&task);
        // 400 KiB, so that 40 of them come to less than 16 MiB and 20 to less than 8.
        new["content"] = json!("\u{1f980}".repeat(102_400));
        for _ in 0..40 {
            app.hand_in(&sandbox, &new).await.expect(201);
        }
        app.hand_in(&sandbox, &new).await.refused(413, "results_full");
        app.hand_in(&sandbox, &result(&task)).await.expect(201);
        let path = format!("/api/v1/results?task_id={task}&limit=500");
        let page = app.get(&path).await.expect(200);
        assert_eq!(page["items"].as_array().unwrap().len(), 20);
        let rest = app.get(&format!("{path}&cursor={}", page["next"].as_str().unwrap())).await.expect(200);
        assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (21, &Value::Null));
    }

    async fn a_result_that_makes_no_sense_is_refused_and_not_stored(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        for (field, value) in [
            ("content", json!("")),
            ("content", json!("x".repeat(102_401))),
            ("summary", json!(" ")),
            ("summary", json!("x".repeat(2_001))),
            ("result_type", json!("poem")),
            ("verification_status", json!("verified")),
        ] {
            let mut new = result(&task);
            new[field] = value;
            app.hand_in(&sandbox, &new).await.refused(422, "validation_failed");
        }
        assert!(app.results(&task).await.is_empty());
    }
}
