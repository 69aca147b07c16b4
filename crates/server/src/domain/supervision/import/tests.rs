//! Each format as its program writes it, cut down to what matters; and files that are none.

use omoi_protocol::FindingKind;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{policy::Policy, replay::replay},
    Error, Format, LineError, Run, document, read,
};

fn kinds(run: &Run) -> Vec<&str> {
    run.events.iter().map(|event| event.event_type.as_str()).collect()
}

fn found(run: Run) -> Vec<FindingKind> {
    let replayed = replay(&run.events, run.charter, &Policy::shipped());
    replayed.findings.iter().map(|finding| finding.kind).collect()
}

fn lines(list: &[Value]) -> String {
    list.iter().map(|one| format!("{one}\n")).collect()
}

fn claude(turns: &[(Value, &str, bool)], last: &str) -> String {
    let mut list = vec![
        json!({ "type": "system", "subtype": "init", "model": "m", "session_id": "s" }),
        json!({ "type": "user", "message": { "role": "user", "content": "Mend the parser" } }),
    ];
    for (number, (call, result, failed)) in turns.iter().enumerate() {
        let id = format!("toolu_{number}");
        let mut block = json!({ "type": "tool_use", "id": id });
        block.as_object_mut().unwrap().extend(call.as_object().unwrap().clone());
        let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
        list.push(json!({ "type": "assistant", "message": { "id": format!("msg_{number}"), "content": [{ "type": "text", "text": "I go on." }], "usage": usage } }));
        list.push(json!({ "type": "assistant", "message": { "id": format!("msg_{number}"), "content": [block], "usage": usage } }));
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": [{ "type": "text", "text": result }], "is_error": failed });
        list.push(json!({ "type": "user", "message": { "content": [result] } }));
    }
    list.push(json!({ "type": "result", "subtype": "success", "is_error": false, "result": last, "total_cost_usd": 0.5 }));
    lines(&list)
}

#[test]
fn claude_code_s_stream_is_read() {
    let edit =
        json!({ "name": "Edit", "input": { "file_path": "a.py", "old_string": "x", "new_string": "y" } });
    let test = json!({ "name": "Bash", "input": { "command": "pytest -q" } });
    let text = claude(&[(edit, "ok", false), (test, "1 failed", true)], "All tests pass.");
    let run = read("run.jsonl", format!("not JSON\n{text}")).unwrap();
    assert_eq!(run.format, Format::ClaudeCode);
    assert_eq!(
        kinds(&run),
        [
            "agent.started",
            "agent.user_message",
            "model.call",
            "agent.message",
            "agent.tool_use",
            "agent.tool_result",
            "agent.file_edited",
            "model.call",
            "agent.message",
            "agent.tool_use",
            "agent.tool_result",
            "agent.turn_complete",
            "agent.result",
            "agent.completed",
        ]
    );
    assert_eq!(found(run), [FindingKind::FalseClaim]);
}

#[test]
fn a_wire_log_of_claude_code_is_read() {
    let wire: Vec<Value> = claude(&[], "Done")
        .lines()
        .map(|line| json!({ "t": 1.5, "dir": "out", "m": serde_json::from_str::<Value>(line).unwrap() }))
        .collect();
    let run = read("wire.jsonl", lines(&wire)).unwrap();
    assert_eq!((run.format, run.events.len()), (Format::ClaudeCode, 5));
}

#[test]
fn a_swe_agent_trajectory_is_read() {
    let step = |action: &str, observation: &str| json!({ "thought": "I think.", "action": action, "observation": observation, "execution_time": 0.5 });
    let look = || step("find . -name parser.py", "./src/parser.py");
    let edit = step(
        "str_replace_editor str_replace /a.py --old_str 'x = 1' --new_str 'x = 2'",
        "The file /a.py has been edited.",
    );
    let back = step(
        "str_replace_editor str_replace /a.py --old_str 'x = 2' --new_str 'x = 1'",
        "The file /a.py has been edited.",
    );
    let page = json!({
        "environment": "swe_main",
        "trajectory": [look(), edit.clone(), back.clone(), edit, back, look(), look(), look(), look(), look()],
        "history": [{ "role": "system", "content": "You are…" }, { "role": "user", "content": [{ "type": "text", "text": "Mend it" }] }],
        "info": { "exit_status": "exit_cost", "model_stats": { "instance_cost": 1.25, "tokens_sent": 1000, "tokens_received": 10 } },
    });
    let run = read("x.traj", page.to_string()).unwrap();
    assert_eq!(run.format, Format::SweAgent);
    assert_eq!(kinds(&run).iter().filter(|kind| **kind == "agent.file_edited").count(), 4);
    assert_eq!(found(run), [FindingKind::EditUndo, FindingKind::RepeatedAction]);
}

