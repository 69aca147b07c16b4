//! Sums of money and tokens: of each attempt, task and project, and of all.

use omoi_protocol::{BudgetLevel, ProjectId, SandboxId, TaskId};

use super::{Error, Tx, value::params};

/// The sums of everything stand beside those of the levels.
pub(super) const ALL: &str = "all";

/// By how much the sums of a level change.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub spent: i64,
    pub reserved: i64,
    pub calls: i64,
    pub input: i64,
    pub output: i64,
    pub cache_read: i64,
    pub cache_write: i64,
}

impl Change {
    pub async fn apply(&self, tx: &mut Tx, payers: &[(&'static str, String)]) -> Result<(), Error> {
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
            let values = params![
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
