//! The branch that holds the work of all tasks of a spec: which are to be made, and what came of each. The merging itself
//! is in `orchestrator`.

use std::collections::BTreeMap;

use omoi_protocol::{
    MergeOutcome, Priority, ProjectId, SpecBranchState, SpecId, TaskId, TaskStatus,
    spec::{Spec, SpecBranch, SpecDetail, SpecMerge},
    task::NewTask,
};
use serde_json::{Map, json};

use super::{ACTOR, detail, get, sync};
use crate::{
    domain::{branch, check, commit::Work, graph},
    store::{
        Error, Store, Tx, dependency, project, task,
        value::{Row, params},
    },
};

/// What the task is called that runs the declared checks on such a branch.
const TASK_TYPE: &str = "spec_check";
/// So often it is tried to make one.
const TRIES_MAX: i64 = 3;
const TITLE_CHARS_MAX: usize = 400;

/// A branch that is to be made.
#[derive(Debug, Clone)]
pub struct BranchDue {
    pub spec_id: SpecId,
    pub project_id: ProjectId,
    pub name: String,
    /// In the order of merging: each after all it builds on, otherwise by symbol.
    pub parts: Vec<BranchPart>,
}

/// One task of a spec.
#[derive(Debug, Clone)]
pub struct BranchPart {
    pub symbol: String,
    pub title: String,
    pub completed: bool,
    /// Symbols.
    pub depends_on: Vec<String>,
    pub work: Work,
}

/// What came of one.
#[derive(Debug, Clone)]
pub struct Combined {
    pub base: String,
    pub tip: String,
    pub merges: Vec<SpecMerge>,
}

impl Combined {
    fn state(&self) -> SpecBranchState {
        let any = |of: &[MergeOutcome]| self.merges.iter().any(|merge| of.contains(&merge.outcome));
        if any(&[MergeOutcome::Conflict, MergeOutcome::LeftOut]) {
            SpecBranchState::Conflict
        } else if any(&[MergeOutcome::Merged, MergeOutcome::Contained]) {
            SpecBranchState::Merged
        } else {
            SpecBranchState::Empty
        }
    }
}

