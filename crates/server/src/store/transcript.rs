//! Transcripts of agents' sessions: logs that grow part by part, or came whole with their agent's last word (see
//! `keep.rs`). A session is known by its name in its sandbox; the same name in another sandbox is a log of its own.

use base64::{Engine, engine::general_purpose::STANDARD};
use omoi_protocol::{
    ProjectId, SandboxId,
    sandbox::{
        Kept, RESUME_BYTES_MAX, TRANSCRIPT_BYTES_MAX, TRANSCRIPT_PART_BYTES_MAX, Transcript,
        TranscriptReceived,
    },
};

use super::{
    Error, Store, Tx, blob,
    sandbox::{self, Reporter},
    value::{Row, params},
};

/// What all sessions of one sandbox may bring.
const SANDBOX_BYTES_MAX: i64 = 4 * TRANSCRIPT_BYTES_MAX as i64;
/// So many bytes are in at most this much base64, line breaks excluded.
const RESUME_BASE64_MAX: i64 = (RESUME_BYTES_MAX.div_ceil(3) * 4) as i64;

/// A session that another sandbox may go on with.
#[derive(Debug, Clone)]
pub struct Session {
    pub session_id: String,
    pub sandbox_id: SandboxId,
    /// Where its work is.
    pub branch_name: Option<String>,
    pub kept: Option<Kept>,
    pub transcript_b64: String,
}

impl Store {
    /// Adds to a session's log what is not in it yet. Late reports are stored like events are.
    pub async fn transcript_append(
        &self,
        id: &SandboxId,
        session_id: &str,
        offset: i64,
        data: Vec<u8>,
    ) -> Result<TranscriptReceived, Error> {
        let (id, session_id) = (id.clone(), session_id.to_owned());
        // Before the one writer of all is asked, which has other things to do.
        let whole = blob::compress(&data)?;
        self.write_of(Some(id.clone()), data.len() + whole.len(), async move |tx| {
            let from = Reporter::load(tx, &id).await?;
            let size = size(tx, &id, &session_id).await?;
            let known = known(tx, &from, &session_id, offset, &data, size).await?;
            let new = &data[known..];
            if new.is_empty() {
                return Ok(TranscriptReceived { session_id: session_id.clone(), size });
            }
            let grown = size + new.len() as i64;
            has_room(tx, &id, grown, new.len()).await?;
            let packed = if known == 0 { whole.clone() } else { blob::compress(new)? };
            tx.execute(
                "INSERT INTO transcript_parts (sandbox_id, session_id, start_at, size, data) VALUES ($1, $2, $3, $4, $5)",
                params![&id, session_id.as_str(), size, new.len(), packed],
            )
            .await?;
            tx.execute(
                "INSERT INTO transcripts (session_id, sandbox_id, task_id, blob_hash, size, created_at) \
                 VALUES ($1, $2, $3, NULL, $4, $5) ON CONFLICT (sandbox_id, session_id) DO UPDATE SET \
                 blob_hash = NULL, size = excluded.size, created_at = excluded.created_at",
                params![session_id.as_str(), &id, from.task_id.as_ref(), grown, tx.now],
            )
            .await?;
            Ok(TranscriptReceived { session_id: session_id.clone(), size: grown })
        })
        .await
    }

    /// The newest transcript of a sandbox, whole.
    pub async fn transcript_get(&self, id: &SandboxId) -> Result<Transcript, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &id).await?;
            let sql = "SELECT session_id, sandbox_id, blob_hash, created_at FROM transcripts WHERE sandbox_id = $1 \
                       ORDER BY created_at DESC LIMIT 1";
            let row = tx.query_one(sql, params![&id]).await?;
            let row = row.ok_or_else(|| Error::not_found("transcript of sandbox", &id))?;
            Ok(Transcript {
                sandbox_id: id.clone(),
                session_id: row.get("session_id")?,
                created_at: row.get("created_at")?,
                transcript_b64: content(tx, &row).await?,
            })
        })
        .await
    }

    /// The newest session of this name in a project, to go on with.
    pub async fn session_get(&self, project: &ProjectId, session_id: &str) -> Result<Session, Error> {
        let (project, session_id) = (project.clone(), session_id.to_owned());
        self.read(async move |tx| {
            let row = resumable(tx, &project, &session_id).await?;
            let kept: Option<String> = row.get("kept")?;
            Ok(Session {
                session_id: session_id.clone(),
                sandbox_id: row.parse("sandbox_id")?,
                branch_name: row.get("branch_name")?,
                kept: kept.and_then(|text| serde_json::from_str(&text).ok()),
                transcript_b64: content(tx, &row).await?,
            })
        })
        .await
    }
}

