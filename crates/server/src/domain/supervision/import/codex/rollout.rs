//! Rollouts: what Codex keeps of a thread, one `{timestamp, type, payload}` per line; older ones hold the items alone.

use omoi_protocol::event::FileChange;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{
    ledger::{LineError, Verdict},
    make::Make,
};

const KINDS: [&str; 7] =
    ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "state", "world_state"];

/// Items of older rollouts, which stand alone.
const ITEMS: [&str; 6] = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
];

/// Whether a record is a line of a rollout.
pub fn knows(body: &Value) -> bool {
    let kind = body.get("type").and_then(Value::as_str).unwrap_or_default();
    KINDS.contains(&kind) && body.get("payload").is_some()
        || ITEMS.contains(&kind) && body.get("event_type").is_none()
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        role: String,
        #[serde(default)]
        content: Vec<Part>,
    },
    FunctionCall {
        name: String,
        #[serde(default)]
        arguments: String,
        call_id: String,
    },
    CustomToolCall {
        name: String,
        #[serde(default)]
        input: String,
        call_id: String,
    },
    LocalShellCall {
        call_id: Option<String>,
        action: Action,
    },
    FunctionCallOutput {
        call_id: String,
        output: Value,
    },
    CustomToolCallOutput {
        call_id: String,
        output: Value,
    },
    Reasoning,
    WebSearchCall,
    GhostSnapshot,
    Compaction,
    ContextCompaction,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Action {
    #[serde(default)]
    command: Vec<String>,
}

/// How a command is written: as words or as a text.
#[derive(Deserialize)]
struct Shell {
    #[serde(alias = "cmd")]
    command: Words,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    List(Vec<String>),
    Text(String),
}

#[derive(Default)]
pub struct Rollout {
    has_begun: bool,
    /// Patches that are applied when their result is good.
    patches: Vec<(String, String)>,
    said: String,
}

impl Rollout {
    pub fn record(&mut self, body: &Value, make: &mut Make) -> Verdict {
        let payload = &body["payload"];
        match body["type"].as_str().unwrap_or_default() {
            "session_meta" if !std::mem::replace(&mut self.has_begun, true) => make.started("codex", None),
            "response_item" => return self.item(payload, make),
            item if ITEMS.contains(&item) => return self.item(body, make),
            "event_msg" => self.event(payload, make),
            _ => {}
        }
        Verdict::Understood
    }

    pub fn end(&mut self, make: &mut Make) {
        if !self.said.is_empty() {
            make.halted(&std::mem::take(&mut self.said));
        }
    }

