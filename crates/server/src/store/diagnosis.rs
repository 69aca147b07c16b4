//! Diagnoses of tickets that cannot go on. What one says is in `domain::diagnosis`; what it proposes is done when a person
//! accepts it.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{
    DiagnosisId, DiagnosisState, ProjectId, ProposalKind, TaskId, TaskStatus, TicketId,
    diagnosis::{Acceptance, Diagnosis, Proposal},
    task::NewTask,
};
use serde_json::json;

use super::{
    Ask, Error, Store, Tx, task, ticket,
    transition::{Note, order},
    value::{Row, params},
};
use crate::domain::{
    diagnosis::{self, Fact, RUNS_MAX},
    task::TaskEvent,
};

const COLUMNS: &str = "id, project_id, ticket_id, number, state, total_tasks, completed_tasks, failed_tasks, root_cause, \
                       hypotheses, proposals, created_at, decided_at, decided_by";
/// Nothing has changed for so long.
const SETTLED: Duration = Duration::from_secs(60);
/// Older failures are left to people.
const LOOK_BACK: Duration = Duration::from_secs(24 * 3600);
const TASKS_MAX: usize = 500;
pub const TASK_TYPE: &str = "discovery_diagnostic";

#[derive(Debug, Clone, Default)]
pub struct DiagnosisFilter {
    pub project_id: Option<ProjectId>,
    pub ticket_id: Option<TicketId>,
    pub state: Option<DiagnosisState>,
}

impl Store {
    /// Tickets that may be stuck: something failed a while ago, and nothing is known of it yet.
    pub async fn diagnosis_due(&self, limit: usize) -> Result<Vec<TicketId>, Error> {
        self.read(async move |tx| {
            // Those that somebody works on, or that have been looked at often enough, would stand before all others for a day.
            let sql = "SELECT DISTINCT t.ticket_id AS id FROM tasks t JOIN tickets k ON k.id = t.ticket_id \
                       WHERE t.status = 'failed' AND t.ticket_id IS NOT NULL AND t.updated_at > $1 AND t.updated_at <= $2 \
                       AND k.status NOT IN ('done', 'cancelled') AND NOT EXISTS (SELECT 1 FROM diagnostic_runs d \
                       WHERE d.ticket_id = t.ticket_id AND (d.state = 'open' OR d.seen_at >= t.updated_at OR d.number >= $3)) \
                       AND NOT EXISTS (SELECT 1 FROM tasks b WHERE b.ticket_id = t.ticket_id \
                       AND b.status IN ('assigned', 'running')) ORDER BY id LIMIT $4";
            let since = tx.now - LOOK_BACK;
            let rows = tx.query(sql, params![since, tx.now - SETTLED, RUNS_MAX, limit]).await?;
            rows.iter().map(|row| row.parse("id")).collect()
        })
        .await
    }

    /// Writes down why a ticket is stuck, if it is. Says whether.
    pub async fn diagnosis_make(&self, ticket: &TicketId) -> Result<bool, Error> {
        let ticket = ticket.clone();
        self.write(async move |tx| Ok(make(tx, &ticket).await?.is_some())).await
    }

    /// The open diagnosis of a ticket, made now where there is none.
    pub async fn diagnosis_now(&self, ticket: &TicketId) -> Result<Diagnosis, Error> {
        let ticket = ticket.clone();
        self.write(async move |tx| {
            ticket::get(tx, &ticket).await?;
            let sql = format!(
                "SELECT {COLUMNS} FROM diagnostic_runs WHERE ticket_id = $1 ORDER BY number DESC LIMIT 1"
            );
            let last = tx.query_one(&sql, params![&ticket]).await?.as_ref().map(read).transpose()?;
            if let Some(open) = last.filter(|last| last.state == DiagnosisState::Open) {
                return Ok(open);
            }
            match make(tx, &ticket).await? {
                Some(id) => get(tx, &id).await,
                None => {
                    let detail = format!(
                        "ticket {ticket} is not stuck, or nothing has changed since its last diagnosis"
                    );
                    Err(Error::conflict("not_stuck", detail))
                }
            }
        })
        .await
    }

