//! Claiming: the best ready task, a sandbox row, its lease and its token, in one transaction.
//!
//! The best task is found among the first of each project and class by an index (see `domain::score`), and among the
//! few whose deadline is near; so the cost does not grow with the number of tasks that wait. Where one of those asks for
//! what the agent cannot do, the first are looked for again among the tasks that ask for something else, by the same
//! index and in the same order, until the agent can do all of them.

use std::collections::HashMap;

use jiff::Timestamp;
use omoi_protocol::{
    AgentId, BudgetLevel, Priority, ProjectId, ProviderKind, SandboxId, Stage, TaskId, TicketType,
    agent::Claim, sandbox::SandboxAttached,
};
use serde_json::json;

use super::{
    Error, Store, Tx,
    account::{self, Attempt},
    offer, project,
    sandbox::{self, NewSandbox},
    task::{self, COLUMNS, HOLDER},
    ticket,
    tx::{Conn, Statement},
    value::{Row, Value, params},
};
use crate::domain::{
    branch::{self, Label},
    score,
    task::TaskState,
};

pub(super) const READY: &str = "status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL";
/// What an agent elsewhere may take. Checks are for nobody to report who could also have done the work.
const CLAIMABLE: &str =
    "status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL AND stage = 'work'";
/// A project in which another task may run; `$1` is the limit of those without their own.
pub(super) const OPEN: &str =
    "p.archived = 0 AND p.paused = 0 AND p.live_sandboxes < COALESCE(p.max_concurrent, $1)";
/// What names the branch of a task besides the task itself.
pub(super) const TICKET_COLUMNS: &str = "k.number, k.ticket_type, k.priority AS ticket_priority";
pub(super) const TICKET: &str = "LEFT JOIN tickets k ON k.id = t.ticket_id";
/// Tasks near their deadline that one claim looks at.
pub(super) const NEAR_DEADLINE_MAX: usize = 50;
/// How often one claim looks again where the first tasks ask for more than the agent can do. Each time it passes over all
/// tasks, however many, that ask for the same as one of those; so what stands behind more different wishes than this waits
/// until some of them are gone.
const LOOKS_MAX: usize = 64;
/// Tasks of one project without budget that one claim looks at while another project has tasks.
const PROJECT_LOOKS_MAX: usize = 16;

/// A task as its new holder takes it.
pub(super) struct Taken {
    pub id: TaskId,
    pub project_id: ProjectId,
    pub generation: i64,
    pub branch_name: String,
    pub stage: Stage,
}

impl Taken {
    /// What makes it so.
    pub fn statement(&self, now: Timestamp) -> Statement {
        let sql = "UPDATE tasks SET status = 'assigned', generation = $2, branch_name = $3, not_before = NULL, \
                   error_message = NULL, updated_at = $4 WHERE id = $1";
        (sql, params![&self.id, self.generation, self.branch_name.as_str(), now])
    }
}

impl Store {
    /// The best task that the agent can do, or none.
    pub async fn task_claim_next(&self, agent: &AgentId) -> Result<Option<Claim>, Error> {
        let agent = agent.clone();
        self.write(async move |tx| {
            let Some(row) = best(tx, &agent).await? else { return Ok(None) };
            let sandbox = NewSandbox {
                id: SandboxId::generate(),
                provider: ProviderKind::External,
                agent_id: Some(&agent),
                labels: "{}".to_owned(),
                lease_seconds: None,
                order: None,
            };
            // The offers know what a claim changes.
            let offers = tx.offers.take();
            let attached = take(tx, &row, sandbox).await?;
            tx.offers = offers.map(|offers| offers.without(&row)).transpose()?;
            // The row is at hand, so nothing more is asked: on PostgreSQL all writes go out with the commit.
            let task = task::assigned(tx, &row, &attached.sandbox)?;
            Ok(Some(Claim { task, sandbox: attached.sandbox, token: attached.token }))
        })
        .await
    }
}

