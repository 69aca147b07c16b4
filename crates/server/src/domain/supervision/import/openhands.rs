//! OpenHands' trajectories: a list of actions and of the observations that they cause.

use std::collections::HashMap;

use omoi_protocol::event::StoredEvent;
use serde_json::{Value, json};

use super::{
    kind_of,
    ledger::{Ledger, LineError, Verdict},
    make::{Make, time},
};

pub fn events(list: &[Value]) -> (Vec<StoredEvent>, Ledger) {
    let mut ledger = Ledger::default();
    let mut reader = Reader { make: Make::new(), open: HashMap::new(), usd: 0.0, ended: false };
    reader.make.started("openhands", None);
    for record in list {
        // Evaluations keep an action and its observation together.
        let pair = record.as_array().map_or(std::slice::from_ref(record), Vec::as_slice);
        for one in pair {
            let before = reader.make.len();
            let verdict = match reader.make.is_full() {
                true => Verdict::Broken(LineError::TooManyEvents),
                false => reader.record(one),
            };
            ledger.book(verdict, reader.make.len() > before);
        }
    }
    // That it was started says nothing of a file in which nothing else was found.
    let events = if ledger.used > 0 { reader.make.done() } else { Vec::new() };
    (events, ledger)
}

struct Reader {
    make: Make,
    /// Changes of files, until it is known that they were made.
    open: HashMap<String, Value>,
    usd: f64,
    ended: bool,
}

impl Reader {
    fn record(&mut self, record: &Value) -> Verdict {
        self.make.now(time(record.get("timestamp")));
        self.money(&record["llm_metrics"]);
        match (record["action"].as_str(), record["observation"].as_str()) {
            (Some(action), _) => self.action(action, record),
            (None, Some(kind)) => self.observation(kind, record),
            (None, None) => Verdict::Unknown(kind_of(record)),
        }
    }

    fn money(&mut self, metrics: &Value) {
        let Some(total) = metrics["accumulated_cost"].as_f64() else { return };
        let usage = &metrics["accumulated_token_usage"];
        let tokens = |key: &str| usage[key].as_u64().unwrap_or(0);
        if total > self.usd {
            // Tokens are told in all; money alone says what came anew.
            let first = self.usd == 0.0;
            let (input, output) =
                if first { (tokens("prompt_tokens"), tokens("completion_tokens")) } else { (0, 0) };
            self.make.spent(input, output, total - self.usd);
            self.usd = total;
        }
    }

    fn action(&mut self, action: &str, record: &Value) -> Verdict {
        let (id, args) = (id(&record["id"]), &record["args"]);
        let text = |key: &str| args[key].as_str().unwrap_or_default();
        match action {
            "message" if record["source"] == "user" => self.make.told(text("content")),
            "message" => {
                self.make.said(text("content"), None);
                self.make.halted(text("content"));
            }
            "run" | "run_ipython" => {
                self.make.said(text("thought"), None);
                let command = if action == "run" { text("command") } else { text("code") };
                let tool = if action == "run" { "Bash" } else { "Python" };
                self.make.call(tool, &id, &json!({ "command": command }), None);
            }
            "edit" | "write" | "read" | "browse" | "browse_interactive" | "call_tool_mcp" => {
                self.make.said(text("thought"), None);
                let tool = match (action, text("command")) {
                    ("read", _) | ("edit", "view") => "Read",
                    ("edit", _) => "Edit",
                    ("write", _) => "Write",
                    (other, _) => other,
                };
                let mut input = args.clone();
                if let Some(fields) = input.as_object_mut() {
                    // What an editor does is no command of a shell.
                    fields.remove("command");
                    fields.remove("thought");
                }
                self.make.call(tool, &id, &input, None);
                if matches!(tool, "Edit" | "Write") {
                    self.open.insert(id, args.clone());
                }
            }
            "delegate" => self.make.helper(&id, &args["inputs"].to_string()),
            "finish" | "reject" if !self.ended => {
                self.ended = true;
                let last = [text("final_thought"), text("thought")].into_iter().find(|text| !text.is_empty());
                self.make.said(last.unwrap_or_default(), None);
                self.make.ended(action == "finish", last.unwrap_or_default(), Some(self.usd));
            }
            // What the program does for itself.
            "finish"
            | "reject"
            | "think"
            | "recall"
            | "system"
            | "change_agent_state"
            | "condensation"
            | "condensation_request"
            | "task_tracking"
            | "null" => {}
            other => return Verdict::Unknown(format!("action/{other}")),
        }
        Verdict::Understood
    }

    fn observation(&mut self, kind: &str, record: &Value) -> Verdict {
        let (cause, extras) = (id(&record["cause"]), &record["extras"]);
        if matches!(kind, "agent_state_changed" | "null" | "recall" | "think" | "condense" | "task_tracking")
        {
            return Verdict::Understood;
        }
        let code =
            [&extras["metadata"]["exit_code"], &extras["exit_code"]].into_iter().find_map(Value::as_i64);
        let content = record["content"].as_str().unwrap_or_default();
        let failed = kind == "error" || code.is_some_and(|code| code != 0) || content.starts_with("ERROR:");
        self.make.result(&cause, content, failed);
        let Some(args) = self.open.remove(&cause).filter(|_| !failed) else { return Verdict::Understood };
        let text = |key: &str| args[key].as_str();
        let path = text("path").unwrap_or_default();
        match text("command") {
            Some("str_replace") => self.make.edited(
                path,
                Some(text("old_str").unwrap_or("")),
                Some(text("new_str").unwrap_or("")),
            ),
            Some("insert") => self.make.edited(path, Some(""), text("new_str")),
            Some("create") => self.make.edited(path, None, text("file_text")),
            _ => self.make.edited(path, None, text("content")),
        }
        Verdict::Understood
    }
}

fn id(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
