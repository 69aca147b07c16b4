//! Each format as its program writes it, cut down to what matters; and files that are none.

use omoi_protocol::FindingKind;
use serde_json::{Value, json};

use super::{super::policy::Policy, super::replay::replay, Error, Format, Run, read};

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
    let run = read("run.jsonl", &format!("not JSON\n{text}")).unwrap();
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
    let run = read("wire.jsonl", &lines(&wire)).unwrap();
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
    let run = read("x.traj", &page.to_string()).unwrap();
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
    let run = read("demo.traj", &page.to_string()).unwrap();
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
    let whole = read("t.json", &Value::Array(list.clone()).to_string()).unwrap();
    assert_eq!(whole.format, Format::OpenHands);
    assert!(kinds(&whole).contains(&"agent.file_edited") && kinds(&whole).ends_with(&["agent.completed"]));
    assert_eq!(found(whole), [FindingKind::SameError]);
    let of_evaluation = read("o.json", &json!({ "instance_id": "x", "history": list }).to_string()).unwrap();
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
    let page = read("page.json", &json!({ "events": [event(1)], "total_count": 1 }).to_string()).unwrap();
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
