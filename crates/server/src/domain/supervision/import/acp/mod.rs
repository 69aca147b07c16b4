//! Sessions of the Agent Client Protocol: JSON-RPC messages between a client and an agent, one per line.

mod call;
mod message;

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use self::{
    call::Open,
    message::{
        Answer, CallUpdate, Chunk, Notification, Permission, Prompt, Rpc, SessionMessage, Status, texts,
    },
};
use super::{
    Reader,
    ledger::{LineError, Verdict},
    lines::Record,
    make::Make,
};

/// Calls that are remembered while their results are awaited.
const CALLS_MAX: usize = 1_000;
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Methods that tell supervision nothing.
const SILENT: [&str; 22] = [
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/fork",
    "session/close",
    "session/delete",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
    "$/cancel_request",
    "session/stop",
];

/// Whether a record is a message of the protocol.
pub fn knows(body: &Value) -> bool {
    let method = body.get("method").and_then(Value::as_str);
    method.is_some_and(|method| method.starts_with("session/") || body.get("jsonrpc").is_some())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Voice {
    User,
    Agent,
}

#[derive(Default)]
pub struct Acp {
    has_begun: bool,
    prompts: HashSet<String>,
    prompted: String,
    open: HashMap<String, Open>,
    /// A text that comes in pieces.
    text: Option<(Voice, Option<String>, String)>,
    said: String,
    usd: f64,
}

impl Reader for Acp {
    fn record(&mut self, record: &Record, make: &mut Make) -> Verdict {
        let Ok(rpc) = Rpc::deserialize(&record.body) else { return Verdict::Broken(LineError::Misshapen) };
        if !std::mem::replace(&mut self.has_begun, true) {
            make.started("acp", None);
        }
        let Some(method) = rpc.method.as_deref() else { return self.answer(&rpc, &record.body, make) };
        let done = match method {
            "session/prompt" | "_session/steering" => self.prompt(&rpc, make),
            "session/update" => match Notification::deserialize(&rpc.params) {
                Ok(notification) => {
                    self.update(notification.update, make);
                    true
                }
                Err(_) => match rpc.params["update"]["sessionUpdate"].as_str() {
                    Some(kind) if !UPDATES.contains(&kind) => {
                        return Verdict::Unknown(format!("session/update/{kind}"));
                    }
                    _ => false,
                },
            },
            "session/request_permission" => match Permission::deserialize(&rpc.params) {
                Ok(permission) => {
                    self.call(permission.tool_call, true, make);
                    true
                }
                Err(_) => false,
            },
            "session/cancel" => {
                self.flush(make);
                make.interrupted();
                true
            }
            silent if SILENT.contains(&silent) => true,
            unknown => return Verdict::Unknown(unknown.to_owned()),
        };
        if done { Verdict::Understood } else { Verdict::Broken(LineError::Misshapen) }
    }

    fn end(&mut self, make: &mut Make) {
        self.flush(make);
    }
}

/// The kinds of updates that are read.
const UPDATES: [&str; 11] = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
];

impl Acp {
    fn prompt(&mut self, rpc: &Rpc, make: &mut Make) -> bool {
        let Ok(Prompt { prompt }) = Prompt::deserialize(&rpc.params) else { return false };
        self.flush(make);
        self.prompted = texts(&prompt);
        make.told(&self.prompted);
        self.prompts.extend(rpc.id.as_ref().map(Value::to_string));
        true
    }

    fn answer(&mut self, rpc: &Rpc, body: &Value, make: &mut Make) -> Verdict {
        let id = rpc.id.as_ref().map(Value::to_string);
        // An answer without a value is one.
        if body.get("result").is_none() && body.get("error").is_none() {
            return Verdict::Unknown(super::kind_of(body));
        }
        let Some(answer) = rpc.result.as_ref().and_then(|result| Answer::deserialize(result).ok()) else {
            return Verdict::Understood;
        };
        if id.is_some_and(|id| self.prompts.remove(&id)) {
            self.flush(make);
            if let Some(usage) = answer.usage {
                let input = usage.input_tokens + usage.cached_write_tokens.unwrap_or(0);
                make.spent(input, usage.output_tokens, 0.0);
            }
            // While another prompt is under way, the agent goes on.
            match answer.stop_reason.as_str() {
                "cancelled" => make.interrupted(),
                _ if self.prompts.is_empty() => make.halted(&std::mem::take(&mut self.said)),
                _ => {}
            }
        }
        Verdict::Understood
    }

    fn update(&mut self, update: SessionMessage, make: &mut Make) {
        match update {
            SessionMessage::UserMessageChunk(chunk) => self.chunk(Voice::User, chunk, make),
            SessionMessage::AgentMessageChunk(chunk) => self.chunk(Voice::Agent, chunk, make),
            SessionMessage::ToolCall(call) | SessionMessage::ToolCallUpdate(call) => {
                self.call(call, false, make);
            }
            SessionMessage::UsageUpdate { cost: Some(cost) }
                if cost.currency.as_deref().unwrap_or("USD") == "USD" =>
            {
                // The cost is that of the whole session.
                if cost.amount > self.usd {
                    make.spent(0, 0, cost.amount - self.usd);
                    self.usd = cost.amount;
                }
            }
            SessionMessage::UsageUpdate { .. }
            | SessionMessage::AgentThoughtChunk
            | SessionMessage::Plan
            | SessionMessage::AvailableCommandsUpdate
            | SessionMessage::CurrentModeUpdate
            | SessionMessage::ConfigOptionUpdate
            | SessionMessage::SessionInfoUpdate => {}
        }
    }

    fn chunk(&mut self, voice: Voice, chunk: Chunk, make: &mut Make) {
        let goes_on = self.text.as_ref().is_some_and(|(old, id, _)| *old == voice && *id == chunk.message_id);
        if !goes_on {
            self.flush(make);
            self.text = Some((voice, chunk.message_id, String::new()));
        }
        if let (Some((_, _, text)), Some(piece)) = (&mut self.text, chunk.content.text())
            && text.len() < TEXT_BYTES_MAX
        {
            text.push_str(piece);
        }
    }

    /// A text is whole when something else comes.
    fn flush(&mut self, make: &mut Make) {
        match self.text.take() {
            Some((Voice::Agent, _, text)) if !text.trim().is_empty() => {
                make.said(&text, None);
                self.said = text;
            }
            // Agents may repeat the prompt.
            Some((Voice::User, _, text)) if text != self.prompted => make.told(&text),
            _ => {}
        }
    }

    fn call(&mut self, update: CallUpdate, is_asked: bool, make: &mut Make) {
        self.flush(make);
        let id = update.tool_call_id.clone();
        if self.open.len() >= CALLS_MAX && !self.open.contains_key(&id) {
            return;
        }
        let status = update.status;
        let open = self.open.entry(id.clone()).or_default();
        open.merge(update);
        let is_over = matches!(status, Some(Status::Completed | Status::Failed));
        let has_input =
            open.input.as_ref().is_some_and(|input| input.as_object().is_some_and(|one| !one.is_empty()));
        if !open.is_announced && (is_over || is_asked || has_input || status == Some(Status::InProgress)) {
            open.is_announced = true;
            make.call(open.tool(), &id, &open.described(), None);
        }
        if is_over && let Some(open) = self.open.remove(&id) {
            open.end(&id, status == Some(Status::Failed), make);
        }
    }
}
