//! Dispatch: gives ready tasks their sandboxes, as many as there is room for. It only writes down what is wanted and
//! wakes the loop of places, so that the making of one sandbox never holds up the order of the next.

use super::node::Node;
use crate::{
    bus::Wakes,
    crash::Point,
    store::{Dispatched, Error, Store},
};

/// How many tasks one tick takes; what is left over is taken by the next.
const LIMIT: usize = 64;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub dispatched: usize,
}

#[derive(Clone)]
pub struct Dispatch {
    pub store: Store,
    pub node: Node,
    pub wakes: Wakes,
}

impl Dispatch {
    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        let report = dispatch(&self.store, LIMIT).await?;
        if report.dispatched > 0 {
            self.wakes.places.notify_one();
        }
        if report.dispatched == LIMIT {
            self.wakes.dispatch.notify_one();
        }
        Ok(report)
    }
}

/// Takes tasks, the best first, until none may be taken or `limit` are.
pub async fn dispatch(store: &Store, limit: usize) -> Result<Report, Error> {
    let mut report = Report::default();
    while report.dispatched < limit {
        match store.task_dispatch_next().await? {
            None => break,
            Some(Dispatched::Ordered(id)) => {
                Point::Ordered.pass();
                tracing::debug!(sandbox.id = %id, "dispatch ordered sandbox {id}");
            }
            Some(Dispatched::Refused(id, why)) => {
                tracing::warn!(task.id = %id, why, "task {id} cannot be started and was cancelled");
            }
        }
        report.dispatched += 1;
    }
    Ok(report)
}