    /// Events repeat items; only what the items do not tell is taken from them.
    fn event(&mut self, payload: &Value, make: &mut Make) {
        match payload["type"].as_str() {
            Some("turn_aborted") => make.interrupted(),
            Some("task_complete") => make.halted(&std::mem::take(&mut self.said)),
            Some("token_count") => {
                let last = &payload["info"]["last_token_usage"];
                let tokens = |key: &str| last[key].as_u64().unwrap_or(0);
                if last.is_object() {
                    let input = tokens("input_tokens").saturating_sub(tokens("cached_input_tokens"));
                    make.spent(input, tokens("output_tokens"), 0.0);
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, payload: &Value, make: &mut Make) -> Verdict {
        let Ok(item) = Item::deserialize(payload) else { return Verdict::Broken(LineError::Misshapen) };
        match item {
            Item::Message { role, content } => {
                let parts = || content.iter().filter_map(|part| part.text.as_deref());
                match role.as_str() {
                    "user" => make.told_in_parts(parts()),
                    "assistant" => {
                        let text = parts().collect::<Vec<_>>().join("\n");
                        make.said(&text, None);
                        self.said = text;
                    }
                    _ => {}
                }
            }
            Item::FunctionCall { name, arguments, call_id } => self.call(&name, &arguments, &call_id, make),
            Item::CustomToolCall { name, input, call_id } => self.call(&name, &input, &call_id, make),
            Item::LocalShellCall { call_id, action } => {
                let id = call_id.unwrap_or_default();
                make.call("Bash", &id, &json!({ "command": of_words(action.command) }), None);
            }
            Item::FunctionCallOutput { call_id, output } | Item::CustomToolCallOutput { call_id, output } => {
                self.output(&call_id, &output, make);
            }
            Item::Reasoning
            | Item::WebSearchCall
            | Item::GhostSnapshot
            | Item::Compaction
            | Item::ContextCompaction => {}
            Item::Other => {
                return Verdict::Unknown(format!("response_item/{}", super::super::kind_of(payload)));
            }
        }
        Verdict::Understood
    }

    fn call(&mut self, name: &str, input: &str, id: &str, make: &mut Make) {
        let command = serde_json::from_str::<Shell>(input).ok().map(|shell| match shell.command {
            Words::List(words) => of_words(words),
            Words::Text(text) => text,
        });
        let patch = match &command {
            Some(command) if command.contains("*** Begin Patch") => Some(command.as_str()),
            None if name == "apply_patch" => Some(input),
            _ => None,
        };
        match (patch, &command) {
            (Some(patch), _) => {
                make.call("Edit", id, &json!({ "patch": patch }), None);
                self.patches.push((id.to_owned(), patch.to_owned()));
            }
            (None, Some(command)) => make.call("Bash", id, &json!({ "command": command }), None),
            (None, None) => {
                let input = serde_json::from_str(input).unwrap_or_else(|_| json!({ "input": input }));
                make.call(name, id, &input, None);
            }
        }
    }

    fn output(&mut self, id: &str, output: &Value, make: &mut Make) {
        // A text of JSON with the output and its exit code, or a plain text that begins with it.
        let text = output.as_str().or_else(|| output["content"].as_str()).unwrap_or_default();
        let parsed: Option<Value> = serde_json::from_str(text).ok().filter(Value::is_object);
        let told = parsed.as_ref().and_then(|parsed| parsed["output"].as_str()).unwrap_or(text);
        let code = parsed.as_ref().and_then(|parsed| parsed["metadata"]["exit_code"].as_i64());
        let said =
            |mark: &str| text.lines().take(6).find_map(|line| line.split_once(mark)?.1.trim().parse().ok());
        let code = code.or_else(|| said("Exit code:")).or_else(|| said("exited with code"));
        let failed = code.is_some_and(|code: i64| code != 0) || output["success"] == false;
        make.result(id, told, failed);
        if let Some(at) = self.patches.iter().position(|(known, _)| known == id) {
            let (_, patch) = self.patches.swap_remove(at);
            if !failed {
                apply(&patch, make);
            }
        }
    }
}

/// The words of `bash -lc TEXT` are its text.
fn of_words(words: Vec<String>) -> String {
    match words.as_slice() {
        [shell, flag, script] if shell.ends_with("sh") && matches!(flag.as_str(), "-lc" | "-c") => {
            script.clone()
        }
        _ => words.join(" "),
    }
}

/// Tells of each file in a patch: `*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH`. A file that is
/// updated may get a new path: `*** Move to: PATH`.
fn apply(patch: &str, make: &mut Make) {
    let body = patch.split_once("*** Begin Patch").map_or(patch, |(_, body)| body);
    let body = body.split_once("*** End Patch").map_or(body, |(body, _)| body);
    let mut sections = body.split("\n*** ").skip(1).peekable();
    while let Some(section) = sections.next() {
        let (head, diff) = section.split_once('\n').unwrap_or((section, ""));
        let Some((verb, mut path)) = head.split_once(" File: ") else { continue };
        let change = match verb {
            "Add" => FileChange::Created,
            "Delete" => FileChange::Deleted,
            _ => FileChange::Modified,
        };
        let mut diff = diff.to_owned();
        while let Some(more) = sections.next_if(|more| !more.lines().next().unwrap_or("").contains(" File: "))
        {
            let (head, rest) = more.split_once('\n').unwrap_or((more, ""));
            path = head.strip_prefix("Move to: ").unwrap_or(path);
            if !diff.is_empty() && !diff.ends_with('\n') {
                diff.push('\n');
            }
            diff.push_str(rest);
        }
        make.patched(path.trim(), change, &diff);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[Value]) -> Vec<Value> {
        let (mut rollout, mut make) = (Rollout::default(), Make::new());
        lines.iter().for_each(|line| assert_eq!(rollout.record(line, &mut make), Verdict::Understood));
        let told = |event: &omoi_protocol::event::StoredEvent| {
            json!([event.event_type, serde_json::from_str::<Value>(event.event_data.get()).unwrap()])
        };
        make.done().iter().map(told).collect()
    }

    #[test]
    fn the_rules_of_a_project_are_not_the_task() {
        let user = |texts: &[&str]| {
            let content: Vec<Value> =
                texts.iter().map(|text| json!({ "type": "input_text", "text": text })).collect();
            json!({ "type": "response_item", "payload": { "type": "message", "role": "user", "content": content } })
        };
        let rules = "# AGENTS.md instructions for /work/shop\n\nNever touch a.py.";
        for lines in [vec![user(&[rules]), user(&["Mend the sum"])], vec![user(&[rules, "Mend the sum"])]] {
            let events = read(&lines);
            let goals: Vec<&Value> = events.iter().filter(|event| event[0] == "agent.user_message").collect();
            assert_eq!(goals.len(), 1, "{events:?}");
            assert_eq!(goals[0][1]["content"], "Mend the sum");
        }
    }

    #[test]
    fn a_file_that_is_moved_keeps_its_changes() {
        let patch = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@ def f():\n-x\n+y\n*** End of File\n\
                     *** Add File: c.py\n+z\n*** End Patch";
        let mut make = Make::new();
        apply(patch, &mut make);
        let told = make.done().into_iter().map(|event| {
            let data: Value = serde_json::from_str(event.event_data.get()).unwrap();
            [data["file_path"].clone(), data["diff_preview"].clone()]
        });
        let told: Vec<[Value; 2]> = told.collect();
        assert_eq!(told, [[json!("b.py"), json!("@@ def f():\n-x\n+y\n")], [json!("c.py"), json!("+z\n")]]);
    }
}
