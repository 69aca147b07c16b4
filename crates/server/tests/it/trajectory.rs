//! The trajectory of a sandbox: its events without heartbeats, walked by cursors; and what is kept beside the
//! events: whole diffs, transcripts, the log.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    app::{Answer, App, Sandbox},
    on_both,
};

impl App {
    async fn trajectory(&self, sandbox: &Sandbox, query: &str) -> Answer {
        self.get(&format!("/api/v1/sandboxes/{}/trajectory?{query}", sandbox.id)).await
    }

    async fn diff(&self, sandbox: &Sandbox, event: &Value) -> Answer {
        self.get_as(sandbox, &format!("/diffs/{}", event.as_str().unwrap())).await
    }

    /// All pages from a cursor on, as the numbers of their events in the order met.
    async fn walk(&self, sandbox: &Sandbox, limit: usize, from: &Value, direction: &str) -> Vec<i64> {
        let mut met = Vec::new();
        let mut cursor = from.clone();
        loop {
            let mut query = format!("limit={limit}&direction={direction}");
            if let Some(cursor) = cursor.as_str() {
                query += &format!("&cursor={cursor}");
            }
            let page = self.trajectory(sandbox, &query).await.expect(200);
            let mut numbers = numbers(&page);
            assert!(numbers.len() <= limit);
            assert!(met.is_empty() || !numbers.is_empty(), "the page before said that there is more");
            if direction == "newer" {
                numbers.reverse();
            }
            met.extend(numbers);
            if page["has_more"] == false {
                assert_eq!(page["next_cursor"], Value::Null);
                return met;
            }
            cursor = page[if direction == "newer" { "prev_cursor" } else { "next_cursor" }].clone();
            assert!(cursor.is_string(), "there is more, so there is a cursor");
        }
    }
}

fn numbers(page: &Value) -> Vec<i64> {
    page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event_data"]["n"].as_i64().unwrap())
        .collect()
}

fn file_edited(worker_seq: i64, full_diff: &str) -> Value {
    json!({
        "event_type": "agent.file_edited", "worker_seq": worker_seq,
        "event_data": { "file_path": "src/main.rs", "lines_added": 3, "full_diff": full_diff },
    })
}

fn completed(session: &str, transcript: &str) -> Value {
    json!({
        "event_type": "agent.completed",
        "event_data": { "session_id": session, "transcript_b64": transcript, "turns": 3 },
    })
}

