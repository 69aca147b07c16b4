//! Tasks: what there is to do, and in which order. How their status changes is in `transition.rs`.

use omoi_protocol::{
    DependencyPolicy, FailureKind, Priority, ProjectId, SandboxId, Stage, TaskId, TaskStatus, TicketId,
    outcome::Outcome,
    sandbox::{Sandbox, TaskComplete, TaskCompleted},
    task::{NewTask, SetTimeout, Task, TaskPatch, TimeoutStatus, USUAL_PHASE},
};
use serde_json::{Value as Json, json};

use super::{
    Ask, Error, Store, Tx, dependency, dispatch, lapse, proof, reported_cost,
    sandbox::Reporter,
    transcript,
    transition::{Note, Stored, object, order, time_out, transition},
    value::{Row, params},
};
use crate::domain::{
    agent,
    dispatch::lane,
    lease::Word,
    money::Usd,
    score::{self, Facts, RankClass},
    task::TaskEvent,
};

pub(super) const COLUMNS: &str = "t.id, t.project_id, t.ticket_id, t.parent_task_id, t.phase_id, t.task_type, t.title, \
    t.description, t.priority, t.status, t.generation, t.branch_name, t.dependency_policy, t.unmet_dependencies, \
    t.dependants_pending, t.required_capabilities, t.owned_files, t.retry_count, t.max_retries, t.not_before, \
    t.timeout_seconds, t.deadline_at, t.execution_config, t.result, t.failure_kind, t.error_message, t.created_at, \
    t.updated_at, t.started_at, t.completed_at, t.waiting_reason, t.stage, \
    (SELECT m.spent FROM spend m WHERE m.level = 'task' AND m.entity_id = t.id) AS spent, \
    (SELECT m.reported FROM spend m WHERE m.level = 'task' AND m.entity_id = t.id) AS reported, \
    (SELECT m.reported_counted FROM spend m WHERE m.level = 'task' AND m.entity_id = t.id) AS reported_counted, \
    (SELECT m.reported_ignored FROM spend m WHERE m.level = 'task' AND m.entity_id = t.id) AS reported_ignored, \
    (SELECT string_agg(d.depends_on, ',') FROM dependencies d WHERE d.task_id = t.id) AS depends_on";
/// Who holds a task, or held it last.
pub(super) const HOLDER: &str = "(SELECT s.id FROM sandboxes s WHERE s.task_id = t.id ORDER BY s.generation DESC LIMIT 1) \
    AS sandbox_id, \
    (SELECT s.agent_id FROM sandboxes s WHERE s.task_id = t.id ORDER BY s.generation DESC LIMIT 1) AS agent_id";

/// Which tasks are wanted.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    pub status: Option<TaskStatus>,
    pub project_id: Option<ProjectId>,
    pub ticket_id: Option<TicketId>,
    pub phase_id: Option<String>,
    pub has_sandbox: Option<bool>,
}

