//! Dispatch: gives ready tasks their sandboxes, as many as there is room for. It only writes down what is wanted and
//! wakes the loop of places, so that the making of one sandbox never holds up the order of the next.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::node::Node;
use crate::{
    bus::Wakes,
    crash::Point,
    store::{Dispatched, Error, Store},
};

/// How many tasks one tick takes; what is left over is taken by the next.
const LIMIT: usize = 64;
/// A dispatch that has not looked for so long asks the writer at once: little else waits for it then.
const RESTED: Duration = Duration::from_millis(50);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub dispatched: usize,
}

#[derive(Clone)]
pub struct Dispatch {
    store: Store,
    node: Node,
    wakes: Wakes,
    looked_at: Arc<Mutex<Option<Instant>>>,
}

impl Dispatch {
    pub fn new(store: Store, node: Node, wakes: Wakes) -> Self {
        Self { store, node, wakes, looked_at: Arc::default() }
    }

    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        let mut report = Report::default();
        if self.is_rested() {
            report.dispatched += usize::from(take(self.store.task_dispatch_at_once().await?));
        }
        report.dispatched += dispatch(&self.store, LIMIT - report.dispatched).await?.dispatched;
        if report.dispatched > 0 {
            self.wakes.places.notify_one();
        }
        if report.dispatched == LIMIT {
            self.wakes.dispatch.notify_one();
        }
        Ok(report)
    }

    fn is_rested(&self) -> bool {
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        looked_at.replace(Instant::now()).is_none_or(|last| last.elapsed() > RESTED)
    }
}

/// Takes tasks, the best first, until none may be taken or `limit` are.
pub async fn dispatch(store: &Store, limit: usize) -> Result<Report, Error> {
    let mut report = Report::default();
    while report.dispatched < limit && take(store.task_dispatch_next().await?) {
        report.dispatched += 1;
    }
    Ok(report)
}

/// Whether there was a task.
fn take(dispatched: Option<Dispatched>) -> bool {
    match &dispatched {
        None => {}
        Some(Dispatched::Ordered(id)) => {
            Point::Ordered.pass();
            tracing::debug!(sandbox.id = %id, "dispatch ordered sandbox {id}");
        }
        Some(Dispatched::WithoutKey(id, missing)) => {
            tracing::warn!(task.id = %id, "task {id} waits: {missing}");
        }
        Some(Dispatched::Refused(id, why)) => {
            tracing::warn!(task.id = %id, why, "task {id} cannot be started and was cancelled");
        }
    }
    dispatched.is_some()
}
