//! What proves a task: which checks it has to pass, on which commit, and what they came to. When they are owed and what
//! follows from them is in `domain::task` and `domain::check`.

use omoi_protocol::{
    FailureKind, SandboxId, Stage, TaskId, Verification,
    launch::Check,
    outcome::{CheckResult, Outcome},
    sandbox::NewSandbox as Wish,
    task::{AttemptMade, Evidence, Task},
};
use serde_json::{Map, Value as Json, json};

use super::{
    Error, Store, Tx, project, task, ticket,
    transition::{Note, Stored, object},
    value::{Row, params},
};
use crate::domain::{
    check,
    commit::CommitId,
    task::{Proof, TaskEvent},
};

const ATTEMPTS_MAX: usize = 100;

/// Checks that are still to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    /// None where the worker named none: then it is what the branch holds when they begin.
    pub commit: Option<String>,
    pub checks: Vec<Check>,
}

impl Store {
    pub async fn task_evidence(&self, id: &TaskId) -> Result<Evidence, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let task = task::get(tx, &id).await?;
            let row = tx.query_one("SELECT commit_id FROM tasks WHERE id = $1", params![&id]).await?;
            let commit: Option<String> = match row {
                Some(row) => row.get("commit_id")?,
                None => None,
            };
            let sql = "SELECT id, stage, status, end_reason, base_commit, created_at, started_at, ended_at \
                       FROM sandboxes WHERE task_id = $1 ORDER BY generation DESC LIMIT $2";
            let rows = tx.query(sql, params![&id, ATTEMPTS_MAX]).await?;
            let result = task.result.as_ref();
            let known = |key| result.and_then(|result| result.get(key)).cloned().unwrap_or(Json::Null);
            Ok(Evidence {
                verification: serde_json::from_value(known("verification"))
                    .unwrap_or(Verification::Unverified),
                commit: commit.or_else(|| known("commit").as_str().map(str::to_owned)),
                checks: serde_json::from_value(known("checks")).unwrap_or_default(),
                attempts: rows.iter().rev().map(attempt).collect::<Result<_, _>>()?,
                status: task.status,
                stage: task.stage,
                task_id: task.id,
            })
        })
        .await
    }
}

