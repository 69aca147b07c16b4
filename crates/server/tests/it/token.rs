//! Tokens: made, shown once, limited by role and time, gone the moment they are revoked.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{Answer, App},
    on_both,
    work::{MINUTE, SECOND, text, time},
};

impl App {
    async fn new_token(&self, body: Value) -> Value {
        self.post("/api/v1/tokens", body).await.expect(201)
    }

    async fn with(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.call(method, path, token, body).await
    }

    async fn whoami(&self, token: &str) -> Answer {
        self.with(token, Method::GET, "/api/v1/whoami", None).await
    }
}

on_both! {
    async fn a_token_is_made_and_says_who_it_is(app: App) {
        let made = app.new_token(json!({ "name": "ada", "role": "operator" })).await;
        let secret = text(&made["secret"]);
        assert!(secret.starts_with("omoi_op_") && secret.len() > 40, "{secret}");
        assert_eq!((&made["revoked_at"], &made["expires_at"]), (&json!(null), &json!(null)));
        let expected = json!({ "kind": "operator", "name": "ada", "role": "operator", "sandbox_id": null });
        assert_eq!(app.whoami(&secret).await.expect(200), expected);

        let sandbox = app.sandbox().await;
        let who = app.whoami(&sandbox.token).await.expect(200);
        assert_eq!((&who["kind"], &who["sandbox_id"]), (&json!("sandbox"), &json!(sandbox.id)));
    }

    async fn a_secret_is_shown_once_and_kept_nowhere(app: App) {
        let made = app.new_token(json!({ "name": "ada", "role": "viewer" })).await;
        let secret = text(&made["secret"]);
        let listed = app.pages("/api/v1/tokens", 1).await;
        let names: Vec<_> = listed.iter().map(|token| text(&token["name"])).collect();
        assert_eq!(names, ["first", "ada"]);
        assert!(listed.iter().all(|token| token.get("secret").is_none()), "{listed:?}");

        let sandbox = app.sandbox().await;
        let kept = app.column("SELECT id || hash || name || COALESCE(role, '') FROM tokens").await;
        let recorded = app.column("SELECT detail FROM audit").await;
        let told = app.column("SELECT data FROM events").await;
        assert_eq!(kept.len(), 3);
        for secret in [&secret, &app.token, &sandbox.token] {
            let random = secret.splitn(3, '_').last().unwrap();
            assert!(!kept.iter().chain(&recorded).chain(&told).any(|row| row.contains(random)));
        }
    }

    async fn each_role_may_do_what_the_one_before_may_and_more(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let events = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        let messages = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        let cancel = format!("/api/v1/tasks/{task}/cancel");
        let names = |name: &str| json!({ "name": name, "role": "viewer" });
        // What is asked, and the lowest role that may.
        let table = [
            (Method::GET, "/api/v1/projects", None, "viewer"),
            (Method::GET, "/api/v1/tasks", None, "viewer"),
            (Method::GET, "/api/v1/sandboxes", None, "viewer"),
            (Method::GET, &events, None, "viewer"),
            (Method::POST, &events, Some(json!({ "event_type": "agent.message" })), "operator"),
            (Method::POST, &messages, Some(json!({ "content": "hello" })), "operator"),
            (Method::POST, "/api/v1/sandboxes", Some(json!({})), "operator"),
            (Method::POST, &cancel, Some(json!({})), "operator"),
            (Method::GET, "/api/v1/tokens", None, "admin"),
            (Method::POST, "/api/v1/tokens", Some(names("more")), "admin"),
            (Method::GET, "/api/v1/audit", None, "admin"),
            (Method::GET, "/api/v1/audit/verify", None, "admin"),
        ];
        let roles = ["viewer", "operator", "admin"];
        let mut tokens = Vec::new();
        for role in roles {
            tokens.push(app.operator(role, role).await);
        }
        for (method, path, body, lowest) in &table {
            for (role, token) in roles.iter().zip(&tokens) {
                let answer = app.with(token, method.clone(), path, body.as_ref()).await;
                let rank = |role: &str| roles.iter().position(|known| *known == role);
                if rank(role) < rank(lowest) {
                    answer.refused(403, "role_too_low");
                } else {
                    // Cancelling twice is refused, but for another reason.
                    assert!(![401, 403].contains(&answer.status.as_u16()), "{role} {method} {path}: {}", answer.body);
                }
            }
        }
    }

    async fn a_sandbox_s_token_opens_its_own_sandbox_and_nothing_else(app: App) {
        let (own, other) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let of = |sandbox: &crate::app::Sandbox, rest: &str| format!("/api/v1/sandboxes/{}{rest}", sandbox.id);
        let event = json!({ "event_type": "agent.message" });
        for rest in ["", "/events", "/trajectory", "/task", "/messages", "/logs"] {
            app.with(&own.token, Method::GET, &of(&own, rest), None).await.expect(200);
            app.with(&own.token, Method::GET, &of(&other, rest), None).await.refused(403, "wrong_sandbox");
        }
        app.with(&own.token, Method::POST, &of(&own, "/events"), Some(&event)).await.expect(200);
        app.with(&own.token, Method::POST, &of(&other, "/events"), Some(&event)).await.refused(403, "wrong_sandbox");
        let said = json!({ "task_id": other.task });
        let ended = app.with(&own.token, Method::POST, &of(&other, "/task-complete"), Some(&said)).await;
        ended.refused(403, "wrong_sandbox");
        let terminate = of(&own, "/terminate");
        app.with(&own.token, Method::POST, &terminate, Some(&json!({}))).await.refused(403, "operator_needed");
        for path in ["/api/v1/projects", "/api/v1/tasks", "/api/v1/sandboxes", "/api/v1/tokens", "/api/v1/stream"] {
            app.with(&own.token, Method::GET, path, None).await.refused(403, "operator_needed");
        }
        assert_eq!(app.task_status(other.task.as_ref().unwrap()).await, "assigned");
    }

    async fn a_token_ends_at_its_time(app: App) {
        let body = json!({ "name": "guest", "role": "viewer", "expires_at": app.after(MINUTE) });
        let secret = text(&app.new_token(body).await["secret"]);
        app.advance(MINUTE - SECOND).await;
        app.whoami(&secret).await.expect(200);
        app.advance(SECOND).await;
        app.whoami(&secret).await.refused(401, "token_expired");
        app.whoami(&app.token).await.expect(200);
        let past = json!({ "name": "late", "role": "viewer", "expires_at": app.now().to_string() });
        app.post("/api/v1/tokens", past).await.refused(422, "validation_failed");
    }

    async fn a_revoked_token_opens_nothing_from_that_moment(app: App) {
        let made = app.new_token(json!({ "name": "gone", "role": "admin" })).await;
        let (path, secret) = (format!("/api/v1/tokens/{}", text(&made["id"])), text(&made["secret"]));
        // It is in use, so that whoever remembers tokens remembers it.
        for _ in 0..3 {
            app.whoami(&secret).await.expect(200);
        }
        let revoked = app.delete(&path).await.expect(200);
        assert_eq!(time(&revoked["revoked_at"]), app.now());
        app.whoami(&secret).await.refused(401, "token_wrong");
        app.with(&secret, Method::POST, "/api/v1/projects", Some(&json!({ "name": "x" }))).await.refused(401, "token_wrong");
        app.whoami(&app.token).await.expect(200);

        app.advance(MINUTE).await;
        assert_eq!(app.delete(&path).await.expect(200)["revoked_at"], revoked["revoked_at"], "twice is harmless");
        app.delete("/api/v1/tokens/tok-none").await.refused(404, "token_not_found");
    }

    async fn a_token_may_take_itself_away(app: App) {
        let made = app.new_token(json!({ "name": "self", "role": "admin" })).await;
        let (path, secret) = (format!("/api/v1/tokens/{}", text(&made["id"])), text(&made["secret"]));
        app.with(&secret, Method::DELETE, &path, None).await.expect(200);
        app.with(&secret, Method::DELETE, &path, None).await.refused(401, "token_wrong");
    }

    async fn without_a_token_or_with_a_wrong_one_nothing_opens(app: App) {
        let bare = crate::app::answer(app.http.get(format!("{}/api/v1/projects", app.base))).await;
        assert_eq!(bare.headers["www-authenticate"], "Bearer");
        bare.refused(401, "token_missing");
        let basic = app.http.get(format!("{}/api/v1/projects", app.base)).basic_auth("first", Some(&app.token));
        crate::app::answer(basic).await.refused(401, "token_missing");
        let shorter = &app.token[..app.token.len() - 1];
        for wrong in ["x", "omoi_op_", shorter, &app.token.to_uppercase()] {
            let answer = app.whoami(wrong).await;
            assert_eq!(answer.status, 401, "{wrong:?}");
            answer.refused(401, "token_wrong");
        }
        let in_query = format!("{}/api/v1/projects?token={}", app.base, app.token);
        crate::app::answer(app.http.get(in_query)).await.refused(401, "token_missing");
    }

    async fn a_token_that_makes_no_sense_is_refused(app: App) {
        for body in [
            json!({ "name": "x" }),
            json!({ "name": "x", "role": "root" }),
            json!({ "name": "", "role": "viewer" }),
            json!({ "name": "x", "role": "viewer", "expires_at": "tomorrow" }),
        ] {
            app.post("/api/v1/tokens", body).await.refused(422, "validation_failed");
        }
        assert_eq!(app.pages("/api/v1/tokens", 10).await.len(), 1);
    }
}
