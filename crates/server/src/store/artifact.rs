//! Artefacts: files that sandboxes hand in, kept as blobs under names that mean nothing to the server.

use omoi_protocol::{
    ArtifactId, SandboxId, TaskId,
    artifact::{ARTIFACTS_BYTES_MAX, ARTIFACTS_MAX, Artifact},
};
use serde_json::json;

use super::{
    Ask, Error, Store, Tx, blob,
    sandbox::{self, Reporter},
    task,
    value::{Row, params},
};

const COLUMNS: &str = "id, sandbox_id, task_id, name, content_type, size, blob_hash, created_at";

impl Store {
    /// The same content under the same name is stored once, so that sending again is harmless.
    pub async fn artifact_create(
        &self,
        from: &SandboxId,
        name: &str,
        content_type: &str,
        content: &[u8],
    ) -> Result<Artifact, Error> {
        let (from, name, content_type) = (from.clone(), name.to_owned(), content_type.to_owned());
        // Before the one writer of all is asked, which has other things to do.
        let (hash, size, packed) = (blob::hash(content), content.len() as i64, blob::compress(content)?);
        self.write_of(Some(from.clone()), packed.len(), async move |tx| {
            let reporter = Reporter::load(tx, &from).await?;
            let sql = format!(
                "SELECT {COLUMNS} FROM artifacts WHERE sandbox_id = $1 AND name = $2 AND blob_hash = $3 \
                 AND content_type = $4 ORDER BY id LIMIT 1"
            );
            let same = params![&from, name.as_str(), hash.as_str(), content_type.as_str()];
            if let Some(row) = tx.query_one(&sql, same).await? {
                return read(&row);
            }
            has_room(tx, &from, size).await?;
            blob::put_packed(tx, &hash, size, packed.clone()).await?;
            let made = Artifact {
                id: ArtifactId::generate(),
                sandbox_id: from.clone(),
                task_id: reporter.task_id,
                name: name.clone(),
                content_type: content_type.clone(),
                size,
                sha256: hash.clone(),
                created_at: tx.now,
            };
            insert(tx, &made).await?;
            let told =
                json!({ "artifact_id": made.id, "task_id": made.task_id, "name": made.name, "size": size });
            tx.tell("ARTIFACT_STORED", "sandbox", from.as_str(), &told);
            Ok(made)
        })
        .await
    }

    /// Oldest first; `after` is the last id of the page before.
    pub async fn artifact_list(
        &self,
        of: &SandboxId,
        after: Option<ArtifactId>,
        limit: usize,
    ) -> Result<Vec<Artifact>, Error> {
        let of = of.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &of).await?;
            list(tx, "sandbox_id =", of.as_str(), after.as_ref(), limit).await
        })
        .await
    }

    /// Those of all sandboxes that have held the task.
    pub async fn artifact_list_of_task(
        &self,
        of: &TaskId,
        after: Option<ArtifactId>,
        limit: usize,
    ) -> Result<Vec<Artifact>, Error> {
        let of = of.clone();
        self.read(async move |tx| {
            task::must_exist(tx, &of).await?;
            list(tx, "task_id =", of.as_str(), after.as_ref(), limit).await
        })
        .await
    }

    pub async fn artifact_get(&self, of: &SandboxId, id: &ArtifactId) -> Result<(Artifact, Vec<u8>), Error> {
        let (of, id) = (of.clone(), id.clone());
        self.read(async move |tx| {
            sandbox::must_exist(tx, &of).await?;
            let sql = format!("SELECT {COLUMNS} FROM artifacts WHERE id = $1 AND sandbox_id = $2");
            let row = tx.query_one(&sql, params![&id, &of]).await?;
            let artifact = read(&row.ok_or_else(|| Error::not_found("artifact", &id))?)?;
            let content = blob::get(tx, &artifact.sha256).await?;
            Ok((artifact, content))
        })
        .await
    }
}

async fn has_room(tx: &mut Tx, of: &SandboxId, more: i64) -> Result<(), Error> {
    let sql = "SELECT count(*) AS artifacts, CAST(COALESCE(sum(size), 0) AS BIGINT) AS bytes FROM artifacts \
               WHERE sandbox_id = $1";
    let Some(row) = tx.query_one(sql, params![of]).await? else { return Ok(()) };
    let (count, bytes): (i64, i64) = (row.get("artifacts")?, row.get("bytes")?);
    if count >= ARTIFACTS_MAX as i64 || bytes.saturating_add(more) > ARTIFACTS_BYTES_MAX as i64 {
        let detail = format!(
            "sandbox {of} has {count} artefacts of {bytes} bytes; {ARTIFACTS_MAX} of {ARTIFACTS_BYTES_MAX} bytes \
             together are kept"
        );
        return Err(Error::Full { code: "artifacts_full", detail });
    }
    Ok(())
}

async fn insert(tx: &mut Tx, made: &Artifact) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO artifacts (id, sandbox_id, task_id, name, content_type, size, blob_hash, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        params![
            &made.id,
            &made.sandbox_id,
            made.task_id.as_ref(),
            made.name.as_str(),
            made.content_type.as_str(),
            made.size,
            made.sha256.as_str(),
            made.created_at
        ],
    )
    .await
}

async fn list(
    tx: &mut Tx,
    of: &str,
    id: &str,
    after: Option<&ArtifactId>,
    limit: usize,
) -> Result<Vec<Artifact>, Error> {
    let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM artifacts"));
    ask.and_some(of, Some(id));
    ask.and_some("id >", after);
    let (sql, values) = ask.order_limit("id", limit);
    tx.query(&sql, values).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Artifact, Error> {
    Ok(Artifact {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse_opt("task_id")?,
        name: row.get("name")?,
        content_type: row.get("content_type")?,
        size: row.get("size")?,
        sha256: row.get("blob_hash")?,
        created_at: row.get("created_at")?,
    })
}
