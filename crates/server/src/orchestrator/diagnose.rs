//! Diagnosis: tickets that cannot go on are told of, with what could be done. Nothing is done here.

use super::node::Node;
use crate::store::{Error, Store};

/// How many tickets one tick looks at.
const LIMIT: usize = 50;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub diagnosed: usize,
    pub overtaken: usize,
}

#[derive(Clone)]
pub struct Diagnose {
    pub store: Store,
    pub node: Node,
}

impl Diagnose {
    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        diagnose(&self.store).await
    }
}

pub async fn diagnose(store: &Store) -> Result<Report, Error> {
    let mut report = Report { overtaken: store.diagnosis_overtake(LIMIT).await?, ..Report::default() };
    for ticket in store.diagnosis_due(LIMIT).await? {
        if store.diagnosis_make(&ticket).await? {
            tracing::info!(ticket.id = %ticket, "ticket {ticket} cannot go on");
            report.diagnosed += 1;
        }
    }
    Ok(report)
}
