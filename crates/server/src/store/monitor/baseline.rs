//! What is usual for a kind of agent in a phase, learned from attempts that have ended; and those that are at work.

use std::collections::BTreeMap;

use jiff::Timestamp;
use omoi_protocol::{Priority, SandboxId, SandboxStatus};

use super::super::{
    Error, Store, Tx,
    mark::{mark, marked},
    sandbox::LIVE,
    value::{Row, params},
};
use crate::domain::monitor::{Baseline, Impact, Reading};

/// Attempts that are learned from, or looked at, at a time.
const LIMIT: usize = 1_000;
const MARK: &str = "learned";
const COLUMNS: &str = "s.id, s.status, s.started_at, s.ended_at, s.beat_cpu_ms, s.beat_memory_bytes, t.phase_id, t.retry_count, \
    t.dependants_pending, t.priority, \
    COALESCE(a.agent_type, CASE s.provider WHEN 'external' THEN 'external' ELSE 'builtin' END) AS agent_kind \
    FROM sandboxes s JOIN tasks t ON t.id = s.task_id LEFT JOIN agents a ON a.id = s.agent_id";

/// Kind of agent, and phase.
pub type Subject = (String, String);

/// A sandbox at work.
#[derive(Debug, Clone)]
pub struct Working {
    pub sandbox_id: SandboxId,
    pub subject: Subject,
    pub reading: Reading,
    pub impact: Impact,
}

impl Store {
    /// Learns from attempts that have ended since the last time; says from how many.
    pub async fn monitor_learn(&self) -> Result<usize, Error> {
        self.write(async move |tx| {
            let since = match marked(tx, MARK).await? {
                Some(at) => at,
                None => {
                    let now = tx.now.as_microsecond();
                    mark(tx, MARK, now).await?;
                    return Ok(0);
                }
            };
            let sql = format!(
                "SELECT {COLUMNS} WHERE s.ended_at > $1 AND s.started_at IS NOT NULL ORDER BY s.ended_at LIMIT $2"
            );
            let rows = tx.query(&sql, params![since, LIMIT]).await?;
            let Some(last) = rows.last() else { return Ok(0) };
            let last: i64 = last.get::<Timestamp>("ended_at")?.as_microsecond();
            let mut known = baselines(tx).await?;
            let mut changed = BTreeMap::new();
            for row in &rows {
                // What somebody has stopped says nothing about what is usual.
                let errors = match row.parse::<SandboxStatus>("status")? {
                    SandboxStatus::Completed => 0.0,
                    SandboxStatus::Failed | SandboxStatus::Lost => 1.0,
                    _ => continue,
                };
                let subject = subject(row)?;
                let reading = Reading { errors, is_running: false, ..reading(row, tx.now)? };
                let learned = known.get(&subject).copied().unwrap_or_default().learn(&reading);
                known.insert(subject.clone(), learned);
                changed.insert(subject, learned);
            }
            for ((kind, phase), baseline) in &changed {
                let sql = "INSERT INTO monitor_baselines (agent_kind, phase, body, updated_at) VALUES ($1, $2, $3, $4) \
                           ON CONFLICT (agent_kind, phase) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at";
                let body = serde_json::to_string(baseline).unwrap_or_default();
                tx.execute(sql, params![kind.as_str(), phase.as_str(), body, tx.now]).await?;
            }
            mark(tx, MARK, last).await?;
            Ok(rows.len())
        })
        .await
    }

    pub async fn monitor_baselines(&self) -> Result<BTreeMap<Subject, Baseline>, Error> {
        self.read(async |tx| baselines(tx).await).await
    }

    /// Sandboxes that are at work on a task.
    pub async fn monitor_working(&self) -> Result<Vec<Working>, Error> {
        self.read(async |tx| {
            let sql = format!(
                "SELECT {COLUMNS} WHERE s.id IN ({LIVE}) AND s.started_at IS NOT NULL ORDER BY s.id LIMIT $1"
            );
            let rows = tx.query(&sql, params![LIMIT]).await?;
            let read = |row: &Row| {
                let retries = row.get::<i64>("retry_count")?.max(0) as f64;
                let dependants = row.get::<i64>("dependants_pending")?;
                Ok(Working {
                    sandbox_id: row.parse("id")?,
                    subject: subject(row)?,
                    reading: Reading {
                        errors: retries / (retries + 1.0),
                        is_running: true,
                        ..reading(row, tx.now)?
                    },
                    impact: Impact {
                        dependants: u32::try_from(dependants).unwrap_or(0),
                        is_critical: row.parse::<Priority>("priority")? == Priority::Critical,
                    },
                })
            };
            rows.iter().map(read).collect()
        })
        .await
    }
}

async fn baselines(tx: &mut Tx) -> Result<BTreeMap<Subject, Baseline>, Error> {
    let sql = "SELECT agent_kind, phase, body FROM monitor_baselines ORDER BY updated_at DESC LIMIT $1";
    let rows = tx.query(sql, params![LIMIT]).await?;
    rows.iter().map(|row| Ok(((row.get("agent_kind")?, row.get("phase")?), row.json("body")?))).collect()
}

fn subject(row: &Row) -> Result<Subject, Error> {
    Ok((row.get("agent_kind")?, row.get("phase_id")?))
}

fn reading(row: &Row, now: Timestamp) -> Result<Reading, Error> {
    let ended: Option<Timestamp> = row.get("ended_at")?;
    let started: Option<Timestamp> = row.get("started_at")?;
    let end = ended.unwrap_or(now);
    let latency_ms = (end - started.unwrap_or(end)).total(jiff::Unit::Millisecond).unwrap_or(0.0).max(0.0);
    let cpu_ms: Option<i64> = row.get("beat_cpu_ms")?;
    let memory: Option<i64> = row.get("beat_memory_bytes")?;
    Ok(Reading {
        latency_ms,
        errors: 0.0,
        cpu: cpu_ms.map(|ms| ms.max(0) as f64 / latency_ms.max(1.0)),
        memory_bytes: memory.map(|bytes| bytes.max(0) as f64),
        is_running: ended.is_none(),
    })
}
