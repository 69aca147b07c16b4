//! What a look has brought is stored in one transaction with how far it went: neither lost nor done twice.

use jiff::Timestamp;
use omoi_protocol::{
    ClearedBy, FindingId, FindingKind, HeldReason, Intervention, InterventionId, InterventionMode,
    InterventionState, ProjectId, SandboxId, SteeringEffect, TaskId,
};
use serde_json::json;

use super::{
    super::{Error, Store, Tx, account, system, value::params},
    ASKS, NAME,
    act::{self, Making},
    is_asking, judgement,
    watch::Mark,
};
use crate::domain::supervision::{decide::Action, finding::Finding, health, judge::Due};

/// The code of the refusal when another machine watches.
pub const ELSEWHERE: &str = "guardian_elsewhere";

/// One look at what is new.
#[derive(Debug, Clone)]
pub struct Taken {
    pub node: String,
    /// How far was looked before, as it is stored.
    pub from: i64,
    pub to: Mark,
    /// In the order in which it came about.
    pub changes: Vec<Change>,
}

#[derive(Debug, Clone)]
pub enum Change {
    Found(Box<Found>),
    Cleared {
        sandbox_id: SandboxId,
        task_id: Option<TaskId>,
        kind: FindingKind,
        at: Timestamp,
    },
    /// It is known what came of an intervention.
    Effect {
        sandbox_id: SandboxId,
        id: InterventionId,
        effect: SteeringEffect,
        by: String,
        at: Timestamp,
    },
    Ended {
        sandbox_id: SandboxId,
        task_id: Option<TaskId>,
        at: Timestamp,
    },
    /// The judge is to be asked.
    Ask {
        sandbox_id: SandboxId,
        due: Due,
        at: Timestamp,
    },
}

#[derive(Debug, Clone)]
pub struct Found {
    pub id: FindingId,
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    pub finding: Finding,
    pub action: Option<(InterventionId, Action)>,
}

impl Store {
    /// Stores it all, or nothing when somebody else has gone on from there.
    pub async fn guardian_take(&self, taken: Taken) -> Result<(), Error> {
        self.write(async move |tx| {
            let (from, to) = (taken.from, taken.to);
            let sql = "UPDATE guardian SET position = $3, taken_at = $4, events = $5 \
                       WHERE id = 1 AND holder = $1 AND position = $2 RETURNING id";
            let values = params![taken.node.as_str(), from, to.position, to.at, to.events];
            if tx.returning(sql, values).await?.is_empty() {
                let detail = format!("somebody else watches on from position {from}");
                return Err(Error::conflict(ELSEWHERE, detail));
            }
            for change in &taken.changes {
                store(tx, change).await?;
            }
            Ok(())
        })
        .await
    }
}

async fn store(tx: &mut Tx, change: &Change) -> Result<(), Error> {
    match change {
        Change::Found(found) => find(tx, found).await,
        Change::Cleared { sandbox_id, task_id, kind, at } => {
            clear(tx, sandbox_id, Some(*kind), ClearedBy::Changed, *at, i64::MAX).await?;
            match task_id {
                Some(task) => stop_asking(tx, task, |why| why.starts_with(ASKS)).await,
                None => Ok(()),
            }
        }
        Change::Effect { sandbox_id, id, effect, by, at } => {
            let sql = "UPDATE interventions SET effect = $2, effect_by = $3, effect_at = $4, alignment_after = $5 \
                       WHERE id = $1 AND effect IS NULL RETURNING id";
            let after = alignment(tx, sandbox_id).await?;
            let values = params![id, effect.as_str(), by.as_str(), *at, after];
            if tx.returning(sql, values).await?.is_empty() {
                return Ok(());
            }
            let told = json!({ "intervention_id": id, "effect": effect, "by": by, "alignment": after });
            system::append(tx, sandbox_id, "guardian.intervention.effect", &told).await
        }
        Change::Ended { sandbox_id, task_id, at } => end(tx, sandbox_id, task_id.as_ref(), *at).await,
        Change::Ask { sandbox_id, due, at } => judgement::ask(tx, NAME, sandbox_id, due, *at).await,
    }
}

