//! Transcripts that grow part by part, and sessions that go on in another sandbox.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox},
    on_both,
    work::{LEASE, SECOND, text},
};

const PART_MAX: usize = 1 << 20;

fn part(session: &str, offset: usize, data: &[u8]) -> Value {
    json!({ "session_id": session, "offset": offset, "data_b64": STANDARD.encode(data) })
}

/// Bytes that no two places of a log share by chance, and that do not compress to nothing.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..count).map(|_| next()).collect()
}

impl App {
    async fn append(&self, sandbox: &Sandbox, session: &str, offset: usize, data: &[u8]) -> Answer {
        self.post_as(sandbox, "/transcript", part(session, offset, data)).await
    }

    async fn transcript(&self, sandbox: &Sandbox) -> (String, Vec<u8>) {
        let found = self.get_as(sandbox, "/transcript").await.expect(200);
        (text(&found["session_id"]), STANDARD.decode(text(&found["transcript_b64"])).unwrap())
    }

    /// A project with a repository, and a sandbox elsewhere that works on a task of it.
    async fn worker_in(&self, name: &str) -> (String, Sandbox) {
        let new = json!({ "name": name, "repository_url": "/nowhere" });
        let project = text(&self.post("/api/v1/projects", new).await.expect(201)["id"]);
        let task = self.task(&project, json!({})).await;
        (project, self.attach(json!({ "task_id": task })).await)
    }

    async fn order(&self, project: &str, wish: Value) -> Answer {
        self.post(&format!("/api/v1/projects/{project}/sandboxes"), wish).await
    }
}

