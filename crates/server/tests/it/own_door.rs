//! The door of a sandbox: what comes through it counts only with that sandbox's own token, by whichever route; and that token
//! counts nowhere else.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{answer, unique},
    on_both,
    viewer::Said,
};

on_both! {
    |config| config.limits.failed_logins_per_minute = 3 =>

    async fn through_a_door_only_the_sandbox_s_own_token_counts(app: App) {
        let mut app = app;
        let (own, other) = (app.sandbox().await, app.sandbox().await);
        let cookie = answer(app.http.post(format!("{}/api/v1/session", app.base)).json(&json!({ "token": app.token }))).await;
        let cookie = cookie.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        app.base = app.open_door(&own.id.parse().unwrap());
        app.call(Method::GET, "/api/v1/whoami", &own.token, None).await.expect(200);
        for found in [&other.token, &app.token] {
            app.call(Method::GET, "/api/v1/whoami", found, None).await.refused(403, "wrong_door");
            let mut viewer = app.try_watch(found, "").await.unwrap();
            let Said::Json(said) = viewer.hear().await else { panic!("it is told why") };
            assert!(said["error"].as_str().unwrap().contains("door"), "{said}");
            assert_eq!(viewer.hear().await, Said::Closed(4401));
            let git = app.http.get(format!("{}/git/prj-1.git/info/refs?service=git-upload-pack", app.base));
            assert_eq!(answer(git.bearer_auth(found)).await.status, 403);
            let asked = app.call(Method::POST, "/model/anthropic/v1/messages", found, Some(&json!({}))).await;
            assert_eq!(asked.status, 403);
            let sign_in = app.http.post(format!("{}/api/v1/session", app.base)).json(&json!({ "token": found }));
            answer(sign_in).await.refused(403, "wrong_door");
        }
        let out = app.http.delete(format!("{}/api/v1/session", app.base)).header("cookie", cookie);
        answer(out.header("x-omoi-csrf", "1")).await.refused(403, "wrong_door");
        // Whoever guesses inside is slowed there, and nowhere else.
        for _ in 0..3 {
            app.call(Method::GET, "/api/v1/whoami", "guess", None).await.refused(401, "token_wrong");
        }
        app.call(Method::GET, "/api/v1/whoami", "guess", None).await.refused(429, "too_many_wrong_tokens");
    }
}

on_both! {
    async fn the_token_of_a_sandbox_that_has_a_door_counts_at_that_door_alone(app: App) {
        let body = json!({ "name": unique("project"), "repository_url": "/nowhere" });
        let project = app.post("/api/v1/projects", body).await.expect(201)["id"].as_str().unwrap().to_owned();
        let ordered = app.post(&format!("/api/v1/projects/{project}/sandboxes"), json!({ "command": ["true"] })).await.expect(202);
        let id = ordered["id"].as_str().unwrap();
        let worker = app.worker_of(id).await;
        app.event(&worker, "agent.started", json!({})).await.expect(200);

        let public = format!("{}{{path}}", app.base);
        let document: Value = serde_json::from_str(&omoi_server::http::openapi_json()).unwrap();
        let mut asked = 0;
        for (path, methods) in document["paths"].as_object().unwrap() {
            // Signing in and being well need no token, and a WebSocket answers in its own way.
            let is_open = ["/session", "/ws/events", "/health", "/ready", "/metrics", "/openapi.json"];
            if is_open.iter().any(|open| path.ends_with(open)) || !path.starts_with("/api/") {
                continue;
            }
            for method in methods.as_object().unwrap().keys() {
                let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) else { continue };
                let path = path.replace("{id}", id).replace(['{', '}'], "");
                let request = app.http.request(method.clone(), public.replace("{path}", &path)).bearer_auth(&worker.token);
                let refused = answer(request.json(&json!({ "event_type": "agent.completed" }))).await;
                if refused.status == 401 || refused.body["code"] != "own_door_only" {
                    // An id of another shape is refused before it is asked whose token it is.
                    assert!(["invalid_id", "invalid_query"].contains(&refused.body["code"].as_str().unwrap()), "{method} {path}: {}", refused.body);
                    continue;
                }
                assert_eq!(refused.status, 403);
                asked += 1;
            }
        }
        assert!(asked > 80, "{asked} routes were asked");

        let git = app.http.get(format!("{}/git/{project}.git/info/refs?service=git-upload-pack", app.base));
        let refused = answer(git.bearer_auth(&worker.token)).await;
        assert!(refused.status == 403 && refused.body.as_str().unwrap().contains("CALLBACK_URL"), "{refused:?}");
        for path in ["/model/anthropic/v1/messages", "/model/openai/v1/chat/completions"] {
            let call = app.http.post(format!("{}{path}", app.base)).bearer_auth(&worker.token);
            assert_eq!(answer(call.json(&json!({ "model": "scripted/x" }))).await.status, 403);
        }
        let mut viewer = app.try_watch(&worker.token, "").await.unwrap();
        let Said::Json(said) = viewer.hear().await else { panic!("it is told why") };
        assert!(said["error"].as_str().unwrap().contains("CALLBACK_URL"), "{said}");
        assert_eq!(viewer.hear().await, Said::Closed(4401));
        let sign_in = app.http.post(format!("{}/api/v1/session", app.base)).json(&json!({ "token": worker.token }));
        answer(sign_in).await.refused(403, "own_door_only");

        // The event that was refused is not there, and one that runs elsewhere has no other way than the port.
        let events = app.get_as(&worker, "/events").await.expect(200);
        assert_eq!(events["total_count"], 1, "{events}");
        let elsewhere = app.sandbox().await;
        app.event(&elsewhere, "agent.started", json!({})).await.expect(200);
    }
}
