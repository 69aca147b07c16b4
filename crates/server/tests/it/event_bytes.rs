//! How much of events there may be: in a page, in memory, and of one sandbox in all.

use serde_json::{Value, json};

use crate::{
    app::{App, Sandbox},
    on_both,
    viewer::positions,
};

const LARGE: usize = 900_000;

/// An event that has about so many bytes.
fn of_size(event_type: &str, bytes: usize) -> Value {
    json!({ "event_type": event_type, "event_data": { "text": "x".repeat(bytes) } })
}

/// Large events with small ones between them: one in three is small.
async fn fill(app: &App, sandbox: &Sandbox, count: usize) {
    for n in 0..count {
        let bytes = if n % 3 == 2 { 10 } else { LARGE };
        app.post_as(sandbox, "/events", of_size("agent.message", bytes)).await.expect(200);
    }
}

fn seqs(page: &Value) -> Vec<i64> {
    page["events"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap()).collect()
}

fn bytes(page: &Value) -> usize {
    page["events"].as_array().unwrap().iter().map(|event| event["event_data"].to_string().len()).sum()
}

/// All events, met by pages that begin with `query` and go on by `before` or `after`.
async fn walk(app: &App, sandbox: &Sandbox, query: &str, by: &str, from: i64) -> (Vec<i64>, usize) {
    let (mut met, mut pages, mut at) = (Vec::new(), 0, from);
    loop {
        let page = app.events(sandbox, &format!("limit=500&{query}&{by}={at}")).await;
        assert!(bytes(&page) <= 8 * 1024 * 1024, "{} bytes", bytes(&page));
        assert_eq!(page["total_count"], 24);
        let mut found = seqs(&page);
        assert!(!found.is_empty(), "the page before said that there is more");
        if by == "after" {
            found.reverse();
        }
        at = *found.last().unwrap();
        met.extend(found);
        pages += 1;
        if page["has_more"] == false {
            return (met, pages);
        }
    }
}

