//! What a model API may answer: how much, how packed, and with which figures. What is beyond it is cut off or refused, and
//! nothing is booked that the request cannot have cost.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use omoi_server::config::Config;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    app::{App, On, Sandbox, answer, eventually, soon},
    on_both,
    stand_in::{KEY, MODEL, StandIn, behind, hello, message, whole},
};

const ANSWER_BYTES_MAX: usize = 64 << 10;
const ANTHROPIC: &str = "anthropic/v1/messages";
const OPENAI: &str = "openai/v1/chat/completions";

fn bounded(config: &mut Config) {
    behind(config);
    config.model.answer_bytes_max = ANSWER_BYTES_MAX;
}

/// The same bytes for ever.
fn endless(kind: &'static str, piece: &'static str) -> Response {
    let pieces = stream::repeat_with(move || Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes())));
    ([("content-type", kind)], Body::from_stream(pieces)).into_response()
}

/// All that comes until the connection breaks, and whether it breaks.
async fn read(mut response: reqwest::Response) -> (String, bool) {
    let mut bytes = Vec::new();
    loop {
        match soon(response.chunk()).await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return (String::from_utf8_lossy(&bytes).into_owned(), false),
            Err(_) => return (String::from_utf8_lossy(&bytes).into_owned(), true),
        }
    }
}

/// The newest call, once it is booked.
async fn booked(app: &App, sandbox: &Sandbox) -> Value {
    eventually(async || Some(app.last_call(sandbox).await).filter(|call| call["state"] != "open")).await
}

/// What the request can cost at most: two USD for a million tokens of input, ten for one of output.
fn most(call: &Value) -> f64 {
    (call["request_bytes"].as_u64().unwrap().div_ceil(4) * 2 + 1000 * 10) as f64 / 1e6
}

on_both! { bounded =>
    async fn an_answer_without_end_is_cut_off_and_costs_what_its_request_can(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        const DELTA: &str = "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"word word word\"}}\n\n";
        const CHUNK: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"word word word\"}}]}\n\n";
        for (path, kind, piece) in [
            (ANTHROPIC, "text/event-stream", DELTA),
            (OPENAI, "text/event-stream", CHUNK),
            (ANTHROPIC, "text/event-stream", "no event at all "),
            (OPENAI, "text/event-stream", "\n"),
            (ANTHROPIC, "application/json", "{\"content\":[{}],"),
            (OPENAI, "application/json", "[[[[[[[["),
        ] {
            stand_in.replies(move |_| endless(kind, piece));
            let asked = app.model_request(&sandbox.token, &format!("/{path}")).json(&hello()).send();
            let (text, is_broken) = read(soon(asked).await.unwrap()).await;
            assert!(is_broken, "{path} {piece:?}");
            assert!(text.len() <= ANSWER_BYTES_MAX + 1000, "{path} {piece:?}: {}", text.len());
            let told = text.contains("answer_too_long: ") && text.contains("model.answer_bytes_max");
            assert_eq!(told, kind == "text/event-stream", "{path} {piece:?}");
            let call = booked(&app, &sandbox).await;
            assert_eq!((&call["state"], &call["estimated"]), (&json!("broken"), &json!(true)), "{piece:?}");
            assert!(call["output_tokens"].as_u64().unwrap() <= 1000, "{call}");
            assert!(call["cost_usd"].as_f64().unwrap() <= most(&call), "{call}");
        }
        // What costs nothing has the same bound.
        stand_in.replies(|_| endless("application/json", "[[[[[[[["));
        let listed = app.http.get(format!("{}/model/openai/v1/models", app.base)).bearer_auth(&sandbox.token).send();
        let (text, is_broken) = read(soon(listed).await.unwrap()).await;
        assert!(is_broken && text.len() <= ANSWER_BYTES_MAX);
    }

    async fn an_answer_that_says_it_is_too_long_is_refused_before_it_begins(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        for length in [ANSWER_BYTES_MAX, ANSWER_BYTES_MAX + 1] {
            stand_in.replies(move |_| ([("content-type", "text/plain")], "x".repeat(length)).into_response());
            let answered = app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&hello()).send().await.unwrap();
            if length <= ANSWER_BYTES_MAX {
                assert_eq!(answered.status(), 200);
                assert_eq!(answered.bytes().await.unwrap().len(), length);
                continue;
            }
            assert_eq!((answered.status().as_u16(), &answered.headers()["x-should-retry"]), (502, &HeaderValue::from_static("false")));
            assert_eq!(answered.headers()["x-omoi-refused"], "answer_too_long");
            let error: Value = answered.json().await.unwrap();
            assert!(error["error"]["message"].as_str().unwrap().starts_with("answer_too_long: "), "{error}");
            assert_eq!(app.last_call(&sandbox).await["state"], "broken");
        }
    }
}

