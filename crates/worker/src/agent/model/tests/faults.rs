//! What goes wrong on the way: cut, stalled, malformed, refused, elsewhere.

use omoi_protocol::{ModelFailure, Vendor, launch::Wire};
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc};

use super::*;
use crate::agent::model::error::Origin;

/// What each fault is told as; it came three times.
fn exhausted(error: &Error, part: &str) {
    let Error::Exhausted { attempts: 3, last, .. } = error else { panic!("{error:?}") };
    assert!(last.contains(part), "{part}: {last}");
}

#[tokio::test]
async fn an_answer_without_its_end_is_void_and_asked_for_again() {
    let whole = greeting();
    let headless = whole.split_once("\n\n").unwrap().1;
    let endless = whole.split("event: message_stop").next().unwrap();
    let pointless = endless.split("event: message_delta").next().unwrap();
    let stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    for (case, reply, part) in [
        ("a clean end too early", Reply::stream(endless), "no message_stop"),
        ("nothing", Reply::stream(""), "no message_stop"),
        ("no beginning", Reply::stream(headless), "no message_stop"),
        ("no reason", Reply::stream(&format!("{pointless}{stop}")), "no stop_reason"),
        ("a connection cut", Reply::stream(endless).cut(), "broke off"),
        ("half an event", Reply::stream(&endless[..endless.len() - 9]), "no valid JSON"),
        ("no JSON", Reply::stream(&whole.replace("\"ping\"", "ping")), "no valid JSON"),
        ("no UTF-8", Reply::stream(endless).then_bytes(b"data: \"\xff\"\n\n"), "no valid UTF-8"),
        ("closed without a word", Reply::nothing(), "connection"),
    ] {
        let standin = Standin::start(vec![reply.clone(), Reply::stream(&whole)]).await;
        let (answer, told) = ask(&model(Wire::Messages, &standin)).await;
        assert_eq!(answer.unwrap().content, [Block::text("Grüße")], "{case}");
        assert_eq!(told.retries.len(), 1, "{case}");
        assert!(told.retries[0].2.contains(part), "{case}: {:?}", told.retries);
        exhausted(&error_to(Wire::Messages, reply).await.0, part);
    }
}

#[tokio::test]
async fn a_completion_without_its_end_is_void() {
    let whole = chat_greeting();
    let first = whole.split("\n\n").next().unwrap();
    let failed = whole.replace("\"stop\"", "\"error\"");
    for (case, reply, part) in [
        ("no reason to finish", Reply::stream(&format!("{first}\n\n")), "no finish_reason"),
        ("the end without a reason", Reply::stream("data: [DONE]\n\n"), "no finish_reason"),
        (
            "cut after the reason",
            Reply::stream(whole.split("data: [DONE]").next().unwrap()).cut(),
            "broke off",
        ),
        ("a failure on the way", Reply::stream(&failed), "finish_reason is error"),
        ("no JSON", Reply::stream("data: {\n\n"), "no valid JSON"),
    ] {
        let (error, told) = error_to(Wire::Chat, reply).await;
        exhausted(&error, part);
        assert_eq!(told.retries.len(), 2, "{case}");
    }
}

#[tokio::test]
async fn errors_amid_an_answer_are_judged_by_what_they_are() {
    let begin = greeting().split("event: content_block_stop").next().unwrap().to_owned();
    let with = |kind: &str| {
        let error = json!({ "type": "error", "error": { "type": kind, "message": "so it is" } });
        Reply::stream(&format!("{begin}event: error\ndata: {error}\n\n"))
    };
    for (kind, status) in [("overloaded_error", 529), ("api_error", 500)] {
        let standin = Standin::start(vec![with(kind), Reply::stream(&greeting())]).await;
        let (answer, told) = ask(&model(Wire::Messages, &standin)).await;
        assert_eq!(answer.unwrap().content, [Block::text("Grüße")]);
        assert_eq!(told.retries[0], (1, Some(status), format!("{status} ({kind}): so it is")));
    }
    let (error, told) = error_to(Wire::Messages, with("invalid_request_error")).await;
    assert!(matches!(error, Error::Refused { status: 400, .. }) && told.retries.is_empty(), "{error}");

    let chat = json!({ "error": { "code": 502, "message": "Provider returned error" }, "choices": [] });
    let (error, _) = error_to(Wire::Chat, Reply::stream(&chat_stream(&[chat]))).await;
    exhausted(&error, "Provider returned error");
}

