//! Reported costs: what workers say that they spent, stored with the events that say it.
//!
//! A worker that calls its models through the gateway reports what the gateway counted. So a reported cost counts in
//! budgets only while the gateway has no figure for that sandbox; the first figure takes it out of them again.

use std::collections::BTreeMap;

use omoi_protocol::{ProjectId, SandboxId, TaskId, cost::ReportedCost};

use super::{
    Error, Tx,
    account::Account,
    spend::{self, ALL, payers},
    value::{Row, params},
};
use crate::domain::{
    money::Usd,
    reported_cost::{self, Tally},
};

/// A gateway figure: a call of the agent that used tokens or cost something. One that was refused is none.
const METERED: &str = "EXISTS (SELECT 1 FROM model_calls c WHERE c.sandbox_id = s.id AND c.purpose = 'work' \
                       AND c.cost + c.input_tokens + c.output_tokens > 0)";

/// Stores what an event says of cost. Returns whether more counts in budgets than before.
pub(super) async fn observe(
    tx: &mut Tx,
    sandbox: &SandboxId,
    seq: i64,
    event_type: &str,
    data: &str,
) -> Result<bool, Error> {
    // What cannot be read is kept as an event and means nothing here.
    let Ok(data) = serde_json::from_str(data) else { return Ok(false) };
    let reported = reported_cost::read(event_type, &data);
    if reported.claims.is_empty() && reported.ignored == 0 {
        return Ok(false);
    }
    let sql = format!(
        "SELECT s.task_id, s.project_id, CAST(CASE WHEN {METERED} THEN 1 ELSE 0 END AS BIGINT) AS metered, \
         m.reported FROM sandboxes s LEFT JOIN spend m ON m.level = 'attempt' AND m.entity_id = s.id WHERE s.id = $1"
    );
    let row = tx.query_one(&sql, params![sandbox]).await?;
    let row = row.ok_or_else(|| Error::not_found("sandbox", sandbox))?;
    let (task, project): (Option<TaskId>, Option<ProjectId>) =
        (row.parse_opt("task_id")?, row.parse_opt("project_id")?);
    let total = Usd::from_nanos(row.get::<Option<i64>>("reported")?.unwrap_or(0));
    let mut tally = Tally { sessions: sessions(tx, sandbox).await?, total };
    let before = tally.sessions.clone();
    let grown: Usd = reported.claims.into_iter().map(|claim| tally.take(claim)).sum();
    for (session, total) in
        tally.sessions.iter().filter(|(session, total)| before.get(*session) != Some(total))
    {
        let sql = "INSERT INTO reported_sessions (sandbox_id, session, total) VALUES ($1, $2, $3) \
                   ON CONFLICT (sandbox_id, session) DO UPDATE SET total = excluded.total";
        tx.execute(sql, params![sandbox, session.as_str(), total.nanos()]).await?;
    }
    let counted = if row.get::<bool>("metered")? { Usd::ZERO } else { grown };
    if grown > Usd::ZERO {
        let sql = "INSERT INTO reported_costs (sandbox_id, seq, task_id, project_id, cost, counted, reported_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let values =
            params![sandbox, seq, task.as_ref(), project.as_ref(), grown.nanos(), counted.nanos(), tx.now];
        tx.execute(sql, values).await?;
    }
    let change = spend::Reports {
        cost: grown.nanos(),
        counted: counted.nanos(),
        ignored: i64::from(reported.ignored),
    };
    let mut payers = payers(sandbox, task.as_ref(), project.as_ref());
    payers.push((ALL, ALL.to_owned()));
    change.apply(tx, &payers).await?;
    Ok(counted > Usd::ZERO)
}

async fn sessions(tx: &mut Tx, sandbox: &SandboxId) -> Result<BTreeMap<String, Usd>, Error> {
    let sql = "SELECT session, total FROM reported_sessions WHERE sandbox_id = $1";
    let rows = tx.query(sql, params![sandbox]).await?;
    rows.iter().map(|row| Ok((row.get("session")?, Usd::from_nanos(row.get("total")?)))).collect()
}

/// The gateway has a figure for this sandbox: what it reported counts in no budget any more.
pub(super) async fn overrule(tx: &mut Tx, sandbox: &SandboxId) -> Result<(), Error> {
    let sql =
        "SELECT seq, task_id, project_id, counted FROM reported_costs WHERE sandbox_id = $1 AND counted > 0";
    let rows = tx.query(sql, params![sandbox]).await?;
    for row in &rows {
        let (task, project): (Option<TaskId>, Option<ProjectId>) =
            (row.parse_opt("task_id")?, row.parse_opt("project_id")?);
        let mut payers = payers(sandbox, task.as_ref(), project.as_ref());
        payers.push((ALL, ALL.to_owned()));
        let change = spend::Reports { counted: -row.get::<i64>("counted")?, ..spend::Reports::default() };
        change.apply(tx, &payers).await?;
    }
    if !rows.is_empty() {
        let sql = "UPDATE reported_costs SET counted = 0 WHERE sandbox_id = $1 AND counted > 0";
        tx.execute(sql, params![sandbox]).await?;
    }
    Ok(())
}

/// Tells of the budgets that a report has used up.
pub(super) async fn judge(tx: &mut Tx, sandbox: &SandboxId) -> Result<(), Error> {
    let account = Account::find(tx, sandbox).await?;
    account.stop(tx, &account.exceeded()).await
}

/// Of the columns `reported`, `reported_counted` and `reported_ignored`, which are null where there are no sums.
pub(super) fn read(row: &Row) -> Result<Option<ReportedCost>, Error> {
    let number = |column: &str| Ok::<_, Error>(row.get::<Option<i64>>(column)?.unwrap_or(0));
    let (cost, counted, ignored) =
        (number("reported")?, number("reported_counted")?, number("reported_ignored")?);
    Ok((cost > 0 || ignored > 0).then(|| ReportedCost {
        cost_usd: Usd::from_nanos(cost).as_f64(),
        counted_usd: Usd::from_nanos(counted).as_f64(),
        ignored: u64::try_from(ignored).unwrap_or(0),
    }))
}
