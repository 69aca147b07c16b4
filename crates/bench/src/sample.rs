//! The events that are sent: of the size and kinds that a working agent reports.

use std::{net::SocketAddr, ops::Range};

use crate::wire::Request;

/// Size of one event as it is posted.
pub const EVENT_BYTES: usize = 400;
/// Room for a worker's sequence number.
const NUMBER_WIDTH: usize = 10;

pub const TOOL_USE: &str = "agent.tool_use";
pub const HEARTBEAT: &str = "agent.heartbeat";
/// What a sandbox with a long history holds: every fifth event is a heartbeat.
pub const MIX: [&str; 5] = [TOOL_USE, "agent.tool_completed", "agent.message", HEARTBEAT, "agent.thinking"];

/// The data of an event, filled up to a size.
pub fn data(bytes: usize) -> String {
    const HEAD: &str =
        r#"{"turn":12,"tool":"Bash","tool_use_id":"toolu_01A09q90qw90lq917835lq9","content":""#;
    const TAIL: &str = r#""}"#;
    const WORDS: &str =
        "cargo nextest run --workspace && git diff --stat; the parser takes a comma for a stop. ";
    let room = bytes.saturating_sub(HEAD.len() + TAIL.len());
    let words: String = WORDS.chars().cycle().take(room).collect();
    format!("{HEAD}{words}{TAIL}")
}

/// JSON of events with a place for each one's number.
#[derive(Default)]
struct Body {
    text: String,
    slots: Vec<Range<usize>>,
}

impl Body {
    fn event(&mut self, event_type: &str, bytes: usize) {
        let frame = r#"{"event_type":"","event_data":,"source":"agent","worker_seq":}"#;
        let data = data(bytes.saturating_sub(frame.len() + event_type.len() + NUMBER_WIDTH));
        self.text.push_str(&format!(
            r#"{{"event_type":"{event_type}","event_data":{data},"source":"agent","worker_seq":"#
        ));
        let at = self.text.len();
        self.slots.push(at..at + NUMBER_WIDTH);
        self.text.push_str(&format!("{:>NUMBER_WIDTH$}}}", 1));
    }

    fn request(&self, at: SocketAddr, sandbox: &Sandbox) -> Request {
        let path = format!("/api/v1/sandboxes/{}/events", sandbox.id);
        Request::post(at, &path, &sandbox.token, self.text.as_bytes())
            .with_slots(self.text.len(), &self.slots)
    }
}

/// Who sends.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub id: String,
    pub token: String,
}

/// One numbered event a request.
pub fn single(at: SocketAddr, sandbox: &Sandbox) -> Request {
    let mut body = Body::default();
    body.event(TOOL_USE, EVENT_BYTES);
    body.request(at, sandbox)
}

/// Several numbered events a request, of these types in turn.
pub fn batch(at: SocketAddr, sandbox: &Sandbox, types: &[&str], count: usize) -> Request {
    let mut body = Body { text: r#"{"events":["#.to_owned(), slots: Vec::with_capacity(count) };
    for (n, event_type) in types.iter().cycle().take(count).enumerate() {
        if n > 0 {
            body.text.push(',');
        }
        body.event(event_type, EVENT_BYTES);
    }
    body.text.push_str("]}");
    body.request(at, sandbox)
}

/// One event without a number, so that several connections may send for one sandbox.
pub fn unnumbered(at: SocketAddr, sandbox: &Sandbox, bytes: usize) -> Request {
    let frame = r#"{"event_type":"","event_data":,"source":"agent"}"#;
    let data = data(bytes.saturating_sub(frame.len() + TOOL_USE.len()));
    let body = format!(r#"{{"event_type":"{TOOL_USE}","event_data":{data},"source":"agent"}}"#);
    Request::post(at, &format!("/api/v1/sandboxes/{}/events", sandbox.id), &sandbox.token, body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_its_size_and_is_json() {
        let mut body = Body::default();
        body.event(TOOL_USE, EVENT_BYTES);
        assert_eq!(body.text.len(), EVENT_BYTES);
        let event: serde_json::Value = serde_json::from_str(&body.text).unwrap();
        assert_eq!(event["worker_seq"], 1);
        assert_eq!(&body.text[body.slots[0].clone()].trim(), &"1");
    }
}
