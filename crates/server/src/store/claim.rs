//! Claiming: the best ready task, a sandbox row, its lease and its token, in one transaction.
//!
//! The best task is found among the first of each project and class by an index (see `domain::score`), and among the
//! few whose deadline is near; so the cost does not grow with the number of tasks that wait.

use omoi_protocol::{
    AgentId, Priority, ProjectId, ProviderKind, SandboxId, TaskId, TicketType, agent::Claim,
    sandbox::SandboxAttached,
};
use serde_json::json;

use super::{
    Error, Store, Tx,
    sandbox::{self, NewSandbox},
    task, ticket,
    value::{Row, params},
};
use crate::domain::{
    branch::{self, Label},
    score,
    task::TaskState,
};

const READY: &str = "status = 'pending' AND unmet_dependencies = 0 AND not_before IS NULL";
const FACTS: &str = "t.id, t.required_capabilities, t.priority, t.created_at, t.deadline_at, t.dependants_pending, \
                     t.retry_count, t.max_retries";
/// Tasks near their deadline that one claim looks at.
const NEAR_DEADLINE_MAX: usize = 50;
/// Where the first tasks ask for more than the claimer can do, this many are looked through.
const PASSED_OVER_MAX: usize = 2000;

/// Tasks of one ticket and title that may exist before their branches take longer names.
const NAMESAKES_MAX: usize = 64;

/// A task as its new holder takes it.
pub(super) struct Taken {
    pub id: TaskId,
    pub project_id: ProjectId,
    pub generation: i64,
    pub branch_name: String,
}

impl Store {
    /// The best task that the agent can do, or none.
    pub async fn task_claim_next(&self, agent: &AgentId) -> Result<Option<Claim>, Error> {
        let agent = agent.clone();
        self.write(async move |tx| {
            let sql = "SELECT capabilities, status FROM agents WHERE id = $1";
            let row = tx.query_one(sql, params![&agent]).await?;
            let able: Vec<String> =
                row.ok_or_else(|| Error::not_found("agent", &agent))?.json("capabilities")?;
            let Some(id) = best(tx, &able).await? else { return Ok(None) };
            let sandbox = NewSandbox {
                id: SandboxId::generate(),
                provider: ProviderKind::External,
                agent_id: Some(&agent),
                labels: "{}".to_owned(),
            };
            let attached = claim_this(tx, &id, sandbox).await?;
            let task = task::get(tx, &id).await?;
            Ok(Some(Claim { task, sandbox: attached.sandbox, token: attached.token }))
        })
        .await
    }
}

