//! Results that sandboxes hand in for their tasks.

use omoi_protocol::{
    ResultId, SandboxId, TaskId, Verification,
    result::{NewResult, TaskResult},
};
use serde_json::json;

use super::{
    Error, Store, Tx, blob,
    sandbox::Reporter,
    task,
    value::{Row, params},
};

const COLUMNS: &str =
    "id, task_id, sandbox_id, result_type, summary, blob_hash, verification_status, created_at";

impl Store {
    /// Only the sandbox that holds the task, or held it last, hands in for it; without `from`, somebody does so in
    /// its place.
    pub async fn result_create(&self, from: Option<&SandboxId>, new: NewResult) -> Result<TaskResult, Error> {
        let from = from.cloned();
        self.write_large(new.content.len(), async move |tx| {
            let owner = task::get(tx, &new.task_id).await?.sandbox_id;
            let Some(from) = from.clone().or(owner.clone()).filter(|from| owner.as_ref() == Some(from)) else {
                let detail = format!("the sandbox does not hold task {}", new.task_id);
                return Err(Error::conflict("not_the_owner", detail));
            };
            Reporter::load(tx, &from).await?;
            let id = ResultId::generate();
            let hash = blob::put(tx, new.content.as_bytes()).await?;
            tx.execute(
                "INSERT INTO results (id, task_id, sandbox_id, result_type, summary, blob_hash, verification_status, \
                 created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                params![
                    &id,
                    &new.task_id,
                    &from,
                    new.result_type.as_str(),
                    new.summary.as_str(),
                    hash,
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
    ) -> Result<Vec<TaskResult>, Error> {
        let of = task.clone();
        self.read(async move |tx| {
            task::must_exist(tx, &of).await?;
            let sql =
                format!("SELECT {COLUMNS} FROM results WHERE task_id = $1 AND id > $2 ORDER BY id LIMIT $3");
            let after = after.as_ref().map_or("", ResultId::as_str);
            let mut results = Vec::new();
            for row in tx.query(&sql, params![&of, after, limit]).await? {
                results.push(read(tx, &row).await?);
            }
            Ok(results)
        })
        .await
    }
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
