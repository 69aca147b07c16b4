//! Who pays for a sandbox's model calls, how each of them stands, and what becomes of a task whose money is used up.

use omoi_protocol::{BudgetLevel, ProjectId, SandboxId, TaskId, TaskStatus};
use serde_json::{Map, Value as Json, json};

use super::{
    Error, Tx, system,
    value::{Row, params},
};
use crate::domain::{
    budget::{self, Standing, Verdict},
    money::Usd,
};

/// What a task waits for when a budget is used up.
const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// Who pays for a sandbox's calls, and how they stand.
pub(super) struct Account {
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    /// Whether the sandbox holds its lease.
    pub holds: bool,
    /// Whether the task is not over.
    open: bool,
    waiting: bool,
    /// From the narrowest level on.
    pub standings: Vec<Standing>,
}

impl Account {
    /// Of a sandbox that holds its lease; of another one there is nothing to pay.
    pub async fn load(tx: &mut Tx, sandbox: &SandboxId) -> Result<Self, Error> {
        let account = Self::find(tx, sandbox).await?;
        if account.holds { Ok(account) } else { Err(Error::TokenEnded) }
    }

    pub async fn find(tx: &mut Tx, sandbox: &SandboxId) -> Result<Self, Error> {
        let sql = "SELECT s.live, s.lease_expires_at, s.task_id, s.project_id, t.execution_config, t.waiting_reason, \
                   t.status, p.settings, a.spent - a.judged AS attempt_spent, a.reserved AS attempt_reserved, \
                   a.reported_counted AS attempt_reported, b.spent - b.judged AS task_spent, \
                   b.reserved AS task_reserved, b.reported_counted AS task_reported, c.spent AS project_spent, \
                   c.reserved AS project_reserved, c.reported_counted AS project_reported FROM sandboxes s LEFT JOIN tasks t ON t.id = s.task_id LEFT JOIN projects p ON p.id = s.project_id \
                   LEFT JOIN spend a ON a.level = 'attempt' AND a.entity_id = s.id \
                   LEFT JOIN spend b ON b.level = 'task' AND b.entity_id = s.task_id \
                   LEFT JOIN spend c ON c.level = 'project' AND c.entity_id = s.project_id WHERE s.id = $1";
        let row = tx.query_one(sql, params![sandbox]).await?;
        let row = row.ok_or_else(|| Error::not_found("sandbox", sandbox))?;
        let lease: Option<jiff::Timestamp> = row.get("lease_expires_at")?;
        let holds = row.get::<bool>("live")? && lease.is_some_and(|end| end > tx.now);
        let status: Option<TaskStatus> = row.parse_opt("status")?;
        let (task, project) = (settings(&row, "execution_config")?, settings(&row, "settings")?);
        let standing = |level: BudgetLevel| {
            let amount = |what: &str| -> Result<Usd, Error> {
                let nanos: Option<i64> = row.get(&format!("{level}_{what}"))?;
                Ok(Usd::from_nanos(nanos.unwrap_or(0)))
            };
            let limit = budget::limit(level, &tx.rules.budgets, &task, &project);
            let (spent, reported) = (amount("spent")?, amount("reported")?);
            Ok(Standing { level, limit, spent: spent + reported, reported, reserved: amount("reserved")? })
        };
        Ok(Self {
            sandbox_id: sandbox.clone(),
            standings: BudgetLevel::ALL.iter().copied().map(standing).collect::<Result<_, Error>>()?,
            task_id: row.parse_opt("task_id")?,
            project_id: row.parse_opt("project_id")?,
            holds,
            open: status.is_some_and(|status| !status.is_final()),
            waiting: row.get::<Option<String>>("waiting_reason")?.is_some_and(|reason| is_budget(&reason)),
        })
    }

    /// The budgets that are used up. The one of an attempt that is over stops nothing any more.
    pub fn exceeded(&self) -> Vec<Standing> {
        let Verdict::Exceeded(mut stops) = budget::judge(&self.standings) else { return Vec::new() };
        stops.retain(|stop| self.holds || stop.level != BudgetLevel::Attempt);
        stops
    }

    /// Tells the sandbox once of each budget that is used up, and marks its task.
    pub async fn stop(&self, tx: &mut Tx, stops: &[Standing]) -> Result<(), Error> {
        for stop in stops {
            let limit = stop.limit.unwrap_or(Usd::ZERO);
            let sql = "INSERT INTO budget_stops (sandbox_id, level, budget) VALUES ($1, $2, $3) \
                       ON CONFLICT (sandbox_id, level) DO UPDATE SET budget = excluded.budget \
                       WHERE budget_stops.budget <> excluded.budget RETURNING level";
            let values = params![&self.sandbox_id, stop.level.as_str(), limit.nanos()];
            if tx.returning(sql, values).await?.is_empty() {
                continue;
            }
            let data = json!({
                "level": stop.level, "limit_usd": limit.as_f64(), "spent_usd": stop.spent.as_f64(),
                "reported_usd": (stop.reported > Usd::ZERO).then(|| stop.reported.as_f64()),
                "task_id": self.task_id,
            });
            system::append(tx, &self.sandbox_id, "budget.exceeded", &data).await?;
        }
        match (&self.task_id, stops.first()) {
            (Some(task), Some(first)) if self.open && !self.waiting => {
                wait(tx, task, self.project_id.as_ref(), first).await
            }
            _ => Ok(()),
        }
    }

