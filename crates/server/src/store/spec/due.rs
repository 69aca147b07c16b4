//! Phases that have something to be judged, and what follows from the judgement. It looks at stored rows alone, so it may
//! run twice, and again after a crash.

use std::collections::BTreeMap;

use omoi_protocol::{
    PhaseState, ProjectId, SandboxId, SpecFlow, SpecId, SpecPhase, SpecStatus, TaskId, TaskStatus,
    launch::spec_artifact,
    spec::{Finding, Spec},
};
use serde_json::{Value as Json, json};

use super::{ACTOR, get, history, phase, phases, set_status, sync};
use crate::{
    domain::{
        spec::{Flow, Known, Severity, THRESHOLD, evaluate},
        spec_course::{self, Next},
    },
    store::{
        Error, Store, Tx, blob, system, task,
        value::{Row, params},
    },
};

/// Of what was found, as much as the next attempt is told.
const FEEDBACK_CHARS_MAX: usize = 20_000;

/// An attempt at a phase that has ended.
#[derive(Debug, Clone)]
pub struct Due {
    pub spec_id: SpecId,
    pub project_id: ProjectId,
    pub flow: SpecFlow,
    pub phase: SpecPhase,
    pub attempt: i64,
    pub handed: Handed,
    /// What the phases before it came to.
    pub earlier: BTreeMap<SpecPhase, Json>,
    /// What its sandbox began with.
    pub commit: Option<String>,
}

/// What an attempt has left.
#[derive(Debug, Clone)]
pub enum Handed {
    Output(String),
    /// Its task came to its end without an output.
    Nothing,
    /// Its task failed; why.
    Failed(String),
}

/// What an attempt is found to be.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Absent where it cannot be read.
    pub output: Option<Json>,
    pub commit: Option<String>,
    pub score: f64,
    pub passed: bool,
    pub findings: Vec<Finding>,
}

impl Judged {
    /// Holds an output against what is known. Phases before it that somebody left out are not asked for.
    pub fn of(flow: SpecFlow, phase: SpecPhase, output: Json, commit: &str, known: &Known<'_>) -> Self {
        let found = match flow {
            SpecFlow::Bugfix => Flow::Bugfix.evaluate(THRESHOLD, phase, &output, known),
            SpecFlow::Full | SpecFlow::Quick => evaluate(phase, &output, known),
        };
        let findings = found.findings.into_iter().map(|one| {
            let severity = match one.severity {
                Severity::Issue => "issue",
                Severity::Warning => "warning",
            };
            Finding { severity: severity.to_owned(), at: one.at, text: one.text }
        });
        Self {
            findings: findings.collect(),
            commit: Some(commit.to_owned()),
            score: found.score,
            passed: found.passed,
            output: Some(output),
        }
    }

    /// What is no output at all.
    pub fn refused(why: &str) -> Self {
        let finding = Finding { severity: "issue".to_owned(), at: "$".to_owned(), text: why.to_owned() };
        Self { output: None, commit: None, score: 0.0, passed: false, findings: vec![finding] }
    }
}

#[derive(Debug, Clone)]
pub enum Judgement {
    Judged(Box<Judged>),
    /// There is nothing to judge.
    Failed(String),
}

impl Store {
    /// Oldest specs first.
    pub async fn spec_due(&self, limit: usize) -> Result<Vec<Due>, Error> {
        self.read(async move |tx| {
            let sql = "SELECT p.spec_id, p.phase, p.attempt, p.task_id, p.output_hash, s.project_id, s.flow \
                       FROM spec_phases p JOIN specs s ON s.id = p.spec_id LEFT JOIN tasks t ON t.id = p.task_id \
                       WHERE p.state = 'running' AND (p.task_id IS NULL OR t.status IN ('completed', 'failed', 'cancelled')) \
                       ORDER BY p.spec_id LIMIT $1";
            let rows = tx.query(sql, params![limit]).await?;
            let mut due = Vec::with_capacity(rows.len());
            for row in &rows {
                due.push(read(tx, row).await?);
            }
            Ok(due)
        })
        .await
    }

