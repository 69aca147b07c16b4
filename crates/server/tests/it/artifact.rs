//! Artefacts: files that a sandbox hands in under its own token, and people fetch.

use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox, answer},
    on_both,
    work::{LEASE, ids, text},
};

const MIB: usize = 1024 * 1024;

impl App {
    async fn hand_in_file(&self, to: &str, token: &str, name: &str, content: Vec<u8>) -> Answer {
        let url = format!("{}/api/v1/sandboxes/{to}/artifacts", self.base);
        let request = self.http.post(url).query(&[("name", name)]).bearer_auth(token);
        answer(request.header(header::CONTENT_TYPE, "text/html").body(content)).await
    }

    async fn file(&self, sandbox: &Sandbox, name: &str, content: impl Into<Vec<u8>>) -> Answer {
        self.hand_in_file(&sandbox.id, &sandbox.token, name, content.into()).await
    }

    async fn fetch(&self, sandbox: &Sandbox, artifact: &Value) -> reqwest::Response {
        let url =
            format!("{}/api/v1/sandboxes/{}/artifacts/{}", self.base, sandbox.id, text(&artifact["id"]));
        self.http.get(url).bearer_auth(&self.token).send().await.unwrap()
    }
}

on_both! {
    async fn a_file_comes_back_as_it_was_and_only_to_be_saved(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let made = app.file(&sandbox, "répört 1.html", bytes.clone()).await.expect(201);
        assert_eq!((&made["name"], &made["size"], &made["content_type"]), (&json!("répört 1.html"), &json!(100_000), &json!("text/html")));
        assert_eq!((&made["sandbox_id"], &made["task_id"]), (&json!(sandbox.id), &json!(sandbox.task)));
        let response = app.fetch(&sandbox, &made).await;
        let shown = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(shown("content-disposition"), "attachment; filename=\"r_p_rt_1.html\"; filename*=UTF-8''r%C3%A9p%C3%B6rt%201.html");
        assert_eq!((shown("x-content-type-options"), shown("content-type")), ("nosniff".to_owned(), "application/octet-stream".to_owned()));
        assert!(shown("content-security-policy").contains("default-src 'none'"));
        assert_eq!(response.bytes().await.unwrap(), bytes);
        let told = json!({ "artifact_id": made["id"], "task_id": sandbox.task, "name": "répört 1.html", "size": 100_000 });
        assert_eq!(app.told_of("ARTIFACT_STORED").await, [told]);
    }

    async fn artefacts_are_listed_per_sandbox_and_per_task(app: App) {
        let first = app.sandbox_with_task().await;
        let task = first.task.clone().unwrap();
        let mut made = Vec::new();
        for n in 0..5 {
            made.push(text(&app.file(&first, &format!("{n}.txt"), format!("content {n}")).await.expect(201)["id"]));
        }
        app.advance(LEASE).await;
        app.advance(LEASE).await;
        let second = app.attached_to(&task).await;
        let last = text(&app.file(&second, "0.txt", "content 0").await.expect(201)["id"]);
        assert_eq!(ids(&app.pages(&format!("/api/v1/sandboxes/{}/artifacts", first.id), 2).await), made);
        made.push(last);
        assert_eq!(ids(&app.pages(&format!("/api/v1/tasks/{task}/artifacts"), 2).await), made);
        app.get("/api/v1/tasks/task-none/artifacts").await.refused(404, "task_not_found");
        app.get("/api/v1/sandboxes/sbx-none/artifacts").await.refused(404, "sandbox_not_found");
        app.get(&format!("/api/v1/sandboxes/{}/artifacts/{}", second.id, made[0])).await.refused(404, "artifact_not_found");
        app.get(&format!("/api/v1/sandboxes/{}/artifacts/art-none", second.id)).await.refused(404, "artifact_not_found");
    }

    async fn the_same_file_again_is_the_same_artefact(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let first = app.file(&sandbox, "log.txt", "one").await.expect(201);
        assert_eq!(app.file(&sandbox, "log.txt", "one").await.expect(201), first);
        let other = app.file(&sandbox, "log.txt", "two").await.expect(201);
        assert_ne!(other["id"], first["id"], "both are kept");
        assert_eq!(app.fetch(&sandbox, &first).await.text().await.unwrap(), "one");
        assert_eq!(app.fetch(&sandbox, &app.file(&sandbox, "empty", "").await.expect(201)).await.text().await.unwrap(), "");
    }

    async fn a_sandbox_hands_in_for_itself_alone(app: App) {
        let (own, other) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        app.hand_in_file(&own.id, &other.token, "x", vec![1]).await.refused(403, "wrong_sandbox");
        app.hand_in_file(&own.id, "omoi_sbx_wrong", "x", vec![1]).await.refused(401, "token_wrong");
        let viewer = app.operator("viewer", "viewer").await;
        app.hand_in_file(&own.id, &viewer, "x", vec![1]).await.refused(403, "role_too_low");
        app.hand_in_file("sbx-none", &app.token, "x", vec![1]).await.refused(404, "sandbox_not_found");
        let made = app.file(&own, "x", "secret").await.expect(201);
        let path = format!("/api/v1/sandboxes/{}/artifacts/{}", own.id, text(&made["id"]));
        app.call(Method::GET, &path, &other.token, None).await.refused(403, "wrong_sandbox");
        app.call(Method::GET, &path, &viewer, None).await.expect(200);

        app.post(&format!("/api/v1/sandboxes/{}/terminate", own.id), json!({})).await.expect(200);
        app.file(&own, "late", "x").await.refused(401, "token_ended");
        app.hand_in_file(&own.id, &app.token, "late", vec![1]).await.refused(409, "sandbox_ended");
    }

    async fn a_name_is_a_name_and_no_path(app: App) {
        let sandbox = app.sandbox_with_task().await;
        for name in ["", " ", "..", ".", "../../etc/passwd", "/etc/passwd", "a\\b", "a\nb", &"x".repeat(201)] {
            app.file(&sandbox, name, "x").await.refused(422, "validation_failed");
        }
        app.post_as(&sandbox, "/artifacts", json!({})).await.refused(422, "invalid_query");
        assert!(app.pages(&format!("/api/v1/sandboxes/{}/artifacts", sandbox.id), 10).await.is_empty());
    }

    async fn artefacts_are_bounded_each_and_together(app: App) {
        let sandbox = app.sandbox_with_task().await;
        app.file(&sandbox, "big", vec![0; 8 * MIB + 1]).await.refused(413, "body_too_large");
        for n in 0..8u8 {
            app.file(&sandbox, "big", vec![n; 8 * MIB]).await.expect(201);
        }
        app.file(&sandbox, "one more", "x").await.refused(413, "artifacts_full");
        app.file(&sandbox, "big", vec![0; 8 * MIB]).await.expect(201);
        let other = app.sandbox_with_task().await;
        app.file(&other, "one more", "x").await.expect(201);
    }
}
