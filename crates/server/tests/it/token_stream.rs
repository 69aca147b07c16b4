//! Streams end with the token or session they were opened with: none of these tests sends a ping that could notice.

use std::{sync::Arc, time::Duration};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    app::{App, On, Sandbox, soon},
    on_both,
    stand_in::{StandIn, behind, hello},
    viewer::{Said, Stream, Viewer},
    work::{MINUTE, text},
};

const HOUR: Duration = Duration::from_secs(3600);

fn without_pings(config: &mut omoi_server::config::Config) {
    config.live.ping_interval = HOUR;
    config.live.viewer_stall_timeout = HOUR;
    config.message.long_poll_max = HOUR;
}

/// A WebSocket and a stream of server-sent events, both opened with this token.
async fn open(app: &App, token: &str) -> (Viewer, Stream) {
    let mut viewer = app.try_watch(token, "").await.unwrap();
    viewer.sign("ping").await;
    (viewer, app.open_stream_by(token, "", &[]).await)
}

async fn both_end((mut viewer, mut stream): (Viewer, Stream)) {
    assert_eq!(soon(viewer.hear_last()).await, Said::Closed(4401));
    assert_eq!(soon(stream.end()).await, Some(4401));
}

async fn new_token(app: &App, more: Value) -> (String, String) {
    let mut body = json!({ "name": "eve", "role": "viewer" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = app.post("/api/v1/tokens", body).await.expect(201);
    (format!("/api/v1/tokens/{}", text(&made["id"])), text(&made["secret"]))
}

/// Revokes it as another process would, which tells this one nothing.
async fn revoke_from_outside(app: &App, sandbox: &Sandbox) {
    app.sql(&format!("UPDATE tokens SET revoked_at = created_at WHERE sandbox_id = '{}'", sandbox.id)).await;
}

on_both! { without_pings =>
    async fn the_streams_of_a_revoked_token_end_and_those_of_another_go_on(app: App) {
        let (path, secret) = new_token(&app, json!({})).await;
        let (mut stays, _stays_too) = open(&app, &app.token).await;
        let streams = open(&app, &secret).await;
        app.delete(&path).await.expect(200);
        both_end(streams).await;
        let project = app.project("later").await;
        while stays.next().await["entity_id"] != project.as_str() {}
    }

    async fn the_streams_of_an_expired_token_end(app: App) {
        let (_, secret) = new_token(&app, json!({ "expires_at": app.after(MINUTE) })).await;
        let streams = open(&app, &secret).await;
        app.advance(MINUTE).await;
        both_end(streams).await;
    }

    async fn the_streams_of_a_session_end_with_its_token(app: App) {
        let (path, secret) = new_token(&app, json!({})).await;
        let cookie = app.signed_in(&secret).await;
        let mut viewer = app.watch_by_cookie(&cookie, &app.base).await.unwrap();
        viewer.sign("ping").await;
        app.delete(&path).await.expect(200);
        assert_eq!(viewer.hear_last().await, Said::Closed(4401));
    }

    async fn a_stream_says_goodbye_when_its_token_ends_and_sends_nothing_more(app: App) {
        let (path, secret) = new_token(&app, json!({})).await;
        let sandbox = app.sandbox().await;
        let mut stream = app.open_stream_by(&secret, "", &[]).await;
        app.delete(&path).await.expect(200);
        app.call(reqwest::Method::GET, "/api/v1/whoami", &secret, None).await.refused(401, "token_wrong");
        assert_eq!(soon(stream.end()).await, Some(4401));
        app.event(&sandbox, "agent.thinking", json!({})).await.expect(200);
        assert!(stream.block().await.is_none());
    }

    async fn a_long_poll_ends_with_the_token_of_its_sandbox(app: App) {
        let app = Arc::new(app);
        let (sandbox, other) = (app.sandbox().await, app.sandbox().await);
        let poll = |of: &Sandbox| {
            let (app, of) = (app.clone(), of.clone());
            tokio::spawn(async move { app.get_as(&of, "/messages?wait=600").await })
        };
        let (polling, going_on) = (poll(&sandbox), poll(&other));
        revoke_from_outside(&app, &sandbox).await;
        soon(polling).await.unwrap().refused(401, "token_ended");
        let id = app.queue(&other, "hello").await;
        assert_eq!(soon(going_on).await.unwrap().expect(200)[0]["id"], id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_ends_at_one_server_ends_its_streams_at_another() {
    let one = App::start_with(On::Postgres, without_pings).await;
    let two = Arc::new(one.beside().await);
    let (path, revoked) = new_token(&one, json!({})).await;
    let (_, expired) = new_token(&one, json!({ "expires_at": one.after(MINUTE) })).await;
    let cookie = one.signed_in(&one.token).await;
    let mut by_session = two.watch_by_cookie(&cookie, &two.base).await.unwrap();
    let streams = (open(&two, &revoked).await, open(&two, &expired).await);
    let sandbox = one.sandbox().await;
    let polling = tokio::spawn({
        let (two, sandbox) = (two.clone(), sandbox.clone());
        async move { two.get_as(&sandbox, "/messages?wait=600").await }
    });
    one.delete(&path).await.expect(200);
    both_end(streams.0).await;
    let sign_out = one.http.delete(format!("{}/api/v1/session", one.base)).header("cookie", &cookie);
    let signed_out = sign_out.header("x-omoi-csrf", "1").send().await.unwrap();
    assert_eq!(signed_out.status(), StatusCode::NO_CONTENT);
    assert_eq!(by_session.hear_last().await, Said::Closed(4401));
    one.advance(MINUTE).await;
    both_end(streams.1).await;

    // A sandbox that was terminated may still report for a while, and then no more.
    let path = format!("/api/v1/sandboxes/{}/terminate", sandbox.id);
    one.post(&path, json!({})).await.expect(200);
    one.advance(one.config.lease.late_report_grace).await;
    soon(polling).await.unwrap().refused(401, "token_ended");
}

on_both! { |config| { behind(config); without_pings(config); } =>
    async fn the_model_stream_of_a_token_that_ended_breaks_off_and_is_booked(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let mut feeds = StandIn::of(&app).streams();
        let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
        let (response, feed) = soon(async { tokio::join!(sent, feeds.recv()) }).await;
        let (mut response, feed) = (response.unwrap(), feed.unwrap());
        feed.send(Ok("event: ping\n\n".into())).await.unwrap();
        soon(response.chunk()).await.unwrap().unwrap();
        revoke_from_outside(&app, &sandbox).await;
        assert!(soon(response.chunk()).await.is_err(), "it breaks off, so that nobody takes it for whole");
        soon(feed.closed()).await;
        assert_eq!(app.last_call(&sandbox).await["state"], "broken");
    }

    async fn a_model_call_that_waits_for_its_first_byte_ends_with_its_token(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let (asked, mut arrived) = tokio::sync::mpsc::channel(1);
        let (release, hold) = std::sync::mpsc::sync_channel::<()>(1);
        let hold = std::sync::Mutex::new(hold);
        StandIn::of(&app).replies(move |_| {
            asked.try_send(()).unwrap();
            let _ = tokio::task::block_in_place(|| hold.lock().unwrap().recv());
            crate::stand_in::whole(200, crate::stand_in::message(1, 1))
        });
        let sent = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send();
        let sent = tokio::spawn(sent);
        soon(arrived.recv()).await.unwrap();
        revoke_from_outside(&app, &sandbox).await;
        assert_eq!(soon(sent).await.unwrap().unwrap().status(), StatusCode::UNAUTHORIZED);
        drop(release);
    }
}
