//! Events: everything that happened, in one order. Appends of a batch share their statements; whatever an event
//! means for its task happens in the transaction that stores it. Pages of them are in `paging.rs`.

use std::borrow::Cow;

use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, SandboxId, SandboxStatus, event::NewEvent, sandbox::EventReceived,
};
use serde_json::Value as Json;

use super::{
    Error, Store, Tx,
    entry::Entry,
    footprint,
    job::Answer,
    keep, message, sandbox,
    stream::{self, Stream},
    system, transition,
    value::params,
    watch::Beat,
};
use crate::domain::report;

/// Events to be stored for one sandbox, all or none.
pub struct Append {
    pub sandbox_id: SandboxId,
    pub events: Vec<NewEvent>,
    placed: Vec<Placed>,
    answer: Option<Result<Vec<EventReceived>, Error>>,
    reply: Answer<Vec<EventReceived>>,
}

/// Where an event went.
enum Placed {
    /// Into the outbox, at this index.
    New { row: usize },
    /// It was there already: the worker repeats itself.
    Known { pos: i64, seq: i64, at: Timestamp, refused: Option<String> },
}

impl Append {
    pub(super) fn new(
        sandbox_id: SandboxId,
        events: Vec<NewEvent>,
        reply: Answer<Vec<EventReceived>>,
    ) -> Self {
        Self { sandbox_id, events, placed: Vec::new(), answer: None, reply }
    }

    /// After commit: the answer, now that the rows have their positions.
    pub(super) fn place(&mut self, rows: &[Entry]) {
        if self.answer.is_some() {
            return;
        }
        let received = self.events.iter_mut().zip(self.placed.drain(..)).map(|(event, placed)| {
            let (pos, seq, timestamp, refused) = match placed {
                Placed::New { row } => {
                    let row = &rows[row];
                    let refused = row.refused.as_deref().map(str::to_owned);
                    (row.pos, row.seq.unwrap_or(0), row.created_at, refused)
                }
                Placed::Known { pos, seq, at, refused } => (pos, seq, at, refused),
            };
            EventReceived {
                status: "received".to_owned(),
                sandbox_id: self.sandbox_id.clone(),
                event_type: std::mem::take(&mut event.event_type),
                event_id: EventId(pos),
                seq,
                timestamp,
                refused,
            }
        });
        self.answer = Some(Ok(received.collect()));
    }

    pub(super) fn finish(self, committed: Result<(), Error>) {
        let answer = committed.and_then(|()| self.answer.unwrap_or(Err(Error::Busy)));
        let _ = self.reply.send(answer);
    }
}

pub(super) async fn append_all(tx: &mut Tx, appends: &mut [&mut Append]) -> Result<(), Error> {
    if appends.is_empty() {
        return Ok(());
    }
    let mut streams = stream::load(tx, appends).await?;
    for append in appends {
        append.placed.clear();
        append.answer = None;
        let done = match streams.get_mut(&append.sandbox_id) {
            None => Err(Error::not_found("sandbox", &append.sandbox_id)),
            Some(stream) => append_one(tx, append, stream).await,
        };
        match done {
            Err(fault) if fault.is_fault() => return Err(fault),
            Err(refusal) => append.answer = Some(Err(refusal)),
            Ok(()) => {}
        }
    }
    let heard = streams.values_mut().filter(|s| s.heard).map(|s| (&mut s.reporter, s.beat.take())).collect();
    sandbox::heard(tx, heard).await?;
    stream::keep(tx, streams);
    Ok(())
}

/// Checks everything before it changes anything: a refused append leaves no trace.
async fn append_one(tx: &mut Tx, append: &mut Append, stream: &mut Stream) -> Result<(), Error> {
    if stream.reporter.reports_until.is_some_and(|until| until <= tx.now()) {
        return Err(Error::TokenEnded);
    }
    let mut known = Vec::with_capacity(append.events.len());
    let next = stream.last_worker_seq + 1;
    let mut expected = next;
    for event in &append.events {
        if means_something(event) {
            json(event.event_data.get())?;
        }
        known.push(match event.worker_seq {
            // Nothing of the batch is taken, so all of it is to be sent again.
            Some(n) if n > expected => return Err(Error::SequenceGap { got: n, expected: next }),
            Some(n) if n < next => Some(find_repeated(tx, stream, event, n).await?),
            Some(n) if n < expected => {
                let detail = format!("worker_seq {n} comes twice in one batch");
                return Err(Error::conflict("sequence_conflict", detail));
            }
            Some(_) => {
                expected += 1;
                None
            }
            None => None,
        });
    }
    for (event, known) in append.events.iter().zip(known) {
        let placed = match known {
            Some(placed) => placed,
            None => store_one(tx, event, stream).await?,
        };
        append.placed.push(placed);
    }
    Ok(())
}

/// Whether its data is read when it is stored, and so must be readable.
fn means_something(event: &NewEvent) -> bool {
    report::is_trigger(&event.event_type) || report::of_message(&event.event_type).is_some()
}