on_both! { behind =>
    async fn an_encoding_that_was_not_asked_for_is_refused(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        let paths = [
            ("POST", ANTHROPIC), ("POST", OPENAI), ("POST", "anthropic/v1/messages/count_tokens"),
            ("GET", "anthropic/v1/models"), ("GET", "openai/v1/models"),
        ];
        for (name, value, is_refused) in [
            ("content-encoding", "identity", false),
            ("content-encoding", "gzip", true),
            ("content-encoding", "GZIP", true),
            ("content-encoding", "br", true),
            ("content-encoding", "identity, zstd", true),
            ("content-encoding", "x-unheard-of", true),
            ("content-type", "application/json; charset=utf-16", true),
        ] {
            for status in [200, 401] {
                // As a vendor sends it that repeats the key in what it packs.
                stand_in.replies(move |_| {
                    let mut response = whole(status, json!({ "echo": KEY }));
                    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
                    response
                });
                for (method, path) in paths {
                    let url = format!("{}/model/{path}", app.base);
                    let request = app.http.request(method.parse().unwrap(), url).bearer_auth(&sandbox.token);
                    let request = if method == "POST" { request.json(&hello()) } else { request };
                    let response = soon(request.send()).await.unwrap();
                    let (got, refused) = (response.status().as_u16(), response.headers().get("x-omoi-refused").cloned());
                    assert!(!response.headers().contains_key("content-encoding"));
                    let text = response.text().await.unwrap();
                    let case = format!("{name}: {value}, {status} {path}: {text}");
                    if is_refused {
                        assert!(!text.contains(KEY), "{case}");
                        assert_eq!((got, refused.unwrap().to_str().unwrap()), (502, "answer_encoded"), "{case}");
                        assert!(text.contains("base_url") && text.contains("without being asked"), "{case}");
                    } else {
                        assert_eq!((got, refused), (status, None), "{case}");
                    }
                }
            }
        }
        let got = stand_in.got();
        assert!(got.iter().all(|got| !got.headers.contains_key("accept-encoding")));
    }

    async fn figures_that_cannot_be_true_are_not_booked(app: App) {
        let stand_in = StandIn::of(&app);
        let sandbox = app.sandbox_with_task().await;
        for (input, output, estimated) in [
            ("10", "20", false),
            ("10", "1000", false),
            ("10", "1001", true),
            ("-1", "20", true),
            ("10", "-1", true),
            ("10", "1.5", true),
            ("10", "\"20\"", true),
            ("10", "2000000000", true),
            ("1000000000000", "20", true),
            ("10", "18446744073709551615", true),
            ("18446744073709551615", "18446744073709551616", true),
            ("1e300", "1e400", true),
        ] {
            for is_stream in [false, true] {
                let anthropic = format!(r#"{{"type":"message","stop_reason":"end_turn","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#);
                let openai = format!(r#"{{"choices":[],"usage":{{"prompt_tokens":{input},"completion_tokens":{output}}}}}"#);
                for (path, text) in [(ANTHROPIC, anthropic), (OPENAI, openai)] {
                    let (kind, text) = match is_stream {
                        true => ("text/event-stream", format!("data: {text}\n\n")),
                        false => ("application/json", text),
                    };
                    let case = format!("{path}: {text}");
                    stand_in.replies(move |_| ([("content-type", kind)], text.clone()).into_response());
                    let request = app.model_request(&sandbox.token, &format!("/{path}")).json(&hello());
                    let response = soon(request.send()).await.unwrap();
                    assert_eq!(response.status(), 200);
                    soon(response.bytes()).await.unwrap();
                    let call = booked(&app, &sandbox).await;
                    assert_eq!((&call["state"], &call["estimated"]), (&json!("done"), &json!(estimated)), "{case}: {call}");
                    assert!(call["cost_usd"].as_f64().unwrap() <= most(&call), "{case}: {call}");
                    let figures = ["input_tokens", "output_tokens"].map(|field| call[field].as_u64().unwrap());
                    assert!(figures.iter().all(|tokens| *tokens <= 1000), "{case}: {call}");
                }
            }
        }
        // A call that is refused has used nothing, whatever is said of it.
        stand_in.replies(|_| whole(500, message(1_000_000_000, 1_000_000_000)));
        app.ask(&sandbox, &hello()).await.expect(500);
        assert_eq!(booked(&app, &sandbox).await["cost_usd"], 0.0);
    }
}

/// A vendor behind a socket of the test's own, whose answer a library would not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_is_packed_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = App::start_with(On::Sqlite, |config| {
        behind(config);
        config.model.anthropic_base_url = format!("http://{address}");
    })
    .await;
    let sandbox = app.sandbox_with_task().await;
    for (codings, is_refused) in
        [("gzip, chunked", true), ("GZIP, Chunked", true), ("x-zip, chunked", true), ("chunked", false)]
    {
        let vendor = async {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"}") {
                head.push(client.read_u8().await.unwrap());
            }
            let body = format!("{{\"echo\":\"{KEY}\"}}");
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: {codings}\r\n\
                 connection: close\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            );
            client.write_all(text.as_bytes()).await.unwrap();
        };
        let request =
            app.model_request(&sandbox.token, "/anthropic/v1/messages").json(&json!({ "model": MODEL }));
        let (refused, ()) = soon(async { tokio::join!(answer(request), vendor) }).await;
        assert!(!refused.body.to_string().contains(KEY), "{}", refused.body);
        match is_refused {
            true => drop(refused.refused_call(502, "api_error", "answer_encoded")),
            false => drop(refused.expect(200)),
        }
    }
}
