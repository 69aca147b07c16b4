//! What is known of a sandbox while its events are stored, remembered from one batch to the next.
//!
//! The next event of a busy sandbox needs its last numbers, and those are what the batch before left. They are
//! believed only while nobody else has written: another process shows in the stamp of the transaction, and a
//! statement of this one that changes a sandbox forgets them all (`tx.rs`).

use std::collections::{HashMap, HashSet};

use omoi_protocol::SandboxId;

use super::{Error, Tx, bulk, event::Append, sandbox::Reporter, typed, value::Row, watch::Beat};
use crate::domain::report::{self, Run};

/// More than these are not remembered: sandboxes, and types of events of one.
const STREAMS_MAX: usize = 4096;
const TYPES_MAX: usize = 64;
/// After so many transactions that followed each other it is trusted that the next one does: to be wrong costs a transaction, and
/// a line in PostgreSQL's log.
const ALONE: u32 = 16;

pub(super) struct Stream {
    pub reporter: Reporter,
    pub last_seq: i64,
    pub last_worker_seq: i64,
    /// What its events weigh together: see `weight.rs`.
    pub total_bytes: i64,
    /// What there is of each type, for the types that were asked for.
    counts: HashMap<String, Count>,
    /// In this batch: whether the worker spoke, and its last heartbeat.
    pub heard: bool,
    pub beat: Option<Beat>,
    /// In this batch: whether it reported cost that budgets count.
    pub overspent: bool,
}

impl Stream {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            reporter: Reporter::read(row)?,
            last_seq: row.get::<Option<i64>>("seq")?.unwrap_or(0),
            last_worker_seq: row.get::<Option<i64>>("worker_last")?.unwrap_or(0),
            total_bytes: row.get::<Option<i64>>("total_bytes")?.unwrap_or(0),
            counts: HashMap::new(),
            heard: false,
            beat: None,
            overspent: false,
        })
    }

    /// How the attempt is worked on; known where an event of the batch depends on it.
    pub fn run(&self) -> Run {
        match self.counts.get(report::OPENS_ITERATIONS) {
            Some(Count { count: 1.., .. }) => Run::Continuous,
            _ => Run::Single,
        }
    }

    /// The number that the last event has among its like, and whether the index of types holds it.
    pub fn count(&mut self, event_type: &str) -> (i64, bool) {
        let seq = self.last_seq;
        match self.counts.get_mut(event_type) {
            Some(count) => {
                let opens_run = typed::opens_run(seq, count.seq);
                *count = Count { count: count.count + 1, seq: Some(seq) };
                (count.count, opens_run)
            }
            None => {
                self.counts.insert(event_type.to_owned(), Count { count: 1, seq: Some(seq) });
                (1, true)
            }
        }
    }
}

/// How many events of a type there are, and the last of them.
struct Count {
    count: i64,
    seq: Option<i64>,
}

#[derive(Default)]
pub(super) struct Memory {
    streams: HashMap<SandboxId, Stream>,
    /// The stamp of the transaction in which it is as the database says.
    valid_at: Option<i64>,
    /// How often nobody else had written since the transaction before.
    alone: u32,
}

impl Memory {
    pub fn forget(&mut self) {
        self.streams.clear();
        self.valid_at = None;
    }

    /// Somebody else has written: to trust that nobody does was wrong.
    pub fn overtaken(&mut self) {
        self.forget();
        self.alone = 0;
    }

    /// Something was written that it does not tell.
    pub fn forget_one(&mut self, id: &SandboxId) {
        self.streams.remove(id);
    }

    /// A transaction of ours has ended, and the next one's stamp is known if nobody comes between.
    pub fn go_on(&mut self, from: i64, to: i64) {
        if self.valid_at == Some(from) {
            self.valid_at = Some(to);
        }
    }
}

/// The streams of all that is to be appended; of a sandbox that does not exist there is none.
pub(super) async fn load(tx: &mut Tx, appends: &[&mut Append]) -> Result<HashMap<SandboxId, Stream>, Error> {
    if let Some(valid_at) = tx.memory.valid_at {
        let stamp = match tx.known_stamp()? {
            None if tx.memory.alone >= ALONE => None,
            None => Some(tx.stamp().await?),
            known => known,
        };
        match stamp {
            // Asking would take as long as all the rest: it is found out on commit.
            None => tx.trusted = Some(valid_at),
            Some(stamp) if stamp == valid_at => tx.memory.alone = tx.memory.alone.saturating_add(1),
            Some(_) => tx.memory.overtaken(),
        }
    }
    let mut streams = HashMap::with_capacity(appends.len());
    let mut unknown = HashSet::new();
    for append in appends {
        let id = &append.sandbox_id;
        if let Some((id, stream)) = tx.memory.streams.remove_entry(id) {
            streams.insert(id, stream);
        }
        let known = streams.get(id).map(|stream: &Stream| &stream.counts);
        let types = append.events.iter().map(|event| event.event_type.as_str());
        let depends = types.clone().any(report::depends_on_run).then_some(report::OPENS_ITERATIONS);
        let types = types.chain(depends);
        unknown.extend(
            types.filter(|kind| known.is_none_or(|known| !known.contains_key(*kind))).map(|kind| (id, kind)),
        );
    }
    if !unknown.is_empty() {
        let unknown: Vec<_> = unknown.into_iter().map(|(id, kind)| (id.as_str(), kind)).collect();
        for row in bulk::streams(tx, &unknown).await? {
            let stream = Stream::read(&row)?;
            let stream = streams.entry(stream.reporter.id.clone()).or_insert(stream);
            let count = row.get::<Option<i64>>("type_count")?.unwrap_or(0);
            stream.counts.insert(row.get("event_type")?, Count { count, seq: row.get("type_seq")? });
        }
    }
    if tx.trusted.is_none() {
        tx.memory.valid_at = Some(tx.stamp().await?);
    }
    Ok(streams)
}

/// Remembers them for the next batch, unless something was written meanwhile that they do not tell.
pub(super) fn keep(tx: &mut Tx, streams: HashMap<SandboxId, Stream>) {
    if tx.memory.valid_at.is_none() {
        return;
    }
    if tx.memory.streams.len() + streams.len() > STREAMS_MAX {
        tx.memory.streams.clear();
    }
    let few = streams.into_iter().filter(|(_, stream)| stream.counts.len() <= TYPES_MAX).take(STREAMS_MAX);
    tx.memory.streams.extend(few.map(|(id, stream)| (id, Stream { heard: false, beat: None, ..stream })));
}
