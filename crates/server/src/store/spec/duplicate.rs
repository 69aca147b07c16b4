//! Tasks of a spec that may exist already: found when they are made, offered, and decided by a person. Until then they do
//! not begin, unless no phase of the spec waits for anybody.

use std::collections::BTreeMap;

use omoi_protocol::{
    DuplicateDecision, ProjectId, SpecId, TaskId, TaskStatus,
    spec::{DecideDuplicate, SpecDetail, SpecDuplicate},
};
use serde_json::{Value as Json, json};

use super::{detail, get, history, phase::TASK_TYPE};
use crate::{
    domain::{
        dispatch::lane,
        spec::{Likeness, PlannedTask},
        task::TaskEvent,
    },
    store::{
        Error, Store, Tx, dependency, task,
        transition::{self, Note},
        value::{Row, params},
    },
};

/// So many of a project's tasks are looked at, the newest first.
const EXISTING_MAX: usize = 300;
/// So many are offered for one task.
const OFFERED_MAX: usize = 3;

/// Existing tasks that are like a new one, the most alike first.
pub(super) type Found = Vec<(TaskId, f64)>;

impl Store {
    pub async fn spec_duplicates(&self, id: &SpecId) -> Result<Vec<SpecDuplicate>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            get(tx, &id).await?;
            of(tx, &id).await
        })
        .await
    }

    /// Decides about one task. The same said twice changes nothing.
    pub async fn spec_duplicate_decide(
        &self,
        actor: &str,
        id: &SpecId,
        said: DecideDuplicate,
    ) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            get(tx, &id).await?;
            let offered: Vec<SpecDuplicate> =
                of(tx, &id).await?.into_iter().filter(|one| one.symbol == said.symbol).collect();
            let Some(first) = offered.first() else {
                return Err(Error::not_found("duplicate", format!("{} of spec {id}", said.symbol)));
            };
            let linked = offered.iter().find(|one| one.decision == Some(DuplicateDecision::Link));
            match (said.decision, &said.existing_task_id, linked) {
                (DuplicateDecision::Link, Some(existing), Some(linked))
                    if linked.existing_task_id == *existing => {}
                (_, _, Some(linked)) => {
                    let detail = format!(
                        "{} of spec {id} is linked to {} already",
                        said.symbol, linked.existing_task_id
                    );
                    return Err(Error::conflict("duplicate_decided", detail));
                }
                (DuplicateDecision::Link, existing, None) => {
                    let Some(existing) =
                        offered.iter().find(|one| Some(&one.existing_task_id) == existing.as_ref())
                    else {
                        let detail = format!(
                            "name one of the tasks that are offered for {} as existing_task_id",
                            said.symbol
                        );
                        return Err(Error::invalid("duplicate_unknown", detail));
                    };
                    link(tx, &id, existing).await?;
                    decided(tx, &actor, &id, &said).await?;
                }
                (DuplicateDecision::Keep, _, None) => {
                    if offered.iter().any(|one| one.decision.is_none()) {
                        release(tx, &first.task_id).await?;
                        decided(tx, &actor, &id, &said).await?;
                    }
                }
            }
            detail(tx, &id).await
        })
        .await
    }
}

/// Of each planned task, by its key, those that are like it and neither failed nor are part of a spec's phases.
pub(super) async fn find(
    tx: &mut Tx,
    id: &SpecId,
    project_id: &ProjectId,
    planned: &[&PlannedTask],
) -> Result<BTreeMap<String, Found>, Error> {
    let sql = "SELECT enabled.find_duplicates FROM specs enabled WHERE enabled.id = $1";
    let wanted = match tx.query_one(sql, params![id]).await? {
        Some(row) => row.get("find_duplicates")?,
        None => false,
    };
    if !wanted || planned.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = "SELECT id, title FROM tasks WHERE project_id = $1 AND status NOT IN ('failed', 'cancelled') AND task_type NOT IN ($2, 'spec_check') \
               AND id NOT IN (SELECT task_id FROM spec_items WHERE spec_id = $3 AND task_id IS NOT NULL) \
               ORDER BY id DESC LIMIT $4";
    let rows = tx.query(sql, params![project_id, TASK_TYPE, id, EXISTING_MAX]).await?;
    let mut existing: Vec<(TaskId, Likeness)> = Vec::with_capacity(rows.len());
    for row in &rows {
        existing.push((row.parse("id")?, Likeness::of(&row.get::<String>("title")?)));
    }
    let alike = |planned: &&PlannedTask| {
        let own = Likeness::of(&planned.title);
        let found = own.duplicates(existing.iter().map(|(_, likeness)| likeness)).into_iter();
        let found: Found = found.take(OFFERED_MAX).map(|(at, how)| (existing[at].0.clone(), how)).collect();
        (!found.is_empty()).then(|| (planned.key.clone(), found))
    };
    Ok(planned.iter().filter_map(alike).collect())
}

/// Writes down what is offered for a task.
pub(super) async fn offer(
    tx: &mut Tx,
    id: &SpecId,
    (symbol, made): (&str, &TaskId),
    found: &Found,
) -> Result<(), Error> {
    for (existing, similarity) in found {
        let sql = "INSERT INTO spec_duplicates (spec_id, symbol, existing_task_id, task_id, similarity) \
                   VALUES ($1, $2, $3, $4, $5)";
        tx.execute(sql, params![id, symbol, existing, made, *similarity]).await?;
    }
    Ok(())
}

