//! What becomes of a task: every change of its status but the claim goes through the rules in `domain::task`, in the
//! transaction that read the state, together with its effects. A claim (`claim.rs`) asks for pending tasks alone, which is
//! all that its rule says, and has no effects.

use omoi_protocol::{
    EndReason, FailureKind, Priority, ProjectId, SandboxStatus, Stage, TaskId, TaskStatus, TicketId,
};
use serde_json::{Map, Value as Json, json};

use super::{
    Error, Tx, attempt, dependency, lapse,
    proof::{self, Owed},
    sandbox::{self, Reporter},
    task::rank,
    ticket,
    value::{Row, params},
};
use crate::domain::{
    check,
    lease::Lease,
    report::Report,
    retry::{self, RetryDecision},
    task::{Effect, Proof, Refused, TaskEvent, TaskState},
};

/// A task row, as the rules see it.
pub(super) struct Stored {
    pub id: TaskId,
    pub project_id: ProjectId,
    pub ticket_id: Option<TicketId>,
    pub priority: Priority,
    pub state: TaskState,
    pub stage: Stage,
    /// At the stage of checks, what they are.
    pub owed: Owed,
    retry_count: i64,
    max_retries: i64,
    result: Option<Json>,
}

impl Stored {
    pub async fn load(tx: &mut Tx, id: &TaskId) -> Result<Self, Error> {
        let sql = "SELECT t.id, t.project_id, t.ticket_id, t.priority, t.status, t.retry_count, t.max_retries, \
                   t.failure_kind, t.result, t.stage, t.commit_id, t.checks, s.id AS holder, s.generation, s.lease_expires_at, \
                   s.end_reason, s.ended_at, s.place FROM tasks t \
                   LEFT JOIN sandboxes s ON s.task_id = t.id AND s.generation = t.generation WHERE t.id = $1";
        let row = tx.query_one(sql, params![id]).await?.ok_or_else(|| Error::not_found("task", id))?;
        let result: Option<String> = row.get("result")?;
        Ok(Self {
            id: row.parse("id")?,
            project_id: row.parse("project_id")?,
            ticket_id: row.parse_opt("ticket_id")?,
            priority: row.parse("priority")?,
            state: state(tx, &row).await?,
            stage: row.parse("stage")?,
            owed: proof::read(&row)?,
            retry_count: row.get("retry_count")?,
            max_retries: row.get("max_retries")?,
            result: result.and_then(|text| serde_json::from_str(&text).ok()),
        })
    }

    fn retry(&self, tx: &Tx, kind: FailureKind) -> RetryDecision {
        retry::decide(kind, self.retry_count, self.max_retries, &tx.rules.retry, super::jitter())
    }

    pub fn failure(&self, tx: &Tx, generation: i64, kind: FailureKind) -> TaskEvent {
        TaskEvent::Failed { generation, kind, retry: self.retry(tx, kind) }
    }
}

async fn state(tx: &mut Tx, row: &Row) -> Result<TaskState, Error> {
    let lease = || {
        Ok(Lease {
            holder: row.parse("holder")?,
            generation: row.get("generation")?,
            expires_at: row.get("lease_expires_at")?,
        })
    };
    Ok(match row.parse("status")? {
        TaskStatus::Pending => lapse::read(tx, row).await?.map_or(TaskState::Pending, TaskState::Lapsed),
        TaskStatus::Assigned => TaskState::Assigned(lease()?),
        TaskStatus::Running => TaskState::Running(lease()?),
        TaskStatus::Completed => TaskState::Completed,
        TaskStatus::Failed => {
            TaskState::Failed { kind: row.parse_opt("failure_kind")?.unwrap_or(FailureKind::Agent) }
        }
        TaskStatus::Cancelled => TaskState::Cancelled,
    })
}

/// What is written down with a transition.
#[derive(Debug, Clone, Default)]
pub(super) struct Note {
    pub error: Option<String>,
    pub result: Map<String, Json>,
    /// What the next attempt is told.
    pub feedback: Option<String>,
    /// The checks that are to run next.
    pub owed: Option<Owed>,
    /// Why the sandbox ends, in one word, where its status alone does not tell.
    pub end_reason: Option<EndReason>,
}

impl Note {
    pub fn error(text: &str) -> Self {
        Self { error: Some(text.to_owned()), ..Self::default() }
    }
}

pub(super) async fn apply(
    tx: &mut Tx,
    id: &TaskId,
    event: TaskEvent,
    note: Note,
) -> Result<Result<TaskStatus, Refused>, Error> {
    let stored = Stored::load(tx, id).await?;
    transition(tx, &stored, event, note).await
}

/// The same, where whoever asks is told why not.
pub(super) async fn order(tx: &mut Tx, id: &TaskId, event: TaskEvent, note: Note) -> Result<(), Error> {
    match apply(tx, id, event, note).await? {
        Ok(_) => Ok(()),
        Err(refused) => Err(Error::conflict(refused.code(), refused.to_string())),
    }
}

