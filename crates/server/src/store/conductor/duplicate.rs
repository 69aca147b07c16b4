//! Tasks under way that seem to be the same work: each pair is found once, and a person may say that they are not.

use std::collections::BTreeMap;

use omoi_protocol::{
    DuplicateId, ProjectId,
    conductor::{Duplicate, Side},
};
use serde_json::json;

use super::super::{
    Ask, Error, Store, Tx,
    value::{Row, params},
};

const COLUMNS: &str =
    "id, project_id, side, other_side, similarity, files, found_at, dismissed_at, dismissed_by";

/// Nobody has dismissed it, and both tasks are under way.
const OPEN: &str = "dismissed_at IS NULL AND NOT EXISTS (SELECT 1 FROM tasks t \
    WHERE t.id IN (task_id, other_id) AND t.status IN ('completed', 'failed', 'cancelled'))";
/// How many of the newest that nobody has dismissed.
pub(super) const OPEN_COUNT: &str = "SELECT count(*) FROM (SELECT d.task_id, d.other_id FROM detected_duplicates d \
    WHERE d.dismissed_at IS NULL ORDER BY d.id DESC LIMIT 1000) AS standing WHERE NOT EXISTS (SELECT 1 FROM tasks t \
    WHERE t.id IN (standing.task_id, standing.other_id) AND t.status IN ('completed', 'failed', 'cancelled'))";

#[derive(Debug, Clone)]
pub struct Alike {
    pub project_id: ProjectId,
    pub a: Side,
    pub b: Side,
    pub similarity: f64,
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Pairs that were not known.
    pub found: usize,
    /// How many of each project's pairs nobody has dismissed.
    pub open: BTreeMap<ProjectId, usize>,
}

impl Store {
    /// Keeps pairs that were not known.
    pub async fn duplicate_keep(&self, pairs: Vec<Alike>) -> Result<Kept, Error> {
        self.write(async move |tx| {
            let mut kept = Kept::default();
            for pair in &pairs {
                let (is_new, is_open) = keep(tx, pair).await?;
                kept.found += usize::from(is_new);
                if is_open {
                    *kept.open.entry(pair.project_id.clone()).or_insert(0) += 1;
                }
            }
            Ok(kept)
        })
        .await
    }

    /// Newest first.
    pub async fn duplicate_list(
        &self,
        project: Option<ProjectId>,
        open: Option<bool>,
        before: Option<DuplicateId>,
        limit: usize,
    ) -> Result<Vec<Duplicate>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM detected_duplicates"));
            ask.and_some("project_id =", project.as_ref());
            match open {
                Some(true) => ask.raw(OPEN),
                Some(false) => ask.raw(&format!("NOT ({OPEN}) /* most */")),
                None => {}
            }
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    /// They are not the same. A second time changes nothing.
    pub async fn duplicate_dismiss(&self, actor: &str, id: &DuplicateId) -> Result<Duplicate, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let known = get(tx, &id).await?;
            if known.dismissed_at.is_some() {
                return Ok(known);
            }
            let sql = "UPDATE detected_duplicates SET dismissed_at = $2, dismissed_by = $3 WHERE id = $1";
            tx.execute(sql, params![&id, tx.now, actor.as_str()]).await?;
            let detail = json!({ "task_id": known.a.task_id, "other_id": known.b.task_id });
            tx.tell("conductor.duplicate.dismissed", "project", known.project_id.as_str(), &detail);
            tx.record(&actor, "duplicate.dismiss", "duplicate", id.as_str(), detail);
            get(tx, &id).await
        })
        .await
    }
}

/// Whether it is new, and whether it counts: nobody has dismissed it.
async fn keep(tx: &mut Tx, pair: &Alike) -> Result<(bool, bool), Error> {
    let (Some(task), Some(other)) = (&pair.a.task_id, &pair.b.task_id) else { return Ok((false, false)) };
    let sql = "SELECT dismissed_at FROM detected_duplicates WHERE task_id = $1 AND other_id = $2";
    if let Some(row) = tx.query_one(sql, params![task, other]).await? {
        return Ok((false, row.get::<Option<i64>>("dismissed_at")?.is_none()));
    }
    let id = DuplicateId::generate();
    tx.execute(
        "INSERT INTO detected_duplicates (id, project_id, task_id, other_id, side, other_side, similarity, files, found_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        params![
            &id,
            &pair.project_id,
            task,
            other,
            json!(pair.a).to_string(),
            json!(pair.b).to_string(),
            pair.similarity,
            json!(pair.files).to_string(),
            tx.now
        ],
    )
    .await?;
    let news = json!({
        "duplicate_id": id, "project_id": pair.project_id, "a": pair.a, "b": pair.b, "similarity": pair.similarity,
    });
    tx.tell("conductor.duplicate.found", "project", pair.project_id.as_str(), &news);
    Ok((true, true))
}

async fn get(tx: &mut Tx, id: &DuplicateId) -> Result<Duplicate, Error> {
    let sql = format!("SELECT {COLUMNS} FROM detected_duplicates WHERE id = $1");
    let row = tx.query_one(&sql, params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("duplicate", id))?)
}

fn read(row: &Row) -> Result<Duplicate, Error> {
    Ok(Duplicate {
        id: row.parse("id")?,
        project_id: row.parse("project_id")?,
        a: row.json("side")?,
        b: row.json("other_side")?,
        similarity: row.get("similarity")?,
        files: row.json("files")?,
        found_at: row.get("found_at")?,
        dismissed_at: row.get("dismissed_at")?,
        dismissed_by: row.get("dismissed_by")?,
    })
}