/// Takes one named task for a new sandbox.
pub(super) async fn claim_this(
    tx: &mut Tx,
    id: &TaskId,
    sandbox: NewSandbox<'_>,
) -> Result<SandboxAttached, Error> {
    let sql = "SELECT t.project_id, t.status, t.generation, t.branch_name, t.title, t.priority, t.unmet_dependencies, \
               t.ticket_id, k.number, k.ticket_type FROM tasks t LEFT JOIN tickets k ON k.id = t.ticket_id WHERE t.id = $1";
    let row = tx.query_one(sql, params![id]).await?.ok_or_else(|| Error::not_found("task", id))?;
    let status: String = row.get("status")?;
    if status != TaskState::Pending.status().as_str() {
        return Err(Error::conflict("task_held", format!("task {id} is {status}, so it cannot be taken")));
    }
    if row.get::<i64>("unmet_dependencies")? > 0 {
        let detail = format!("task {id} waits for others to be completed first");
        return Err(Error::conflict("dependencies_unmet", detail));
    }
    let taken = Taken {
        id: id.clone(),
        project_id: row.parse("project_id")?,
        generation: row.get::<i64>("generation")? + 1,
        branch_name: branch_of(tx, id, &row).await?,
    };
    let sql = "UPDATE tasks SET status = 'assigned', generation = $2, branch_name = $3, not_before = NULL, \
               error_message = NULL, updated_at = $4 WHERE id = $1";
    tx.execute(sql, params![id, taken.generation, taken.branch_name.as_str(), tx.now]).await?;
    let attached = sandbox::insert(tx, sandbox, Some(&taken)).await?;
    let (holder, agent) = (&attached.sandbox.id, &attached.sandbox.agent_id);
    tx.tell(
        "TASK_ASSIGNED",
        "task",
        id.as_str(),
        &json!({
            "task_id": id, "project_id": taken.project_id, "status": "assigned", "old_status": "pending",
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
    let name = branch::name(kind, row.parse::<Priority>("priority")?, label, &row.get::<String>("title")?);
    if matches!(label, Label::Task(_)) {
        // Named by its own id, it has no namesakes.
        return Ok(name);
    }
    let numbered = (2..=NAMESAKES_MAX).map(|n| format!("{name}-{n}"));
    let candidates: Vec<String> = std::iter::once(name.clone()).chain(numbered).collect();
    let sql = "SELECT branch_name FROM tasks WHERE project_id = $1 AND branch_name = ANY($2)";
    let taken = tx.query(sql, params![row.get::<String>("project_id")?, candidates]).await?;
    let taken: Vec<String> = taken.iter().map(|row| row.get("branch_name")).collect::<Result<_, _>>()?;
    Ok(branch::unique(&name, |candidate| taken.iter().any(|name| name == candidate)))
}

async fn best(tx: &mut Tx, able: &[String]) -> Result<Option<TaskId>, Error> {
    let open = "p.archived = 0 AND p.live_sandboxes < COALESCE(p.max_concurrent, $1)";
    let first = |class: i64| {
        format!(
            "SELECT {FACTS} FROM projects p JOIN tasks t ON t.id = (SELECT x.id FROM tasks x \
             WHERE x.project_id = p.id AND x.rank_class = {class} AND x.{} \
             ORDER BY x.rank DESC, x.id LIMIT 1) WHERE {open}",
            READY.replace("AND ", "AND x.")
        )
    };
    let near = format!(
        "SELECT {FACTS} FROM tasks t JOIN projects p ON p.id = t.project_id WHERE t.{} \
         AND t.deadline_at IS NOT NULL AND t.deadline_at <= $2 AND {open} ORDER BY t.deadline_at LIMIT {NEAR_DEADLINE_MAX}",
        READY.replace("AND ", "AND t.")
    );
    let per_project = tx.rules.max_concurrent_per_project;
    let window = tx.now + tx.rules.weights.deadline_window;
    let sql = format!("{} UNION ALL {} UNION ALL SELECT * FROM ({near}) AS near", first(0), first(1));
    let mut rows = tx.query(&sql, params![per_project, window]).await?;
    if let Some(row) = rows.iter().find(|row| !fits(row, able)) {
        tracing::debug!(task.id = ?row.get::<String>("id"), "a task asks for more than the claimer can do");
        rows = passed_over(tx, open, per_project).await?;
    }
    let mut best: Option<(f64, TaskId)> = None;
    for row in rows.iter().filter(|row| fits(row, able)) {
        let score = score::score(&task::facts(row)?, &tx.rules.weights, tx.now);
        let id: TaskId = row.parse("id")?;
        let better =
            best.as_ref().is_none_or(|(top, top_id)| score > *top || (score == *top && id < *top_id));
        if better {
            best = Some((score, id));
        }
    }
    Ok(best.map(|(_, id)| id))
}

/// The long way round: the first tasks of all, in order.
async fn passed_over(tx: &mut Tx, open: &str, per_project: i64) -> Result<Vec<Row>, Error> {
    let sql = format!(
        "SELECT {FACTS} FROM tasks t JOIN projects p ON p.id = t.project_id WHERE t.{} AND {open} \
         ORDER BY t.rank_class DESC, t.rank DESC LIMIT {PASSED_OVER_MAX}",
        READY.replace("AND ", "AND t.")
    );
    tx.query(&sql, params![per_project]).await
}

fn fits(row: &Row, able: &[String]) -> bool {
    let wanted: Vec<String> = row.json("required_capabilities").unwrap_or_default();
    wanted.iter().all(|w| able.contains(w))
}
