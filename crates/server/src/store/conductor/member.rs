//! Who the radar looks at: tasks with a live sandbox, and completed ones whose work may not be merged yet.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use omoi_protocol::{ProjectId, SandboxId, Stage, TaskId, conductor::Side};

use super::super::{
    Error, Store, Tx,
    sandbox::LIVE,
    value::{Row, params},
};
use crate::domain::radar::{Seen, Touched};

/// Live sandboxes and completed tasks that are looked at, and files of them all.
const LIVE_MAX: usize = 1_000;
const FINISHED_MAX: usize = 200;
const FILES_MAX: usize = 50_000;

const COLUMNS: &str =
    "t.id AS task_id, t.branch_name, t.project_id, t.title, t.description, t.phase_id, t.owned_files";
/// The last sandbox that worked on a task.
const MAKER: &str = "(SELECT w.id FROM sandboxes w WHERE w.task_id = t.id AND w.stage = 'work' \
                     ORDER BY w.generation DESC LIMIT 1)";

#[derive(Debug, Clone)]
pub struct Member {
    pub sandbox_id: SandboxId,
    pub task_id: TaskId,
    pub project_id: ProjectId,
    pub title: String,
    pub description: String,
    pub phase: String,
    pub owned_files: Vec<String>,
    pub branch: Option<String>,
    /// Its sandbox lives.
    pub live: bool,
    pub seen: Seen,
}

impl Member {
    pub fn side(&self) -> Side {
        Side {
            sandbox_id: Some(self.sandbox_id.clone()),
            task_id: Some(self.task_id.clone()),
            title: self.title.clone(),
            branch: self.branch.clone(),
        }
    }
}

impl Store {
    /// Everybody, by project; those that live first, and among them the oldest.
    pub async fn radar_members(
        &self,
        finished_for: Duration,
    ) -> Result<BTreeMap<ProjectId, Vec<Member>>, Error> {
        self.read(async move |tx| {
            let mut members = live(tx).await?;
            let since = tx.now - finished_for;
            members.extend(finished(tx, since).await?);
            see(tx, &mut members).await?;
            let mut by_project: BTreeMap<ProjectId, Vec<Member>> = BTreeMap::new();
            for member in members {
                by_project.entry(member.project_id.clone()).or_default().push(member);
            }
            Ok(by_project)
        })
        .await
    }
}

/// What a check is about was made by the sandbox before it, and is known by that one.
async fn live(tx: &mut Tx) -> Result<Vec<Member>, Error> {
    let sql = format!(
        "SELECT CASE WHEN s.stage = 'check' THEN COALESCE({MAKER}, s.id) ELSE s.id END AS sandbox_id, s.stage, s.live, {COLUMNS} \
         FROM sandboxes s JOIN tasks t ON t.id = s.task_id WHERE s.id IN ({LIVE}) ORDER BY s.id LIMIT $1"
    );
    tx.query(&sql, params![LIVE_MAX]).await?.iter().map(read).collect()
}

async fn finished(tx: &mut Tx, since: Timestamp) -> Result<Vec<Member>, Error> {
    let select = format!(
        "SELECT s.id AS sandbox_id, s.stage, s.live, {COLUMNS} FROM tasks t JOIN sandboxes s ON s.id = {MAKER} WHERE s.live = 0"
    );
    let completed = format!(
        "{select} AND t.completed_at >= $1 AND t.status = 'completed' ORDER BY t.completed_at DESC LIMIT $2"
    );
    let mut rows = tx.query(&completed, params![since, FINISHED_MAX]).await?;
    let to_check = format!("{select} AND t.stage = 'check' AND t.status = 'pending' ORDER BY t.id LIMIT $1");
    rows.extend(tx.query(&to_check, params![FINISHED_MAX]).await?);
    rows.iter().map(read).collect()
}

/// Adds the files and lines that were seen of each task, in whichever of its sandboxes.
async fn see(tx: &mut Tx, members: &mut [Member]) -> Result<(), Error> {
    if members.len() < 2 {
        return Ok(());
    }
    let ids: Vec<String> = members.iter().map(|member| member.task_id.to_string()).collect();
    let sql = "SELECT task_id, path, lines FROM footprints WHERE task_id = ANY($1) LIMIT $2";
    let rows = tx.query(sql, params![ids, FILES_MAX]).await?;
    let mut by_task: HashMap<String, &mut Seen> =
        members.iter_mut().map(|member| (member.task_id.to_string(), &mut member.seen)).collect();
    for row in rows {
        let Some(seen) = by_task.get_mut(&row.get::<String>("task_id")?) else { continue };
        let lines: Option<String> = row.get("lines")?;
        let lines = lines.and_then(|text| serde_json::from_str::<Touched>(&text).ok());
        let known = seen.files.entry(row.get("path")?).or_insert_with(|| Some(Touched::default()));
        match (known.as_mut(), lines) {
            (Some(known), Some(lines)) => known.join(&lines),
            _ => *known = None,
        }
    }
    Ok(())
}

fn read(row: &Row) -> Result<Member, Error> {
    let live: bool = row.get("live")?;
    let is_working = live && row.parse::<Stage>("stage")? == Stage::Work;
    Ok(Member {
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse("task_id")?,
        project_id: row.parse("project_id")?,
        title: row.get("title")?,
        description: row.get("description")?,
        phase: row.get("phase_id")?,
        owned_files: row.json("owned_files")?,
        branch: row.get("branch_name")?,
        live,
        seen: Seen { is_working, files: BTreeMap::new() },
    })
}
