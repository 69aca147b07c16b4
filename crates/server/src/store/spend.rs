//! Sums of money and tokens: of each attempt, task and project, and of all.

use std::time::Duration;

use omoi_protocol::{BudgetLevel, CallPurpose, ProjectId, SandboxId, TaskId};

use super::{Error, Tx, value::params};
use crate::domain::money::Usd;

/// The sums of everything stand beside those of the levels.
pub(super) const ALL: &str = "all";

/// What the judge may spend is counted over this time.
const JUDGE_SPAN: Duration = Duration::from_secs(24 * 3600);

/// By how much the sums of a level change.
#[derive(Debug)]
pub(super) struct Change {
    pub purpose: CallPurpose,
    pub spent: i64,
    pub reserved: i64,
    pub calls: i64,
    pub input: i64,
    pub output: i64,
    pub cache_read: i64,
    pub cache_write: i64,
}

impl Default for Change {
    fn default() -> Self {
        Self {
            purpose: CallPurpose::Work,
            spent: 0,
            reserved: 0,
            calls: 0,
            input: 0,
            output: 0,
            cache_read: 0,
            cache_write: 0,
        }
    }
}

impl Change {
    pub async fn apply(&self, tx: &mut Tx, payers: &[(&'static str, String)]) -> Result<(), Error> {
        let sql = "INSERT INTO spend (level, entity_id, spent, reserved, calls, input_tokens, output_tokens, \
                   cache_read_tokens, cache_write_tokens, judged) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
                   ON CONFLICT (level, entity_id) DO UPDATE SET spent = spend.spent + excluded.spent, \
                   reserved = spend.reserved + excluded.reserved, calls = spend.calls + excluded.calls, \
                   input_tokens = spend.input_tokens + excluded.input_tokens, \
                   output_tokens = spend.output_tokens + excluded.output_tokens, \
                   cache_read_tokens = spend.cache_read_tokens + excluded.cache_read_tokens, \
                   cache_write_tokens = spend.cache_write_tokens + excluded.cache_write_tokens, \
                   judged = spend.judged + excluded.judged";
        let judged = if self.purpose == CallPurpose::Judge { self.spent } else { 0 };
        for (level, id) in payers {
            // What is reserved matters to budgets alone.
            let reserved = if self.counts_for(level) { self.reserved } else { 0 };
            let values = params![
                *level,
                id.as_str(),
                self.spent,
                reserved,
                self.calls,
                self.input,
                self.output,
                self.cache_read,
                self.cache_write,
                judged
            ];
            tx.execute(sql, values).await?;
        }
        Ok(())
    }

    /// Whether the level has a budget of which this is a part.
    fn counts_for(&self, level: &str) -> bool {
        match self.purpose {
            CallPurpose::Work => level != ALL,
            CallPurpose::Judge => level == BudgetLevel::Project.as_str(),
        }
    }
}

/// By how much the reported sums of a level change.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub cost: i64,
    /// The part of it that budgets count.
    pub counted: i64,
    pub ignored: i64,
}

impl Reports {
    pub async fn apply(&self, tx: &mut Tx, payers: &[(&'static str, String)]) -> Result<(), Error> {
        let Self { cost, counted, ignored } = *self;
        if (cost, counted, ignored) == (0, 0, 0) {
            return Ok(());
        }
        let sql = "INSERT INTO spend (level, entity_id, spent, reserved, calls, input_tokens, output_tokens, \
                   cache_read_tokens, cache_write_tokens, reported, reported_counted, reported_ignored) \
                   VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, $3, $4, $5) ON CONFLICT (level, entity_id) DO UPDATE SET \
                   reported = spend.reported + excluded.reported, \
                   reported_counted = spend.reported_counted + excluded.reported_counted, \
                   reported_ignored = spend.reported_ignored + excluded.reported_ignored";
        for (level, id) in payers {
            tx.execute(sql, params![*level, id.as_str(), cost, counted, ignored]).await?;
        }
        Ok(())
    }
}

/// What the judge has spent lately, and may come to spend.
pub(super) struct OfJudge {
    pub booked: Usd,
    pub reserved: Usd,
}

pub(super) async fn of_judge(tx: &mut Tx) -> Result<OfJudge, Error> {
    let sql = "SELECT CAST(COALESCE(sum(cost), 0) AS BIGINT) AS cost, \
               CAST(COALESCE(sum(reserved), 0) AS BIGINT) AS reserved FROM model_calls \
               WHERE purpose = 'judge' AND started_at >= $1";
    let row = tx.query_one(sql, params![tx.now() - JUDGE_SPAN]).await?;
    let amount = |column: &str| row.as_ref().map_or(Ok(0), |row| row.get(column)).map(Usd::from_nanos);
    Ok(OfJudge { booked: amount("cost")?, reserved: amount("reserved")? })
}

pub(super) fn payers(
    sandbox: &SandboxId,
    task: Option<&TaskId>,
    project: Option<&ProjectId>,
) -> Vec<(&'static str, String)> {
    let mut payers = vec![(BudgetLevel::Attempt.as_str(), sandbox.to_string())];
    payers.extend(task.map(|id| (BudgetLevel::Task.as_str(), id.to_string())));
    payers.extend(project.map(|id| (BudgetLevel::Project.as_str(), id.to_string())));
    payers
}

pub(super) fn difference(new: u64, old: u64) -> i64 {
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    signed(new).saturating_sub(signed(old))
}
