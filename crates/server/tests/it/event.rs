//! Events: posted, numbered, stored, found again. How they reach live viewers is in `live`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    app::{App, Sandbox},
    on_both,
};

impl App {
    pub async fn events(&self, sandbox: &Sandbox, query: &str) -> Value {
        self.get(&format!("/api/v1/sandboxes/{}/events?{query}", sandbox.id)).await.expect(200)
    }

    pub async fn event_count(&self, sandbox: &Sandbox) -> i64 {
        self.events(sandbox, "before=1").await["total_count"].as_i64().unwrap()
    }
}

/// A numbered event.
fn numbered(worker_seq: i64, tool: &str) -> Value {
    json!({ "event_type": "agent.tool_use", "event_data": { "tool": tool }, "worker_seq": worker_seq })
}

fn column(events: &Value, field: &str) -> Vec<Value> {
    events.as_array().unwrap().iter().map(|event| event[field].clone()).collect()
}

fn seqs(events: &Value) -> Vec<i64> {
    column(events, "seq").iter().map(|seq| seq.as_i64().unwrap()).collect()
}

on_both! {
    /// However many events without a number lie before, between and behind them.
    async fn repeated_events_are_found_among_those_without_a_number(app: App) {
        let sandbox = app.sandbox().await;
        let plain = json!({ "event_type": "agent.thinking" });
        let mut stored = Vec::new();
        for (n, before) in (1..).zip([3_usize, 0, 17, 1, 64, 0, 0, 33]) {
            let mut events = vec![plain.clone(); before];
            events.push(numbered(n, "Read"));
            let answer = app.post_as(&sandbox, "/events", json!({ "events": events })).await.expect(200);
            stored.push(answer["events"].as_array().unwrap().last().unwrap().clone());
        }
        app.post_as(&sandbox, "/events", json!({ "events": vec![plain.clone(); 9] })).await.expect(200);
        let count = app.event_count(&sandbox).await;
        let order = [8, 1, 3, 2, 5, 4, 7, 6, 1];
        let events: Vec<_> = order.iter().map(|n| numbered(*n, "Read")).collect();
        let again = app.post_as(&sandbox, "/events", json!({ "events": events })).await.expect(200);
        let expected: Vec<_> = order.iter().map(|n| stored[*n as usize - 1].clone()).collect();
        assert_eq!(again["events"], json!(expected));
        for n in 1..=8 {
            app.post_as(&sandbox, "/events", numbered(n, "Write")).await.refused(409, "sequence_conflict");
        }
        assert_eq!(app.event_count(&sandbox).await, count);
    }

    /// EV-1, PE-1
    async fn a_posted_event_is_acknowledged_with_its_type_and_id(app: App) {
        let sandbox = app.sandbox().await;
        let posted = app.event(&sandbox, "agent.tool_use", json!({ "tool": "Read" })).await.expect(200);
        assert_eq!(posted["status"], "received");
        assert_eq!(posted["sandbox_id"], sandbox.id);
        assert_eq!(posted["event_type"], "agent.tool_use");
        assert_eq!(posted["seq"], 1);
        assert_eq!(posted["timestamp"], app.now().to_string());
        assert!(posted["event_id"].as_str().unwrap().starts_with("evt-"));
    }

    /// EV-2
    async fn an_event_without_a_type_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let refused = app.post_as(&sandbox, "/events", json!({ "event_data": { "a": 1 } })).await;
        let problem = refused.refused(422, "validation_failed");
        assert!(problem["detail"].as_str().unwrap().contains("event_type"));
        assert_eq!(app.event_count(&sandbox).await, 0);
    }

    /// EV-6
    async fn an_event_needs_neither_data_nor_a_dot_in_its_type(app: App) {
        let sandbox = app.sandbox().await;
        let posted = app.post_as(&sandbox, "/events", json!({ "event_type": "heartbeat" })).await.expect(200);
        assert_eq!(posted["event_type"], "heartbeat");
        app.event(&sandbox, "heartbeat", json!({})).await.expect(200);
        assert_eq!(column(&app.events(&sandbox, "").await["events"], "event_data"), [json!({}), json!({})]);
    }

    /// EV-7
    async fn large_nested_data_comes_back_as_it_was_sent(app: App) {
        let sandbox = app.sandbox().await;
        let mut data = json!({ "text": "x\u{e9}\u{1f600}\n\"\\".repeat(1500), "n": 1.5e300, "none": null });
        for level in 0..25 {
            data = json!({ "level": level, "inner": [data] });
        }
        assert!(data.to_string().len() > 10_000);
        app.event(&sandbox, "agent.tool_result", data.clone()).await.expect(200);
        assert_eq!(app.events(&sandbox, "").await["events"][0]["event_data"], data);
    }

    async fn data_is_kept_to_the_letter(app: App) {
        let sandbox = app.sandbox().await;
        let data = r#"{"z":1,  "a":12345678901234567890123456789, "f":1.10, "u":"\u00e9"}"#;
        let body = format!(r#"{{"event_type":"agent.thinking","event_data":{data}}}"#);
        let url = format!("{}/api/v1/sandboxes/{}/events", app.base, sandbox.id);
        let posted = app.http.post(&url).bearer_auth(&sandbox.token).body(body).send().await.unwrap();
        assert_eq!(posted.status(), 200);
        let page = app.http.get(&url).bearer_auth(&sandbox.token).send().await.unwrap().text().await.unwrap();
        assert!(page.contains(data), "{page}");
    }

    /// EV-8
    async fn sandboxes_bring_ids_of_many_forms(app: App) {
        let long = "x".repeat(100);
        for id in ["sandbox-abc-123", "SBX-UPPER", "omoios-550e8400-e29b", "123", "a_b.c", long.as_str()] {
            let sandbox = app.attach(json!({ "sandbox_id": id })).await;
            let posted = app.event(&sandbox, "agent.started", json!({})).await.expect(200);
            assert_eq!(posted["sandbox_id"], id);
            assert_eq!(app.event_count(&sandbox).await, 1);
        }
    }

    /// EV-9
    async fn an_event_comes_from_agent_worker_or_system(app: App) {
        let sandbox = app.sandbox().await;
        for source in ["agent", "worker", "system"] {
            let body = json!({ "event_type": "agent.waiting", "source": source });
            // In the place of a worker; one itself does not speak for the system.
            app.post(&format!("/api/v1/sandboxes/{}/events", sandbox.id), body).await.expect(200);
            assert_eq!(app.events(&sandbox, "limit=1").await["events"][0]["source"], source);
        }
        for source in ["guardian", "", "AGENT"] {
            let body = json!({ "event_type": "agent.waiting", "source": source });
            app.post_as(&sandbox, "/events", body).await.refused(422, "validation_failed");
        }
        assert_eq!(app.event_count(&sandbox).await, 3);
    }

    /// PE-2, PE-5
    async fn a_posted_event_is_found_again_with_all_its_fields(app: App) {
        let sandbox = app.sandbox().await;
        let data = json!({ "tool": "Bash", "input": { "command": "ls" } });
        let mut body = json!({ "event_type": "agent.tool_use", "event_data": data, "worker_seq": 1 });
        body["source"] = json!("worker");
        let posted = app.post_as(&sandbox, "/events", body).await.expect(200);
        let stored = json!({
            "id": posted["event_id"], "sandbox_id": sandbox.id, "seq": 1, "worker_seq": 1,
            "event_type": "agent.tool_use", "event_data": data, "source": "worker", "created_at": app.now(),
        });
        let page = app.events(&sandbox, "").await;
        assert_eq!(page["events"], json!([stored]));
        assert_eq!(page["sandbox_id"], sandbox.id);
        assert_eq!(
            app.get_as(&sandbox, "/events").await.expect(200),
            page,
            "the sandbox sees its own events"
        );
    }

    /// PE-3
    async fn every_event_is_counted(app: App) {
        let sandbox = app.sandbox().await;
        for kind in ["agent.started", "agent.thinking", "agent.tool_use"] {
            app.event(&sandbox, kind, json!({})).await.expect(200);
        }
        let page = app.events(&sandbox, "").await;
        assert_eq!((page["events"].as_array().unwrap().len(), &page["total_count"]), (3, &json!(3)));
    }

    async fn a_task_runs_from_claim_to_completion_by_its_events(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        assert_eq!(app.task_status(&task).await, "assigned");
        assert_eq!(app.get_as(&sandbox, "/task").await.expect(200)["id"], task);
        app.event(&sandbox, "agent.started", json!({})).await.expect(200);
        assert_eq!(app.task_status(&task).await, "running");
        app.event(&sandbox, "agent.completed", json!({ "success": true, "turns": 3 })).await.expect(200);
        assert_eq!(app.task_status(&task).await, "completed");
    }

    async fn a_sandbox_without_a_task_says_so(app: App) {
        let sandbox = app.sandbox().await;
        app.get_as(&sandbox, "/task").await.refused(404, "task_of_sandbox_not_found");
    }

    async fn a_repeat_is_harmless_and_answered_as_the_first_time(app: App) {
        let mut app = app;
        let sandbox = app.sandbox().await;
        let first = app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200);
        app.post_as(&sandbox, "/events", numbered(2, "Edit")).await.expect(200);
        app.clock.advance(jiff::SignedDuration::from_secs(5));
        assert_eq!(app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200), first);
        app.restart().await;
        assert_eq!(app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200), first);
        let again = json!({ "events": [numbered(1, "Read"), numbered(2, "Edit")] });
        assert_eq!(app.post_as(&sandbox, "/events", again).await.expect(200)["events"][0], first);
        assert_eq!(app.event_count(&sandbox).await, 2);
    }

    async fn a_repeat_moves_no_task(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let task = sandbox.task.clone().unwrap();
        let start = json!({ "event_type": "agent.started", "worker_seq": 1 });
        let failed = json!({
            "event_type": "agent.failed", "worker_seq": 2,
            "event_data": { "error": "out of memory", "failure_kind": "invalid" },
        });
        app.post_as(&sandbox, "/events", start).await.expect(200);
        app.post_as(&sandbox, "/events", failed.clone()).await.expect(200);
        let before = app.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
        assert_eq!(before["status"], "failed");
        let position = app.position().await;
        app.post_as(&sandbox, "/events", failed).await.expect(200);
        assert_eq!(app.get(&format!("/api/v1/tasks/{task}")).await.expect(200), before);
        assert_eq!(app.position().await, position);
    }

    async fn a_gap_is_refused_and_names_the_number_that_is_expected(app: App) {
        let sandbox = app.sandbox().await;
        let early = app.post_as(&sandbox, "/events", numbered(2, "Read")).await;
        assert_eq!(early.refused(409, "sequence_gap")["expected"], 1);
        app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200);
        let early = app.post_as(&sandbox, "/events", numbered(4, "Read")).await;
        assert_eq!(early.refused(409, "sequence_gap")["expected"], 2);
        let holed = json!({ "events": [numbered(2, "a"), numbered(3, "b"), numbered(5, "c")] });
        let problem = app.post_as(&sandbox, "/events", holed).await.refused(409, "sequence_gap");
        assert_eq!(problem["expected"], 2, "nothing of the batch was taken, so it is to be sent from there");
        assert_eq!(app.event_count(&sandbox).await, 1);
        app.post_as(&sandbox, "/events", numbered(2, "Read")).await.expect(200);
    }

    async fn other_content_under_a_used_number_is_a_conflict(app: App) {
        let sandbox = app.sandbox().await;
        app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200);
        let mut from_worker = numbered(1, "Read");
        from_worker["source"] = json!("worker");
        let others = [
            numbered(1, "Edit"),
            json!({ "event_type": "agent.thinking", "event_data": { "tool": "Read" }, "worker_seq": 1 }),
            from_worker,
            json!({ "events": [numbered(1, "Edit"), numbered(2, "Read")] }),
        ];
        for other in others {
            app.post_as(&sandbox, "/events", other).await.refused(409, "sequence_conflict");
        }
        let page = app.events(&sandbox, "").await;
        assert_eq!(page["total_count"], 1);
        assert_eq!(page["events"][0]["event_data"]["tool"], "Read");
    }

    async fn a_number_twice_in_one_batch_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        let twice = json!({ "events": [numbered(1, "Read"), numbered(1, "Read")] });
        let refused = app.post_as(&sandbox, "/events", twice).await;
        assert_eq!(refused.status, 409, "{}", refused.body);
        assert_eq!(app.event_count(&sandbox).await, 0);
    }

    async fn a_batch_that_was_half_known_is_completed(app: App) {
        let sandbox = app.sandbox().await;
        let known = json!({ "events": [numbered(1, "a"), numbered(2, "b")] });
        let first = app.post_as(&sandbox, "/events", known).await.expect(200);
        let more =
            json!({ "events": [numbered(1, "a"), numbered(2, "b"), numbered(3, "c"), numbered(4, "d")] });
        let second = app.post_as(&sandbox, "/events", more).await.expect(200);
        assert_eq!(seqs(&second["events"]), [1, 2, 3, 4]);
        assert_eq!(column(&second["events"], "event_id")[..2], column(&first["events"], "event_id")[..]);
        assert_eq!(app.event_count(&sandbox).await, 4);
    }

    async fn a_batch_keeps_its_order(app: App) {
        let sandbox = app.sandbox().await;
        let batch: Vec<_> =
            (0..300).map(|n| json!({ "event_type": "agent.thinking", "event_data": { "n": n } })).collect();
        let answer = app.post_as(&sandbox, "/events", json!({ "events": batch })).await.expect(200);
        assert_eq!(seqs(&answer["events"]), (1..=300).collect::<Vec<_>>());
        let page = app.events(&sandbox, "limit=500").await;
        let told: Vec<_> =
            page["events"].as_array().unwrap().iter().rev().map(|e| e["event_data"]["n"].clone()).collect();
        assert_eq!(told, (0..300).map(Value::from).collect::<Vec<_>>());
    }

    async fn a_batch_is_stored_whole_or_not_at_all(app: App) {
        let sandbox = app.sandbox().await;
        let fine = json!({ "event_type": "agent.thinking" });
        for (flaw, status) in [
            (json!({ "event_type": "agent.thinking", "source": "guardian" }), 422),
            (json!({ "event_type": "" }), 422),
            (json!({ "event_data": {} }), 422),
            (json!({ "event_type": "agent.thinking", "event_data": [] }), 422),
            (json!({ "event_type": "agent.thinking", "worker_seq": 0 }), 422),
            (numbered(7, "a gap"), 409),
            (json!({ "event_type": "agent.thinking", "event_data": { "large": "x".repeat(1 << 20) } }), 413),
        ] {
            let position = app.position().await;
            let batch = json!({ "events": [fine, numbered(1, "Read"), flaw, fine] });
            let answer = app.post_as(&sandbox, "/events", batch).await;
            assert_eq!(answer.status.as_u16(), status, "{flaw}");
            assert_eq!(app.position().await, position, "{flaw}");
            assert_eq!(app.event_count(&sandbox).await, 0, "{flaw}");
        }
        app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200);
    }

    /// JSON may hold what no program can read: half of a surrogate pair, a number beyond all bounds.
    async fn an_event_that_cannot_be_understood_leaves_no_trace_of_its_batch(app: App) {
        for unreadable in [r#"{"message_id":"\ud800"}"#, r#"{"cost_usd":1e999}"#] {
            for kind in ["agent.message_injected", "agent.completed", "agent.started", "agent.file_edited"] {
                let sandbox = app.sandbox_with_task().await;
                let body = format!(
                    r#"{{"events":[{{"event_type":"agent.thinking"}},{{"event_type":"{kind}","event_data":{unreadable}}}]}}"#
                );
                let url = format!("{}/api/v1/sandboxes/{}/events", app.base, sandbox.id);
                let answer = app.http.post(&url).bearer_auth(&sandbox.token).body(body).send().await.unwrap();
                let status = answer.status().as_u16();
                // What only a person will read is kept as it is.
                let (wanted, stored) = if kind == "agent.file_edited" { (200, 2) } else { (422, 0) };
                assert_eq!(status, wanted, "{kind} {unreadable}");
                assert_eq!(app.event_count(&sandbox).await, stored, "{kind} {unreadable}: {status}");
                if stored > 0 {
                    let answer: serde_json::Value = answer.json().await.unwrap();
                    let id = answer["events"][1]["event_id"].as_str().unwrap();
                    app.get(&format!("/api/v1/sandboxes/{}/diffs/{id}", sandbox.id)).await.refused(404, "diff_of_event_not_found");
                }
                let next = app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
                assert_eq!(next["seq"], stored + 1, "the numbers stay dense");
            }
        }
    }

    async fn sixty_four_writers_get_dense_numbers_and_lose_nothing(app: App) {
        const WRITERS: i64 = 64;
        const EACH: i64 = 8;
        let sandbox = app.sandbox().await;
        let app = std::sync::Arc::new(app);
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (app, sandbox) = (app.clone(), sandbox.clone());
            writers.spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0..EACH {
                    let data = json!({ "writer": writer, "n": n });
                    let answer = app.event(&sandbox, "agent.thinking", data.clone()).await.expect(200);
                    acknowledged.push((answer["seq"].as_i64().unwrap(), answer["event_id"].clone(), data));
                }
                acknowledged
            });
        }
        let mut acknowledged = writers.join_all().await;
        for of_one in &acknowledged {
            assert!(of_one.is_sorted_by_key(|(seq, ..)| *seq), "each writer's events keep their order");
        }
        let mut acknowledged: Vec<_> = acknowledged.drain(..).flatten().collect();
        acknowledged.sort_by_key(|(seq, ..)| *seq);
        let numbers: Vec<_> = acknowledged.iter().map(|(seq, ..)| *seq).collect();
        assert_eq!(numbers, (1..=WRITERS * EACH).collect::<Vec<_>>());

        let mut stored = app.events(&sandbox, "limit=500").await["events"].as_array().unwrap().clone();
        let rest = app.events(&sandbox, "limit=500&offset=500").await;
        stored.extend(rest["events"].as_array().unwrap().iter().cloned());
        stored.reverse();
        assert_eq!(rest["total_count"], WRITERS * EACH);
        let stored: Vec<_> = stored
            .iter()
            .map(|e| (e["seq"].as_i64().unwrap(), e["id"].clone(), e["event_data"].clone()))
            .collect();
        assert_eq!(stored, acknowledged);
    }

    async fn one_number_sent_by_many_at_once_is_stored_once(app: App) {
        let sandbox = app.sandbox().await;
        let app = std::sync::Arc::new(app);
        let mut writers = JoinSet::new();
        for _ in 0..16 {
            let (app, sandbox) = (app.clone(), sandbox.clone());
            writers.spawn(
                async move { app.post_as(&sandbox, "/events", numbered(1, "Read")).await.expect(200) },
            );
        }
        let answers: BTreeSet<String> = writers.join_all().await.iter().map(Value::to_string).collect();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(app.event_count(&sandbox).await, 1);
    }

    /// PE-4
    async fn pages_are_newest_first_by_limit_offset_and_type(app: App) {
        let sandbox = app.sandbox().await;
        for n in 1..=10 {
            let kind = if n % 3 == 0 { "agent.tool_use" } else { "agent.thinking" };
            app.event(&sandbox, kind, json!({ "n": n })).await.expect(200);
        }
        for (query, expected, total) in [
            ("", (1..=10).rev().collect::<Vec<_>>(), 10),
            ("limit=3", vec![10, 9, 8], 10),
            ("limit=3&offset=3", vec![7, 6, 5], 10),
            ("limit=3&offset=9", vec![1], 10),
            ("offset=10", vec![], 10),
            ("offset=9000000000000000000", vec![], 10),
            ("event_type=agent.tool_use", vec![9, 6, 3], 3),
            ("event_type=agent.tool_use&limit=1&offset=1", vec![6], 3),
            ("event_type=agent.nothing", vec![], 0),
            ("after=7", vec![10, 9, 8], 10),
            ("after=3&limit=2", vec![5, 4], 10),
            ("after=10", vec![], 10),
            ("before=4", vec![3, 2, 1], 10),
            ("before=4&limit=2", vec![3, 2], 10),
            ("before=1", vec![], 10),
            ("before=9000000000000000000&limit=1", vec![10], 10),
            ("after=2&before=6", vec![5, 4, 3], 10),
            ("after=2&before=6&limit=2", vec![5, 4], 10),
            ("after=0&event_type=agent.tool_use&limit=2", vec![6, 3], 3),
            ("before=9&event_type=agent.tool_use", vec![6, 3], 3),
            ("before=9&offset=2&limit=2", vec![6, 5], 10),
            ("before=9000000000000000000&offset=8", vec![2, 1], 10),
            ("before=4&offset=9000000000000000000", vec![], 10),
            ("after=2&offset=3&limit=2", vec![7, 6], 10),
            ("after=2&offset=9000000000000000000", vec![], 10),
            ("after=2&before=8&offset=2", vec![5, 4, 3], 10),
            ("after=2&before=6&event_type=agent.tool_use&offset=1", vec![], 3),
            ("after=3&event_type=agent.tool_use&offset=1", vec![9], 3),
            ("event_type=agent.tool_use&offset=9000000000000000000", vec![], 3),
            ("after=1&event_type=agent.tool_use&offset=9000000000000000000", vec![], 3),
        ] {
            let page = app.events(&sandbox, query).await;
            assert_eq!((seqs(&page["events"]), &page["total_count"]), (expected, &json!(total)), "{query}");
        }
    }

    /// Everywhere, seldom, in bursts and once: a page of a type is what is left of all events without the others.
    async fn pages_of_a_type_are_all_events_without_the_others(app: App) {
        const ALL: i64 = 900;
        let kind = |n: i64| match n {
            777 => "agent.once",
            n if n % 97 == 0 => "agent.seldom",
            n if (200..300).contains(&n) || n > 850 => "agent.burst",
            _ => "agent.often",
        };
        let sandbox = app.sandbox().await;
        for from in (1..=ALL).step_by(60) {
            let events: Vec<_> = (from..from + 60).map(|n| json!({ "event_type": kind(n) })).collect();
            app.post_as(&sandbox, "/events", json!({ "events": events })).await.expect(200);
        }
        for of in ["agent.once", "agent.seldom", "agent.burst", "agent.often"] {
            let newest: Vec<i64> = (1..=ALL).rev().filter(|n| kind(*n) == of).collect();
            for (limit, bound) in [(1, 777), (3, 15), (17, 16), (40, 256), (500, 301), (500, 899)] {
                let page = async |query: &str| {
                    let page = app.events(&sandbox, &format!("event_type={of}&limit={limit}&{query}")).await;
                    assert_eq!(page["total_count"], newest.len(), "{of} {query}");
                    seqs(&page["events"])
                };
                let older = newest.iter().copied().filter(|n| *n < bound).take(limit).collect::<Vec<_>>();
                assert_eq!(page(&format!("before={bound}")).await, older, "{of} before {bound}");
                let mut newer: Vec<_> =
                    newest.iter().rev().copied().filter(|n| *n > bound).take(limit).collect();
                newer.reverse();
                assert_eq!(page(&format!("after={bound}")).await, newer, "{of} after {bound}");
                let within = newest.iter().copied().filter(|n| *n < bound && *n > bound - 50).take(limit);
                let query = format!("before={bound}&after={}", (bound - 50).max(0));
                assert_eq!(page(&query).await, within.collect::<Vec<_>>(), "{of} {query}");
                let skipped = newest.iter().copied().skip(bound as usize).take(limit).collect::<Vec<_>>();
                assert_eq!(page(&format!("offset={bound}")).await, skipped, "{of} from the {bound}th on");
                for offset in [1, 16, 90] {
                    let older = newest.iter().copied().filter(|n| *n < bound).skip(offset).take(limit);
                    let query = format!("before={bound}&offset={offset}");
                    assert_eq!(page(&query).await, older.collect::<Vec<_>>(), "{of} {query}");
                    let newer = newest.iter().rev().copied().filter(|n| *n > bound).skip(offset).take(limit);
                    let mut newer: Vec<_> = newer.collect();
                    newer.reverse();
                    let query = format!("after={bound}&offset={offset}");
                    assert_eq!(page(&query).await, newer, "{of} {query}");
                }
            }
        }
    }

    async fn walking_by_before_or_after_meets_every_event_once(app: App) {
        let sandbox = app.sandbox().await;
        let other = app.sandbox().await;
        for _ in 0..13 {
            app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
            app.event(&other, "agent.thinking", json!({})).await.expect(200);
        }
        for limit in [1, 2, 5, 13, 500] {
            let (mut back, mut before) = (Vec::new(), i64::MAX - 1);
            loop {
                let page =
                    seqs(&app.events(&sandbox, &format!("limit={limit}&before={before}")).await["events"]);
                let Some(oldest) = page.last() else { break };
                before = *oldest;
                back.extend(page);
            }
            assert_eq!(back, (1..=13).rev().collect::<Vec<_>>(), "pages of {limit}");
            let (mut forth, mut after) = (Vec::new(), 0);
            loop {
                let page =
                    seqs(&app.events(&sandbox, &format!("limit={limit}&after={after}")).await["events"]);
                let Some(newest) = page.first() else { break };
                after = *newest;
                forth.extend(page.into_iter().rev());
            }
            assert_eq!(forth, (1..=13).collect::<Vec<_>>(), "pages of {limit}");
        }
    }

    async fn what_others_wrote_meanwhile_is_not_overlooked(app: App) {
        // So often in a row that it seems as if nobody else wrote.
        const ALONE: i64 = 20;
        let sandbox = app.sandbox().await;
        for round in 0..4 {
            for seq in 1..=ALONE {
                let stored = app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
                assert_eq!(stored["seq"], round * ALONE + seq);
            }
            if round == 3 {
                break;
            }
            // As another process would: one event more.
            let last = app.column("SELECT CAST(max(pos) AS TEXT) FROM events").await[0].parse::<i64>().unwrap();
            let copied = format!(
                "INSERT INTO events SELECT {last} + 1, entity_type, '{}', seq, NULL, worker_last, event_type, type_count, \
                 source, data, created_at, refused, opens_run, total_bytes FROM events WHERE pos = {last}",
                "sandbox-of-another-process"
            );
            app.sql(&copied).await;
        }
        let page = app.events(&sandbox, "event_type=agent.thinking&limit=3").await;
        assert_eq!((seqs(&page["events"]), &page["total_count"]), (vec![80, 79, 78], &json!(80)));
        app.sql(&format!("UPDATE sandboxes SET reports_until = 1 WHERE id = '{}'", sandbox.id)).await;
        app.event(&sandbox, "agent.thinking", json!({})).await.refused(401, "token_ended");
    }
}
