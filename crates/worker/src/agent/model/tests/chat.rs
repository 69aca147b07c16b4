//! The chat wire: what is sent, and what is read.

use omoi_protocol::{launch::Wire, outcome::Tokens};
use serde_json::{Value, json};

use super::*;
use crate::agent::model::Stop;

fn delta(delta: Value) -> Value {
    json!({ "id": "c-1", "model": "m-1", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn finish(reason: &str) -> Value {
    json!({ "id": "c-1", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn calls(deltas: Value) -> Value {
    delta(json!({ "tool_calls": deltas }))
}

/// Name and arguments of each call, and the ids.
fn called(answer: &Answer) -> (Vec<(&str, String)>, Vec<&str>) {
    let uses = answer.content.iter().filter_map(|block| match block {
        Block::ToolUse { id, name, input } => Some(((name.as_str(), input.to_string()), id.as_str())),
        _ => None,
    });
    uses.unzip()
}

#[tokio::test]
async fn a_question_is_sent_in_the_words_of_this_wire() {
    let standin = Standin::start(vec![Reply::stream(&chat_greeting())]).await;
    let thought = |text: &str, signature: &str| Block::Thinking {
        thinking: text.to_owned(),
        signature: signature.to_owned(),
    };
    let result = |id: &str, content: &str, is_error| Block::ToolResult {
        tool_use_id: id.to_owned(),
        content: content.to_owned(),
        is_error,
    };
    let call =
        |id: &str| Block::ToolUse { id: id.to_owned(), name: "Read".to_owned(), input: json!({ "a": 1 }) };
    let messages = [
        Message::user(vec![Block::text("one"), Block::text("two")]),
        Message::assistant(vec![
            thought("hm", "reasoning_content"),
            Block::text("I look"),
            call("t1"),
            call("t2"),
        ]),
        Message::user(vec![Block::text("and"), result("t1", "ok", false), result("t2", "gone", true)]),
        Message::assistant(vec![thought("a secret", ""), call("t3")]),
        Message::user(vec![result("t3", "error: no", true)]),
        Message::assistant(vec![thought("nothing to say", "reasoning_content")]),
    ];
    let tools = [tool("Read")];
    let ask = Ask { system: "be brief", tools: &tools, messages: &messages, max_tokens: 100 };
    model(Wire::Chat, &standin).ask(&ask, &mut |_| {}).await.unwrap();

    let request = standin.requests().remove(0);
    assert!(request.head.starts_with("post /chat/completions http/1.1"), "{}", request.head);
    assert!(request.head.lines().any(|line| line == "authorization: bearer the-token"), "{}", request.head);
    let function = |id: &str| json!({ "type": "function", "id": id, "function": { "name": "Read", "arguments": "{\"a\":1}" } });
    assert_eq!(
        request.body,
        json!({
            "model": "some-model", "max_tokens": 100, "stream": true, "stream_options": { "include_usage": true },
            "tools": [{ "type": "function", "function":
                { "name": "Read", "description": "does it", "parameters": { "type": "object" } } }],
            "messages": [
                { "role": "system", "content": "be brief" },
                { "role": "user", "content": "one\n\ntwo" },
                { "role": "assistant", "content": "I look", "reasoning_content": "hm",
                  "tool_calls": [function("t1"), function("t2")] },
                { "role": "tool", "tool_call_id": "t1", "content": "ok" },
                { "role": "tool", "tool_call_id": "t2", "content": "Error: gone" },
                { "role": "user", "content": "and" },
                { "role": "assistant", "content": null, "tool_calls": [function("t3")] },
                { "role": "tool", "tool_call_id": "t3", "content": "error: no" },
            ],
        })
    );
}

#[tokio::test]
async fn text_is_told_as_it_comes_and_what_was_cached_is_no_input() {
    let (answer, told) = answer_to(Wire::Chat, &chat_greeting()).await;
    assert_eq!((told.text.as_str(), answer.stop), ("Grüße", Stop::EndTurn));
    assert_eq!((answer.id.as_str(), answer.model.as_str()), ("c-1", "m-1"));
    assert_eq!(answer.content, [Block::text("Grüße")]);
    let usage = Tokens { input_tokens: 40, output_tokens: 9, cache_read_tokens: 60, cache_write_tokens: 0 };
    assert_eq!((answer.usage, &answer.raw_usage["prompt_tokens"]), (usage, &json!(100)));
}

#[tokio::test]
async fn usage_is_read_where_each_server_puts_it() {
    for (usage, input, cache_read, cache_write) in [
        (json!({ "prompt_tokens": 9, "completion_tokens": 1 }), 9, 0, 0),
        (json!({ "prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 4 }), 5, 4, 0),
        (json!({ "prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4 }), 5, 4, 0),
        (
            json!({ "prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details":
                { "cached_tokens": 4, "cache_write_tokens": 3 } }),
            2,
            4,
            3,
        ),
        (json!({ "prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": null }), 9, 0, 0),
    ] {
        let last = json!({ "choices": [], "usage": usage });
        let (answer, _) = answer_to(Wire::Chat, &chat_stream(&[finish("stop"), last])).await;
        let expected = Tokens {
            input_tokens: input,
            output_tokens: 1,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
        };
        assert_eq!(answer.usage, expected, "{usage}");
    }
}

#[tokio::test]
async fn calls_are_put_together_however_a_server_numbers_them() {
    let a = |args: &str| json!({ "arguments": args });
    let named = |name: &str, args: &str| json!({ "name": name, "arguments": args });
    for (case, deltas, expected) in [
        (
            "interleaved by number",
            vec![
                json!([{ "index": 0, "id": "t0", "function": named("Read", "") }]),
                json!([{ "index": 1, "id": "t1", "function": named("List", "{\"b\"") }]),
                json!([{ "index": 0, "function": a("{\"a\":") }, { "index": 1, "function": a(":2}") }]),
                json!([{ "index": 0, "id": "", "function": { "name": null, "arguments": "1}" } }]),
            ],
            [("Read", r#"{"a":1}"#), ("List", r#"{"b":2}"#)],
        ),
        (
            "all with the same number, told apart by their ids",
            vec![
                json!([{ "index": 0, "id": "t0", "function": named("Read", "{\"a\":1}") }]),
                json!([{ "index": 0, "id": "t1", "function": named("List", "{\"b\"") }]),
                json!([{ "index": 0, "function": a(":2}") }]),
            ],
            [("Read", r#"{"a":1}"#), ("List", r#"{"b":2}"#)],
        ),
        (
            "without numbers or ids",
            vec![
                json!([{ "function": named("Read", "{\"a\"") }]),
                json!([{ "function": a(":1}") }]),
                json!([{ "function": { "name": "List", "arguments": { "b": 2 } } }]),
            ],
            [("Read", r#"{"a":1}"#), ("List", r#"{"b":2}"#)],
        ),
        (
            "with the same id twice",
            vec![
                json!([{ "index": 0, "id": "x", "function": named("Read", "{\"a\":1}") }]),
                json!([{ "index": 1, "id": "x", "function": named("List", "{\"b\":2}") }]),
            ],
            [("Read", r#"{"a":1}"#), ("List", r#"{"b":2}"#)],
        ),
    ] {
        let mut chunks: Vec<Value> = deltas.into_iter().map(calls).collect();
        chunks.push(finish("tool_calls"));
        let (answer, _) = answer_to(Wire::Chat, &chat_stream(&chunks)).await;
        let (uses, ids) = called(&answer);
        assert_eq!(uses, expected.map(|(name, input)| (name, input.to_owned())), "{case}");
        assert!(ids.iter().all(|id| !id.is_empty()) && ids[0] != ids[1], "{case}: {ids:?}");
        assert_eq!((answer.stop, answer.broken.len()), (Stop::ToolUse, 0), "{case}");
    }
}

#[tokio::test]
async fn calls_with_arguments_that_are_no_object_are_named() {
    let body = chat_stream(&[
        calls(json!([{ "index": 0, "function": { "name": "Read", "arguments": "{\"a\": \"b" } }])),
        finish("length"),
    ]);
    let (answer, _) = answer_to(Wire::Chat, &body).await;
    let (uses, ids) = called(&answer);
    assert_eq!((uses, answer.stop.clone()), (vec![("Read", "{}".to_owned())], Stop::MaxTokens));
    assert!(answer.broken[ids[0]].contains("no valid JSON"));
}

#[tokio::test]
async fn thoughts_are_told_under_either_name_and_remember_which() {
    for (name, signature) in [("reasoning", ""), ("reasoning_content", "reasoning_content")] {
        let body = chat_stream(&[
            delta(json!({ name: "let me " })),
            delta(json!({ name: "see", "content": null })),
            delta(json!({ "content": "done", "reasoning_content": "" })),
            finish("stop"),
        ]);
        let (answer, told) = answer_to(Wire::Chat, &body).await;
        assert_eq!((told.thinking.as_str(), told.text.as_str()), ("let me see", "done"));
        let thought = Block::Thinking { thinking: "let me see".to_owned(), signature: signature.to_owned() };
        assert_eq!(answer.content, [thought, Block::text("done")]);
    }
}

#[tokio::test]
async fn every_reason_to_finish_is_known_or_kept() {
    let call = calls(json!([{ "index": 0, "id": "t0", "function": { "name": "Read", "arguments": "{}" } }]));
    let refusal = delta(json!({ "refusal": "I will not" }));
    let said = delta(json!({ "content": "x" }));
    for (chunk, reason, stop) in [
        (&said, "stop", Stop::EndTurn),
        (&call, "stop", Stop::ToolUse),
        (&call, "tool_calls", Stop::ToolUse),
        (&call, "function_call", Stop::ToolUse),
        (&refusal, "stop", Stop::Refusal),
        (&said, "length", Stop::MaxTokens),
        (&said, "content_filter", Stop::Refusal),
        (&said, "whatever", Stop::Other("whatever".to_owned())),
    ] {
        let (answer, _) = answer_to(Wire::Chat, &chat_stream(&[chunk.clone(), finish(reason)])).await;
        assert_eq!(answer.stop, stop, "{reason}");
    }
}

#[tokio::test]
async fn an_end_after_the_reason_to_finish_is_an_end_and_other_answers_are_left_out() {
    let other =
        json!({ "choices": [{ "index": 1, "delta": { "content": "other" }, "finish_reason": "length" }] });
    let body: String = [delta(json!({ "content": "x" })), other, finish("stop")]
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    let (answer, _) = answer_to(Wire::Chat, &body).await;
    assert_eq!((answer.content, answer.stop), (vec![Block::text("x")], Stop::EndTurn));
}

#[tokio::test]
async fn a_server_that_wants_the_other_word_for_the_length_gets_it_at_once_and_ever_after() {
    let text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let error = json!({ "error": { "message": text, "type": "invalid_request_error", "code": "unsupported_parameter" } });
    let refused = Reply::json("400 Bad Request", "", &error);
    let standin = Standin::start(vec![refused.clone(), Reply::stream(&chat_greeting())]).await;
    let model = model(Wire::Chat, &standin);
    for _ in 0..2 {
        let (answer, told) = ask(&model).await;
        assert_eq!((answer.unwrap().stop, told.retries), (Stop::EndTurn, vec![]));
    }
    let fields = |request: &standin::Request| {
        (request.body["max_tokens"].as_u64(), request.body["max_completion_tokens"].as_u64())
    };
    let sent: Vec<_> = standin.requests().iter().map(fields).collect();
    assert_eq!(sent, [(Some(100), None), (None, Some(100)), (None, Some(100))]);

    // One that goes on refusing is believed.
    let (error, _) = error_to(Wire::Chat, refused).await;
    assert!(matches!(error, Error::Refused { status: 400, .. }), "{error}");
}