/// A task with all that taking it needs.
pub(super) async fn look_up(tx: &mut Tx, id: &TaskId) -> Result<Row, Error> {
    let sql = format!("SELECT {COLUMNS}, {HOLDER}, {TICKET_COLUMNS} FROM tasks t {TICKET} WHERE t.id = $1");
    tx.query_one(&sql, params![id]).await?.ok_or_else(|| Error::not_found("task", id))
}

/// Takes one named task for a new sandbox.
pub(super) async fn claim_this(
    tx: &mut Tx,
    id: &TaskId,
    sandbox: NewSandbox<'_>,
) -> Result<SandboxAttached, Error> {
    let row = look_up(tx, id).await?;
    project::open(tx, &row.parse("project_id")?).await?;
    claim_found(tx, &row, sandbox).await
}

/// The same, for one that was looked up in this transaction, in a project that is open.
pub(super) async fn claim_found(
    tx: &mut Tx,
    row: &Row,
    sandbox: NewSandbox<'_>,
) -> Result<SandboxAttached, Error> {
    let id: TaskId = row.parse("id")?;
    let status: String = row.get("status")?;
    if status != TaskState::Pending.status().as_str() {
        return Err(Error::conflict("task_held", format!("task {id} is {status}, so it cannot be taken")));
    }
    if row.get::<i64>("unmet_dependencies")? > 0 {
        let detail = format!("task {id} waits for others to be completed first");
        return Err(Error::conflict("dependencies_unmet", detail));
    }
    if sandbox.order.is_none() && row.parse::<Stage>("stage")? == Stage::Check {
        let detail = format!("task {id} is at its checks, which run in a sandbox that is made here");
        return Err(Error::conflict("checks_alone", detail));
    }
    // The gateway refuses the calls of one that is made here.
    if sandbox.order.is_none()
        && let Attempt::Exceeded(stop) = account::attempt(tx, row).await?
    {
        let limit = stop.limit.unwrap_or_default();
        let detail = format!(
            "the budget of the {} is used up: {} of {limit} USD are spent; raise it before task {id} has another \
             attempt",
            stop.level, stop.spent
        );
        return Err(Error::conflict("budget_exceeded", detail));
    }
    take(tx, row, sandbox).await
}

/// A pending task, its sandbox, lease and token, all in the caller's transaction.
async fn take(tx: &mut Tx, row: &Row, sandbox: NewSandbox<'_>) -> Result<SandboxAttached, Error> {
    let id: TaskId = row.parse("id")?;
    let taken = Taken {
        project_id: row.parse("project_id")?,
        generation: row.get::<i64>("generation")? + 1,
        branch_name: branch_of(tx, &id, row).await?,
        stage: row.parse("stage")?,
        id,
    };
    let id = &taken.id;
    let attached = sandbox::insert(tx, sandbox, Some(&taken)).await?;
    let (holder, agent) = (&attached.sandbox.id, &attached.sandbox.agent_id);
    tx.tell(
        "TASK_ASSIGNED",
        "task",
        id.as_str(),
        &json!({
            "task_id": id, "project_id": taken.project_id, "status": "assigned", "old_status": "pending",
            "stage": taken.stage,
            "sandbox_id": holder, "agent_id": agent, "branch_name": taken.branch_name,
        }),
    );
    if let Some(ticket_id) = row.parse_opt("ticket_id")? {
        ticket::follow(tx, &ticket_id).await?;
    }
    Ok(attached)
}

