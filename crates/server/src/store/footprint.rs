//! Footprints: the files that sandboxes were seen to change, and which lines of them, stored with the events that tell of
//! it, and the tasks under way whose files overlap.

use std::collections::{BTreeMap, HashSet};

use omoi_protocol::{ProjectId, SandboxId, TaskId, graph::Overlap};
use serde::Deserialize;
use serde_json::json;

use super::{Error, Store, Tx, sandbox::Reporter, task, value::params};
use crate::domain::{
    footprint::Footprint,
    radar::{self, Touched},
};

/// The event that tells of a changed file.
pub(super) const EVENT: &str = "agent.file_edited";
/// Files of one sandbox that are remembered.
const PATHS_MAX: i64 = 2_000;
const PATH_BYTES_MAX: usize = 1_000;
/// Tasks under way that are compared, and files of them all.
const TASKS_MAX: usize = 1_000;
const FILES_MAX: usize = 50_000;
/// Overlaps of one project that are named.
const OVERLAPS_MAX: usize = 500;

#[derive(Deserialize)]
struct Edited {
    file_path: Option<String>,
    previous_path: Option<String>,
    full_diff: Option<String>,
}

/// Remembers the file of an event, and which of its lines. What cannot be read is kept as an event and means nothing here.
pub(super) async fn observe(tx: &mut Tx, from: &Reporter, data: &str) -> Result<(), Error> {
    let Some(task) = &from.task_id else { return Ok(()) };
    let Ok(edited) = serde_json::from_str::<Edited>(data) else { return Ok(()) };
    let changed = edited.full_diff.as_deref().map(radar::hunks);
    let fits = |path: &String| !path.is_empty() && path.len() <= PATH_BYTES_MAX;
    let (path, previous) = (edited.file_path.filter(fits), edited.previous_path.filter(fits));
    // What was done to a file under its old name goes on under the new one.
    let known = match previous.as_ref().or(path.as_ref()) {
        Some(before) => known(tx, &from.id, before).await?,
        None => return Ok(()),
    };
    let lines = match (known.unwrap_or(Some(Touched::default())), changed) {
        (Some(mut touched), Some(hunks)) => {
            touched.change(&hunks);
            Some(touched)
        }
        _ => None,
    };
    let lines = lines.map(|lines| serde_json::to_string(&lines).unwrap_or_default());
    for path in [path, previous].into_iter().flatten() {
        tx.execute(
            "INSERT INTO footprints (sandbox_id, path, task_id, lines) \
             SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($5 AS TEXT) \
             WHERE (SELECT count(*) FROM footprints WHERE sandbox_id = $1) < $4 \
             OR EXISTS (SELECT 1 FROM footprints WHERE sandbox_id = $1 AND path = $2) \
             ON CONFLICT (sandbox_id, path) DO UPDATE SET lines = excluded.lines",
            params![&from.id, path, task, PATHS_MAX, lines.as_deref()],
        )
        .await?;
    }
    Ok(())
}

/// The lines of a file that were changed so far: none if it was not, and nothing about them if nobody knows.
async fn known(tx: &mut Tx, sandbox: &SandboxId, path: &str) -> Result<Option<Option<Touched>>, Error> {
    let sql = "SELECT lines FROM footprints WHERE sandbox_id = $1 AND path = $2";
    let Some(row) = tx.query_one(sql, params![sandbox, path]).await? else { return Ok(None) };
    let lines: Option<String> = row.get("lines")?;
    Ok(Some(lines.and_then(|text| serde_json::from_str(&text).ok())))
}

impl Store {
    /// Pairs of a project's tasks under way that touch the same files.
    pub async fn overlap_list(&self, project: &ProjectId) -> Result<Vec<Overlap>, Error> {
        let of = project.clone();
        let under_way = self
            .read(async move |tx| {
                task::project_of(tx, None, Some(&of)).await?;
                let mut all = under_way(tx).await?;
                all.retain(|task| task.project_id == of);
                see(tx, &mut all).await?;
                Ok(all)
            })
            .await?;
        blocking(move || pairs(&under_way.iter().collect::<Vec<_>>())).await
    }

