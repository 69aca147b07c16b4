//! Our own events: one JSON object per line as stored, behind an optional first line that tells what was agreed
//! (`run`, `owned_files`, `budget_usd`); or a page of them as the API answers.

use omoi_protocol::event::{EventKind, StoredEvent, is_reserved};
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::trajectory::Charter,
    EVENTS_MAX, kind_of,
    ledger::{Ledger, LineError, Verdict},
    lines::Record,
};

/// Whether a record is an event of ours, or the line before them.
pub fn knows(body: &Value) -> bool {
    body.get("event_type").is_some() || is_head(body)
}

fn is_head(body: &Value) -> bool {
    body.get("run").is_some() && body.get("type").is_none()
}

pub fn lines(
    records: impl Iterator<Item = Result<Record, LineError>>,
) -> (Charter, Vec<StoredEvent>, Ledger) {
    let (mut charter, mut events, mut ledger) = (Charter::default(), Vec::new(), Ledger::default());
    for (at, record) in records.enumerate() {
        let verdict = match record {
            Err(fault) => Verdict::Broken(fault),
            Ok(record) if at == 0 && !record.body.is_null() && record.body.get("event_type").is_none() => {
                match Charter::deserialize(&record.body) {
                    Ok(head) if is_head(&record.body) || has_terms(&record.body) => {
                        charter = head;
                        Verdict::Understood
                    }
                    Ok(_) => Verdict::Unknown(kind_of(&record.body)),
                    Err(_) => Verdict::Broken(LineError::Misshapen),
                }
            }
            Ok(record) => {
                book(&record.body, &mut events, &mut ledger);
                continue;
            }
        };
        ledger.book(verdict, false);
    }
    (charter, in_order(events), ledger)
}

fn has_terms(body: &Value) -> bool {
    body.get("owned_files").is_some() || body.get("budget_usd").is_some()
}

pub fn page(list: &[Value]) -> (Vec<StoredEvent>, Ledger) {
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    for body in list {
        book(body, &mut events, &mut ledger);
    }
    (in_order(events), ledger)
}

fn book(body: &Value, events: &mut Vec<StoredEvent>, ledger: &mut Ledger) {
    if body.get("event_type").is_none() {
        return ledger.book(Verdict::Unknown(kind_of(body)), false);
    }
    if events.len() >= EVENTS_MAX {
        return ledger.book(Verdict::Broken(LineError::TooManyEvents), false);
    }
    // An event keeps its data as raw text, which a parsed value no longer has.
    match serde_json::from_str::<StoredEvent>(&body.to_string()) {
        Ok(event) => {
            let is_known = EventKind::of(&event.event_type).is_some() || is_reserved(&event.event_type);
            let verdict = match is_known {
                true => Verdict::Understood,
                false => Verdict::Unknown(event.event_type.clone()),
            };
            ledger.book(verdict, true);
            events.push(event);
        }
        Err(_) => ledger.book(Verdict::Broken(LineError::Misshapen), false),
    }
}

fn in_order(mut events: Vec<StoredEvent>) -> Vec<StoredEvent> {
    events.sort_by_key(|event| event.seq);
    events.dedup_by_key(|event| event.seq);
    events
}
