//! Phases: each attempt is a task of its own kind, worked on like any other. The last attempt at a phase is what counts.

use std::collections::BTreeMap;

use omoi_protocol::{
    PhaseState, Priority, SpecFlow, SpecId, SpecPhase, SpecStatus, TaskId,
    launch::SpecLaunch,
    spec::{PhaseAttempt, PhaseData, PhaseDetail, Spec},
    task::NewTask,
};
use serde_json::{Map, Value as Json, json};

use super::{get, history, phases, set_status};
use crate::{
    domain::spec,
    store::{
        Error, Store, Tx, blob, task,
        value::{Row, params},
    },
};

/// What such tasks are called.
pub const TASK_TYPE: &str = "spec_phase";
const PHASE_ID: &str = "PHASE_SPEC";
const TITLE_CHARS_MAX: usize = 400;

const COLUMNS: &str = "p.phase, p.attempt, p.try, p.state, p.task_id, p.edited_by, p.output_hash, p.commit_id, p.score, \
    p.findings, p.feedback, p.started_at, p.ended_at, \
    (SELECT s.id FROM sandboxes s WHERE s.task_id = p.task_id ORDER BY s.generation DESC LIMIT 1) AS sandbox_id";
pub(super) const LAST: &str = "p.attempt = (SELECT max(q.attempt) FROM spec_phases q WHERE q.spec_id = p.spec_id AND q.phase = p.phase)";

/// What the sandbox of a phase is told.
pub type Brief = SpecLaunch;

/// A row, with what only the store knows of it.
pub(super) struct Stored {
    pub shown: PhaseAttempt,
    pub tries: i64,
    pub output_hash: Option<String>,
}

impl Store {
    /// Every attempt at every phase, in the order of phases and then of attempts.
    pub async fn spec_phase_list(&self, id: &SpecId) -> Result<Vec<PhaseAttempt>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            get(tx, &id).await?;
            let sql = format!("SELECT {COLUMNS} FROM spec_phases p WHERE p.spec_id = $1");
            in_order(&tx.query(&sql, params![&id]).await?)
        })
        .await
    }

    /// One attempt at a phase, the last unless another is named.
    pub async fn spec_phase_get(
        &self,
        id: &SpecId,
        phase: SpecPhase,
        attempt: Option<i64>,
    ) -> Result<PhaseDetail, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            get(tx, &id).await?;
            let sql = "SELECT attempt FROM spec_phases WHERE spec_id = $1 AND phase = $2 ORDER BY attempt";
            let rows = tx.query(sql, params![&id, phase.as_str()]).await?;
            let attempts: Vec<i64> = rows.iter().map(|row| row.get("attempt")).collect::<Result<_, _>>()?;
            let sql = format!(
                "SELECT {COLUMNS} FROM spec_phases p WHERE p.spec_id = $1 AND p.phase = $2 AND p.attempt = $3"
            );
            let wanted = attempt.or(attempts.last().copied()).unwrap_or(0);
            let row = tx.query_one(&sql, params![&id, phase.as_str(), wanted]).await?;
            let missing = || Error::not_found("attempt at phase", format!("{phase} of {id}"));
            let stored = read(&row.ok_or_else(missing)?)?;
            let output = match &stored.output_hash {
                Some(hash) => Some(output(tx, hash).await?),
                None => None,
            };
            Ok(PhaseDetail {
                markdown: output.as_ref().map(|output| spec::render(phase, output)),
                comments: history::comments(tx, &id, phase).await?,
                attempt: stored.shown,
                attempts,
                output,
            })
        })
        .await
    }

    pub async fn spec_phase_data(&self, id: &SpecId) -> Result<PhaseData, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let spec = get(tx, &id).await?;
            let outputs = outputs(tx, &id, phases(spec.flow)).await?;
            let last = last_of_each(tx, &id).await?;
            Ok(PhaseData {
                spec_id: id.clone(),
                current_phase: spec.current_phase,
                phase_data: outputs.into_iter().map(|(phase, output)| (phase.to_string(), output)).collect(),
                phase_attempts: last.iter().map(|one| (one.phase.to_string(), one.attempt)).collect(),
                last_error: spec.last_error,
            })
        })
        .await
    }
}