impl Store {
    /// Newest first; `before` is the last id of the page before.
    pub async fn task_list(
        &self,
        filter: TaskFilter,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS}, {HOLDER} FROM tasks t"));
            if let Some(status) = filter.status {
                // Spelt out, so that it is seen which index holds it.
                ask.raw(&format!("t.status = '{status}'"));
            }
            ask.and_some("t.project_id =", filter.project_id.as_ref());
            ask.and_some("t.ticket_id =", filter.ticket_id.as_ref());
            ask.and_some("t.phase_id =", filter.phase_id.as_deref());
            match &filter.phase_id {
                // The index of phases leaves the usual one out: most tasks are of it, and each claim would write there.
                Some(phase) if phase == USUAL_PHASE => ask.raw("t.phase_id IS NOT NULL /* most */"),
                Some(_) => ask.raw(&format!("t.phase_id <> '{USUAL_PHASE}'")),
                None => {}
            }
            ask.and_some("t.id <", before.as_ref());
            match filter.has_sandbox {
                Some(true) => ask.raw("t.id IN (SELECT s.task_id FROM sandboxes s WHERE s.live = 1)"),
                Some(false) => ask.raw(
                    "NOT EXISTS (SELECT 1 FROM sandboxes s WHERE s.task_id = t.id AND s.live = 1) /* most */",
                ),
                None => {}
            }
            let (sql, values) = ask.order_limit("t.id DESC", limit);
            let rows = tx.query(&sql, values).await?;
            read_all(tx, &rows)
        })
        .await
    }

    pub async fn task_get(&self, id: &TaskId) -> Result<Task, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let mut task = get(tx, &id).await?;
            task.waiting_for = dispatch::waiting_for(tx, &task).await?;
            Ok(task)
        })
        .await
    }

    pub async fn task_create(&self, actor: &str, new: NewTask) -> Result<Task, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let id = insert(tx, &new).await?;
            tx.record(&actor, "task.create", "task", id.as_str(), json!({ "title": new.title }));
            get(tx, &id).await
        })
        .await
    }

    pub async fn task_update(&self, actor: &str, id: &TaskId, patch: TaskPatch) -> Result<Task, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let old = get(tx, &id).await?;
            let session = patch.execution_config.as_ref().and_then(agent::resumes);
            if let Some(session) = session.filter(|session| agent::resumes(&old.execution_config) != Some(*session)) {
                transcript::resumable(tx, &old.project_id, session).await?;
            }
            let sql = "UPDATE tasks SET title = COALESCE($2, title), description = COALESCE($3, description), \
                       priority = COALESCE($4, priority), deadline_at = COALESCE($5, deadline_at), \
                       execution_config = COALESCE($6, execution_config), waiting_reason = NULL, updated_at = $7, lane = $8 \
                       WHERE id = $1";
            let config = patch.execution_config.as_ref().unwrap_or(&old.execution_config);
            let values = params![
                &id,
                patch.title.as_deref(),
                patch.description.as_deref(),
                patch.priority.map(Priority::as_str),
                patch.deadline_at,
                patch.execution_config.clone().map(|config| Json::Object(config).to_string()),
                tx.now,
                lane(&old.required_capabilities, config) as i64
            ];
            tx.execute(sql, values).await?;
            rank(tx, std::slice::from_ref(&id)).await?;
            let changed = serde_json::to_value(&patch).unwrap_or(Json::Null);
            tx.tell("TASK_UPDATED", "task", id.as_str(), &changed);
            tx.record(&actor, "task.update", "task", id.as_str(), changed);
            get(tx, &id).await
        })
        .await
    }

    pub async fn task_cancel(&self, actor: &str, id: &TaskId, reason: Option<String>) -> Result<Task, Error> {
        let note = Note::error(reason.as_deref().unwrap_or("cancelled"));
        self.task_order(actor, id, "task.cancel", TaskEvent::Cancelled, note).await
    }

    /// Offers a failed or cancelled task afresh, on the branch it has.
    pub async fn task_retry(&self, actor: &str, id: &TaskId) -> Result<Task, Error> {
        self.task_order(actor, id, "task.retry", TaskEvent::Retried, Note::default()).await
    }

    async fn task_order(
        &self,
        actor: &str,
        id: &TaskId,
        action: &'static str,
        event: TaskEvent,
        note: Note,
    ) -> Result<Task, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            order(tx, &id, event.clone(), note.clone()).await?;
            tx.record(&actor, action, "task", id.as_str(), json!({ "reason": note.error }));
            get(tx, &id).await
        })
        .await
    }

    pub async fn task_set_timeout(
        &self,
        actor: &str,
        id: &TaskId,
        set: SetTimeout,
    ) -> Result<TimeoutStatus, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            must_exist(tx, &id).await?;
            let sql = "UPDATE tasks SET timeout_seconds = $2, updated_at = $3 WHERE id = $1";
            tx.execute(sql, params![&id, set.timeout_seconds, tx.now]).await?;
            tx.record(
                &actor,
                "task.set_timeout",
                "task",
                id.as_str(),
                json!({ "timeout_seconds": set.timeout_seconds }),
            );
            let now = tx.now;
            get(tx, &id).await.map(|task| timeout_status(&task, now))
        })
        .await
    }

    pub async fn task_timeout_status(&self, id: &TaskId) -> Result<TimeoutStatus, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let now = tx.now;
            get(tx, &id).await.map(|task| timeout_status(&task, now))
        })
        .await
    }

    /// A worker's direct word that its task is over. Only the sandbox that holds the task is believed.
    pub async fn task_complete(&self, from: &SandboxId, said: TaskComplete) -> Result<TaskCompleted, Error> {
        let from = from.clone();
        let bytes = said.result.as_ref().map_or(0, |result| result.to_string().len());
        self.write_of(Some(from.clone()), bytes, async move |tx| {
            let mut reporter = Reporter::load(tx, &from).await?;
            if reporter.task_id.as_ref() != Some(&said.task_id) {
                let detail = format!("sandbox {from} does not hold task {}", said.task_id);
                return Err(Error::conflict("not_the_owner", detail));
            }
            lapse::reclaim(tx, &mut reporter, Word::End).await?;
            let stored = Stored::load(tx, &said.task_id).await?;
            let generation = reporter.generation;
            let (event, mut note) = if said.success {
                let outcome = Outcome { commit: commit_in(said.result.as_ref()), ..Outcome::succeeded() };
                proof::succeeded(tx, &stored, &from, generation, outcome).await?
            } else {
                (stored.failure(tx, generation, FailureKind::Agent), Note::default())
            };
            if note.error.is_none() {
                note.error.clone_from(&said.error_message);
            }
            if stored.stage == Stage::Work {
                note.result = proof::own_words(object(said.result.clone()), note.result);
            }
            if let Err(refused) = transition(tx, &stored, event, note).await? {
                return Err(Error::conflict(refused.code(), lapse::explain(tx, &from).await?));
            }
            let new_status = get(tx, &said.task_id).await?.status;
            let unblocked_tasks = dependency::just_unblocked(tx, &said.task_id).await?;
            Ok(TaskCompleted {
                status: "accepted".to_owned(),
                task_id: said.task_id.clone(),
                new_status,
                unblocked_tasks,
            })
        })
        .await
    }

    /// The upkeep that time brings: retries whose wait is over, ranks that are due, running tasks out of time.
    /// At most `limit` of each; says how many rows changed.
    pub async fn task_upkeep(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let sql = "SELECT id FROM tasks WHERE status = 'pending' AND not_before <= $1 ORDER BY not_before LIMIT $2";
            let ready = ids(&tx.query(sql, params![tx.now, limit]).await?)?;
            let sql = "SELECT id FROM tasks WHERE status = 'pending' AND rank_next_at <= $1 \
                       ORDER BY rank_next_at LIMIT $2";
            let due = ids(&tx.query(sql, params![tx.now, limit]).await?)?;
            let sql = "SELECT id, started_at, timeout_seconds FROM tasks WHERE status = 'running' \
                       AND timeout_seconds IS NOT NULL AND started_at + timeout_seconds * 1000000 <= $1 LIMIT $2";
            let late = ids(&tx.query(sql, params![tx.now, limit]).await?)?;
            if !ready.is_empty() {
                let texts: Vec<String> = ready.iter().map(ToString::to_string).collect();
                tx.execute("UPDATE tasks SET not_before = NULL WHERE id = ANY($1)", params![texts]).await?;
            }
            rank(tx, &due).await?;
            for id in &late {
                time_out(tx, id).await?;
            }
            Ok(ready.len() + due.len() + late.len())
        })
        .await
    }
}

