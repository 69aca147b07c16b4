//! Faults: what comes in place of an answer, how often, and that the answer comes in the end.

use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, with};
use crate::on_both;

/// One scenario per fault, each of one call and an end.
const FAULTS: [(&str, &str); 9] = [
    ("status", "{ status: 429, retry_after: 3s, times: 2 }"),
    ("several", "[{ status: 500 }, { cut: 200 }, { status: 529 }]"),
    ("half", "{ cut: half }"),
    ("stall", "{ stall: 60s }"),
    ("error", "{ error: overloaded_error }"),
    ("html", "{ html: true }"),
    ("broken", "{ broken_json: true }"),
    ("garbage", "{ garbage: true }"),
    ("never", "{ status: 500, times: 0 }"),
];

fn faulty(config: &mut omoi_server::config::Config) {
    for (name, fault) in FAULTS {
        let step = "say: I call a tool now.\n    call: { tool: Bash, input: { command: 'true' } }";
        let text = format!("steps:\n  - {step}\n    fault: {fault}\n  - say: bye\n");
        with(config, name, &text);
    }
    for (name, fault) in [("refuse", "refuse"), ("long-answer", "max_tokens")] {
        let step = "{ say: Now I call., call: { tool: Bash }, fault: { KIND: true } }";
        with(config, name, &format!("steps: [{}, {{ say: bye }}]", step.replace("KIND", fault)));
    }
    let slow = "delay: 30s\nsteps: [{ say: a text that has several chunks when it comes, pace: 10s }]";
    with(config, "slow", slow);
    config.model.scenario_speed = 200.0;
}

on_both! { faulty =>
    async fn a_fault_happens_as_often_as_it_says_and_then_no_more(app: App) {
        for (scenario, troubles) in [
            ("status", vec!["status 429", "status 429"]),
            ("several", vec!["status 500", "cut", "status 529"]),
            ("half", vec!["cut"]),
            ("error", vec!["error overloaded_error"]),
            ("html", vec!["content type text/html"]),
            ("broken", vec!["arguments {\"command\":\"true\", \"unfinished"]),
            ("garbage", vec!["no text"]),
            ("never", vec![]),
        ] {
            let mut client = Client::new(&app, scenario).await;
            let said = client.turn().await;
            assert_eq!(client.troubles, troubles, "{scenario}");
            assert_eq!(said.calls()[0]["input"]["command"], "true");
            client.results(&said, "ok", false, None);
            assert_eq!(client.turn().await.text(), "bye");
            assert_eq!(client.troubles, troubles, "{scenario}");
            // Another sandbox has its own.
            let mut other = Client::new(&app, scenario).await;
            other.turn().await;
            assert_eq!(other.troubles, troubles, "{scenario}");
        }
    }

    async fn a_fault_is_recorded_for_what_it_is(app: App) {
        let client = Client::new(&app, "status").await;
        let refused = client.whole().await;
        assert_eq!((refused.status.as_u16(), refused.headers["retry-after"].as_bytes()), (429, &b"1"[..]));
        assert_eq!(refused.body["error"]["type"], "rate_limit_error");
        let call = app.last_call(&client.sandbox).await;
        assert_eq!((&call["status_code"], &call["input_tokens"]), (&json!(429), &json!(0)));
        let client = Client::new(&app, "half").await;
        client.ask().await.unwrap_err();
        let call = app.last_call(&client.sandbox).await;
        assert_eq!((&call["state"], &call["status_code"], &call["estimated"]), (&json!("broken"), &json!(200), &json!(true)));
        assert_ne!(call["input_tokens"], 0);
    }

    async fn in_one_piece_faults_come_as_well(app: App) {
        for (scenario, trouble) in [("half", "cut"), ("error", "status 529"), ("html", "content type text/html")] {
            let mut client = Client { stream: false, ..Client::new(&app, scenario).await };
            client.turn().await;
            assert_eq!(client.troubles, [trouble], "{scenario}");
        }
        let mut client = Client { stream: false, ..Client::new(&app, "broken").await };
        assert!(client.turn().await.calls()[0]["input"].is_string());
    }

    async fn an_answer_without_its_calls_is_given_again_with_them(app: App) {
        for (scenario, stop, text) in [("refuse", "refusal", ""), ("long-answer", "max_tokens", "Now I")] {
            let mut client = Client::new(&app, scenario).await;
            let said = client.turn().await;
            assert_eq!((said.stop_reason.as_str(), said.text().trim()), (stop, text));
            client.messages.push(json!({ "role": "user", "content": "go on" }));
            let said = client.turn().await;
            assert_eq!((said.stop_reason.as_str(), said.calls().len()), ("tool_use", 1));
            client.results(&said, "ok", false, None);
            assert_eq!(client.turn().await.text(), "bye");
        }
    }

    async fn delays_are_divided_by_the_speed(app: App) {
        // 60 s stalled, and 30 s before the first byte with 10 s between chunks, at two hundred times the speed.
        for (scenario, least) in [("stall", 300), ("slow", 150 + 7 * 50)] {
            let client = Client::new(&app, scenario).await;
            let start = Instant::now();
            client.ask().await.unwrap();
            let taken = start.elapsed();
            assert!(taken >= Duration::from_millis(least) && taken < Duration::from_secs(8), "{scenario}: {taken:?}");
        }
        let slow = Client::new(&app, "slow").await;
        slow.ask().await.unwrap();
        let call = app.last_call(&slow.sandbox).await;
        assert!(call["first_byte_ms"].as_u64().unwrap() >= 150, "{call}");
    }
}