    /// Tells of overlaps that nobody was told of yet; says of how many.
    pub async fn overlap_tell(&self) -> Result<usize, Error> {
        let (tasks, told) = self
            .read(async move |tx| {
                let mut tasks = under_way(tx).await?;
                let told = told(tx, &tasks).await?;
                see(tx, &mut tasks).await?;
                Ok((tasks, told))
            })
            .await?;
        let new = blocking(move || untold(&tasks, &told)).await?;
        if new.is_empty() {
            return Ok(0);
        }
        self.write(async move |tx| {
            let mut count = 0;
            for (project_id, overlap) in &new {
                let sql = "INSERT INTO footprint_overlaps (task_id, other_id, told_at) VALUES ($1, $2, $3) \
                           ON CONFLICT DO NOTHING RETURNING task_id";
                let values = params![&overlap.task_id, &overlap.other_id, tx.now];
                if tx.returning(sql, values).await?.is_empty() {
                    continue;
                }
                count += 1;
                let told = json!({
                    "project_id": project_id, "task_id": overlap.task_id, "other_id": overlap.other_id,
                    "files": overlap.files,
                });
                tx.tell("TASK_FOOTPRINT_OVERLAP", "task", overlap.task_id.as_str(), &told);
            }
            Ok(count)
        })
        .await
    }
}

struct UnderWay {
    project_id: ProjectId,
    id: TaskId,
    title: String,
    footprint: Footprint,
}

/// All tasks under way, of every project: there are as many as sandboxes run, while a project's tasks grow for ever.
async fn under_way(tx: &mut Tx) -> Result<Vec<UnderWay>, Error> {
    let sql = "SELECT id, project_id, title, owned_files FROM tasks WHERE status IN ('assigned', 'running') \
               ORDER BY id LIMIT $1";
    let rows = tx.query(sql, params![TASKS_MAX]).await?;
    let read = |row: &super::value::Row| {
        Ok(UnderWay {
            project_id: row.parse("project_id")?,
            id: row.parse("id")?,
            title: row.get("title")?,
            footprint: Footprint::new(row.json("owned_files")?),
        })
    };
    rows.iter().map(read).collect()
}

fn ids(tasks: &[UnderWay]) -> Vec<String> {
    tasks.iter().map(|task| task.id.to_string()).collect()
}

/// Adds what their sandboxes were seen to change.
async fn see(tx: &mut Tx, tasks: &mut [UnderWay]) -> Result<(), Error> {
    if tasks.len() < 2 {
        return Ok(());
    }
    let sql = "SELECT task_id, path FROM footprints WHERE task_id = ANY($1) LIMIT $2";
    let rows = tx.query(sql, params![ids(tasks), FILES_MAX]).await?;
    let mut by_id: BTreeMap<TaskId, &mut Footprint> =
        tasks.iter_mut().map(|task| (task.id.clone(), &mut task.footprint)).collect();
    for row in rows {
        if let Some(footprint) = by_id.get_mut(&row.parse::<TaskId>("task_id")?) {
            footprint.seen(row.get("path")?);
        }
    }
    Ok(())
}

type Pairs = HashSet<(TaskId, TaskId)>;

async fn told(tx: &mut Tx, tasks: &[UnderWay]) -> Result<Pairs, Error> {
    if tasks.len() < 2 {
        return Ok(Pairs::new());
    }
    let sql = "SELECT task_id, other_id FROM footprint_overlaps WHERE task_id = ANY($1)";
    let rows = tx.query(sql, params![ids(tasks)]).await?;
    rows.iter().map(|row| Ok((row.parse("task_id")?, row.parse("other_id")?))).collect()
}

fn untold(tasks: &[UnderWay], told: &Pairs) -> Vec<(ProjectId, Overlap)> {
    let mut by_project: BTreeMap<&ProjectId, Vec<&UnderWay>> = BTreeMap::new();
    for task in tasks {
        by_project.entry(&task.project_id).or_default().push(task);
    }
    let mut new = Vec::new();
    for (project, tasks) in by_project {
        let found = pairs(&tasks).into_iter();
        let fresh = found.filter(|pair| !told.contains(&(pair.task_id.clone(), pair.other_id.clone())));
        new.extend(fresh.map(|pair| (project.clone(), pair)));
    }
    new
}

/// Those that overlap, the smaller id first: tasks come in the order of their ids.
fn pairs(tasks: &[&UnderWay]) -> Vec<Overlap> {
    let mut found = Vec::new();
    for (at, one) in tasks.iter().enumerate() {
        for other in &tasks[at + 1..] {
            let files = one.footprint.overlap(&other.footprint);
            if files.is_empty() {
                continue;
            }
            found.push(Overlap {
                task_id: one.id.clone(),
                title: one.title.clone(),
                other_id: other.id.clone(),
                other_title: other.title.clone(),
                files,
            });
            if found.len() >= OVERLAPS_MAX {
                return found;
            }
        }
    }
    found
}

/// Comparing may take a while, and threads that serve requests have none to spare.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Unavailable(format!("footprints could not be compared: {error}")))
}