/// The row of a session that a sandbox of this project may go on with.
pub(super) async fn resumable(tx: &mut Tx, project: &ProjectId, session_id: &str) -> Result<Row, Error> {
    let sql = "SELECT t.session_id, t.sandbox_id, t.blob_hash, t.size, s.branch_name, s.kept, \
               (SELECT b.size FROM blobs b WHERE b.hash = t.blob_hash) AS blob_size \
               FROM transcripts t JOIN sandboxes s ON s.id = t.sandbox_id \
               WHERE t.session_id = $1 AND s.project_id = $2 ORDER BY t.created_at DESC LIMIT 1";
    let row = tx.query_one(sql, params![session_id, project]).await?;
    let row = row.ok_or_else(|| Error::not_found("session", session_id))?;
    let too_long = match row.get::<Option<i64>>("blob_size")? {
        Some(size) => size > RESUME_BASE64_MAX,
        None => row.get::<i64>("size")? > RESUME_BYTES_MAX as i64,
    };
    if too_long {
        let detail = format!(
            "the transcript of session {session_id} is longer than {} MiB, so it cannot be resumed; start a new one",
            RESUME_BYTES_MAX >> 20
        );
        return Err(Error::invalid("session_too_long", detail));
    }
    Ok(row)
}

/// The transcript of a row of `transcripts`, in base64.
async fn content(tx: &mut Tx, row: &Row) -> Result<String, Error> {
    if let Some(hash) = row.get::<Option<String>>("blob_hash")? {
        return blob::get_text(tx, &hash).await;
    }
    let sql =
        "SELECT size, data FROM transcript_parts WHERE sandbox_id = $1 AND session_id = $2 ORDER BY start_at";
    let (sandbox, session): (String, String) = (row.get("sandbox_id")?, row.get("session_id")?);
    let mut bytes = Vec::new();
    for part in tx.query(sql, params![sandbox, session]).await? {
        bytes.extend(unpack(&part)?);
    }
    Ok(STANDARD.encode(bytes))
}

fn unpack(part: &Row) -> Result<Vec<u8>, Error> {
    blob::decompress(&part.get::<Vec<u8>>("data")?, part.get("size")?)
}

async fn size(tx: &mut Tx, id: &SandboxId, session_id: &str) -> Result<i64, Error> {
    let sql = "SELECT size FROM transcripts WHERE sandbox_id = $1 AND session_id = $2";
    let row = tx.query_one(sql, params![id, session_id]).await?;
    row.map_or(Ok(0), |row| row.get("size"))
}

/// How many of the bytes are stored already; they must be the same.
async fn known(
    tx: &mut Tx,
    from: &Reporter,
    session_id: &str,
    offset: i64,
    data: &[u8],
    size: i64,
) -> Result<usize, Error> {
    if offset > size {
        let detail = format!(
            "offset {offset} leaves a gap: {size} bytes of session {session_id} are stored; go on there"
        );
        return Err(Error::Misplaced { code: "transcript_gap", detail, size });
    }
    let known = usize::try_from(size - offset).unwrap_or(usize::MAX).min(data.len());
    if known == 0 {
        return Ok(0);
    }
    let end = offset + known as i64;
    // No part is longer than one request, so none that begins before `earliest` reaches so far.
    let earliest = offset - TRANSCRIPT_PART_BYTES_MAX as i64;
    let sql = "SELECT start_at, size, data FROM transcript_parts WHERE sandbox_id = $1 AND session_id = $2 \
               AND start_at >= $3 AND start_at < $4 AND start_at + size > $5 ORDER BY start_at";
    for part in tx.query(sql, params![&from.id, session_id, earliest, end, offset]).await? {
        let (start, stored) = (part.get::<i64>("start_at")?, unpack(&part)?);
        let (first, last) = (offset.max(start), end.min(start + stored.len() as i64));
        let within = |base: i64| (first - base) as usize..(last - base) as usize;
        if stored[within(start)] != data[within(offset)] {
            let detail = format!(
                "session {session_id} has other bytes at {first}; a log only grows, so start another session"
            );
            return Err(Error::conflict("transcript_conflict", detail));
        }
    }
    Ok(known)
}

async fn has_room(tx: &mut Tx, id: &SandboxId, grown: i64, more: usize) -> Result<(), Error> {
    let sql = "SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) AS size FROM transcripts WHERE sandbox_id = $1";
    let row = tx.query_one(sql, params![id]).await?;
    let all = row.map_or(Ok(0), |row| row.get::<i64>("size"))? + more as i64;
    if grown > TRANSCRIPT_BYTES_MAX as i64 || all > SANDBOX_BYTES_MAX {
        let detail = format!(
            "of one session {} MiB are kept, and of all sessions of a sandbox {} MiB; what is stored stays",
            TRANSCRIPT_BYTES_MAX >> 20,
            SANDBOX_BYTES_MAX >> 20
        );
        return Err(Error::Full { code: "transcript_full", detail });
    }
    Ok(())
}