    /// Closes open diagnoses of tickets that have gone on by themselves. Says how many.
    pub async fn diagnosis_overtake(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let sql = "SELECT d.id, d.ticket_id FROM diagnostic_runs d WHERE d.state = 'open' AND EXISTS \
                       (SELECT 1 FROM tasks t WHERE t.ticket_id = d.ticket_id AND t.status IN ('assigned', 'running')) \
                       ORDER BY d.id LIMIT $1";
            let rows = tx.query(sql, params![limit]).await?;
            for row in &rows {
                decide(tx, &row.parse("id")?, DiagnosisState::Overtaken, None).await?;
            }
            Ok(rows.len())
        })
        .await
    }

    /// Newest first.
    pub async fn diagnosis_list(
        &self,
        filter: DiagnosisFilter,
        before: Option<DiagnosisId>,
        limit: usize,
    ) -> Result<Vec<Diagnosis>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM diagnostic_runs"));
            ask.and_some("project_id =", filter.project_id.as_ref());
            ask.and_some("ticket_id =", filter.ticket_id.as_ref());
            ask.and_some("state =", filter.state.map(DiagnosisState::as_str));
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn diagnosis_get(&self, id: &DiagnosisId) -> Result<Diagnosis, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// Does what was proposed, all of what is named or nothing.
    pub async fn diagnosis_accept(
        &self,
        actor: &str,
        id: &DiagnosisId,
        acceptance: Acceptance,
    ) -> Result<Diagnosis, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let mut found = still_open(tx, &id).await?;
            let chosen = acceptance.proposals.clone().unwrap_or_else(|| (0..found.proposals.len()).collect());
            for at in chosen {
                let count = found.proposals.len();
                let proposal = found.proposals.get_mut(at).ok_or_else(|| {
                    Error::invalid(
                        "no_such_proposal",
                        format!("there is no proposal {at}; there are {count}, from 0"),
                    )
                })?;
                if proposal.task_id.is_none() {
                    proposal.task_id = Some(carry_out(tx, &found.ticket_id, proposal).await?);
                }
            }
            let sql = "UPDATE diagnostic_runs SET proposals = $2 WHERE id = $1";
            tx.execute(sql, params![&id, json!(found.proposals).to_string()]).await?;
            decide(tx, &id, DiagnosisState::Accepted, Some(&actor)).await
        })
        .await
    }

    pub async fn diagnosis_dismiss(&self, actor: &str, id: &DiagnosisId) -> Result<Diagnosis, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            still_open(tx, &id).await?;
            decide(tx, &id, DiagnosisState::Dismissed, Some(&actor)).await
        })
        .await
    }
}

async fn make(tx: &mut Tx, ticket: &TicketId) -> Result<Option<DiagnosisId>, Error> {
    let (facts, seen_at) = facts(tx, ticket).await?;
    let sql = "SELECT COALESCE(max(number), 0) AS runs, COALESCE(max(seen_at), 0) AS seen_at FROM diagnostic_runs \
               WHERE ticket_id = $1";
    let (runs, known) = match tx.query_one(sql, params![ticket]).await? {
        Some(row) => (row.get::<i64>("runs")?, row.get::<Timestamp>("seen_at")?),
        None => (0, Timestamp::UNIX_EPOCH),
    };
    if runs >= RUNS_MAX || known >= seen_at || !diagnosis::is_stuck(&facts) {
        return Ok(None);
    }
    insert(tx, ticket, runs + 1, &facts, seen_at).await.map(Some)
}

/// The tasks of a ticket, and when the last of them changed.
async fn facts(tx: &mut Tx, ticket: &TicketId) -> Result<(Vec<Fact>, Timestamp), Error> {
    let sql = "SELECT t.id, t.title, t.status, t.priority, t.failure_kind, t.error_message, t.result, t.updated_at, \
               t.unmet_dependencies, (SELECT count(*) FROM sandboxes s WHERE s.task_id = t.id AND s.failure_kind IS NOT NULL) AS attempts, \
               (SELECT count(*) FROM dependencies d JOIN tasks o ON o.id = d.depends_on WHERE d.task_id = t.id \
               AND o.status IN ('pending', 'assigned', 'running') AND (o.status <> 'pending' OR o.unmet_dependencies = 0)) AS moving \
               FROM tasks t WHERE t.ticket_id = $1 ORDER BY t.id LIMIT $2";
    let rows = tx.query(sql, params![ticket, TASKS_MAX]).await?;
    let mut seen_at = Timestamp::UNIX_EPOCH;
    let mut facts = Vec::with_capacity(rows.len());
    for row in &rows {
        seen_at = seen_at.max(row.get("updated_at")?);
        facts.push(fact(row)?);
    }
    Ok((facts, seen_at))
}

fn fact(row: &Row) -> Result<Fact, Error> {
    let result: Option<String> = row.get("result")?;
    let result: serde_json::Value =
        result.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let checks = result["checks"].as_array().cloned().unwrap_or_default();
    let failed = checks.iter().filter(|check| check["passed"] != true);
    Ok(Fact {
        id: row.parse("id")?,
        title: row.get("title")?,
        status: row.parse("status")?,
        priority: row.parse("priority")?,
        failure: row.parse_opt("failure_kind")?,
        error: row.get::<Option<String>>("error_message")?.unwrap_or_default(),
        attempts: row.get("attempts")?,
        failed_checks: failed.filter_map(|check| check["name"].as_str()).map(str::to_owned).collect(),
        may_follow: row.get::<i64>("unmet_dependencies")? == 0 || row.get::<i64>("moving")? > 0,
    })
}

