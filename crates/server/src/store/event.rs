//! Events: everything that happened, in one order. Appends of a batch share their statements; whatever an event
//! means for its task happens in the transaction that stores it. Pages of them are in `paging.rs`.

use std::{borrow::Cow, collections::HashMap};

use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, SandboxId, SandboxStatus, event::NewEvent, sandbox::EventReceived,
};
use serde_json::Value as Json;

use super::{
    Error, Store, Tx, bulk,
    entry::Entry,
    footprint,
    job::Answer,
    keep, lapse, message,
    portion::{self, Portion, Room},
    reported_cost, sandbox,
    stream::{self, Stream},
    system, transition,
    value::{Row, params},
    watch::Beat,
    weight,
};
use crate::domain::{
    lease::Word,
    report::{self, Report},
    reported_cost::is_costly,
};

/// Repeated events that are looked up at a time: each may be large.
const REPEATED_PART: usize = 32;

/// Events to be stored for one sandbox, all or none.
pub struct Append {
    pub sandbox_id: SandboxId,
    pub events: Vec<NewEvent>,
    placed: Vec<Placed>,
    /// What became of the task, where an event was refused.
    refused_because: Option<String>,
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

impl Placed {
    fn is_refused(&self, rows: &[Entry]) -> bool {
        match self {
            Self::New { row } => rows[*row].refused.is_some(),
            Self::Known { refused, .. } => refused.is_some(),
        }
    }
}

impl Append {
    pub(super) fn new(
        sandbox_id: SandboxId,
        events: Vec<NewEvent>,
        reply: Answer<Vec<EventReceived>>,
    ) -> Self {
        Self { sandbox_id, events, placed: Vec::new(), refused_because: None, answer: None, reply }
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
                refused_because: refused.as_ref().and(self.refused_because.clone()),
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
    let overspent: Vec<SandboxId> = streams
        .values_mut()
        .filter_map(|stream| std::mem::take(&mut stream.overspent).then(|| stream.reporter.id.clone()))
        .collect();
    let heard = streams.values_mut().filter(|s| s.heard).map(|s| (&mut s.reporter, s.beat.take())).collect();
    sandbox::heard(tx, heard).await?;
    stream::keep(tx, streams);
    // Behind the batch, since each of these events takes the number that follows.
    for sandbox in overspent {
        reported_cost::judge(tx, &sandbox).await?;
    }
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
    weight::has_room(stream, new.clone(), tx.rules.sandbox_event_bytes_max)?;
    for event in new.filter(|event| means_something(event)) {
        json(event.event_data.get())?;
    }
    for (event, known) in append.events.iter().zip(known) {
        let placed = match known {
            Some(placed) => placed,
            None => store_one(tx, event, stream).await?,
        };
        append.placed.push(placed);
    }
    if append.placed.iter().any(|placed| placed.is_refused(&tx.rows)) {
        append.refused_because = Some(lapse::explain(tx, &append.sandbox_id).await?);
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
    let is_first = !std::mem::replace(&mut stream.heard, true);
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
    let report = match report::is_trigger(&event.event_type) {
        true => report::meaning(&event.event_type, &json(event.event_data.get())?, stream.run()),
        false => None,
    };
    let word = if report.as_ref().is_some_and(Report::is_end) { Word::End } else { Word::Alive };
    // The first event of a batch speaks for all but the end of an attempt.
    if is_first || word == Word::End {
        lapse::reclaim(tx, &mut stream.reporter, word).await?;
    }
    if let Some(report) = report {
        refused = transition::report(tx, &mut stream.reporter, report).await?;
    } else if let Some(state) = report::of_message(&event.event_type) {
        let data = event.event_data.get();
        message::reported_by_event(tx, &stream.reporter.id, state, &event.event_type, data).await?;
    } else if event.event_type == footprint::EVENT {
        footprint::observe(tx, &stream.reporter, event.event_data.get()).await?;
    }
    if is_costly(&event.event_type) {
        let data = event.event_data.get();
        stream.overspent |=
            reported_cost::observe(tx, &stream.reporter.id, seq, &event.event_type, data).await?;
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

/// Parses what was checked at the door.
pub(super) fn json(data: &str) -> Result<Json, Error> {
    serde_json::from_str(data).map_err(|error| {
        Error::invalid("event_data_unreadable", format!("event_data cannot be read: {error}"))
    })
}