/// A retry goes on with the branch that the task has.
async fn branch_of(tx: &mut Tx, id: &TaskId, row: &Row) -> Result<String, Error> {
    if let Some(own) = row.get::<Option<String>>("branch_name")? {
        return Ok(own);
    }
    let kind = row.parse_opt("ticket_type")?.unwrap_or(TicketType::Feature);
    let number: Option<i64> = row.get("number")?;
    // The end of an id differs between tasks made in one moment; its start tells the time only.
    let short = &id.as_str()[id.as_str().len().saturating_sub(12)..];
    let label = match number.and_then(|n| u32::try_from(n).ok()) {
        Some(number) => Label::Ticket(number),
        None => Label::Task(short),
    };
    // How urgent a bug is, its ticket says; a part of the work may have its own place in the queue.
    let priority = match row.parse_opt("ticket_priority")? {
        Some(priority) => priority,
        None => row.parse::<Priority>("priority")?,
    };
    let name = branch::name(kind, priority, label, &row.get::<String>("title")?);
    if matches!(label, Label::Task(_)) {
        // Named by its own id, it has no namesakes.
        return Ok(name);
    }
    let candidates: Vec<String> = branch::candidates(&name).collect();
    let sql = "SELECT branch_name FROM tasks WHERE project_id = $1 AND branch_name = ANY($2)";
    let taken = tx.query(sql, params![row.get::<String>("project_id")?, candidates]).await?;
    let taken: Vec<String> = taken.iter().map(|row| row.get("branch_name")).collect::<Result<_, _>>()?;
    Ok(branch::unique(&name, short, |candidate| taken.iter().any(|name| name == candidate)))
}

/// The best task of all that the agent can do.
async fn best(tx: &mut Tx, agent: &AgentId) -> Result<Option<Row>, Error> {
    let (mut rows, able) = match tx.conn {
        Conn::Sqlite(_) => first(tx, agent, &PassedOver::default()).await?,
        Conn::Postgres(_) => offer::first(tx, agent).await?,
    };
    let mut passed_over = PassedOver::default();
    for _ in 0..LOOKS_MAX {
        let beyond = rows.iter().filter(|row| !fits(row, &able)).map(|row| row.get("required_capabilities"));
        let mut beyond = beyond.collect::<Result<Vec<String>, _>>()?;
        if beyond.is_empty() {
            let Some(best) = highest(tx, rows.iter().cloned())? else {
                if passed_over.limited.is_empty() {
                    return Ok(None);
                }
                passed_over.limited.clear();
                (rows, _) = first(tx, agent, &passed_over).await?;
                continue;
            };
            match account::attempt(tx, &best).await? {
                Attempt::Affordable => return Ok(Some(best)),
                Attempt::Exceeded(stop) => {
                    let project: String = best.get("project_id")?;
                    let is_other =
                        |row: &Row| row.get::<String>("project_id").is_ok_and(|other| other != project);
                    passed_over.add(&best, stop.level)?;
                    if rows.iter().any(is_other) {
                        passed_over.limit(project);
                    }
                }
            }
        }
        beyond.sort();
        beyond.dedup();
        passed_over.capabilities.append(&mut beyond);
        (rows, _) = first(tx, agent, &passed_over).await?;
    }
    let Some(best) = highest(tx, rows.into_iter().filter(|row| fits(row, &able)))? else { return Ok(None) };
    Ok(matches!(account::attempt(tx, &best).await?, Attempt::Affordable).then_some(best))
}

/// What one claim does not look at again.
#[derive(Default)]
struct PassedOver {
    /// Lists of capabilities: tasks that ask for exactly one of these.
    capabilities: Vec<String>,
    /// Tasks whose budget is used up.
    tasks: Vec<String>,
    /// Projects whose budget is used up.
    projects: Vec<String>,
    /// How many of the tasks are of each project.
    exceeded: HashMap<String, usize>,
    /// Projects with many such tasks, until no other project has a task.
    limited: Vec<String>,
}