    /// Writes down what an attempt is, with what follows from it. Changes nothing when that was done before; says whether
    /// it did.
    pub async fn spec_judge(&self, due: &Due, judgement: Judgement) -> Result<bool, Error> {
        let due = due.clone();
        self.write(async move |tx| {
            let last = phase::last(tx, &due.spec_id, due.phase).await?;
            let is_open = |last: &phase::Stored| {
                last.shown.attempt == due.attempt && last.shown.state == PhaseState::Running
            };
            let Some(last) = last.filter(is_open) else { return Ok(false) };
            let spec = get(tx, &due.spec_id).await?;
            match &judgement {
                Judgement::Failed(why) => fail(tx, &spec, &last, why).await?,
                Judgement::Judged(judged) => judge(tx, &spec, &last, judged).await?,
            }
            Ok(true)
        })
        .await
    }
}

async fn read(tx: &mut Tx, row: &Row) -> Result<Due, Error> {
    let spec_id: SpecId = row.parse("spec_id")?;
    let phase: SpecPhase = row.parse("phase")?;
    let task_id: Option<TaskId> = row.parse_opt("task_id")?;
    let (handed, commit) = match &task_id {
        Some(task_id) => handed_in(tx, task_id, phase).await?,
        None => match row.get::<Option<String>>("output_hash")? {
            Some(hash) => (Handed::Output(blob::get_text(tx, &hash).await?), None),
            None => (Handed::Nothing, None),
        },
    };
    let flow: SpecFlow = row.parse("flow")?;
    Ok(Due {
        earlier: phase::outputs(tx, &spec_id, phase::before(flow, phase)).await?,
        flow,
        project_id: row.parse("project_id")?,
        attempt: row.get("attempt")?,
        spec_id,
        phase,
        handed,
        commit,
    })
}

/// Only what the last holder of the task handed in counts: others before it were given up on.
async fn handed_in(tx: &mut Tx, id: &TaskId, phase: SpecPhase) -> Result<(Handed, Option<String>), Error> {
    let task = task::get(tx, id).await?;
    if task.status != TaskStatus::Completed {
        let why = task.error_message.unwrap_or_else(|| format!("its task was {}", task.status));
        return Ok((Handed::Failed(why), None));
    }
    let sql = "SELECT id, base_commit FROM sandboxes WHERE task_id = $1 ORDER BY generation DESC LIMIT 1";
    let Some(row) = tx.query_one(sql, params![id]).await? else { return Ok((Handed::Nothing, None)) };
    let (holder, commit): (SandboxId, Option<String>) = (row.parse("id")?, row.get("base_commit")?);
    let sql = "SELECT blob_hash FROM artifacts WHERE sandbox_id = $1 AND name = $2 ORDER BY id DESC LIMIT 1";
    let handed = match tx.query_one(sql, params![&holder, spec_artifact(phase)]).await? {
        Some(row) => {
            let content = blob::get(tx, &row.get::<String>("blob_hash")?).await?;
            Handed::Output(String::from_utf8_lossy(&content).into_owned())
        }
        None => Handed::Nothing,
    };
    Ok((handed, commit))
}

async fn judge(tx: &mut Tx, spec: &Spec, last: &phase::Stored, judged: &Judged) -> Result<(), Error> {
    let (phase, attempt) = (last.shown.phase, last.shown.attempt);
    let next = match judged.passed {
        true => spec_course::passed(phases(spec.flow), phase, &spec.gates),
        // Nobody tries again for a person.
        false if last.shown.edited_by.is_some() => Next::GiveUp,
        false => spec_course::failed(last.tries),
    };
    let state = match next {
        Next::Gate => PhaseState::Waiting,
        Next::Phase(_) | Next::Tasks => PhaseState::Passed,
        Next::Again | Next::GiveUp => PhaseState::Failed,
    };
    write(tx, spec, last, judged, state).await?;
    let cause = if judged.passed { "phase_passed" } else { "phase_failed" };
    match next {
        Next::Gate => set_status(tx, &spec.id, SpecStatus::Waiting, phase, None).await?,
        Next::Phase(_) | Next::Tasks => go_on(tx, spec, phase).await?,
        Next::Again => {
            phase::begin(tx, spec, phase, last.tries + 1, Some(&feedback(attempt, judged))).await?;
        }
        Next::GiveUp => {
            let why = format!("the phase {phase} did not pass: {}", feedback(attempt, judged));
            set_status(tx, &spec.id, SpecStatus::Failed, phase, Some(&why)).await?;
            tx.tell("SPEC_FAILED", "spec", spec.id.as_str(), &json!({ "phase": phase, "error": why }));
        }
    }
    history::version(tx, &spec.id, cause, ACTOR).await
}