#[test]
fn a_demonstration_of_swe_agent_is_read_out_of_its_conversation() {
    let said = |action: &str| json!({ "role": "assistant", "content": "I go on.", "thought": "I go on.", "action": action, "agent": "main" });
    let saw = |content: &str| json!({ "role": "tool", "content": content, "agent": "main" });
    let page = json!({ "history": [
        { "role": "system", "content": "You are…" }, { "role": "user", "content": "Mend it", "agent": "main" },
        said("open \"a.py\""), saw("[File: a.py (1 lines total)]\r\n1:x"),
        said("edit 'x' 'x:'"), saw("Text replaced.\r\n[File: /repo/a.py (1 lines total)]\r\n1:x:"),
        said("submit"), saw("diff --git a/a.py b/a.py"),
    ] });
    let run = read("demo.traj", page.to_string()).unwrap();
    assert_eq!(run.format, Format::SweAgent);
    let edited: Vec<&str> = run
        .events
        .iter()
        .filter(|event| event.event_type == "agent.file_edited")
        .map(|event| event.event_data.get())
        .collect();
    assert!(
        edited.len() == 1 && edited[0].contains("/repo/a.py") && edited[0].contains("-x\\n+x:"),
        "{edited:?}"
    );
    assert_eq!(found(run), []);
}

#[test]
fn an_openhands_trajectory_is_read() {
    let mut list = vec![
        json!({ "id": 0, "timestamp": "2025-01-01T10:00:00.000001", "source": "user", "action": "message", "args": { "content": "Mend it" } }),
    ];
    for number in 0..5 {
        let (id, cause) = (2 * number + 1, 2 * number + 1);
        list.push(json!({ "id": id, "timestamp": format!("2025-01-01T10:00:{:02}", id), "source": "agent", "action": "run",
            "args": { "command": format!("make step{number}"), "thought": "Once more." }, "llm_metrics": { "accumulated_cost": 0.1 } }));
        list.push(json!({ "id": id + 1, "source": "agent", "observation": "run", "content": "make: *** No rule to make target", "cause": cause,
            "extras": { "metadata": { "exit_code": 2 } } }));
    }
    list.push(json!({ "id": 20, "source": "agent", "action": "edit", "args": { "path": "/a.py", "command": "create", "file_text": "x = 1\n" } }));
    list.push(
        json!({ "id": 21, "source": "agent", "observation": "edit", "content": "File created", "cause": 20 }),
    );
    list.push(json!({ "id": 22, "source": "agent", "action": "finish", "args": { "final_thought": "It could not be done." } }));
    let whole = read("t.json", Value::Array(list.clone()).to_string()).unwrap();
    assert_eq!(whole.format, Format::OpenHands);
    assert!(kinds(&whole).contains(&"agent.file_edited") && kinds(&whole).ends_with(&["agent.completed"]));
    assert_eq!(found(whole), [FindingKind::SameError]);
    let of_evaluation = read("o.json", json!({ "instance_id": "x", "history": list }).to_string()).unwrap();
    assert_eq!(found(of_evaluation), [FindingKind::SameError]);
}

