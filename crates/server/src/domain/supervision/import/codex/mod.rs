//! Codex: the notifications of its app-server, the events of `exec --json`, and the rollouts that it keeps of threads. The
//! first two tell of the same items in two spellings.

mod item;
mod rollout;

use std::collections::VecDeque;

use omoi_protocol::event::FileChange;
use serde::Deserialize;
use serde_json::{Value, json};

use self::item::{Change, ChangeKind, Execution, Input, Item, Part, Rpc, Tokens, ToolCall};
use super::{
    super::shell,
    Reader,
    ledger::{LineError, Verdict},
    lines::Record,
    make::Make,
};

/// Prompts that were sent and not seen again.
const SENT_MAX: usize = 32;

/// Methods of requests that tell supervision nothing.
const REQUESTS: [&str; 6] = [
    "initialize",
    "initialized",
    "deprecationNotice",
    "configWarning",
    "applyPatchApproval",
    "execCommandApproval",
];
/// Areas of methods that tell supervision nothing, but for the ones that are read here.
const AREAS: [&str; 18] = [
    "thread/",
    "turn/",
    "item/",
    "account/",
    "model/",
    "remoteControl/",
    "skills/",
    "config/",
    "mcpServer/",
    "mcpServerStatus/",
    "app/",
    "fs/",
    "command/",
    "review/",
    "feedback/",
    "windows/",
    "hook/",
    "serverRequest/",
];

