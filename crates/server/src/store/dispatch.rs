//! Dispatch: the best task that may be given a sandbox without anybody asking, and why another waits.
//!
//! Like a claim (`claim.rs`) it looks at the first task of each project, class and lane by an index, and at the few
//! whose deadline is near, so that its cost does not grow with the number of tasks that wait.

use std::time::Duration;

use omoi_protocol::{
    ProjectId, SandboxId, Stage, TaskId, TaskStatus,
    sandbox::{NewSandbox as Wish, Sandbox},
    task::{Task, Waiting},
};

use super::{
    Error, Store, Tx, attempt,
    claim::{NEAR_DEADLINE_MAX, OPEN, READY, highest},
    place, project, task,
    transition::{self, Note},
    value::{Row, params},
};
use crate::{
    crash::Point,
    domain::{
        dispatch::{self, Lane, Situation, WITHOUT_KEY},
        model_key::{Keys, MissingKey},
        task::TaskEvent,
    },
};

/// Who is written down as having ordered what nobody did.
const ACTOR: &str = "dispatch";
/// How long a task waits at most for what its last attempt left to be kept.
const KEEPING_MAX: Duration = Duration::from_secs(20 * 60);

/// Sandboxes of the server's own making that hold a task.
const LIVE: &str = "SELECT count(*) AS live FROM sandboxes WHERE place IN ('wanted', 'up', 'kept') AND live = 1 \
                    AND task_id IS NOT NULL";

/// What became of the best task.
#[derive(Debug)]
pub enum Dispatched {
    Ordered(SandboxId),
    /// It can never be started as it is, and was cancelled; why.
    Refused(TaskId, String),
    /// It waits for the key of its model, and the next one may be taken.
    WithoutKey(TaskId, MissingKey),
}

impl Store {
    /// Orders a sandbox for the best task that dispatch may take: row, lease and generation in one transaction.
    pub async fn task_dispatch_next(&self) -> Result<Option<Dispatched>, Error> {
        // Asked where it holds nobody up; most of the time there is nothing to do.
        if self.read(async |tx| best(tx).await).await?.is_none() {
            return Ok(None);
        }
        self.task_dispatch_at_once().await
    }