impl Store {
    pub async fn spec_branch_get(&self, id: &SpecId) -> Result<SpecBranch, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            get(tx, &id).await?;
            of(tx, &id).await?.ok_or_else(|| Error::not_found("branch of spec", &id))
        })
        .await
    }

    /// Has the branch made, or made again, of what is completed by then.
    pub async fn spec_branch_want(&self, actor: &str, id: &SpecId) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let spec = get(tx, &id).await?;
            let items = sync::items(tx, &id).await?;
            let tasks: Vec<_> = items.iter().filter_map(|item| item.status).collect();
            if spec.project_id.is_none() || tasks.is_empty() {
                let detail = format!("spec {id} has no tasks to merge; execute it first");
                return Err(Error::conflict("spec_without_tasks", detail));
            }
            want(tx, &spec, tasks.iter().all(|status| *status == TaskStatus::Completed)).await?;
            tx.record(&actor, "spec.branch", "spec", id.as_str(), json!({}));
            detail(tx, &id).await
        })
        .await
    }

    pub async fn spec_branch_due(&self, limit: usize) -> Result<Vec<BranchDue>, Error> {
        self.read(async move |tx| {
            let sql = "SELECT b.spec_id, b.name, s.project_id FROM spec_branches b JOIN specs s ON s.id = b.spec_id \
                       WHERE b.state = 'wanted' AND s.project_id IS NOT NULL ORDER BY b.spec_id LIMIT $1";
            let mut due = Vec::new();
            for row in tx.query(sql, params![limit]).await? {
                let spec_id: SpecId = row.parse("spec_id")?;
                due.push(BranchDue {
                    parts: parts(tx, &spec_id).await?,
                    project_id: row.parse("project_id")?,
                    name: row.get("name")?,
                    spec_id,
                });
            }
            Ok(due)
        })
        .await
    }

    /// Writes down what was made; where all of it goes together, the declared checks run on it.
    pub async fn spec_branch_made(&self, due: &BranchDue, made: Combined) -> Result<(), Error> {
        let due = due.clone();
        self.write(async move |tx| {
            let spec = get(tx, &due.spec_id).await?;
            let state = made.state();
            let has_branch = state != SpecBranchState::Empty && made.tip != made.base;
            let commit = has_branch.then_some(made.tip.as_str());
            let checked = match commit.filter(|_| state == SpecBranchState::Merged) {
                Some(commit) => check_task(tx, &spec, &due, commit).await?,
                None => None,
            };
            let sql = "UPDATE spec_branches SET state = $2, base_commit = $3, commit_id = $4, merges = $5, error = NULL, \
                       check_task_id = $6, updated_at = $7 WHERE spec_id = $1 AND state = 'wanted'";
            let merges = json!(made.merges).to_string();
            let values =
                params![&spec.id, state.as_str(), made.base.as_str(), commit, merges, checked.as_ref(), tx.now];
            tx.execute(sql, values).await?;
            let told = json!({
                "branch": due.name, "state": state, "commit": commit, "base_commit": made.base, "merges": made.merges,
                "check_task_id": checked,
            });
            let kind = if state == SpecBranchState::Conflict { "SPEC_BRANCH_CONFLICT" } else { "SPEC_BRANCH_MERGED" };
            tx.tell(kind, "spec", spec.id.as_str(), &told);
            Ok(())
        })
        .await
    }

    /// It could not be made. That is tried again where it may pass, and only so often.
    pub async fn spec_branch_failed(
        &self,
        due: &BranchDue,
        error: &str,
        may_pass: bool,
    ) -> Result<(), Error> {
        let (due, error) = (due.clone(), error.to_owned());
        self.write(async move |tx| {
            let last = if may_pass { TRIES_MAX } else { 0 };
            let sql = "UPDATE spec_branches SET tries = tries + 1, error = $2, updated_at = $3, \
                       state = CASE WHEN tries + 1 >= $4 THEN 'failed' ELSE state END \
                       WHERE spec_id = $1 AND state = 'wanted' RETURNING state";
            let rows = tx.returning(sql, params![&due.spec_id, error.as_str(), tx.now, last]).await?;
            if rows.first().is_some_and(|row| row.get::<String>("state").is_ok_and(|state| state == "failed"))
            {
                let told = json!({ "branch": due.name, "error": error });
                tx.tell("SPEC_BRANCH_FAILED", "spec", due.spec_id.as_str(), &told);
            }
            Ok(())
        })
        .await
    }
}

/// The branch is wanted; `whole` says that all tasks are completed.
async fn want(tx: &mut Tx, spec: &Spec, whole: bool) -> Result<(), Error> {
    let name = branch::of_spec(&spec.title, spec.id.as_str());
    // It keeps the name that it has, whatever the spec is called by now.
    let sql = "INSERT INTO spec_branches (spec_id, name, state, merges, whole, updated_at) \
               VALUES ($1, $2, 'wanted', '[]', $3, $4) ON CONFLICT (spec_id) DO UPDATE SET state = 'wanted', tries = 0, \
               error = NULL, whole = excluded.whole, updated_at = excluded.updated_at";
    tx.execute(sql, params![&spec.id, name, i64::from(whole), tx.now]).await?;
    tx.tell("SPEC_BRANCH_WANTED", "spec", spec.id.as_str(), &json!({}));
    Ok(())
}

/// Wants the branch of a spec whose tasks are all completed, unless it was made of all of them; says whether it did.
pub(super) async fn want_whole(tx: &mut Tx, spec: &Spec) -> Result<bool, Error> {
    let Some(project_id) = &spec.project_id else { return Ok(false) };
    let sql = "SELECT whole FROM spec_branches WHERE spec_id = $1";
    let is_whole = match tx.query_one(sql, params![&spec.id]).await? {
        Some(row) => row.get("whole")?,
        None => false,
    };
    if is_whole || project::get(tx, project_id).await?.repository_url.is_none() {
        return Ok(false);
    }
    want(tx, spec, true).await?;
    Ok(true)
}

/// There are tasks that the branch does not hold.
pub(super) async fn outgrown(tx: &mut Tx, id: &SpecId) -> Result<(), Error> {
    tx.execute("UPDATE spec_branches SET whole = 0 WHERE spec_id = $1", params![id]).await
}

