//! Recorded runs of others as events of ours, so that one set of rules can be tried on all of them. Each format has a
//! file; every record is booked as understood, unknown or broken, and every text is bounded.

mod acp;
mod claude;
mod codex;
mod document;
mod ledger;
mod lines;
mod make;
mod openhands;
mod own;
mod swe_agent;
#[cfg(test)]
mod tests;

use omoi_protocol::event::StoredEvent;
use serde_json::Value;

pub use self::ledger::{Ledger, LineError, Verdict};
pub(super) use self::make::Make;
use self::{
    document::Document,
    lines::{LINE_BYTES_MAX, Record, records},
};
use super::trajectory::Charter;

/// Larger files are refused.
pub const FILE_BYTES_MAX: usize = 256 * 1024 * 1024;
pub const EVENTS_MAX: usize = 200_000;
/// The format of a file is decided by so many of its first records.
const SNIFFED: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Our events, one JSON object per line, or a page of them.
    Own,
    /// Claude Code's stream-json, its control channel, and the transcripts that it keeps.
    ClaudeCode,
    /// Codex: app-server notifications, `exec --json`, and the rollouts that it keeps.
    Codex,
    /// Sessions of the Agent Client Protocol.
    Acp,
    SweAgent,
    OpenHands,
}

impl Format {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Acp => "acp",
            Self::SweAgent => "swe-agent",
            Self::OpenHands => "openhands",
        }
    }
}

#[derive(Debug)]
pub struct Run {
    pub name: String,
    pub format: Format,
    pub charter: Charter,
    pub events: Vec<StoredEvent>,
    /// What became of the lines of the file.
    pub ledger: Ledger,
}

/// The formats that are read, for errors and help.
pub const FORMATS: &str = "our events as JSONL, Claude Code's stream-json or transcripts, Codex (app-server, exec --json \
                           or rollouts), ACP session logs, a SWE-agent .traj, or an OpenHands trajectory";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} has {bytes} bytes; at most {FILE_BYTES_MAX} are read")]
    TooLarge { name: String, bytes: usize },
    #[error("{name} is not a recording in a known format: {ledger}")]
    Unknown { name: String, ledger: Box<Ledger> },
    #[error("{name} contains no agent activity: {ledger}")]
    Empty { name: String, ledger: Box<Ledger> },
    #[error(
        "{name} contains the events of several sandboxes; store the events of each in a file of its own: {ledger}"
    )]
    SeveralSandboxes { name: String, ledger: Box<Ledger> },
}

impl Error {
    /// What became of the lines of the file, where they were read.
    pub fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::TooLarge { .. } => None,
            Self::Unknown { ledger, .. }
            | Self::Empty { ledger, .. }
            | Self::SeveralSandboxes { ledger, .. } => Some(ledger),
        }
    }
}

/// Reads one format of JSON lines, record by record.
trait Reader {
    fn record(&mut self, record: &Record, make: &mut Make) -> Verdict;

    /// The recording is over.
    fn end(&mut self, _: &mut Make) {}
}

/// What a file holds, by its content.
pub fn read(name: &str, bytes: impl AsRef<[u8]>) -> Result<Run, Error> {
    let bytes = bytes.as_ref();
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Error::TooLarge { name: name.to_owned(), bytes: bytes.len() });
    }
    let (format, charter, events, ledger) = match document::read(bytes) {
        Some(Document::SweAgent(page)) => {
            let (events, ledger) = swe_agent::events(&page);
            (Some(Format::SweAgent), Charter::default(), events, ledger)
        }
        Some(Document::OpenHands(list)) => {
            let (events, ledger) = openhands::events(&list);
            (Some(Format::OpenHands), Charter::default(), events, ledger)
        }
        Some(Document::Own(list)) => {
            let (events, ledger) = own::page(&list);
            (Some(Format::Own), Charter::default(), events, ledger)
        }
        Some(Document::Records(list)) => of_records(|| list.iter().cloned().map(|one| Ok(Record::of(one)))),
        None => of_records(|| records(bytes, LINE_BYTES_MAX)),
    };
    let (name, unknown) = (name.to_owned(), format.is_none());
    // Each sandbox numbers its events for itself.
    let several = events.windows(2).any(|pair| pair[0].sandbox_id != pair[1].sandbox_id);
    match format {
        Some(_) if several => Err(Error::SeveralSandboxes { name, ledger: Box::new(ledger) }),
        Some(format) if !events.is_empty() => Ok(Run { name, format, charter, events, ledger }),
        _ if unknown => Err(Error::Unknown { name, ledger: Box::new(ledger) }),
        _ => Err(Error::Empty { name, ledger: Box::new(ledger) }),
    }
}

type Parts = (Option<Format>, Charter, Vec<StoredEvent>, Ledger);

fn of_records<I: Iterator<Item = Result<Record, LineError>>>(all: impl Fn() -> I) -> Parts {
    let format = format_of(all().take(SNIFFED).flatten());
    let mut reader: Box<dyn Reader> = match format {
        Some(Format::Own) => {
            let (charter, events, ledger) = own::lines(all());
            return (format, charter, events, ledger);
        }
        Some(Format::ClaudeCode) => Box::new(claude::Claude::default()),
        Some(Format::Codex) => Box::new(codex::Codex::default()),
        Some(Format::Acp) => Box::new(acp::Acp::default()),
        Some(Format::SweAgent | Format::OpenHands) | None => Box::new(Nothing),
    };
    let (mut make, mut ledger) = (Make::new(), Ledger::default());
    for record in all() {
        let before = make.len();
        let verdict = match record {
            _ if make.is_full() => Verdict::Broken(LineError::TooManyEvents),
            Err(fault) => Verdict::Broken(fault),
            Ok(record) => {
                make.now(record.at);
                let body = &record.body;
                let directory = [&body["cwd"], &body["payload"]["cwd"], &body["params"]["cwd"]];
                directory.into_iter().find_map(Value::as_str).into_iter().for_each(|one| make.works_in(one));
                reader.record(&record, &mut make)
            }
        };
        ledger.book(verdict, make.len() > before);
    }
    reader.end(&mut make);
    (format, Charter::default(), make.done(), ledger)
}

/// The format that knows most of the records.
fn format_of(records: impl Iterator<Item = Record>) -> Option<Format> {
    let formats = [Format::Own, Format::ClaudeCode, Format::Codex, Format::Acp];
    let mut known = [0_usize; 4];
    for record in records {
        let body = &record.body;
        let knows = [own::knows(body), claude::knows(body), codex::knows(body), acp::knows(body)];
        known.iter_mut().zip(knows).for_each(|(count, knows)| *count += usize::from(knows));
    }
    let most = known.iter().max().filter(|most| **most > 0)?;
    known.iter().position(|count| count == most).map(|at| formats[at])
}

/// Reads a file of no known format: each record is of an unknown kind.
struct Nothing;

impl Reader for Nothing {
    fn record(&mut self, record: &Record, _: &mut Make) -> Verdict {
        Verdict::Unknown(kind_of(&record.body))
    }
}

/// The name of a record's kind, as far as it says one.
fn kind_of(body: &Value) -> String {
    let word = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let named = || ["type", "event_type", "method", "kind", "role"].iter().find_map(|key| word(key));
    match body {
        Value::Object(fields) => named().unwrap_or_else(|| match fields.keys().next() {
            Some(_) => format!("object of {}", fields.keys().take(4).cloned().collect::<Vec<_>>().join(", ")),
            None => "empty object".to_owned(),
        }),
        Value::Array(_) => "array".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::Bool(_) => "boolean".to_owned(),
        Value::Null => "null".to_owned(),
    }
}
