//! Supervision: live sandboxes that get nowhere are ended, with a reason and with their work kept. What counts as
//! getting nowhere is in `domain::idle`.

use std::time::Duration;

use super::node::Node;
use crate::{
    clock::Clock,
    config,
    domain::idle::{self, Patience},
    store::{Error, Store},
};

/// How many quiet sandboxes one tick judges.
const LIMIT: usize = 1000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub idle: usize,
    pub stuck: usize,
}

#[derive(Clone)]
pub struct Supervise {
    pub store: Store,
    pub clock: Clock,
    pub node: Node,
    pub patience: Patience,
    /// How long workers stay where their task does not say.
    pub stays: Duration,
}

impl Supervise {
    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        supervise(&self.store, &self.clock, &self.patience, self.stays).await
    }
}

impl Patience {
    pub fn configured(config: &config::Supervise) -> Self {
        Self {
            idle_after: config.idle_after,
            stuck_after: config.stuck_after,
            waiting_after: config.waiting_after,
        }
    }
}

pub async fn supervise(
    store: &Store,
    clock: &Clock,
    patience: &Patience,
    stays: Duration,
) -> Result<Report, Error> {
    let mut report = Report::default();
    for quiet in store.sandbox_list_quiet(patience.least(), stays, LIMIT).await? {
        let verdict = idle::judge(&quiet.seen, patience, clock.now());
        let Some((reason, lasted)) = verdict.reason() else { continue };
        if !store.sandbox_give_up(&quiet, reason, lasted).await? {
            continue;
        }
        tracing::info!(sandbox.id = %quiet.id, %reason, "ended sandbox {}: {reason}", quiet.id);
        match verdict {
            idle::Verdict::Well => {}
            idle::Verdict::Idle { .. } => report.idle += 1,
            idle::Verdict::Stuck { .. } => report.stuck += 1,
        }
    }
    Ok(report)
}
