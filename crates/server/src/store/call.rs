//! Model calls: admitted against every budget, kept alive while they run, and booked when they end. A call's record and
//! the sums that it changes are written in one transaction, so the sums are the sum of the records at any time.

use std::time::Duration;

use omoi_protocol::{BudgetLevel, CallId, CallPurpose, CallState, ModelFailure, SandboxId, Vendor};
use serde_json::json;

use super::{
    Error, Store, Tx,
    account::Account,
    cost::{COLUMNS, number, read},
    reported_cost,
    spend::{self, Change, difference, payers},
    system,
    value::{Row, params},
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

/// A call that is to be made.
#[derive(Debug, Clone)]
pub struct NewCall {
    pub id: CallId,
    pub sandbox_id: SandboxId,
    pub vendor: Vendor,
    pub model: String,
    pub purpose: CallPurpose,
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
    /// What the judge may spend is.
    JudgeExceeded {
        spent: Usd,
        limit: Usd,
    },
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct EndedCall {
    pub id: CallId,
    pub state: CallState,
    pub status_code: Option<u16>,
    /// How the vendor refused it.
    pub failure: Option<ModelFailure>,
    pub stop_reason: Option<String>,
    pub usage: Usage,
    /// Some of the usage is a guess.
    pub estimated: bool,
    pub first_byte: Option<Duration>,
    pub duration: Duration,
}

impl Store {
    /// Reserves what a call may cost, or says why it may not be made. The sandbox must hold its lease.
    pub async fn call_open(&self, new: NewCall) -> Result<Opened, Error> {
        self.write(async move |tx| {
            let account = Account::load(tx, &new.sandbox_id).await?;
            if new.purpose == CallPurpose::Judge {
                return judge(tx, &account, &new).await;
            }
            match budget::judge(&account.standings) {
                Verdict::Wait(full) => Ok(Opened::Wait(full)),
                Verdict::Exceeded(stops) => {
                    account.stop(tx, &stops).await?;
                    Ok(Opened::Exceeded(stops[0]))
                }
                Verdict::Admitted => {
                    admit(tx, &account, &new).await?;
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
                    failure: None,
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
}

/// The judge has a budget of its own, beside the project's. Where one of them is used up it is not asked, and nobody else
/// need know.
async fn judge(tx: &mut Tx, account: &Account, new: &NewCall) -> Result<Opened, Error> {
    let project: Vec<Standing> =
        account.standings.iter().filter(|of| of.level == BudgetLevel::Project).copied().collect();
    match (budget::judge(&project), tx.rules.judge_day_budget) {
        (Verdict::Wait(full), _) => return Ok(Opened::Wait(full)),
        (Verdict::Exceeded(stops), _) => return Ok(Opened::Exceeded(stops[0])),
        (Verdict::Admitted, Some(limit)) => {
            let spent = spend::of_judge(tx).await?;
            if spent.booked + spent.reserved >= limit {
                return Ok(Opened::JudgeExceeded { spent: spent.booked + spent.reserved, limit });
            }
        }
        (Verdict::Admitted, None) => {}
    }
    admit(tx, account, new).await?;
    Ok(Opened::Admitted)
}

/// The record of a call that may be made, and what it reserves.
async fn admit(tx: &mut Tx, account: &Account, new: &NewCall) -> Result<(), Error> {
    let (price, source) = tx.rules.prices.of(&new.model);
    let reserved = price.reserve(new.request_bytes, new.output_max);
    let sql = format!(
        "INSERT INTO model_calls ({COLUMNS}, alive_until) VALUES ($1, $2, $3, $4, $5, $6, $12, 'open', NULL, NULL, 0, \
         0, 0, 0, 0, $7, $8, $9, NULL, $10, NULL, $11)"
    );
    let values = params![
        &new.id,
        &account.sandbox_id,
        account.task_id.as_ref(),
        account.project_id.as_ref(),
        new.vendor.as_str(),
        new.model.as_str(),
        reserved.nanos(),
        source == Source::Guessed,
        i64::try_from(new.request_bytes).unwrap_or(i64::MAX),
        tx.now,
        tx.now + ALIVE,
        new.purpose.as_str()
    ];
    tx.execute(&sql, values).await?;
    let change = Change { purpose: new.purpose, reserved: reserved.nanos(), ..Change::default() };
    change
        .apply(tx, &payers(&account.sandbox_id, account.task_id.as_ref(), account.project_id.as_ref()))
        .await?;
    match new.purpose {
        CallPurpose::Work => account.go_on(tx).await,
        CallPurpose::Judge => Ok(()),
    }
}

async fn book(tx: &mut Tx, row: &Row, ended: &EndedCall) -> Result<Usd, Error> {
    let before = read(row)?;
    if !matches!(before.state, CallState::Open | CallState::Lost) {
        // Booked already: the first answer did not arrive.
        return Ok(Usd::from_nanos(row.get("cost")?));
    }
    let (price, source) = tx.rules.prices.of(&before.model);
    let (cost, usage) = (price.cost(&ended.usage), &ended.usage);
    let counted = *usage != Usage::default();
    let estimated = ended.estimated || (source == Source::Guessed && counted);
    let first_byte_ms = ended.first_byte.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    let change = Change {
        purpose: before.purpose,
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
    payers.push((spend::ALL, spend::ALL.to_owned()));
    change.apply(tx, &payers).await?;
    if before.purpose == CallPurpose::Work && (counted || cost > Usd::ZERO) {
        reported_cost::overrule(tx, &before.sandbox_id).await?;
    }
    if before.purpose == CallPurpose::Judge {
        // The judgement tells of it; it is none of the agent's calls.
        return Ok(cost);
    }
    let data = json!({
        "call_id": ended.id, "vendor": before.vendor, "model": before.model, "state": ended.state,
        "status_code": ended.status_code, "stop_reason": ended.stop_reason, "input_tokens": usage.input,
        "output_tokens": usage.output, "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write, "cost_usd": cost.as_f64(), "estimated": estimated,
        "failure": ended.failure, "advice": ended.failure.map(|failure| failure.advice(before.vendor)),
        "duration_ms": u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX), "task_id": before.task_id,
    });
    system::append(tx, &before.sandbox_id, "model.call", &data).await?;
    Ok(cost)
}