/// A new task. Its dependencies must exist and make no cycle.
pub(super) async fn insert(tx: &mut Tx, new: &NewTask) -> Result<TaskId, Error> {
    let project_id = project_of(tx, new.ticket_id.as_ref(), new.project_id.as_ref()).await?;
    for depends_on in &new.dependencies {
        must_exist(tx, depends_on).await?;
    }
    let id = TaskId::generate();
    insert_row(tx, &id, &project_id, new, Edges::default()).await?;
    if !new.dependencies.is_empty() {
        dependency::set(tx, &id, &new.dependencies).await?;
        dependency::fail_doomed(tx, std::slice::from_ref(&id)).await?;
    }
    Ok(id)
}

/// What is known of a new task's place in the graph when its row is written.
#[derive(Default, Clone, Copy)]
pub(super) struct Edges {
    pub unmet: i64,
    pub dependants: i64,
}

/// The row of a new task, without its dependencies.
pub(super) async fn insert_row(
    tx: &mut Tx,
    id: &TaskId,
    project_id: &ProjectId,
    new: &NewTask,
    edges: Edges,
) -> Result<(), Error> {
    if let Some(session) = agent::resumes(&new.execution_config) {
        transcript::resumable(tx, project_id, session).await?;
    }
    if let Some(parent) = &new.parent_task_id {
        must_exist(tx, parent).await?;
    }
    let max_retries = new.max_retries.unwrap_or(tx.rules.retry.max_retries);
    let facts = Facts {
        priority: new.priority,
        created_at: tx.now,
        deadline_at: new.deadline_at,
        dependants_pending: edges.dependants,
        retry_count: 0,
        max_retries,
    };
    let rank = score::rank(&facts, &tx.rules.weights, tx.now);
    let json = |value: Json| value.to_string();
    tx.execute(
        "INSERT INTO tasks (id, project_id, ticket_id, parent_task_id, phase_id, task_type, title, description, \
         priority, status, generation, dependency_policy, unmet_dependencies, dependants_pending, \
         required_capabilities, owned_files, retry_count, max_retries, timeout_seconds, deadline_at, \
         execution_config, rank_class, rank, rank_next_at, created_at, updated_at, lane) VALUES ($1, $2, $3, $4, $5, $6, \
         $7, $8, $9, 'pending', 0, $10, $11, $12, $13, $14, 0, $15, $16, $17, $18, $19, $20, $21, $22, $22, $23)",
        params![
            id,
            project_id,
            new.ticket_id.as_ref(),
            new.parent_task_id.as_ref(),
            new.phase_id.as_str(),
            new.task_type.as_str(),
            new.title.as_str(),
            new.description.as_str(),
            new.priority.as_str(),
            new.dependency_policy.as_str(),
            edges.unmet,
            edges.dependants,
            json(json!(new.required_capabilities)),
            json(json!(new.owned_files)),
            max_retries,
            new.timeout_seconds,
            new.deadline_at,
            json(Json::Object(new.execution_config.clone())),
            class_of(&rank.class),
            rank.key,
            rank.next_at,
            tx.now,
            lane(&new.required_capabilities, &new.execution_config) as i64
        ],
    )
    .await?;
    tx.tell(
        "TASK_CREATED",
        "task",
        id.as_str(),
        &json!({
            "task_id": id, "project_id": project_id, "ticket_id": new.ticket_id, "phase_id": new.phase_id,
            "task_type": new.task_type, "title": new.title, "priority": new.priority, "status": "pending",
        }),
    );
    Ok(())
}

