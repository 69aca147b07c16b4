//! The one place that writes. Everything that waits is run in one transaction and answered after its commit, so
//! that many callers share one flush to disk (group commit). A caller that must be refused after it has written, or
//! a statement that fails, voids the batch; each of its items is then run alone.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::Instrument;

use super::{
    Announce, Error, Tx,
    event::{self, Append},
    ground::Ground,
    head::HeadFile,
    job::Ran,
    queue::{Item, Work},
    salvage,
};
use crate::clock::Clock;

/// How many items, events and bytes one transaction takes at most, but for the last item: bounds how long the first of them waits.
const ITEMS_MAX: usize = 512;
const EVENTS_MAX: usize = 4096;
const BYTES_MAX: usize = 16 << 20;
/// When so many in a row cannot be written, each alone, it is not their fault.
const FAILURES_MAX: usize = 2;

pub(super) struct Writer {
    pub queue: mpsc::Receiver<Item>,
    pub clock: Clock,
    pub announce: Announce,
    pub ground: Arc<Ground>,
    pub head: Arc<HeadFile>,
}

/// Why a batch was undone.
enum Void {
    /// Somebody was refused after having written.
    Refused,
    Fault(Error),
}

impl From<Error> for Void {
    fn from(fault: Error) -> Self {
        Self::Fault(fault)
    }
}

impl Writer {
    /// Whatever waits now. While it is written, others arrive and wait for the next batch: to wait for them here,
    /// be it only by yielding, leaves the processor idle and was measured to cost a third of the rate.
    pub fn gather(&mut self, first: Item) -> Vec<Item> {
        let (mut events, mut bytes) = (events(&first), first.bytes);
        let mut batch = vec![first];
        while batch.len() < ITEMS_MAX && events < EVENTS_MAX && bytes < BYTES_MAX {
            let Ok(item) = self.queue.try_recv() else { break };
            events += self::events(&item);
            bytes += item.bytes;
            batch.push(item);
        }
        batch
    }

    /// Answers all of them with the reason why nothing can be written.
    pub fn refuse(batch: Vec<Item>, error: &Error) {
        finish(batch, || Err(error.again()));
    }

    pub async fn write(&self, tx: &mut Tx, mut batch: Vec<Item>) {
        metrics::histogram!("omoi_write_batch_items").record(batch.len() as f64);
        if let Err(removed) = self.in_place(tx) {
            return Self::refuse(batch, &removed);
        }
        let span = tracing::debug_span!("write", items = batch.len());
        match self.attempt(tx, &mut batch).instrument(span).await {
            Ok(()) => finish(batch, || Ok(())),
            Err(Void::Fault(removed @ Error::Removed(_))) => Self::refuse(batch, &removed),
            Err(void) if batch.len() == 1 => answer(batch, void),
            Err(_) if tx.can_go_on() => self.write_each(tx, batch).await,
            Err(Void::Fault(fault)) => Self::refuse(batch, &fault),
            Err(Void::Refused) => Self::refuse(batch, &lost()),
        }
    }

    /// One that takes too long, or too much, fails alone, and the others do not fail with it.
    async fn write_each(&self, tx: &mut Tx, batch: Vec<Item>) {
        let (mut failures, mut last) = (0, lost());
        let mut batch = batch.into_iter();
        while failures < FAILURES_MAX
            && !tx.is_lost()
            && let Some(item) = batch.next()
        {
            let mut alone = vec![item];
            let done = self.attempt(tx, &mut alone).await;
            failures = match &done {
                Err(Void::Fault(fault)) if fault.may_pass() => {
                    last = fault.again();
                    failures + 1
                }
                _ => 0,
            };
            match done {
                Ok(()) => finish(alone, || Ok(())),
                Err(void) => answer(alone, void),
            }
        }
        Self::refuse(batch.collect(), &last);
    }

    /// A database whose file was removed while it is in use can still be read through this connection, and through nothing
    /// else. So what it holds is saved, once, before the failure is reported.
    fn in_place(&self, tx: &mut Tx) -> Result<(), Error> {
        let Some((part, _)) = self.ground.missing() else {
            self.ground.note_saved(None);
            return Ok(());
        };
        if !self.ground.is_saved() {
            salvage::save(tx, part, &self.ground, self.clock.now());
        }
        self.ground.in_place()
    }

