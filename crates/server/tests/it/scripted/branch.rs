//! Which step follows which.

use serde_json::json;

use super::client::{Client, fast, with};
use crate::on_both;

const WAYS: &str = r#"
steps:
  - name: start
    say: "{n} of {task}"
    call: { tool: Bash, input: { command: "run {n}", nested: [{ turn: "{turn}" }], braces: "{ {{n}} {x}" } }
    repeat: 3
    when:
      - { is_error: true, result_contains: fatal, next: fatal }
      - { is_error: true, next: 3 }
      - { message_contains: stop, next: told }
      - { result_matches: '^done \d+$', next: matched }
      - { else: true, next: otherwise }
  - { name: fatal, say: "fatal: {result}", end: true }
  - { say: "an error: {result}", next: otherwise }
  - { name: told, say: "told: {message}", end: true }
  - { name: matched, say: matched }
  - { name: otherwise, say: otherwise }
"#;

fn ways(config: &mut omoi_server::config::Config) {
    fast(config);
    with(config, "ways", WAYS);
    with(config, "other", "steps: [{ call: [{ tool: A }, { tool: B, input: { b: 1 } }] }, { say: bye }]");
}

on_both! { ways =>
    async fn the_first_branch_that_fits_is_taken(app: App) {
        for (results, text) in [
            (vec![("x", false, None), ("x", false, None), ("x", false, None)], "otherwise"),
            (vec![("done 12", false, None)], "matched"),
            (vec![("x", false, None), ("done 1", false, None)], "matched"),
            (vec![("it is fatal", true, None)], "fatal: it is fatal"),
            (vec![("fatal, but not an error", false, None), ("bad", true, None)], "an error: bad"),
            (vec![("bad", true, Some("stop"))], "an error: bad"),
            (vec![("x", false, Some("please stop")), ], "told: please stop"),
            (vec![("x", false, Some("<system-reminder>stop</system-reminder>")), ("done 3", false, None)], "matched"),
        ] {
            let mut client = Client::new(&app, "ways").await;
            for (n, (result, is_error, message)) in results.iter().enumerate() {
                let said = client.turn().await;
                let n = n + 1;
                assert_eq!(said.text(), format!("{n} of Do it."));
                let input = json!({ "command": format!("run {n}"), "nested": [{ "turn": n.to_string() }],
                    "braces": "{ {n} {x}" });
                assert_eq!(said.calls()[0]["input"], input);
                client.results(&said, result, *is_error, *message);
            }
            let said = client.turn().await;
            assert_eq!((said.text().as_str(), said.stop_reason.as_str()), (text, "end_turn"));
        }
    }

    async fn a_conversation_that_goes_on_after_a_text_goes_to_the_next_step(app: App) {
        let mut client = Client::new(&app, "ways").await;
        let said = client.turn().await;
        client.results(&said, "bad", true, None);
        let mut go_on = async || {
            let text = client.turn().await.text();
            client.messages.push(json!({ "role": "user", "content": "go on" }));
            text
        };
        assert_eq!(go_on().await, "an error: bad");
        assert_eq!(go_on().await, "otherwise");
        for _ in 0..2 {
            assert_eq!(go_on().await, "The scenario ways is over; it has no further step.");
        }
        let mut client = Client::new(&app, "ways").await;
        let said = client.turn().await;
        client.results(&said, "fatal", true, None);
        for _ in 0..3 {
            assert_eq!(client.turn().await.text(), "fatal: fatal", "an end stays the end");
            client.messages.push(json!({ "role": "user", "content": "go on" }));
        }
    }

    async fn a_sub_agent_plays_what_its_first_message_says_even_when_that_is_forgotten(app: App) {
        let mut client = Client::new(&app, "binomial").await;
        client.messages[0]["content"] = json!("@scenario other\nDo something else.");
        let said = client.turn().await;
        let tools: Vec<_> = said.calls().iter().map(|call| call["name"].clone()).collect();
        assert_eq!(tools, ["A", "B"], "both in one answer");
        client.results(&said, "ok", false, None);
        client.messages[0]["content"] = json!("A summary.");
        assert_eq!(client.turn().await.text(), "bye");
        client.messages = vec![json!({ "role": "user", "content": "@scenario none" })];
        client.whole().await.refused_call(404, "not_found_error", "scenario_unknown");
    }

    async fn an_unknown_scenario_is_refused_with_the_known_ones(app: App) {
        for model in ["scripted/none", "scripted/", "scripted"] {
            let client = Client { model: model.to_owned(), ..Client::new(&app, "").await };
            let message = client.whole().await.refused_call(404, "not_found_error", "scenario_unknown");
            assert!(message.ends_with("known are binomial, circles, judge, long, loop, other, recover, soak, spec, steering, ways"), "{message}");
        }
        let client = Client { model: "scripted-model".to_owned(), ..Client::new(&app, "").await };
        client.whole().await.refused_call(403, "permission_error", "model_key_missing");
        assert_eq!(app.costs("").await["totals"]["calls"], 0, "none of them is recorded");
    }
}
