//! Messages to a worker: queued, taken, answered for.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    app::{Answer, App, Sandbox, soon},
    on_both,
};

impl App {
    pub async fn say(&self, to: &Sandbox, body: Value) -> Answer {
        self.post(&format!("/api/v1/sandboxes/{}/messages", to.id), body).await
    }

    /// Queues a message and says which.
    pub async fn queue(&self, to: &Sandbox, content: &str) -> String {
        let queued = self.say(to, json!({ "content": content })).await.expect(200);
        queued["message_id"].as_str().unwrap().to_owned()
    }

    /// What the worker is handed.
    pub async fn take(&self, sandbox: &Sandbox) -> Vec<Value> {
        self.get_as(sandbox, "/messages").await.expect(200).as_array().unwrap().clone()
    }

    async fn history(&self, sandbox: &Sandbox, query: &str) -> Vec<Value> {
        let path = format!("/api/v1/sandboxes/{}/messages?history=true{query}", sandbox.id);
        self.get(&path).await.expect(200).as_array().unwrap().clone()
    }

    async fn report(&self, sandbox: &Sandbox, message: &str, state: &str) -> Answer {
        self.post_as(sandbox, &format!("/messages/{message}/ack"), json!({ "state": state })).await
    }
}

fn contents(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["content"].as_str().unwrap()).collect()
}

/// A poll that waits is woken long before it would look again by itself, which it does every five seconds.
const WOKEN: Duration = Duration::from_secs(4);