on_both! {
    async fn a_page_of_large_events_is_short_says_so_and_none_is_missed(app: App) {
        let sandbox = app.sandbox().await;
        fill(&app, &sandbox, 24).await;
        let (up, down): (Vec<i64>, Vec<i64>) = ((1..=24).collect(), (1..=24).rev().collect());
        for query in ["", "event_type=agent.message"] {
            assert_eq!(walk(&app, &sandbox, query, "before", 1000).await, (down.clone(), 2), "{query}");
            assert_eq!(walk(&app, &sandbox, query, "after", 0).await, (up.clone(), 2), "{query}");
            let page = app.events(&sandbox, &format!("limit=500&{query}&offset=20")).await;
            assert_eq!((seqs(&page), &page["has_more"]), (vec![4, 3, 2, 1], &json!(false)), "{query}");
            let page = app.events(&sandbox, &format!("limit=2&{query}&offset=20")).await;
            assert_eq!((seqs(&page), &page["has_more"]), (vec![4, 3], &json!(true)), "{query}");
        }
        let data = &app.events(&sandbox, "limit=1").await["events"][0]["event_data"];
        assert_eq!(data["text"].as_str().unwrap().len(), 10);
        let data = &app.events(&sandbox, "limit=1&before=24").await["events"][0]["event_data"];
        assert_eq!(data["text"].as_str().unwrap().len(), LARGE);
    }

    async fn a_trajectory_of_large_events_is_walked_in_both_directions(app: App) {
        let sandbox = app.sandbox().await;
        fill(&app, &sandbox, 24).await;
        let path = format!("/api/v1/sandboxes/{}/trajectory?limit=1000", sandbox.id);
        let first = app.get(&path).await.expect(200);
        assert!(bytes(&first) <= 8 * 1024 * 1024 && first["has_more"] == true, "{} bytes", bytes(&first));
        assert_eq!(first["trajectory_events"], 24);
        let older = format!("{path}&cursor={}", first["next_cursor"].as_str().unwrap());
        let older = app.get(&older).await.expect(200);
        assert_eq!((&older["has_more"], &older["next_cursor"]), (&json!(false), &json!(null)));
        assert_eq!([seqs(&first), seqs(&older)].concat(), (1..=24).rev().collect::<Vec<_>>());
        let oldest = older["events"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap();
        let newer = app.get(&format!("{path}&direction=newer&cursor={oldest}")).await.expect(200);
        assert_eq!(newer["has_more"], true);
        let rest = format!("{path}&direction=newer&cursor={}", newer["prev_cursor"].as_str().unwrap());
        let rest = app.get(&rest).await.expect(200);
        assert_eq!([seqs(&rest), seqs(&newer)].concat(), (2..=24).rev().collect::<Vec<_>>());
    }

    async fn a_long_run_of_large_events_is_summed_up_and_tried(app: App) {
        let project = app.project("shop").await;
        let task = app.task(&project, json!({})).await;
        let sandbox = app.attach(json!({ "task_id": task })).await;
        fill(&app, &sandbox, 24).await;
        let summary = app.get(&format!("/api/v1/sandboxes/{}/summary", sandbox.id)).await.expect(200);
        assert_eq!(summary["events"], 24, "{summary}");
        let tried = app.post(&format!("/api/v1/projects/{project}/policy/try"), json!({})).await.expect(200);
        assert_eq!((&tried["sandboxes"], &tried["events"], &tried["truncated"]), (&json!(1), &json!(24), &json!(false)), "{tried}");
    }

    async fn what_the_server_tells_is_not_a_sandbox_s_to_report(app: App) {
        let sandbox = app.sandbox().await;
        for kind in [
            "budget.exceeded", "conductor.conflict.found", "egress.denied", "git.push", "guardian.finding", "model.call",
            "spec.eval_result", "sandbox.terminated", "MESSAGE_QUEUED", "SANDBOX_ENDED",
        ] {
            app.event(&sandbox, kind, json!({})).await.refused(422, "reserved_event_type");
            let batch = json!({ "events": [{ "event_type": "agent.waiting" }, { "event_type": kind }] });
            app.post_as(&sandbox, "/events", batch).await.refused(422, "reserved_event_type");
        }
        let body = json!({ "event_type": "agent.waiting", "source": "system" });
        app.post_as(&sandbox, "/events", body).await.refused(422, "reserved_event_source");
        assert_eq!(app.event_count(&sandbox).await, 0);
        for kind in ["sandbox.preserved", "spec.phase_completed", "command.output", "model.called", "conductor", "heartbeat", "Étape", "事件"] {
            app.event(&sandbox, kind, json!({})).await.expect(200);
        }
    }
}

on_both! {
    |config| config.live.ring_bytes = 4 * 1024 * 1024 =>

    async fn a_viewer_sees_all_large_events_past_what_memory_holds(app: App) {
        let sandbox = app.sandbox().await;
        let start = app.position().await;
        let mut early = app.watch_since(start, "").await;
        let mut stream = app.stream_since(start, "").await;
        fill(&app, &sandbox, 24).await;
        let all: Vec<_> = (start + 1..=start + 24).collect();
        assert_eq!(positions(&early.take(24).await), all);
        assert_eq!(positions(&stream.take(24).await), all);
        assert_eq!(positions(&app.watch_since(start, "").await.take(24).await), all);
    }
}

on_both! {
    |config| {
        config.limits.event_bytes_max = 32 * 1024;
        config.limits.sandbox_event_bytes_max = 64 * 1024;
    } =>

    async fn a_full_sandbox_takes_what_is_vital_and_nothing_else(app: App) {
        let mut app = app;
        let sandbox = app.sandbox_with_task().await;
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        let message = of_size("agent.message", 30_000);
        for _ in 0..2 {
            app.post_as(&sandbox, "/events", message.clone()).await.expect(200);
        }
        let said = app.post_as(&sandbox, "/events", message.clone()).await.refused(413, "sandbox_full");
        assert!(said["detail"].as_str().unwrap().contains("limits.sandbox_event_bytes_max"), "{said}");
        // Nothing of a batch is stored, not even what would be taken by itself.
        let batch = json!({ "events": [{ "event_type": "agent.heartbeat" }, message] });
        app.post_as(&sandbox, "/events", batch).await.refused(413, "sandbox_full");
        assert_eq!(app.event_count(&sandbox).await, 3);
        let other = app.sandbox().await;
        app.post_as(&other, "/events", message.clone()).await.expect(200);

        // The sum is in the store.
        app.restart().await;
        app.post_as(&sandbox, "/events", message.clone()).await.refused(413, "sandbox_full");
        // What the server itself has to say counts, and is said.
        let id = sandbox.id.parse().unwrap();
        app.store().event_tell(&id, "git.push", &json!({ "text": "x".repeat(9000) })).await.unwrap();
        app.event(&sandbox, "agent.message", json!({})).await.refused(413, "sandbox_full");
        for kind in ["agent.heartbeat", "agent.processing", "agent.error", "agent.completed", "agent.shutdown"] {
            app.event(&sandbox, kind, json!({})).await.expect(200);
        }
        assert_eq!(app.task_status(sandbox.task.as_ref().unwrap()).await, "completed");
    }

    async fn what_is_sent_again_to_a_full_sandbox_is_known(app: App) {
        let sandbox = app.sandbox().await;
        let numbered = |n: i64| {
            let mut event = of_size("agent.message", 30_000);
            event["worker_seq"] = json!(n);
            event
        };
        for n in [1, 2] {
            app.post_as(&sandbox, "/events", numbered(n)).await.expect(200);
        }
        let again = json!({ "events": [numbered(1), numbered(2)] });
        app.post_as(&sandbox, "/events", again).await.expect(200);
        app.post_as(&sandbox, "/events", numbered(3)).await.refused(413, "sandbox_full");
        // Its number is free for what is taken.
        let end = json!({ "event_type": "agent.failed", "event_data": { "error": "e" }, "worker_seq": 3 });
        app.post_as(&sandbox, "/events", end).await.expect(200);
        assert_eq!(app.event_count(&sandbox).await, 3);
    }
}
