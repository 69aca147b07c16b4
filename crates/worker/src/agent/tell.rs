//! The agent's steps as events. Whatever they carry is bounded: a long text is cut, and says how long it was.

use std::time::Duration;

use omoi_protocol::{
    event::{
        AgentAssistantMessage, AgentMessage, AgentSkillCompleted, AgentSkillInvoked, AgentStreamError,
        AgentSubagentCompleted, AgentSubagentInvoked, AgentThinking, AgentToolCompleted, AgentToolResult,
        AgentToolUse, CommandCompleted, CommandOutput, CommandStarted, Decimal, Payload, RESULT_CHARS_MAX,
        StreamErrorType,
    },
    outcome::Tokens,
};
use serde_json::{Value, json};

use super::{
    model::{Answer, Progress},
    subagent::{Asked, Report},
    talk::Block,
    tool::{Call, Done, Piece},
};
use crate::outbox::Outbox;

/// Of one text of the model.
const TEXT_CHARS_MAX: usize = 100_000;
/// Of one text inside of an input or a response.
const FIELD_CHARS_MAX: usize = 10_000;
/// Of all of an input or a response.
const VALUE_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone)]
pub struct Tell {
    outbox: Outbox,
    /// The call of the tool Task that a helper works for.
    parent: Option<String>,
}

impl Tell {
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox, parent: None }
    }

    /// For a helper: its events name the call that it works for.
    pub fn below(&self, call: &str) -> Self {
        Self { outbox: self.outbox.clone(), parent: Some(call.to_owned()) }
    }

    pub fn push(&self, event: impl Into<Payload>) {
        self.outbox.push(event);
    }

    /// The frame of an answer, then its texts. Its calls are told of when they are made.
    pub fn answer(&self, turn: u64, answer: &Answer) {
        self.push(AgentAssistantMessage {
            turn: Some(turn),
            model: Some(answer.model.clone()),
            stop_reason: Some(answer.stop.as_str().to_owned()),
            block_count: Some(answer.content.len() as u64),
            message_id: Some(answer.id.clone()),
            usage: Some(clip(&answer.raw_usage)),
            parent_tool_use_id: self.parent.clone(),
            ..AgentAssistantMessage::default()
        });
        for block in &answer.content {
            match block {
                Block::Text { text } if !text.trim().is_empty() => self.push(AgentMessage {
                    turn: Some(turn),
                    content_length: Some(text.chars().count() as u64),
                    content: Some(cut(text, TEXT_CHARS_MAX)),
                    parent_tool_use_id: self.parent.clone(),
                    ..AgentMessage::default()
                }),
                Block::Thinking { thinking, .. } if !thinking.trim().is_empty() => self.push(AgentThinking {
                    turn: Some(turn),
                    content: Some(cut(thinking, TEXT_CHARS_MAX)),
                    thinking_type: Some("extended_thinking".to_owned()),
                    parent_tool_use_id: self.parent.clone(),
                    ..AgentThinking::default()
                }),
                _ => {}
            }
        }
    }

    /// A call is about to be made.
    pub fn call(&self, turn: u64, call: Call<'_>) {
        let (tool, id, input) = (call.name.to_owned(), call.id.to_owned(), clip(call.input));
        let text = |key: &str| input[key].as_str().map(str::to_owned);
        match call.name {
            "Task" => self.push(AgentSubagentInvoked {
                turn: Some(turn),
                event_subtype: Some("subagent".to_owned()),
                subagent_type: text("subagent_type"),
                subagent_description: text("description"),
                subagent_prompt: text("prompt"),
                tool: Some(tool),
                tool_use_id: Some(id),
                input: Some(input),
                ..AgentSubagentInvoked::default()
            }),
            "Skill" => self.push(AgentSkillInvoked {
                turn: Some(turn),
                event_subtype: Some("skill".to_owned()),
                skill_name: text("skill"),
                tool: Some(tool),
                tool_use_id: Some(id),
                input: Some(input),
                ..AgentSkillInvoked::default()
            }),
            _ => self.push(AgentToolUse {
                turn: Some(turn),
                event_subtype: Some("tool_use".to_owned()),
                tool: Some(tool),
                tool_use_id: Some(id),
                input: Some(input),
                parent_tool_use_id: self.parent.clone(),
                ..AgentToolUse::default()
            }),
        }
    }

    /// What came of it, first as the model is shown it, then as a whole.
    pub fn done(&self, turn: u64, call: Call<'_>, done: &Done, report: Option<&Report>, took: Duration) {
        let length = done.content.chars().count();
        self.push(AgentToolResult {
            turn: Some(turn),
            tool: Some(call.name.to_owned()),
            tool_use_id: Some(call.id.to_owned()),
            result: Some(cut(&done.content, RESULT_CHARS_MAX)),
            result_truncated: Some(length > RESULT_CHARS_MAX),
            result_full_length: Some(length as u64),
            is_error: Some(done.is_error),
            parent_tool_use_id: self.parent.clone(),
            ..AgentToolResult::default()
        });
        let (tool, tool_use_id) = (Some(call.name.to_owned()), Some(call.id.to_owned()));
        let (tool_input, tool_response) = (Some(clip(call.input)), Some(clip(&done.response)));
        let (turn, is_error) = (Some(turn), Some(done.is_error));
        match (call.name, report) {
            ("Task", Some(Report { asked, usage })) => self.push(AgentSubagentCompleted {
                subagent_type: Some(asked.subagent_type.clone()),
                description: Some(asked.description.clone()),
                subagent_prompt: Some(cut(&asked.prompt, FIELD_CHARS_MAX)),
                subagent_result: Some(json!(cut(&done.content, FIELD_CHARS_MAX))),
                subagent_usage: serde_json::to_value(usage).ok(),
                subagent_duration_ms: milliseconds(took),
                turn,
                tool,
                tool_use_id,
                tool_input,
                tool_response,
                is_error,
                ..AgentSubagentCompleted::default()
            }),
            ("Skill", _) => self.push(AgentSkillCompleted {
                skill_name: call.input["skill"].as_str().map(|name| cut(name, 200)),
                turn,
                tool,
                tool_use_id,
                tool_input,
                tool_response,
                is_error,
                ..AgentSkillCompleted::default()
            }),
            _ => self.push(AgentToolCompleted {
                exit_code: done.exit_code.map(i64::from),
                duration_ms: milliseconds(took),
                turn,
                tool,
                tool_use_id,
                tool_input,
                tool_response,
                is_error,
                parent_tool_use_id: self.parent.clone(),
                ..AgentToolCompleted::default()
            }),
        }
    }

    /// The live output of a command, under the id of its call.
    pub fn piece(&self, id: &str, piece: &Piece<'_>) {
        let command_id = Some(id.to_owned());
        match piece {
            Piece::Started { argv, cwd } => self.push(CommandStarted {
                command_id,
                argv: Some(argv.to_vec()),
                cwd: Some(cwd.display().to_string()),
                ..CommandStarted::default()
            }),
            Piece::Output { stream, text, lossy, dropped_bytes } => self.push(CommandOutput {
                command_id,
                stream: Some(stream.clone()),
                text: Some((*text).to_owned()),
                lossy: lossy.then_some(true),
                dropped_bytes: *dropped_bytes,
                ..CommandOutput::default()
            }),
            Piece::Ended { exit_code, signal, duration, output_bytes, dropped_bytes } => {
                self.push(CommandCompleted {
                    command_id,
                    exit_code: exit_code.map(i64::from),
                    signal: signal.map(i64::from),
                    duration_ms: Some(duration.as_millis() as u64),
                    output_bytes: Some(*output_bytes),
                    dropped_bytes: Some(*dropped_bytes).filter(|dropped| *dropped > 0),
                    ..CommandCompleted::default()
                });
            }
        }
    }

    /// Something of the way to the model: a call that is made again.
    pub fn progress(&self, turn: u64, progress: &Progress<'_>) {
        let Progress::Retrying { attempt, attempts_max, delay, status, error } = progress else { return };
        self.push(AgentStreamError {
            turn: Some(turn),
            error: Some(error.clone()),
            error_type: Some(StreamErrorType::Other("model".to_owned())),
            attempt: Some(u64::from(*attempt)),
            attempts_max: Some(u64::from(*attempts_max)),
            retry_delay_ms: Some(delay.as_millis() as u64),
            status_code: status.map(u64::from),
            parent_tool_use_id: self.parent.clone(),
            ..AgentStreamError::default()
        });
    }
}

