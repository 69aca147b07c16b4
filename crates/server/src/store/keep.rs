//! What an event brings that is too large to stay in it: whole diffs and transcripts. They are kept as blobs and
//! fetched on demand; the event keeps its preview. A transcript that grows is in `transcript.rs`.

use omoi_protocol::{
    EventId, SandboxId,
    event::NewEvent,
    sandbox::{Diff, SESSION_ID_CHARS_MAX},
};
use serde_json::Value as Json;

use super::{
    Error, Store, Tx, blob, paging,
    sandbox::{self, Reporter},
    value::params,
};

/// A diff up to this many bytes stays in its event.
const DIFF_BYTES_INLINE: usize = 5000;

/// The data to store for an event, after its large parts have been put aside.
pub(super) async fn extract(
    tx: &mut Tx,
    from: &Reporter,
    seq: i64,
    event: &NewEvent,
) -> Result<String, Error> {
    let Some((data, large)) = split(event) else {
        return Ok(event.event_data.get().to_owned());
    };
    let content = large.content();
    let hash = blob::put(tx, content.as_bytes()).await?;
    match large {
        Large::Diff { file_path, .. } => {
            tx.execute(
                "INSERT INTO diffs (sandbox_id, seq, file_path, blob_hash) VALUES ($1, $2, $3, $4)",
                params![&from.id, seq, file_path, hash],
            )
            .await?;
        }
        Large::Transcript { session_id, .. } => {
            tx.execute(
                "INSERT INTO transcripts (session_id, sandbox_id, task_id, blob_hash, size, created_at) \
                 VALUES ($1, $2, $3, $4, 0, $5) ON CONFLICT (sandbox_id, session_id) DO UPDATE SET \
                 blob_hash = excluded.blob_hash, created_at = excluded.created_at",
                params![session_id, &from.id, from.task_id.as_ref(), hash, tx.now],
            )
            .await?;
        }
    }
    Ok(data)
}

/// Whether an event repeats what is stored as `data`, which names what was put aside by its hash.
pub(super) fn matches(event: &NewEvent, data: &str) -> bool {
    match split(event) {
        Some((split, _)) => split == data,
        None => event.event_data.get() == data,
    }
}

enum Large {
    Diff { file_path: String, content: String },
    Transcript { session_id: String, content: String },
}

impl Large {
    fn content(&self) -> &str {
        match self {
            Self::Diff { content, .. } | Self::Transcript { content, .. } => content,
        }
    }
}

fn split(event: &NewEvent) -> Option<(String, Large)> {
    let is_diff = match event.event_type.as_str() {
        "agent.file_edited" => event.event_data.get().len() > DIFF_BYTES_INLINE,
        "agent.completed" => false,
        _ => return None,
    };
    let mut data: Json = serde_json::from_str(event.event_data.get()).ok()?;
    let object = data.as_object_mut()?;
    let text =
        |object: &serde_json::Map<String, Json>, key: &str| object.get(key)?.as_str().map(str::to_owned);
    let large = if is_diff {
        let content = text(object, "full_diff").filter(|diff| diff.len() > DIFF_BYTES_INLINE)?;
        object.insert("full_diff".to_owned(), Json::Null);
        object.insert("full_diff_available".to_owned(), Json::Bool(true));
        // A worker that had to cut it says how long it was.
        let said = object.get("full_diff_size").and_then(Json::as_u64).unwrap_or_default();
        object.insert("full_diff_size".to_owned(), said.max(content.chars().count() as u64).into());
        object.insert("full_diff_sha256".to_owned(), blob::hash(content.as_bytes()).into());
        Large::Diff { file_path: text(object, "file_path").unwrap_or_default(), content }
    } else {
        let content = text(object, "transcript_b64").filter(|transcript| !transcript.is_empty())?;
        let session_id = text(object, "session_id")
            .filter(|id| !id.is_empty() && id.chars().count() <= SESSION_ID_CHARS_MAX)?;
        object.remove("transcript_b64");
        object.insert("transcript_sha256".to_owned(), blob::hash(content.as_bytes()).into());
        Large::Transcript { session_id, content }
    };
    Some((data.to_string(), large))
}

impl Store {
    /// The whole diff of a file change, wherever it is kept.
    pub async fn diff_get(&self, id: &SandboxId, of: EventId) -> Result<Diff, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let seq = paging::seq_of(tx, &id, of).await?;
            let sql = "SELECT file_path, blob_hash FROM diffs WHERE sandbox_id = $1 AND seq = $2";
            if let Some(row) = tx.query_one(sql, params![&id, seq]).await? {
                let full_diff = blob::get_text(tx, &row.get::<String>("blob_hash")?).await?;
                return Ok(Diff {
                    event_id: of,
                    sandbox_id: id.clone(),
                    file_path: row.get("file_path")?,
                    full_diff,
                });
            }
            let row = tx.query_one("SELECT data FROM events WHERE pos = $1", params![of.0]).await?;
            let text: String = row.map_or(Ok(String::new()), |row| row.get("data"))?;
            // Data is kept as it came, also such as no reader of JSON takes; then there is no diff in it.
            let data: Json = serde_json::from_str(&text).unwrap_or_default();
            let inline = data["full_diff"].as_str().or(data["diff_preview"].as_str());
            let full_diff = inline.ok_or_else(|| Error::not_found("diff of event", of))?.to_owned();
            let file_path = data["file_path"].as_str().unwrap_or_default().to_owned();
            Ok(Diff { event_id: of, sandbox_id: id.clone(), file_path, full_diff })
        })
        .await
    }
}