#[tokio::test]
async fn refusals_end_the_question_at_once_and_say_why() {
    let reply = |status: &str, kind: &str, message: &str| {
        let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
        Reply::json(status, "x-should-retry: true\r\n", &error)
    };
    for (status, kind, failure) in [
        ("400 Bad Request", "invalid_request_error", ModelFailure::InvalidRequest),
        ("401 Unauthorized", "authentication_error", ModelFailure::KeyInvalid),
        ("402 Payment Required", "billing_error", ModelFailure::NoCredit),
        ("403 Forbidden", "permission_error", ModelFailure::NotAllowed),
        ("404 Not Found", "not_found_error", ModelFailure::ModelNotFound),
        ("422 Unprocessable", "invalid_request_error", ModelFailure::InvalidRequest),
    ] {
        let (error, told) = error_to(Wire::Messages, reply(status, kind, "no way")).await;
        let number: u16 = status[..3].parse().unwrap();
        let (code, message) = (kind.to_owned(), "no way".to_owned());
        let origin = Origin::Vendor(Vendor::Anthropic, failure);
        assert_eq!(error, Error::Refused { origin, status: number, code, message });
        assert_eq!(told.retries, vec![]);
    }
    let (error, _) = error_to(Wire::Messages, reply("413 Too Large", "request_too_large", "32 MB")).await;
    assert_eq!(error, Error::TooLong { message: "32 MB".to_owned() });
    let text = "budget_exceeded: the budget of this task is used up";
    let body = json!({ "type": "error", "error": { "type": "permission_error", "message": text } });
    let own = Reply::json("403 Forbidden", "x-omoi-refused: budget_exceeded\r\n", &body);
    let (error, _) = error_to(Wire::Messages, own).await;
    assert_eq!(error, Error::OverBudget { message: "the budget of this task is used up".to_owned() });
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Reply::new("307 Temporary Redirect", "location: http://127.0.0.1:1/\r\n", "");
    let (error, _) = error_to(Wire::Messages, elsewhere).await;
    assert!(matches!(error, Error::Refused { status: 307, .. }), "{error}");
}

#[tokio::test]
async fn a_storm_of_refusals_that_pass_is_sat_out() {
    let busy =
        |status: &str| Reply::json(status, "", &json!({ "error": { "message": "busy", "type": "x_error" } }));
    for status in ["408 Timeout", "409 Conflict", "429 Too Many", "500 Broken", "503 Away", "529 Overloaded"]
    {
        let standin = Standin::start(vec![busy(status), busy(status), Reply::stream(&greeting())]).await;
        let (answer, told) = ask(&model(Wire::Messages, &standin)).await;
        assert!(answer.is_ok());
        let number: u16 = status[..3].parse().unwrap();
        let text = format!("{number} (x_error): busy");
        assert_eq!(told.retries, [(1, Some(number), text.clone()), (2, Some(number), text.clone())]);
        exhausted(&error_to(Wire::Messages, busy(status)).await.0, &text);
    }
    let never = Reply::json(
        "529 Overloaded",
        "x-should-retry: false\r\n",
        &json!({ "error": { "message": "full" } }),
    );
    let (error, _) = error_to(Wire::Messages, never).await;
    assert!(matches!(error, Error::Refused { status: 529, .. }), "{error}");
}