#[test]
fn our_own_events_are_read_with_what_was_agreed() {
    let event = |seq: i64| {
        json!({ "id": format!("evt-{seq}"), "sandbox_id": "sbx-1", "seq": seq, "event_type": "agent.file_edited",
        "event_data": { "file_path": "b.py", "change_type": "created" }, "source": "agent", "created_at": "2025-01-01T10:00:00Z" })
    };
    let text = lines(&[json!({ "run": "x", "owned_files": ["a.py"] }), event(2), event(1), event(1)]);
    let run = read("x.jsonl", &text).unwrap();
    assert_eq!(run.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(found(run), [FindingKind::Drift]);
    let page = read("page.json", json!({ "events": [event(1)], "total_count": 1 }).to_string()).unwrap();
    assert_eq!((page.format, page.events.len()), (Format::Own, 1));
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    for text in ["", "hello", "{}", "[1, 2]", "{\"a\": 1}\n{\"b\": 2}", "[]", "{\"trajectory\": 5}", "null"] {
        match read("x.json", text) {
            Err(error @ (Error::Unknown { .. } | Error::Empty { .. })) => {
                assert!(error.to_string().contains("x.json"));
            }
            Ok(run) => assert!(found(run).is_empty(), "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

/// A line of any kind: of each format, of none, cut off, or no text at all.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        json!({ "type": "system", "subtype": "init", "model": "m" }),
        json!({ "type": "assistant", "message": { "id": "m", "content": [{ "type": "text", "text": "I look." }] } }),
        json!({ "type": "user", "message": { "content": "Mend it" } }),
        json!({ "type": "assistant", "message": 5 }),
        json!({ "type": "news" }),
        json!({ "method": "session/update", "jsonrpc": "2.0", "params": { "update": { "sessionUpdate": "plan" } } }),
        json!({ "method": "item/completed", "params": { "item": { "type": "agentMessage", "id": "1", "text": "Hm" } } }),
        json!({ "event_type": "agent.message", "seq": 1 }),
        json!({ "action": "run" }),
        json!([1, 2]),
        Value::Null,
    ];
    prop_oneof![
        proptest::sample::select(known.to_vec()).prop_map(|line| line.to_string().into_bytes()),
        (proptest::sample::select(known.to_vec()), 0..40_usize).prop_map(|(line, end)| {
            let mut bytes = line.to_string().into_bytes();
            bytes.truncate(end);
            bytes
        }),
        proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

proptest! {
    #[test]
    fn every_line_is_counted_once(lines in proptest::collection::vec(any_line(), 0..30)) {
        let bytes = lines.join(&b'\n');
        let not_blank = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        let ledger = match read("x", &bytes) {
            Ok(run) => run.ledger,
            Err(error) => error.ledger().unwrap_or_else(|| panic!("{error}")).clone(),
        };
        // A file that is one JSON document is a list of records.
        if document::read(&bytes).is_none() {
            prop_assert_eq!(ledger.read, not_blank as u64);
        }
        prop_assert_eq!(ledger.read, ledger.understood + ledger.unknown + ledger.broken);
        prop_assert_eq!(ledger.unknown, ledger.unknown_kinds.values().sum::<u64>());
        prop_assert_eq!(ledger.broken, ledger.broken_causes.values().sum::<u64>());
        prop_assert!(ledger.used <= ledger.read);
    }
}

#[test]
fn files_are_named_from_the_directory_of_the_agent() {
    let root = "/home/ann/test/shop";
    let edit = json!({ "name": "Edit", "input": { "file_path": format!("{root}/src/cart.py"), "old_string": "assert a", "new_string": "b" } });
    let other = json!({ "name": "Edit", "input": { "file_path": format!("{root}/README.md"), "old_string": "a", "new_string": "b" } });
    let init = json!({ "type": "system", "subtype": "init", "cwd": root });
    let text = claude(&[(edit, "done", false), (other, "done", false)], "It is done.");
    let run = read("x.jsonl", format!("{init}\n{text}")).unwrap();
    let edited = run.events.iter().filter(|event| event.event_type == "agent.file_edited");
    let paths: Vec<Value> = edited
        .map(|event| serde_json::from_str::<Value>(event.event_data.get()).unwrap()["file_path"].clone())
        .collect();
    assert_eq!(paths, ["src/cart.py", "README.md"]);
    assert_eq!(found(run), []);
}

#[test]
fn each_line_that_is_not_understood_is_named() {
    let mut bytes = claude(&[], "Done").into_bytes();
    bytes.extend(b"{\"type\": \"news\"}\n\n{\"type\": \"news\"}\n{\"type\": \"assistant\"}\nhello\n\xff\n{\"type\": \"ass");
    let ledger = read("x.jsonl", &bytes).unwrap().ledger;
    assert_eq!((ledger.read, ledger.understood, ledger.used), (9, 3, 3));
    assert_eq!(ledger.unknown_kinds.get("news"), Some(&2));
    let causes =
        [(LineError::NotUtf8, 1), (LineError::NotJson, 1), (LineError::CutOff, 1), (LineError::Misshapen, 1)];
    assert_eq!(ledger.broken_causes, causes.into_iter().collect());
    let text = ledger.to_string();
    assert!(
        text.starts_with("9 lines read, 3 understood (3 became events), 2 unknown (news 2), 4 broken ("),
        "{text}"
    );
}

#[test]
fn events_of_ours_are_numbered_once_and_of_one_sandbox() {
    let event = |sandbox: &str, seq: i64| {
        json!({
            "id": format!("evt-{seq}"), "sandbox_id": sandbox, "seq": seq, "event_type": "agent.message", "source": "agent",
            "event_data": { "content": "I look." }, "created_at": "2026-01-01T00:00:00Z",
        })
        .to_string()
    };
    let twice = [event("sbx-1", 1), event("sbx-1", 2), event("sbx-1", 2)].join("\n");
    let run = read("x.jsonl", &twice).unwrap();
    assert_eq!(run.events.len(), 2);
    assert_eq!(run.ledger.broken_causes, [(LineError::Duplicate, 1)].into_iter().collect());
    let several = [event("sbx-1", 1), event("sbx-2", 1)].join("\n");
    let error = read("x.jsonl", &several).unwrap_err();
    assert!(matches!(error, Error::SeveralSandboxes { .. }), "{error}");
    assert!(error.to_string().contains("several sandboxes"), "{error}");
}

#[test]
fn answers_without_a_value_and_updates_of_the_wrong_shape_are_told_apart() {
    let update = |update: Value| json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "update": update } });
    let prompt = json!({ "method": "session/prompt", "id": 1, "params": { "prompt": [{ "type": "text", "text": "Mend it" }] } });
    let table = [
        (json!({ "jsonrpc": "2.0", "id": 1, "result": null }), (2, 0, 0)),
        (json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "no" } }), (2, 0, 0)),
        (json!({ "jsonrpc": "2.0", "id": 1 }), (1, 1, 0)),
        (update(json!({ "sessionUpdate": "tool_call", "toolCallId": 5 })), (1, 0, 1)),
        (update(json!({ "sessionUpdate": "news" })), (1, 1, 0)),
    ];
    for (line, counts) in table {
        let ledger = read("x.jsonl", format!("{prompt}\n{line}\n")).unwrap().ledger;
        assert_eq!((ledger.understood, ledger.unknown, ledger.broken), counts, "{line}");
    }
}

