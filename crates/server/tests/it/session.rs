//! Browsers that are signed in: a cookie stands for a token, for the server's own pages alone, and ends with it.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::client::IntoClientRequest};

use crate::{
    app::{Answer, App, answer, soon},
    on_both,
    viewer::{Said, Viewer},
    work::{MINUTE, SECOND, text, time},
};

const HOUR: Duration = Duration::from_secs(3600);
const SESSION: &str = "/api/v1/session";

impl App {
    async fn sign_in(&self, token: &str) -> Answer {
        answer(self.http.post(format!("{}{SESSION}", self.base)).json(&json!({ "token": token }))).await
    }

    /// What the cookie of somebody holds who has signed in with this token.
    pub async fn signed_in(&self, token: &str) -> String {
        let signed_in = self.sign_in(token).await;
        let cookie = cookie_of(&signed_in);
        signed_in.expect(201);
        cookie
    }

    fn by_cookie(&self, method: Method, path: &str, cookie: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).header("cookie", cookie)
    }

    /// As the server's own pages send it.
    async fn by_page(&self, method: Method, path: &str, cookie: &str, body: Option<Value>) -> Answer {
        let mut request = self.by_cookie(method, path, cookie).header("x-omoi-csrf", "1");
        request = request.header("origin", &self.base);
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    pub async fn watch_by_cookie(&self, cookie: &str, origin: &str) -> Result<Viewer, u16> {
        let url = format!("{}/api/v1/ws/events", self.base.replace("http", "ws"));
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("cookie", cookie.parse().unwrap());
        request.headers_mut().insert("origin", origin.parse().unwrap());
        match soon(connect_async(request)).await {
            Ok((socket, _)) => Ok(Viewer(socket)),
            Err(tokio_tungstenite::tungstenite::Error::Http(refused)) => Err(refused.status().as_u16()),
            Err(error) => panic!("no WebSocket: {error}"),
        }
    }
}

