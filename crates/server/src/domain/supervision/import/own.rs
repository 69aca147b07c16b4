//! Our own events: one JSON object per line as stored, behind an optional first line that tells what was agreed
//! (`run`, `owned_files`, `budget_usd`); or a page of them as the API answers.

use omoi_protocol::event::StoredEvent;
use serde_json::Value;

use super::{super::trajectory::Charter, EVENTS_MAX};

pub fn lines(text: &str) -> (Charter, Vec<StoredEvent>) {
    let head = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    let head = head.filter(|head| head.get("event_type").is_none());
    let charter = head.and_then(|head| serde_json::from_value(head).ok()).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    (charter, in_order(events.take(EVENTS_MAX).collect()))
}

pub fn page(list: &[Value]) -> Vec<StoredEvent> {
    let events = list.iter().filter_map(|event| serde_json::from_str(&event.to_string()).ok());
    in_order(events.take(EVENTS_MAX).collect())
}

fn in_order(mut events: Vec<StoredEvent>) -> Vec<StoredEvent> {
    events.sort_by_key(|event| event.seq);
    events.dedup_by_key(|event| event.seq);
    events
}