pub(super) async fn lease_expired(tx: &mut Tx, id: &TaskId) -> Result<(), Error> {
    let stored = Stored::load(tx, id).await?;
    let Some(holder) = stored.state.lease().map(|lease| lease.holder.clone()) else { return Ok(()) };
    let place = sandbox::get(tx, &holder).await?.place;
    let event = TaskEvent::LeaseExpired { retry: stored.retry(tx, FailureKind::Lost), place };
    transition(tx, &stored, event, Note::error("the sandbox fell silent and its lease ran out")).await?.ok();
    Ok(())
}

pub(super) async fn time_out(tx: &mut Tx, id: &TaskId) -> Result<(), Error> {
    let stored = Stored::load(tx, id).await?;
    let Some(generation) = stored.state.lease().map(|lease| lease.generation) else { return Ok(()) };
    let event = stored.failure(tx, generation, FailureKind::TimedOut);
    tx.tell("TASK_TIMED_OUT", "task", id.as_str(), &json!({ "task_id": id }));
    let note =
        Note { end_reason: Some(EndReason::TimedOut), ..Note::error("the task ran longer than its timeout") };
    transition(tx, &stored, event, note).await?.ok();
    Ok(())
}

/// What a report means for the task of its sandbox; the code of the refusal when it changes nothing.
pub(super) async fn report(
    tx: &mut Tx,
    from: &mut Reporter,
    report: Report,
) -> Result<Option<&'static str>, Error> {
    let Some(task_id) = from.task_id.clone() else { return end_of_none(tx, from, report).await };
    let stored = Stored::load(tx, &task_id).await?;
    let generation = from.generation;
    let (event, note) = match report {
        Report::Started => (TaskEvent::Started { generation }, Note::default()),
        Report::Completed { outcome } => {
            proof::succeeded(tx, &stored, &from.id, generation, *outcome).await?
        }
        Report::Failed { kind, error, checks } => {
            proof::failed(tx, &stored, &from.id, generation, kind, &error, &checks)
        }
    };
    let ended = !matches!(event, TaskEvent::Started { .. });
    match transition(tx, &stored, event, note).await? {
        Ok(_) => {
            // The rest of the batch sees the sandbox as it is now.
            if ended {
                from.status = SandboxStatus::Completed;
            }
            Ok(None)
        }
        Err(refused) => Ok(Some(refused.code())),
    }
}

/// A sandbox that holds no task ends by its own word.
async fn end_of_none(
    tx: &mut Tx,
    from: &mut Reporter,
    report: Report,
) -> Result<Option<&'static str>, Error> {
    let (status, reason) = match report {
        Report::Started => return Ok(None),
        Report::Completed { .. } => (SandboxStatus::Completed, EndReason::Completed),
        Report::Failed { kind, .. } => (SandboxStatus::Failed, kind.into()),
    };
    if from.status.is_live() {
        from.status = status;
        sandbox::end(tx, &from.id, status, reason, None).await?;
    }
    Ok(None)
}

/// Applies the rule, stores the next state and carries out its effects.
pub(super) async fn transition(
    tx: &mut Tx,
    stored: &Stored,
    event: TaskEvent,
    mut note: Note,
) -> Result<Result<TaskStatus, Refused>, Error> {
    let (failed, why) = match &event {
        TaskEvent::Failed { kind, .. } => (Some(*kind), Some(EndReason::from(*kind))),
        TaskEvent::LeaseExpired { .. } => (Some(FailureKind::Lost), Some(EndReason::LeaseExpired)),
        TaskEvent::Completed { proof: Proof::Owed, .. } => (None, Some(EndReason::WorkCompleted)),
        TaskEvent::Completed { .. } => (None, Some(EndReason::TaskCompleted)),
        TaskEvent::Cancelled => (None, Some(EndReason::TaskCancelled)),
        TaskEvent::Claimed(_)
        | TaskEvent::Started { .. }
        | TaskEvent::Reclaimed { .. }
        | TaskEvent::DependencyFailed
        | TaskEvent::Retried => (None, None),
    };
    note.end_reason = note.end_reason.or(why);
    // Whoever fails a whole chain counts once, at its end.
    let counts = event != TaskEvent::DependencyFailed;
    let (next, effects) = match stored.state.apply(event, tx.now) {
        Ok(moved) => moved,
        Err(refused) => return Ok(Err(refused)),
    };
    let (old, status) = (stored.state.status(), next.status());
    if next == stored.state && effects.is_empty() {
        return Ok(Ok(status));
    }
    write_state(tx, stored, &next, &note).await?;
    if let Some((kind, lease)) = failed.zip(stored.state.lease()) {
        attempt::failed(tx, &lease.holder, kind, note.error.as_deref()).await?;
    }
    for effect in effects {
        carry_out(tx, stored, effect, &note).await?;
    }
    if counts && (old == TaskStatus::Pending || status == TaskStatus::Pending) {
        dependency::recount_of_dependencies(tx, std::slice::from_ref(&stored.id)).await?;
    }
    tx.tell(name_of(status), "task", stored.id.as_str(), &told(stored, old, status, &note));
    if let Some(ticket_id) = &stored.ticket_id {
        ticket::follow(tx, ticket_id).await?;
    }
    Ok(Ok(status))
}