async fn find(tx: &mut Tx, found: &Found) -> Result<(), Error> {
    let Found { id, sandbox_id, finding, .. } = found;
    // Whatever of the kind was open before is another occurrence.
    let number = i64::from(finding.number);
    clear(tx, sandbox_id, Some(finding.kind), ClearedBy::Changed, finding.at, number).await?;
    let seqs = serde_json::to_string(&finding.seqs).unwrap_or_default();
    let sql = "INSERT INTO findings (id, sandbox_id, task_id, project_id, kind, severity, weight, number, occurrence, \
               seqs, seq, text, since, found_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) \
               ON CONFLICT (sandbox_id, kind, number) DO NOTHING RETURNING id";
    let values = params![
        id,
        sandbox_id,
        found.task_id.as_ref(),
        found.project_id.as_ref(),
        finding.kind.as_str(),
        finding.severity.as_str(),
        health::weight(finding.severity),
        number,
        finding.key.cast_signed(),
        seqs,
        finding.seq,
        finding.text.as_str(),
        finding.since,
        finding.at
    ];
    if tx.returning(sql, values).await?.is_empty() {
        return Ok(());
    }
    let action = found.action.as_ref().map(|(_, action)| action);
    let told = json!({
        "finding_id": id, "kind": finding.kind, "severity": finding.severity, "number": finding.number,
        "text": finding.text, "seqs": finding.seqs, "since": finding.since,
        "do": action.map(|action| action.intervention), "mode": action.map(|action| action.mode),
        "held": action.and_then(|action| action.held),
    });
    system::append(tx, sandbox_id, "guardian.finding", &told).await?;
    match &found.action {
        Some((id, action)) => respond(tx, found, id, action).await,
        None => Ok(()),
    }
}

/// What the policy says about it.
async fn respond(tx: &mut Tx, found: &Found, id: &InterventionId, action: &Action) -> Result<(), Error> {
    let before = alignment(tx, &found.sandbox_id).await?;
    let state = match action.mode {
        InterventionMode::Record => InterventionState::Recorded,
        InterventionMode::Suggest | InterventionMode::Act => InterventionState::Suggested,
    };
    let making = Making {
        id: id.clone(),
        sandbox_id: found.sandbox_id.clone(),
        task_id: found.task_id.clone(),
        action: action.intervention,
        text: action.text.clone(),
    };
    let sql = "INSERT INTO interventions (id, finding_id, sandbox_id, task_id, project_id, kind, action, mode, text, held, \
               state, created_by, created_at, alignment_before) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    let values = params![
        id,
        &found.id,
        &found.sandbox_id,
        found.task_id.as_ref(),
        found.project_id.as_ref(),
        found.finding.kind.as_str(),
        action.intervention.as_str(),
        action.mode.as_str(),
        action.text.as_str(),
        action.held.map(HeldReason::as_str),
        state.as_str(),
        NAME,
        action.at,
        before
    ];
    tx.execute(sql, values).await?;
    if action.mode == InterventionMode::Record || action.intervention == Intervention::Note {
        return Ok(());
    }
    let told = json!({
        "intervention_id": id, "finding_id": found.id, "kind": found.finding.kind, "do": action.intervention,
        "mode": action.mode, "text": action.text, "reason": found.finding.text, "alignment": before,
    });
    system::append(tx, &found.sandbox_id, "guardian.steering.intervention", &told).await?;
    tx.tell("guardian.steering.intervention", "sandbox", found.sandbox_id.as_str(), &told);
    if action.mode == InterventionMode::Suggest {
        tx.tell("guardian.intervention.suggested", "sandbox", found.sandbox_id.as_str(), &told);
        return Ok(());
    }
    act::make(tx, NAME, NAME, &making).await
}