/// By symbol, and the most alike first.
pub(super) async fn of(tx: &mut Tx, id: &SpecId) -> Result<Vec<SpecDuplicate>, Error> {
    let sql = "SELECT d.symbol, d.task_id, t.title, d.existing_task_id, e.title AS existing_title, \
               e.status AS existing_status, d.similarity, d.decision, d.decided_by, d.decided_at FROM spec_duplicates d \
               JOIN tasks t ON t.id = d.task_id JOIN tasks e ON e.id = d.existing_task_id WHERE d.spec_id = $1 \
               ORDER BY d.symbol, d.similarity DESC, d.existing_task_id";
    tx.query(sql, params![id]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<SpecDuplicate, Error> {
    Ok(SpecDuplicate {
        symbol: row.get("symbol")?,
        task_id: row.parse("task_id")?,
        title: row.get("title")?,
        existing_task_id: row.parse("existing_task_id")?,
        existing_title: row.get("existing_title")?,
        existing_status: row.parse("existing_status")?,
        similarity: row.get("similarity")?,
        decision: row.parse_opt("decision")?,
        decided_by: row.get("decided_by")?,
        decided_at: row.get("decided_at")?,
    })
}

/// The existing task stands in the place of the one that was made: what waited for that waits for it.
async fn link(tx: &mut Tx, id: &SpecId, pair: &SpecDuplicate) -> Result<(), Error> {
    let (made, existing) = (&pair.task_id, &pair.existing_task_id);
    if matches!(pair.existing_status, TaskStatus::Failed | TaskStatus::Cancelled) {
        let detail = format!("task {existing} is {}, so nothing can build on it", pair.existing_status);
        return Err(Error::conflict("duplicate_over", detail));
    }
    let status = task::get(tx, made).await?.status;
    if status != TaskStatus::Pending {
        let detail = format!("task {made} is {status}; only one that has not begun is given up for another");
        return Err(Error::conflict("not_pending", detail));
    }
    let sql = "SELECT d.task_id FROM dependencies d JOIN tasks t ON t.id = d.task_id \
               WHERE d.depends_on = $1 AND t.status = 'pending' ORDER BY d.task_id";
    for row in tx.query(sql, params![made]).await? {
        let waiting: TaskId = row.parse("task_id")?;
        let sql = "SELECT depends_on FROM dependencies WHERE task_id = $1 ORDER BY depends_on";
        let mut wanted = Vec::new();
        for row in tx.query(sql, params![&waiting]).await? {
            let on: TaskId = row.parse("depends_on")?;
            wanted.push(if on == *made { existing.clone() } else { on });
        }
        wanted.sort();
        wanted.dedup();
        dependency::set(tx, &waiting, &wanted).await?;
        let told = json!({ "task_id": waiting, "depends_on": wanted });
        tx.tell("TASK_DEPENDENCY_UPDATED", "task", waiting.as_str(), &told);
    }
    dependency::recount_dependants(tx, std::slice::from_ref(made)).await?;
    let sql = "UPDATE spec_items SET task_id = $3 WHERE spec_id = $1 AND symbol = $2";
    tx.execute(sql, params![id, pair.symbol.as_str(), existing]).await?;
    let note = Note::error(&format!("task {existing} is the same work and stands in its place"));
    transition::apply(tx, made, TaskEvent::Cancelled, note).await?.ok();
    Ok(())
}

/// It is other work: it begins like any task of the spec.
async fn release(tx: &mut Tx, made: &TaskId) -> Result<(), Error> {
    let held = task::get(tx, made).await?;
    let mut config = held.execution_config;
    config.insert("autonomous".to_owned(), json!(true));
    let lane = lane(&held.required_capabilities, &config) as i64;
    let sql = "UPDATE tasks SET execution_config = $2, lane = $3, updated_at = $4 WHERE id = $1";
    tx.execute(sql, params![made, Json::Object(config).to_string(), lane, tx.now]).await?;
    tx.tell("TASK_UPDATED", "task", made.as_str(), &json!({ "execution_config": { "autonomous": true } }));
    Ok(())
}

/// Of several that are offered, one is linked and the others are other work.
async fn decided(tx: &mut Tx, actor: &str, id: &SpecId, said: &DecideDuplicate) -> Result<(), Error> {
    let sql = "UPDATE spec_duplicates SET decision = CASE WHEN $3 = 'link' AND existing_task_id = $4 THEN 'link' ELSE 'keep' END, \
               decided_by = $5, decided_at = $6 WHERE spec_id = $1 AND symbol = $2";
    let existing = said.existing_task_id.as_ref().map_or("", TaskId::as_str);
    let values = params![id, said.symbol.as_str(), said.decision.as_str(), existing, actor, tx.now];
    tx.execute(sql, values).await?;
    let told = json!({
        "symbol": said.symbol, "decision": said.decision, "existing_task_id": said.existing_task_id, "by": actor,
    });
    tx.tell("SPEC_DUPLICATE_DECIDED", "spec", id.as_str(), &told);
    tx.record(actor, "spec.duplicate", "spec", id.as_str(), told);
    history::version(tx, id, "duplicate_decided", actor).await
}
