//! Attempts before: what the next attempt at a task goes on from.

use omoi_protocol::{
    FailureKind, Place, ProjectId, SandboxId, Stage, TaskId,
    sandbox::{Kept, NewSandbox as Wish},
};

use super::{
    Error, Tx, transcript,
    value::{Row, params},
};
use crate::domain::retry;

/// How far back attempts are looked at that came to nothing.
const LOOK_BACK: usize = 16;

/// What the attempts before have left for the next.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// What went wrong the last time.
    pub feedback: Option<String>,
    /// The commit that holds what was kept of the work.
    pub commit: Option<String>,
    /// Later attempts whose work is in no commit, the newest first.
    pub missing: Vec<Missing>,
}

/// The work of an attempt that the next one does not find on its branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub sandbox: SandboxId,
    pub generation: i64,
    pub place: Place,
    /// The branch has the other part of it.
    pub kept_in_part: bool,
    /// Why it is not kept, where a rescue has failed.
    pub error: Option<String>,
}

impl Before {
    /// What the next attempt is told: what went wrong, and which work it has to do without.
    pub fn notice(&self) -> Option<String> {
        let missing = self.missing.iter().map(Missing::notice);
        let parts: Vec<String> = self.feedback.iter().cloned().chain(missing).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

impl Missing {
    fn notice(&self) -> String {
        let Self { sandbox, generation, place, kept_in_part, error } = self;
        let because = error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let where_it_is = match place {
            Place::Discarded | Place::Gone => "A person discarded it.".to_owned(),
            Place::Unkept => format!(
                "It is on the disk of that sandbox until a person decides (`omoi sandbox rescue {sandbox}` or \
                 `omoi sandbox discard {sandbox}`)."
            ),
            _ => "The server is still trying to keep it.".to_owned(),
        };
        if *kept_in_part {
            return format!(
                "The branch has the work of attempt {generation} (sandbox {sandbox}) except for what could not be \
                 kept{because}. {where_it_is}"
            );
        }
        format!(
            "The work of attempt {generation} (sandbox {sandbox}) is not kept, so the branch does not have what was not \
             pushed{because}. {where_it_is}"
        )
    }
}

/// Writes down how an attempt failed.
pub(super) async fn failed(
    tx: &mut Tx,
    sandbox: &SandboxId,
    kind: FailureKind,
    error: Option<&str>,
) -> Result<(), Error> {
    let sql = "UPDATE sandboxes SET failure_kind = $2, failure = $3 WHERE id = $1";
    tx.execute(sql, params![sandbox, kind.as_str(), error]).await
}

/// What was asked of the last attempt's sandbox.
pub(super) async fn last_wish(tx: &mut Tx, task: &TaskId) -> Result<Option<Wish>, Error> {
    let sql =
        "SELECT wish FROM sandboxes WHERE task_id = $1 AND wish IS NOT NULL ORDER BY generation DESC LIMIT 1";
    let Some(row) = tx.query_one(sql, params![task]).await? else { return Ok(None) };
    let asked: Wish = row.json("wish")?;
    // Where to begin is found anew: on the branch, with the session that went furthest.
    Ok(Some(Wish { base: None, resume_session_id: None, ..asked }))
}

/// The conversation that the next attempt goes on with, if how the last one failed allows it.
pub(super) async fn session(
    tx: &mut Tx,
    project: &ProjectId,
    task: &TaskId,
) -> Result<Option<String>, Error> {
    let sql = "SELECT s.failure_kind, (SELECT t.session_id FROM transcripts t WHERE t.sandbox_id = s.id \
               ORDER BY t.created_at DESC LIMIT 1) AS session_id FROM sandboxes s WHERE s.task_id = $1 \
               ORDER BY s.generation DESC LIMIT $2";
    for row in tx.query(sql, params![task, LOOK_BACK]).await? {
        let kind: Option<FailureKind> = row.parse_opt("failure_kind")?;
        if !kind.is_some_and(retry::resumes) {
            return Ok(None);
        }
        if let Some(session) = row.get::<Option<String>>("session_id")? {
            return match transcript::resumable(tx, project, &session).await {
                Ok(_) => Ok(Some(session)),
                Err(Error::NotFound { .. } | Error::Invalid { .. }) => Ok(None),
                Err(error) => Err(error),
            };
        }
    }
    Ok(None)
}

pub(super) async fn before(tx: &mut Tx, task: &TaskId, generation: i64) -> Result<Before, Error> {
    let sql = "SELECT id, generation, stage, place, rescue_error, base_commit, failure_kind, failure, kept FROM sandboxes WHERE task_id = $1 AND generation < $2 \
               ORDER BY generation DESC LIMIT $3";
    let mut before = Before::default();
    let mut told = false;
    for row in tx.query(sql, params![task, generation, LOOK_BACK]).await? {
        let kind: Option<FailureKind> = row.parse_opt("failure_kind")?;
        // One that was never there has nothing to say about the work.
        if !told && kind != Some(FailureKind::Spawn) {
            (before.feedback, told) = (row.get("failure")?, true);
        }
        let kept: Option<String> = row.get("kept")?;
        let kept: Option<Kept> = kept.and_then(|text| serde_json::from_str(&text).ok());
        let missing = missing(&row)?;
        if let Some(commit) = kept.and_then(|kept| kept.commit) {
            before.commit = Some(commit);
            before.missing.extend(missing.map(|missing| Missing { kept_in_part: true, ..missing }));
            break;
        }
        before.missing.extend(missing);
    }
    Ok(before)
}

/// The work of an attempt, if it had a work tree and what it left is not kept.
fn missing(row: &Row) -> Result<Option<Missing>, Error> {
    let (place, error): (Place, Option<String>) = (row.parse("place")?, row.get("rescue_error")?);
    let is_missing = match place {
        Place::Wanted | Place::Up | Place::Unkept | Place::Discarded => true,
        // Its error stays where it was discarded.
        Place::Gone => error.is_some(),
        Place::None | Place::Kept => false,
    };
    if !is_missing
        || row.parse::<Stage>("stage")? == Stage::Check
        || row.get::<Option<String>>("base_commit")?.is_none()
    {
        return Ok(None);
    }
    Ok(Some(Missing {
        sandbox: row.parse("id")?,
        generation: row.get("generation")?,
        place,
        kept_in_part: false,
        error,
    }))
}
