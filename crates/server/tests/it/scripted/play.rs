//! Whole conversations, and what the server keeps of them.

use serde_json::{Value, json};

use super::client::{Client, fast, with};
use crate::{
    app::{App, answer},
    on_both,
};

const NUMBER: &str = "126410606437752";

fn dear(config: &mut omoi_server::config::Config) {
    fast(config);
    let text = "price: { input: 1, output: 1000 }\nsteps:\n  - say: 0123456789abcdef\n    end: true\n";
    with(config, "dear", text);
}

on_both! { fast =>
    async fn the_binomial_coefficient_is_computed_with_real_tools_without_a_key(app: App) {
        for stream in [true, false] {
            let mut client = Client { stream, ..Client::new(&app, "binomial").await };
            let last = client.play().await;
            assert!(last.contains(NUMBER), "{last}");
            let program = std::fs::read_to_string(client.dir.path().join("binomial.py")).unwrap();
            assert!(program.contains("result = result * (n - i + 1) // i"), "{program}");
            assert_eq!(client.messages.len(), 10, "write, check, edit, run, end");
            assert_eq!(client.troubles, Vec::<String>::new());
        }
    }

    async fn every_answer_is_metered_and_recorded_as_any_other(app: App) {
        let mut client = Client::new(&app, "binomial").await;
        client.play().await;
        let calls = app.pages(&format!("/api/v1/costs?sandbox_id={}", client.sandbox.id), 10).await;
        assert_eq!(calls.len(), 5);
        for call in &calls {
            let fixed = json!({ "vendor": "anthropic", "model": "scripted/binomial", "state": "done",
                "status_code": 200, "estimated": false, "cost_usd": 0.0 });
            for (field, value) in fixed.as_object().unwrap() {
                assert_eq!(&call[field], value, "{field} of {call}");
            }
            // Four bytes a token, and what was in the request before comes from the cache.
            let number = |field: &str| call[field].as_u64().unwrap();
            let read = number("input_tokens") + number("cache_read_tokens");
            assert!(read.abs_diff(number("request_bytes").div_ceil(4)) <= 1, "{call}");
            assert!(number("output_tokens") > 5, "{call}");
        }
        let cached: Vec<bool> = calls.iter().map(|call| call["cache_read_tokens"] != 0).collect();
        assert_eq!(cached, [true, true, true, true, false], "newest first");
        let told = app.events_of(&client.sandbox, "model.call").await;
        let stops: Vec<_> = told.iter().map(|call| call["stop_reason"].as_str().unwrap()).collect();
        assert_eq!(stops, ["tool_use", "tool_use", "tool_use", "tool_use", "end_turn"]);
    }

    async fn a_command_that_fails_and_a_model_that_fails_are_both_overcome(app: App) {
        let mut client = Client::new(&app, "recover").await;
        let last = client.play().await;
        assert!(last.contains("it works"), "{last}");
        assert_eq!(client.troubles, ["status 529", "cut"]);
    }

    async fn a_message_steers_what_is_done(app: App) {
        let mut client = Client::new(&app, "steering").await;
        for n in 1..=4 {
            let said = client.turn().await;
            assert_eq!(said.calls()[0]["input"]["command"], format!("sleep 0.001 && echo \"step {n}\""));
            client.results(&said, "ok", false, (n == 4).then_some("Paint it blue."));
        }
        let last = client.play().await;
        assert!(last.contains("Paint it blue."), "{last}");
        let answer = std::fs::read_to_string(client.dir.path().join("answer.txt")).unwrap();
        assert_eq!(answer, "Paint it blue.\n");
    }

    async fn two_thousand_turns_are_counted_though_the_beginning_is_forgotten(app: App) {
        let mut client = Client::new(&app, "long").await;
        for turn in (1..=60).chain(1997..=2000) {
            if turn == 1997 {
                // What lies between is as good as forgotten too: the last call says where it was.
                client.messages.truncate(1);
                let call = json!({ "type": "tool_use", "id": "toolu_long_1_1996_1996_0_x", "name": "Bash", "input": {} });
                client.messages.push(json!({ "role": "assistant", "content": [call] }));
            }
            let said = client.turn().await;
            assert_eq!(said.calls()[0]["input"]["command"], format!("echo \"turn {turn}\""));
            client.results(&said, "ok", false, None);
            if client.messages.len() > 20 {
                client.messages.drain(1..17);
                client.messages[0] = json!({ "role": "user", "content": "A summary of what was before." });
            }
        }
        assert_eq!(client.turn().await.text(), "All 2000 turns are done.");
    }

    async fn the_same_call_is_made_for_ever(app: App) {
        let mut client = Client::new(&app, "loop").await;
        let mut ids = std::collections::HashSet::new();
        for _ in 0..100 {
            let said = client.turn().await;
            let call = said.calls()[0].clone();
            assert_eq!(call["input"]["command"], "echo nothing new");
            assert!(ids.insert(call["id"].as_str().unwrap().to_owned()), "ids are never the same");
            client.results(&said, "nothing new", false, None);
        }
    }

    async fn half_an_hour_of_steps_comes_to_its_end(app: App) {
        let mut client = Client::new(&app, "soak").await;
        // As near the end as a conversation says it is.
        let id = "toolu_soak_4_1_1796_0_x";
        let call = json!({ "type": "tool_use", "id": id, "name": "Bash", "input": {} });
        client.messages.push(json!({ "role": "assistant", "content": [call] }));
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" });
        client.messages.push(json!({ "role": "user", "content": [result] }));
        let mut tools = Vec::new();
        loop {
            let said = client.turn().await;
            if said.stop_reason != "tool_use" {
                assert!(said.text().contains("1801 turns"), "{}", said.text());
                break;
            }
            tools.extend(said.calls().iter().map(|call| call["name"].as_str().unwrap().to_owned()));
            client.results(&said, "ok", false, None);
        }
        assert_eq!(tools, ["Write", "Bash", "Glob", "Grep", "Bash"]);
    }

    async fn a_request_without_tools_gets_a_summary_and_its_tokens_are_counted(app: App) {
        let mut client = Client::new(&app, "binomial").await;
        let said = client.turn().await;
        client.work(&said);
        let mut body = client.body();
        body["stream"] = false.into();
        body.as_object_mut().unwrap().remove("tools");
        let summary = app.ask(&client.sandbox, &body).await.expect(200);
        assert_eq!((&summary["stop_reason"], &summary["content"][1]), (&json!("end_turn"), &Value::Null));
        let text = summary["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Summary: ") && text.contains("step 3 of 7 (check) is next"), "{text}");
        let count = app.model_request(&client.sandbox.token, "/anthropic/v1/messages/count_tokens");
        let counted = answer(count.json(&body)).await.expect(200);
        assert_eq!(counted["input_tokens"], body.to_string().len().div_ceil(4));
    }

    async fn chat_completions_play_the_same_scenario(app: App) {
        let sandbox = app.sandbox_with_task().await;
        let mut messages = vec![json!({ "role": "system", "content": "s" }), json!({ "role": "user", "content": "go" })];
        let mut tools = Vec::new();
        for result in ["written", "252", "changed", NUMBER] {
            let body = json!({ "model": "scripted/binomial", "messages": messages, "tools": [{}] });
            let url = format!("{}/model/openai/v1/chat/completions", app.base);
            let completion = answer(app.http.post(url).bearer_auth(&sandbox.token).json(&body)).await.expect(200);
            let choice = &completion["choices"][0];
            assert_eq!(choice["finish_reason"], "tool_calls");
            let call = &choice["message"]["tool_calls"][0];
            let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            tools.push((call["function"]["name"].clone(), arguments["command"].clone()));
            messages.push(choice["message"].clone());
            messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": result }));
        }
        assert_eq!(tools[3], (json!("Bash"), json!("python3 binomial.py 50 25")));
        let body = json!({ "model": "scripted/binomial", "messages": messages, "tools": [{}], "stream": true });
        let url = format!("{}/model/openai/v1/chat/completions", app.base);
        let text = answer(app.http.post(url).bearer_auth(&sandbox.token).json(&body)).await.expect(200);
        let lines: Vec<&str> = text.as_str().unwrap().split_terminator("\n\n").collect();
        assert_eq!(lines.last(), Some(&"data: [DONE]"));
        let chunks = lines[..lines.len() - 1].iter().map(|line| line.strip_prefix("data: ").unwrap());
        let chunks: Vec<Value> = chunks.map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
        let said = |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        let said: String = chunks.iter().filter_map(said).collect();
        assert!(said.contains(NUMBER), "{said}");
        let call = app.last_call(&sandbox).await;
        assert_eq!((&call["stop_reason"], &call["estimated"]), (&json!("stop"), &json!(false)));
        assert_eq!(call["output_tokens"], chunks.last().unwrap()["usage"]["completion_tokens"]);
    }
}