impl PassedOver {
    fn add(&mut self, row: &Row, level: BudgetLevel) -> Result<(), Error> {
        match level {
            BudgetLevel::Project => self.projects.push(row.get("project_id")?),
            BudgetLevel::Task | BudgetLevel::Attempt => {
                self.tasks.push(row.get("id")?);
                *self.exceeded.entry(row.get("project_id")?).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Leaves the looks that remain to other projects, once a project has had its part of them.
    fn limit(&mut self, project: String) {
        if self.exceeded.get(&project).is_some_and(|count| *count >= PROJECT_LOOKS_MAX) {
            self.limited.push(project);
        }
    }

    /// Conditions on a task of this name, and their values, which follow the third.
    fn conditions(&self, alias: &str) -> (String, Vec<Value>) {
        let lists = [
            ("required_capabilities", &self.capabilities),
            ("id", &self.tasks),
            ("project_id", &self.projects),
            ("project_id", &self.limited),
        ];
        let (mut sql, mut values) = (String::new(), Vec::new());
        for (column, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            values.push(list.clone().into());
            sql.push_str(&format!(" AND {alias}.{column} <> ALL(${})", 3 + values.len()));
        }
        (sql, values)
    }
}

/// The first task of each project and class, those near their deadline, and what the agent can do.
async fn first(
    tx: &mut Tx,
    agent: &AgentId,
    passed_over: &PassedOver,
) -> Result<(Vec<Row>, Vec<String>), Error> {
    let of = |alias: &str| format!("{}{}", claimable(alias), passed_over.conditions(alias).0);
    // The first of each by the index alone; a join would leave the planner free to read them all.
    let first = |class: i64| {
        format!(
            "SELECT (SELECT x.id FROM tasks x WHERE x.project_id = p.id AND x.rank_class = {class} AND {} \
             ORDER BY x.rank DESC, x.id LIMIT 1) AS id FROM projects p WHERE {OPEN}",
            of("x")
        )
    };
    let near = format!(
        "SELECT t.id FROM tasks t JOIN projects p ON p.id = t.project_id WHERE {} \
         AND t.deadline_at IS NOT NULL AND t.deadline_at <= $2 AND {OPEN} ORDER BY t.deadline_at \
         LIMIT {NEAR_DEADLINE_MAX}",
        of("t")
    );
    let sql = format!(
        "SELECT {COLUMNS}, {TICKET_COLUMNS}, a.capabilities AS able FROM agents a LEFT JOIN \
         ({} UNION ALL {} UNION ALL SELECT id FROM ({near}) AS near) AS front ON front.id IS NOT NULL \
         LEFT JOIN tasks t ON t.id = front.id {TICKET} WHERE a.id = $3",
        first(0),
        first(1)
    );
    let window = tx.now + tx.rules.weights.deadline_window;
    let mut values = params![tx.rules.max_concurrent_per_project, window, agent];
    values.extend(passed_over.conditions("t").1);
    let mut rows = tx.query(&sql, values).await?;
    let able = rows.first().ok_or_else(|| Error::not_found("agent", agent))?.json("able")?;
    rows.retain(|row| row.get::<Option<String>>("id").is_ok_and(|id| id.is_some()));
    Ok((rows, able))
}

/// The tasks of this name in a statement that an agent elsewhere may take.
pub(super) fn claimable(alias: &str) -> String {
    format!("{alias}.{}", CLAIMABLE.replace("AND ", &format!("AND {alias}.")))
}

/// Highest score, and of equals the oldest.
pub(super) fn highest(tx: &Tx, rows: impl Iterator<Item = Row>) -> Result<Option<Row>, Error> {
    let mut best: Option<(f64, String, Row)> = None;
    for row in rows {
        let score = score::score(&task::facts(&row)?, &tx.rules.weights, tx.now);
        let id: String = row.get("id")?;
        let better =
            best.as_ref().is_none_or(|(top, oldest, _)| score > *top || (score == *top && id < *oldest));
        if better {
            best = Some((score, id, row));
        }
    }
    Ok(best.map(|(_, _, row)| row))
}

/// Whether an agent elsewhere can do it.
fn fits(row: &Row, able: &[String]) -> bool {
    let wanted: Vec<String> = row.json("required_capabilities").unwrap_or_default();
    wanted.iter().all(|w| able.contains(w))
}
