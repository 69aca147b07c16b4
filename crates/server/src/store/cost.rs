//! What model calls have cost: their records, and the sums of those that are asked for.

use omoi_protocol::{
    BudgetLevel, CallId, ProjectId, SandboxId, TaskId,
    cost::{CostGroup, CostGroupBy, CostTotals, ModelCall, ReportedCost},
};

use super::{
    Ask, Error, Store, reported_cost,
    spend::ALL,
    value::{Row, params},
};
use crate::domain::money::Usd;

pub(super) const COLUMNS: &str = "id, sandbox_id, task_id, project_id, vendor, model, purpose, state, status_code, stop_reason, \
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost, reserved, estimated, request_bytes, \
    first_byte_ms, started_at, ended_at";

/// Which calls are wanted.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    pub project_id: Option<ProjectId>,
    pub task_id: Option<TaskId>,
    pub sandbox_id: Option<SandboxId>,
    pub since: Option<jiff::Timestamp>,
}

impl Store {
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
                               cache_write_tokens, reported, reported_counted, reported_ignored \
                               FROM spend WHERE level = $1 AND entity_id = $2";
                    let row = tx.query_one(sql, params![level, id]).await?;
                    let Some(row) = row else { return Ok(CostTotals::default()) };
                    return Ok(CostTotals { reported_cost: reported_cost::read(&row)?, ..totals(&row)? });
                }
                None => {
                    let (sql, values) = filter.ask(&format!("SELECT {} FROM model_calls", sums())).all();
                    tx.query_one(&sql, values).await?
                }
            };
            let of_calls = row.as_ref().map_or(Ok(CostTotals::default()), totals)?;
            let (sql, values) =
                filter.ask_reported(&format!("SELECT {REPORTED_SUMS} FROM reported_costs")).all();
            let row = tx.query_one(&sql, values).await?;
            let reported_cost = row.as_ref().map_or(Ok(None), reported_cost::read)?;
            Ok(CostTotals { reported_cost, ..of_calls })
        })
        .await
    }

    /// The sums of each group, dearest first; days newest first.
    pub async fn call_groups(
        &self,
        filter: CallFilter,
        by: CostGroupBy,
        limit: usize,
    ) -> Result<Vec<CostGroup>, Error> {
        // Times are microseconds, so a day of UTC is a whole part. Ids are not named alone: SQLite would walk through all calls in
        // the order of their index, where a time is asked for.
        const DEAREST: &str = "cost DESC, grouped";
        let (key, order) = match by {
            CostGroupBy::Project => ("project_id || ''", DEAREST),
            CostGroupBy::Task => ("task_id || ''", DEAREST),
            CostGroupBy::Sandbox => ("sandbox_id || ''", DEAREST),
            CostGroupBy::Model => ("model", DEAREST),
            CostGroupBy::Day => ("CAST(started_at / 86400000000 AS TEXT)", "min(started_at) DESC"),
        };
        let (reported_key, reported_order) = match by {
            // A report names no model.
            CostGroupBy::Model => ("CAST(NULL AS TEXT)", "reported DESC"),
            CostGroupBy::Day => ("CAST(reported_at / 86400000000 AS TEXT)", "min(reported_at) DESC"),
            CostGroupBy::Project | CostGroupBy::Task | CostGroupBy::Sandbox => {
                (key, "reported DESC, grouped")
            }
        };
        self.read(async move |tx| {
            let ask = filter.ask(&format!("SELECT {key} AS grouped, {} FROM model_calls", sums()));
            let (sql, values) = ask.group_limit(key, order, limit);
            let rows = tx.query(&sql, values).await?;
            let mut groups = Vec::with_capacity(rows.len());
            for row in &rows {
                groups.push(CostGroup { key: key_of(row, by)?, totals: totals(row)? });
            }
            let select = format!("SELECT {reported_key} AS grouped, {REPORTED_SUMS} FROM reported_costs");
            let ask = filter.ask_reported(&select);
            let (sql, values) = ask.group_limit(reported_key, reported_order, limit);
            for row in tx.query(&sql, values).await? {
                add_reported(&mut groups, key_of(&row, by)?, reported_cost::read(&row)?);
            }
            match by {
                CostGroupBy::Day => groups.sort_by(|a, b| b.key.cmp(&a.key)),
                _ => {
                    groups
                        .sort_by(|a, b| dearness(b).total_cmp(&dearness(a)).then_with(|| a.key.cmp(&b.key)));
                }
            }
            groups.truncate(limit);
            Ok(groups)
        })
        .await
    }
}