#[tokio::test]
async fn the_pause_that_the_other_side_asks_for_is_kept() {
    for (header, seconds) in
        [("retry-after: 7", 7.0), ("retry-after: 9000", 300.0), ("retry-after-ms: 1500", 1.5)]
    {
        let reply = Reply::json("429 Too Many", &format!("{header}\r\n"), &json!({ "error": "slow" }));
        let standin = Standin::start(vec![reply]).await;
        let model = model(Wire::Messages, &standin);
        let (told, mut delays) = mpsc::channel(1);
        let messages = [Message::user(vec![Block::text("hello")])];
        let asked = Ask { system: "", tools: &[], messages: &messages, max_tokens: 1 };
        let mut tell = |progress: Progress<'_>| {
            if let Progress::Retrying { delay, .. } = progress {
                told.try_send(delay.as_secs_f64()).unwrap();
            }
        };
        // The pause itself is not waited for: it is told before it begins.
        tokio::select! {
            answer = model.ask(&asked, &mut tell) => panic!("{answer:?}"),
            delay = delays.recv() => assert!((seconds..seconds + 0.1).contains(&delay.unwrap()), "{header}: {delay:?}"),
        }
    }
}

#[tokio::test]
async fn a_page_of_a_proxy_is_named_as_what_it_is() {
    let page = format!("<html>\n<title>Sign in</title>{}", "x".repeat(100_000));
    let reply = Reply::new("200 OK", "content-type: text/html\r\n", &page);
    let (error, told) = error_to(Wire::Messages, reply).await;
    exhausted(&error, "200 with \"text/html\" in place of a stream of events");
    let text = error.to_string();
    assert!(text.contains("<html> <title>Sign in</title>xxx") && text.len() < 700, "{text}");
    assert_eq!(told.retries.len(), 2);

    let page = Reply::new(
        "502 Bad Gateway",
        "content-type: text/html\r\n",
        &format!("<h1>{}", "y\u{7}".repeat(500_000)),
    );
    let (error, _) = error_to(Wire::Chat, page).await;
    exhausted(&error, "502 (bad_gateway): <h1>y y");
    assert!(error.to_string().len() < 700);
}

#[tokio::test]
async fn silence_ends_an_attempt_before_amid_and_after() {
    let begin = greeting().split("event: content_block_stop").next().unwrap().to_owned();
    for reply in [Reply::silence(), Reply::stream("").then_hang(), Reply::stream(&begin).then_hang()] {
        let standin = Standin::start(vec![reply, Reply::stream(&greeting())]).await;
        let quick = Duration::from_millis(60);
        let mut model =
            Model::new(Settings { stall: quick, ..settings(Wire::Messages, &standin.url) }).unwrap();
        assert_eq!(model.begin, Duration::from_secs(300));
        model.begin = quick;
        let (answer, told) = ask(&model).await;
        assert!(answer.is_ok());
        assert_eq!(told.retries[0].2, "nothing came for 60ms");
        standin.left.notified().await;
    }
}

#[tokio::test]
async fn a_model_may_think_in_silence_before_it_speaks() {
    let role = chat_stream(&[
        json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "" } }] }),
    ]);
    let reply = Reply::stream(role.split("data: [DONE]").next().unwrap()).then_hang();
    let standin = Standin::start(vec![reply, Reply::stream(&chat_greeting())]).await;
    let (stall, long) = (Duration::from_millis(1), Duration::from_millis(80));
    let mut model = Model::new(Settings { stall, ..settings(Wire::Chat, &standin.url) }).unwrap();
    model.begin = long;
    let (_, told) = ask(&model).await;
    assert_eq!(told.retries[0].2, "nothing came for 80ms");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_ended() {
    // Bytes come all the time, so that it never falls silent.
    let chatter = ": still here\n\n".repeat(50_000);
    let reply = Reply::stream(&chatter).in_pieces().then_hang();
    let standin = Standin::start(vec![reply, Reply::stream(&greeting())]).await;
    let total = Duration::from_millis(100);
    let model = Model::new(Settings { total, ..settings(Wire::Messages, &standin.url) }).unwrap();
    let (_, told) = ask(&model).await;
    assert_eq!(told.retries[0].2, "the answer was not complete after 100ms");
}

