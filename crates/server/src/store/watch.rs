//! What supervision sees of live sandboxes, and how it ends one. What heartbeats say is kept with the sandbox, so one
//! question tells of all; events are looked through only for those that seem quiet.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use omoi_protocol::{EndReason, FailureKind, SandboxId, event::is_work};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::{
    Error, Store, Tx, sandbox,
    transition::{self, Note, Stored},
    value::{Row, params},
};
use crate::domain::{idle::Seen, limit};

/// Events that are looked through for the last sign of work.
const EVENTS_BACK: usize = 100;

/// Figures beyond these are no figures: what is reckoned with them would not fit into 64 bits.
const CPU_SECONDS_MAX: f64 = 1e10;
const BYTES_MAX: i64 = 1 << 50;

/// What a heartbeat tells besides that its sender lives.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Beat {
    status: Option<String>,
    cpu_seconds: Option<f64>,
    io_bytes: Option<i64>,
    memory_bytes: Option<i64>,
}

impl Beat {
    /// Whatever cannot be read, or cannot be, is not said.
    pub fn read(data: &str) -> Self {
        let said: Self = serde_json::from_str(data).unwrap_or_default();
        let bytes = |said: Option<i64>| said.filter(|bytes| (0..=BYTES_MAX).contains(bytes));
        Self {
            status: said.status,
            cpu_seconds: said.cpu_seconds.filter(|seconds| (0.0..=CPU_SECONDS_MAX).contains(seconds)),
            io_bytes: bytes(said.io_bytes),
            memory_bytes: bytes(said.memory_bytes),
        }
    }
}

/// A sandbox with a task that seems quiet.
#[derive(Debug, Clone)]
pub struct Quiet {
    pub id: SandboxId,
    pub seen: Seen,
}

/// Keeps what a heartbeat says, and renews the lease, which never ends earlier than it did. Processes count as working from a hundredth of a processor or from
/// 16 bytes a millisecond on: what the worker itself does is far less. Figures that fall tell of processes that ended.
pub(super) async fn beat(
    tx: &mut Tx,
    id: &SandboxId,
    beat: &Beat,
    lease_expires_at: Timestamp,
) -> Result<(), Error> {
    let sql = "UPDATE sandboxes SET lease_expires_at = CASE WHEN lease_expires_at > $1 THEN lease_expires_at ELSE $1 END, \
               last_heartbeat_at = $2, beat_status = $3, \
               beat_cpu_ms = COALESCE($4, beat_cpu_ms), beat_io_bytes = COALESCE($5, beat_io_bytes), \
               beat_memory_bytes = COALESCE($7, beat_memory_bytes), \
               last_active_at = CASE WHEN beat_cpu_ms IS NULL AND COALESCE($4, -1) >= 0 THEN $2 \
               WHEN abs($4 - beat_cpu_ms) * 100000 > $2 - last_heartbeat_at THEN $2 \
               WHEN abs($5 - beat_io_bytes) * 1000 > ($2 - last_heartbeat_at) * 16 THEN $2 \
               ELSE last_active_at END WHERE id = $6 AND live = 1";
    let cpu_ms = beat.cpu_seconds.map(|seconds| (seconds * 1000.0).round() as i64);
    let status = beat.status.as_deref().map(|status| status.chars().take(32).collect::<String>());
    tx.execute_known(
        sql,
        params![lease_expires_at, tx.now, status, cpu_ms, beat.io_bytes, id, beat.memory_bytes],
    )
    .await
}

impl Store {
    /// Sandboxes of the server's own making whose processes have not been seen at work for so long.
    /// `stays` is what workers wait for more to do where their task does not say.
    pub async fn sandbox_list_quiet(
        &self,
        least: Duration,
        stays: Duration,
        limit: usize,
    ) -> Result<Vec<Quiet>, Error> {
        self.read(async move |tx| {
            let sql = format!(
                "SELECT s.id, s.created_at, s.started_at, s.beat_status, s.last_active_at, t.waiting_reason, \
                 t.execution_config, ({}) AS newest FROM sandboxes s JOIN tasks t ON t.id = s.task_id \
                 WHERE s.place IN ('wanted', 'up', 'kept') AND s.place = 'up' AND s.live = 1 AND s.last_heartbeat_at IS NOT NULL \
                 AND COALESCE(s.last_active_at, s.started_at, s.created_at) <= $1 ORDER BY s.id LIMIT $2",
                newest(1)
            );
            let rows = tx.query(&sql, params![tx.now - least, limit]).await?;
            let mut unclear = unclear(tx, &rows).await?;
            let mut quiet = Vec::with_capacity(rows.len());
            for row in rows {
                let id: SandboxId = row.parse("id")?;
                let (last_work_at, asks) = match unclear.remove(id.as_str()) {
                    Some(work) => work,
                    None => last_work(&row.get::<Option<String>>("newest")?.unwrap_or_default())?,
                };
                if last_work_at.is_some_and(|at| at > tx.now - least) {
                    continue;
                }
                let config: Map<String, Json> = row.json("execution_config")?;
                let started: Option<Timestamp> = row.get("started_at")?;
                quiet.push(Quiet {
                    seen: Seen {
                        status: row.get("beat_status")?,
                        began_at: started.unwrap_or(row.get("created_at")?),
                        last_work_at,
                        last_active_at: row.get("last_active_at")?,
                        stays: limit::stays(&config).unwrap_or(stays),
                        needs_person: asks || row.get::<Option<String>>("waiting_reason")?.is_some(),
                    },
                    id,
                });
            }
            Ok(quiet)
        })
        .await
    }

