//! Sandboxes: who holds which task, until when, and how each attempt ended.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use omoi_protocol::{
    AgentId, EndReason, Place, ProjectId, ProviderKind, SandboxId, SandboxStatus, Stage, TaskId,
    sandbox::{AttachSandbox, Rescue, Sandbox, SandboxAttached},
    task::Task,
};
use serde_json::json;

use super::{
    Error, Rules, Store, Tx,
    claim::{Taken, claim_this},
    reported_cost, task, token,
    transition::{self, Note},
    value::{Row, params},
    watch::{self, Beat},
};
use crate::{
    crash::Point,
    domain::{money::Usd, supervision::health, task::TaskEvent},
};

const COLUMNS: &str = "id, task_id, project_id, agent_id, provider, status, stage, generation, lease_expires_at, \
                       branch_name, labels, created_at, started_at, ended_at, last_heartbeat_at, end_reason, place, \
                       base_commit, isolation, kept, place_error, rescue_tries, rescue_error, place_due_at, \
                       disk_bytes, judged, \
                       (SELECT e.seq FROM events e WHERE e.entity_id = sandboxes.id AND e.seq IS NOT NULL ORDER BY e.seq DESC LIMIT 1) AS events, \
                       (SELECT m.spent FROM spend m WHERE m.level = 'attempt' AND m.entity_id = sandboxes.id) AS spent, \
                       (SELECT m.reported FROM spend m WHERE m.level = 'attempt' AND m.entity_id = sandboxes.id) AS reported, \
                       (SELECT m.reported_counted FROM spend m WHERE m.level = 'attempt' AND m.entity_id = sandboxes.id) AS reported_counted, \
                       (SELECT m.reported_ignored FROM spend m WHERE m.level = 'attempt' AND m.entity_id = sandboxes.id) AS reported_ignored, \
                       (SELECT CAST(sum(f.weight) AS BIGINT) FROM findings f WHERE f.sandbox_id = sandboxes.id AND f.cleared_at IS NULL) AS weights, \
                       (SELECT max(f.weight) FROM findings f WHERE f.sandbox_id = sandboxes.id AND f.cleared_at IS NULL) AS heaviest";

/// The ids of those that live. In an order of their own, rows with `live = 1` would be looked for among all that ever were.
pub(super) const LIVE: &str = "SELECT l.id FROM sandboxes l WHERE l.live = 1";

/// The ids of those whose work could not be kept, by their own index.
const UNKEPT: &str =
    "SELECT u.id FROM sandboxes u WHERE u.place IN ('unkept', 'discarded') AND u.place = 'unkept'";

/// A sandbox as the sender of a report.
#[derive(Debug)]
pub(super) struct Reporter {
    pub id: SandboxId,
    pub task_id: Option<TaskId>,
    pub status: SandboxStatus,
    pub generation: i64,
    pub reports_until: Option<Timestamp>,
    pub lease_expires_at: Option<Timestamp>,
    /// The lease that it asked for when it was attached.
    pub lease_seconds: Option<i64>,
}

impl Reporter {
    pub const COLUMNS: &str =
        "s.id, s.task_id, s.status, s.generation, s.reports_until, s.lease_expires_at, s.lease_seconds";

    pub fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.parse("id")?,
            task_id: row.parse_opt("task_id")?,
            status: row.parse("status")?,
            generation: row.get("generation")?,
            reports_until: row.get("reports_until")?,
            lease_expires_at: row.get("lease_expires_at")?,
            lease_seconds: row.get("lease_seconds")?,
        })
    }

    /// How long it holds its task after it was last heard of.
    pub fn lease(&self, rules: &Rules) -> Duration {
        self.lease_seconds.map_or(rules.lease_duration, seconds)
    }

    pub async fn load(tx: &mut Tx, id: &SandboxId) -> Result<Self, Error> {
        let sql = format!("SELECT {} FROM sandboxes s WHERE s.id = $1", Self::COLUMNS);
        let row = tx.query_one(&sql, params![id]).await?;
        let reporter = Self::read(&row.ok_or_else(|| Error::not_found("sandbox", id))?)?;
        if reporter.reports_until.is_some_and(|until| until <= tx.now()) {
            return Err(Error::TokenEnded);
        }
        Ok(reporter)
    }
}

