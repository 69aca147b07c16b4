//! Events as they are made of what others recorded: numbered, in order of time, and bounded.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, SandboxId,
    event::{
        AgentCompleted, AgentFileEdited, AgentInterrupted, AgentMessage, AgentMessageInjected, AgentResult,
        AgentStarted, AgentSubagentInvoked, AgentToolResult, AgentToolUse, AgentTurnComplete,
        AgentUserMessage, Decimal, FileChange, ModelCall, Payload, RESULT_CHARS_MAX, StoredEvent,
    },
};
use serde_json::{Value, json};

use super::{
    super::{synthetic::persons_words, text::clip},
    EVENTS_MAX,
};

const TEXT_CHARS_MAX: usize = 20_000;
/// Lines of one diff that are kept; the event says how many there were.
const DIFF_LINES_MAX: usize = 2_000;
const DIFF_CHARS_MAX: usize = 200_000;
/// Where a recording tells no time, each of its records takes this long.
const RECORD: Duration = Duration::from_secs(1);

pub struct Make {
    events: Vec<StoredEvent>,
    sandbox: SandboxId,
    at: Timestamp,
    has_goal: bool,
    /// The directory in which the agent works, with a slash at its end.
    root: Option<String>,
}

impl Make {
    pub fn new() -> Self {
        let sandbox = "imported".parse().expect("a plain word is an id");
        Self { events: Vec::new(), sandbox, at: Timestamp::UNIX_EPOCH, has_goal: false, root: None }
    }

    pub fn len(&self) -> usize {
        self.events.len()
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

    /// The agent works in this directory. Files below it are named from there.
    pub fn works_in(&mut self, directory: &str) {
        if directory.starts_with('/') {
            self.root.get_or_insert_with(|| format!("{}/", directory.trim_end_matches('/')));
        }
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
        let text = clip(text, TEXT_CHARS_MAX);
        // What a program has written in the place of a person is no task.
        let is_goal = !self.has_goal && persons_words(&text).is_some();
        self.has_goal |= is_goal;
        let content = Some(text);
        if !is_goal {
            let message_type = Some("user_message".to_owned());
            self.push(AgentMessageInjected { content, message_type, ..AgentMessageInjected::default() });
        } else {
            self.push(AgentUserMessage { turn: Some(0), content, ..AgentUserMessage::default() });
        }
    }

    /// The parts of one message. A program may have written some of them, which are left out beside a person's words.
    pub fn told_in_parts<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        let parts: Vec<&str> = parts.collect();
        let is_persons = |part: &&&str| persons_words(&clip(part, TEXT_CHARS_MAX)).is_some();
        let own: Vec<&str> = parts.iter().filter(is_persons).copied().collect();
        self.told(&if own.is_empty() { parts } else { own }.join("\n"));
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

    /// A file that a tool has changed: what it held, or a part of that, and what stands there now.
    pub fn edited(&mut self, path: &str, old: Option<&str>, new: Option<&str>) {
        let change = match (old, new) {
            (None, _) => FileChange::Created,
            (Some(_), None) => FileChange::Deleted,
            (Some(_), Some(_)) => FileChange::Modified,
        };
        let (old, new) = changed_part(old.unwrap_or_default(), new.unwrap_or_default());
        let mut diff = String::new();
        for (sign, lines) in [('-', &old), ('+', &new)] {
            for line in lines.iter().take(DIFF_LINES_MAX) {
                diff.extend([sign]);
                diff.push_str(line);
                diff.push('\n');
            }
        }
        self.changed(path, change, &diff, new.len(), old.len());
    }

    /// A file that a tool has changed, by a unified diff.
    pub fn patched(&mut self, path: &str, change: FileChange, diff: &str) {
        let is_header = |line: &str| line.starts_with("+++ ") || line.starts_with("--- ");
        let count =
            |sign: char| diff.lines().filter(|line| line.starts_with(sign) && !is_header(line)).count();
        self.changed(path, change, diff, count('+'), count('-'));
    }

    fn changed(&mut self, path: &str, change: FileChange, diff: &str, added: usize, removed: usize) {
        let root = self.root.as_deref().unwrap_or_default();
        self.push(AgentFileEdited {
            file_path: Some(path.strip_prefix(root).unwrap_or(path).to_owned()),
            change_type: Some(change),
            lines_added: Some(added as u64),
            lines_removed: Some(removed as u64),
            diff_preview: Some(clip(diff, DIFF_CHARS_MAX)),
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

    /// A person has stopped the turn.
    pub fn interrupted(&mut self) {
        self.push(AgentInterrupted::default());
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

/// The lines that differ, without those that both texts begin and end with.
fn changed_part<'a>(old: &'a str, new: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let (mut old, mut new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    old.truncate(old.len() - tail);
    new.truncate(new.len() - tail);
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    (old.split_off(head), new.split_off(head))
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

/// A larger number cannot be seconds.
const MILLISECONDS_FROM: f64 = 1e11;

/// A time as others write it, with or without a zone; a number is seconds or milliseconds.
pub fn time(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => text.parse().or_else(|_| format!("{text}Z").parse()).ok(),
        Value::Number(number) => {
            let number = number.as_f64()?;
            let ms = if number < MILLISECONDS_FROM { number * 1000.0 } else { number };
            (0.0..1e14).contains(&ms).then(|| Timestamp::from_millisecond(ms as i64).ok()).flatten()
        }
        _ => None,
    }
}