/// What lies behind a phase that stands. What stands already, or waits, is not done again.
pub(super) async fn go_on(tx: &mut Tx, spec: &Spec, phase: SpecPhase) -> Result<(), Error> {
    let last = phase::last_of_each(tx, &spec.id).await?;
    let state = |of: SpecPhase| last.iter().find(|one| one.phase == of).map(|one| one.state);
    let mut at = phase;
    while let Next::Phase(next) = spec_course::behind(phases(spec.flow), at) {
        match state(next) {
            Some(PhaseState::Passed | PhaseState::Approved) => at = next,
            Some(PhaseState::Waiting) => {
                return set_status(tx, &spec.id, SpecStatus::Waiting, next, None).await;
            }
            _ => return phase::begin(tx, spec, next, 1, None).await.map(drop),
        }
    }
    set_status(tx, &spec.id, SpecStatus::Executing, at, None).await?;
    sync::sync(tx, spec).await
}

async fn write(
    tx: &mut Tx,
    spec: &Spec,
    last: &phase::Stored,
    judged: &Judged,
    state: PhaseState,
) -> Result<(), Error> {
    let (phase, attempt) = (last.shown.phase, last.shown.attempt);
    let hash = match &judged.output {
        Some(output) => Some(blob::put(tx, output.to_string().as_bytes()).await?),
        None => last.output_hash.clone(),
    };
    let sql = "UPDATE spec_phases SET state = $4, output_hash = $5, commit_id = $6, score = $7, findings = $8, ended_at = $9 \
               WHERE spec_id = $1 AND phase = $2 AND attempt = $3";
    let findings = json!(judged.findings).to_string();
    let values = params![
        &spec.id,
        phase.as_str(),
        attempt,
        state.as_str(),
        hash,
        judged.commit.as_deref(),
        judged.score,
        findings,
        tx.now
    ];
    tx.execute(sql, values).await?;
    let told = json!({
        "phase": phase, "attempt": attempt, "state": state, "eval_score": judged.score, "eval_passed": judged.passed,
        "eval_feedback": judged.findings, "task_id": last.shown.task_id, "sandbox_id": last.shown.sandbox_id,
    });
    tx.tell("SPEC_PHASE_JUDGED", "spec", spec.id.as_str(), &told);
    if let Some(sandbox) = &last.shown.sandbox_id {
        system::append(tx, sandbox, "spec.eval_result", &told).await?;
    }
    Ok(())
}

/// Its task failed, however often it was tried.
async fn fail(tx: &mut Tx, spec: &Spec, last: &phase::Stored, why: &str) -> Result<(), Error> {
    let (phase, attempt) = (last.shown.phase, last.shown.attempt);
    let finding = Finding { severity: "issue".to_owned(), at: "$".to_owned(), text: why.to_owned() };
    let sql = "UPDATE spec_phases SET state = 'failed', findings = $4, ended_at = $5 \
               WHERE spec_id = $1 AND phase = $2 AND attempt = $3";
    let values = params![&spec.id, phase.as_str(), attempt, json!([finding]).to_string(), tx.now];
    tx.execute(sql, values).await?;
    let why = format!("the phase {phase} could not be worked on: {why}");
    set_status(tx, &spec.id, SpecStatus::Failed, phase, Some(&why)).await?;
    tx.tell("SPEC_FAILED", "spec", spec.id.as_str(), &json!({ "phase": phase, "error": why }));
    history::version(tx, &spec.id, "failed", ACTOR).await
}

fn feedback(attempt: i64, judged: &Judged) -> String {
    let mut text =
        format!("Attempt {attempt} was judged and does not pass; its score is {:.2}.", judged.score);
    for finding in &judged.findings {
        text.push_str(&format!("\n- {} at {}: {}", finding.severity, finding.at, finding.text));
    }
    if let Some((at, _)) = text.char_indices().nth(FEEDBACK_CHARS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}