/// Whether what a phase came to may be built on.
pub(super) fn stands(state: PhaseState) -> bool {
    matches!(state, PhaseState::Passed | PhaseState::Approved)
}

/// Begins an attempt at a phase: a task that waits for its sandbox.
pub(super) async fn begin(
    tx: &mut Tx,
    spec: &Spec,
    phase: SpecPhase,
    tries: i64,
    feedback: Option<&str>,
) -> Result<TaskId, Error> {
    let task_id = task::insert(tx, &new_task(spec, phase)).await?;
    if let Some(feedback) = feedback {
        let sql = "UPDATE tasks SET feedback = $2 WHERE id = $1";
        tx.execute(sql, params![&task_id, feedback]).await?;
    }
    let attempt = next_attempt(tx, &spec.id, phase).await?;
    let sql = "INSERT INTO spec_phases (spec_id, phase, attempt, try, state, task_id, findings, feedback, started_at) \
               VALUES ($1, $2, $3, $4, 'running', $5, '[]', $6, $7)";
    let values = params![&spec.id, phase.as_str(), attempt, tries, &task_id, feedback, tx.now];
    tx.execute(sql, values).await?;
    set_status(tx, &spec.id, SpecStatus::Executing, phase, None).await?;
    let told = json!({ "phase": phase, "attempt": attempt, "task_id": task_id });
    tx.tell("SPEC_PHASE_STARTED", "spec", spec.id.as_str(), &told);
    Ok(task_id)
}

pub(super) async fn next_attempt(tx: &mut Tx, id: &SpecId, phase: SpecPhase) -> Result<i64, Error> {
    let sql =
        "SELECT COALESCE(max(attempt), 0) + 1 AS next FROM spec_phases WHERE spec_id = $1 AND phase = $2";
    tx.query_one(sql, params![id, phase.as_str()]).await?.map_or(Ok(1), |row| row.get("next"))
}

/// It reads and writes up, whatever its project's tasks do besides; nobody has to start it, and nothing is run to prove it.
fn new_task(spec: &Spec, phase: SpecPhase) -> NewTask {
    let title: String = spec.title.chars().take(TITLE_CHARS_MAX).collect();
    let config = json!({ "autonomous": true, "mode": "exploration", "continuous": false, "checks": [] });
    NewTask {
        project_id: spec.project_id.clone(),
        description: described(spec, phase),
        task_type: TASK_TYPE.to_owned(),
        phase_id: PHASE_ID.to_owned(),
        priority: Priority::High,
        execution_config: if let Json::Object(config) = config { config } else { Map::new() },
        ..NewTask::plain(format!("Spec, {phase}: {title}"))
    }
}

/// The tasks of a bug have to say more than others, and nobody would know it from the phase alone.
fn described(spec: &Spec, phase: SpecPhase) -> String {
    const BUG: &str = "This is a bug. Let the output have the key bugfix: reproduce (steps, observed, expected), cause (file, explanation), \
                       fix (the tasks that mend it) and guard (the test that keeps it away, and the tasks that write it).";
    match (spec.flow, phase) {
        (SpecFlow::Bugfix, SpecPhase::Tasks) => format!("{}\n\n{BUG}", spec.description).trim().to_owned(),
        _ => spec.description.clone(),
    }
}

/// What the sandbox of a phase's task is told; none for other tasks.
pub(in crate::store) async fn brief(tx: &mut Tx, task_id: &TaskId) -> Result<Option<Brief>, Error> {
    let sql = "SELECT spec_id, phase FROM spec_phases WHERE task_id = $1";
    let Some(row) = tx.query_one(sql, params![task_id]).await? else { return Ok(None) };
    let (id, phase): (SpecId, SpecPhase) = (row.parse("spec_id")?, row.parse("phase")?);
    let spec = get(tx, &id).await?;
    let earlier = outputs(tx, &id, before(spec.flow, phase)).await?;
    let sql = "SELECT output_hash FROM spec_phases WHERE spec_id = $1 AND phase = $2 AND output_hash IS NOT NULL \
               AND (task_id IS NULL OR task_id <> $3) ORDER BY attempt DESC LIMIT 1";
    let previous = match tx.query_one(sql, params![&id, phase.as_str(), task_id]).await? {
        Some(row) => Some(output(tx, &row.get::<String>("output_hash")?).await?),
        None => None,
    };
    Ok(Some(Brief {
        previous,
        spec_id: id,
        phase,
        title: spec.title,
        description: spec.description,
        phase_context: earlier.into_iter().map(|(phase, output)| (phase.to_string(), output)).collect(),
    }))
}

