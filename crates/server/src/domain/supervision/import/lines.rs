//! The records of a file of JSON lines, and the envelope that a wire log puts around each of them.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{ledger::LineError, make::time};

/// A longer line is not parsed.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Who sent a message, where a wire log says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Client,
    Agent,
}

/// One message of a recording, without its envelope.
#[derive(Debug, Clone)]
pub struct Record {
    pub at: Option<Timestamp>,
    pub sender: Option<Sender>,
    pub body: Value,
}

/// The lines that are not blank, as records or with the reason why they are none.
pub fn records(bytes: &[u8], line_bytes_max: usize) -> impl Iterator<Item = Result<Record, LineError>> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(move |line| parse(line, line_bytes_max))
}

fn parse(line: &[u8], line_bytes_max: usize) -> Result<Record, LineError> {
    if line.len() > line_bytes_max {
        return Err(LineError::TooLong);
    }
    let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
    let text = text.trim_start_matches('\u{feff}');
    let body = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => LineError::CutOff,
        _ => LineError::NotJson,
    })?;
    Ok(Record::of(body))
}

/// Fields of an envelope that may hold the message, as an object or as a text of JSON.
const CONTENTS: [&str; 9] = ["m", "msg", "message", "data", "payload", "raw", "line", "json", "frame"];
const TIMES: [&str; 6] = ["t", "ts", "time", "timestamp", "at", "created_at"];
const DIRECTIONS: [&str; 3] = ["dir", "direction", "from"];
/// Fields that say that an object is a message itself.
const MESSAGES: [&str; 6] = ["type", "method", "jsonrpc", "event_type", "role", "id"];

impl Record {
    /// Takes a message out of its envelope. An object without one is the message.
    pub fn of(mut body: Value) -> Self {
        let Some((content, fields)) = body.as_object_mut().and_then(unwrap) else {
            let at = time(body.get("timestamp"));
            return Self { at, sender: None, body };
        };
        let at = TIMES.iter().find_map(|key| time(fields.get(*key)));
        let sender = DIRECTIONS.iter().find_map(|key| fields.get(*key)?.as_str()).and_then(sender);
        Self { at, sender, body: content }
    }
}

fn unwrap(fields: &mut Map<String, Value>) -> Option<(Value, &Map<String, Value>)> {
    let is_message = MESSAGES.iter().any(|key| fields.contains_key(*key));
    let has_time = TIMES.iter().chain(&DIRECTIONS).any(|key| fields.contains_key(*key));
    if is_message || !has_time {
        return None;
    }
    let content = CONTENTS.iter().find_map(|key| match fields.get(*key)? {
        Value::Object(_) => Some((*key, None)),
        Value::String(text) if text.trim_start().starts_with('{') => {
            Some((*key, Some(serde_json::from_str::<Value>(text).ok()?)))
        }
        _ => None,
    });
    let (key, parsed) = content?;
    let content = parsed.or_else(|| fields.get_mut(key).map(Value::take))?;
    Some((content, fields))
}

fn sender(word: &str) -> Option<Sender> {
    match word.to_ascii_lowercase().as_str() {
        "in" | "client" | "stdin" | "input" | "request" | "send" | "sent" | "to_agent" => {
            Some(Sender::Client)
        }
        "out" | "agent" | "server" | "stdout" | "output" | "recv" | "received" | "from_agent" => {
            Some(Sender::Agent)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_that_cannot_be_read_says_why() {
        let table: [(&[u8], LineError); 5] = [
            (b"hello", LineError::NotJson),
            (b"{\"a\": 1", LineError::CutOff),
            (b"\xff\xfe{}", LineError::NotUtf8),
            (b"{\"a\": 1}}", LineError::NotJson),
            (b"{\"long\": \"0123456789\"}", LineError::TooLong),
        ];
        for (line, fault) in table {
            let found: Vec<_> = records(line, 20).map(|record| record.map(|_| ())).collect();
            assert_eq!(found, [Err(fault)], "{}", String::from_utf8_lossy(line));
        }
        assert_eq!(records(b"\n \r\n{}\r\n\n{}", 20).filter(Result::is_ok).count(), 2);
    }

    #[test]
    fn an_envelope_is_taken_off_and_a_message_is_left_alone() {
        let message =
            json!({ "type": "user", "message": { "role": "user" }, "timestamp": "2026-01-01T00:00:00Z" });
        let wrapped = [
            json!({ "t": 1.5, "dir": "in", "m": message }),
            json!({ "ts": 1_767_225_600_000_u64, "direction": "client", "payload": message }),
            json!({ "time": "2026-01-01T00:00:00Z", "from": "stdin", "line": message.to_string() }),
        ];
        for envelope in wrapped {
            let record = Record::of(envelope.clone());
            assert_eq!((&record.body, record.sender), (&message, Some(Sender::Client)), "{envelope}");
            assert!(record.at.is_some(), "{envelope}");
        }
        assert_eq!(Record::of(message.clone()).body, message);
        let plain = json!({ "a": 1 });
        assert_eq!(Record::of(plain.clone()).body, plain);
    }
}