on_both! {
    /// MS-1
    async fn a_queued_message_is_acknowledged_with_its_id(app: App) {
        let sandbox = app.sandbox().await;
        let queued = app.say(&sandbox, json!({ "content": "look at the tests" })).await.expect(200);
        assert_eq!((&queued["status"], &queued["sandbox_id"]), (&json!("queued"), &json!(sandbox.id)));
        assert!(queued["message_id"].as_str().unwrap().starts_with("msg-"));
    }

    /// MS-2, MS-9, MS-10
    async fn a_message_is_handed_out_once_with_all_its_fields(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "look at the tests").await;
        assert_eq!(
            app.take(&sandbox).await,
            [json!({
                "id": id, "message_id": id, "sandbox_id": sandbox.id, "content": "look at the tests",
                "message_type": "user_message", "sender": "first", "sender_id": "first", "state": "delivered", "timestamp": app.now(), "delivered_at": app.now(),
                "injected_at": null, "acknowledged_at": null, "expired_at": null, "deliveries": 1,
            })]
        );
        assert_eq!(app.take(&sandbox).await, [] as [Value; 0]);
    }

    /// MS-3
    async fn messages_come_in_the_order_they_were_said(app: App) {
        let sandbox = app.sandbox().await;
        for content in ["first", "second", "third"] {
            app.queue(&sandbox, content).await;
        }
        assert_eq!(contents(&app.take(&sandbox).await), ["first", "second", "third"]);
    }

    async fn a_worker_that_takes_few_gets_the_oldest_first(app: App) {
        let sandbox = app.sandbox().await;
        for content in ["first", "second", "third"] {
            app.queue(&sandbox, content).await;
        }
        for expected in [vec!["first", "second"], vec!["third"], vec![]] {
            let taken = app.get_as(&sandbox, "/messages?limit=2").await.expect(200);
            assert_eq!(contents(taken.as_array().unwrap()), expected);
        }
    }

    /// MS-4
    async fn a_message_without_content_is_refused(app: App) {
        let sandbox = app.sandbox().await;
        for body in
            [json!({}), json!({ "content": "" }), json!({ "content": " \n" }), json!({ "content": null })]
        {
            app.say(&sandbox, body).await.refused(422, "validation_failed");
        }
        assert_eq!(app.history(&sandbox, "").await.len(), 0);
    }

    /// MS-5, MS-8
    async fn every_type_of_message_keeps_its_type_and_its_turn(app: App) {
        let sandbox = app.sandbox().await;
        let types = ["system", "interrupt", "user_message", "guardian_nudge", "interrupt"];
        for kind in types {
            app.say(&sandbox, json!({ "content": kind, "message_type": kind })).await.expect(200);
        }
        let taken = app.take(&sandbox).await;
        assert_eq!(contents(&taken), types);
        assert!(taken.iter().all(|message| message["message_type"] == message["content"]));
    }

    /// MS-6
    async fn a_queued_message_is_announced_once_with_its_priority(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let mut viewer = app.watch(&format!("entity_ids={},{}", sandbox.id, other.id)).await;
        let long = "é".repeat(150);
        for (kind, priority) in
            [("interrupt", "high"), ("user_message", "normal"), ("guardian_nudge", "normal")]
        {
            let queued =
                app.say(&sandbox, json!({ "content": long, "message_type": kind })).await.expect(200);
            app.event(&other, "agent.waiting", json!({})).await.expect(200);
            let told = viewer.until("SANDBOX_agent.waiting").await;
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(
                (&told[0]["event_type"], &told[0]["entity_type"]),
                (&json!("SANDBOX_MESSAGE_QUEUED"), &json!("sandbox"))
            );
            assert_eq!(told[0]["entity_id"], sandbox.id);
            assert_eq!(
                told[0]["payload"],
                json!({
                    "message_id": queued["message_id"], "content": "é".repeat(100), "message_type": kind,
                    "priority": priority, "sender": "first",
                })
            );
        }
    }

    /// MS-7
    async fn a_message_reaches_its_own_sandbox_only(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let id = app.queue(&sandbox, "for one").await;
        assert_eq!(app.take(&other).await.len(), 0);
        app.report(&other, &id, "injected").await.refused(404, "message_not_found");
        let forged = json!({ "message_id": id });
        app.event(&other, "agent.message_injected", forged).await.expect(200);
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "queued");
        assert_eq!(contents(&app.take(&sandbox).await), ["for one"]);
    }

    async fn a_message_is_answered_for_at_each_step(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "look at the tests").await;
        let queued_at = app.now();
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "queued");
        app.advance(Duration::from_secs(1)).await;
        let delivered_at = app.now();
        app.take(&sandbox).await;
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "delivered");
        app.advance(Duration::from_secs(1)).await;
        let injected_at = app.now();
        assert_eq!(app.report(&sandbox, &id, "injected").await.expect(200)["state"], "injected");
        app.advance(Duration::from_secs(1)).await;
        let acknowledged_at = app.now();
        let done = app.report(&sandbox, &id, "acknowledged").await.expect(200);
        assert_eq!(done["state"], "acknowledged");
        assert_eq!(done["timestamp"], json!(queued_at));
        assert_eq!(done["delivered_at"], json!(delivered_at));
        assert_eq!(done["injected_at"], json!(injected_at));
        assert_eq!(done["acknowledged_at"], json!(acknowledged_at));
        assert_eq!(done["expired_at"], Value::Null);
        assert_eq!(app.history(&sandbox, "").await, std::slice::from_ref(&done));

        app.advance(Duration::from_secs(1)).await;
        for late in ["injected", "acknowledged"] {
            assert_eq!(app.report(&sandbox, &id, late).await.expect(200), done, "a report never takes back");
        }
    }

    async fn every_step_is_told_to_viewers(app: App) {
        let sandbox = app.sandbox().await;
        let filter = format!("event_types=SANDBOX_MESSAGE_STATE&entity_ids={}", sandbox.id);
        let mut viewer = app.watch(&filter).await;
        let id = app.queue(&sandbox, "look at the tests").await;
        app.take(&sandbox).await;
        app.report(&sandbox, &id, "injected").await.expect(200);
        app.report(&sandbox, &id, "acknowledged").await.expect(200);
        for state in ["delivered", "injected", "acknowledged"] {
            let told = viewer.next().await;
            assert_eq!(
                (&told["payload"]["message_id"], &told["payload"]["state"]),
                (&json!(id), &json!(state))
            );
        }
    }

    async fn an_event_of_the_worker_says_that_the_agent_has_the_message(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "look at the tests").await;
        app.take(&sandbox).await;
        app.event(&sandbox, "agent.message_injected", json!({ "message_id": id })).await.expect(200);
        let message = app.history(&sandbox, "").await[0].clone();
        assert_eq!((&message["state"], &message["injected_at"]), (&json!("injected"), &json!(app.now())));
        app.clock.advance(SignedDuration::from_mins(1));
        assert_eq!(app.take(&sandbox).await.len(), 0, "it is not offered again");
    }

    async fn a_message_has_the_names_that_workers_of_the_earlier_system_read(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "look at the tests").await;
        let (taken, listed) = (app.take(&sandbox).await, app.history(&sandbox, "").await);
        for message in [&taken[0], &listed[0]] {
            assert_eq!((&message["id"], &message["message_id"]), (&json!(id), &json!(id)), "{message}");
            assert!(message["sender"].is_string(), "{message}");
            assert_eq!(message["sender_id"], message["sender"]);
        }
    }

    async fn an_event_without_an_id_stands_for_the_message_of_that_content_or_else_of_that_type(app: App) {
        let sandbox = app.sandbox().await;
        let mut ids = Vec::new();
        for (content, message_type) in [
            ("first", "user_message"), ("second", "user_message"), ("slow down", "guardian_nudge"), ("stop", "interrupt"),
            ("stop now", "interrupt"), ("third", "user_message"),
        ] {
            let said = app.say(&sandbox, json!({ "content": content, "message_type": message_type })).await.expect(200);
            ids.push(said["message_id"].as_str().unwrap().to_owned());
        }
        let early = json!({ "content": "first", "message_type": "user_message", "message_id": null });
        app.event(&sandbox, "agent.message_injected", early.clone()).await.expect(200);
        let state = async |n: usize| {
            let all = app.history(&sandbox, "").await;
            let found = all.iter().find(|message| message["id"] == ids[n].as_str()).unwrap().clone();
            found["state"].as_str().unwrap().to_owned()
        };
        assert_eq!(state(0).await, "queued", "the worker was not handed it yet");
        assert_eq!(app.take(&sandbox).await.len(), 6);
        let reported = [
            // By content, although another is older; by type, where the content is unknown.
            ("agent.message_injected", json!({ "content": "second", "message_type": "user_message", "message_id": null }), 1),
            ("agent.message_injected", json!({ "content": "cut off", "message_type": "user_message" }), 0),
            ("agent.message_injected", json!({ "content": "slow down", "message_type": "guardian_nudge", "sender_id": null }), 2),
            ("agent.interrupted", json!({ "reason": "stop now", "sender_id": null, "turn": 3 }), 4),
            ("agent.interrupted", json!({ "reason": "user asked", "sender_id": null, "turn": 4 }), 3),
            ("agent.message_injected", json!({}), 5),
        ];
        let mut injected = Vec::new();
        for (event_type, data, n) in reported {
            assert_eq!(state(n).await, "delivered", "{event_type} {data}");
            app.event(&sandbox, event_type, data.clone()).await.expect(200);
            injected.push(n);
            for n in 0..ids.len() {
                let expected = if injected.contains(&n) { "injected" } else { "delivered" };
                assert_eq!(state(n).await, expected, "message {n} after {event_type} {data}");
            }
        }
        // Each was handed out once, and none is handed out again.
        app.clock.advance(SignedDuration::from_mins(10));
        assert_eq!(app.take(&sandbox).await.len(), 0);
        app.event(&sandbox, "agent.processing", json!({ "message_id": null, "message_type": "interrupt" })).await.expect(200);
        assert_eq!((state(3).await, state(4).await), ("acknowledged".to_owned(), "injected".to_owned()));
    }

    async fn a_signal_that_interrupts_is_no_message(app: App) {
        let sandbox = app.sandbox().await;
        app.say(&sandbox, json!({ "content": "stop", "message_type": "interrupt" })).await.expect(200);
        app.take(&sandbox).await;
        app.event(&sandbox, "agent.interrupted", json!({ "reason": "shutdown_signal" })).await.expect(200);
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "delivered");
    }

    async fn an_event_about_a_message_is_stored_whatever_it_names(app: App) {
        let sandbox = app.sandbox().await;
        for data in [
            json!({ "message_id": "msg-unknown" }),
            json!({ "message_id": 7 }),
            json!({}),
            json!({ "message_id": "a/b" }),
        ] {
            app.event(&sandbox, "agent.message_injected", data).await.expect(200);
        }
        assert_eq!(app.event_count(&sandbox).await, 4);
    }

    async fn a_message_that_the_agent_did_not_get_is_offered_again(app: App) {
        let sandbox = app.sandbox().await;
        app.queue(&sandbox, "look at the tests").await;
        let first = app.take(&sandbox).await[0].clone();
        app.clock.advance(SignedDuration::from_secs(29));
        assert_eq!(app.take(&sandbox).await.len(), 0, "not before offer_again_after");
        app.clock.advance(SignedDuration::from_secs(1));
        let again = app.take(&sandbox).await[0].clone();
        assert_eq!((&again["id"], &again["deliveries"]), (&first["id"], &json!(2)));
        assert_eq!(again["delivered_at"], first["delivered_at"], "the first time counts");
        app.report(&sandbox, first["id"].as_str().unwrap(), "injected").await.expect(200);
        app.clock.advance(SignedDuration::from_secs(31));
        assert_eq!(app.take(&sandbox).await.len(), 0);
    }

    async fn what_is_offered_again_keeps_its_turn(app: App) {
        let sandbox = app.sandbox().await;
        app.queue(&sandbox, "first").await;
        app.take(&sandbox).await;
        app.queue(&sandbox, "second").await;
        app.clock.advance(SignedDuration::from_secs(30));
        assert_eq!(contents(&app.take(&sandbox).await), ["first", "second"]);
    }

    async fn a_message_is_offered_so_often_and_then_expires(app: App) {
        let sandbox = app.sandbox().await;
        app.queue(&sandbox, "look at the tests").await;
        for delivery in 1..=5 {
            assert_eq!(app.take(&sandbox).await[0]["deliveries"], delivery);
            app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
            app.clock.advance(SignedDuration::from_secs(30));
        }
        assert_eq!(
            app.take(&sandbox).await.len(),
            0,
            "message.deliveries_max is 5, whether upkeep came round or not"
        );
        app.advance(Duration::ZERO).await;
        let message = app.history(&sandbox, "").await[0].clone();
        assert_eq!((&message["state"], &message["deliveries"]), (&json!("expired"), &json!(5)));
        assert_eq!(message["expired_at"], json!(app.now()));
    }

    async fn a_message_that_a_worker_holds_for_its_busy_agent_does_not_expire(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "look at the tests").await;
        for _ in 1..=20 {
            assert_eq!(app.take(&sandbox).await.len(), 1);
            app.report(&sandbox, &id, "delivered").await.expect(200);
            assert_eq!(app.take(&sandbox).await.len(), 0, "what is held is not offered");
            app.event(&sandbox, "agent.heartbeat", json!({})).await.expect(200);
            app.advance(Duration::from_secs(30)).await;
        }
        let data = json!({ "message_id": id });
        app.event(&sandbox, "agent.message_injected", data.clone()).await.expect(200);
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "injected");
        app.event(&sandbox, "agent.processing", data).await.expect(200);
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "acknowledged");
    }

    async fn history_is_paged_newest_first_and_hands_nothing_out(app: App) {
        let sandbox = app.sandbox().await;
        for n in 1..=5 {
            app.queue(&sandbox, &n.to_string()).await;
        }
        let all = app.history(&sandbox, "").await;
        assert_eq!(contents(&all), ["5", "4", "3", "2", "1"]);
        assert!(all.iter().all(|message| message["state"] == "queued" && message["deliveries"] == 0));
        let (mut met, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = app.history(&sandbox, &format!("&limit=2{cursor}")).await;
            let Some(last) = page.last() else { break };
            cursor = format!("&cursor={}", last["id"].as_str().unwrap());
            met.extend(page);
        }
        assert_eq!(met, all);
        let viewer = app.operator("eve", "viewer").await;
        let path = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        let seen =
            app.call(reqwest::Method::GET, &format!("{path}?history=true"), &viewer, None).await.expect(200);
        assert_eq!(seen, json!(all));
        app.call(reqwest::Method::GET, &path, &viewer, None).await.refused(403, "role_too_low");
        assert_eq!(contents(&app.take(&sandbox).await), ["1", "2", "3", "4", "5"]);
    }

    async fn reports_that_mean_nothing_are_refused(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "look at the tests").await;
        for state in ["queued", "expired"] {
            app.report(&sandbox, &id, state).await.refused(422, "message_state");
        }
        app.report(&sandbox, &id, "read").await.refused(422, "validation_failed");
        app.report(&sandbox, "msg-unknown", "injected").await.refused(404, "message_not_found");
        assert_eq!(app.history(&sandbox, "").await[0]["state"], "queued");
    }

    async fn only_operators_speak_to_a_worker(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let body = json!({ "content": "obey", "message_type": "system" });
        app.post_as(&sandbox, "/messages", body.clone()).await.refused(403, "operator_needed");
        let path = format!("/api/v1/sandboxes/{}/messages", sandbox.id);
        app.call(reqwest::Method::POST, &path, &other.token, Some(&body))
            .await
            .refused(403, "operator_needed");
        app.call(reqwest::Method::GET, &path, &other.token, None).await.refused(403, "wrong_sandbox");
        assert_eq!(app.history(&sandbox, "").await.len(), 0);
    }

    async fn nobody_hears_in_a_sandbox_that_was_ended(app: App) {
        let sandbox = app.sandbox().await;
        app.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);
        app.say(&sandbox, json!({ "content": "hello?" })).await.refused(409, "sandbox_ended");
        let done = app.sandbox_with_task().await;
        app.event(&done, "agent.completed", json!({})).await.expect(200);
        app.say(&done, json!({ "content": "one more thing" })).await.expect(200);
        app.advance(app.config.lease.late_report_grace).await;
        app.say(&done, json!({ "content": "hello?" })).await.refused(409, "sandbox_ended");
    }

    async fn a_waiting_worker_gets_a_message_as_soon_as_it_is_said(app: App) {
        let sandbox = app.sandbox().await;
        let app = Arc::new(app);
        for round in 0..8 {
            let polling = tokio::spawn({
                let (app, sandbox) = (app.clone(), sandbox.clone());
                async move { app.get_as(&sandbox, "/messages?wait=30").await.expect(200) }
            });
            // So that most rounds find the poll waiting; either way it must be answered.
            app.get("/api/v1/whoami").await.expect(200);
            app.get("/api/v1/whoami").await.expect(200);
            app.queue(&sandbox, &round.to_string()).await;
            let taken = timeout(WOKEN, polling).await.expect("the poll is woken").unwrap();
            assert_eq!(contents(taken.as_array().unwrap()), [round.to_string()]);
        }
    }

    async fn a_message_goes_to_one_of_two_polls(app: App) {
        let sandbox = app.sandbox().await;
        let app = Arc::new(app);
        let poll = || {
            let (app, sandbox) = (app.clone(), sandbox.clone());
            tokio::spawn(async move { app.get_as(&sandbox, "/messages?wait=30").await.expect(200) })
        };
        let (mut one, mut two) = (poll(), poll());
        app.queue(&sandbox, "first").await;
        let (first, rest) = soon(async {
            tokio::select! { got = &mut one => (got.unwrap(), two), got = &mut two => (got.unwrap(), one) }
        })
        .await;
        assert_eq!(contents(first.as_array().unwrap()), ["first"]);
        app.queue(&sandbox, "second").await;
        let second = timeout(WOKEN, rest).await.expect("the other poll still waits").unwrap();
        assert_eq!(contents(second.as_array().unwrap()), ["second"]);
    }
}

