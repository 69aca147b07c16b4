//! What goes wrong between a sandbox and a model: who may not call, vendors that fail, callers that go.

use std::time::Duration;

use axum::response::IntoResponse;
use omoi_server::config::Config;
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    app::{App, On, Sandbox, answer, eventually, soon},
    on_both,
    stand_in::{StandIn, behind, events, hello, message, whole},
    work::LEASE,
};

type Feed = tokio::sync::mpsc::Sender<Result<bytes::Bytes, std::io::Error>>;

fn impatient(config: &mut Config) {
    behind(config);
    config.model.first_byte_timeout = Duration::from_millis(300);
    config.model.chunk_timeout = Duration::from_millis(300);
    config.model.sandbox_calls_max = 2;
    config.model.calls_max = 3;
}

fn without_key(config: &mut Config) {
    behind(config);
    config.model.anthropic_api_key = "".into();
    config.model.openai_api_key = "".into();
}

on_both! { behind =>
    async fn only_a_sandbox_that_holds_its_lease_may_call(app: App) {
        let stand_in = StandIn::of(&app);
        let (sandbox, other) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let call = async |token: &str| {
            answer(app.model_request(token, "/anthropic/v1/messages").json(&hello())).await
        };
        call("omoi_sbx_wrong").await.refused_call(401, "authentication_error", "token_wrong");
        call("").await.refused_call(401, "authentication_error", "token_wrong");
        call(&app.token).await.refused_call(403, "permission_error", "sandbox_needed");
        let nobody = app.http.post(format!("{}/model/anthropic/v1/messages", app.base)).json(&hello());
        answer(nobody).await.refused_call(401, "authentication_error", "token_missing");
        call(&other.token).await.expect(200);
        assert_eq!(app.last_call(&sandbox).await, serde_json::Value::Null, "who calls pays");
        assert_eq!(app.last_call(&other).await["sandbox_id"], other.id.as_str());

        // Its token still opens the API for a late report, and no model.
        app.clock.advance(jiff::SignedDuration::try_from(LEASE).unwrap());
        call(&sandbox.token).await.refused_call(403, "permission_error", "token_ended");
        app.advance(Duration::from_secs(1)).await;
        call(&sandbox.token).await.refused_call(403, "permission_error", "token_ended");
        let models = app.http.get(format!("{}/model/openai/v1/models", app.base)).bearer_auth(&sandbox.token);
        assert_eq!(answer(models).await.expect(403)["error"]["code"], "token_ended");
        app.event(&sandbox, "agent.message", json!({})).await.expect(200);
        assert_eq!(stand_in.got().len(), 1);
    }

    async fn a_redirect_is_not_followed(app: App) {
        let stand_in = StandIn::of(&app);
        let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let location = format!("http://{}/v1/messages", elsewhere.local_addr().unwrap());
        stand_in.replies(move |_| axum::response::Redirect::temporary(&location).into_response());
        let sandbox = app.sandbox_with_task().await;
        let refused = app.ask(&sandbox, &hello()).await;
        assert!(!refused.headers.contains_key("location"));
        let message = refused.refused_call(502, "api_error", "model_unavailable");
        assert!(message.contains("model.anthropic_base_url"), "{message}");
        let accepted = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
        assert!(accepted.is_err(), "nobody came there");
        assert_eq!(app.last_call(&sandbox).await["cost_usd"], 0.0);
    }

    async fn a_vendor_s_own_refusals_are_passed_on(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        for status in [400, 429, 500, 529] {
            let error = json!({ "type": "error", "error": { "type": "some_error", "message": "later" } });
            let reply = error.clone();
            stand_in.replies(move |_| ([("retry-after", "17")], whole(status, reply.clone())).into_response());
            let refused = app.ask(&sandbox, &hello()).await;
            assert_eq!(refused.headers["retry-after"], "17");
            assert_eq!(refused.expect(status), error);
            let call = app.last_call(&sandbox).await;
            assert_eq!((&call["status_code"], &call["cost_usd"]), (&json!(status), &json!(0.0)));
        }
    }

    async fn a_caller_that_hangs_up_ends_the_call_and_pays_for_what_was_counted(app: App) {
        let mut feeds = StandIn::of(&app).streams();
        let sandbox = app.sandbox_with_task().await;
        let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
        let (response, feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
        let (mut response, feed) = (response.unwrap(), feed.unwrap());
        let text = events(25, 15);
        let begun = &text[..text.find("event: message_delta").unwrap()];
        feed.send(Ok(begun.to_owned().into())).await.unwrap();
        soon(response.chunk()).await.unwrap().unwrap();
        drop(response);
        soon(feed.closed()).await;
        let call = eventually(async || Some(app.last_call(&sandbox).await).filter(|call| call["state"] != "open")).await;
        // "Grüße" has seven bytes.
        assert_eq!((&call["state"], &call["input_tokens"], &call["output_tokens"]), (&json!("hung_up"), &json!(25), &json!(2)));
        assert_eq!(call["estimated"], true);
        app.ask(&sandbox, &json!({})).await.refused_call(400, "invalid_request_error", "invalid_request");
    }

    async fn a_caller_that_hangs_up_before_the_answer_pays_for_the_question(app: App) {
        let stand_in = StandIn::of(&app);
        let (hold, held) = std::sync::mpsc::sync_channel::<()>(0);
        let held = std::sync::Mutex::new(held);
        stand_in.replies(move |_| {
            // The stand-in runs on the test's runtime, which has another thread to go on with.
            let _ = tokio::task::block_in_place(|| held.lock().unwrap().recv());
            whole(200, message(1, 1))
        });
        let sandbox = app.sandbox_with_task().await;
        let asked = tokio::spawn(app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send());
        eventually(async || (!stand_in.got().is_empty()).then_some(())).await;
        asked.abort();
        let call = eventually(async || Some(app.last_call(&sandbox).await).filter(|call| call["state"] != "open")).await;
        drop(hold);
        let bytes = call["request_bytes"].as_u64().unwrap();
        assert_eq!((&call["state"], &call["input_tokens"]), (&json!("hung_up"), &json!(bytes.div_ceil(4))));
        assert_eq!((&call["status_code"], &call["estimated"]), (&json!(null), &json!(true)));
    }

    async fn a_stream_that_breaks_off_has_no_end_that_could_be_taken_for_one(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let (mut response, feed) = begun(&app, &sandbox).await;
        feed.send(Err(std::io::Error::other("broken"))).await.unwrap();
        assert!(soon(response.chunk()).await.is_err());
        assert_eq!(app.last_call(&sandbox).await["state"], "broken");
    }
}

on_both! { impatient =>
    async fn a_vendor_that_is_away_or_too_slow_is_answered_for(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let mut feeds = stand_in.streams();
        let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
        let (response, feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
        assert!(soon(response.unwrap().bytes()).await.is_err(), "a stream that stands still is cut off");
        drop(feed);
        assert_eq!(app.last_call(&sandbox).await["state"], "broken");

        let (hold, held) = std::sync::mpsc::sync_channel::<()>(0);
        let held = std::sync::Mutex::new(held);
        stand_in.replies(move |_| {
            let _ = tokio::task::block_in_place(|| held.lock().unwrap().recv());
            whole(200, message(1, 1))
        });
        soon(app.ask(&sandbox, &hello())).await.refused_call(504, "timeout_error", "model_timeout");
        drop(hold);
        assert_eq!(app.last_call(&sandbox).await["estimated"], true);
    }

    async fn no_more_calls_are_under_way_than_may_be(app: App) {
        let mut feeds = StandIn::of(&app).streams();
        let (sandbox, other) = (app.sandbox_with_task().await, app.sandbox_with_task().await);
        let start = async |token: &str, feeds: &mut tokio::sync::mpsc::Receiver<_>| {
            let sent = app.model_request(token, "/anthropic/v1/messages").json(&hello()).send();
            let (response, feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
            let feed: Feed = feed.unwrap();
            feed.send(Ok("event: ping\n\n".into())).await.unwrap();
            (response.unwrap(), feed)
        };
        let first = start(&sandbox.token, &mut feeds).await;
        let second = start(&sandbox.token, &mut feeds).await;
        let full = app.ask(&sandbox, &hello()).await;
        assert_eq!(full.headers["retry-after"], "1");
        full.refused_call(429, "rate_limit_error", "too_many_calls");
        let third = start(&other.token, &mut feeds).await;
        app.ask(&other, &hello()).await.refused_call(429, "rate_limit_error", "too_many_calls");
        drop((first, second, third));
        StandIn::of(&app).replies(|_| whole(200, message(1, 1)));
        eventually(async || (app.ask(&sandbox, &hello()).await.status == 200).then_some(())).await;
    }
}

on_both! { without_key =>
    async fn without_a_key_nothing_is_sent_and_the_answer_names_it(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let refused = app.ask(&sandbox, &hello()).await;
        let message = refused.refused_call(403, "permission_error", "model_key_missing");
        assert!(message.contains("model.anthropic_api_key (ANTHROPIC_API_KEY)"), "{message}");
        let openai = app.http.get(format!("{}/model/openai/v1/models", app.base)).bearer_auth(&sandbox.token);
        let refused = answer(openai).await.expect(403);
        assert!(refused["error"]["message"].as_str().unwrap().contains("OPENAI_API_KEY"), "{refused}");
        assert_eq!(refused["error"]["code"], "model_key_missing");
        assert!(StandIn::of(&app).got().is_empty());
        assert_eq!(app.costs("").await["totals"]["calls"], 0);
    }
}

fn nowhere(config: &mut Config) {
    behind(config);
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    config.model.anthropic_base_url = format!("http://{free}");
}

on_both! { nowhere =>
    async fn a_vendor_that_cannot_be_reached_is_a_bad_gateway_and_costs_nothing(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let refused = app.ask(&sandbox, &hello()).await;
        let message = refused.refused_call(502, "api_error", "model_unavailable");
        assert!(!message.contains("127.0.0.1"), "{message}");
        let call = app.last_call(&sandbox).await;
        assert_eq!((&call["state"], &call["cost_usd"], &call["estimated"]), (&json!("broken"), &json!(0.0), &json!(false)));
    }
}

fn stopping_soon(config: &mut Config) {
    behind(config);
    config.server.shutdown_grace = Duration::from_secs(1);
}

/// A stream that has begun: the answer, and what feeds it.
async fn begun(app: &App, sandbox: &Sandbox) -> (reqwest::Response, Feed) {
    let mut feeds = StandIn::of(app).streams();
    let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
    let (response, feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
    let (mut response, feed) = (response.unwrap(), feed.unwrap());
    feed.send(Ok("event: ping\n\n".into())).await.unwrap();
    soon(response.chunk()).await.unwrap().unwrap();
    (response, feed)
}

on_both! { stopping_soon =>
    async fn a_server_that_stops_cuts_its_calls_off_and_books_them(app: App) {
        let mut app = app;
        let sandbox = app.sandbox_with_task().await;
        let (mut response, feed) = begun(&app, &sandbox).await;
        soon(app.restart()).await;
        assert!(soon(response.chunk()).await.is_err());
        soon(feed.closed()).await;
        let call = app.last_call(&sandbox).await;
        assert_eq!((&call["state"], &call["estimated"]), (&json!("broken"), &json!(true)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_call_of_a_sandbox_that_was_ended_is_cut_off() {
    let app = App::start_with(On::Sqlite, behind).await;
    let sandbox = app.sandbox_with_task().await;
    let (mut response, feed) = begun(&app, &sandbox).await;
    app.post(&format!("/api/v1/sandboxes/{}/terminate", sandbox.id), json!({})).await.expect(200);
    assert!(soon(response.chunk()).await.is_err());
    soon(feed.closed()).await;
    assert_eq!(app.last_call(&sandbox).await["state"], "broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_at_one_server_counts_at_another() {
    let app = App::start_with(On::Postgres, behind).await;
    let other = app.beside().await;
    let project = app.project("p").await;
    let task = app.task(&project, json!({ "execution_config": { "max_total_cost_usd": 0.01 } })).await;
    let sandbox = app.attached_to(&task).await;
    let (response, feed) = begun(&app, &sandbox).await;
    let body = hello();
    let asked = other.ask(&sandbox, &body);
    let (asked, ()) = soon(async {
        tokio::join!(asked, async {
            feed.send(Ok(events(0, 1000).into())).await.unwrap();
            drop(feed);
            response.bytes().await.unwrap();
        })
    })
    .await;
    asked.refused_call(403, "permission_error", "budget_exceeded");
    assert_eq!(StandIn::of(&app).got().len(), 1);
}
