//! Findings, as people ask for them.

use omoi_protocol::{FindingId, FindingKind, ProjectId, SandboxId, TaskId, guardian::GuardianFinding};

use super::super::{
    Ask, Error, Store, Tx,
    value::{Row, params},
};

pub(super) const COLUMNS: &str = "id, sandbox_id, task_id, project_id, kind, severity, number, seqs, seq, text, since, \
                                  found_at, cleared_at, cleared_by";

/// Which findings are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct FindingFilter {
    pub project_id: Option<ProjectId>,
    pub sandbox_id: Option<SandboxId>,
    pub task_id: Option<TaskId>,
    pub kind: Option<FindingKind>,
    pub open: Option<bool>,
}

impl Store {
    /// Newest first.
    pub async fn finding_list(
        &self,
        filter: FindingFilter,
        before: Option<FindingId>,
        limit: usize,
    ) -> Result<Vec<GuardianFinding>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM findings"));
            ask.and_some("sandbox_id =", filter.sandbox_id.as_ref());
            ask.and_some("task_id =", filter.task_id.as_ref());
            ask.and_some("project_id =", filter.project_id.as_ref());
            ask.and_some("kind =", filter.kind.map(FindingKind::as_str));
            match filter.open {
                Some(true) => ask.raw("cleared_at IS NULL"),
                Some(false) => ask.raw("cleared_at IS NOT NULL /* most */"),
                None => {}
            }
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn finding_get(&self, id: &FindingId) -> Result<GuardianFinding, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }
}

async fn get(tx: &mut Tx, id: &FindingId) -> Result<GuardianFinding, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM findings WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("finding", id))?)
}

pub(super) fn read(row: &Row) -> Result<GuardianFinding, Error> {
    Ok(GuardianFinding {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        kind: row.parse("kind")?,
        severity: row.parse("severity")?,
        number: row.get("number")?,
        seqs: row.json("seqs")?,
        seq: row.get("seq")?,
        text: row.get("text")?,
        since: row.get("since")?,
        found_at: row.get("found_at")?,
        cleared_at: row.get("cleared_at")?,
        cleared_by: row.parse_opt("cleared_by")?,
    })
}