on_both! {
    |config| config.message.expire_after = Duration::from_secs(60) =>

    async fn a_message_that_nobody_took_expires_with_age(app: App) {
        let sandbox = app.sandbox().await;
        let id = app.queue(&sandbox, "too late").await;
        app.advance(Duration::from_secs(59)).await;
        app.queue(&sandbox, "in time").await;
        app.advance(Duration::from_secs(1)).await;
        let all = app.history(&sandbox, "").await;
        assert_eq!((&all[1]["state"], &all[1]["expired_at"]), (&json!("expired"), &json!(app.now())));
        assert_eq!(all[0]["state"], "queued");
        assert_eq!(contents(&app.take(&sandbox).await), ["in time"]);
        let late = app.report(&sandbox, &id, "injected").await.expect(200);
        assert_eq!(late["state"], "expired", "what was given up stays so");
    }
}

on_both! {
    |config| config.message.queue_max = 3 =>

    async fn a_full_queue_takes_no_more_until_the_worker_has_caught_up(app: App) {
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        for content in ["1", "2", "3"] {
            app.queue(&sandbox, content).await;
        }
        let full = app.say(&sandbox, json!({ "content": "4" })).await;
        assert_eq!(full.headers["retry-after"], "1");
        full.refused(429, "queue_full");
        app.queue(&other, "another worker's queue has room").await;
        for message in app.take(&sandbox).await {
            app.report(&sandbox, message["id"].as_str().unwrap(), "injected").await.expect(200);
        }
        app.queue(&sandbox, "5").await;
        assert_eq!(contents(&app.take(&sandbox).await), ["5"]);
    }
}

on_both! {
    |config| config.message.long_poll_max = Duration::from_millis(50) =>

    async fn a_poll_that_finds_nothing_ends_at_its_limit(app: App) {
        let sandbox = app.sandbox().await;
        let nothing = soon(app.get_as(&sandbox, "/messages?wait=600")).await.expect(200);
        assert_eq!(nothing, json!([]));
    }
}
