//! Attached agents: registered, counted by their heartbeats, degraded when these stop.

use omoi_protocol::{
    AgentId, AgentStatus,
    agent::{Agent, Heartbeat, HeartbeatAck, NewAgent},
};
use serde_json::json;

use super::{
    Error, Store, Tx, lapse,
    value::{Row, params},
};
use crate::domain::restart;

const COLUMNS: &str =
    "id, name, agent_type, capabilities, status, last_heartbeat_at, heartbeat_sequence, created_at";

/// More failures under one name are not looked at.
const FAILURES_MAX: usize = 1_000;

impl Store {
    pub async fn agent_create(&self, actor: &str, new: NewAgent) -> Result<Agent, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            may_register(tx, &new.name).await?;
            let id = AgentId::generate();
            tx.execute(
                "INSERT INTO agents (id, name, agent_type, capabilities, status, heartbeat_sequence, created_at) \
                 VALUES ($1, $2, $3, $4, 'idle', 0, $5)",
                params![&id, new.name.as_str(), new.agent_type.as_str(), json!(new.capabilities).to_string(), tx.now],
            )
            .await?;
            tx.tell("AGENT_REGISTERED", "agent", id.as_str(), &json!({ "name": new.name }));
            tx.record(&actor, "agent.create", "agent", id.as_str(), json!({ "name": new.name }));
            get(tx, &id).await
        })
        .await
    }

    pub async fn agent_list(&self, before: Option<AgentId>, limit: usize) -> Result<Vec<Agent>, Error> {
        self.read(async move |tx| {
            let mut ask = super::Ask::new(&format!("SELECT {COLUMNS} FROM agents"));
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn agent_get(&self, id: &AgentId) -> Result<Agent, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// A sign of life. Renews the leases of what the agent holds; says how many heartbeats did not arrive.
    pub async fn agent_heartbeat(&self, id: &AgentId, beat: Heartbeat) -> Result<HeartbeatAck, Error> {
        let id = id.clone();
        self.write(async move |tx| {
            let agent = get(tx, &id).await?;
            let last = agent.heartbeat_sequence;
            if beat.sequence_number <= last && agent.last_heartbeat_at.is_some() {
                let message =
                    format!("heartbeat {} came after {last}; it changes nothing", beat.sequence_number);
                return Ok(HeartbeatAck { received: false, missed: 0, message });
            }
            let status = beat.status.unwrap_or(AgentStatus::Idle);
            let sql = "UPDATE agents SET status = $2, last_heartbeat_at = $3, heartbeat_sequence = $4, \
                       failed_at = NULL WHERE id = $1";
            tx.execute(sql, params![&id, status.as_str(), tx.now, beat.sequence_number]).await?;
            // An agent that began anew does not know what it worked on before.
            if status == AgentStatus::Running {
                lapse::reclaim_all(tx, &id).await?;
            }
            let lease = tx.now + tx.rules.lease_duration;
            let sql = "UPDATE sandboxes SET last_heartbeat_at = $3, lease_expires_at = \
                       CASE WHEN lease_expires_at > $2 THEN lease_expires_at ELSE $2 END WHERE agent_id = $1 AND live = 1";
            tx.execute(sql, params![&id, lease, tx.now]).await?;
            if status != agent.status {
                let told = json!({ "old_status": agent.status, "status": status });
                tx.tell("AGENT_STATUS_CHANGED", "agent", id.as_str(), &told);
            }
            let missed = if agent.last_heartbeat_at.is_some() { beat.sequence_number - last - 1 } else { 0 };
            let message = match missed {
                0 => "ok".to_owned(),
                n => format!("{n} heartbeats before this one did not arrive"),
            };
            Ok(HeartbeatAck { received: true, missed, message })
        })
        .await
    }

    /// Marks agents whose heartbeats stopped. What they hold is freed by its lease. Says how many changed.
    pub async fn agent_degrade(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let mut changed = 0;
            for (missed, status, from) in [
                (tx.rules.agent_missed_failed, AgentStatus::Failed, "('idle', 'running', 'degraded')"),
                (tx.rules.agent_missed_degraded, AgentStatus::Degraded, "('idle', 'running')"),
            ] {
                let idle = tx.now - tx.rules.agent_ttl_idle * missed;
                let running = tx.now - tx.rules.agent_ttl_running * missed;
                // One that is degraded no longer says whether it was at work; what it holds does.
                let at_work = "status = 'running' OR (status = 'degraded' AND EXISTS (SELECT 1 FROM sandboxes s \
                               WHERE s.agent_id = agents.id AND s.live = 1))";
                let sql = format!(
                    "SELECT id FROM agents WHERE status IN {from} AND last_heartbeat_at IS NOT NULL \
                     AND last_heartbeat_at <= CASE WHEN {at_work} THEN CAST($1 AS BIGINT) ELSE $2 END LIMIT $3"
                );
                let rows =
                    tx.query(&sql, params![running.as_microsecond(), idle.as_microsecond(), limit]).await?;
                for row in &rows {
                    let id: AgentId = row.parse("id")?;
                    let failed_at = (status == AgentStatus::Failed).then_some(tx.now);
                    let sql = "UPDATE agents SET status = $2, failed_at = $3 WHERE id = $1";
                    tx.execute(sql, params![&id, status.as_str(), failed_at]).await?;
                    tx.tell(
                        "HEARTBEAT_MISSED",
                        "agent",
                        id.as_str(),
                        &json!({ "status": status, "missed": missed }),
                    );
                }
                changed += rows.len();
            }
            Ok(changed)
        })
        .await
    }
}

/// One that keeps failing under a name is held to limits, so that it does not take task after task down with it.
async fn may_register(tx: &mut Tx, name: &str) -> Result<(), Error> {
    let sql =
        "SELECT failed_at FROM agents WHERE name = $1 AND failed_at > $2 ORDER BY failed_at DESC LIMIT $3";
    let rows = tx.query(sql, params![name, tx.now - restart::WINDOW, FAILURES_MAX]).await?;
    let failures = rows.iter().map(|row| row.get("failed_at")).collect::<Result<Vec<_>, Error>>()?;
    let count = failures.len();
    match restart::wait(failures, tx.rules.agent_restarts, tx.now) {
        None => Ok(()),
        Some(after) => {
            let detail = format!(
                "agents named {name:?} have failed {count} times within an hour; register again in {} s",
                after.as_secs().max(1)
            );
            Err(Error::TooSoon { code: "restarts_limited", detail, after })
        }
    }
}

async fn get(tx: &mut Tx, id: &AgentId) -> Result<Agent, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM agents WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("agent", id))?)
}

fn read(row: &Row) -> Result<Agent, Error> {
    Ok(Agent {
        id: row.parse("id")?,
        name: row.get("name")?,
        agent_type: row.get("agent_type")?,
        capabilities: row.json("capabilities")?,
        status: row.parse("status")?,
        last_heartbeat_at: row.get("last_heartbeat_at")?,
        heartbeat_sequence: row.get("heartbeat_sequence")?,
        created_at: row.get("created_at")?,
    })
}
