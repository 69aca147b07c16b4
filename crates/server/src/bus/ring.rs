//! The ring: the last rows in memory, as viewers see them.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use axum::extract::ws::Utf8Bytes;
use omoi_protocol::live::LiveEvent;
use serde_json::value::RawValue;

use crate::store::Entry;

/// What one viewer is given at a time; each may hold a few of these while it does not read.
pub const VIEW_BYTES: usize = 1024 * 1024;
/// What a row takes in memory besides its data.
const ROW_BYTES: usize = 1024;

/// A row as viewers see it; its text is made once, for the first who wants it.
pub struct Live {
    pub entry: Entry,
    frame: OnceLock<Utf8Bytes>,
}

impl Live {
    pub fn new(entry: Entry) -> Arc<Self> {
        Arc::new(Self { entry, frame: OnceLock::new() })
    }

    /// A sandbox's own events are announced under a prefix, as they always were.
    pub fn event_type(&self) -> String {
        match self.entry.seq {
            Some(_) => format!("SANDBOX_{}", self.entry.event_type),
            None => self.entry.event_type.clone(),
        }
    }

    pub fn frame(&self) -> &Utf8Bytes {
        self.frame.get_or_init(|| {
            let event = LiveEvent {
                position: self.entry.pos,
                event_type: self.event_type(),
                entity_type: self.entry.entity_type.to_string(),
                entity_id: self.entry.entity_id.clone(),
                payload: self.payload(),
                seq: self.entry.seq,
                timestamp: self.entry.created_at,
            };
            serde_json::to_string(&event).unwrap_or_default().into()
        })
    }

    /// A sandbox's own event names its source and its type among its data.
    fn payload(&self) -> Box<RawValue> {
        let data = self.entry.data.trim();
        let text = match (self.entry.seq, data.strip_suffix('}')) {
            (Some(_), Some(open)) => {
                let comma = if open.trim_end() == "{" { "" } else { "," };
                let kind = serde_json::Value::from(self.entry.event_type.as_str());
                format!(r#"{open}{comma}"source":"{}","original_event_type":{kind}}}"#, self.entry.source)
            }
            _ => data.to_owned(),
        };
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// The last rows, up to a number and a weight.
pub struct Ring {
    rows: VecDeque<Arc<Live>>,
    bytes: usize,
    pub rows_max: usize,
    bytes_max: usize,
}

impl Ring {
    pub fn new(rows_max: usize, bytes_max: usize) -> Self {
        Self { rows: VecDeque::new(), bytes: 0, rows_max, bytes_max }
    }

    pub fn push(&mut self, entry: Entry) {
        self.bytes += weight(&entry);
        self.rows.push_back(Live::new(entry));
        while (self.rows.len() > self.rows_max || self.bytes > self.bytes_max)
            && let Some(oldest) = self.rows.pop_front()
        {
            self.bytes -= weight(&oldest.entry);
        }
    }

    /// Rows from a position on, at least one; none if it is not here.
    pub fn take(&self, from: i64, limit: usize) -> Option<Vec<Arc<Live>>> {
        let first = self.rows.front()?.entry.pos;
        let skip = usize::try_from(from - first).ok()?;
        let mut bytes = 0;
        let fits = |row: &&Arc<Live>| {
            let is_first = bytes == 0;
            bytes += weight(&row.entry);
            is_first || bytes <= VIEW_BYTES
        };
        Some(self.rows.iter().skip(skip).take(limit).take_while(fits).cloned().collect())
    }
}

/// Its data is there a second time once somebody has wanted its text.
pub fn weight(entry: &Entry) -> usize {
    2 * entry.data.len() + ROW_BYTES
}

#[cfg(test)]
pub mod tests {
    use std::borrow::Cow;

    use jiff::Timestamp;
    use omoi_protocol::EventSource;

    use super::*;

    pub fn entry(pos: i64, bytes: usize) -> Entry {
        Entry {
            pos,
            entity_type: Cow::Borrowed("sandbox"),
            entity_id: "sbx".to_owned(),
            seq: Some(pos),
            worker_seq: None,
            worker_last: 0,
            event_type: "agent.thinking".to_owned(),
            type_count: pos,
            opens_run: false,
            total_bytes: 0,
            source: EventSource::Agent,
            data: "x".repeat(bytes),
            created_at: Timestamp::UNIX_EPOCH,
            refused: None,
        }
    }

    fn positions(rows: Option<Vec<Arc<Live>>>) -> Option<Vec<i64>> {
        rows.map(|rows| rows.iter().map(|row| row.entry.pos).collect())
    }

    #[test]
    fn the_ring_holds_so_many_rows_and_so_many_bytes() {
        let mut ring = Ring::new(3, 10_000);
        (1..=5).for_each(|pos| ring.push(entry(pos, 10)));
        assert_eq!((ring.rows.len(), ring.rows[0].entry.pos), (3, 3));
        ring.push(entry(6, 4000));
        assert_eq!(positions(ring.take(6, 9)), Some(vec![6]), "twice its data, and nothing else has room");
        assert_eq!(positions(ring.take(5, 9)), None, "it is read from the store");
        ring.push(entry(7, 8000));
        assert_eq!((ring.rows.len(), ring.bytes), (0, 0), "larger than all of it");
        ring.push(entry(8, 10));
        assert_eq!(positions(ring.take(8, 9)), Some(vec![8]));
    }

    #[test]
    fn a_viewer_is_given_so_many_bytes_at_a_time_and_at_least_one_row() {
        let mut ring = Ring::new(100, usize::MAX);
        (1..=8).for_each(|pos| ring.push(entry(pos, VIEW_BYTES / 8)));
        assert_eq!(positions(ring.take(1, 9)), Some(vec![1, 2, 3]));
        ring.push(entry(9, VIEW_BYTES));
        assert_eq!(positions(ring.take(9, 9)), Some(vec![9]));
        assert_eq!(positions(ring.take(8, 1)), Some(vec![8]));
    }
}
