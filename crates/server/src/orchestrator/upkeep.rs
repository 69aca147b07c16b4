//! What time alone brings about: leases run out, retries come due, messages and agents age.

use crate::store::{Error, Store};

/// How much one tick does of each kind, so that no transaction is long.
const LIMIT: usize = 500;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub leases_resumed: usize,
    pub leases_expired: usize,
    pub tasks_touched: usize,
    pub messages_expired: usize,
    pub agents_degraded: usize,
    pub calls_lost: usize,
    pub sessions_ended: usize,
}

/// Upkeep as its loop runs it: where nobody looked for a while, leases begin anew before any of them ends.
pub async fn attend(store: &Store, node: &str) -> Result<Report, Error> {
    let leases_resumed = store.lease_resume(node).await?;
    Ok(Report { leases_resumed, ..upkeep(store).await? })
}

/// Does each part, whatever becomes of the others, and says the first fault.
pub async fn upkeep(store: &Store) -> Result<Report, Error> {
    let mut fault = None;
    let mut done = |part: Result<usize, Error>| {
        part.unwrap_or_else(|error| {
            fault.get_or_insert(error);
            0
        })
    };
    let report = Report {
        leases_resumed: 0,
        leases_expired: done(store.sandbox_expire(LIMIT).await),
        tasks_touched: done(store.task_upkeep(LIMIT).await),
        messages_expired: done(store.message_expire(LIMIT).await),
        agents_degraded: done(store.agent_degrade(LIMIT).await),
        calls_lost: done(store.call_sweep(LIMIT).await),
        sessions_ended: done(store.session_sweep(LIMIT).await),
    };
    fault.map_or(Ok(report), Err)
}