fn attempt(row: &Row) -> Result<AttemptMade, Error> {
    Ok(AttemptMade {
        sandbox_id: row.parse("id")?,
        stage: row.parse("stage")?,
        status: row.parse("status")?,
        end_reason: row.get("end_reason")?,
        base_commit: row.get("base_commit")?,
        created_at: row.get("created_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}

/// What a sandbox's word of success comes to: after the work, what has to be proven; after the checks, whether they
/// prove it.
pub(super) async fn succeeded(
    tx: &mut Tx,
    stored: &Stored,
    from: &SandboxId,
    generation: i64,
    mut outcome: Outcome,
) -> Result<(TaskEvent, Note), Error> {
    if stored.stage == Stage::Check {
        return Ok(checked(tx, stored, from, generation, &outcome.checks));
    }
    // Nobody proves his own work.
    (outcome.checks, outcome.verification) = (Vec::new(), Verification::Unverified);
    let owed = owed(tx, &stored.id, outcome.commit.as_deref()).await?;
    let proof = if owed.is_some() { Proof::Owed } else { Proof::Undeclared };
    let note = Note { result: object(serde_json::to_value(outcome).ok()), owed, ..Note::default() };
    Ok((TaskEvent::Completed { generation, proof }, note))
}

/// What checks have shown.
fn checked(
    tx: &Tx,
    stored: &Stored,
    from: &SandboxId,
    generation: i64,
    reported: &[CheckResult],
) -> (TaskEvent, Note) {
    let results = results(stored, from, reported);
    match check::prove(&stored.owed.checks, &results) {
        Ok(()) => {
            let note = Note { result: verdict(stored, &results, Verification::Verified), ..Note::default() };
            (TaskEvent::Completed { generation, proof: Proof::Given }, note)
        }
        Err(missing) => failed(tx, stored, from, generation, FailureKind::Checks, &missing, reported),
    }
}

/// A failure, and what it means for the work where it is the checks that have failed.
pub(super) fn failed(
    tx: &Tx,
    stored: &Stored,
    from: &SandboxId,
    generation: i64,
    kind: FailureKind,
    error: &str,
    reported: &[CheckResult],
) -> (TaskEvent, Note) {
    let mut note = Note::error(error);
    if stored.stage == Stage::Check && kind == FailureKind::Checks {
        note.result = verdict(stored, &results(stored, from, reported), Verification::Disputed);
        note.feedback = Some(check::feedback(error));
    }
    (stored.failure(tx, generation, kind), note)
}

fn results(stored: &Stored, from: &SandboxId, reported: &[CheckResult]) -> Vec<CheckResult> {
    let mut results = check::results(&stored.owed.checks, reported);
    for result in &mut results {
        result.sandbox_id = Some(from.clone());
    }
    results
}

fn verdict(stored: &Stored, results: &[CheckResult], verification: Verification) -> Map<String, Json> {
    let mut verdict = object(Some(json!({ "checks": results, "verification": verification })));
    if let Some(commit) = &stored.owed.commit {
        verdict.insert("commit".to_owned(), json!(commit));
    }
    verdict
}

/// What a task has to show for itself once its work is done. Without a repository there is nothing to run checks on.
async fn owed(tx: &mut Tx, id: &TaskId, commit: Option<&str>) -> Result<Option<Owed>, Error> {
    let task = task::get(tx, id).await?;
    let project = project::get(tx, &task.project_id).await?;
    let of_ticket = match &task.ticket_id {
        Some(ticket_id) => ticket::get(tx, ticket_id).await?.checks,
        None => None,
    };
    let checks = check::declared(&project.settings, of_ticket, &task.execution_config);
    if checks.is_empty() || project.repository_url.is_none() {
        return Ok(None);
    }
    let commit = commit.and_then(|commit| commit.parse::<CommitId>().ok());
    Ok(Some(Owed { commit: commit.map(|commit| commit.to_string()), checks }))
}

/// What a worker says directly, with what follows from it on top; it cannot call its own work proven.
pub(super) fn own_words(mut said: Map<String, Json>, follows: Map<String, Json>) -> Map<String, Json> {
    if let Some(verification) = follows.get("verification") {
        said.remove("checks");
        said.insert("verification".to_owned(), verification.clone());
    }
    said
}

/// What is still owed, from the columns `commit_id` and `checks`.
pub(super) fn read(row: &Row) -> Result<Owed, Error> {
    let checks = match row.get::<Option<String>>("checks")? {
        Some(_) => row.json("checks")?,
        None => Vec::new(),
    };
    Ok(Owed { commit: row.get("commit_id")?, checks })
}

/// Checks run as the work did, and nothing else runs in their place.
pub(super) async fn wish_for_checks(tx: &mut Tx, task: &Task, wish: &Wish) -> Result<Wish, Error> {
    if !wish.command.is_empty() || wish.base.is_some() || wish.resume_session_id.is_some() {
        let detail = format!(
            "task {} is at its checks, which run on its commit; leave out command, base and resume_session_id",
            task.id
        );
        return Err(Error::conflict("checks_alone", detail));
    }
    let sql = "SELECT wish FROM sandboxes WHERE task_id = $1 AND stage = 'work' AND wish IS NOT NULL \
               ORDER BY generation DESC LIMIT 1";
    let before: Wish = match tx.query_one(sql, params![&task.id]).await? {
        Some(row) => row.json("wish")?,
        None => Wish::default(),
    };
    Ok(Wish {
        image: wish.image.clone().or(before.image),
        memory_gb: wish.memory_gb.or(before.memory_gb),
        cpu: wish.cpu.or(before.cpu),
        disk_gb: wish.disk_gb.or(before.disk_gb),
        ..wish.clone()
    })
}
