//! The log of what sandboxes reached for outside.

use omoi_protocol::{
    EgressId, EgressTls, SandboxId,
    egress::EgressRequest,
    event::{EgressDenied, Payload},
};

use super::{
    Error, Store, Tx, sandbox, system,
    value::{Row, params},
};

const COLUMNS: &str = "id, at, last_at, requests, method, host, port, address, decision, code, reason, tls, \
                       bytes_up, bytes_down, duration_ms";

/// A host that was refused for the first time, to be told in the sandbox's stream.
#[derive(Debug, Clone)]
pub struct Denial {
    pub host: String,
    pub port: u16,
    pub code: &'static str,
    pub reason: String,
}

impl Store {
    /// Writes lines of one sandbox, new ones or ones that have changed, and tells what was denied.
    pub async fn egress_record(
        &self,
        id: &SandboxId,
        lines: Vec<EgressRequest>,
        denials: Vec<Denial>,
    ) -> Result<(), Error> {
        let id = id.clone();
        self.write(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            for line in &lines {
                upsert(tx, &id, line).await?;
            }
            for denial in &denials {
                let payload = payload(denial);
                let data = payload.to_value().unwrap_or_default();
                system::append(tx, &id, payload.event_type(), &data).await?;
            }
            Ok(())
        })
        .await
    }

    /// Removes the oldest lines, as far as they are older than is kept. At most `limit`; says how many.
    pub async fn egress_prune(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let sql = "DELETE FROM egress WHERE (sandbox_id, id) IN (SELECT sandbox_id, id FROM egress \
                       WHERE last_at < $1 ORDER BY last_at LIMIT $2) RETURNING id";
            Ok(tx.returning(sql, params![tx.now - tx.rules.egress_kept, limit]).await?.len())
        })
        .await
    }

    /// Newest first.
    pub async fn egress_list(
        &self,
        id: &SandboxId,
        before: Option<EgressId>,
        limit: usize,
    ) -> Result<Vec<EgressRequest>, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let mut ask = super::Ask::new(&format!("SELECT {COLUMNS} FROM egress"));
            ask.and_some("sandbox_id =", Some(&id));
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(|row| read(row, &id)).collect()
        })
        .await
    }
}

async fn upsert(tx: &mut Tx, id: &SandboxId, line: &EgressRequest) -> Result<(), Error> {
    let sql = format!(
        "INSERT INTO egress (sandbox_id, {COLUMNS}) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) \
         ON CONFLICT (sandbox_id, id) DO UPDATE SET last_at = excluded.last_at, requests = excluded.requests, \
         address = excluded.address, decision = excluded.decision, code = excluded.code, \
         reason = excluded.reason, tls = excluded.tls, bytes_up = excluded.bytes_up, \
         bytes_down = excluded.bytes_down, duration_ms = excluded.duration_ms"
    );
    let values = params![
        id,
        &line.id,
        line.at,
        line.last_at,
        line.requests,
        line.method.as_str(),
        line.host.as_str(),
        line.port,
        line.address.as_deref(),
        line.decision.as_str(),
        line.code.as_deref(),
        line.reason.as_deref(),
        line.tls.map(EgressTls::as_str),
        line.bytes_up,
        line.bytes_down,
        line.duration_ms,
    ];
    tx.execute(&sql, values).await
}

fn payload(denial: &Denial) -> Payload {
    let denied = EgressDenied {
        host: Some(denial.host.clone()),
        port: Some(u64::from(denial.port)),
        code: Some(denial.code.to_owned()),
        reason: Some(denial.reason.clone()),
        ..EgressDenied::default()
    };
    denied.into()
}

fn read(row: &Row, id: &SandboxId) -> Result<EgressRequest, Error> {
    Ok(EgressRequest {
        id: row.parse("id")?,
        sandbox_id: id.clone(),
        at: row.get("at")?,
        last_at: row.get("last_at")?,
        requests: row.get("requests")?,
        method: row.get("method")?,
        host: row.get("host")?,
        port: row.get("port")?,
        address: row.get("address")?,
        decision: row.parse("decision")?,
        code: row.get("code")?,
        reason: row.get("reason")?,
        tls: row.parse_opt("tls")?,
        bytes_up: row.get("bytes_up")?,
        bytes_down: row.get("bytes_down")?,
        duration_ms: row.get("duration_ms")?,
    })
}