/// Asked of a helper and used by it.
impl Report {
    pub fn new(asked: Asked, usage: Tokens) -> Self {
        Self { asked, usage }
    }
}

fn milliseconds(took: Duration) -> Option<Decimal> {
    Decimal::new((took.as_secs_f64() * 1e6).round() / 1e3)
}

/// At most so many characters, and how many there were.
pub fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} characters in all)", &text[..at], text.chars().count()),
    }
}

/// A value whose texts are cut; one that is too large all the same is replaced by its beginning.
pub fn clip(value: &Value) -> Value {
    let clipped = clip_fields(value, 0);
    let text = clipped.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return clipped;
    }
    json!({ "truncated": cut(&text[..text.floor_char_boundary(FIELD_CHARS_MAX)], FIELD_CHARS_MAX), "bytes": text.len() })
}

fn clip_fields(value: &Value, depth: usize) -> Value {
    const DEPTH_MAX: usize = 32;
    match value {
        Value::String(text) => Value::String(cut(text, FIELD_CHARS_MAX)),
        Value::Array(_) | Value::Object(_) if depth == DEPTH_MAX => json!("…"),
        Value::Array(list) => list.iter().map(|one| clip_fields(one, depth + 1)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, one)| (cut(key, 200), clip_fields(one, depth + 1))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_call_carries_its_event_stays_small() {
        let huge = "ü".repeat(10 * 1024 * 1024);
        let cases = [
            json!({ "file_path": "a", "content": huge }),
            json!(vec![0; 1_000_000]),
            json!({ huge.as_str(): 1 }),
            (0..1000).fold(json!(1), |inner, _| json!([inner])),
        ];
        for case in cases {
            let text = clip(&case).to_string();
            assert!(text.len() <= VALUE_BYTES_MAX, "{} bytes", text.len());
        }
        let small = json!({ "command": "ls", "n": 1.5, "list": [true, null] });
        assert_eq!(clip(&small), small);
    }

    #[test]
    fn a_cut_text_says_how_long_it_was() {
        assert_eq!(cut("üüü", 3), "üüü");
        assert_eq!(cut("üüü", 2), "üü… (3 characters in all)");
    }
}