    /// Ends a quiet sandbox and fails its task for it, unless it has stirred since it was judged. Says whether.
    pub async fn sandbox_give_up(
        &self,
        quiet: &Quiet,
        reason: EndReason,
        lasted: Duration,
    ) -> Result<bool, Error> {
        let Quiet { id, seen } = quiet.clone();
        self.write(async move |tx| {
            let sandbox = sandbox::get(tx, &id).await?;
            let row = tx.query_one("SELECT last_active_at FROM sandboxes WHERE id = $1", params![&id]).await?;
            let active: Option<Timestamp> = row.map_or(Ok(None), |row| row.get("last_active_at"))?;
            let sql = format!("SELECT ({}) AS told FROM sandboxes s WHERE s.id = $1", told());
            let row = tx.query_one(&sql, params![&id]).await?;
            let told: Option<String> = row.map_or(Ok(None), |row| row.get("told"))?;
            let (work, _) = last_work(&told.unwrap_or_default())?;
            let stirred = active != seen.last_active_at || work != seen.last_work_at;
            let Some(held) = sandbox.task_id.as_ref().filter(|_| sandbox.status.is_live() && !stirred) else {
                return Ok(false);
            };
            let minutes = lasted.as_secs() / 60;
            let error = match reason {
                EndReason::IdleTimeout => format!("the sandbox had nothing to do for {minutes} minutes"),
                _ => format!("the sandbox was at work for {minutes} minutes and nothing came of it"),
            };
            let stored = Stored::load(tx, held).await?;
            let event = stored.failure(tx, sandbox.generation, FailureKind::TimedOut);
            let note = Note { end_reason: Some(reason), ..Note::error(&format!("{reason}: {error}")) };
            transition::transition(tx, &stored, event, note).await?.ok();
            let told = json!({
                "sandbox_id": id, "task_id": held, "reason": reason, "idle_duration_seconds": lasted.as_secs(),
            });
            tx.tell("SANDBOX_TERMINATED_IDLE", "sandbox", id.as_str(), &told);
            Ok(true)
        })
        .await
    }
}

/// Of a sandbox `s` the newest events but heartbeats: of each its time and its type, in one text. A type is one word.
fn newest(count: usize) -> String {
    format!(
        "SELECT e.created_at || ' ' || e.event_type AS told FROM events e WHERE e.entity_id = s.id \
         AND e.seq IS NOT NULL AND e.event_type NOT IN ('agent.heartbeat', 'heartbeat') ORDER BY e.seq DESC LIMIT {count}"
    )
}

/// The same of as many as are looked through, the newest first.
fn told() -> String {
    format!("SELECT string_agg(n.told, ' ') FROM ({}) AS n", newest(EVENTS_BACK))
}

/// What tells of work in those sandboxes whose newest event does not, asked for all of them at once.
async fn unclear(tx: &mut Tx, rows: &[Row]) -> Result<HashMap<String, (Option<Timestamp>, bool)>, Error> {
    let mut ids = Vec::new();
    for row in rows {
        let newest: Option<String> = row.get("newest")?;
        if newest.is_some_and(|newest| newest.split_once(' ').is_some_and(|(_, kind)| !is_work(kind))) {
            ids.push(row.get::<String>("id")?);
        }
    }
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = format!("SELECT s.id, ({}) AS told FROM sandboxes s WHERE s.id = ANY($1)", told());
    let rows = tx.query(&sql, params![ids]).await?;
    let read =
        |row: &Row| Ok((row.get("id")?, last_work(&row.get::<Option<String>>("told")?.unwrap_or_default())?));
    rows.iter().map(read).collect()
}

/// When the last event came that is work, and whether something after it asks for a person.
fn last_work(told: &str) -> Result<(Option<Timestamp>, bool), Error> {
    let mut asks = false;
    let mut words = told.split(' ');
    while let (Some(at), Some(event_type)) = (words.next(), words.next()) {
        if is_work(event_type) {
            let at = at.parse().ok().and_then(|at| Timestamp::from_microsecond(at).ok());
            return Ok((Some(at.ok_or_else(|| Error::corrupt("created_at", "not readable"))?), asks));
        }
        asks |= matches!(event_type, "agent.interrupted" | "budget.exceeded");
    }
    Ok((None, asks))
}
