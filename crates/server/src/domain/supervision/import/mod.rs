//! Recorded runs of others as events of ours, so that one set of rules can be tried on all of them. Each format has a
//! file; what a file does not know it passes over, and every text is bounded.

mod claude;
mod make;
mod openhands;
mod own;
mod swe_agent;
#[cfg(test)]
mod tests;

use omoi_protocol::event::StoredEvent;
use serde_json::{Map, Value};

use super::trajectory::Charter;

/// Larger files are refused.
pub const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
pub const EVENTS_MAX: usize = 200_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Our events, one JSON object per line, or a page of them.
    Own,
    ClaudeCode,
    SweAgent,
    OpenHands,
}

#[derive(Debug)]
pub struct Run {
    pub name: String,
    pub format: Format,
    pub charter: Charter,
    pub events: Vec<StoredEvent>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} has {bytes} bytes; at most {FILE_BYTES_MAX} are read")]
    TooLarge { name: String, bytes: usize },
    #[error(
        "{name} is no recorded run: it takes our events as JSONL, Claude Code's stream-json, a SWE-agent .traj or an \
         OpenHands trajectory"
    )]
    Unknown { name: String },
    #[error("{name} holds no event that can be read")]
    Empty { name: String },
}

/// What a file holds, by its content.
pub fn read(name: &str, text: &str) -> Result<Run, Error> {
    if text.len() > FILE_BYTES_MAX {
        return Err(Error::TooLarge { name: name.to_owned(), bytes: text.len() });
    }
    let unknown = || Error::Unknown { name: name.to_owned() };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let run = |format, charter, events| Run { name: name.to_owned(), format, charter, events };
    let run = match whole(text) {
        Some(Value::Array(list)) => run(Format::OpenHands, Charter::default(), openhands::events(&list)),
        Some(Value::Object(page)) if is_swe_agent(&page) => {
            run(Format::SweAgent, Charter::default(), swe_agent::events(&page))
        }
        Some(Value::Object(page)) => match (page.get("history"), page.get("events")) {
            (Some(Value::Array(list)), _) => {
                run(Format::OpenHands, Charter::default(), openhands::events(list))
            }
            (None, Some(Value::Array(list))) => run(Format::Own, Charter::default(), own::page(list)),
            _ => return Err(unknown()),
        },
        _ => match line_format(text).ok_or_else(unknown)? {
            Format::Own => {
                let (charter, events) = own::lines(text);
                run(Format::Own, charter, events)
            }
            _ => run(Format::ClaudeCode, Charter::default(), claude::events(text)),
        },
    };
    if run.events.is_empty() {
        return Err(Error::Empty { name: name.to_owned() });
    }
    Ok(run)
}

fn is_swe_agent(page: &Map<String, Value>) -> bool {
    let speaks = |history: &Value| history[0].get("role").is_some();
    page.contains_key("trajectory") || page.get("history").is_some_and(speaks)
}

/// A file that is one JSON value, and not one line of several.
fn whole(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    let is_line =
        value.get("event_type").is_some() || value.get("type").is_some() || value.get("run").is_some();
    (!is_line).then_some(value)
}

fn line_format(text: &str) -> Option<Format> {
    let first = text
        .lines()
        .take(50)
        .find_map(|line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object))?;
    let inner = first.get("m").filter(|inner| inner.is_object()).unwrap_or(&first);
    match () {
        () if first.get("event_type").is_some() || first.get("run").is_some() => Some(Format::Own),
        () if inner.get("type").is_some() => Some(Format::ClaudeCode),
        () => None,
    }
}