#[test]
fn a_file_in_which_nothing_is_understood_is_refused_with_its_account() {
    let error = read("x.log", "{\"level\": \"info\", \"text\": \"up\"}\nhello\n").unwrap_err().to_string();
    for part in [
        "x.log is not a recording in a known format",
        "2 lines read, 0 understood",
        "1 unknown",
        "1 broken (not JSON 1)",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_session_of_the_agent_client_protocol_is_read() {
    let update = |update: Value| json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let list = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": { "prompt": [text("Mend the parser")] } }),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": text("I run ") })),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": text("the tests.") })),
        update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "kind": "execute", "status": "pending", "title": "pytest -q", "rawInput": {} }),
        ),
        update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress", "rawInput": { "command": "pytest -q" } }),
        ),
        update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "rawOutput": { "output": "1 failed", "metadata": { "exit": 1 } } }),
        ),
        update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": "2", "kind": "edit", "status": "in_progress", "title": "a.py", "content": [{ "type": "diff", "path": "/w/a.py", "oldText": "x\nkeep\n", "newText": "y\nkeep\n" }] }),
        ),
        update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "2", "status": "completed" })),
        update(json!({ "sessionUpdate": "dreams" })),
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": text("All tests pass.") })),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "stopReason": "end_turn" } }),
    ];
    let run = read("acp.jsonl", lines(&list)).unwrap();
    assert_eq!((run.format, run.ledger.read, run.ledger.understood), (Format::Acp, 11, 10));
    assert_eq!(run.ledger.unknown_kinds.keys().collect::<Vec<_>>(), ["session/update/dreams"]);
    let kinds = kinds(&run);
    assert_eq!(
        kinds,
        [
            "agent.started",
            "agent.user_message",
            "agent.message",
            "agent.tool_use",
            "agent.tool_result",
            "agent.tool_use",
            "agent.tool_result",
            "agent.file_edited",
            "agent.message",
            "agent.turn_complete",
            "agent.result",
        ]
    );
    let edited = run.events.iter().find(|event| event.event_type == "agent.file_edited").unwrap();
    assert!(edited.event_data.get().contains("-x\\n+y\\n\""), "{}", edited.event_data.get());
    assert_eq!(found(run), [FindingKind::FalseClaim]);
}