pub(super) async fn of(tx: &mut Tx, id: &SpecId) -> Result<Option<SpecBranch>, Error> {
    let sql = "SELECT b.name, b.state, b.base_commit, b.commit_id, b.merges, b.error, b.check_task_id, t.status, b.updated_at \
               FROM spec_branches b LEFT JOIN tasks t ON t.id = b.check_task_id WHERE b.spec_id = $1";
    tx.query_one(sql, params![id]).await?.as_ref().map(read).transpose()
}

fn read(row: &Row) -> Result<SpecBranch, Error> {
    Ok(SpecBranch {
        name: row.get("name")?,
        state: row.parse("state")?,
        base_commit: row.get("base_commit")?,
        commit: row.get("commit_id")?,
        merges: row.json("merges")?,
        error: row.get("error")?,
        check_task_id: row.parse_opt("check_task_id")?,
        check_status: row.parse_opt("status")?,
        updated_at: row.get("updated_at")?,
    })
}

async fn parts(tx: &mut Tx, id: &SpecId) -> Result<Vec<BranchPart>, Error> {
    let sql = "SELECT i.symbol, t.id, t.title, t.status, t.branch_name, t.commit_id, t.result FROM spec_items i \
               JOIN tasks t ON t.id = i.task_id WHERE i.spec_id = $1 ORDER BY i.symbol";
    let mut parts = BTreeMap::new();
    for row in &tx.query(sql, params![id]).await? {
        let symbol: String = row.get("symbol")?;
        let part = BranchPart {
            title: row.get("title")?,
            completed: row.parse::<TaskStatus>("status")? == TaskStatus::Completed,
            depends_on: Vec::new(),
            work: dependency::work(row)?,
            symbol: symbol.clone(),
        };
        parts.insert(symbol, part);
    }
    let sql = "SELECT i.symbol, o.symbol AS depends_on FROM spec_items i JOIN dependencies d ON d.task_id = i.task_id \
               JOIN spec_items o ON o.task_id = d.depends_on AND o.spec_id = i.spec_id WHERE i.spec_id = $1 \
               ORDER BY i.symbol, o.symbol";
    let mut edges = Vec::new();
    for row in &tx.query(sql, params![id]).await? {
        edges.push((row.get::<String>("symbol")?, row.get::<String>("depends_on")?));
    }
    let symbols: Vec<String> = parts.keys().cloned().collect();
    for (symbol, on) in &edges {
        if let Some(part) = parts.get_mut(symbol) {
            part.depends_on.push(on.clone());
        }
    }
    let order = graph::groups(&symbols, &edges).into_iter().flatten();
    Ok(order.filter_map(|symbol| parts.remove(&symbol)).collect())
}

/// A task that is at its checks from the start. It has one attempt: there is nobody whose work it would go back to.
async fn check_task(
    tx: &mut Tx,
    spec: &Spec,
    due: &BranchDue,
    commit: &str,
) -> Result<Option<TaskId>, Error> {
    let checks = check::declared(&project::get(tx, &due.project_id).await?.settings, None, &Map::new());
    if checks.is_empty() {
        return Ok(None);
    }
    let title: String = spec.title.chars().take(TITLE_CHARS_MAX).collect();
    let new = NewTask {
        project_id: Some(due.project_id.clone()),
        description: format!(
            "Runs the declared checks on {}, where all tasks of the spec are merged.",
            due.name
        ),
        task_type: TASK_TYPE.to_owned(),
        phase_id: "PHASE_TESTING".to_owned(),
        priority: Priority::High,
        max_retries: Some(0),
        execution_config: Map::from_iter([("autonomous".to_owned(), json!(true))]),
        ..NewTask::plain(format!("Check the branch of the spec: {title}"))
    };
    let id = task::insert(tx, &new).await?;
    let sql = "UPDATE tasks SET stage = 'check', commit_id = $2, checks = $3, branch_name = $4 WHERE id = $1";
    tx.execute(sql, params![&id, commit, json!(checks).to_string(), due.name.as_str()]).await?;
    tracing::debug!(spec.id = %spec.id, task.id = %id, by = ACTOR, "checks of {} are offered", due.name);
    Ok(Some(id))
}
