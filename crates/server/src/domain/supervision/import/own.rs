//! Our own events: one JSON object per line as stored, behind an optional first line that tells what was agreed
//! (`run`, `owned_files`, `budget_usd`); or a page of them as the API answers.

use std::collections::HashSet;

use omoi_protocol::{
    SandboxId,
    event::{EventKind, StoredEvent, is_reserved},
};
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
    let (mut charter, mut events, mut ledger) = (Charter::default(), Events::default(), Ledger::default());
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
                events.book(&record.body, &mut ledger);
                continue;
            }
        };
        ledger.book(verdict, false);
    }
    (charter, events.in_order(), ledger)
}

fn has_terms(body: &Value) -> bool {
    body.get("owned_files").is_some() || body.get("budget_usd").is_some()
}

pub fn page(list: &[Value]) -> (Vec<StoredEvent>, Ledger) {
    let (mut events, mut ledger) = (Events::default(), Ledger::default());
    for body in list {
        events.book(body, &mut ledger);
    }
    (events.in_order(), ledger)
}

#[derive(Default)]
struct Events {
    list: Vec<StoredEvent>,
    seen: HashSet<(SandboxId, i64)>,
}

impl Events {
    fn book(&mut self, body: &Value, ledger: &mut Ledger) {
        if body.get("event_type").is_none() {
            return ledger.book(Verdict::Unknown(kind_of(body)), false);
        }
        if self.list.len() >= EVENTS_MAX {
            return ledger.book(Verdict::Broken(LineError::TooManyEvents), false);
        }
        // An event keeps its data as raw text, which a parsed value no longer has.
        let Ok(event) = serde_json::from_str::<StoredEvent>(&body.to_string()) else {
            return ledger.book(Verdict::Broken(LineError::Misshapen), false);
        };
        if !self.seen.insert((event.sandbox_id.clone(), event.seq)) {
            return ledger.book(Verdict::Broken(LineError::Duplicate), false);
        }
        let is_known = EventKind::of(&event.event_type).is_some() || is_reserved(&event.event_type);
        let verdict = match is_known {
            true => Verdict::Understood,
            false => Verdict::Unknown(event.event_type.clone()),
        };
        ledger.book(verdict, true);
        self.list.push(event);
    }

    fn in_order(mut self) -> Vec<StoredEvent> {
        self.list.sort_by_key(|event| event.seq);
        self.list
    }
}
