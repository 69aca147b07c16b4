//! Dependencies: which task waits for which. A task keeps the number of those it still waits for, so that readiness
//! is a column and not a search.

use std::collections::{BTreeSet, VecDeque};

use omoi_protocol::{TaskId, task::Dependencies};
use serde_json::{Value as Json, json};

use super::{
    Error, Store, Tx, task,
    transition::{self, Note},
    value::{Row, params},
};
use crate::domain::{commit::Work, graph, task::TaskEvent};

/// A dependency counts as met when it is completed, or over in any way where the policy skips what failed.
const UNMET: &str = "(SELECT count(*) FROM dependencies d JOIN tasks u ON u.id = d.depends_on \
    WHERE d.task_id = tasks.id AND NOT (u.status = 'completed' \
    OR (tasks.dependency_policy = 'skip' AND u.status IN ('failed', 'cancelled'))))";

/// How many tasks one question names.
const COUNTED_PART: usize = 500;

impl Store {
    pub async fn dependency_get(&self, id: &TaskId) -> Result<Dependencies, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// What the tasks that this one depends on have left for it.
    pub async fn dependency_works(&self, id: &TaskId) -> Result<Vec<Work>, Error> {
        let id = id.clone();
        self.read(async move |tx| works(tx, &id).await).await
    }

    /// Adds to the dependencies of a task.
    pub async fn dependency_add(
        &self,
        actor: &str,
        id: &TaskId,
        more: Vec<TaskId>,
    ) -> Result<Dependencies, Error> {
        self.dependency_change(actor, id, more, Change::Add).await
    }

    pub async fn dependency_replace(
        &self,
        actor: &str,
        id: &TaskId,
        all: Vec<TaskId>,
    ) -> Result<Dependencies, Error> {
        self.dependency_change(actor, id, all, Change::Replace).await
    }

    pub async fn dependency_remove(
        &self,
        actor: &str,
        id: &TaskId,
        one: TaskId,
    ) -> Result<Dependencies, Error> {
        self.dependency_change(actor, id, vec![one], Change::Remove).await
    }

    async fn dependency_change(
        &self,
        actor: &str,
        id: &TaskId,
        named: Vec<TaskId>,
        change: Change,
    ) -> Result<Dependencies, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let status = task::get(tx, &id).await?.status;
            if status != omoi_protocol::TaskStatus::Pending {
                let detail = format!("task {id} is {status}; only a pending task's dependencies change");
                return Err(Error::conflict("not_pending", detail));
            }
            for other in &named {
                task::must_exist(tx, other).await?;
            }
            let old = get(tx, &id).await?.depends_on;
            let mut wanted = match change {
                Change::Add => old.iter().chain(&named).cloned().collect(),
                Change::Replace => named.clone(),
                Change::Remove => old.iter().filter(|o| !named.contains(o)).cloned().collect::<Vec<_>>(),
            };
            wanted.sort();
            wanted.dedup();
            set(tx, &id, &wanted).await?;
            recount_dependants(tx, &old).await?;
            tx.tell(
                "TASK_DEPENDENCY_UPDATED",
                "task",
                id.as_str(),
                &json!({ "task_id": id, "depends_on": wanted }),
            );
            tx.record(&actor, "task.dependencies", "task", id.as_str(), json!({ "depends_on": wanted }));
            fail_doomed(tx, std::slice::from_ref(&id)).await?;
            get(tx, &id).await
        })
        .await
    }

    /// The cycle that these dependencies would make, if any.
    pub async fn dependency_check(
        &self,
        id: &TaskId,
        more: Vec<TaskId>,
    ) -> Result<Option<Vec<TaskId>>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            task::must_exist(tx, &id).await?;
            cycle(tx, &id, &more).await
        })
        .await
    }
}

#[derive(Clone, Copy)]
enum Change {
    Add,
    Replace,
    Remove,
}

/// Replaces the dependencies of a task by these, which exist.
pub(super) async fn set(tx: &mut Tx, id: &TaskId, wanted: &[TaskId]) -> Result<(), Error> {
    if let Some(cycle) = cycle(tx, id, wanted).await? {
        return Err(Error::Cycle { cycle: cycle.into_iter().map(String::from).collect() });
    }
    tx.execute("DELETE FROM dependencies WHERE task_id = $1", params![id]).await?;
    for depends_on in wanted {
        let sql = "INSERT INTO dependencies (task_id, depends_on) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        tx.execute(sql, params![id, depends_on]).await?;
    }
    let sql = format!("UPDATE tasks SET unmet_dependencies = {UNMET} WHERE id = $1");
    tx.execute(&sql, params![id]).await?;
    recount_dependants(tx, wanted).await
}