on_both! { dear =>
    async fn a_scenario_with_a_price_is_stopped_by_the_budget(app: App) {
        let project = app.project("p").await;
        let config = json!({ "execution_config": { "max_total_cost_usd": 0.005 } });
        let task = app.task(&project, config).await;
        let sandbox = app.attached_to(&task).await;
        let client = Client { sandbox: sandbox.clone(), ..Client::new(&app, "dear").await };
        client.ask().await.unwrap();
        let call = app.last_call(&sandbox).await;
        // Sixteen bytes are four tokens, at a tenth of a cent.
        assert_eq!(call["output_tokens"], 4);
        let cost = 0.004 + call["input_tokens"].as_f64().unwrap() / 1e6;
        assert!((call["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9, "{call}");
        client.ask().await.unwrap();
        client.whole().await.refused_call(403, "permission_error", "budget_exceeded");
        assert_eq!(app.events_of(&sandbox, "budget.exceeded").await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_in_the_middle_goes_on_where_it_was() {
    let mut app = App::start_with(crate::app::On::Sqlite, fast).await;
    let mut client = Client::new(&app, "binomial").await;
    for _ in 0..2 {
        let said = client.turn().await;
        client.work(&said);
    }
    let Client { sandbox, messages, dir, .. } = client;
    app.restart().await;
    let mut client = Client { sandbox, messages, dir, ..Client::new(&app, "binomial").await };
    let said = client.turn().await;
    assert_eq!(said.calls()[0]["name"], "Edit");
    client.work(&said);
    assert!(client.play().await.contains(NUMBER));
}
