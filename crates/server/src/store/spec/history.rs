//! What became of a spec: its versions, what people said of its phases, and its events.

use omoi_protocol::{
    PhaseDecision, SpecId, SpecPhase,
    spec::{PhaseComment, SpecEvent, SpecVersion},
};
use serde_json::json;

use super::{get, phase};
use crate::store::{
    Ask, Error, Store, Tx,
    value::{Row, params},
};

impl Store {
    /// Newest first; `before` is the last version of the page before.
    pub async fn spec_versions(
        &self,
        id: &SpecId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SpecVersion>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            get(tx, &id).await?;
            let mut ask = Ask::new("SELECT version, cause, actor, snapshot, created_at FROM spec_versions");
            ask.and_some("spec_id =", Some(&id));
            ask.and_some("version <", before);
            let (sql, values) = ask.order_limit("version DESC", limit);
            tx.query(&sql, values).await?.iter().map(read_version).collect()
        })
        .await
    }

    /// Oldest first; `after` is the last position of the page before.
    pub async fn spec_events(
        &self,
        id: &SpecId,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SpecEvent>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            get(tx, &id).await?;
            let sql = "SELECT pos, event_type, data, created_at FROM events WHERE entity_type = 'spec' \
                       AND entity_id = $1 AND pos > $2 ORDER BY pos LIMIT $3";
            let rows = tx.query(sql, params![&id, after.unwrap_or(0), limit]).await?;
            rows.iter().map(read_event).collect()
        })
        .await
    }
}

/// Writes down what the spec is now, as its next version.
pub(super) async fn version(tx: &mut Tx, id: &SpecId, cause: &str, actor: &str) -> Result<(), Error> {
    let sql = "UPDATE specs SET version = version + 1, updated_at = $2 WHERE id = $1";
    tx.execute(sql, params![id, tx.now]).await?;
    let spec = get(tx, id).await?;
    let phases: Vec<_> = phase::last_of_each(tx, id)
        .await?
        .into_iter()
        .map(|one| json!({ "phase": one.phase, "attempt": one.attempt, "state": one.state, "score": one.score }))
        .collect();
    let snapshot = json!({
        "title": spec.title, "description": spec.description, "flow": spec.flow, "status": spec.status,
        "current_phase": spec.current_phase, "gates": spec.gates, "project_id": spec.project_id, "phases": phases,
    });
    let sql = "INSERT INTO spec_versions (spec_id, version, cause, actor, snapshot, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6)";
    tx.execute(sql, params![id, spec.version, cause, actor, snapshot.to_string(), tx.now]).await
}

/// Writes down what somebody decided about an attempt.
pub(super) async fn comment(
    tx: &mut Tx,
    id: &SpecId,
    (phase, attempt): (SpecPhase, i64),
    decision: PhaseDecision,
    actor: &str,
    comment: &str,
) -> Result<(), Error> {
    let sql = "INSERT INTO spec_comments (spec_id, n, phase, attempt, decision, actor, comment, created_at) \
               VALUES ($1, (SELECT COALESCE(max(n), 0) + 1 FROM spec_comments WHERE spec_id = $1), $2, $3, $4, $5, $6, $7)";
    tx.execute(sql, params![id, phase.as_str(), attempt, decision.as_str(), actor, comment, tx.now]).await?;
    let told =
        json!({ "phase": phase, "attempt": attempt, "decision": decision, "comment": comment, "by": actor });
    tx.tell("SPEC_PHASE_DECIDED", "spec", id.as_str(), &told);
    tx.record(actor, &format!("spec.phase_{decision}"), "spec", id.as_str(), told);
    Ok(())
}

/// Oldest first.
pub(super) async fn comments(tx: &mut Tx, id: &SpecId, of: SpecPhase) -> Result<Vec<PhaseComment>, Error> {
    let sql = "SELECT n, phase, attempt, decision, actor, comment, created_at FROM spec_comments \
               WHERE spec_id = $1 AND phase = $2 ORDER BY n";
    tx.query(sql, params![id, of.as_str()]).await?.iter().map(read_comment).collect()
}

fn read_comment(row: &Row) -> Result<PhaseComment, Error> {
    Ok(PhaseComment {
        n: row.get("n")?,
        phase: row.parse("phase")?,
        attempt: row.get("attempt")?,
        decision: row.parse("decision")?,
        actor: row.get("actor")?,
        comment: row.get("comment")?,
        created_at: row.get("created_at")?,
    })
}

fn read_version(row: &Row) -> Result<SpecVersion, Error> {
    Ok(SpecVersion {
        version: row.get("version")?,
        cause: row.get("cause")?,
        actor: row.get("actor")?,
        snapshot: row.json("snapshot")?,
        created_at: row.get("created_at")?,
    })
}

fn read_event(row: &Row) -> Result<SpecEvent, Error> {
    Ok(SpecEvent {
        position: row.get("pos")?,
        event_type: row.get("event_type")?,
        payload: row.json("data")?,
        created_at: row.get("created_at")?,
    })
}
