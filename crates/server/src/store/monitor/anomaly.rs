//! Anomalies: found by the monitor, acknowledged by people. A month of them is kept.

use std::time::Duration;

use omoi_protocol::{AnomalyId, monitor::Anomaly};
use serde_json::json;

use super::super::{
    Ask, Error, Store, Tx,
    value::{Row, params},
};

const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
const COLUMNS: &str = "id, body, acknowledged_at, acknowledged_by";

impl Store {
    pub async fn anomaly_add(&self, found: Vec<Anomaly>) -> Result<(), Error> {
        self.write(async move |tx| {
            for anomaly in &found {
                let body = json!(anomaly);
                tx.execute(
                    "INSERT INTO monitor_anomalies (id, metric, sandbox_id, body, severity, detected_at) \
                     VALUES ($1, $2, $3, $4, $5, $6)",
                    params![
                        &anomaly.id,
                        anomaly.metric.as_str(),
                        anomaly.sandbox_id.as_ref(),
                        body.to_string(),
                        anomaly.severity.as_str(),
                        anomaly.detected_at
                    ],
                )
                .await?;
                tx.tell("monitor.anomaly.detected", "anomaly", anomaly.id.as_str(), &body);
            }
            tx.execute("DELETE FROM monitor_anomalies WHERE detected_at < $1", params![tx.now - KEPT]).await
        })
        .await
    }

    /// Newest first.
    pub async fn anomaly_list(
        &self,
        open: Option<bool>,
        before: Option<AnomalyId>,
        limit: usize,
    ) -> Result<Vec<Anomaly>, Error> {
        self.read(async move |tx| list(tx, open, before.as_ref(), limit).await).await
    }

    /// A second time changes nothing.
    pub async fn anomaly_acknowledge(&self, actor: &str, id: &AnomalyId) -> Result<Anomaly, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let known = get(tx, &id).await?;
            if known.acknowledged_at.is_some() {
                return Ok(known);
            }
            let sql = "UPDATE monitor_anomalies SET acknowledged_at = $2, acknowledged_by = $3 WHERE id = $1";
            tx.execute(sql, params![&id, tx.now, actor.as_str()]).await?;
            let detail = json!({ "metric": known.metric, "severity": known.severity });
            tx.tell("monitor.anomaly.acknowledged", "anomaly", id.as_str(), &detail);
            tx.record(&actor, "anomaly.acknowledge", "anomaly", id.as_str(), detail);
            get(tx, &id).await
        })
        .await
    }
}

pub(super) async fn list(
    tx: &mut Tx,
    open: Option<bool>,
    before: Option<&AnomalyId>,
    limit: usize,
) -> Result<Vec<Anomaly>, Error> {
    let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM monitor_anomalies"));
    match open {
        Some(true) => ask.raw("acknowledged_at IS NULL"),
        Some(false) => ask.raw("acknowledged_at IS NOT NULL /* most */"),
        None => {}
    }
    ask.and_some("id <", before);
    let (sql, values) = ask.order_limit("id DESC", limit);
    tx.query(&sql, values).await?.iter().map(read).collect()
}

async fn get(tx: &mut Tx, id: &AnomalyId) -> Result<Anomaly, Error> {
    let sql = format!("SELECT {COLUMNS} FROM monitor_anomalies WHERE id = $1");
    let row = tx.query_one(&sql, params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("anomaly", id))?)
}

fn read(row: &Row) -> Result<Anomaly, Error> {
    let found: Anomaly = row.json("body")?;
    let (acknowledged_at, acknowledged_by) = (row.get("acknowledged_at")?, row.get("acknowledged_by")?);
    Ok(Anomaly { acknowledged_at, acknowledged_by, ..found })
}