/// Looks only at what can be reached from the new dependencies.
async fn cycle(tx: &mut Tx, id: &TaskId, wanted: &[TaskId]) -> Result<Option<Vec<TaskId>>, Error> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let sql = "WITH RECURSIVE reached (id) AS (SELECT depends_on FROM dependencies WHERE task_id = ANY($1) UNION \
               SELECT d.depends_on FROM dependencies d JOIN reached r ON d.task_id = r.id) \
               SELECT d.task_id, d.depends_on FROM dependencies d \
               WHERE d.task_id IN (SELECT id FROM reached) OR d.task_id = ANY($1)";
    let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    let edge = |row: &Row| Ok((row.parse("task_id")?, row.parse("depends_on")?));
    let edges = tx.query(sql, params![names]).await?.iter().map(edge).collect::<Result<Vec<_>, Error>>()?;
    let new: Vec<_> = wanted.iter().map(|w| (id.clone(), w.clone())).collect();
    Ok(graph::find_cycle(&edges, &new))
}

async fn get(tx: &mut Tx, id: &TaskId) -> Result<Dependencies, Error> {
    task::must_exist(tx, id).await?;
    let sql = "SELECT d.depends_on AS id, t.status FROM dependencies d JOIN tasks t ON t.id = d.depends_on \
               WHERE d.task_id = $1 ORDER BY d.depends_on";
    let on = tx.query(sql, params![id]).await?;
    let all_completed = on.iter().all(|row| row.get::<String>("status").is_ok_and(|s| s == "completed"));
    let sql = "SELECT task_id AS id FROM dependencies WHERE depends_on = $1 ORDER BY task_id";
    let blocks = tx.query(sql, params![id]).await?;
    Ok(Dependencies { task_id: id.clone(), depends_on: ids(&on)?, blocks: ids(&blocks)?, all_completed })
}

/// What the tasks that this one depends on have left, of those that are completed in its own project. Which order they
/// come in does not change.
pub(super) async fn works(tx: &mut Tx, id: &TaskId) -> Result<Vec<Work>, Error> {
    let sql = "SELECT u.id, u.branch_name, u.commit_id, u.result FROM dependencies d JOIN tasks t ON t.id = d.task_id \
               JOIN tasks u ON u.id = d.depends_on WHERE d.task_id = $1 AND u.project_id = t.project_id \
               AND u.status = 'completed' ORDER BY u.id";
    tx.query(sql, params![id]).await?.iter().map(work).collect()
}

/// What proves a task counts; without checks it is what the task was said to be done with.
pub(super) fn work(row: &Row) -> Result<Work, Error> {
    let result: Json = match row.get::<Option<String>>("result")? {
        Some(_) => row.json("result")?,
        None => Json::Null,
    };
    let proven: Option<String> = row.get("commit_id")?;
    let commit = proven.or_else(|| result.get("commit")?.as_str().map(str::to_owned));
    Ok(Work {
        task: row.parse("id")?,
        commit: commit.and_then(|commit| commit.parse().ok()),
        branch: row.get("branch_name")?,
    })
}

/// A task is completed: those that waited for it alone are ready.
pub(super) async fn release(tx: &mut Tx, id: &TaskId) -> Result<(), Error> {
    recount_waiting(tx, id).await?;
    let ready = just_unblocked(tx, id).await?;
    if !ready.is_empty() {
        let payload = json!({ "completed_task_id": id, "unblocked_task_ids": ready });
        tx.tell("TASKS_UNBLOCKED", "task", id.as_str(), &payload);
    }
    Ok(())
}