pub(super) async fn must_exist(tx: &mut Tx, id: &SandboxId) -> Result<(), Error> {
    let row = tx.query_one("SELECT 1 AS found FROM sandboxes WHERE id = $1", params![id]).await?;
    row.map(|_| ()).ok_or_else(|| Error::not_found("sandbox", id))
}

/// A sign of life renews the lease of a live sandbox. A heartbeat comes with what it says. A lease never ends earlier than
/// it did: another server, whose clock is ahead of ours, may have renewed it.
pub(super) async fn heard(tx: &mut Tx, from: Vec<(&mut Reporter, Option<Beat>)>) -> Result<(), Error> {
    let now = tx.now();
    let mut speaking: BTreeMap<Timestamp, Vec<String>> = BTreeMap::new();
    for (reporter, beat) in from.into_iter().filter(|(reporter, _)| reporter.status.is_live()) {
        let lease = reporter.lease(&tx.rules);
        let renewed = now + lease;
        // A busy stream renews seldom: the lease is long against the time between two events.
        let due = now + lease * 3 / 4;
        if let Some(beat) = beat {
            watch::beat(tx, &reporter.id, &beat, renewed).await?;
        } else if reporter.lease_expires_at.is_some_and(|end| end < due) {
            speaking.entry(renewed).or_default().push(reporter.id.to_string());
        } else {
            continue;
        }
        reporter.lease_expires_at = reporter.lease_expires_at.max(Some(renewed));
    }
    // Nearly all have the configured lease, so that one statement renews theirs.
    for (renewed, ids) in speaking {
        let sql = "UPDATE sandboxes SET lease_expires_at = $1 WHERE id = ANY($2) AND live = 1 \
                   AND (lease_expires_at IS NULL OR lease_expires_at < $1)";
        tx.execute_known(sql, params![renewed, ids]).await?;
    }
    Ok(())
}

/// The first word of a worker.
pub(super) async fn set_running(tx: &mut Tx, of: &mut Reporter) -> Result<(), Error> {
    of.status = SandboxStatus::Running;
    let sql =
        "UPDATE sandboxes SET status = 'running', started_at = $2 WHERE id = $1 AND status = 'creating'";
    tx.execute_known(sql, params![&of.id, tx.now]).await?;
    Ok(())
}

/// It holds nothing any more; `words` are what somebody has to say about that. A terminated one may not speak again; the others may, for a while, and change nothing.
pub(super) async fn end(
    tx: &mut Tx,
    id: &SandboxId,
    status: SandboxStatus,
    reason: EndReason,
    words: Option<&str>,
) -> Result<(), Error> {
    let until = match status {
        SandboxStatus::Terminated => tx.now,
        _ => tx.now + tx.rules.late_report_grace,
    };
    let sql = "UPDATE sandboxes SET status = $2, live = 0, ended_at = $3, end_reason = $4, reports_until = $5, \
               lease_expires_at = NULL WHERE id = $1 AND live = 1 RETURNING project_id, task_id";
    let rows = tx.returning(sql, params![id, status.as_str(), tx.now, reason.as_str(), until]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let (project, held): (Option<String>, Option<String>) = (row.get("project_id")?, row.get("task_id")?);
    if let Some(project) = project {
        let sql = "UPDATE projects SET live_sandboxes = live_sandboxes - 1 WHERE id = $1";
        tx.execute(sql, params![project]).await?;
    }
    tx.tell(
        "SANDBOX_ENDED",
        "sandbox",
        id.as_str(),
        &json!({ "status": status, "reason": reason, "words": words, "task_id": held }),
    );
    Point::Ending.pass();
    Ok(())
}

/// What a new sandbox is to be.
pub(super) struct NewSandbox<'a> {
    pub id: SandboxId,
    pub provider: ProviderKind,
    pub agent_id: Option<&'a AgentId>,
    pub labels: String,
    /// The lease that is asked for; none: as configured.
    pub lease_seconds: Option<i64>,
    /// For one that the server itself makes.
    pub order: Option<Order>,
}