/// The project of a ticket, or else the one that is named.
pub(super) async fn project_of(
    tx: &mut Tx,
    ticket: Option<&TicketId>,
    project: Option<&ProjectId>,
) -> Result<ProjectId, Error> {
    match (ticket, project) {
        (Some(ticket_id), named) => {
            let row =
                tx.query_one("SELECT project_id FROM tickets WHERE id = $1", params![ticket_id]).await?;
            let of: ProjectId =
                row.ok_or_else(|| Error::not_found("ticket", ticket_id))?.parse("project_id")?;
            if named.is_some_and(|named| *named != of) {
                let detail = format!("ticket {ticket_id} belongs to project {of}");
                return Err(Error::invalid("project_mismatch", detail));
            }
            Ok(of)
        }
        (None, Some(project_id)) => {
            let row =
                tx.query_one("SELECT 1 AS found FROM projects WHERE id = $1", params![project_id]).await?;
            row.map(|_| project_id.clone()).ok_or_else(|| Error::not_found("project", project_id))
        }
        (None, None) => Err(Error::invalid("project_missing", "name a project_id or a ticket_id")),
    }
}

/// Computes the order of claiming anew for these tasks.
pub(super) async fn rank(tx: &mut Tx, tasks: &[TaskId]) -> Result<(), Error> {
    for id in tasks {
        let sql = "SELECT priority, created_at, deadline_at, dependants_pending, retry_count, max_retries \
                   FROM tasks WHERE id = $1";
        let Some(row) = tx.query_one(sql, params![id]).await? else { continue };
        let rank = score::rank(&facts(&row)?, &tx.rules.weights, tx.now);
        let sql = "UPDATE tasks SET rank_class = $2, rank = $3, rank_next_at = $4 WHERE id = $1";
        tx.execute(sql, params![id, class_of(&rank.class), rank.key, rank.next_at]).await?;
    }
    Ok(())
}

fn class_of(class: &RankClass) -> i64 {
    match class {
        RankClass::Aging => 0,
        RankClass::Aged => 1,
    }
}

pub(super) fn facts(row: &Row) -> Result<Facts, Error> {
    Ok(Facts {
        priority: row.parse("priority")?,
        created_at: row.get("created_at")?,
        deadline_at: row.get("deadline_at")?,
        dependants_pending: row.get("dependants_pending")?,
        retry_count: row.get("retry_count")?,
        max_retries: row.get("max_retries")?,
    })
}

pub(super) async fn must_exist(tx: &mut Tx, id: &TaskId) -> Result<(), Error> {
    let row = tx.query_one("SELECT 1 AS found FROM tasks WHERE id = $1", params![id]).await?;
    row.map(|_| ()).ok_or_else(|| Error::not_found("task", id))
}

pub(super) async fn get(tx: &mut Tx, id: &TaskId) -> Result<Task, Error> {
    let sql = format!("SELECT {COLUMNS}, {HOLDER} FROM tasks t WHERE t.id = $1");
    let row = tx.query_one(&sql, params![id]).await?;
    of(tx, &row.ok_or_else(|| Error::not_found("task", id))?)
}

/// From its row, with its holder.
pub(super) fn of(tx: &Tx, row: &Row) -> Result<Task, Error> {
    read(row, score::score(&facts(row)?, &tx.rules.weights, tx.now))
}