/// The phases of a flow that come before one.
pub(super) fn before(flow: SpecFlow, phase: SpecPhase) -> &'static [SpecPhase] {
    let phases = phases(flow);
    &phases[..phases.iter().position(|one| *one == phase).unwrap_or(0)]
}

/// The outputs that may be built on, of these phases.
pub(super) async fn outputs(
    tx: &mut Tx,
    id: &SpecId,
    of: &[SpecPhase],
) -> Result<BTreeMap<SpecPhase, Json>, Error> {
    let mut outputs = BTreeMap::new();
    for stored in last_stored(tx, id).await? {
        if of.contains(&stored.shown.phase)
            && stands(stored.shown.state)
            && let Some(hash) = &stored.output_hash
        {
            outputs.insert(stored.shown.phase, output(tx, hash).await?);
        }
    }
    Ok(outputs)
}

pub(super) async fn output(tx: &mut Tx, hash: &str) -> Result<Json, Error> {
    let text = blob::get_text(tx, hash).await?;
    serde_json::from_str(&text).map_err(|_| Error::corrupt("output_hash", "the name of no JSON"))
}

/// The last attempt at each phase, in the order of phases.
pub(super) async fn last_of_each(tx: &mut Tx, id: &SpecId) -> Result<Vec<PhaseAttempt>, Error> {
    Ok(last_stored(tx, id).await?.into_iter().map(|stored| stored.shown).collect())
}

async fn last_stored(tx: &mut Tx, id: &SpecId) -> Result<Vec<Stored>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM spec_phases p WHERE p.spec_id = $1 AND {LAST}");
    let rows = tx.query(&sql, params![id]).await?;
    let mut all = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|one| one.shown.phase);
    Ok(all)
}

pub(super) async fn last(tx: &mut Tx, id: &SpecId, phase: SpecPhase) -> Result<Option<Stored>, Error> {
    Ok(last_stored(tx, id).await?.into_iter().find(|one| one.shown.phase == phase))
}

pub(super) async fn set_state(
    tx: &mut Tx,
    id: &SpecId,
    (phase, attempt): (SpecPhase, i64),
    state: PhaseState,
) -> Result<(), Error> {
    let sql = "UPDATE spec_phases SET state = $4 WHERE spec_id = $1 AND phase = $2 AND attempt = $3";
    tx.execute(sql, params![id, phase.as_str(), attempt, state.as_str()]).await
}

/// What these phases came to was built on something that changes.
pub(super) async fn make_stale(tx: &mut Tx, id: &SpecId, of: &[SpecPhase]) -> Result<(), Error> {
    for one in last_of_each(tx, id).await? {
        if of.contains(&one.phase) && !matches!(one.state, PhaseState::Running | PhaseState::Stale) {
            set_state(tx, id, (one.phase, one.attempt), PhaseState::Stale).await?;
        }
    }
    Ok(())
}

fn in_order(rows: &[Row]) -> Result<Vec<PhaseAttempt>, Error> {
    let mut all = rows.iter().map(|row| Ok(read(row)?.shown)).collect::<Result<Vec<_>, Error>>()?;
    all.sort_by_key(|one| (one.phase, one.attempt));
    Ok(all)
}

pub(super) fn read(row: &Row) -> Result<Stored, Error> {
    Ok(Stored {
        tries: row.get("try")?,
        output_hash: row.get("output_hash")?,
        shown: PhaseAttempt {
            phase: row.parse("phase")?,
            attempt: row.get("attempt")?,
            state: row.parse("state")?,
            task_id: row.parse_opt("task_id")?,
            sandbox_id: row.parse_opt("sandbox_id")?,
            edited_by: row.get("edited_by")?,
            commit: row.get("commit_id")?,
            score: row.get("score")?,
            findings: row.json("findings")?,
            feedback: row.get("feedback")?,
            started_at: row.get("started_at")?,
            ended_at: row.get("ended_at")?,
        },
    })
}
