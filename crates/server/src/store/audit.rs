//! The audit trail: who did what. Each line carries the hash of the one before it, so that a line cannot be changed,
//! taken out or put in without all later ones giving it away. That the last ones were not deleted, `head.rs` shows.

use jiff::Timestamp;
use omoi_protocol::token::{AuditEntry, AuditHead, AuditVerdict};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::{
    Ask, Error, Store, Tx, hex,
    value::{Row, params},
};

/// How many lines are checked per read.
const VERIFY_PAGE: usize = 1000;
const COLUMNS: &str = "n, at, actor, action, entity_type, entity_id, detail, prev_hash, hash";

pub(super) struct Line {
    pub actor: String,
    pub action: String,
    pub entity_type: String,
    pub entity_id: String,
    /// A JSON object.
    pub detail: String,
}

pub(super) async fn flush(tx: &mut Tx) -> Result<(), Error> {
    if tx.audit.is_empty() {
        return Ok(());
    }
    let last = tx.query_one("SELECT n, hash FROM audit ORDER BY n DESC LIMIT 1", params![]).await?;
    let (mut n, mut prev) = match last {
        Some(row) => (row.get("n")?, row.get("hash")?),
        None => (0, String::new()),
    };
    for mut line in std::mem::take(&mut tx.audit) {
        n += 1;
        // The hash is of what is stored.
        for field in
            [&mut line.actor, &mut line.action, &mut line.entity_type, &mut line.entity_id, &mut line.detail]
        {
            tx.mask_text(field);
        }
        let fields = [&line.actor, &line.action, &line.entity_type, &line.entity_id, &line.detail];
        let hash = hash(n, tx.now, &fields.map(String::as_str), &prev);
        tx.execute(
            "INSERT INTO audit (n, at, actor, action, entity_type, entity_id, detail, prev_hash, hash) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            params![
                n,
                tx.now,
                line.actor,
                line.action,
                line.entity_type,
                line.entity_id,
                line.detail,
                prev,
                hash.as_str()
            ],
        )
        .await?;
        prev = hash;
    }
    tx.audit_head = Some(AuditHead { entries: n, hash: prev, recorded_at: Some(tx.now) });
    Ok(())
}

/// Each field is preceded by its length, so that no two lines share a text.
fn hash(n: i64, at: Timestamp, fields: &[&str], prev: &str) -> String {
    let mut sha = Sha256::new();
    sha.update(n.to_be_bytes());
    sha.update(at.as_microsecond().to_be_bytes());
    for field in fields.iter().chain([&prev]) {
        sha.update((field.len() as u64).to_be_bytes());
        sha.update(field.as_bytes());
    }
    hex(&sha.finalize())
}

/// Which lines are wanted; whatever is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub action: Option<String>,
    pub entity_type: Option<String>,
    pub entity_id: Option<String>,
}

impl Store {
    /// Newest first.
    pub async fn audit_list(
        &self,
        filter: AuditFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM audit"));
            // With a bound, the lines are read in their order, and only until there are enough of them.
            ask.and_some("n <", Some(before.unwrap_or(i64::MAX)));
            ask.and_some("actor =", filter.actor.as_deref());
            ask.and_some("action =", filter.action.as_deref());
            ask.and_some("entity_type =", filter.entity_type.as_deref());
            ask.and_some("entity_id =", filter.entity_id.as_deref());
            let (sql, values) = ask.order_limit("n DESC", limit);
            tx.query(&sql, values).await?.iter().map(entry).collect()
        })
        .await
    }

    /// Follows the chain from its first line. The trail also has to hold the head that this machine has recorded, and the
    /// one that was kept elsewhere, if one is named.
    pub async fn audit_verify(&self, kept: Option<AuditHead>) -> Result<AuditVerdict, Error> {
        // Read first: the trail may grow meanwhile, and the head with it.
        let heads: Vec<AuditHead> = [kept, self.head.read()].into_iter().flatten().collect();
        let mut verdict = AuditVerdict { entries: 0, broken_at: None, cut_off: None };
        let mut prev = String::new();
        loop {
            let after = verdict.entries;
            let page = self
                .read(async move |tx| {
                    let sql = format!("SELECT {COLUMNS} FROM audit WHERE n > $1 ORDER BY n LIMIT $2");
                    tx.query(&sql, params![after, VERIFY_PAGE])
                        .await?
                        .iter()
                        .map(line)
                        .collect::<Result<Vec<_>, _>>()
                })
                .await?;
            if page.is_empty() {
                let missing = heads.into_iter().find(|head| head.entries > verdict.entries);
                verdict.cut_off = verdict.cut_off.or(missing);
                return Ok(verdict);
            }
            for (entry, detail) in page {
                let fields = [&entry.actor, &entry.action, &entry.entity_type, &entry.entity_id, &detail];
                let expected = hash(entry.n, entry.at, &fields.map(String::as_str), &prev);
                let fits =
                    entry.n == verdict.entries + 1 && entry.prev_hash == prev && entry.hash == expected;
                if !fits {
                    verdict.broken_at = Some(entry.n);
                    return Ok(verdict);
                }
                verdict.entries = entry.n;
                let mut replaced =
                    heads.iter().filter(|head| head.entries == entry.n && head.hash != entry.hash);
                verdict.cut_off = verdict.cut_off.or_else(|| replaced.next().cloned());
                prev = entry.hash;
            }
        }
    }
}

impl Store {
    /// The last entry of the trail, to be kept where nobody who can write to the database can change it.
    pub async fn audit_head(&self) -> Result<AuditHead, Error> {
        let none = AuditHead { entries: 0, hash: String::new(), recorded_at: None };
        Ok(self.audit_list(AuditFilter::default(), None, 1).await?.pop().map_or(none, |last| AuditHead {
            entries: last.n,
            hash: last.hash,
            recorded_at: Some(last.at),
        }))
    }

    /// Records the head of a trail that has none on this machine yet, as after an upgrade, and logs an error when the trail
    /// does not hold the one that was recorded.
    pub async fn audit_look_at_head(&self) -> Result<(), Error> {
        let file = self.head.clone();
        if !self.read(async move |tx| file.is_held(tx).await).await? {
            return Ok(());
        }
        let head = self.audit_head().await?;
        if head.entries > 0 {
            self.head.advance(&head);
        }
        Ok(())
    }

    /// Goes on with the trail as it is, after a backup was restored. What was recorded before is put aside, and an entry
    /// says who accepted it.
    pub async fn audit_accept(&self, actor: &str) -> Result<AuditHead, Error> {
        let found = self.audit_head().await?;
        let before = self.head.put_aside().map_err(|error| Error::Io(error.to_string()))?;
        let actor = actor.to_owned();
        let detail = json!({ "recorded": before, "found": found });
        self.write(async move |tx| {
            tx.record(&actor, "audit.accept", "audit", "trail", detail.clone());
            Ok(())
        })
        .await?;
        self.audit_head().await
    }
}

fn line(row: &Row) -> Result<(AuditEntry, String), Error> {
    Ok((entry(row)?, row.get("detail")?))
}

fn entry(row: &Row) -> Result<AuditEntry, Error> {
    Ok(AuditEntry {
        n: row.get("n")?,
        at: row.get("at")?,
        actor: row.get("actor")?,
        action: row.get("action")?,
        entity_type: row.get("entity_type")?,
        entity_id: row.get("entity_id")?,
        // A line whose detail was tampered with must still be shown as broken.
        detail: row.json("detail").unwrap_or(Json::Null),
        prev_hash: row.get("prev_hash")?,
        hash: row.get("hash")?,
    })
}