/// Those of these that exist, in no order.
pub(super) async fn get_all(tx: &mut Tx, ids: Vec<String>) -> Result<Vec<Task>, Error> {
    let sql = format!("SELECT {COLUMNS}, {HOLDER} FROM tasks t WHERE t.id = ANY($1)");
    let rows = tx.query(&sql, params![ids]).await?;
    read_all(tx, &rows)
}

/// A task as its new holder finds it, from its row as it was offered.
pub(super) fn assigned(tx: &Tx, offered: &Row, to: &Sandbox) -> Result<Task, Error> {
    let score = score::score(&facts(offered)?, &tx.rules.weights, tx.now);
    Ok(Task {
        status: TaskStatus::Assigned,
        sandbox_id: Some(to.id.clone()),
        assigned_agent_id: to.agent_id.clone(),
        branch_name: to.branch_name.clone(),
        not_before: None,
        error_message: None,
        updated_at: tx.now,
        ..read(offered, score)?
    })
}

fn read_all(tx: &Tx, rows: &[Row]) -> Result<Vec<Task>, Error> {
    rows.iter().map(|row| of(tx, row)).collect()
}

fn read(row: &Row, score: f64) -> Result<Task, Error> {
    let status: TaskStatus = row.parse("status")?;
    // What is offered belongs to nobody, whoever held it before.
    let held = status != TaskStatus::Pending;
    let result: Option<String> = row.get("result")?;
    let depends_on: Option<String> = row.get("depends_on")?;
    let depends_on = depends_on.iter().flat_map(|ids| ids.split(','));
    let mut dependencies: Vec<TaskId> = depends_on
        .map(|id| id.parse().map_err(|_| Error::corrupt("depends_on", "not readable")))
        .collect::<Result<_, _>>()?;
    dependencies.sort();
    Ok(Task {
        id: row.parse("id")?,
        project_id: row.parse("project_id")?,
        ticket_id: row.parse_opt("ticket_id")?,
        parent_task_id: row.parse_opt("parent_task_id")?,
        phase_id: row.get("phase_id")?,
        task_type: row.get("task_type")?,
        title: row.get("title")?,
        description: row.get("description")?,
        priority: row.parse("priority")?,
        status,
        stage: row.parse("stage")?,
        score,
        sandbox_id: if held { row.parse_opt("sandbox_id")? } else { None },
        assigned_agent_id: if held { row.parse_opt("agent_id")? } else { None },
        branch_name: row.get("branch_name")?,
        dependencies,
        unmet_dependencies: row.get("unmet_dependencies")?,
        dependency_policy: row.parse::<DependencyPolicy>("dependency_policy")?,
        required_capabilities: row.json("required_capabilities")?,
        owned_files: row.json("owned_files")?,
        retry_count: row.get("retry_count")?,
        max_retries: row.get("max_retries")?,
        not_before: row.get("not_before")?,
        timeout_seconds: row.get("timeout_seconds")?,
        deadline_at: row.get("deadline_at")?,
        execution_config: row.json("execution_config")?,
        result: result.and_then(|text| serde_json::from_str(&text).ok()),
        failure_kind: row.parse_opt("failure_kind")?,
        error_message: row.get("error_message")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        started_at: row.get("started_at")?,
        completed_at: row.get("completed_at")?,
        waiting_for: None,
        // Nothing is waited for at the end.
        waiting_reason: row.get::<Option<String>>("waiting_reason")?.filter(|_| !status.is_final()),
        cost_usd: Usd::from_nanos(row.get::<Option<i64>>("spent")?.unwrap_or(0)).as_f64(),
        reported_cost: reported_cost::read(row)?,
    })
}

fn commit_in(result: Option<&Json>) -> Option<String> {
    result?.get("commit")?.as_str().map(str::to_owned)
}

fn timeout_status(task: &Task, now: jiff::Timestamp) -> TimeoutStatus {
    let running = matches!(task.status, TaskStatus::Assigned | TaskStatus::Running);
    let until = task.completed_at.unwrap_or(now);
    let elapsed = task.started_at.map(|from| until.duration_since(from).as_secs());
    let left = task.timeout_seconds.zip(elapsed).map(|(limit, elapsed)| limit - elapsed);
    TimeoutStatus {
        task_id: task.id.clone(),
        status: task.status,
        timeout_seconds: task.timeout_seconds,
        elapsed_seconds: elapsed,
        time_remaining: left.map(|left| left.max(0)),
        is_timed_out: running && left.is_some_and(|left| left <= 0),
        can_cancel: !task.status.is_final(),
    }
}

fn ids(rows: &[Row]) -> Result<Vec<TaskId>, Error> {
    rows.iter().map(|row| row.parse("id")).collect()
}
