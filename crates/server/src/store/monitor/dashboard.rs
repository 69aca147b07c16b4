//! All of it at a glance.

use std::time::Duration;

use omoi_protocol::monitor::{BaselineRow, Dashboard, Disk};

use super::{
    super::{Error, Store, value::params},
    anomaly,
};
use crate::disk::{FREE_BYTES_LOW, FREE_BYTES_MIN};

/// More of something is as good as this many.
const COUNT_MAX: usize = 1_000_000;
const ANOMALIES: usize = 10;
/// Heartbeats come twice a minute at the slowest; two that are missed are a sign.
const STALE_AFTER: Duration = Duration::from_secs(90);

impl Store {
    pub async fn monitor_dashboard(&self) -> Result<Dashboard, Error> {
        let now = self.monitor_history(1).await?.pop();
        let last = self.analysis_list(None, None, 1).await?.into_iter().next();
        let disk = self.disk().await.map(|(path, room)| Disk {
            path: path.display().to_string(),
            state: room.state(self.ground.has_failed()),
            free_bytes: room.free_bytes,
            total_bytes: room.total_bytes,
            full_below_bytes: FREE_BYTES_MIN,
            low_below_bytes: FREE_BYTES_LOW,
        });
        let baselines = self.monitor_baselines().await?;
        self.read(async move |tx| {
            let of = "(SELECT count(*) FROM (SELECT 1 FROM tasks WHERE status";
            let sql = format!(
                "SELECT {of} = 'pending' LIMIT $1) AS a) AS pending, {of} IN ('assigned', 'running') LIMIT $1) AS b) AS running, \
                 {of} = 'completed' LIMIT $1) AS c) AS completed, {of} = 'failed' LIMIT $1) AS d) AS failed, \
                 (SELECT count(*) FROM sandboxes WHERE live = 1) AS live, \
                 (SELECT count(*) FROM sandboxes WHERE live = 1 AND last_heartbeat_at < $2) AS stale, \
                 (SELECT count(*) FROM sandboxes WHERE live = 1 AND task_id IS NOT NULL AND lease_expires_at > $3) AS locks, \
                 (SELECT count(*) FROM agents WHERE status IN ('idle', 'running')) AS agents, \
                 (SELECT count(*) FROM agents WHERE status = 'degraded') AS degraded, \
                 (SELECT count(*) FROM monitor_anomalies WHERE acknowledged_at IS NULL AND severity = 'critical') AS critical, \
                 (SELECT count(*) FROM conflicts WHERE cleared_at IS NULL) AS conflicts, \
                 (SELECT count(*) FROM sandboxes WHERE place IN ('unkept', 'discarded') AND place = 'unkept') AS unkept"
            );
            let row = tx.query_one(&sql, params![COUNT_MAX, tx.now - STALE_AFTER, tx.now]).await?;
            let row = row.ok_or_else(|| Error::Unavailable("nothing could be counted".to_owned()))?;
            let count = |name: &str| Ok::<_, Error>(u64::try_from(row.get::<i64>(name)?).unwrap_or(0));
            let usual = baselines.iter().map(|((agent_kind, phase), usual)| BaselineRow {
                agent_kind: agent_kind.clone(),
                phase: phase.clone(),
                samples: usual.samples,
                latency_ms: usual.latency_ms,
                latency_std: usual.latency_std,
                error_rate: usual.error_rate,
                cpu: usual.cpu,
                memory_bytes: usual.memory_bytes,
            });
            Ok(Dashboard {
                total_tasks_pending: count("pending")?,
                total_tasks_running: count("running")?,
                total_tasks_completed: count("completed")?,
                total_tasks_failed: count("failed")?,
                active_agents: count("live")? + count("agents")?,
                stale_agents: count("stale")? + count("degraded")?,
                active_locks: count("locks")?,
                recent_anomalies: anomaly::list(tx, Some(true), None, ANOMALIES).await?,
                critical_alerts: count("critical")?,
                open_conflicts: count("conflicts")?,
                unkept_sandboxes: count("unkept")?,
                coherence_score: last.as_ref().map(|last| last.coherence_score),
                system_status: last.as_ref().map(|last| last.system_status),
                now: now.clone(),
                baselines: usual.collect(),
                disk: disk.clone(),
            })
        })
        .await
    }
}
