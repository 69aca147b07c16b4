//! One row of the order of everything, on its way into the store and out to live viewers.

use std::borrow::Cow;

use jiff::Timestamp;
use omoi_protocol::EventSource;

use super::{Error, value::Row};

#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place in the order; 0 until the transaction ends.
    pub pos: i64,
    pub entity_type: Cow<'static, str>,
    pub entity_id: String,
    /// For a sandbox's own event, its place among them.
    pub seq: Option<i64>,
    pub worker_seq: Option<i64>,
    /// The worker's last number as of this event.
    pub worker_last: i64,
    pub event_type: String,
    /// How many events of its type the sandbox has with this one.
    pub type_count: i64,
    /// Whether it is in the index of types.
    pub opens_run: bool,
    /// What the sandbox's events weigh together with this one; see `weight.rs`.
    pub total_bytes: i64,
    pub source: EventSource,
    /// A JSON object.
    pub data: String,
    pub created_at: Timestamp,
    /// Why the event changed nothing, when it meant to.
    pub refused: Option<Cow<'static, str>>,
}

impl Entry {
    pub(super) fn notice(
        event_type: &str,
        entity_type: &'static str,
        entity_id: &str,
        data: String,
        now: Timestamp,
    ) -> Self {
        Self {
            pos: 0,
            entity_type: Cow::Borrowed(entity_type),
            entity_id: entity_id.to_owned(),
            seq: None,
            worker_seq: None,
            worker_last: 0,
            event_type: event_type.to_owned(),
            type_count: 0,
            opens_run: false,
            total_bytes: 0,
            source: EventSource::System,
            data,
            created_at: now,
            refused: None,
        }
    }

    /// All but the data.
    pub(super) const COLUMNS: &str = "pos, entity_type, entity_id, seq, worker_seq, worker_last, event_type, type_count, \
                                      opens_run, total_bytes, source, created_at, refused";

    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            pos: row.get("pos")?,
            entity_type: Cow::Owned(row.get("entity_type")?),
            entity_id: row.get("entity_id")?,
            seq: row.get("seq")?,
            worker_seq: row.get("worker_seq")?,
            worker_last: row.get("worker_last")?,
            event_type: row.get("event_type")?,
            type_count: row.get("type_count")?,
            opens_run: row.get("opens_run")?,
            total_bytes: row.get("total_bytes")?,
            source: row.parse("source")?,
            data: row.get("data")?,
            created_at: row.get("created_at")?,
            refused: row.get::<Option<String>>("refused")?.map(Cow::Owned),
        })
    }
}
