//! Model calls: admitted against every budget, kept alive while they run, and booked when they end. A call's record and
//! the sums that it changes are written in one transaction, so the sums are the sum of the records at any time.

use std::time::Duration;

use omoi_protocol::{
    BudgetLevel, CallId, CallState, ProjectId, SandboxId, TaskId, Vendor,
    cost::{CostTotals, ModelCall},
};
use serde_json::{Map, Value as Json, json};

use super::{
    Ask, Error, Store, Tx, system,
    value::{Row, Value, params},
};
use crate::domain::{
    budget::{self, Standing, Verdict},
    money::Usd,
    price::{Source, Usage},
};

/// How long a call that nobody keeps alive counts as under way.
const ALIVE: Duration = Duration::from_secs(60);
/// How often a process must say that its calls are under way.
pub const KEEP_PERIOD: Duration = Duration::from_secs(15);
const _: () = assert!(KEEP_PERIOD.as_secs() * 3 < ALIVE.as_secs());

const COLUMNS: &str = "id, sandbox_id, task_id, project_id, vendor, model, state, status_code, stop_reason, \
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost, reserved, estimated, request_bytes, \
    first_byte_ms, started_at, ended_at";
/// The sums of everything stand beside those of the levels.
const ALL: &str = "all";

/// A call that is to be made.
#[derive(Debug, Clone)]
pub struct NewCall {
    pub id: CallId,
    pub sandbox_id: SandboxId,
    pub vendor: Vendor,
    pub model: String,
    pub request_bytes: u64,
    /// Tokens that the answer may have.
    pub output_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    Admitted,
    /// Calls under way have reserved what is left; when they end there may be room.
    Wait(Standing),
    /// The narrowest budget that is used up.
    Exceeded(Standing),
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct EndedCall {
    pub id: CallId,
    pub state: CallState,
    pub status_code: Option<u16>,
    pub stop_reason: Option<String>,
    pub usage: Usage,
    /// Some of the usage is a guess.
    pub estimated: bool,
    pub first_byte: Option<Duration>,
    pub duration: Duration,
}

/// Which calls are wanted.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    pub project_id: Option<ProjectId>,
    pub task_id: Option<TaskId>,
    pub sandbox_id: Option<SandboxId>,
    pub since: Option<jiff::Timestamp>,
}

impl Store {
    /// Reserves what a call may cost, or says why it may not be made. The sandbox must hold its lease.
    pub async fn call_open(&self, new: NewCall) -> Result<Opened, Error> {
        self.write(async move |tx| {
            let account = Account::load(tx, &new.sandbox_id).await?;
            match budget::judge(&account.standings) {
                Verdict::Wait(full) => Ok(Opened::Wait(full)),
                Verdict::Exceeded(stops) => {
                    account.stop(tx, &stops).await?;
                    Ok(Opened::Exceeded(stops[0]))
                }
                Verdict::Admitted => {
                    account.admit(tx, &new).await?;
                    Ok(Opened::Admitted)
                }
            }
        })
        .await
    }

    /// Whether the sandbox holds its lease and may call at all.
    pub async fn call_allowed(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let sandbox = sandbox.clone();
        self.read(async move |tx| Account::load(tx, &sandbox).await.map(|_| ())).await
    }

    /// Books a call: its record, the sums and its event. What was booked for a call taken for lost is put right.
    pub async fn call_end(&self, ended: EndedCall) -> Result<Usd, Error> {
        self.write(async move |tx| {
            let sql = format!("SELECT {COLUMNS} FROM model_calls WHERE id = $1");
            let row = tx.query_one(&sql, params![&ended.id]).await?;
            book(tx, &row.ok_or_else(|| Error::not_found("call", &ended.id))?, &ended).await
        })
        .await
    }