    /// There is room: nobody need decide any more.
    pub async fn go_on(&self, tx: &mut Tx) -> Result<(), Error> {
        match &self.task_id {
            Some(task) if self.waiting => clear_waiting(tx, task).await,
            _ => Ok(()),
        }
    }
}

/// The task waits for a person, because this budget is used up.
async fn wait(tx: &mut Tx, task: &TaskId, project: Option<&ProjectId>, stop: &Standing) -> Result<(), Error> {
    let marked = match stop.reported {
        Usd::ZERO => String::new(),
        reported => format!("; {reported} USD of it as reported by workers"),
    };
    let reason = format!("{BUDGET_EXCEEDED}: the budget of the {} is used up{marked}", stop.level);
    let sql = "UPDATE tasks SET waiting_reason = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, params![task, reason.as_str(), tx.now]).await?;
    let told = json!({ "task_id": task, "project_id": project, "waiting_reason": reason });
    tx.tell("TASK_WAITING", "task", task.as_str(), &told);
    Ok(())
}

fn is_budget(waiting_reason: &str) -> bool {
    waiting_reason.starts_with(BUDGET_EXCEEDED)
}

/// Whether a pending task may have another attempt elsewhere, where no gateway refuses its calls.
pub(super) enum Attempt {
    Affordable,
    /// This budget is used up, and the task shows it.
    Exceeded(Standing),
}

/// Looks at the budgets of a task and its project. `row` has the columns of a task.
pub(super) async fn attempt(tx: &mut Tx, row: &Row) -> Result<Attempt, Error> {
    let (id, project_id): (TaskId, ProjectId) = (row.parse("id")?, row.parse("project_id")?);
    let sql = "SELECT p.settings, b.spent - b.judged AS task_spent, b.reported_counted AS task_reported, \
               c.spent AS project_spent, c.reported_counted AS project_reported FROM projects p \
               LEFT JOIN spend b ON b.level = 'task' AND b.entity_id = $2 \
               LEFT JOIN spend c ON c.level = 'project' AND c.entity_id = p.id WHERE p.id = $1";
    let found = tx.query_one(sql, params![&project_id, &id]).await?;
    let found = found.ok_or_else(|| Error::not_found("project", &project_id))?;
    let (task, project) = (settings(row, "execution_config")?, settings(&found, "settings")?);
    let standing = |level: BudgetLevel| {
        let amount = |what: &str| -> Result<Usd, Error> {
            let nanos: Option<i64> = found.get(&format!("{level}_{what}"))?;
            Ok(Usd::from_nanos(nanos.unwrap_or(0)))
        };
        let (spent, reported) = (amount("spent")?, amount("reported")?);
        let limit = budget::limit(level, &tx.rules.budgets, &task, &project);
        Ok::<_, Error>(Standing { level, limit, spent: spent + reported, reported, reserved: Usd::ZERO })
    };
    let standings = [standing(BudgetLevel::Task)?, standing(BudgetLevel::Project)?];
    let reason: Option<String> = row.get("waiting_reason")?;
    let waiting = reason.is_some_and(|reason| is_budget(&reason));
    match budget::judge(&standings) {
        Verdict::Exceeded(stops) => {
            if !waiting {
                wait(tx, &id, Some(&project_id), &stops[0]).await?;
            }
            Ok(Attempt::Exceeded(stops[0]))
        }
        Verdict::Admitted | Verdict::Wait(_) => {
            if waiting {
                clear_waiting(tx, &id).await?;
            }
            Ok(Attempt::Affordable)
        }
    }
}

/// Somebody has decided, or there is room again.
pub(super) async fn clear_waiting(tx: &mut Tx, task: &TaskId) -> Result<(), Error> {
    tx.execute("UPDATE tasks SET waiting_reason = NULL WHERE id = $1", params![task]).await?;
    tx.tell("TASK_UPDATED", "task", task.as_str(), &json!({ "waiting_reason": null }));
    Ok(())
}

/// The same for all tasks of a project.
pub(super) async fn clear_waiting_in(tx: &mut Tx, project: &ProjectId) -> Result<(), Error> {
    let sql = "UPDATE tasks SET waiting_reason = NULL WHERE project_id = $1 AND waiting_reason IS NOT NULL RETURNING id";
    for row in tx.returning(sql, params![project]).await? {
        tx.tell("TASK_UPDATED", "task", &row.get::<String>("id")?, &json!({ "waiting_reason": null }));
    }
    Ok(())
}

fn settings(row: &Row, column: &str) -> Result<Map<String, Json>, Error> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}
