//! Events as they are made of what others recorded: numbered, in order of time, and bounded.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, SandboxId,
    event::{
        AgentCompleted, AgentFileEdited, AgentMessage, AgentMessageInjected, AgentResult, AgentStarted,
        AgentSubagentInvoked, AgentToolResult, AgentToolUse, AgentTurnComplete, AgentUserMessage, Decimal,
        FileChange, ModelCall, Payload, RESULT_CHARS_MAX, StoredEvent,
    },
};
use serde_json::{Value, json};

use super::{super::text::clip, EVENTS_MAX};

const TEXT_CHARS_MAX: usize = 20_000;
const DIFF_LINES_MAX: usize = 400;
/// Where a recording tells no time, each of its records takes this long.
const RECORD: Duration = Duration::from_secs(1);

pub struct Make {
    events: Vec<StoredEvent>,
    sandbox: SandboxId,
    at: Timestamp,
    has_goal: bool,
}

impl Make {
    pub fn new() -> Self {
        let sandbox = "imported".parse().expect("a plain word is an id");
        Self { events: Vec::new(), sandbox, at: Timestamp::UNIX_EPOCH, has_goal: false }
    }

    pub fn done(self) -> Vec<StoredEvent> {
        self.events
    }

    pub fn is_full(&self) -> bool {
        self.events.len() >= EVENTS_MAX
    }

    /// The time of what follows; time never goes back.
    pub fn now(&mut self, at: Option<Timestamp>) {
        let next = self.at.checked_add(RECORD).unwrap_or(self.at);
        self.at = at.map_or(next, |at| at.max(self.at));
    }

    pub fn pass(&mut self, seconds: f64) {
        let span = Duration::try_from_secs_f64(seconds.clamp(0.0, 1e6)).unwrap_or_default();
        self.at = self.at.checked_add(span).unwrap_or(self.at);
    }

    pub fn push(&mut self, payload: impl Into<Payload>) {
        if self.is_full() {
            return;
        }
        let (payload, seq) = (payload.into(), self.events.len() as i64 + 1);
        self.events.push(StoredEvent {
            id: EventId(seq),
            sandbox_id: self.sandbox.clone(),
            seq,
            worker_seq: None,
            event_type: payload.event_type().to_owned(),
            event_data: payload.to_raw(),
            source: EventSource::Agent,
            created_at: self.at,
        });
    }

    pub fn started(&mut self, sdk: &str, model: Option<&str>) {
        let (sdk, model) = (Some(sdk.to_owned()), model.map(str::to_owned));
        self.push(AgentStarted { sdk, model, ..AgentStarted::default() });
    }

    /// What a person says: first the task, then messages.
    pub fn told(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let content = Some(clip(text, TEXT_CHARS_MAX));
        if std::mem::replace(&mut self.has_goal, true) {
            let message_type = Some("user_message".to_owned());
            self.push(AgentMessageInjected { content, message_type, ..AgentMessageInjected::default() });
        } else {
            self.push(AgentUserMessage { turn: Some(0), content, ..AgentUserMessage::default() });
        }
    }

    pub fn said(&mut self, text: &str, parent: Option<&str>) {
        if !text.trim().is_empty() {
            let (content, parent_tool_use_id) = (Some(clip(text, TEXT_CHARS_MAX)), parent.map(str::to_owned));
            self.push(AgentMessage { content, parent_tool_use_id, ..AgentMessage::default() });
        }
    }

    pub fn call(&mut self, tool: &str, id: &str, input: &Value, parent: Option<&str>) {
        self.push(AgentToolUse {
            tool: Some(tool.to_owned()),
            tool_use_id: Some(id.to_owned()),
            input: Some(bounded(input)),
            parent_tool_use_id: parent.map(str::to_owned),
            ..AgentToolUse::default()
        });
    }

    pub fn helper(&mut self, id: &str, prompt: &str) {
        self.push(AgentSubagentInvoked {
            tool_use_id: Some(id.to_owned()),
            subagent_prompt: Some(clip(prompt, TEXT_CHARS_MAX)),
            ..AgentSubagentInvoked::default()
        });
    }

    pub fn result(&mut self, id: &str, text: &str, failed: bool) {
        self.push(AgentToolResult {
            tool_use_id: Some(id.to_owned()),
            result: Some(clip(text, RESULT_CHARS_MAX)),
            is_error: Some(failed),
            ..AgentToolResult::default()
        });
    }

    /// A file that a tool has changed: what was taken out and what was put in.
    pub fn edited(&mut self, path: &str, old: Option<&str>, new: Option<&str>) {
        let change = match (old, new) {
            (None, _) => FileChange::Created,
            (Some(_), None) => FileChange::Deleted,
            (Some(_), Some(_)) => FileChange::Modified,
        };
        let lines = |sign: char, text: Option<&str>| {
            let lines = text.unwrap_or_default().lines().take(DIFF_LINES_MAX);
            lines.map(|line| format!("{sign}{line}\n")).collect::<String>()
        };
        let diff = format!("{}{}", lines('-', old), lines('+', new));
        self.push(AgentFileEdited {
            file_path: Some(path.to_owned()),
            change_type: Some(change),
            diff_preview: Some(clip(&diff, TEXT_CHARS_MAX)),
            ..AgentFileEdited::default()
        });
    }

    pub fn spent(&mut self, input_tokens: u64, output_tokens: u64, usd: f64) {
        let (input_tokens, output_tokens, cost_usd) =
            (Some(input_tokens), Some(output_tokens), Decimal::new(usd));
        self.push(ModelCall { input_tokens, output_tokens, cost_usd, ..ModelCall::default() });
    }

    pub fn halted(&mut self, text: &str) {
        self.push(AgentTurnComplete::default());
        self.push(AgentResult { result: Some(clip(text, TEXT_CHARS_MAX)), ..AgentResult::default() });
    }

    pub fn ended(&mut self, success: bool, text: &str, usd: Option<f64>) {
        self.push(AgentCompleted {
            success: Some(success),
            final_output: Some(clip(text, TEXT_CHARS_MAX)),
            cost_usd: usd.and_then(Decimal::new),
            ..AgentCompleted::default()
        });
    }
}

/// An input whose long texts are cut.
fn bounded(input: &Value) -> Value {
    match input {
        Value::Object(fields) => {
            fields.iter().take(50).map(|(key, value)| (key.clone(), bounded_text(value))).collect()
        }
        other => bounded_text(other),
    }
}

fn bounded_text(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clip(text, TEXT_CHARS_MAX)),
        Value::Object(_) | Value::Array(_) => {
            let text = value.to_string();
            if text.len() <= TEXT_CHARS_MAX { value.clone() } else { json!(clip(&text, TEXT_CHARS_MAX)) }
        }
        other => other.clone(),
    }
}

/// A time as others write it, with or without a zone.
pub fn time(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => text.parse().or_else(|_| format!("{text}Z").parse()).ok(),
        Value::Number(seconds) => {
            let ms = seconds.as_f64()? * 1000.0;
            (0.0..1e14).contains(&ms).then(|| Timestamp::from_millisecond(ms as i64).ok()).flatten()
        }
        _ => None,
    }
}
