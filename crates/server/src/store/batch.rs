//! Batches: tasks made together in one transaction, all or none. A batch with a key is made once.

use std::collections::BTreeMap;

use omoi_protocol::{
    DependencyPolicy, ProjectId, TaskId, TaskStatus, TicketId,
    batch::{BatchTask, NewTaskBatch, TaskBatch},
};
use serde_json::json;

use super::{
    Error, Store, Tx, blob, dependency,
    task::{self, Edges},
    value::params,
};
use crate::domain::batch::{self, Named, Refused};

/// What became of a batch that was asked for.
#[derive(Debug)]
pub enum Made {
    Now(TaskBatch),
    /// It had been made before, under its key.
    Before(TaskBatch),
}

impl Store {
    pub async fn batch_create(&self, actor: &str, new: NewTaskBatch) -> Result<Made, Error> {
        let actor = actor.to_owned();
        let tasks: Vec<_> =
            new.tasks.iter().map(|task| (task.key.as_str(), task.depends_on.as_slice())).collect();
        let names = batch::resolve(&tasks).map_err(refuse)?;
        let content = serde_json::to_vec(&new).unwrap_or_default();
        let hash = blob::hash(&content);
        self.write_large(content.len(), async move |tx| {
            let project = task::project_of(tx, new.ticket_id.as_ref(), new.project_id.as_ref()).await?;
            if let Some(key) = &new.batch_key
                && let Some(ids) = made_before(tx, &project, key, &hash).await?
            {
                return Ok(Made::Before(read(tx, project, new.batch_key.clone(), ids).await?));
            }
            let ids = insert(tx, &project, &new.tasks, &|_| new.ticket_id.clone(), &names).await?;
            if let Some(key) = &new.batch_key {
                let sql = "INSERT INTO task_batches (project_id, batch_key, content_hash, task_ids, created_at) \
                           VALUES ($1, $2, $3, $4, $5)";
                let told = json!(ids).to_string();
                tx.execute(sql, params![&project, key.as_str(), hash.as_str(), told, tx.now]).await?;
            }
            let detail = json!({ "batch_key": new.batch_key, "tasks": ids.values().collect::<Vec<_>>() });
            tx.record(&actor, "task.create_batch", "project", project.as_str(), detail);
            Ok(Made::Now(read(tx, project, new.batch_key.clone(), ids).await?))
        })
        .await
    }
}

pub(super) type Ids = BTreeMap<String, TaskId>;

async fn made_before(tx: &mut Tx, project: &ProjectId, key: &str, hash: &str) -> Result<Option<Ids>, Error> {
    let sql = "SELECT content_hash, task_ids FROM task_batches WHERE project_id = $1 AND batch_key = $2";
    let Some(row) = tx.query_one(sql, params![project, key]).await? else { return Ok(None) };
    if row.get::<String>("content_hash")? != hash {
        let detail = format!("batch_key {key:?} names a batch with other tasks; choose another key");
        return Err(Error::conflict("batch_key_reused", detail));
    }
    row.json("task_ids").map(Some)
}

/// Rows first and edges after them, so that the order in the batch does not matter. `ticket` says by its key to which
/// ticket a task belongs.
pub(super) async fn insert(
    tx: &mut Tx,
    project: &ProjectId,
    tasks: &[BatchTask],
    ticket: &(dyn Fn(&str) -> Option<TicketId> + Sync),
    names: &[Vec<Named>],
) -> Result<Ids, Error> {
    let outside = outside(tx, project, tasks, names).await?;
    let mut edges = vec![Edges::default(); tasks.len()];
    for (at, on) in names.iter().enumerate() {
        let policy = tasks[at].dependency_policy;
        edges[at].unmet = on.iter().filter(|on| !is_met(on, &outside, policy)).count() as i64;
        for on in on {
            if let Named::Here(other) = on {
                edges[*other].dependants += 1;
            }
        }
    }
    let ids: Vec<TaskId> = tasks.iter().map(|_| TaskId::generate()).collect();
    for ((id, task), edges) in ids.iter().zip(tasks).zip(edges) {
        let new = task.to_new(project, ticket(&task.key).as_ref());
        task::insert_row(tx, id, project, &new, edges).await?;
    }
    for (id, on) in ids.iter().zip(names) {
        for on in on {
            let on = match on {
                Named::Here(at) => &ids[*at],
                Named::Elsewhere(task) => task,
            };
            let sql = "INSERT INTO dependencies (task_id, depends_on) VALUES ($1, $2)";
            tx.execute(sql, params![id, on]).await?;
        }
    }
    let outside: Vec<TaskId> = outside.into_keys().collect();
    dependency::recount_dependants(tx, &outside).await?;
    dependency::fail_doomed(tx, &ids).await?;
    Ok(tasks.iter().map(|task| task.key.clone()).zip(ids).collect())
}

fn is_met(on: &Named, outside: &BTreeMap<TaskId, TaskStatus>, policy: DependencyPolicy) -> bool {
    match on {
        Named::Here(_) => false,
        Named::Elsewhere(id) => match outside.get(id) {
            Some(TaskStatus::Completed) => true,
            Some(TaskStatus::Failed | TaskStatus::Cancelled) => policy == DependencyPolicy::Skip,
            _ => false,
        },
    }
}

/// The tasks outside the batch that it depends on. Each must be one of the same project.
async fn outside(
    tx: &mut Tx,
    project: &ProjectId,
    tasks: &[BatchTask],
    names: &[Vec<Named>],
) -> Result<BTreeMap<TaskId, TaskStatus>, Error> {
    let elsewhere = |on: &Named| match on {
        Named::Here(_) => None,
        Named::Elsewhere(id) => Some(id.to_string()),
    };
    let mut wanted: Vec<String> = names.iter().flatten().filter_map(elsewhere).collect();
    wanted.sort();
    wanted.dedup();
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let sql = "SELECT id, project_id, status FROM tasks WHERE id = ANY($1)";
    for row in tx.query(sql, params![wanted]).await? {
        let (id, of): (TaskId, ProjectId) = (row.parse("id")?, row.parse("project_id")?);
        if of != *project {
            let detail = format!("task {id} belongs to project {of}, and the batch to {project}");
            return Err(Error::invalid("dependency_in_other_project", detail));
        }
        found.insert(id, row.parse("status")?);
    }
    for (task, on) in tasks.iter().zip(names) {
        for on in on {
            if let Named::Elsewhere(id) = on
                && !found.contains_key(id)
            {
                return Err(refuse(batch::unknown(&task.key, id.as_str())));
            }
        }
    }
    Ok(found)
}

async fn read(
    tx: &mut Tx,
    project_id: ProjectId,
    batch_key: Option<String>,
    ids: Ids,
) -> Result<TaskBatch, Error> {
    let tasks = task::get_all(tx, ids.values().map(ToString::to_string).collect()).await?;
    let mut by_id: BTreeMap<TaskId, _> = tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
    let tasks = ids.into_iter().filter_map(|(key, id)| Some((key, by_id.remove(&id)?))).collect();
    Ok(TaskBatch { project_id, batch_key, tasks })
}

pub(super) fn refuse(refused: Refused) -> Error {
    let text = refused.to_string();
    match refused {
        Refused::Twice { .. } => Error::invalid("duplicate_key", text),
        Refused::Unknown { .. } => Error::invalid("unknown_dependency", text),
        Refused::Cycle { cycle } => Error::Cycle { cycle },
    }
}
