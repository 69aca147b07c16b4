//! Tokens: random secrets of 256 bits, kept as SHA-256 only. An operator's has a role; a sandbox's opens its own
//! sandbox and nothing else, while that may report.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use omoi_protocol::{
    ProviderKind, Role, SandboxId, TokenId,
    token::{NewToken, Token, TokenCreated},
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    Error, Store, Tx, hex,
    tx::Statement,
    value::{Row, params},
};

/// How many secrets one statement looks up.
pub(super) const LOOKED_UP_MAX: usize = 500;

const COLUMNS: &str = "id, name, role, created_at, expires_at, revoked_at";

/// Who a token speaks for, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    Operator { id: TokenId, name: String, role: Role, expires_at: Option<Timestamp> },
    Sandbox { id: SandboxId, provider: ProviderKind, reports_until: Option<Timestamp> },
}

impl Bearer {
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Operator { expires_at, .. } => *expires_at,
            Self::Sandbox { reports_until, .. } => *reports_until,
        }
    }
}

/// The SHA-256 of a secret, all that is known of it here.
pub type Hash = [u8; 32];

pub fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

pub(super) fn generate(prefix: &str) -> Result<String, Error> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Unavailable(format!("no random numbers from the system: {error}")))?;
    Ok(format!("{prefix}_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// A secret for a sandbox, and what stores its hash.
pub(super) fn for_sandbox(id: &SandboxId, now: Timestamp) -> Result<(String, Statement), Error> {
    let secret = generate("omoi_sbx")?;
    let sql = "INSERT INTO tokens (id, hash, name, sandbox_id, created_at) VALUES ($1, $2, $3, $4, $5)";
    let values = params![&TokenId::generate(), hex(&hash(&secret)), id.as_str(), id, now];
    Ok((secret, (sql, values)))
}

/// A new secret; those before it open nothing any more.
pub(super) async fn replace_for_sandbox(tx: &mut Tx, id: &SandboxId) -> Result<String, Error> {
    let sql = "UPDATE tokens SET revoked_at = $2 WHERE sandbox_id = $1 AND revoked_at IS NULL";
    tx.execute(sql, params![id, tx.now]).await?;
    let (secret, (sql, values)) = for_sandbox(id, tx.now)?;
    tx.execute(sql, values).await?;
    Ok(secret)
}

impl Store {
    pub async fn token_create(&self, actor: &str, new: NewToken) -> Result<TokenCreated, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| create(tx, &actor, &new).await).await
    }

    /// The first operator's token, on a store that has none.
    pub async fn token_create_first(&self) -> Result<Option<TokenCreated>, Error> {
        self.write(async move |tx| {
            let sql = "SELECT 1 AS found FROM tokens WHERE role IS NOT NULL LIMIT 1";
            if tx.query_one(sql, params![]).await?.is_some() {
                return Ok(None);
            }
            let new = NewToken { name: "first".to_owned(), role: Role::Admin, expires_at: None };
            create(tx, "first start", &new).await.map(Some)
        })
        .await
    }

    pub async fn token_list(&self, after: Option<TokenId>, limit: usize) -> Result<Vec<Token>, Error> {
        self.read(async move |tx| {
            let sql = format!(
                "SELECT {COLUMNS} FROM tokens WHERE role IS NOT NULL AND id > $1 ORDER BY id LIMIT $2"
            );
            let after = after.as_ref().map_or("", TokenId::as_str);
            tx.query(&sql, params![after, limit]).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn token_revoke(&self, actor: &str, id: &TokenId) -> Result<Token, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let sql = format!(
                "UPDATE tokens SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1 AND role IS NOT NULL \
                 RETURNING {COLUMNS}"
            );
            let rows = tx.returning(&sql, params![&id, tx.now]).await?;
            let token = read(rows.first().ok_or_else(|| Error::not_found("token", &id))?)?;
            tx.tell("TOKEN_REVOKED", "token", id.as_str(), &json!({ "token_id": id }));
            tx.record(&actor, "token.revoke", "token", id.as_str(), json!({ "name": token.name }));
            Ok(token)
        })
        .await
    }

    /// Who the secret with this hash speaks for, unless it was revoked.
    pub async fn token_bearer(&self, hash: &Hash) -> Result<Option<Bearer>, Error> {
        let hash = hex(hash);
        self.read(async move |tx| {
            let sql = "SELECT t.id, t.name, t.role, t.sandbox_id, t.expires_at, s.provider, s.reports_until FROM tokens t \
                       LEFT JOIN sandboxes s ON s.id = t.sandbox_id WHERE t.hash = $1 AND t.revoked_at IS NULL";
            let Some(row) = tx.query_one(sql, params![hash.as_str()]).await? else { return Ok(None) };
            Ok(Some(match row.parse_opt::<SandboxId>("sandbox_id")? {
                Some(id) => Bearer::Sandbox {
                    id,
                    provider: row.parse("provider")?,
                    reports_until: row.get("reports_until")?,
                },
                None => Bearer::Operator {
                    id: row.parse("id")?,
                    name: row.get("name")?,
                    role: row.parse("role")?,
                    expires_at: row.get("expires_at")?,
                },
            }))
        })
        .await
    }

    /// Those of these tokens that were not revoked, each with its end.
    pub async fn token_ends(&self, hashes: &[Hash]) -> Result<Vec<(Hash, Option<Timestamp>)>, Error> {
        let mut ends = Vec::with_capacity(hashes.len());
        for part in hashes.chunks(LOOKED_UP_MAX) {
            let known = by_hex(part);
            let texts: Vec<String> = known.keys().cloned().collect();
            let found = self.read(async move |tx| {
                let sql = "SELECT t.hash, COALESCE(t.expires_at, s.reports_until) AS ends_at FROM tokens t \
                           LEFT JOIN sandboxes s ON s.id = t.sandbox_id \
                           WHERE t.hash = ANY($1) AND t.revoked_at IS NULL";
                let read = |row: &Row| Ok((row.get::<String>("hash")?, row.get("ends_at")?));
                tx.query(sql, params![texts.clone()])
                    .await?
                    .iter()
                    .map(read)
                    .collect::<Result<Vec<_>, Error>>()
            });
            ends.extend(found.await?.into_iter().filter_map(|(text, end)| Some((*known.get(&text)?, end))));
        }
        Ok(ends)
    }
}

/// Hashes by the text that the database keeps of them.
pub(super) fn by_hex(hashes: &[Hash]) -> HashMap<String, Hash> {
    hashes.iter().map(|hash| (hex(hash), *hash)).collect()
}

async fn create(tx: &mut Tx, actor: &str, new: &NewToken) -> Result<TokenCreated, Error> {
    let secret = generate("omoi_op")?;
    let token = Token {
        id: TokenId::generate(),
        name: new.name.clone(),
        role: new.role,
        created_at: tx.now,
        expires_at: new.expires_at,
        revoked_at: None,
    };
    tx.execute(
        "INSERT INTO tokens (id, hash, name, role, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
        params![
            &token.id,
            hex(&hash(&secret)),
            token.name.as_str(),
            token.role.as_str(),
            tx.now,
            token.expires_at
        ],
    )
    .await?;
    let detail = json!({ "name": token.name, "role": token.role });
    tx.record(actor, "token.create", "token", token.id.as_str(), detail);
    Ok(TokenCreated { token, secret })
}

fn read(row: &Row) -> Result<Token, Error> {
    Ok(Token {
        id: row.parse("id")?,
        name: row.get("name")?,
        role: row.parse("role")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        revoked_at: row.get("revoked_at")?,
    })
}