/// The event that the worker has sent before under this number; other content under it is a conflict.
async fn find_repeated(tx: &mut Tx, stream: &Stream, event: &NewEvent, n: i64) -> Result<Placed, Error> {
    let sandbox = &stream.reporter.id;
    let same = |event_type: &str, source: EventSource, data: &str| {
        event.event_type == event_type && event.source == source && keep::matches(event, data)
    };
    let other = || {
        let detail = format!("worker_seq {n} of {sandbox} is stored with other content");
        Error::conflict("sequence_conflict", detail)
    };
    let waiting = tx
        .rows
        .iter()
        .enumerate()
        .find(|(_, row)| row.worker_seq == Some(n) && row.entity_id == sandbox.as_str());
    if let Some((at, row)) = waiting {
        return if same(&row.event_type, row.source, &row.data) {
            Ok(Placed::New { row: at })
        } else {
            Err(other())
        };
    }
    // Numbers have no gap, so the event lies behind at most as many others as came without a number.
    let unnumbered = stream.last_seq - stream.last_worker_seq;
    let row = tx
        .query_one(
            "SELECT pos, seq, event_type, source, data, created_at, refused FROM events WHERE entity_id = $1 \
             AND seq IS NOT NULL AND seq >= $2 AND seq <= $3 AND worker_seq = $2",
            params![sandbox, n, n.saturating_add(unnumbered)],
        )
        .await?;
    match row {
        Some(row)
            if same(&row.get::<String>("event_type")?, row.parse("source")?, &row.get::<String>("data")?) =>
        {
            Ok(Placed::Known {
                pos: row.get("pos")?,
                seq: row.get("seq")?,
                at: row.get("created_at")?,
                refused: row.get("refused")?,
            })
        }
        // A number below the first one that was ever sent.
        None => Err(Error::SequenceGap { got: n, expected: 1 }),
        Some(_) => Err(other()),
    }
}

async fn store_one(tx: &mut Tx, event: &NewEvent, stream: &mut Stream) -> Result<Placed, Error> {
    stream.last_seq += 1;
    stream.heard = true;
    if report::is_heartbeat(&event.event_type) {
        stream.beat = Some(Beat::read(event.event_data.get()));
    }
    if let Some(n) = event.worker_seq {
        stream.last_worker_seq = n;
    }
    let (type_count, opens_run) = stream.count(&event.event_type);
    let seq = stream.last_seq;
    let data = keep::extract(tx, &stream.reporter, seq, event).await?;
    let mut refused = None;
    if report::is_trigger(&event.event_type) {
        refused =
            transition::report(tx, &mut stream.reporter, &event.event_type, event.event_data.get()).await?;
    } else if let Some(state) = report::of_message(&event.event_type) {
        message::reported_by_event(tx, &stream.reporter.id, state, event.event_data.get()).await?;
    } else if event.event_type == footprint::EVENT {
        footprint::observe(tx, &stream.reporter, event.event_data.get()).await?;
    }
    if stream.reporter.status == SandboxStatus::Creating {
        sandbox::set_running(tx, &mut stream.reporter).await?;
    }
    tx.writes += 1;
    tx.rows.push(Entry {
        pos: 0,
        entity_type: Cow::Borrowed("sandbox"),
        entity_id: stream.reporter.id.to_string(),
        seq: Some(seq),
        worker_seq: event.worker_seq,
        worker_last: stream.last_worker_seq,
        event_type: event.event_type.clone(),
        type_count,
        opens_run,
        source: event.source,
        data,
        created_at: tx.now,
        refused: refused.map(Cow::Borrowed),
    });
    Ok(Placed::New { row: tx.rows.len() - 1 })
}

impl Store {
    /// Stores events of a sandbox, in order, all or none. Answers after commit.
    pub async fn event_append(
        &self,
        id: &SandboxId,
        events: Vec<NewEvent>,
    ) -> Result<Vec<EventReceived>, Error> {
        self.append(id.clone(), events).await
    }

    /// Stores what the server itself has to tell about a sandbox.
    pub async fn event_tell(&self, id: &SandboxId, event_type: &str, data: &Json) -> Result<(), Error> {
        let (id, event_type, data) = (id.clone(), event_type.to_owned(), data.clone());
        self.write(async move |tx| system::append(tx, &id, &event_type, &data).await).await
    }

    /// Everything stored after a position, in order: what live viewers catch up with.
    pub async fn event_after(&self, pos: i64, limit: usize) -> Result<Vec<Entry>, Error> {
        self.read(async move |tx| {
            let rows = tx
                .query(
                    "SELECT pos, entity_type, entity_id, seq, worker_seq, worker_last, event_type, type_count, opens_run, source, \
                     data, created_at, refused FROM events WHERE pos > $1 ORDER BY pos LIMIT $2",
                    params![pos, limit],
                )
                .await?;
            rows.iter().map(Entry::read).collect()
        })
        .await
    }

    pub async fn event_last_position(&self) -> Result<i64, Error> {
        self.read(async |tx| {
            let row = tx.query_one("SELECT COALESCE(max(pos), 0) AS pos FROM events", params![]).await?;
            row.map_or(Ok(0), |row| row.get("pos"))
        })
        .await
    }
}

/// Parses what was checked at the door.
pub(super) fn json(data: &str) -> Result<Json, Error> {
    serde_json::from_str(data).map_err(|error| {
        Error::invalid("event_data_unreadable", format!("event_data cannot be read: {error}"))
    })
}