on_both! {
    async fn a_log_grows_part_by_part_and_is_shown_whole(app: App) {
        let sandbox = app.sandbox().await;
        let log = noise(1, 2 * PART_MAX + 17);
        let mut at = 0;
        for end in [1, 500, PART_MAX + 500, 2 * PART_MAX, log.len()] {
            let stored = app.append(&sandbox, "s-1", at, &log[at..end]).await.expect(200);
            assert_eq!(stored, json!({ "session_id": "s-1", "size": end }));
            assert!(app.transcript(&sandbox).await == ("s-1".to_owned(), log[..end].to_vec()));
            at = end;
        }
        let asked = app.append(&sandbox, "s-1", 0, b"").await.expect(200);
        assert_eq!(asked["size"], log.len());
        assert_eq!(app.append(&sandbox, "s-never", 0, b"").await.expect(200)["size"], 0);
    }

    async fn what_is_stored_may_come_again_and_changes_nothing(app: App) {
        let sandbox = app.sandbox().await;
        let log = noise(2, 1000);
        for (from, to, size) in
            [(0, 300, 300), (0, 300, 300), (300, 600, 600), (0, 600, 600), (250, 400, 600), (599, 600, 600), (100, 900, 900), (900, 1000, 1000)]
        {
            assert_eq!(app.append(&sandbox, "s", from, &log[from..to]).await.expect(200)["size"], size, "{from}..{to}");
        }
        assert!(app.transcript(&sandbox).await.1 == log);
    }

    async fn a_gap_is_refused_with_the_size_to_go_on_from_and_other_bytes_without(app: App) {
        let sandbox = app.sandbox().await;
        assert_eq!(app.append(&sandbox, "s", 5, b"x").await.refused(409, "transcript_gap")["size"], 0);
        app.append(&sandbox, "s", 0, b"hello ").await.expect(200);
        assert_eq!(app.append(&sandbox, "s", 7, b"world").await.refused(409, "transcript_gap")["size"], 6);
        assert_eq!(app.append(&sandbox, "s", 7, b"").await.refused(409, "transcript_gap")["size"], 6);
        // Nobody is to go on behind bytes that are not theirs.
        assert!(app.append(&sandbox, "s", 3, b"LO world").await.refused(409, "transcript_conflict").get("size").is_none());
        app.append(&sandbox, "s", 6, b"world").await.expect(200);
        assert_eq!(app.transcript(&sandbox).await.1, b"hello world");
    }

    async fn a_part_that_makes_no_sense_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        for body in [
            json!({}),
            json!({ "session_id": "s", "offset": -1, "data_b64": "" }),
            json!({ "session_id": "", "offset": 0, "data_b64": "" }),
            json!({ "session_id": "x".repeat(201), "offset": 0, "data_b64": "" }),
            json!({ "session_id": "s", "offset": 0, "data_b64": "no base64" }),
            json!({ "session_id": "s", "offset": 0, "data_b64": "YQ" }),
            json!({ "session_id": "s", "offset": 0, "data_b64": "YQ==", "more": 1 }),
        ] {
            app.post_as(&sandbox, "/transcript", body).await.refused(422, "validation_failed");
        }
        let long = noise(3, PART_MAX + 1);
        app.append(&sandbox, "s", 0, &long).await.refused(413, "transcript_part_too_large");
        app.get_as(&sandbox, "/transcript").await.refused(404, "transcript_of_sandbox_not_found");
    }

    async fn there_is_an_end_to_a_log_and_what_is_stored_stays(app: App) {
        let sandbox = app.sandbox().await;
        app.append(&sandbox, "s", 0, b"all there is").await.expect(200);
        let full = 64 << 20;
        app.sql(&format!("UPDATE transcript_parts SET start_at = {}", full - 12)).await;
        app.sql(&format!("UPDATE transcripts SET size = {full}")).await;
        app.append(&sandbox, "s", full, b"x").await.refused(413, "transcript_full");
        assert_eq!(app.append(&sandbox, "s", full - 12, b"all there is").await.expect(200)["size"], full);
        app.append(&sandbox, "another", 0, b"x").await.expect(200);
        app.sql(&format!("UPDATE transcripts SET size = {} WHERE session_id = 's'", 4 * full)).await;
        app.append(&sandbox, "a third", 0, b"x").await.refused(413, "transcript_full");
    }

    async fn a_log_is_written_by_its_sandbox_alone(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let path = format!("/api/v1/sandboxes/{}/transcript", sandbox.id);
        let body = part("s", 0, b"x");
        app.post(&path, body.clone()).await.refused(403, "sandbox_needed");
        app.call(Method::POST, &path, &other.token, Some(&body)).await.refused(403, "wrong_sandbox");
        // The same name elsewhere is another log.
        app.append(&sandbox, "s", 0, b"mine").await.expect(200);
        app.append(&other, "s", 0, b"other").await.expect(200);
        assert_eq!(app.transcript(&sandbox).await.1, b"mine");
        assert_eq!(app.transcript(&other).await.1, b"other");
    }

    async fn a_lost_sandbox_may_still_tell_what_it_did_for_a_while(app: App) {
        let sandbox = app.sandbox_with_task().await;
        app.append(&sandbox, "s", 0, b"before ").await.expect(200);
        app.advance(LEASE + SECOND).await;
        app.append(&sandbox, "s", 7, b"and after").await.expect(200);
        assert_eq!(app.transcript(&sandbox).await.1, b"before and after");
        app.advance(Duration::from_secs(3601)).await;
        app.append(&sandbox, "s", 16, b" too late").await.refused(401, "token_ended");
    }

    async fn of_what_came_whole_and_what_grew_the_newer_is_shown(app: App) {
        let sandbox = app.sandbox().await;
        let whole = |session: &str, text: &str| {
            json!({ "continuous": true, "session_id": session, "transcript_b64": STANDARD.encode(text) })
        };
        app.append(&sandbox, "s", 0, b"one ").await.expect(200);
        app.event(&sandbox, "agent.completed", whole("s", "one two")).await.expect(200);
        assert_eq!(app.transcript(&sandbox).await.1, b"one two");
        app.append(&sandbox, "s", 4, b"two three").await.expect(200);
        assert_eq!(app.transcript(&sandbox).await.1, b"one two three");
        app.advance(SECOND).await;
        app.event(&sandbox, "agent.completed", whole("t", "another")).await.expect(200);
        assert_eq!(app.transcript(&sandbox).await, ("t".to_owned(), b"another".to_vec()));
    }

    async fn a_session_of_the_same_project_is_resumed_and_no_other(app: App) {
        let (project, worker) = app.worker_in("parser").await;
        let (elsewhere, _) = app.worker_in("printer").await;
        app.append(&worker, "s-1", 0, b"{}\n").await.expect(200);
        app.order(&project, json!({ "resume_session_id": "s-1" })).await.expect(202);
        app.order(&project, json!({ "resume_session_id": "s-2" })).await.refused(404, "session_not_found");
        app.order(&elsewhere, json!({ "resume_session_id": "s-1" })).await.refused(404, "session_not_found");
        app.order(&project, json!({ "resume_session_id": "" })).await.refused(422, "validation_failed");

        let resuming = json!({ "execution_config": { "resume_session_id": "s-1" } });
        let task = app.task(&project, resuming.clone()).await;
        let ordered = app.order(&project, json!({ "task_id": task })).await.expect(202);
        assert_eq!(ordered["task_id"], task.as_str());
        let wish = app.column(&format!("SELECT wish FROM sandboxes WHERE id = '{}'", text(&ordered["id"]))).await;
        assert_eq!(serde_json::from_str::<Value>(&wish[0]).unwrap()["resume_session_id"], "s-1");

        let wrong = json!({ "project_id": elsewhere, "title": "x", "execution_config": { "resume_session_id": "s-1" } });
        app.post("/api/v1/tasks", wrong).await.refused(404, "session_not_found");
        let other = app.task(&elsewhere, json!({})).await;
        app.patch(&format!("/api/v1/tasks/{other}"), resuming).await.refused(404, "session_not_found");
    }

    async fn a_session_that_is_too_long_is_not_resumed(app: App) {
        let (project, worker) = app.worker_in("parser").await;
        app.append(&worker, "s-1", 0, b"{}\n").await.expect(200);
        app.sql(&format!("UPDATE transcripts SET size = {}", (16 << 20) + 1)).await;
        let refused = app.order(&project, json!({ "resume_session_id": "s-1" })).await;
        let refused = refused.refused(422, "session_too_long");
        assert!(text(&refused["detail"]).contains("16 MiB"));
        app.sql(&format!("UPDATE transcripts SET size = {}", 16 << 20)).await;
        app.order(&project, json!({ "resume_session_id": "s-1" })).await.expect(202);
    }

    async fn settings_of_an_agent_that_make_no_sense_are_refused_by_name(app: App) {
        for (settings, named) in [
            (json!({ "agent": { "modle": "x" } }), "settings.agent.modle"),
            (json!({ "agent": { "permission_mode": "everything" } }), "settings.agent.permission_mode"),
            (json!({ "model": "" }), "settings.model"),
        ] {
            let made = app.post("/api/v1/projects", json!({ "name": "x", "settings": settings })).await;
            let why = text(&made.refused(422, "validation_failed")["detail"]);
            assert!(why.contains(named), "{why}");
        }
        let agent = json!({ "model": "scripted/binomial", "allowed_tools": ["Read"], "answer_tokens": 1000 });
        let project = app.post("/api/v1/projects", json!({ "name": "x", "settings": { "agent": agent } })).await;
        let project = text(&project.expect(201)["id"]);
        for (config, named) in [
            (json!({ "agent": 1 }), "execution_config.agent"),
            (json!({ "model": 1 }), "execution_config.model"),
            (json!({ "mode": "dance" }), "execution_config.mode"),
            (json!({ "max_turns": 0 }), "execution_config.max_turns"),
            (json!({ "idle_seconds": 1e9 }), "execution_config.idle_seconds"),
            (json!({ "max_consecutive_errors": "3" }), "execution_config.max_consecutive_errors"),
        ] {
            let task = json!({ "project_id": project, "title": "x", "execution_config": config });
            let why = text(&app.post("/api/v1/tasks", task).await.refused(422, "validation_failed")["detail"]);
            assert!(why.contains(named), "{why}");
        }
        let config = json!({ "agent": agent, "mode": "exploration", "max_turns": 5, "idle_seconds": 60 });
        let task = app.task(&project, json!({ "execution_config": config })).await;
        assert_eq!(app.show(&task).await["execution_config"], config);
    }
}
