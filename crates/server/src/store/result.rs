//! Results that sandboxes hand in for their tasks.

use omoi_protocol::{
    ResultId, SandboxId, TaskId, Verification,
    result::{NewResult, TaskResult},
};
use serde_json::json;

use super::{
    Error, Store, Tx, blob, lapse,
    portion::{PAGE_BYTES, Portion},
    sandbox::Reporter,
    task,
    value::{Row, params},
};
use crate::domain::lease::Word;

const COLUMNS: &str =
    "id, task_id, sandbox_id, result_type, summary, blob_hash, verification_status, created_at";

/// What one sandbox may hand in.
const RESULTS_MAX: i64 = 100;
const RESULTS_BYTES_MAX: i64 = 16 * 1024 * 1024;

impl Store {
    /// Only the sandbox that holds the task, or held it last, hands in for it; without `from`, somebody does so in
    /// its place.
    pub async fn result_create(&self, from: Option<&SandboxId>, new: NewResult) -> Result<TaskResult, Error> {
        let from = from.cloned();
        // Before the one writer of all is asked, which has other things to do.
        let (hash, size) = (blob::hash(new.content.as_bytes()), new.content.len() as i64);
        let packed = blob::compress(new.content.as_bytes())?;
        self.write_of(from.clone(), packed.len(), async move |tx| {
            if let Some(from) = &from {
                let mut reporter = Reporter::load(tx, from).await?;
                lapse::reclaim(tx, &mut reporter, Word::Alive).await?;
            }
            let owner = task::get(tx, &new.task_id).await?.sandbox_id;
            let Some(from) = from.clone().or(owner.clone()).filter(|from| owner.as_ref() == Some(from)) else {
                let detail = format!("the sandbox does not hold task {}", new.task_id);
                return Err(Error::conflict("not_the_owner", detail));
            };
            Reporter::load(tx, &from).await?;
            has_room(tx, &new.task_id, &from, size).await?;
            let id = ResultId::generate();
            blob::put_packed(tx, &hash, size, packed.clone()).await?;
            tx.execute(
                "INSERT INTO results (id, task_id, sandbox_id, result_type, summary, blob_hash, verification_status, \
                 created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                params![
                    &id,
                    &new.task_id,
                    &from,
                    new.result_type.as_str(),
                    new.summary.as_str(),
                    hash.as_str(),
                    Verification::Unverified.as_str(),
                    tx.now
                ],
            )
            .await?;
            let told = json!({ "result_id": id, "sandbox_id": from, "result_type": new.result_type });
            tx.tell("result.task.submitted", "task", new.task_id.as_str(), &told);
            let row = tx.query_one(&format!("SELECT {COLUMNS} FROM results WHERE id = $1"), params![&id]).await?;
            read(tx, &row.ok_or_else(|| Error::not_found("result", &id))?).await
        })
        .await
    }

    pub async fn result_list(
        &self,
        task: &TaskId,
        after: Option<ResultId>,
        limit: usize,
    ) -> Result<Portion<TaskResult>, Error> {
        let of = task.clone();
        self.read(async move |tx| {
            task::must_exist(tx, &of).await?;
            let sql =
                format!("SELECT {COLUMNS} FROM results WHERE task_id = $1 AND id > $2 ORDER BY id LIMIT $3");
            let after = after.as_ref().map_or("", ResultId::as_str);
            let found = tx.query(&sql, params![&of, after, limit + 1]).await?;
            let (mut rows, mut bytes) = (Vec::new(), 0);
            for row in found.iter().take(limit) {
                let result = read(tx, row).await?;
                bytes += result.content.len();
                if bytes > PAGE_BYTES && !rows.is_empty() {
                    break;
                }
                rows.push(result);
            }
            Ok(Portion { is_last: rows.len() == found.len(), rows })
        })
        .await
    }
}

async fn has_room(tx: &mut Tx, task: &TaskId, of: &SandboxId, more: i64) -> Result<(), Error> {
    let sql = "SELECT count(*) AS results, CAST(COALESCE(sum(b.size), 0) AS BIGINT) AS bytes FROM results r \
               JOIN blobs b ON b.hash = r.blob_hash WHERE r.task_id = $1 AND r.sandbox_id = $2";
    let Some(row) = tx.query_one(sql, params![task, of]).await? else { return Ok(()) };
    let (count, bytes): (i64, i64) = (row.get("results")?, row.get("bytes")?);
    if count >= RESULTS_MAX || bytes.saturating_add(more) > RESULTS_BYTES_MAX {
        let detail = format!(
            "sandbox {of} has handed in {count} results of {bytes} bytes; {RESULTS_MAX} of {RESULTS_BYTES_MAX} bytes \
             together are kept"
        );
        return Err(Error::Full { code: "results_full", detail });
    }
    Ok(())
}

async fn read(tx: &mut Tx, row: &Row) -> Result<TaskResult, Error> {
    Ok(TaskResult {
        id: row.parse("id")?,
        task_id: row.parse("task_id")?,
        sandbox_id: row.parse("sandbox_id")?,
        result_type: row.parse("result_type")?,
        summary: row.get("summary")?,
        content: blob::get_text(tx, &row.get::<String>("blob_hash")?).await?,
        verification_status: row.parse("verification_status")?,
        created_at: row.get("created_at")?,
    })
}