/// Closes what is open, of one kind or of all, up to a number.
async fn clear(
    tx: &mut Tx,
    sandbox_id: &SandboxId,
    kind: Option<FindingKind>,
    by: ClearedBy,
    at: Timestamp,
    below: i64,
) -> Result<(), Error> {
    let sql = "UPDATE findings SET cleared_at = $2, cleared_by = $3 WHERE sandbox_id = $1 AND cleared_at IS NULL \
               AND (CAST($4 AS TEXT) IS NULL OR kind = $4) AND number < $5 RETURNING id, kind, number";
    let values = params![sandbox_id, at, by.as_str(), kind.map(FindingKind::as_str), below];
    for row in tx.returning(sql, values).await? {
        let told = json!({
            "finding_id": row.get::<String>("id")?, "kind": row.get::<String>("kind")?,
            "number": row.get::<i64>("number")?, "cleared_by": by,
        });
        system::append(tx, sandbox_id, "guardian.cleared", &told).await?;
    }
    Ok(())
}

/// Nothing goes on in a sandbox that has ended, and nobody there can be told anything.
async fn end(tx: &mut Tx, sandbox_id: &SandboxId, task: Option<&TaskId>, at: Timestamp) -> Result<(), Error> {
    clear(tx, sandbox_id, None, ClearedBy::Ended, at, i64::MAX).await?;
    let sql = "UPDATE interventions SET state = 'expired', decided_by = $2, decided_at = $3, \
               decided_because = 'the sandbox has ended' \
               WHERE sandbox_id = $1 AND state = 'suggested' AND action <> 'ask' RETURNING id";
    for row in tx.returning(sql, params![sandbox_id, NAME, at]).await? {
        let told = json!({ "intervention_id": row.get::<String>("id")?, "state": "expired" });
        tx.tell("guardian.intervention.expired", "sandbox", sandbox_id.as_str(), &told);
    }
    // What was said and never heard came to nothing that anybody could tell.
    let sql = "UPDATE interventions SET effect = 'unknown', effect_by = 'the sandbox ended before it was heard', effect_at = $2 \
               WHERE sandbox_id = $1 AND state = 'sent' AND effect IS NULL AND message_id IN \
               (SELECT m.id FROM messages m WHERE m.sandbox_id = $1 AND m.state IN ('queued', 'delivered', 'expired'))";
    tx.execute(sql, params![sandbox_id, at]).await?;
    match task {
        Some(task) => stop_asking(tx, task, is_asking).await,
        None => Ok(()),
    }
}

/// The task need not wait for a person any more, if it waits for what fits.
pub(super) async fn stop_asking(
    tx: &mut Tx,
    task: &TaskId,
    fits: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let row = tx.query_one("SELECT waiting_reason FROM tasks WHERE id = $1", params![task]).await?;
    let why: Option<String> = row.map_or(Ok(None), |row| row.get("waiting_reason"))?;
    if why.is_some_and(|why| fits(&why)) {
        account::clear_waiting(tx, task).await?;
    }
    Ok(())
}

/// The sandbox's alignment by what is open now and what the judge said last.
pub(super) async fn alignment(tx: &mut Tx, sandbox_id: &SandboxId) -> Result<f64, Error> {
    let sql = "SELECT s.judged, (SELECT CAST(sum(f.weight) AS BIGINT) FROM findings f \
               WHERE f.sandbox_id = s.id AND f.cleared_at IS NULL) AS weights FROM sandboxes s WHERE s.id = $1";
    match tx.query_one(sql, params![sandbox_id]).await? {
        Some(row) => {
            let weights: Option<i64> = row.get("weights")?;
            Ok(health::alignment(weights.unwrap_or(0), row.get("judged")?))
        }
        None => Ok(health::alignment(0, None)),
    }
}
