//! Events: everything that happened, in one order. Appends of a batch share their statements; whatever an event
//! means for its task happens in the transaction that stores it.

use std::{borrow::Cow, collections::HashMap};

use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, SandboxId, SandboxStatus,
    event::{NewEvent, StoredEvent},
    sandbox::{EventPage, EventReceived, HeartbeatSummary, Trajectory},
};
use serde_json::{Value as Json, value::RawValue};

use super::{
    Error, Store, Tx, bulk,
    entry::Entry,
    footprint,
    job::Answer,
    keep, message,
    portion::{self, PAGE_BYTES, Portion, Room},
    sandbox,
    stream::{self, Stream},
    system, transition,
    typed::{self, TypedAsk},
    value::{Row, params},
    watch::Beat,
    weight,
};
use crate::domain::report;

/// Repeated events that are looked up at a time: each may be large.
const REPEATED_PART: usize = 32;

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

    /// About what it holds.
    pub(super) fn bytes(&self) -> usize {
        let one =
            |event: &NewEvent| size_of::<NewEvent>() + event.event_type.len() + event.event_data.get().len();
        self.events.iter().map(one).sum()
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
    let mut before = repeated(tx, append, stream).await?;
    let mut known = Vec::with_capacity(append.events.len());
    let next = stream.last_worker_seq + 1;
    let mut expected = next;
    for (at, event) in append.events.iter().enumerate() {
        if means_something(event) {
            json(event.event_data.get())?;
        }
        known.push(match event.worker_seq {
            // Nothing of the batch is taken, so all of it is to be sent again.
            Some(n) if n > expected => return Err(Error::SequenceGap { got: n, expected: next }),
            Some(n) if n < next => before.remove(&at).transpose()?,
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
    let new = append.events.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(event, _)| event);
    weight::has_room(stream, new, tx.rules.sandbox_event_bytes_max)?;
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

/// What becomes of the events that the worker has sent before, by their index in the append. Each is where it went, or is
/// refused: other content under its number is a conflict.
async fn repeated(
    tx: &mut Tx,
    append: &Append,
    stream: &Stream,
) -> Result<HashMap<usize, Result<Placed, Error>>, Error> {
    let (sandbox, next) = (&stream.reporter.id, stream.last_worker_seq + 1);
    let numbers = append.events.iter().enumerate().filter_map(|(at, event)| Some((at, event.worker_seq?)));
    let again: Vec<_> = numbers.filter(|(_, n)| *n < next).collect();
    let mut became = HashMap::with_capacity(again.len());
    if again.is_empty() {
        return Ok(became);
    }
    let rows = tx.rows.iter().enumerate().filter(|(_, row)| row.entity_id == sandbox.as_str());
    let waiting: HashMap<i64, usize> = rows.filter_map(|(at, row)| Some((row.worker_seq?, at))).collect();
    // Numbers have no gap, so an event lies behind at most as many others as came without a number.
    let unnumbered = stream.last_seq - stream.last_worker_seq;
    for part in again.chunks(REPEATED_PART) {
        let wanted = part.iter().map(|(_, n)| *n).filter(|n| !waiting.contains_key(n));
        let mut stored = HashMap::new();
        for row in bulk::numbered(tx, sandbox, wanted.collect(), unnumbered).await? {
            stored.insert(row.get::<i64>("worker_seq")?, row);
        }
        for (at, n) in part {
            let event = &append.events[*at];
            let placed = match (waiting.get(n), stored.get(n)) {
                (Some(row), _) => repeats_waiting(event, *row, &tx.rows[*row]),
                (None, Some(row)) => repeats_stored(event, row)?,
                // A number below the first one that was ever sent.
                (None, None) => {
                    became.insert(*at, Err(Error::SequenceGap { got: *n, expected: 1 }));
                    continue;
                }
            };
            let other = || format!("worker_seq {n} of {sandbox} is stored with other content");
            became.insert(*at, placed.ok_or_else(|| Error::conflict("sequence_conflict", other())));
        }
    }
    Ok(became)
}

fn repeats_waiting(event: &NewEvent, at: usize, row: &Entry) -> Option<Placed> {
    repeats(event, &row.event_type, row.source, &row.data).then_some(Placed::New { row: at })
}

fn repeats_stored(event: &NewEvent, row: &Row) -> Result<Option<Placed>, Error> {
    let (event_type, data): (String, String) = (row.get("event_type")?, row.get("data")?);
    if !repeats(event, &event_type, row.parse("source")?, &data) {
        return Ok(None);
    }
    Ok(Some(Placed::Known {
        pos: row.get("pos")?,
        seq: row.get("seq")?,
        at: row.get("created_at")?,
        refused: row.get("refused")?,
    }))
}

fn repeats(event: &NewEvent, event_type: &str, source: EventSource, data: &str) -> bool {
    event.event_type == event_type && event.source == source && keep::matches(event, data)
}

async fn store_one(tx: &mut Tx, event: &NewEvent, stream: &mut Stream) -> Result<Placed, Error> {
    stream.last_seq += 1;
    stream.total_bytes = stream.total_bytes.saturating_add(weight::of(event.event_data.get()));
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
        total_bytes: stream.total_bytes,
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

    /// A page, newest first. `before` and `after` bound it by `seq`.
    pub async fn event_page(&self, id: &SandboxId, ask: EventAsk) -> Result<EventPage, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let total_count = match &ask.event_type {
                Some(kind) => total_of(tx, &id, kind).await?,
                None => total(tx, &id).await?,
            };
            let (events, has_more) = ask.page(tx, &id, total_count).await?;
            Ok(EventPage { events, total_count, has_more, sandbox_id: id.clone() })
        })
        .await
    }

    /// Events without heartbeats, from a cursor on.
    pub async fn event_trajectory(&self, id: &SandboxId, ask: TrajectoryAsk) -> Result<Trajectory, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let (total_events, heartbeat_summary) = (total(tx, &id).await?, heartbeats(tx, &id).await?);
            let cursor = match ask.cursor {
                Some(cursor) => Some(seq_of(tx, &id, cursor).await?),
                None => None,
            };
            let (mut events, has_more) = ask.page(tx, &id, cursor).await?;
            if ask.newer {
                events.reverse();
            }
            Ok(Trajectory {
                sandbox_id: id.clone(),
                total_events,
                trajectory_events: total_events - heartbeat_summary.count,
                next_cursor: events.last().filter(|_| has_more && !ask.newer).map(|e| e.id),
                prev_cursor: events.first().map(|e| e.id),
                has_more,
                heartbeat_summary,
                events,
            })
        })
        .await
    }

    /// Everything stored after a position, in order: what live viewers catch up with. About so many bytes at a time.
    pub async fn event_after(&self, pos: i64, limit: usize, bytes: usize) -> Result<Portion<Entry>, Error> {
        self.read(async move |tx| {
            let sql = format!(
                "SELECT {}, {} FROM events WHERE pos > $1 ORDER BY pos LIMIT $2",
                Entry::COLUMNS,
                portion::data()
            );
            let rows = tx.query(&sql, params![pos, limit]).await?;
            let is_short = rows.len() < limit;
            let (rows, is_cut) = Room::new(bytes).fill(tx, rows).await?;
            let rows = rows.iter().map(Entry::read).collect::<Result<_, _>>()?;
            Ok(Portion { rows, is_last: is_short && !is_cut })
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

/// Which page of events is wanted.
#[derive(Debug, Clone)]
pub struct EventAsk {
    pub limit: usize,
    pub offset: usize,
    pub event_type: Option<String>,
    pub after: Option<i64>,
    pub before: Option<i64>,
}

impl EventAsk {
    /// Newest first, and whether there are more in the direction of the page.
    async fn page(&self, tx: &mut Tx, id: &SandboxId, total: i64) -> Result<(Vec<StoredEvent>, bool), Error> {
        // From `after` alone on, the events right behind it are meant, not the newest.
        let oldest_first = self.after.is_some() && self.before.is_none();
        let (mut events, has_more) = match &self.event_type {
            None => self.any_page(tx, id, total, oldest_first).await?,
            Some(event_type) => {
                let (after, before) = (self.after.unwrap_or(0), self.before.unwrap_or(i64::MAX));
                let (offset, limit) = (self.offset, self.limit);
                TypedAsk { event_type, after, before, oldest_first, offset, limit }.page(tx, id).await?
            }
        };
        if oldest_first {
            events.reverse();
        }
        Ok((events, has_more))
    }

    /// Of whatever type. Numbers are dense, so the last one tells whether more follow.
    async fn any_page(
        &self,
        tx: &mut Tx,
        id: &SandboxId,
        total: i64,
        oldest_first: bool,
    ) -> Result<(Vec<StoredEvent>, bool), Error> {
        let mut sql = select("WHERE entity_id = $1 AND seq IS NOT NULL");
        let mut values = params![id];
        let mut offset = self.offset;
        let mut before = self.before;
        if self.after.is_none() && before.is_none() {
            // Without a filter the numbers are dense, so an offset is a bound and nothing is skipped over.
            before = Some(total.saturating_sub(offset as i64) + 1);
            offset = 0;
        }
        let mut and = |clause: &str, value| {
            values.push(value);
            sql.push_str(&format!(" AND {clause} ${}", values.len()));
        };
        if let Some(after) = self.after {
            and("seq >", after.into());
        }
        if let Some(before) = before {
            and("seq <", before.into());
        }
        values.push(self.limit.into());
        let order = if oldest_first { "ASC" } else { "DESC" };
        sql.push_str(&format!(" ORDER BY seq {order} LIMIT ${}", values.len()));
        if offset > 0 {
            values.push(offset.into());
            sql.push_str(&format!(" OFFSET ${}", values.len()));
        }
        let rows = tx.query(&sql, values).await?;
        let (rows, _) = Room::new(PAGE_BYTES).fill(tx, rows).await?;
        let events = rows.iter().map(|row| stored(row, id)).collect::<Result<Vec<_>, _>>()?;
        let has_more = events.last().is_some_and(|last| match oldest_first {
            true => last.seq < total,
            false => last.seq > self.after.unwrap_or(0).saturating_add(1),
        });
        Ok((events, has_more))
    }
}

#[derive(Debug, Clone)]
pub struct TrajectoryAsk {
    pub limit: usize,
    pub cursor: Option<EventId>,
    pub newer: bool,
}

impl TrajectoryAsk {
    async fn page(
        &self,
        tx: &mut Tx,
        id: &SandboxId,
        cursor: Option<i64>,
    ) -> Result<(Vec<StoredEvent>, bool), Error> {
        let (compare, order, cursor) = match (self.newer, cursor) {
            (true, cursor) => (">", "ASC", cursor.unwrap_or(0)),
            (false, cursor) => ("<", "DESC", cursor.unwrap_or(i64::MAX)),
        };
        let sql = select(&format!(
            "WHERE entity_id = $1 AND seq IS NOT NULL AND seq {compare} $2 \
             AND event_type NOT IN ('agent.heartbeat', 'heartbeat') ORDER BY seq {order} LIMIT $3"
        ));
        let mut rows = tx.query(&sql, params![id, cursor, self.limit + 1]).await?;
        let is_full = rows.len() > self.limit;
        rows.truncate(self.limit);
        let (rows, is_cut) = Room::new(PAGE_BYTES).fill(tx, rows).await?;
        let events = rows.iter().map(|row| stored(row, id)).collect::<Result<_, _>>()?;
        Ok((events, is_full || is_cut))
    }
}

/// The place of an event in its sandbox; another sandbox's event is no cursor here.
pub(super) async fn seq_of(tx: &mut Tx, id: &SandboxId, event: EventId) -> Result<i64, Error> {
    let row = tx
        .query_one(
            "SELECT seq FROM events WHERE pos = $1 AND entity_id = $2 AND seq IS NOT NULL",
            params![event.0, id],
        )
        .await?;
    row.ok_or_else(|| Error::not_found("event of that sandbox", event))?.get("seq")
}

/// Numbers are dense, so the last one says how many there are.
async fn total(tx: &mut Tx, id: &SandboxId) -> Result<i64, Error> {
    let sql = "SELECT seq FROM events WHERE entity_id = $1 AND seq IS NOT NULL ORDER BY seq DESC LIMIT 1";
    tx.query_one(sql, params![id]).await?.map_or(Ok(0), |row| row.get("seq"))
}

async fn total_of(tx: &mut Tx, id: &SandboxId, event_type: &str) -> Result<i64, Error> {
    Ok(last_of(tx, id, event_type).await?.map_or(0, |(count, _)| count))
}

/// The last event of a type: its number among its like, and when it came.
async fn last_of(tx: &mut Tx, id: &SandboxId, event_type: &str) -> Result<Option<(i64, Timestamp)>, Error> {
    let sql = typed::last("e.type_count, e.created_at", "$1", "$2");
    let row = tx.query_one(&sql, params![id, event_type]).await?;
    row.map(|row| Ok((row.get("type_count")?, row.get("created_at")?))).transpose()
}

async fn heartbeats(tx: &mut Tx, id: &SandboxId) -> Result<HeartbeatSummary, Error> {
    let mut summary = HeartbeatSummary { count: 0, first_heartbeat: None, last_heartbeat: None };
    for kind in report::TRAJECTORY_NOISE {
        let Some((count, last)) = last_of(tx, id, kind).await? else { continue };
        let first = typed::first(tx, id, kind).await?.map_or(Ok(last), |row| row.get("created_at"))?;
        summary.count += count;
        summary.first_heartbeat = Some(summary.first_heartbeat.map_or(first, |other| other.min(first)));
        summary.last_heartbeat = Some(summary.last_heartbeat.map_or(last, |other| other.max(last)));
    }
    Ok(summary)
}

/// SQL for events of a sandbox, whose rows are filled up by a [`Room`].
pub(super) fn select(from_where_on: &str) -> String {
    format!(
        "SELECT pos, seq, worker_seq, event_type, source, {}, created_at FROM events {from_where_on}",
        portion::data()
    )
}

pub(super) fn stored(row: &Row, id: &SandboxId) -> Result<StoredEvent, Error> {
    Ok(StoredEvent {
        id: EventId(row.get("pos")?),
        sandbox_id: id.clone(),
        seq: row.get("seq")?,
        worker_seq: row.get("worker_seq")?,
        event_type: row.get("event_type")?,
        event_data: raw(row.get("data")?)?,
        source: row.parse("source")?,
        created_at: row.get("created_at")?,
    })
}

fn raw(data: String) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(data).map_err(|_| Error::corrupt("data", "not JSON"))
}

/// Parses what was checked at the door.
pub(super) fn json(data: &str) -> Result<Json, Error> {
    serde_json::from_str(data).map_err(|error| {
        Error::invalid("event_data_unreadable", format!("event_data cannot be read: {error}"))
    })
}