async fn insert(
    tx: &mut Tx,
    ticket_id: &TicketId,
    number: i64,
    facts: &[Fact],
    seen_at: Timestamp,
) -> Result<DiagnosisId, Error> {
    let found = diagnosis::diagnose(facts);
    let count = |status| facts.iter().filter(|fact| fact.status == status).count();
    let id = DiagnosisId::generate();
    let project_id = ticket::get(tx, ticket_id).await?.project_id;
    tx.execute(
        "INSERT INTO diagnostic_runs (id, project_id, ticket_id, number, state, total_tasks, completed_tasks, failed_tasks, \
         root_cause, hypotheses, proposals, seen_at, created_at) VALUES ($1, $2, $3, $4, 'open', $5, $6, $7, $8, $9, $10, $11, $12)",
        params![
            &id,
            &project_id,
            ticket_id,
            number,
            facts.len(),
            count(TaskStatus::Completed),
            count(TaskStatus::Failed),
            found.root_cause.as_str(),
            json!(found.hypotheses).to_string(),
            json!(found.proposals).to_string(),
            seen_at,
            tx.now
        ],
    )
    .await?;
    let told = json!({
        "diagnosis_id": id, "ticket_id": ticket_id, "project_id": project_id, "root_cause": found.root_cause,
        "proposals": found.proposals.len(),
    });
    tx.tell("diagnostic.completed", "ticket", ticket_id.as_str(), &told);
    Ok(id)
}

async fn carry_out(tx: &mut Tx, ticket: &TicketId, proposal: &Proposal) -> Result<TaskId, Error> {
    match proposal.kind {
        ProposalKind::Retry => {
            order(tx, &proposal.about, TaskEvent::Retried, Note::default()).await?;
            Ok(proposal.about.clone())
        }
        ProposalKind::Task => {
            let new = NewTask {
                ticket_id: Some(ticket.clone()),
                description: proposal.description.clone(),
                task_type: TASK_TYPE.to_owned(),
                priority: proposal.priority,
                parent_task_id: Some(proposal.about.clone()),
                ..NewTask::plain(proposal.title.chars().take(500).collect::<String>())
            };
            task::insert(tx, &new).await
        }
    }
}

async fn still_open(tx: &mut Tx, id: &DiagnosisId) -> Result<Diagnosis, Error> {
    let found = get(tx, id).await?;
    if found.state == DiagnosisState::Open {
        return Ok(found);
    }
    Err(Error::conflict("already_decided", format!("diagnosis {id} is {} already", found.state)))
}

async fn decide(
    tx: &mut Tx,
    id: &DiagnosisId,
    state: DiagnosisState,
    actor: Option<&str>,
) -> Result<Diagnosis, Error> {
    let sql = "UPDATE diagnostic_runs SET state = $2, decided_at = $3, decided_by = $4 WHERE id = $1";
    tx.execute(sql, params![id, state.as_str(), tx.now, actor]).await?;
    let found = get(tx, id).await?;
    let told = json!({ "diagnosis_id": id, "ticket_id": found.ticket_id, "state": state });
    tx.tell("diagnostic.decided", "ticket", found.ticket_id.as_str(), &told);
    if let Some(actor) = actor {
        let made: Vec<&TaskId> =
            found.proposals.iter().filter_map(|proposal| proposal.task_id.as_ref()).collect();
        let detail = json!({ "diagnosis_id": id, "tasks": made });
        let action = if state == DiagnosisState::Accepted { "diagnosis.accept" } else { "diagnosis.dismiss" };
        tx.record(actor, action, "ticket", found.ticket_id.as_str(), detail);
    }
    Ok(found)
}

async fn get(tx: &mut Tx, id: &DiagnosisId) -> Result<Diagnosis, Error> {
    let row =
        tx.query_one(&format!("SELECT {COLUMNS} FROM diagnostic_runs WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("diagnosis", id))?)
}

fn read(row: &Row) -> Result<Diagnosis, Error> {
    Ok(Diagnosis {
        id: row.parse("id")?,
        project_id: row.parse("project_id")?,
        ticket_id: row.parse("ticket_id")?,
        state: row.parse("state")?,
        number: row.get("number")?,
        total_tasks: row.get("total_tasks")?,
        completed_tasks: row.get("completed_tasks")?,
        failed_tasks: row.get("failed_tasks")?,
        root_cause: row.get("root_cause")?,
        hypotheses: row.json("hypotheses")?,
        proposals: row.json("proposals")?,
        created_at: row.get("created_at")?,
        decided_at: row.get("decided_at")?,
        decided_by: row.get("decided_by")?,
    })
}