async fn write_state(tx: &mut Tx, stored: &Stored, next: &TaskState, note: &Note) -> Result<(), Error> {
    let status = next.status();
    let kind = if let TaskState::Failed { kind } = next { Some(kind.as_str()) } else { None };
    let started = matches!(status, TaskStatus::Running).then_some(tx.now);
    let completed = status.is_final().then_some(tx.now);
    // A result is added to, so that what others noted there stays.
    let mut result = stored.result.clone().map(|json| object(Some(json))).unwrap_or_default();
    result.extend(note.result.clone());
    let result = (!result.is_empty()).then(|| Json::Object(result).to_string());
    let sql = "UPDATE tasks SET status = $2, failure_kind = $3, error_message = $4, result = $5, \
               started_at = CASE WHEN $6 = 1 THEN NULL ELSE COALESCE(started_at, $7) END, completed_at = $8, \
               updated_at = $9, feedback = COALESCE($10, feedback) WHERE id = $1";
    let offered = status == TaskStatus::Pending;
    let values = params![
        &stored.id,
        status.as_str(),
        kind,
        note.error.as_deref(),
        result,
        i64::from(offered),
        started,
        completed,
        tx.now,
        note.feedback.as_deref()
    ];
    tx.execute(sql, values).await?;
    Ok(())
}

async fn carry_out(tx: &mut Tx, stored: &Stored, effect: Effect, note: &Note) -> Result<(), Error> {
    match effect {
        Effect::EndSandbox { sandbox, status } => {
            // Only those events end one that have a reason.
            let why = note.end_reason.unwrap_or(EndReason::Terminated);
            sandbox::end(tx, &sandbox, status, why, note.error.as_deref()).await
        }
        Effect::OfferAgain { kind, not_before } => {
            let stage = check::stage_after(stored.stage, kind);
            let sql =
                "UPDATE tasks SET retry_count = retry_count + 1, not_before = $2, stage = $3 WHERE id = $1";
            tx.execute(sql, params![&stored.id, not_before, stage.as_str()]).await?;
            tx.tell(
                "TASK_RETRY_SCHEDULED",
                "task",
                stored.id.as_str(),
                &json!({ "not_before": not_before, "retry_count": stored.retry_count + 1, "error_message": note.error }),
            );
            rank(tx, std::slice::from_ref(&stored.id)).await
        }
        Effect::ReturnLease { lease } => lapse::give_back(tx, &stored.id, &lease).await,
        Effect::OfferCheck => {
            let owed = note.owed.clone().unwrap_or_default();
            let sql = "UPDATE tasks SET stage = 'check', commit_id = $2, checks = $3, not_before = NULL WHERE id = $1";
            let checks = json!(owed.checks).to_string();
            tx.execute(sql, params![&stored.id, owed.commit.as_deref(), checks]).await?;
            rank(tx, std::slice::from_ref(&stored.id)).await
        }
        Effect::OfferAfresh => {
            let stage = match stored.state {
                TaskState::Failed { kind } => check::stage_after(stored.stage, kind),
                _ => stored.stage,
            };
            let sql = "UPDATE tasks SET retry_count = 0, not_before = NULL, stage = $2 WHERE id = $1";
            tx.execute(sql, params![&stored.id, stage.as_str()]).await?;
            dependency::recount_waiting(tx, &stored.id).await?;
            rank(tx, std::slice::from_ref(&stored.id)).await
        }
        Effect::ReleaseDependants => dependency::release(tx, &stored.id).await,
        Effect::SettleDependants => Box::pin(dependency::settle(tx, &stored.id)).await,
    }
}

fn name_of(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "TASK_STATUS_CHANGED",
        TaskStatus::Assigned => "TASK_ASSIGNED",
        TaskStatus::Running => "TASK_STARTED",
        TaskStatus::Completed => "TASK_COMPLETED",
        TaskStatus::Failed => "TASK_FAILED",
        TaskStatus::Cancelled => "TASK_CANCELLED",
    }
}

fn told(stored: &Stored, old: TaskStatus, status: TaskStatus, note: &Note) -> Json {
    json!({
        "task_id": stored.id,
        "project_id": stored.project_id,
        "ticket_id": stored.ticket_id,
        "priority": stored.priority,
        "old_status": old,
        "status": status,
        "stage": if note.owed.is_some() { Stage::Check } else { stored.stage },
        "error_message": note.error,
        "has_result": !note.result.is_empty(),
        "verification": note.result.get("verification"),
    })
}

pub(super) fn object(json: Option<Json>) -> Map<String, Json> {
    match json {
        Some(Json::Object(map)) => map,
        Some(other) => Map::from_iter([("value".to_owned(), other)]),
        None => Map::new(),
    }
}