on_both! {
    async fn heartbeats_are_left_out_and_summed_up(app: App) {
        let sandbox = app.sandbox().await;
        let nothing = app.trajectory(&sandbox, "").await.expect(200);
        assert_eq!(
            nothing["heartbeat_summary"],
            json!({ "count": 0, "first_heartbeat": null, "last_heartbeat": null })
        );
        app.event(&sandbox, "agent.thinking", json!({ "n": 1 })).await.expect(200);
        app.advance(Duration::from_secs(1)).await;
        let first = app.now();
        for kind in ["agent.heartbeat", "heartbeat", "agent.heartbeat"] {
            app.event(&sandbox, kind, json!({})).await.expect(200);
            app.advance(Duration::from_secs(30)).await;
        }
        let last = app.now() - Duration::from_secs(30);
        app.event(&sandbox, "spec.heartbeat", json!({ "n": 2 })).await.expect(200);
        let page = app.trajectory(&sandbox, "").await.expect(200);
        assert_eq!(numbers(&page), [2, 1], "newest first, and a spec's heartbeats tell its phase");
        let summary = json!({ "count": 3, "first_heartbeat": first, "last_heartbeat": last });
        assert_eq!(page["heartbeat_summary"], summary);
        assert_eq!((&page["total_events"], &page["trajectory_events"]), (&json!(5), &json!(2)));
    }

    async fn cursors_lead_both_ways_without_gap_or_repeat(app: App) {
        let sandbox = app.sandbox().await;
        let count = 23;
        let mut batch = Vec::new();
        for n in 1..=count {
            batch.push(json!({ "event_type": "agent.thinking", "event_data": { "n": n } }));
            batch.extend((0..n % 4).map(|_| json!({ "event_type": "agent.heartbeat" })));
        }
        let answer = app.post_as(&sandbox, "/events", json!({ "events": batch })).await.expect(200);
        let thoughts =
            answer["events"].as_array().unwrap().iter().filter(|e| e["event_type"] == "agent.thinking");
        let ids: Vec<_> = thoughts.map(|e| e["event_id"].clone()).collect();
        let back: Vec<i64> = (1..=count).rev().collect();
        let forth: Vec<i64> = (1..=count).collect();
        for limit in [1, 2, 3, 7, 22, 23, 24, 1000] {
            assert_eq!(app.walk(&sandbox, limit, &Value::Null, "older").await, back, "pages of {limit}");
            assert_eq!(app.walk(&sandbox, limit, &Value::Null, "newer").await, forth, "pages of {limit}");
            for at in [0, 1, 11, 21, 22] {
                let older = &back[back.len() - at..];
                assert_eq!(app.walk(&sandbox, limit, &ids[at], "older").await, older, "{limit} from {at}");
                assert_eq!(
                    app.walk(&sandbox, limit, &ids[at], "newer").await,
                    forth[at + 1..],
                    "{limit} from {at}"
                );
            }
        }
    }

    async fn a_cursor_stays_good_while_events_come_in(app: App) {
        let sandbox = app.sandbox().await;
        for n in 1..=6 {
            app.event(&sandbox, "agent.thinking", json!({ "n": n })).await.expect(200);
        }
        let newest = app.trajectory(&sandbox, "limit=2").await.expect(200);
        assert_eq!((numbers(&newest), &newest["has_more"]), (vec![6, 5], &json!(true)));
        for n in 7..=9 {
            app.event(&sandbox, "agent.thinking", json!({ "n": n })).await.expect(200);
        }
        assert_eq!(app.walk(&sandbox, 2, &newest["next_cursor"], "older").await, [4, 3, 2, 1]);
        assert_eq!(app.walk(&sandbox, 2, &newest["prev_cursor"], "newer").await, [7, 8, 9]);
        let end = app.trajectory(&sandbox, "").await.expect(200)["prev_cursor"].clone();
        let idle = app
            .trajectory(&sandbox, &format!("direction=newer&cursor={}", end.as_str().unwrap()))
            .await
            .expect(200);
        assert_eq!((numbers(&idle), &idle["has_more"]), (vec![], &json!(false)));
    }

    async fn a_heartbeat_is_a_cursor_too(app: App) {
        let sandbox = app.sandbox().await;
        app.event(&sandbox, "agent.thinking", json!({ "n": 1 })).await.expect(200);
        let beat = app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200)["event_id"].clone();
        app.event(&sandbox, "agent.thinking", json!({ "n": 2 })).await.expect(200);
        assert_eq!(app.walk(&sandbox, 10, &beat, "older").await, [1]);
        assert_eq!(app.walk(&sandbox, 10, &beat, "newer").await, [2]);
    }

    async fn the_cursor_of_another_sandbox_is_none_here(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        app.event(&sandbox, "agent.thinking", json!({ "n": 1 })).await.expect(200);
        let foreign =
            app.event(&other, "agent.thinking", json!({ "n": 2 })).await.expect(200)["event_id"].clone();
        for cursor in [foreign.as_str().unwrap(), "evt-999999999999"] {
            for direction in ["older", "newer"] {
                let query = format!("cursor={cursor}&direction={direction}");
                app.trajectory(&sandbox, &query).await.refused(404, "event_of_that_sandbox_not_found");
            }
        }
        for query in ["cursor=17", "cursor=evt--1", "cursor=", "direction=sideways", "limit=1001", "limit=0"]
        {
            assert_eq!(app.trajectory(&sandbox, query).await.status, 422, "{query}");
        }
    }

    async fn a_large_diff_is_kept_beside_its_event(app: App) {
        let sandbox = app.sandbox().await;
        let diff = "+ a line of code, with an é\n".repeat(2000);
        let posted = app.post_as(&sandbox, "/events", file_edited(1, &diff)).await.expect(200);
        let stored = app.get_as(&sandbox, "/events").await.expect(200)["events"][0]["event_data"].clone();
        assert_eq!(
            stored,
            json!({
                "file_path": "src/main.rs", "lines_added": 3, "full_diff": null,
                "full_diff_available": true, "full_diff_size": diff.chars().count(),
                "full_diff_sha256": stored["full_diff_sha256"],
            })
        );
        let whole = app.diff(&sandbox, &posted["event_id"]).await.expect(200);
        assert_eq!(
            whole,
            json!({
                "event_id": posted["event_id"], "sandbox_id": sandbox.id, "file_path": "src/main.rs", "full_diff": diff,
            })
        );
        let repeat = app.post_as(&sandbox, "/events", file_edited(1, &diff)).await.expect(200);
        assert_eq!(repeat, posted);
    }

    async fn a_diff_that_its_worker_has_cut_keeps_the_size_of_the_whole(app: App) {
        let sandbox = app.sandbox().await;
        let mut event = file_edited(1, &"+ one\n".repeat(2000));
        event["event_data"]["full_diff_size"] = json!(9_000_000);
        app.post_as(&sandbox, "/events", event).await.expect(200);
        let stored = app.get_as(&sandbox, "/events").await.expect(200)["events"][0]["event_data"].clone();
        assert_eq!(stored["full_diff_size"], 9_000_000);
    }

    async fn a_small_diff_stays_in_its_event_and_is_found_the_same_way(app: App) {
        let sandbox = app.sandbox().await;
        let posted = app.post_as(&sandbox, "/events", file_edited(1, "+ one line\n")).await.expect(200);
        let stored = app.get_as(&sandbox, "/events").await.expect(200)["events"][0]["event_data"].clone();
        assert_eq!(stored["full_diff"], "+ one line\n");
        assert_eq!(app.diff(&sandbox, &posted["event_id"]).await.expect(200)["full_diff"], "+ one line\n");
    }

    async fn another_large_diff_under_the_same_number_is_a_conflict(app: App) {
        let sandbox = app.sandbox().await;
        app.post_as(&sandbox, "/events", file_edited(1, &"+ one\n".repeat(2000))).await.expect(200);
        let other = app.post_as(&sandbox, "/events", file_edited(1, &"+ two\n".repeat(2000))).await;
        other.refused(409, "sequence_conflict");
    }

    async fn a_diff_belongs_to_one_event_of_one_sandbox(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let edited =
            app.post_as(&sandbox, "/events", file_edited(1, &"+ x\n".repeat(3000))).await.expect(200);
        let thought = app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
        app.diff(&sandbox, &thought["event_id"]).await.refused(404, "diff_of_event_not_found");
        app.diff(&other, &edited["event_id"]).await.refused(404, "event_of_that_sandbox_not_found");
    }

    async fn a_transcript_is_kept_beside_its_event_and_the_newest_is_shown(app: App) {
        let sandbox = app.sandbox().await;
        app.get_as(&sandbox, "/transcript").await.refused(404, "transcript_of_sandbox_not_found");
        let transcript = "aGVsbG8g".repeat(20_000);
        app.post_as(&sandbox, "/events", completed("s-1", &transcript)).await.expect(200);
        let stored = app.get_as(&sandbox, "/events").await.expect(200)["events"][0]["event_data"].clone();
        let sha256 = stored["transcript_sha256"].clone();
        assert_eq!(stored, json!({ "session_id": "s-1", "turns": 3, "transcript_sha256": sha256 }));
        let kept = json!({
            "sandbox_id": sandbox.id, "session_id": "s-1", "created_at": app.now(), "transcript_b64": transcript,
        });
        assert_eq!(app.get_as(&sandbox, "/transcript").await.expect(200), kept);

        app.advance(Duration::from_secs(1)).await;
        app.post_as(&sandbox, "/events", completed("s-2", "c2Vjb25k")).await.expect(200);
        assert_eq!(app.get_as(&sandbox, "/transcript").await.expect(200)["transcript_b64"], "c2Vjb25k");
        app.advance(Duration::from_secs(1)).await;
        app.post_as(&sandbox, "/events", completed("s-1", "bG9uZ2Vy")).await.expect(200);
        assert_eq!(app.get_as(&sandbox, "/transcript").await.expect(200)["transcript_b64"], "bG9uZ2Vy");
    }

    /// A session may go on in a new sandbox under its old name.
    async fn a_session_that_moves_on_leaves_a_transcript_in_each_sandbox(app: App) {
        let (first, second) = (app.sandbox().await, app.sandbox().await);
        app.post_as(&first, "/events", completed("s-1", "Zmlyc3Q=")).await.expect(200);
        app.post_as(&second, "/events", completed("s-1", "c2Vjb25k")).await.expect(200);
        assert_eq!(app.get_as(&first, "/transcript").await.expect(200)["transcript_b64"], "Zmlyc3Q=");
        assert_eq!(app.get_as(&second, "/transcript").await.expect(200)["transcript_b64"], "c2Vjb25k");
    }

    async fn a_session_id_of_any_length_does_no_harm(app: App) {
        let sandbox = app.sandbox().await;
        // Not to be compressed: an index entry of PostgreSQL holds less than 3 kB.
        let mut state = 1u64;
        let session: String = (0..50_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
            })
            .collect();
        let answer = app.post_as(&sandbox, "/events", completed(&session, "dGV4dA==")).await;
        assert!(matches!(answer.status.as_u16(), 200 | 422), "{}", answer.status);
        app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
    }

    async fn the_log_shows_the_last_events_as_lines_oldest_first(app: App) {
        let sandbox = app.sandbox().await;
        for n in 1..=5 {
            app.event(&sandbox, "agent.thinking", json!({ "n": n })).await.expect(200);
        }
        app.event(&sandbox, "agent.tool_use", json!({ "text": "x".repeat(5000) })).await.expect(200);
        let log = app.get_as(&sandbox, "/logs").await;
        assert!(log.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
        let log = log.expect(200);
        let lines: Vec<_> = log.as_str().unwrap().lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], format!("{}      1 agent agent.thinking {{\"n\":1}}", app.now()));
        assert!(lines[5].contains("agent.tool_use") && lines[5].len() < 600, "a long line is cut");
        let tail = app.get_as(&sandbox, "/logs?tail=2").await.expect(200);
        assert_eq!(tail.as_str().unwrap().lines().collect::<Vec<_>>(), lines[4..]);
    }

    async fn a_log_line_is_one_line(app: App) {
        let sandbox = app.sandbox().await;
        app.event(&sandbox, "agent.thinking", json!({ "text": "two\nlines" })).await.expect(200);
        let url = format!("{}/api/v1/sandboxes/{}/events", app.base, sandbox.id);
        let body = "{\"event_type\":\"agent.thinking\",\n\"event_data\":{\n\"n\":1\n}}";
        let posted = app.http.post(&url).bearer_auth(&sandbox.token).body(body).send().await.unwrap();
        assert_eq!(posted.status(), 200);
        let log = app.get_as(&sandbox, "/logs").await.expect(200);
        assert_eq!(log.as_str().unwrap().lines().count(), 2, "{log}");
    }
}