fn cookie_of(answer: &Answer) -> String {
    let set = answer.headers["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

on_both! {
    async fn a_cookie_stands_for_the_token_and_only_a_hash_of_it_is_kept(app: App) {
        let token = app.operator("ada", "operator").await;
        let signed_in = app.sign_in(&format!(" {token}\n")).await;
        let cookie = cookie_of(&signed_in);
        let who = signed_in.expect(201);
        assert_eq!((&who["name"], &who["role"]), (&json!("ada"), &json!("operator")));
        assert_eq!(time(&who["expires_at"]), app.now() + jiff::SignedDuration::from_hours(7 * 24));

        let shown = app.by_page(Method::GET, SESSION, &cookie, None).await.expect(200);
        assert_eq!((&shown["name"], &shown["role"]), (&json!("ada"), &json!("operator")));
        let made = app.by_page(Method::POST, "/api/v1/projects", &cookie, Some(json!({ "name": "p" }))).await;
        made.expect(201);
        let tokens = app.by_page(Method::GET, "/api/v1/tokens", &cookie, None).await;
        tokens.refused(403, "role_too_low");

        let secret = cookie.split_once("omoi_ses_").unwrap().1.to_owned();
        let kept = app.column("SELECT hash || token_id FROM sessions").await;
        let recorded = app.column("SELECT action || detail FROM audit").await;
        assert!(kept.len() == 1 && recorded.iter().any(|line| line.starts_with("session.begin")));
        assert!(!kept.iter().chain(&recorded).any(|row| row.contains(&secret)));
    }

    async fn a_script_cannot_read_the_cookie_nor_another_site_send_it(app: App) {
        let flags = |answer: &Answer| {
            let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
            let mut flags: Vec<_> = set.split("; ").skip(1).map(str::to_owned).collect();
            flags.sort();
            flags
        };
        let plain = ["HttpOnly", "Max-Age=604800", "Path=/", "SameSite=Strict"];
        assert_eq!(flags(&app.sign_in(&app.token).await), plain);
        let post = || app.http.post(format!("{}{SESSION}", app.base)).json(&json!({ "token": app.token }));
        let own = app.base.replace("http://", "https://");
        for by_https in [post().header("x-forwarded-proto", "https"), post().header("origin", own)] {
            let secure = answer(by_https).await;
            assert_eq!(flags(&secure), [&plain[..], &["Secure"]].concat());
        }
        let out = flags(&app.by_page(Method::DELETE, SESSION, "omoi_session=x", None).await);
        assert_eq!(out, ["HttpOnly", "Max-Age=0", "Path=/", "SameSite=Strict"]);
    }

    async fn a_wrong_token_or_a_sandbox_s_signs_nobody_in(app: App) {
        let sandbox = app.sandbox().await;
        for (token, status, code) in [
            ("omoi_op_wrong", 401, "token_wrong"),
            (sandbox.token.as_str(), 403, "operator_needed"),
            ("", 422, "validation_failed"),
        ] {
            let refused = app.sign_in(token).await;
            assert!(!refused.headers.contains_key("set-cookie"), "{token}");
            refused.refused(status, code);
        }
        assert!(app.column("SELECT hash FROM sessions").await.is_empty());
    }

    async fn a_sign_in_is_short(app: App) {
        let post = |length: usize| {
            let body = json!({ "token": "x", "more": "x".repeat(length) });
            answer(app.http.post(format!("{}{SESSION}", app.base)).json(&body))
        };
        post(5_000).await.refused(413, "body_too_large");
        assert_ne!(post(3_000).await.status, 413);
    }

    async fn messages_are_not_taken_by_whatever_page_a_browser_shows(app: App) {
        let cookie = app.signed_in(&app.token).await;
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "hello").await;
        let path = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        answer(app.by_cookie(Method::GET, &path, &cookie)).await.refused(403, "csrf");
        for head in [
            app.by_cookie(Method::HEAD, &path, &cookie).header("x-omoi-csrf", "1"),
            app.request(Method::HEAD, &path, &sandbox.token),
        ] {
            assert_eq!(answer(head).await.status, 405);
        }
        let history = format!("{path}?history=true");
        let listed = answer(app.by_cookie(Method::GET, &history, &cookie)).await.expect(200);
        assert_eq!(listed[0]["state"], "queued");
        assert_eq!(answer(app.by_cookie(Method::HEAD, &history, &cookie)).await.status, 200);
        let taken = app.by_page(Method::GET, &path, &cookie, None).await.expect(200);
        assert_eq!(taken[0]["id"], id);
    }

    async fn what_is_no_session_opens_nothing(app: App) {
        let cookie = app.signed_in(&app.token).await;
        let get = |cookie: &str| app.by_cookie(Method::GET, SESSION, cookie);
        answer(get(&format!("a=b; {cookie}"))).await.expect(200);
        answer(get(&format!("omoi_session={}", app.token))).await.refused(401, "session_ended");
        answer(get(&cookie[..cookie.len() - 1])).await.refused(401, "session_ended");
        answer(get("omoi_session=")).await.refused(401, "token_missing");
        let in_header = cookie.split_once('=').unwrap().1;
        app.call(Method::GET, SESSION, in_header, None).await.refused(401, "token_wrong");
        // Whoever shows a token is judged by it.
        answer(get(&cookie).bearer_auth("wrong")).await.refused(401, "token_wrong");
        answer(get(&cookie).basic_auth("x", Some("y"))).await.refused(401, "token_missing");
    }

    async fn a_change_needs_the_header_that_only_our_pages_send(app: App) {
        let cookie = app.signed_in(&app.token).await;
        let body = json!({ "name": "p" });
        let post = || app.by_cookie(Method::POST, "/api/v1/projects", &cookie).json(&body);
        answer(post()).await.refused(403, "csrf");
        answer(post().header("x-omoi-csrf", "0")).await.refused(403, "csrf");
        answer(app.by_cookie(Method::DELETE, SESSION, &cookie)).await.refused(403, "csrf");
        answer(post().header("x-omoi-csrf", "1").header("origin", "https://evil.example")).await
            .refused(403, "origin_refused");
        assert!(app.pages("/api/v1/projects", 10).await.is_empty());
        app.by_page(Method::POST, "/api/v1/projects", &cookie, Some(body.clone())).await.expect(201);
        // A token comes from no browser by itself, so it needs no such header.
        app.post("/api/v1/projects", json!({ "name": "q" })).await.expect(201);
    }

    async fn whoever_signs_out_is_out(app: App) {
        let (cookie, other) = (app.signed_in(&app.token).await, app.signed_in(&app.token).await);
        app.by_page(Method::GET, SESSION, &cookie, None).await.expect(200);
        let out = app.by_page(Method::DELETE, SESSION, &cookie, None).await;
        assert_eq!(cookie_of(&out), "omoi_session=");
        out.expect(204);
        app.by_page(Method::GET, SESSION, &cookie, None).await.refused(401, "session_ended");
        app.by_page(Method::DELETE, SESSION, &cookie, None).await.expect(204);
        app.by_page(Method::GET, SESSION, &other, None).await.expect(200);
        app.get("/api/v1/whoami").await.expect(200);
    }

    async fn a_session_lasts_while_it_is_used_but_no_longer_than_a_week(app: App) {
        let (used, idle) = (app.signed_in(&app.token).await, app.signed_in(&app.token).await);
        for _ in 0..15 {
            app.advance(11 * HOUR).await;
            app.by_page(Method::GET, SESSION, &used, None).await.expect(200);
        }
        app.by_page(Method::GET, SESSION, &idle, None).await.refused(401, "session_ended");
        app.advance(3 * HOUR - SECOND).await;
        app.by_page(Method::GET, SESSION, &used, None).await.expect(200);
        app.advance(SECOND).await;
        app.by_page(Method::GET, SESSION, &used, None).await.refused(401, "session_ended");
        assert!(app.column("SELECT hash FROM sessions").await.is_empty(), "what has ended is forgotten");
    }

    async fn a_session_ends_twelve_hours_after_its_last_use(app: App) {
        let cookie = app.signed_in(&app.token).await;
        app.advance(12 * HOUR - SECOND).await;
        app.by_page(Method::GET, SESSION, &cookie, None).await.expect(200);
        app.advance(12 * HOUR).await;
        app.by_page(Method::GET, SESSION, &cookie, None).await.refused(401, "session_ended");
    }

    async fn a_session_ends_with_its_token(app: App) {
        let made = app.post("/api/v1/tokens", json!({ "name": "gone", "role": "admin" })).await.expect(201);
        let short = json!({ "name": "short", "role": "admin", "expires_at": app.after(MINUTE) });
        let short = app.post("/api/v1/tokens", short).await.expect(201);
        let revoked = app.signed_in(&text(&made["secret"])).await;
        let expired = app.signed_in(&text(&short["secret"])).await;
        for cookie in [&revoked, &expired] {
            app.by_page(Method::GET, SESSION, cookie, None).await.expect(200);
        }
        app.delete(&format!("/api/v1/tokens/{}", text(&made["id"]))).await.expect(200);
        app.by_page(Method::GET, SESSION, &revoked, None).await.refused(401, "session_ended");
        app.advance(MINUTE).await;
        app.by_page(Method::GET, SESSION, &expired, None).await.refused(401, "session_ended");
    }

    async fn one_token_has_so_many_sessions_and_the_least_used_makes_room(app: App) {
        let first = app.signed_in(&app.token).await;
        app.advance(SECOND).await;
        for _ in 0..50 {
            app.signed_in(&app.token).await;
        }
        assert_eq!(app.column("SELECT hash FROM sessions").await.len(), 50);
        app.by_page(Method::GET, SESSION, &first, None).await.refused(401, "session_ended");
    }

    async fn a_cookie_opens_the_live_streams_for_our_own_pages(app: App) {
        let cookie = app.signed_in(&app.token).await;
        let mut viewer = app.watch_by_cookie(&cookie, &app.base).await.unwrap_or_else(|status| panic!("{status}"));
        app.project("seen").await;
        assert_eq!(viewer.next().await["event_type"], "PROJECT_CREATED");
        assert_eq!(app.watch_by_cookie(&cookie, "http://127.0.0.1:1").await.err(), Some(403));
        let stream = app.by_cookie(Method::GET, "/api/v1/stream", &cookie).send().await.unwrap();
        assert_eq!(stream.status(), 200);
        let foreign = app.by_cookie(Method::GET, "/api/v1/stream", &cookie).header("origin", "http://127.0.0.1:1");
        answer(foreign).await.refused(403, "origin_refused");
    }
}

on_both! {
    |config| config.server.allowed_origins = vec!["https://omoi.example".to_owned()] =>

    async fn a_page_that_may_call_with_a_token_may_not_use_the_cookie(app: App) {
        let cookie = app.signed_in(&app.token).await;
        for method in [Method::GET, Method::DELETE] {
            let request = app.by_cookie(method, SESSION, &cookie).header("x-omoi-csrf", "1");
            answer(request.header("origin", "https://omoi.example")).await.refused(403, "csrf");
        }
        assert_eq!(app.watch_by_cookie(&cookie, "https://omoi.example").await.err(), Some(403));
    }
}

on_both! {
    |config| config.live.ping_interval = Duration::from_millis(50) =>

    async fn a_stream_ends_with_its_session_and_does_not_keep_it_alive(app: App) {
        let cookie = app.signed_in(&app.token).await;
        let mut viewer = app.watch_by_cookie(&cookie, &app.base).await.unwrap_or_else(|status| panic!("{status}"));
        viewer.sign("ping").await;
        viewer.sign("ping").await;
        app.advance(12 * HOUR).await;
        assert_eq!(viewer.hear_last().await, Said::Closed(4401));
    }
}

on_both! {
    |config| config.limits.failed_logins_per_minute = 3 =>

    async fn an_address_that_guesses_tokens_cannot_go_on_at_the_sign_in(app: App) {
        for _ in 0..3 {
            app.sign_in("guess").await.refused(401, "token_wrong");
        }
        app.sign_in("guess").await.refused(429, "too_many_wrong_tokens");
    }

    async fn an_address_that_guesses_sessions_is_slowed_and_a_good_one_is_not(app: App) {
        let cookie = app.signed_in(&app.token).await;
        app.by_page(Method::GET, SESSION, &cookie, None).await.expect(200);
        for _ in 0..3 {
            app.by_page(Method::GET, SESSION, "omoi_session=guess", None).await.refused(401, "session_ended");
        }
        let refused = app.by_page(Method::GET, SESSION, "omoi_session=guess", None).await;
        refused.refused(429, "too_many_wrong_tokens");
        app.by_page(Method::GET, SESSION, &cookie, None).await.expect(200);
        // It is noted that it was used, and asked for anew the next time.
        app.advance(HOUR).await;
        for _ in 0..2 {
            app.by_page(Method::GET, SESSION, &cookie, None).await.expect(200);
        }
    }

    async fn whoever_signs_out_again_and_again_is_slowed_too(app: App) {
        let cookie = app.signed_in(&app.token).await;
        for _ in 0..3 {
            app.by_page(Method::DELETE, SESSION, "omoi_session=guess", None).await.expect(204);
        }
        let refused = app.by_page(Method::DELETE, SESSION, "omoi_session=other", None).await;
        refused.refused(429, "too_many_wrong_tokens");
        app.get("/api/v1/whoami").await.expect(200);
        // One that nobody has shown before waits its turn like any guess.
        app.by_page(Method::DELETE, SESSION, &cookie, None).await.refused(429, "too_many_wrong_tokens");
        assert_eq!(app.column("SELECT hash FROM sessions").await.len(), 1);
    }
}

on_both! {
    |config| config.server.public_url = Some("https://omoi.example".to_owned()) =>

    async fn a_server_that_is_reached_by_https_sends_its_cookie_no_other_way(app: App) {
        let signed_in = app.sign_in(&app.token).await;
        assert!(signed_in.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
        assert_eq!(signed_in.headers["strict-transport-security"], "max-age=31536000");
    }
}