#[tokio::test]
async fn a_server_that_is_away_is_waited_for_and_not_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = Model::new(settings(Wire::Messages, &format!("http://{address}"))).unwrap();
    let (told, mut retries) = mpsc::channel(1000);
    let messages = [Message::user(vec![Block::text("hello")])];
    let asked = Ask { system: "", tools: &[], messages: &messages, max_tokens: 1 };
    let mut tell = |progress: Progress<'_>| {
        if let Progress::Retrying { attempt, attempts_max, error, .. } = progress {
            let _ = told.try_send((attempt, attempts_max, error));
        }
    };
    let comes_back = async {
        // Far more often than an attempt may fail.
        loop {
            let (attempt, attempts_max, error) = retries.recv().await.unwrap();
            assert!(attempts_max == 0 && error.contains("refused"), "{error}");
            if attempt == 3 * QUICK.attempts_max {
                break;
            }
        }
        Standin::on(TcpListener::bind(address).await.unwrap(), vec![Reply::stream(&greeting())])
    };
    let (answer, standin) = tokio::join!(model.ask(&asked, &mut tell), comes_back);
    assert!(answer.is_ok(), "{answer:?}");
    drop(standin);

    let retry = RetryPolicy { total_away: Duration::from_millis(20), ..QUICK };
    let settings = Settings { retry, ..settings(Wire::Messages, "http://127.0.0.1:1") };
    let (answer, _) = ask(&Model::new(settings).unwrap()).await;
    assert!(matches!(&answer, Err(Error::Exhausted { last, .. }) if last.contains("refused")), "{answer:?}");
}

#[tokio::test]
async fn who_drops_the_question_hangs_up() {
    let begin = greeting().split("event: content_block_stop").next().unwrap().to_owned();
    let standin = Standin::start(vec![Reply::stream(&begin).then_hang()]).await;
    let model = model(Wire::Messages, &standin);
    let (told, mut began) = mpsc::channel(100);
    let messages = [Message::user(vec![Block::text("hello")])];
    let asked = Ask { system: "", tools: &[], messages: &messages, max_tokens: 1 };
    {
        let mut tell = |_: Progress<'_>| told.try_send(()).unwrap();
        let answer = model.ask(&asked, &mut tell);
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => panic!("{answer:?}"),
            _ = began.recv() => {}
        }
    }
    standin.left.notified().await;
}

#[tokio::test]
async fn an_event_without_an_end_is_not_kept_in_memory() {
    let reply = Reply::stream("data: ").then_bytes(&vec![b'x'; 17 * 1024 * 1024]);
    let standin = Standin::start(vec![reply, Reply::stream(&greeting())]).await;
    let (answer, told) = ask(&model(Wire::Messages, &standin)).await;
    assert!(answer.is_ok());
    assert_eq!(told.retries[0].2, "an event of the stream has more than 16777216 bytes");
}

#[test]
fn an_address_or_a_token_that_cannot_be_used_is_said_at_once() {
    for url in ["", "127.0.0.1:7001", "file:///tmp", "http://", "http://a/?b"] {
        let error = Model::new(settings(Wire::Chat, url)).unwrap_err();
        assert!(matches!(error, Error::Setup(_)), "{url}: {error}");
    }
    let bad = Settings { token: "a\nb".to_owned(), ..settings(Wire::Messages, "http://127.0.0.1:1") };
    let error = Model::new(bad).unwrap_err();
    assert!(!error.to_string().contains("a\nb"), "{error}");
    let debug = format!("{:?}", Model::new(settings(Wire::Chat, "http://127.0.0.1:1/v1/")).unwrap());
    assert!(
        debug.contains("http://127.0.0.1:1/v1/chat/completions") && !debug.contains("the-token"),
        "{debug}"
    );
}

/// The loop may run on any thread.
#[test]
fn a_question_can_be_moved_between_threads() {
    fn movable(_: impl Send) {}
    let model = Model::new(settings(Wire::Chat, "http://127.0.0.1:1")).unwrap();
    let asked = Ask { system: "", tools: &[], messages: &[], max_tokens: 1 };
    movable(model.ask(&asked, &mut |_| {}));
}
