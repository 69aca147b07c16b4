//! The one place that writes. Everything that waits is run in one transaction and answered after its commit, so
//! that many callers share one flush to disk (group commit). A caller that must be refused after it has written, or
//! a statement that fails, voids the batch; each of its items is then run alone.

use tokio::sync::mpsc;
use tracing::Instrument;

use super::{
    Announce, Error, Tx,
    event::{self, Append},
    job::{Item, Ran},
};
use crate::clock::Clock;

/// How many items and events one transaction takes at most: bounds how long the first of them waits.
const ITEMS_MAX: usize = 512;
const EVENTS_MAX: usize = 4096;

pub(super) struct Writer {
    pub queue: mpsc::Receiver<Item>,
    pub clock: Clock,
    pub announce: Announce,
}

impl Writer {
    /// Whatever waits now. While it is written, others arrive and wait for the next batch: to wait for them here,
    /// be it only by yielding, leaves the processor idle and was measured to cost a third of the rate.
    pub fn gather(&mut self, first: Item) -> Vec<Item> {
        let mut events = weight(&first);
        let mut batch = vec![first];
        while batch.len() < ITEMS_MAX && events < EVENTS_MAX {
            let Ok(item) = self.queue.try_recv() else { break };
            events += weight(&item);
            batch.push(item);
        }
        batch
    }

    /// Answers all of them with the reason why nothing can be written.
    pub fn refuse(batch: Vec<Item>, error: &Error) {
        finish(batch, || Err(Error::Unavailable(error.to_string())));
    }

    pub async fn write(&self, tx: &mut Tx, mut batch: Vec<Item>) {
        metrics::histogram!("omoi_write_batch_items").record(batch.len() as f64);
        let span = tracing::debug_span!("write", items = batch.len());
        match self.attempt(tx, &mut batch).instrument(span).await {
            Ok(()) => finish(batch, || Ok(())),
            Err(Error::Unavailable(why)) => finish(batch, || Err(Error::Unavailable(why.clone()))),
            Err(_) => self.write_each(tx, batch).await,
        }
    }

    async fn write_each(&self, tx: &mut Tx, batch: Vec<Item>) {
        for item in batch {
            let mut alone = vec![item];
            let done = self.attempt(tx, &mut alone).await;
            let mut done = match done {
                // Undone, and its own refusal is the answer.
                Err(Error::Busy) => Some(Ok(())),
                other => Some(other),
            };
            finish(alone, || done.take().unwrap_or(Ok(())));
        }
    }

    /// `Err(Busy)` stands for a batch voided by a refusal.
    async fn attempt(&self, tx: &mut Tx, batch: &mut [Item]) -> Result<(), Error> {
        let mut done = self.transact(tx, batch).await;
        if done.is_err() && tx.is_overtaken() {
            tx.rollback().await;
            tx.memory.overtaken();
            done = self.transact(tx, batch).await;
        }
        if done.is_err() {
            tx.rollback().await;
        }
        done
    }

    async fn transact(&self, tx: &mut Tx, batch: &mut [Item]) -> Result<(), Error> {
        tx.begin(self.clock.now()).await?;
        let mut appends: Vec<&mut Append> = Vec::new();
        let mut works = Vec::new();
        for item in batch {
            match item {
                Item::Append(append) => appends.push(append),
                Item::Work(work) => works.push(work),
            }
        }
        event::append_all(tx, &mut appends).await?;
        for work in works {
            let before = tx.writes;
            match work.run(tx).await {
                Ran::Done => {}
                Ran::Refused if tx.writes == before => {}
                Ran::Refused => return Err(Error::Busy),
                Ran::Fault(fault) => return Err(fault),
            }
        }
        let rows = tx.commit().await?;
        for append in appends {
            append.place(&rows);
        }
        (self.announce)(rows);
        Ok(())
    }
}

fn weight(item: &Item) -> usize {
    match item {
        Item::Append(append) => append.events.len(),
        Item::Work(_) => 1,
    }
}

fn finish(batch: Vec<Item>, mut committed: impl FnMut() -> Result<(), Error>) {
    for item in batch {
        match item {
            Item::Append(append) => append.finish(committed()),
            Item::Work(work) => work.finish(committed()),
        }
    }
}