/// Where and how a sandbox is to be made.
#[derive(Clone)]
pub(super) struct Order {
    pub project_id: ProjectId,
    pub branch_name: String,
    /// JSON.
    pub wish: String,
}

/// A sandbox row, with its token, that holds a task or none.
pub(super) async fn insert(
    tx: &mut Tx,
    new: NewSandbox<'_>,
    task: Option<&Taken>,
) -> Result<SandboxAttached, Error> {
    let lease = new.lease_seconds.map_or(tx.rules.lease_duration, seconds);
    let lease_expires_at = tx.now + lease;
    let order = new.order.as_ref();
    let sandbox = Sandbox {
        id: new.id,
        task_id: task.map(|t| t.id.clone()),
        project_id: task.map(|t| &t.project_id).or(order.map(|o| &o.project_id)).cloned(),
        agent_id: new.agent_id.cloned(),
        provider: new.provider,
        status: SandboxStatus::Creating,
        stage: task.map_or(Stage::Work, |t| t.stage),
        generation: task.map_or(0, |t| t.generation),
        lease_expires_at: Some(lease_expires_at),
        branch_name: task.map(|t| &t.branch_name).or(order.map(|o| &o.branch_name)).cloned(),
        labels: serde_json::from_str(&new.labels).unwrap_or_default(),
        created_at: tx.now,
        started_at: None,
        ended_at: None,
        last_heartbeat_at: None,
        end_reason: None,
        place: if order.is_some() { Place::Wanted } else { Place::None },
        base_commit: None,
        isolation: None,
        kept: None,
        place_error: None,
        rescue: None,
        event_count: 0,
        cost_usd: 0.0,
        reported_cost: None,
        verdict: None,
        alignment: 1.0,
    };
    let (token, token_stored) = token::for_sandbox(&sandbox.id, tx.now)?;
    let taken = task.map(|task| task.statement(tx.now));
    let counted = sandbox.project_id.as_ref().map(|project| {
        ("UPDATE projects SET live_sandboxes = live_sandboxes + 1 WHERE id = $1", params![project])
    });
    let stored = (
        "INSERT INTO sandboxes (id, task_id, project_id, agent_id, provider, status, live, generation, \
         lease_expires_at, branch_name, labels, created_at, place, wish, stage, lease_seconds) \
         VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        params![
            &sandbox.id,
            sandbox.task_id.as_ref(),
            sandbox.project_id.as_ref(),
            sandbox.agent_id.as_ref(),
            sandbox.provider.as_str(),
            sandbox.status.as_str(),
            sandbox.generation,
            lease_expires_at,
            sandbox.branch_name.as_deref(),
            new.labels,
            tx.now,
            sandbox.place.as_str(),
            order.map(|o| o.wish.as_str()),
            sandbox.stage.as_str(),
            new.lease_seconds,
        ],
    );
    let statements = taken.into_iter().chain(counted).chain([stored, token_stored]);
    tx.execute_together(statements.collect()).await?;
    Ok(SandboxAttached { sandbox, token })
}

/// Which sandboxes are wanted.
#[derive(Debug, Clone, Default)]
pub struct SandboxFilter {
    pub status: Option<SandboxStatus>,
    pub project_id: Option<ProjectId>,
    pub task_id: Option<TaskId>,
    pub live: Option<bool>,
    /// Only those whose work could not be kept.
    pub unkept: bool,
}

