//! The Messages wire: what is sent, and what is read.

use omoi_protocol::{launch::Wire, outcome::Tokens};
use serde_json::{Value, json};

use super::*;
use crate::agent::model::Stop;

fn open(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stream(blocks: &[Value], reason: &str) -> String {
    let ends = message_end(reason);
    let events: Vec<Value> = [&[message_start()], blocks, &ends].concat();
    messages_stream(&events)
}

#[tokio::test]
async fn a_question_is_sent_as_the_vendor_wants_it_with_marks_for_its_cache() {
    let standin = Standin::start(vec![Reply::stream(&greeting())]).await;
    let messages = [
        Message::user(vec![Block::text("do it"), Block::text("  ")]),
        Message::assistant(vec![
            Block::Thinking { thinking: "hm".to_owned(), signature: "sig".to_owned() },
            Block::Thinking { thinking: "not theirs".to_owned(), signature: String::new() },
            Block::RedactedThinking { data: "xyz".to_owned() },
            Block::ToolUse { id: "t1".to_owned(), name: "fs.Read".to_owned(), input: json!({ "a": 1 }) },
        ]),
        Message::assistant(vec![Block::text("\n")]),
        Message::user(vec![
            Block::ToolResult { tool_use_id: "t1".to_owned(), content: "no".to_owned(), is_error: true },
            Block::text("go on"),
        ]),
    ];
    let tools = [tool("Read"), tool("Bash")];
    let ask = Ask { system: "be brief", tools: &tools, messages: &messages, max_tokens: 100 };
    model(Wire::Messages, &standin).ask(&ask, &mut |_| {}).await.unwrap();

    let request = standin.requests().remove(0);
    assert!(request.head.starts_with("post /v1/messages http/1.1"), "{}", request.head);
    for line in ["x-api-key: the-token", "anthropic-version: 2023-06-01", "content-type: application/json"] {
        assert!(request.head.lines().any(|header| header == line), "{line}: {}", request.head);
    }
    let mark = json!({ "type": "ephemeral" });
    let schema = json!({ "type": "object" });
    assert_eq!(
        request.body,
        json!({
            "model": "some-model", "max_tokens": 100, "stream": true,
            "system": [{ "type": "text", "text": "be brief", "cache_control": mark }],
            "tools": [
                { "name": "Read", "description": "does it", "input_schema": schema },
                { "name": "Bash", "description": "does it", "input_schema": schema, "cache_control": mark },
            ],
            "messages": [
                { "role": "user", "content": [{ "type": "text", "text": "do it" }] },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "hm", "signature": "sig" },
                    { "type": "redacted_thinking", "data": "xyz" },
                    { "type": "tool_use", "id": "t1", "name": "fs_Read", "input": { "a": 1 } },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": true },
                    { "type": "text", "text": "go on", "cache_control": mark },
                ] },
            ],
        })
    );
}

#[tokio::test]
async fn text_is_told_as_it_comes_and_usage_is_merged() {
    let (answer, told) = answer_to(Wire::Messages, &greeting()).await;
    assert_eq!(told.text, "Grüße");
    assert_eq!((answer.id.as_str(), answer.model.as_str()), ("msg_1", "m-1"));
    assert_eq!(answer.content, [Block::text("Grüße")]);
    assert_eq!(answer.stop, Stop::EndTurn);
    let usage = Tokens { input_tokens: 25, output_tokens: 15, cache_read_tokens: 7, cache_write_tokens: 40 };
    assert_eq!(answer.usage, usage);
    assert_eq!(
        (&answer.raw_usage["output_tokens"], &answer.raw_usage["service_tier"]),
        (&json!(15), &json!("standard"))
    );
    assert!(answer.broken.is_empty());
}