/// Whether a record is a message of Codex.
pub fn knows(body: &Value) -> bool {
    let word = |key: &str| body.get(key).and_then(Value::as_str);
    let of_server = word("method")
        .is_some_and(|method| ["thread/", "turn/", "item/"].iter().any(|area| method.starts_with(area)));
    let of_exec = word("type")
        .is_some_and(|kind| ["thread.", "turn.", "item."].iter().any(|area| kind.starts_with(area)));
    of_server || of_exec || rollout::knows(body)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemEvent {
    Started,
    Completed,
}

#[derive(Default)]
pub struct Codex {
    has_begun: bool,
    /// Prompts that the client sent, which come back as items.
    sent: VecDeque<String>,
    said: String,
    rollout: rollout::Rollout,
}

impl Reader for Codex {
    fn record(&mut self, record: &Record, make: &mut Make) -> Verdict {
        if rollout::knows(&record.body) {
            return self.rollout.record(&record.body, make);
        }
        let Ok(rpc) = Rpc::deserialize(&record.body) else { return Verdict::Broken(LineError::Misshapen) };
        match (rpc.method.as_deref(), rpc.kind.as_deref()) {
            (Some(method), _) => self.notified(method, &rpc, make),
            (None, Some(kind)) => self.notified(&kind.replacen('.', "/", 1), &rpc, make),
            // The answer to a request.
            (None, None) if rpc.id.is_some() => Verdict::Understood,
            (None, None) => Verdict::Unknown(super::kind_of(&record.body)),
        }
    }

    fn end(&mut self, make: &mut Make) {
        self.rollout.end(make);
    }
}

impl Codex {
    fn notified(&mut self, method: &str, rpc: &Rpc, make: &mut Make) -> Verdict {
        let params = &rpc.params;
        match method {
            "thread/started" => self.begin(params["thread"]["model"].as_str(), make),
            "turn/start" | "turn/steer" => match Input::deserialize(params) {
                Ok(Input { input }) => self.sent(texts(&input), make),
                Err(_) => return Verdict::Broken(LineError::Misshapen),
            },
            "item/started" => return self.item(rpc, ItemEvent::Started, make),
            "item/completed" => return self.item(rpc, ItemEvent::Completed, make),
            "turn/completed" => self.turn(params["turn"]["status"].as_str(), rpc.usage.as_ref(), make),
            "turn/failed" => self.turn(Some("failed"), None, make),
            "thread/tokenUsage/updated" => {
                if let Ok(tokens) = Tokens::deserialize(&params["tokenUsage"]["last"]) {
                    tokens.spend(make);
                }
            }
            "item/updated" | "error" => {}
            silent if REQUESTS.contains(&silent) || AREAS.iter().any(|area| silent.starts_with(area)) => {}
            unknown => return Verdict::Unknown(unknown.to_owned()),
        }
        Verdict::Understood
    }

    fn begin(&mut self, model: Option<&str>, make: &mut Make) {
        if !std::mem::replace(&mut self.has_begun, true) {
            make.started("codex", model);
        }
    }

    fn sent(&mut self, text: String, make: &mut Make) {
        make.told(&text);
        self.sent.truncate(SENT_MAX - 1);
        self.sent.push_front(text);
    }

    fn turn(&mut self, status: Option<&str>, usage: Option<&Tokens>, make: &mut Make) {
        if let Some(usage) = usage {
            usage.spend(make);
        }
        match status {
            Some("interrupted") => make.interrupted(),
            _ => make.halted(&std::mem::take(&mut self.said)),
        }
    }

    fn item(&mut self, rpc: &Rpc, event: ItemEvent, make: &mut Make) -> Verdict {
        let value = rpc.item.as_ref().unwrap_or(&rpc.params["item"]);
        let item = match Item::deserialize(value) {
            Ok(item) => item,
            Err(_) if is_known(value) => return Verdict::Broken(LineError::Misshapen),
            Err(_) => return Verdict::Unknown(format!("item/{}", super::kind_of(value))),
        };
        match (item, event) {
            (Item::UserMessage { content }, ItemEvent::Completed) => self.heard(&texts(&content), make),
            (Item::AgentMessage { text }, ItemEvent::Completed) => {
                make.said(&text, None);
                self.said = text;
            }
            (Item::CommandExecution(run), ItemEvent::Started) => run.begin(make),
            (Item::CommandExecution(run), ItemEvent::Completed) => run.end(make),
            (Item::FileChange { id, changes, .. }, ItemEvent::Started) => announce(&id, &changes, make),
            (Item::FileChange { id, changes, status }, ItemEvent::Completed) => {
                changed(&id, &changes, status.as_deref(), make);
            }
            (Item::McpToolCall(call), ItemEvent::Started) => {
                make.call(&format!("{}.{}", call.server, call.tool), &call.id, &call.arguments, None);
            }
            (Item::McpToolCall(call), ItemEvent::Completed) => call.end(make),
            (Item::WebSearch { id, query }, ItemEvent::Completed) => {
                make.call("WebSearch", &id, &json!({ "query": query }), None);
                make.result(&id, "", false);
            }
            (Item::CollabAgentToolCall { id, tool, prompt }, ItemEvent::Started)
                if tool.starts_with("spawn") =>
            {
                make.helper(&id, &prompt.unwrap_or_default());
            }
            (Item::CollabAgentToolCall { id, .. }, ItemEvent::Completed) => make.result(&id, "", false),
            _ => {}
        }
        Verdict::Understood
    }

    fn heard(&mut self, text: &str, make: &mut Make) {
        match self.sent.iter().position(|sent| sent == text) {
            Some(at) => drop(self.sent.remove(at)),
            None => make.told(text),
        }
    }
}

/// Whether an item is of a kind that is read, whatever its fields are.
fn is_known(item: &Value) -> bool {
    let fields = json!({ "type": item["type"], "id": "", "command": "" });
    Item::deserialize(fields).is_ok()
}

impl Execution {
    fn begin(&self, make: &mut Make) {
        make.call("Bash", &self.id, &json!({ "command": plain(&self.command) }), None);
    }

    fn end(self, make: &mut Make) {
        let failed = self.exit_code.is_some_and(|code| code != 0) || has_failed(self.status.as_deref());
        make.result(&self.id, &self.output.unwrap_or_default(), failed);
    }
}

impl ToolCall {
    fn end(self, make: &mut Make) {
        let error = self.error.filter(|error| !error.is_null());
        let failed = error.is_some() || has_failed(self.status.as_deref());
        let text = error.or(self.result).map(|value| value.to_string()).unwrap_or_default();
        make.result(&self.id, &text, failed);
    }
}

impl Tokens {
    fn spend(&self, make: &mut Make) {
        make.spent(self.input_tokens.saturating_sub(self.cached_input_tokens), self.output_tokens, 0.0);
    }
}

fn has_failed(status: Option<&str>) -> bool {
    matches!(status, Some("failed" | "declined"))
}

fn announce(id: &str, changes: &[Change], make: &mut Make) {
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    let diffs: Vec<&str> = changes.iter().map(|change| change.diff.as_str()).collect();
    let input = json!({ "file_path": paths.first(), "paths": paths, "diffs": diffs });
    make.call("Edit", id, &input, None);
}

fn changed(id: &str, changes: &[Change], status: Option<&str>, make: &mut Make) {
    let failed = has_failed(status);
    make.result(id, "", failed);
    for change in changes.iter().filter(|_| !failed) {
        let kind = match &change.kind {
            ChangeKind::Name(name) | ChangeKind::Object { r#type: name } => name.as_str(),
        };
        match kind {
            // Of a file that comes or goes, the whole is told.
            "add" => make.edited(&change.path, None, Some(&change.diff)),
            "delete" => make.edited(&change.path, Some(&change.diff), None),
            _ => make.patched(&change.path, FileChange::Modified, &change.diff),
        }
    }
}

fn texts(parts: &[Part]) -> String {
    parts.iter().filter_map(|part| part.text.as_deref()).collect::<Vec<_>>().join("\n")
}

/// The command without the shell that Codex runs it in.
fn plain(command: &str) -> String {
    match shell::commands(command).first().map(|first| first.words.as_slice()) {
        Some([shell, flag, script])
            if matches!(shell.as_str(), "bash" | "sh" | "zsh") && matches!(flag.as_str(), "-lc" | "-c") =>
        {
            script.clone()
        }
        _ => command.to_owned(),
    }
}