    async fn attempt(&self, tx: &mut Tx, batch: &mut [Item]) -> Result<(), Void> {
        let mut done = self.transact(tx, batch).await;
        if done.is_err() && tx.is_overtaken() {
            tx.rollback().await;
            tx.memory.overtaken();
            done = self.transact(tx, batch).await;
        }
        if done.is_err() {
            tx.rollback().await;
        }
        done.map_err(|void| match void {
            Void::Fault(fault) => Void::Fault(self.ground.judge(fault)),
            Void::Refused => Void::Refused,
        })
    }

    async fn transact(&self, tx: &mut Tx, batch: &mut [Item]) -> Result<(), Void> {
        tx.begin(self.clock.now()).await?;
        let mut appends: Vec<&mut Append> = Vec::new();
        let mut jobs = Vec::new();
        for item in batch {
            match &mut item.work {
                Work::Append(append) => appends.push(append),
                Work::Job(job, ..) => jobs.push(job),
            }
        }
        event::append_all(tx, &mut appends).await?;
        for job in jobs {
            let before = tx.writes;
            match job.run(tx).await {
                Ran::Done => {}
                Ran::Refused if tx.writes == before => {}
                Ran::Refused => return Err(Void::Refused),
                Ran::Fault(fault) => return Err(fault.into()),
            }
        }
        let goes_on = tx.audit.is_empty() || self.head.is_held(tx).await?;
        let rows = tx.commit().await?;
        // Not acknowledged before it is certain that others can read it.
        self.in_place(tx)?;
        self.ground.note_written();
        if let Some(head) = tx.audit_head.take().filter(|_| goes_on) {
            self.head.advance(&head);
        }
        for append in appends {
            append.place(&rows);
        }
        (self.announce)(rows);
        Ok(())
    }
}

fn events(item: &Item) -> usize {
    match &item.work {
        Work::Append(append) => append.events.len(),
        Work::Job(..) => 1,
    }
}

fn lost() -> Error {
    Error::Unavailable("what was written before could not be undone, or not be written either".to_owned())
}

/// Undone, and its own refusal is the answer unless the database failed.
fn answer(alone: Vec<Item>, void: Void) {
    let mut answer = match void {
        Void::Refused => None,
        Void::Fault(fault) => Some(fault),
    };
    finish(alone, || answer.take().map_or(Ok(()), Err));
}

fn finish(batch: Vec<Item>, mut committed: impl FnMut() -> Result<(), Error>) {
    for item in batch {
        match item.work {
            Work::Append(append) => append.finish(committed()),
            Work::Job(job, ..) => job.finish(committed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::{
        super::{Place, queue::Queue},
        *,
    };
    use crate::config::SqliteSynchronous;

    #[test]
    fn a_batch_ends_where_it_is_large_enough() {
        let (queue, waiting) = Queue::new(100, 256 << 20);
        let place = Place::Sqlite { path: "/nowhere/omoi.db".into(), synchronous: SqliteSynchronous::Full };
        let ground = Arc::new(Ground::new("/nowhere".as_ref(), &place));
        let head = Arc::new(HeadFile::new("/nowhere".as_ref()));
        let mut writer =
            Writer { queue: waiting, clock: Clock::Real, announce: Box::new(|_| {}), ground, head };
        for n in 0..10 {
            let events =
                serde_json::json!([{ "event_type": "a", "event_data": { "text": "x".repeat(6 << 20) } }]);
            let (reply, _) = oneshot::channel();
            let events = serde_json::from_value(events).unwrap();
            let sandbox = format!("sbx-{n}").parse().unwrap();
            queue.push(Work::Append(Append::new(sandbox, events, reply))).unwrap();
        }
        let mut sizes = Vec::new();
        while let Ok(first) = writer.queue.try_recv() {
            sizes.push(writer.gather(first).len());
        }
        assert_eq!(sizes, [3, 3, 3, 1]);
    }
}