    /// The same, asked where others wait for the answer: sooner, where there is something to do.
    pub async fn task_dispatch_at_once(&self) -> Result<Option<Dispatched>, Error> {
        self.write(async move |tx| {
            let Some(Best { id, project_id, stage, attempted }) = best(tx).await? else { return Ok(None) };
            Point::Found.pass();
            let mut asked = match attempted {
                true => attempt::last_wish(tx, &id).await?.unwrap_or_default(),
                false => Wish::default(),
            };
            if stage == Stage::Check {
                // What was run for the task is not what proves it.
                asked.command.clear();
            }
            if asked.command.is_empty()
                && let Some(missing) = missing_key(tx, &id, &project_id).await?
            {
                let sql = "UPDATE tasks SET lane = lane + $2 WHERE id = $1 AND lane < $2";
                tx.execute(sql, params![&id, WITHOUT_KEY]).await?;
                return Ok(Some(Dispatched::WithoutKey(id, missing)));
            }
            let wish = Wish { task_id: Some(id.clone()), ..asked };
            match place::order(tx, ACTOR, &project_id, wish).await {
                Ok(sandbox) => Ok(Some(Dispatched::Ordered(sandbox.id))),
                // Such as a session that is no longer there. It must not stand in the way of the others.
                Err(refused @ (Error::NotFound { .. } | Error::Invalid { .. })) => {
                    let note = Note::error(&format!("it cannot be started: {refused}"));
                    transition::apply(tx, &id, TaskEvent::Cancelled, note).await?.ok();
                    Ok(Some(Dispatched::Refused(id, refused.to_string())))
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Has dispatch look again at the tasks that it has passed over for want of a key: the server has started, maybe with
    /// another configuration.
    pub async fn task_keys_changed(&self) -> Result<(), Error> {
        self.write(async |tx| {
            let sql = format!(
                "UPDATE tasks SET lane = lane - $1 WHERE lane >= {WITHOUT_KEY} AND project_id IN (SELECT id FROM projects)"
            );
            tx.execute(&sql, params![WITHOUT_KEY]).await
        })
        .await
    }

    /// A pending task is given its sandbox because somebody asks, whatever dispatch would do.
    pub async fn task_start(&self, actor: &str, id: &TaskId, wish: Wish) -> Result<Sandbox, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let task = task::get(tx, &id).await?;
            let wish = Wish { task_id: Some(id.clone()), ..wish.clone() };
            place::order(tx, &actor, &task.project_id, wish).await
        })
        .await
    }
}

/// The key that a task waits for. A server that has all of them asks nothing.
async fn missing_key(tx: &mut Tx, id: &TaskId, project_id: &ProjectId) -> Result<Option<MissingKey>, Error> {
    if tx.rules.keys == Keys::ALL {
        return Ok(None);
    }
    let settings = project::get(tx, project_id).await?.settings;
    let held = task::get(tx, id).await?;
    Ok(place::missing_key(tx, &settings, &held))
}

/// Has dispatch look again at the tasks of a project that it has passed over for want of a key: the project may have named
/// another model.
pub(super) async fn look_again(tx: &mut Tx, project: &ProjectId) -> Result<(), Error> {
    let sql = format!("UPDATE tasks SET lane = lane - $2 WHERE lane >= {WITHOUT_KEY} AND project_id = $1");
    tx.execute(&sql, params![project, WITHOUT_KEY]).await
}

/// Why dispatch does not take a task now; none when it is about to, or when the task is not pending.
pub(super) async fn waiting_for(tx: &mut Tx, task: &Task) -> Result<Option<Waiting>, Error> {
    if task.status != TaskStatus::Pending {
        return Ok(None);
    }
    let sql = format!(
        "SELECT t.lane, p.settings, p.archived, p.paused, p.repository_url, p.autonomous, p.live_sandboxes, p.max_concurrent, \
         CAST(CASE WHEN {} THEN 1 ELSE 0 END AS BIGINT) AS keeping FROM tasks t JOIN projects p ON p.id = t.project_id WHERE t.id = $1",
        keeping("t", "$2")
    );
    let row = tx.query_one(&sql, params![&task.id, tx.now - KEEPING_MAX]).await?;
    let row = row.ok_or_else(|| Error::not_found("task", &task.id))?;
    let mut missing_key = place::missing_key(tx, &row.json("settings")?, task);
    if missing_key.is_some() {
        // Dispatch asks again for the command that the last attempt ran.
        let last = attempt::last_wish(tx, &task.id).await?;
        missing_key = missing_key.filter(|_| last.is_none_or(|wish| wish.command.is_empty()));
    }
    let situation = Situation {
        unmet_dependencies: task.unmet_dependencies,
        not_before: task.not_before,
        lane: lane(&row)?,
        asks_capabilities: !task.required_capabilities.is_empty(),
        archived: row.get("archived")?,
        paused: row.get("paused")?,
        has_repository: row.get::<Option<String>>("repository_url")?.is_some(),
        missing_key,
        autonomous: row.get::<Option<bool>>("autonomous")?.unwrap_or(tx.rules.autonomous),
        project: (
            row.get("live_sandboxes")?,
            row.get::<Option<i64>>("max_concurrent")?.unwrap_or(tx.rules.max_concurrent_per_project),
        ),
        all: (live(tx).await?, tx.rules.dispatch_max_live),
        keeping: row.get("keeping")?,
    };
    Ok(dispatch::waiting_for(&situation))
}

/// The task that is next.
struct Best {
    id: TaskId,
    project_id: ProjectId,
    stage: Stage,
    /// It had a sandbox before.
    attempted: bool,
}

async fn best(tx: &mut Tx) -> Result<Option<Best>, Error> {
    let of = |alias: &str| {
        format!(
            "{alias}.{} AND NOT {}",
            READY.replace("AND ", &format!("AND {alias}.")),
            keeping(alias, "$4")
        )
    };
    let open = format!("{OPEN} AND p.repository_url IS NOT NULL");
    let autonomous = "COALESCE(p.autonomous, $2) = 1";
    let first = |lane: Lane, class: i64| {
        let lane_number = lane as i64;
        let also = if lane == Lane::Project { format!("AND {autonomous}") } else { String::new() };
        format!(
            "SELECT (SELECT x.id FROM tasks x WHERE x.project_id = p.id AND x.lane = {lane_number} \
             AND x.rank_class = {class} AND {} ORDER BY x.rank DESC, x.id LIMIT 1) AS id \
             FROM projects p WHERE {open} {also}",
            of("x")
        )
    };
    let near = format!(
        "SELECT t.id FROM tasks t JOIN projects p ON p.id = t.project_id WHERE {} AND t.deadline_at IS NOT NULL \
         AND t.deadline_at <= $3 AND (t.lane = 2 OR (t.lane = 1 AND {autonomous})) AND {open} \
         ORDER BY t.deadline_at LIMIT {NEAR_DEADLINE_MAX}",
        of("t")
    );
    let sql = format!(
        "SELECT t.id, t.project_id, t.stage, t.generation, t.priority, t.created_at, t.deadline_at, \
         t.dependants_pending, t.retry_count, t.max_retries FROM ({} UNION ALL {} UNION ALL {} UNION ALL {} UNION ALL SELECT id FROM ({near}) AS near) \
         AS front JOIN tasks t ON t.id = front.id WHERE ({LIVE}) < $5",
        first(Lane::Project, 0),
        first(Lane::Project, 1),
        first(Lane::Always, 0),
        first(Lane::Always, 1),
    );
    let values = params![
        tx.rules.max_concurrent_per_project,
        i64::from(tx.rules.autonomous),
        tx.now + tx.rules.weights.deadline_window,
        tx.now - KEEPING_MAX,
        tx.rules.dispatch_max_live
    ];
    let rows = tx.query(&sql, values).await?;
    let best = highest(tx, rows.into_iter())?;
    let read = |row: Row| {
        Ok(Best {
            id: row.parse("id")?,
            project_id: row.parse("project_id")?,
            stage: row.parse("stage")?,
            attempted: row.get::<i64>("generation")? > 0,
        })
    };
    best.map(read).transpose()
}

async fn live(tx: &mut Tx) -> Result<i64, Error> {
    tx.query_one(LIVE, params![]).await?.map_or(Ok(0), |row| row.get("live"))
}

/// What the last attempt left is still where it was: the next one would begin without it. Checks begin with the commit
/// that was pushed, whatever else there is to keep. A task does not wait for a sandbox that a person has terminated and
/// whose rescue fails.
fn keeping(alias: &str, since: &str) -> String {
    format!(
        "({alias}.stage = 'work' AND EXISTS (SELECT 1 FROM sandboxes s WHERE s.task_id = {alias}.id AND s.live = 0 \
         AND s.place IN ('wanted', 'up') AND s.ended_at > {since} \
         AND (s.status <> 'terminated' OR s.rescue_tries = 0)))"
    )
}

fn lane(row: &Row) -> Result<Lane, Error> {
    Ok(match row.get::<i64>("lane")? % WITHOUT_KEY {
        0 => Lane::Never,
        1 => Lane::Project,
        2 => Lane::Always,
        _ => return Err(Error::corrupt("lane", "none of 0, 1 and 2")),
    })
}