#[test]
fn codex_is_read_from_its_server_its_events_and_its_rollouts() {
    let items = |started: bool| {
        let run = json!({ "type": "commandExecution", "id": "1", "command": "/bin/bash -lc 'cargo test'", "status": "failed", "aggregatedOutput": "test result: FAILED", "exitCode": 101 });
        let edit = json!({ "type": "fileChange", "id": "2", "status": "completed", "changes": [{ "path": "src/a.rs", "kind": { "type": "update" }, "diff": "@@ -1 +1 @@\n-a\n+b\n" }] });
        let said = json!({ "type": "agentMessage", "id": "3", "text": "All tests pass." });
        if started { vec![run, edit] } else { vec![run, edit, said] }
    };
    let method = |method: &str, params: Value| json!({ "method": method, "params": params });
    let mut server = vec![method("turn/start", json!({ "input": [{ "type": "text", "text": "Mend it" }] }))];
    server.extend(items(true).into_iter().map(|item| method("item/started", json!({ "item": item }))));
    server.extend(items(false).into_iter().map(|item| method("item/completed", json!({ "item": item }))));
    server.push(method("turn/completed", json!({ "turn": { "status": "completed" } })));

    let snake = |item: Value| -> Value {
        let text = item
            .to_string()
            .replace("commandExecution", "command_execution")
            .replace("fileChange", "file_change");
        let text =
            text.replace("agentMessage", "agent_message").replace("aggregatedOutput", "aggregated_output");
        serde_json::from_str(&text.replace("exitCode", "exit_code")).unwrap()
    };
    let mut exec = vec![json!({ "type": "thread.started", "thread_id": "t" })];
    exec.extend(items(true).into_iter().map(|item| json!({ "type": "item.started", "item": snake(item) })));
    exec.extend(
        items(false).into_iter().map(|item| json!({ "type": "item.completed", "item": snake(item) })),
    );
    exec.push(json!({ "type": "turn.completed", "usage": { "input_tokens": 10, "output_tokens": 1 } }));

    let item = |payload: Value| json!({ "timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": payload });
    let patch = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-a\n+b\n*** End Patch";
    let rollout = [
        json!({ "timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": { "id": "t" } }),
        item(
            json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Mend it" }] }),
        ),
        item(
            json!({ "type": "function_call", "name": "shell", "call_id": "1", "arguments": "{\"command\":[\"bash\",\"-lc\",\"cargo test\"]}" }),
        ),
        item(
            json!({ "type": "function_call_output", "call_id": "1", "output": "{\"output\":\"test result: FAILED\",\"metadata\":{\"exit_code\":101}}" }),
        ),
        item(json!({ "type": "custom_tool_call", "name": "apply_patch", "call_id": "2", "input": patch })),
        item(json!({ "type": "custom_tool_call_output", "call_id": "2", "output": "ok" })),
        item(
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "All tests pass." }] }),
        ),
    ];
    let bare: Vec<Value> = rollout[1..].iter().map(|line| line["payload"].clone()).collect();
    for (name, text) in [
        ("server", lines(&server)),
        ("exec", lines(&exec)),
        ("rollout", lines(&rollout)),
        ("old", lines(&bare)),
    ] {
        let run = read(name, text).unwrap();
        assert_eq!((run.format, run.ledger.unknown, run.ledger.broken), (Format::Codex, 0, 0), "{name}");
        let edited: Vec<_> =
            run.events.iter().filter(|event| event.event_type == "agent.file_edited").collect();
        assert!(edited.len() == 1 && edited[0].event_data.get().contains("-a\\n+b"), "{name}: {edited:?}");
        assert_eq!(found(run), [FindingKind::FalseClaim], "{name}");
    }
}