    /// Says that these calls are under way; those whose sandbox has ended come back.
    pub async fn call_keep(&self, ids: Vec<CallId>) -> Result<Vec<CallId>, Error> {
        self.write(async move |tx| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let until = tx.now + ALIVE;
            let sql =
                "UPDATE model_calls SET alive_until = $2 WHERE id = ANY($1) AND alive_until IS NOT NULL";
            tx.execute(sql, params![ids.clone(), until]).await?;
            let sql = "SELECT c.id FROM model_calls c JOIN sandboxes s ON s.id = c.sandbox_id \
                       WHERE c.id = ANY($1) AND s.live = 0";
            tx.query(sql, params![ids]).await?.iter().map(|row| row.parse("id")).collect()
        })
        .await
    }

    /// Books calls whose process is gone, by what their requests alone come to. At most `limit`; says how many.
    pub async fn call_sweep(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let sql = format!(
                "SELECT {COLUMNS} FROM model_calls WHERE alive_until IS NOT NULL AND alive_until <= $1 \
                 ORDER BY alive_until LIMIT $2"
            );
            let rows = tx.query(&sql, params![tx.now, limit]).await?;
            for row in &rows {
                let started: jiff::Timestamp = row.get("started_at")?;
                let lost = EndedCall {
                    id: row.parse("id")?,
                    state: CallState::Lost,
                    status_code: None,
                    stop_reason: None,
                    usage: Usage::of_request(number(row, "request_bytes")?),
                    estimated: true,
                    first_byte: None,
                    duration: tx.now.duration_since(started).try_into().unwrap_or_default(),
                };
                book(tx, row, &lost).await?;
            }
            Ok(rows.len())
        })
        .await
    }

    /// Newest first; `before` is the last id of the page before.
    pub async fn call_list(
        &self,
        filter: CallFilter,
        before: Option<CallId>,
        limit: usize,
    ) -> Result<Vec<ModelCall>, Error> {
        self.read(async move |tx| {
            let mut ask = filter.ask(&format!("SELECT {COLUMNS} FROM model_calls"));
            if let Some(id) = &before {
                let sql = "SELECT started_at FROM model_calls WHERE id = $1";
                let row = tx.query_one(sql, params![id]).await?;
                let started: jiff::Timestamp =
                    row.ok_or_else(|| Error::not_found("call", id))?.get("started_at")?;
                ask.and2("(started_at, id) <", started.into(), id.into());
            }
            let (sql, values) = ask.order_limit("started_at DESC, id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    /// The sums of what a filter names. They are kept; only a time makes it necessary to add up, from that time on.
    pub async fn call_totals(&self, filter: CallFilter) -> Result<CostTotals, Error> {
        self.read(async move |tx| {
            let row = match filter.kept() {
                Some((level, id)) => {
                    let sql = "SELECT calls, spent AS cost, input_tokens, output_tokens, cache_read_tokens, \
                               cache_write_tokens FROM spend WHERE level = $1 AND entity_id = $2";
                    tx.query_one(sql, params![level, id]).await?
                }
                None => {
                    let sum =
                        |column: &str| format!("CAST(COALESCE(sum({column}), 0) AS BIGINT) AS {column}");
                    let ask = filter.ask(&format!(
                        "SELECT count(ended_at) AS calls, {}, {}, {}, {}, {} FROM model_calls",
                        sum("cost"),
                        sum("input_tokens"),
                        sum("output_tokens"),
                        sum("cache_read_tokens"),
                        sum("cache_write_tokens")
                    ));
                    let (sql, values) = ask.all();
                    tx.query_one(&sql, values).await?
                }
            };
            row.as_ref().map_or(Ok(CostTotals::default()), totals)
        })
        .await
    }
}

impl CallFilter {
    fn ask(&self, select: &str) -> Ask {
        let mut ask = Ask::new(select);
        ask.and_some("sandbox_id =", self.sandbox_id.as_ref());
        ask.and_some("task_id =", self.task_id.as_ref());
        ask.and_some("project_id =", self.project_id.as_ref());
        ask.and_some("started_at >=", self.since);
        ask
    }

    /// The one row of sums that answers the filter, if there is one.
    fn kept(&self) -> Option<(&'static str, String)> {
        match (&self.sandbox_id, &self.task_id, &self.project_id, self.since) {
            (None, None, None, None) => Some((ALL, ALL.to_owned())),
            (Some(id), None, None, None) => Some((BudgetLevel::Attempt.as_str(), id.to_string())),
            (None, Some(id), None, None) => Some((BudgetLevel::Task.as_str(), id.to_string())),
            (None, None, Some(id), None) => Some((BudgetLevel::Project.as_str(), id.to_string())),
            _ => None,
        }
    }
}

/// Who pays for a sandbox's calls, and how they stand.
struct Account {
    sandbox_id: SandboxId,
    task_id: Option<TaskId>,
    project_id: Option<ProjectId>,
    waiting: bool,
    /// From the narrowest level on.
    standings: Vec<Standing>,
}

impl Account {
    async fn load(tx: &mut Tx, sandbox: &SandboxId) -> Result<Self, Error> {
        let sql = "SELECT s.live, s.lease_expires_at, s.task_id, s.project_id, t.execution_config, t.waiting_reason, \
                   p.settings, a.spent AS attempt_spent, a.reserved AS attempt_reserved, b.spent AS task_spent, \
                   b.reserved AS task_reserved, c.spent AS project_spent, c.reserved AS project_reserved \
                   FROM sandboxes s LEFT JOIN tasks t ON t.id = s.task_id LEFT JOIN projects p ON p.id = s.project_id \
                   LEFT JOIN spend a ON a.level = 'attempt' AND a.entity_id = s.id \
                   LEFT JOIN spend b ON b.level = 'task' AND b.entity_id = s.task_id \
                   LEFT JOIN spend c ON c.level = 'project' AND c.entity_id = s.project_id WHERE s.id = $1";
        let row = tx.query_one(sql, params![sandbox]).await?;
        let row = row.ok_or_else(|| Error::not_found("sandbox", sandbox))?;
        let lease: Option<jiff::Timestamp> = row.get("lease_expires_at")?;
        if !row.get::<bool>("live")? || lease.is_none_or(|end| end <= tx.now) {
            return Err(Error::TokenEnded);
        }
        let (task, project) = (settings(&row, "execution_config")?, settings(&row, "settings")?);
        let standing = |level: BudgetLevel| {
            let amount = |what: &str| -> Result<Usd, Error> {
                let nanos: Option<i64> = row.get(&format!("{level}_{what}"))?;
                Ok(Usd::from_nanos(nanos.unwrap_or(0)))
            };
            let limit = budget::limit(level, &tx.rules.budgets, &task, &project);
            Ok(Standing { level, limit, spent: amount("spent")?, reserved: amount("reserved")? })
        };
        Ok(Self {
            sandbox_id: sandbox.clone(),
            standings: BudgetLevel::ALL.iter().copied().map(standing).collect::<Result<_, Error>>()?,
            task_id: row.parse_opt("task_id")?,
            project_id: row.parse_opt("project_id")?,
            waiting: row.get::<Option<String>>("waiting_reason")?.is_some(),
        })
    }

    async fn admit(&self, tx: &mut Tx, new: &NewCall) -> Result<(), Error> {
        let (price, source) = tx.rules.prices.of(&new.model);
        let reserved = price.reserve(new.request_bytes, new.output_max);
        let sql = format!(
            "INSERT INTO model_calls ({COLUMNS}, alive_until) VALUES ($1, $2, $3, $4, $5, $6, 'open', NULL, NULL, 0, 0, \
             0, 0, 0, $7, $8, $9, NULL, $10, NULL, $11)"
        );
        let values = params![
            &new.id,
            &self.sandbox_id,
            self.task_id.as_ref(),
            self.project_id.as_ref(),
            new.vendor.as_str(),
            new.model.as_str(),
            reserved.nanos(),
            source == Source::Guessed,
            i64::try_from(new.request_bytes).unwrap_or(i64::MAX),
            tx.now,
            tx.now + ALIVE
        ];
        tx.execute(&sql, values).await?;
        let change = Change { reserved: reserved.nanos(), ..Change::default() };
        change.apply(tx, &payers(&self.sandbox_id, self.task_id.as_ref(), self.project_id.as_ref())).await?;
        match &self.task_id {
            Some(task) if self.waiting => clear_waiting(tx, task).await,
            _ => Ok(()),
        }
    }

    /// Tells the sandbox once of each budget that is used up, and marks its task.
    async fn stop(&self, tx: &mut Tx, stops: &[Standing]) -> Result<(), Error> {
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
                "task_id": self.task_id,
            });
            system::append(tx, &self.sandbox_id, "budget.exceeded", &data).await?;
        }
        let (Some(task), Some(first), false) = (&self.task_id, stops.first(), self.waiting) else {
            return Ok(());
        };
        let reason = format!("budget_exceeded: the budget of the {} is used up", first.level);
        let sql = "UPDATE tasks SET waiting_reason = $2, updated_at = $3 WHERE id = $1";
        tx.execute(sql, params![task, reason.as_str(), tx.now]).await?;
        let told = json!({ "task_id": task, "project_id": self.project_id, "waiting_reason": reason });
        tx.tell("TASK_WAITING", "task", task.as_str(), &told);
        Ok(())
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

async fn book(tx: &mut Tx, row: &Row, ended: &EndedCall) -> Result<Usd, Error> {
    let before = read(row)?;
    let (price, source) = tx.rules.prices.of(&before.model);
    let (cost, usage) = (price.cost(&ended.usage), &ended.usage);
    let counted = usage.input + usage.output + usage.cache_read + usage.cache_write > 0;
    let estimated = ended.estimated || (source == Source::Guessed && counted);
    let first_byte_ms = ended.first_byte.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    let change = Change {
        spent: cost.nanos() - row.get::<i64>("cost")?,
        reserved: -row.get::<i64>("reserved")?,
        calls: i64::from(before.state == CallState::Open),
        input: difference(usage.input, before.input_tokens),
        output: difference(usage.output, before.output_tokens),
        cache_read: difference(usage.cache_read, before.cache_read_tokens),
        cache_write: difference(usage.cache_write, before.cache_write_tokens),
    };
    let sql = "UPDATE model_calls SET state = $2, status_code = $3, stop_reason = $4, input_tokens = $5, \
               output_tokens = $6, cache_read_tokens = $7, cache_write_tokens = $8, cost = $9, reserved = 0, \
               estimated = $10, first_byte_ms = $11, ended_at = $12, alive_until = NULL WHERE id = $1";
    let values = params![
        &ended.id,
        ended.state.as_str(),
        ended.status_code.map(i64::from),
        ended.stop_reason.as_deref(),
        difference(usage.input, 0),
        difference(usage.output, 0),
        difference(usage.cache_read, 0),
        difference(usage.cache_write, 0),
        cost.nanos(),
        estimated,
        first_byte_ms,
        tx.now
    ];
    tx.execute(sql, values).await?;
    let mut payers = payers(&before.sandbox_id, before.task_id.as_ref(), before.project_id.as_ref());
    payers.push((ALL, ALL.to_owned()));
    change.apply(tx, &payers).await?;
    let data = json!({
        "call_id": ended.id, "vendor": before.vendor, "model": before.model, "state": ended.state,
        "status_code": ended.status_code, "stop_reason": ended.stop_reason, "input_tokens": usage.input,
        "output_tokens": usage.output, "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write, "cost_usd": cost.as_f64(), "estimated": estimated,
        "duration_ms": u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX), "task_id": before.task_id,
    });
    system::append(tx, &before.sandbox_id, "model.call", &data).await?;
    Ok(cost)
}

/// By how much the sums of a level change.
#[derive(Debug, Default)]
struct Change {
    spent: i64,
    reserved: i64,
    calls: i64,
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
}

impl Change {
    async fn apply(&self, tx: &mut Tx, payers: &[(&'static str, String)]) -> Result<(), Error> {
        let sql = "INSERT INTO spend (level, entity_id, spent, reserved, calls, input_tokens, output_tokens, \
                   cache_read_tokens, cache_write_tokens) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
                   ON CONFLICT (level, entity_id) DO UPDATE SET spent = spend.spent + excluded.spent, \
                   reserved = spend.reserved + excluded.reserved, calls = spend.calls + excluded.calls, \
                   input_tokens = spend.input_tokens + excluded.input_tokens, \
                   output_tokens = spend.output_tokens + excluded.output_tokens, \
                   cache_read_tokens = spend.cache_read_tokens + excluded.cache_read_tokens, \
                   cache_write_tokens = spend.cache_write_tokens + excluded.cache_write_tokens";
        for (level, id) in payers {
            // What is reserved matters to budgets alone.
            let reserved = if *level == ALL { 0 } else { self.reserved };
            let values: Vec<Value> = params![
                *level,
                id.as_str(),
                self.spent,
                reserved,
                self.calls,
                self.input,
                self.output,
                self.cache_read,
                self.cache_write
            ];
            tx.execute(sql, values).await?;
        }
        Ok(())
    }
}

fn payers(
    sandbox: &SandboxId,
    task: Option<&TaskId>,
    project: Option<&ProjectId>,
) -> Vec<(&'static str, String)> {
    let mut payers = vec![(BudgetLevel::Attempt.as_str(), sandbox.to_string())];
    payers.extend(task.map(|id| (BudgetLevel::Task.as_str(), id.to_string())));
    payers.extend(project.map(|id| (BudgetLevel::Project.as_str(), id.to_string())));
    payers
}

fn settings(row: &Row, column: &str) -> Result<Map<String, Json>, Error> {
    let text: Option<String> = row.get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

fn difference(new: u64, old: u64) -> i64 {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    signed(new).saturating_sub(signed(old))
}

fn number(row: &Row, column: &str) -> Result<u64, Error> {
    u64::try_from(row.get::<i64>(column)?).map_err(|_| Error::corrupt(column, "negative"))
}

fn totals(row: &Row) -> Result<CostTotals, Error> {
    Ok(CostTotals {
        calls: number(row, "calls")?,
        input_tokens: number(row, "input_tokens")?,
        output_tokens: number(row, "output_tokens")?,
        cache_read_tokens: number(row, "cache_read_tokens")?,
        cache_write_tokens: number(row, "cache_write_tokens")?,
        cost_usd: Usd::from_nanos(row.get("cost")?).as_f64(),
    })
}

fn read(row: &Row) -> Result<ModelCall, Error> {
    let first_byte_ms: Option<i64> = row.get("first_byte_ms")?;
    let status_code: Option<i64> = row.get("status_code")?;
    Ok(ModelCall {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        vendor: row.parse("vendor")?,
        model: row.get("model")?,
        state: row.parse("state")?,
        status_code: status_code.and_then(|code| u16::try_from(code).ok()),
        stop_reason: row.get("stop_reason")?,
        input_tokens: number(row, "input_tokens")?,
        output_tokens: number(row, "output_tokens")?,
        cache_read_tokens: number(row, "cache_read_tokens")?,
        cache_write_tokens: number(row, "cache_write_tokens")?,
        cost_usd: Usd::from_nanos(row.get("cost")?).as_f64(),
        estimated: row.get("estimated")?,
        request_bytes: number(row, "request_bytes")?,
        first_byte_ms: first_byte_ms.and_then(|ms| u64::try_from(ms).ok()),
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}