impl Store {
    /// Newest first; `before` is the last id of the page before.
    pub async fn sandbox_list(
        &self,
        filter: SandboxFilter,
        before: Option<SandboxId>,
        limit: usize,
    ) -> Result<Vec<Sandbox>, Error> {
        self.read(async move |tx| {
            let mut ask = super::Ask::new(&format!("SELECT {COLUMNS} FROM sandboxes"));
            ask.and_some("status =", filter.status.map(SandboxStatus::as_str));
            ask.and_some("task_id =", filter.task_id.as_ref());
            match filter.live {
                Some(true) => {
                    // Those that live are fewer than those of a project: its index is kept out of it.
                    ask.raw(&format!("id IN ({LIVE})"));
                    ask.and_some("COALESCE(project_id, '') =", filter.project_id.as_ref());
                }
                Some(false) => {
                    ask.and_some("project_id =", filter.project_id.as_ref());
                    ask.raw("live = 0 /* most */");
                }
                None => ask.and_some("project_id =", filter.project_id.as_ref()),
            }
            if filter.unkept {
                ask.raw(&format!("id IN ({UNKEPT})"));
            }
            let created = match &before {
                Some(id) => Some(created_at(tx, id).await?),
                None => None,
            };
            if let (Some(created), Some(id)) = (created, &before) {
                ask.and2("(created_at, id) <", created.into(), id.into());
            }
            let (sql, values) = ask.order_limit("created_at DESC, id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn sandbox_get(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// The task that a sandbox holds or held.
    pub async fn sandbox_task(&self, id: &SandboxId) -> Result<Task, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let sandbox = get(tx, &id).await?;
            let held = sandbox.task_id.ok_or_else(|| Error::not_found("task of sandbox", &id))?;
            task::get(tx, &held).await
        })
        .await
    }

    /// A sandbox that somebody runs elsewhere joins, with a pending task or without.
    pub async fn sandbox_attach(&self, actor: &str, new: AttachSandbox) -> Result<SandboxAttached, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            if let Some(seconds) = new.lease_seconds {
                lease_is_allowed(&tx.rules, seconds)?;
            }
            let id = new.sandbox_id.clone().unwrap_or_else(SandboxId::generate);
            let taken = tx.query_one("SELECT 1 AS found FROM sandboxes WHERE id = $1", params![&id]).await?;
            if taken.is_some() {
                return Err(Error::conflict("sandbox_exists", format!("sandbox {id} exists already")));
            }
            let labels = serde_json::to_string(&new.labels).unwrap_or_default();
            let sandbox = NewSandbox {
                id,
                provider: ProviderKind::External,
                agent_id: None,
                labels,
                lease_seconds: new.lease_seconds,
                order: None,
            };
            let attached = match &new.task_id {
                Some(task_id) => claim_this(tx, task_id, sandbox).await?,
                None => insert(tx, sandbox, None).await?,
            };
            let id = attached.sandbox.id.as_str();
            tx.tell(
                "SANDBOX_ATTACHED",
                "sandbox",
                id,
                &json!({ "task_id": new.task_id, "provider": "external" }),
            );
            tx.record(&actor, "sandbox.attach", "sandbox", id, json!({ "task_id": new.task_id }));
            Ok(attached)
        })
        .await
    }

    /// Ends a sandbox by somebody's wish. A task that it holds is cancelled with it, and can be retried.
    pub async fn sandbox_terminate(
        &self,
        actor: &str,
        id: &SandboxId,
        reason: Option<String>,
    ) -> Result<Sandbox, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| terminate(tx, &actor, &id, reason.as_deref()).await).await
    }

    /// Frees what the holders of run-out leases held. At most `limit` at a time; says how many.
    pub async fn sandbox_expire(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            // One that is on a machine is looked at there, and has failed when it no longer runs. While it runs, it
            // is only out of reach, for a while.
            let sql = "SELECT id, task_id FROM sandboxes WHERE live = 1 AND lease_expires_at <= $1 \
                       AND (place <> 'up' OR lease_expires_at <= $3) ORDER BY lease_expires_at LIMIT $2";
            let unreachable = tx.now - tx.rules.unreachable_after;
            let rows = tx.query(sql, params![tx.now, limit, unreachable]).await?;
            for row in &rows {
                let id: SandboxId = row.parse("id")?;
                match row.parse_opt::<TaskId>("task_id")? {
                    Some(held) => transition::lease_expired(tx, &held).await?,
                    None => end(tx, &id, SandboxStatus::Lost, EndReason::LeaseExpired, None).await?,
                }
            }
            Ok(rows.len())
        })
        .await
    }
}

