//! Claude Code's messages, one per line: its stream-json with the control channel beside it, and the transcripts that it
//! keeps of sessions.

mod message;

use std::collections::{HashMap, VecDeque};

use omoi_protocol::event::FileChange;
use serde::Deserialize;
use serde_json::Value;

use self::message::{
    Block, CONTROLS, Content, Ending, FileResult, Hunk, Message, SILENT, SYSTEM, Spoken, System, Turn,
};
use super::{
    Reader,
    ledger::{LineError, Verdict},
    lines::{Record, Sender},
    make::Make,
};

/// Messages that were sent and not seen again.
const SENT_MAX: usize = 32;

/// Whether a record is a message of Claude Code.
pub fn knows(body: &Value) -> bool {
    let Some(kind) = body.get("type").and_then(Value::as_str) else { return false };
    match kind {
        "assistant" | "user" => body.get("message").is_some_and(Value::is_object),
        "result" | "system" => body.get("subtype").is_some(),
        "control_request" => body.get("request").is_some(),
        _ => SILENT.contains(&kind),
    }
}

#[derive(Default)]
pub struct Claude {
    has_begun: bool,
    /// Calls that change files, until their result is there.
    open: HashMap<String, (String, Value)>,
    /// Texts that the client sent, which the program may repeat.
    sent: VecDeque<String>,
    /// The answer whose tokens were counted.
    message: String,
    last: Option<(bool, String, Option<f64>)>,
}

impl Reader for Claude {
    fn record(&mut self, record: &Record, make: &mut Make) -> Verdict {
        let kind = record.body.get("type").and_then(Value::as_str).unwrap_or_default();
        if SILENT.contains(&kind) {
            return Verdict::Understood;
        }
        match Message::deserialize(&record.body) {
            Ok(Message::System(system)) => self.system(&system, make),
            Ok(Message::Assistant(spoken)) => self.assistant(spoken, make),
            Ok(Message::User(spoken)) => self.user(spoken, record.sender, make),
            Ok(Message::Result(ending)) => self.ending(ending, make),
            Ok(Message::ControlRequest { request }) => match CONTROLS.contains(&request.subtype.as_str()) {
                true => Verdict::Understood,
                false => Verdict::Unknown(format!("control_request/{}", request.subtype)),
            },
            Err(_) if matches!(kind, "system" | "assistant" | "user" | "result" | "control_request") => {
                Verdict::Broken(LineError::Misshapen)
            }
            Err(_) => Verdict::Unknown(super::kind_of(&record.body)),
        }
    }

    fn end(&mut self, make: &mut Make) {
        if let Some((well, text, usd)) = self.last.take() {
            make.ended(well, &text, usd);
        }
    }
}

impl Claude {
    fn system(&mut self, system: &System, make: &mut Make) -> Verdict {
        match system.subtype.as_str() {
            // It comes before every turn.
            "init" if !std::mem::replace(&mut self.has_begun, true) => {
                make.started("claude-code", system.model.as_deref());
            }
            "init" => {}
            known if SYSTEM.contains(&known) => {}
            unknown => return Verdict::Unknown(format!("system/{unknown}")),
        }
        Verdict::Understood
    }

    fn assistant(&mut self, spoken: Spoken, make: &mut Make) -> Verdict {
        let parent = spoken.parent();
        let Turn { id, content, usage } = spoken.message;
        if self.message != id {
            // Each block of an answer repeats the tokens of the whole.
            self.message = id;
            let input = usage.input_tokens.unwrap_or(0) + usage.cache_creation_input_tokens.unwrap_or(0);
            make.spent(input, usage.output_tokens.unwrap_or(0), 0.0);
        }
        match content {
            Content::Text(text) => make.said(&text, parent.as_deref()),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text { text } => make.said(&text, parent.as_deref()),
                        Block::ToolUse { id, name, input } => {
                            self.call(id, name, input, parent.as_deref(), make);
                        }
                        Block::ToolResult { .. } | Block::Other => {}
                    }
                }
            }
        }
        Verdict::Understood
    }

    fn call(&mut self, id: String, name: String, input: Value, parent: Option<&str>, make: &mut Make) {
        match name.as_str() {
            "Task" | "Agent" => make.helper(&id, input["prompt"].as_str().unwrap_or_default()),
            _ => make.call(&name, &id, &input, parent),
        }
        if matches!(name.as_str(), "Edit" | "Write" | "MultiEdit") {
            self.open.insert(id, (name, input));
        }
    }

    fn user(&mut self, spoken: Spoken, sender: Option<Sender>, make: &mut Make) -> Verdict {
        let is_of_person = !spoken.is_synthetic && spoken.parent().is_none();
        let is_replay = spoken.is_replay;
        let blocks = match spoken.message.content {
            Content::Text(text) => vec![Block::Text { text }],
            Content::Blocks(blocks) => blocks,
        };
        for block in blocks {
            match block {
                Block::Text { text } if is_of_person => self.told(text, sender, is_replay, make),
                Block::ToolResult { tool_use_id, content, is_error } => {
                    let failed = is_error.unwrap_or(false);
                    self.result(&tool_use_id, &content, failed, spoken.tool_use_result.as_ref(), make);
                }
                Block::Text { .. } | Block::ToolUse { .. } | Block::Other => {}
            }
        }
        Verdict::Understood
    }

    /// A message that is sent and repeated is one message.
    fn told(&mut self, text: String, sender: Option<Sender>, is_replay: bool, make: &mut Make) {
        let sent = self.sent.iter().position(|sent| *sent == text);
        if let Some(at) = sent.filter(|_| is_replay) {
            self.sent.remove(at);
            return;
        }
        make.told(&text);
        if sender == Some(Sender::Client) {
            self.sent.truncate(SENT_MAX - 1);
            self.sent.push_front(text);
        }
    }

    fn result(
        &mut self,
        id: &str,
        content: &Value,
        failed: bool,
        structured: Option<&Value>,
        make: &mut Make,
    ) {
        let text = match content {
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
            }
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        make.result(id, &text, failed);
        let Some((tool, input)) = self.open.remove(id).filter(|_| !failed) else { return };
        let path = input["file_path"].as_str().unwrap_or_default();
        let told = structured.and_then(|structured| FileResult::deserialize(structured).ok());
        match (tool.as_str(), told.filter(|told| !told.structured_patch.is_empty())) {
            (_, Some(told)) => make.patched(path, FileChange::Modified, &diff(&told)),
            ("Write", None) => make.edited(path, None, input["content"].as_str()),
            ("Edit", None) => edit(path, &input, make),
            (_, None) => {
                input["edits"].as_array().into_iter().flatten().for_each(|one| edit(path, one, make));
            }
        }
    }

    fn ending(&mut self, ending: Ending, make: &mut Make) -> Verdict {
        let text = ending.result.unwrap_or_default();
        make.halted(&text);
        let well = ending.subtype == "success" && !ending.is_error;
        self.last = Some((well, text, ending.total_cost_usd));
        Verdict::Understood
    }
}

fn edit(path: &str, edit: &Value, make: &mut Make) {
    let text = |key: &str| edit[key].as_str().unwrap_or_default();
    make.edited(path, Some(text("old_string")), Some(text("new_string")));
}

fn diff(told: &FileResult) -> String {
    let hunk = |hunk: &Hunk| {
        let Hunk { old_start, old_lines, new_start, new_lines, lines } = hunk;
        format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@\n{}\n", lines.join("\n"))
    };
    told.structured_patch.iter().map(hunk).collect()
}
