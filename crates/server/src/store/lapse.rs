//! Leases that ran out: the last one of a pending task, and how its holder gets it back. The rule is in `domain::lease` and
//! `domain::task`. A claim and a return are each one transaction under the write lock: whichever comes first is made, and the
//! other is refused.

use jiff::Timestamp;
use omoi_protocol::{AgentId, EndReason, SandboxId, SandboxStatus, TaskId, TaskStatus};
use serde_json::json;

use super::{
    Error, Tx,
    sandbox::Reporter,
    transition::{self, Note, Stored},
    typed,
    value::{Row, params},
};
use crate::domain::{
    lease::{Lapse, Lease, Word},
    task::TaskEvent,
};

/// How many of an agent's newest sandboxes its heartbeat speaks for, once their leases ran out.
const AT_WORK_MAX: usize = 16;

/// The lease of a pending task that ran out, if that is the last thing that became of the task. `row` is of the task and of
/// the last sandbox that held it.
pub(super) async fn read(tx: &mut Tx, row: &Row) -> Result<Option<Lapse>, Error> {
    let lapsed = row.parse_opt::<EndReason>("end_reason")? == Some(EndReason::LeaseExpired);
    // A person who has a task tried afresh wants a new attempt, and retries are counted from zero then.
    if !lapsed || row.get::<i64>("retry_count")? == 0 {
        return Ok(None);
    }
    let (holder, at): (SandboxId, _) = (row.parse("holder")?, row.get("ended_at")?);
    Ok(Some(Lapse {
        lease: Lease { generation: row.get("generation")?, expires_at: at, holder: holder.clone() },
        at,
        started: typed::first(tx, &holder, "agent.started").await?.is_some(),
        place: row.parse("place")?,
    }))
}

/// A sandbox whose lease ran out has sent a word. Gives the lease back if the rule allows it.
pub(super) async fn reclaim(tx: &mut Tx, from: &mut Reporter, word: Word) -> Result<(), Error> {
    let Some(task) = from.task_id.clone().filter(|_| from.status == SandboxStatus::Lost) else {
        return Ok(());
    };
    let stored = Stored::load(tx, &task).await?;
    let event = TaskEvent::Reclaimed {
        generation: from.generation,
        word,
        grace: tx.rules.late_report_grace,
        duration: from.lease(&tx.rules),
    };
    if transition::transition(tx, &stored, event, Note::default()).await?.is_ok() {
        *from = Reporter::load(tx, &from.id).await?;
    }
    Ok(())
}

/// Gives back the leases of an attached agent's sandboxes, because the agent has sent a heartbeat that says it is at work.
pub(super) async fn reclaim_all(tx: &mut Tx, agent: &AgentId) -> Result<(), Error> {
    let sql = format!(
        "SELECT {} FROM (SELECT * FROM sandboxes WHERE agent_id = $1 ORDER BY id DESC LIMIT $2) AS s \
         WHERE s.status = 'lost' AND s.reports_until > $3 ORDER BY s.id",
        Reporter::COLUMNS
    );
    for row in tx.query(&sql, params![agent, AT_WORK_MAX, tx.now]).await? {
        reclaim(tx, &mut Reporter::read(&row)?, Word::Alive).await?;
    }
    Ok(())
}

/// Undoes what the loss of a lease has changed of the sandbox, its project and its task.
pub(super) async fn give_back(tx: &mut Tx, task: &TaskId, lease: &Lease) -> Result<(), Error> {
    let sql = "UPDATE sandboxes SET live = 1, status = CASE WHEN started_at IS NULL THEN 'creating' ELSE 'running' END, \
               ended_at = NULL, end_reason = NULL, failure_kind = NULL, failure = NULL, reports_until = NULL, \
               lease_expires_at = $2 WHERE id = $1 AND live = 0 RETURNING project_id, status";
    let rows = tx.returning(sql, params![&lease.holder, lease.expires_at]).await?;
    let row =
        rows.first().ok_or_else(|| Error::corrupt("live", "set for a sandbox that had lost its lease"))?;
    let (project, status): (Option<String>, SandboxStatus) = (row.get("project_id")?, row.parse("status")?);
    if let Some(project) = project {
        let sql = "UPDATE projects SET live_sandboxes = live_sandboxes + 1 WHERE id = $1";
        tx.execute(sql, params![project]).await?;
    }
    let began = typed::first(tx, &lease.holder, "agent.started").await?;
    let started_at: Option<Timestamp> = began.map_or(Ok(None), |row| row.get("created_at"))?;
    let sql =
        "UPDATE tasks SET retry_count = retry_count - 1, not_before = NULL, started_at = $2 WHERE id = $1";
    tx.execute(sql, params![task, started_at]).await?;
    let told = json!({ "task_id": task, "status": status, "lease_expires_at": lease.expires_at });
    tx.tell("SANDBOX_RETURNED", "sandbox", lease.holder.as_str(), &told);
    Ok(())
}

/// What became of the task of a sandbox whose report was refused, in words for the person who reads the refusal.
pub(super) async fn explain(tx: &mut Tx, id: &SandboxId) -> Result<String, Error> {
    let sql = "SELECT s.generation, s.ended_at, s.end_reason, t.id AS task, t.status, n.id AS next, n.generation AS last \
               FROM sandboxes s LEFT JOIN tasks t ON t.id = s.task_id \
               LEFT JOIN sandboxes n ON n.task_id = t.id AND n.generation = t.generation WHERE s.id = $1";
    let row = tx.query_one(sql, params![id]).await?.ok_or_else(|| Error::not_found("sandbox", id))?;
    let Some(task) = row.get::<Option<String>>("task")? else {
        return Ok(format!("sandbox {id} holds no task"));
    };
    let status: TaskStatus = row.parse("status")?;
    if status.is_final() {
        return Ok(format!("task {task} is {status} already, and a report changes nothing any more"));
    }
    let end = row.parse_opt::<EndReason>("end_reason")?.unwrap_or(EndReason::Terminated);
    let ended_at: Option<Timestamp> = row.get("ended_at")?;
    let when = ended_at.map(|at| format!(" at {at}")).unwrap_or_default();
    let ended = match end {
        EndReason::LeaseExpired => {
            format!("sandbox {id} was silent for longer than its lease and lost task {task}{when}")
        }
        end => format!("the attempt of sandbox {id} at task {task} ended{when} ({end})"),
    };
    let passed_on = row.get::<i64>("generation")? < row.get::<Option<i64>>("last")?.unwrap_or(0);
    let why = match row.get::<Option<String>>("next")? {
        Some(next) if passed_on => format!("sandbox {next} has taken the task since"),
        _ if end == EndReason::LeaseExpired => {
            let grace = tx.rules.late_report_grace;
            format!(
                "for {} s after that, the server accepts only the final report of the attempt",
                grace.as_secs()
            )
        }
        _ => "only a new attempt can change the task now".to_owned(),
    };
    Ok(format!("{ended}; {why}"))
}