/// A lease that somebody asks for is neither so short that a heartbeat comes too late, nor so long that a dead worker keeps
/// its task.
fn lease_is_allowed(rules: &Rules, asked: i64) -> Result<(), Error> {
    let (min, max) = (rules.lease_min.as_secs(), rules.lease_max.as_secs());
    match u64::try_from(asked) {
        Ok(asked) if (min..=max).contains(&asked) => Ok(()),
        _ => {
            let detail = format!(
                "lease_seconds is {asked}; ask for {min} to {max} seconds (lease.request_min, lease.request_max), or leave \
                 it out for {} seconds (lease.duration)",
                rules.lease_duration.as_secs()
            );
            Err(Error::invalid("lease_out_of_range", detail))
        }
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

pub(super) async fn terminate(
    tx: &mut Tx,
    actor: &str,
    id: &SandboxId,
    reason: Option<&str>,
) -> Result<Sandbox, Error> {
    let sandbox = get(tx, id).await?;
    if sandbox.status == SandboxStatus::Terminated {
        return Ok(sandbox);
    }
    let words = reason.unwrap_or(EndReason::Terminated.as_str());
    let pruned = words == EndReason::Pruned.as_str();
    let why = if pruned { EndReason::Pruned } else { EndReason::Terminated };
    if let (true, Some(held)) = (sandbox.status.is_live(), &sandbox.task_id) {
        let note = Note { end_reason: Some(why), ..Note::error(words) };
        let _ = transition::apply(tx, held, TaskEvent::Cancelled, note).await?;
    }
    end(tx, id, SandboxStatus::Terminated, why, Some(words)).await?;
    let sql = "UPDATE sandboxes SET status = 'terminated', reports_until = $2 WHERE id = $1";
    tx.execute(sql, params![id, tx.now]).await?;
    tx.record(actor, "sandbox.terminate", "sandbox", id.as_str(), json!({ "reason": words }));
    get(tx, id).await
}

async fn created_at(tx: &mut Tx, id: &SandboxId) -> Result<Timestamp, Error> {
    let row = tx.query_one("SELECT created_at FROM sandboxes WHERE id = $1", params![id]).await?;
    row.ok_or_else(|| Error::not_found("sandbox", id))?.get("created_at")
}

pub(super) async fn get(tx: &mut Tx, id: &SandboxId) -> Result<Sandbox, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM sandboxes WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("sandbox", id))?)
}

fn read(row: &Row) -> Result<Sandbox, Error> {
    Ok(Sandbox {
        id: row.parse("id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        agent_id: row.parse_opt("agent_id")?,
        provider: row.parse("provider")?,
        status: row.parse("status")?,
        stage: row.parse("stage")?,
        generation: row.get("generation")?,
        lease_expires_at: row.get("lease_expires_at")?,
        branch_name: row.get("branch_name")?,
        labels: row.json("labels")?,
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        last_heartbeat_at: row.get("last_heartbeat_at")?,
        end_reason: row.get("end_reason")?,
        place: row.parse("place")?,
        base_commit: row.get("base_commit")?,
        isolation: json_opt(row, "isolation")?,
        kept: json_opt(row, "kept")?,
        place_error: row.get("place_error")?,
        rescue: rescue(row)?,
        event_count: row.get::<Option<i64>>("events")?.unwrap_or(0),
        cost_usd: Usd::from_nanos(row.get::<Option<i64>>("spent")?.unwrap_or(0)).as_f64(),
        reported_cost: reported_cost::read(row)?,
        verdict: health::verdict(row.get("heaviest")?),
        alignment: health::alignment(row.get::<Option<i64>>("weights")?.unwrap_or(0), row.get("judged")?),
    })
}

fn rescue(row: &Row) -> Result<Option<Rescue>, Error> {
    let Some(error) = row.get::<Option<String>>("rescue_error")? else { return Ok(None) };
    let bytes = row.get::<Option<i64>>("disk_bytes")?;
    let goes_on = matches!(row.parse("place")?, Place::Wanted | Place::Up);
    Ok(Some(Rescue {
        tries: row.get("rescue_tries")?,
        error,
        next_at: if goes_on { row.get("place_due_at")? } else { None },
        disk_bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()),
    }))
}

fn json_opt<T: serde::de::DeserializeOwned>(row: &Row, column: &str) -> Result<Option<T>, Error> {
    match row.get::<Option<String>>(column)? {
        Some(_) => row.json(column).map(Some),
        None => Ok(None),
    }
}