/// A task failed or was cancelled: what waits for it follows its own policy, and so on along the chain. That is walked
/// with a queue, since a chain may be longer than the stack is deep.
pub(super) async fn settle(tx: &mut Tx, id: &TaskId) -> Result<(), Error> {
    let (mut over, mut failed) = (VecDeque::from([id.clone()]), Vec::new());
    while let Some(id) = over.pop_front() {
        release(tx, &id).await?;
        let sql = "SELECT t.id FROM dependencies d JOIN tasks t ON t.id = d.task_id \
                   WHERE d.depends_on = $1 AND t.status = 'pending' AND t.dependency_policy = 'fail' ORDER BY t.id";
        for dependant in ids(&tx.query(sql, params![&id]).await?)? {
            if fail(tx, &dependant, &id).await? {
                failed.push(dependant.clone());
                over.push_back(dependant);
            }
        }
    }
    recount_of_dependencies(tx, &failed).await
}

/// Among pending tasks, those that wait for what is over already without being completed, and are to fail then.
pub(super) async fn fail_doomed(tx: &mut Tx, among: &[TaskId]) -> Result<(), Error> {
    let sql = "SELECT d.task_id AS id, min(d.depends_on) AS depends_on FROM dependencies d \
               JOIN tasks t ON t.id = d.task_id JOIN tasks u ON u.id = d.depends_on WHERE d.task_id = ANY($1) \
               AND t.status = 'pending' AND t.dependency_policy = 'fail' AND u.status IN ('failed', 'cancelled') \
               GROUP BY d.task_id ORDER BY d.task_id";
    let names: Vec<String> = among.iter().map(ToString::to_string).collect();
    for row in tx.query(sql, params![names]).await? {
        let (doomed, because): (TaskId, TaskId) = (row.parse("id")?, row.parse("depends_on")?);
        if fail(tx, &doomed, &because).await? {
            recount_of_dependencies(tx, std::slice::from_ref(&doomed)).await?;
            settle(tx, &doomed).await?;
        }
    }
    Ok(())
}

/// Fails a task for what it depends on; says whether that was its end.
async fn fail(tx: &mut Tx, id: &TaskId, because: &TaskId) -> Result<bool, Error> {
    let note = Note::error(&format!("task {because}, which this one depends on, did not complete"));
    Ok(Box::pin(transition::apply(tx, id, TaskEvent::DependencyFailed, note)).await?.is_ok())
}

/// Pending tasks that wait for nothing any more, among those that waited for this one.
pub(super) async fn just_unblocked(tx: &mut Tx, id: &TaskId) -> Result<Vec<TaskId>, Error> {
    let sql = "SELECT t.id FROM dependencies d JOIN tasks t ON t.id = d.task_id \
               WHERE d.depends_on = $1 AND t.status = 'pending' AND t.unmet_dependencies = 0 ORDER BY t.id";
    ids(&tx.query(sql, params![id]).await?)
}

pub(super) async fn recount_waiting(tx: &mut Tx, id: &TaskId) -> Result<(), Error> {
    let sql = format!(
        "UPDATE tasks SET unmet_dependencies = {UNMET} \
         WHERE id IN (SELECT task_id FROM dependencies WHERE depends_on = $1)"
    );
    tx.execute(&sql, params![id]).await?;
    Ok(())
}

/// The tasks that these depend on have pending dependants more or less.
pub(super) async fn recount_of_dependencies(tx: &mut Tx, of: &[TaskId]) -> Result<(), Error> {
    let mut touched = BTreeSet::new();
    for part in of.chunks(COUNTED_PART) {
        let names: Vec<String> = part.iter().map(ToString::to_string).collect();
        let sql = "SELECT DISTINCT depends_on AS id FROM dependencies WHERE task_id = ANY($1)";
        touched.extend(ids(&tx.query(sql, params![names]).await?)?);
    }
    recount_dependants(tx, &touched.into_iter().collect::<Vec<_>>()).await
}

pub(super) async fn recount_dependants(tx: &mut Tx, tasks: &[TaskId]) -> Result<(), Error> {
    for id in tasks {
        let sql = "UPDATE tasks SET dependants_pending = (SELECT count(*) FROM dependencies d \
                   JOIN tasks w ON w.id = d.task_id WHERE d.depends_on = tasks.id AND w.status = 'pending') WHERE id = $1";
        tx.execute(sql, params![id]).await?;
    }
    task::rank(tx, tasks).await
}

fn ids(rows: &[Row]) -> Result<Vec<TaskId>, Error> {
    rows.iter().map(|row| row.parse("id")).collect()
}