/// To the group of that key, which may have no call.
fn add_reported(groups: &mut Vec<CostGroup>, key: Option<String>, reported_cost: Option<ReportedCost>) {
    if reported_cost.is_none() {
        return;
    }
    match groups.iter_mut().find(|group| group.key == key) {
        Some(group) => group.totals.reported_cost = reported_cost,
        None => groups.push(CostGroup { key, totals: CostTotals { reported_cost, ..CostTotals::default() } }),
    }
}

/// What budgets count of it.
fn dearness(group: &CostGroup) -> f64 {
    let counted = group.totals.reported_cost.as_ref().map_or(0.0, |reported| reported.counted_usd);
    group.totals.cost_usd + counted
}

/// Ignored amounts have no row.
const REPORTED_SUMS: &str = "CAST(COALESCE(sum(cost), 0) AS BIGINT) AS reported, \
                             CAST(COALESCE(sum(counted), 0) AS BIGINT) AS reported_counted, \
                             CAST(0 AS BIGINT) AS reported_ignored";

fn sums() -> String {
    let sum = |column: &str| format!("CAST(COALESCE(sum({column}), 0) AS BIGINT) AS {column}");
    let columns = ["cost", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"];
    format!("count(ended_at) AS calls, {}", columns.map(sum).join(", "))
}

/// None for calls that belong to no such thing.
fn key_of(row: &Row, by: CostGroupBy) -> Result<Option<String>, Error> {
    let key: Option<String> = row.get("grouped")?;
    match by {
        CostGroupBy::Day => key.map(|days| date(&days)).transpose(),
        _ => Ok(key),
    }
}

fn date(days: &str) -> Result<String, Error> {
    let broken = || Error::corrupt("started_at", "no day");
    let second = days.parse::<i64>().ok().and_then(|days| days.checked_mul(86_400)).ok_or_else(broken)?;
    let at = jiff::Timestamp::from_second(second).map_err(|_| broken())?;
    Ok(at.to_zoned(jiff::tz::TimeZone::UTC).date().to_string())
}

impl CallFilter {
    fn ask(&self, select: &str) -> Ask {
        self.ask_since(select, "started_at >=")
    }

    fn ask_reported(&self, select: &str) -> Ask {
        self.ask_since(select, "reported_at >=")
    }

    fn ask_since(&self, select: &str, since: &str) -> Ask {
        let mut ask = Ask::new(select);
        ask.and_some("sandbox_id =", self.sandbox_id.as_ref());
        ask.and_some("task_id =", self.task_id.as_ref());
        ask.and_some("project_id =", self.project_id.as_ref());
        ask.and_some(since, self.since);
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

fn totals(row: &Row) -> Result<CostTotals, Error> {
    Ok(CostTotals {
        calls: number(row, "calls")?,
        input_tokens: number(row, "input_tokens")?,
        output_tokens: number(row, "output_tokens")?,
        cache_read_tokens: number(row, "cache_read_tokens")?,
        cache_write_tokens: number(row, "cache_write_tokens")?,
        cost_usd: Usd::from_nanos(row.get("cost")?).as_f64(),
        reported_cost: None,
    })
}

pub(super) fn read(row: &Row) -> Result<ModelCall, Error> {
    let first_byte_ms: Option<i64> = row.get("first_byte_ms")?;
    let status_code: Option<i64> = row.get("status_code")?;
    Ok(ModelCall {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        vendor: row.parse("vendor")?,
        model: row.get("model")?,
        purpose: row.parse("purpose")?,
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

pub(super) fn number(row: &Row, column: &str) -> Result<u64, Error> {
    u64::try_from(row.get::<i64>(column)?).map_err(|_| Error::corrupt(column, "negative"))
}