#[tokio::test]
async fn thoughts_calls_and_text_become_blocks_in_their_order() {
    let body = stream(
        &[
            open(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
            delta(0, json!({ "type": "thinking_delta", "thinking": "let me " })),
            delta(0, json!({ "type": "thinking_delta", "thinking": "see" })),
            delta(0, json!({ "type": "signature_delta", "signature": "sig" })),
            open(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
            open(2, json!({ "type": "text", "text": "" })),
            open(3, json!({ "type": "text", "text": "I " })),
            delta(3, json!({ "type": "text_delta", "text": "look" })),
            open(
                4,
                json!({ "type": "tool_use", "id": "t1", "name": "Read", "input": {}, "caller": { "type": "x" } }),
            ),
            open(5, json!({ "type": "tool_use", "id": "t2", "name": "List", "input": {} })),
            delta(4, json!({ "type": "input_json_delta", "partial_json": "" })),
            delta(4, json!({ "type": "input_json_delta", "partial_json": "{\"path\":" })),
            delta(4, json!({ "type": "input_json_delta", "partial_json": "\"a\"}" })),
            open(6, json!({ "type": "tool_use", "id": "t3", "name": "Given", "input": { "b": 2 } })),
        ],
        "tool_use",
    );
    let (answer, told) = answer_to(Wire::Messages, &body).await;
    let call =
        |id: &str, name: &str, input| Block::ToolUse { id: id.to_owned(), name: name.to_owned(), input };
    assert_eq!(
        answer.content,
        [
            Block::Thinking { thinking: "let me see".to_owned(), signature: "sig".to_owned() },
            Block::RedactedThinking { data: "xyz".to_owned() },
            Block::text("I look"),
            call("t1", "Read", json!({ "path": "a" })),
            call("t2", "List", json!({})),
            call("t3", "Given", json!({ "b": 2 })),
        ]
    );
    assert_eq!((told.text.as_str(), told.thinking.as_str()), ("I look", "let me see"));
    assert_eq!(answer.stop, Stop::ToolUse);
}

#[tokio::test]
async fn what_is_unknown_is_skipped() {
    let body = stream(
        &[
            json!({ "type": "something_new", "index": 7 }),
            open(0, json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} })),
            delta(0, json!({ "type": "input_json_delta", "partial_json": "{" })),
            open(1, json!({ "type": "text", "text": "", "citations": [] })),
            delta(1, json!({ "type": "citations_delta", "citation": {} })),
            delta(1, json!({ "type": "text_delta", "text": "yes" })),
            delta(1, json!({ "type": "input_json_delta", "partial_json": "?" })),
        ],
        "end_turn",
    );
    let body = format!(": a comment\n\nid: 3\nretry: 1\n\n{body}");
    let (answer, _) = answer_to(Wire::Messages, &body).await;
    assert_eq!(answer.content, [Block::text("yes")]);
}

#[tokio::test]
async fn calls_with_arguments_that_are_no_object_are_named() {
    let call = |index: u64| {
        open(index, json!({ "type": "tool_use", "id": format!("t{index}"), "name": "Read", "input": {} }))
    };
    let json_of =
        |index: u64, text: &str| delta(index, json!({ "type": "input_json_delta", "partial_json": text }));
    let body = stream(
        &[call(0), json_of(0, r#"{"path": "a"#), call(1), json_of(1, "[1]"), call(2), json_of(2, "{}")],
        "max_tokens",
    );
    let (answer, _) = answer_to(Wire::Messages, &body).await;
    assert_eq!(answer.stop, Stop::MaxTokens);
    assert_eq!(answer.broken.keys().collect::<Vec<_>>(), ["t0", "t1"]);
    assert!(answer.broken["t0"].contains("no valid JSON") && answer.broken["t1"].contains("no object"));
    for block in &answer.content {
        assert!(matches!(block, Block::ToolUse { input, .. } if *input == json!({})), "{block:?}");
    }
}

#[tokio::test]
async fn every_reason_to_stop_is_known_or_kept_and_nothing_is_an_answer_too() {
    for (reason, stop) in [
        ("end_turn", Stop::EndTurn),
        ("stop_sequence", Stop::EndTurn),
        ("tool_use", Stop::ToolUse),
        ("max_tokens", Stop::MaxTokens),
        ("refusal", Stop::Refusal),
        ("pause_turn", Stop::PauseTurn),
        ("model_context_window_exceeded", Stop::ContextExceeded),
        ("whatever_comes", Stop::Other("whatever_comes".to_owned())),
    ] {
        let (answer, _) = answer_to(Wire::Messages, &stream(&[], reason)).await;
        assert_eq!((answer.stop, answer.content), (stop, vec![]));
    }
}

#[tokio::test]
async fn any_cut_into_pieces_and_any_line_ends_give_the_same_answer() {
    let (plain, _) = answer_to(Wire::Messages, &greeting()).await;
    let returns = greeting().replace('\n', "\r\n");
    for reply in
        [Reply::stream(&greeting()).in_pieces(), Reply::stream(&returns), Reply::stream(&returns).in_pieces()]
    {
        let standin = Standin::start(vec![reply]).await;
        let (answer, told) = ask(&model(Wire::Messages, &standin)).await;
        assert_eq!((answer, told.text.as_str()), (Ok(plain.clone()), "Grüße"));
    }
}
