//! Events that the system itself adds to a sandbox's stream, in the transaction that brought them about. They are no
//! sign of life of the sandbox.

use std::borrow::Cow;

use omoi_protocol::{EventSource, SandboxId};
use serde_json::Value as Json;

use super::{Error, Tx, entry::Entry, typed, value::params, weight};

pub(super) async fn append(tx: &mut Tx, id: &SandboxId, event_type: &str, data: &Json) -> Result<(), Error> {
    let (seq, worker_last, total_bytes) = last(tx, id).await?;
    let (type_count, previous) = last_of_type(tx, id, event_type).await?;
    // The next batch of its worker has to ask where the stream stands.
    tx.memory.forget_one(id);
    let data = tx.data(data);
    tx.writes += 1;
    tx.rows.push(Entry {
        pos: 0,
        entity_type: Cow::Borrowed("sandbox"),
        entity_id: id.to_string(),
        seq: Some(seq + 1),
        worker_seq: None,
        worker_last,
        event_type: event_type.to_owned(),
        type_count: type_count + 1,
        opens_run: typed::opens_run(seq + 1, previous),
        total_bytes: total_bytes.saturating_add(weight::of(&data)),
        source: EventSource::System,
        data,
        refused: None,
        created_at: tx.now(),
    });
    Ok(())
}

/// The last event of the sandbox, which may still wait to be written by this very transaction.
async fn last(tx: &mut Tx, id: &SandboxId) -> Result<(i64, i64, i64), Error> {
    let waiting = tx.rows.iter().rev().find(|row| row.seq.is_some() && row.entity_id == id.as_str());
    if let Some(row) = waiting {
        return Ok((row.seq.unwrap_or(0), row.worker_last, row.total_bytes));
    }
    let sql = "SELECT seq, worker_last, total_bytes FROM events WHERE entity_id = $1 AND seq IS NOT NULL \
               ORDER BY seq DESC LIMIT 1";
    match tx.query_one(sql, params![id]).await? {
        Some(row) => Ok((row.get("seq")?, row.get("worker_last")?, row.get("total_bytes")?)),
        None => Ok((0, 0, 0)),
    }
}

/// How many of its like there are, and the last of them.
async fn last_of_type(tx: &mut Tx, id: &SandboxId, event_type: &str) -> Result<(i64, Option<i64>), Error> {
    let alike =
        |row: &&Entry| row.seq.is_some() && row.entity_id == id.as_str() && row.event_type == event_type;
    if let Some(row) = tx.rows.iter().rev().find(alike) {
        return Ok((row.type_count, row.seq));
    }
    let sql = typed::last("e.type_count, e.seq", "$1", "$2");
    let row = tx.query_one(&sql, params![id, event_type]).await?;
    row.map_or(Ok((0, None)), |row| Ok((row.get("type_count")?, Some(row.get("seq")?))))
}
