//! Browsers that are signed in. A session stands for an operator's token and ends with it, or when it has not been
//! used for a while, or at the latest after a week. Like a token's, its secret is kept as SHA-256 only.

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::TokenId;
use serde_json::json;

use super::{
    Bearer, Error, Store, TokenHash, hex,
    token::{LOOKED_UP_MAX, by_hex, generate, hash},
    value::{Row, params},
};

const IDLE_MAX: SignedDuration = SignedDuration::from_hours(12);
const LENGTH_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);
/// A session in use moves on this often and not with every call, for that is a write.
const MOVES_ON_EVERY: SignedDuration = SignedDuration::from_mins(5);
/// The least used one makes room for one more.
const PER_TOKEN_MAX: i64 = 50;

/// A new session: what its cookie holds, and the latest that it ends.
pub struct NewSession {
    pub secret: String,
    pub ends_at: Timestamp,
}

/// Who a session speaks for, and from when on its use should be noted.
pub struct SessionBearer {
    pub bearer: Bearer,
    pub moves_on_at: Timestamp,
}

impl Store {
    pub async fn session_begin(&self, actor: &str, token: &TokenId) -> Result<NewSession, Error> {
        let (actor, token) = (actor.to_owned(), token.clone());
        self.write(async move |tx| {
            let sql = "SELECT count(*) AS open FROM sessions WHERE token_id = $1";
            let open: i64 = match tx.query_one(sql, params![&token]).await? {
                Some(row) => row.get("open")?,
                None => 0,
            };
            if open >= PER_TOKEN_MAX {
                let sql = "DELETE FROM sessions WHERE hash = (SELECT hash FROM sessions WHERE token_id = $1 \
                           ORDER BY idle_until, hash LIMIT 1)";
                tx.execute(sql, params![&token]).await?;
            }
            let (secret, ends_at) = (generate("omoi_ses")?, tx.now + LENGTH_MAX);
            tx.execute(
                "INSERT INTO sessions (hash, token_id, created_at, idle_until, ends_at) VALUES ($1, $2, $3, $4, $5)",
                params![hex(&hash(&secret)), &token, tx.now, tx.now + IDLE_MAX, ends_at],
            )
            .await?;
            tx.record(&actor, "session.begin", "token", token.as_str(), json!({}));
            Ok(NewSession { secret, ends_at })
        })
        .await
    }

    /// Who the session with this hash speaks for, unless its token was revoked.
    pub async fn session_bearer(&self, hash: &TokenHash) -> Result<Option<SessionBearer>, Error> {
        let hash = hex(hash);
        self.read(async move |tx| {
            let sql = "SELECT t.id, t.name, t.role, t.expires_at, s.idle_until, s.ends_at FROM sessions s \
                       JOIN tokens t ON t.id = s.token_id WHERE s.hash = $1 AND t.revoked_at IS NULL";
            let Some(row) = tx.query_one(sql, params![hash.as_str()]).await? else { return Ok(None) };
            let idle_until: Timestamp = row.get("idle_until")?;
            let bearer = Bearer::Operator {
                id: row.parse("id")?,
                name: row.get("name")?,
                role: row.parse("role")?,
                expires_at: Some(end(&row)?),
            };
            Ok(Some(SessionBearer { bearer, moves_on_at: idle_until - IDLE_MAX + MOVES_ON_EVERY }))
        })
        .await
    }

    /// Those of these sessions that have not been ended and whose token was not revoked, each with its end.
    pub async fn session_ends(&self, hashes: &[TokenHash]) -> Result<Vec<(TokenHash, Timestamp)>, Error> {
        let mut ends = Vec::with_capacity(hashes.len());
        for part in hashes.chunks(LOOKED_UP_MAX) {
            let known = by_hex(part);
            let texts: Vec<String> = known.keys().cloned().collect();
            let found = self.read(async move |tx| {
                let sql = "SELECT s.hash, s.idle_until, s.ends_at, t.expires_at FROM sessions s \
                           JOIN tokens t ON t.id = s.token_id WHERE s.hash = ANY($1) AND t.revoked_at IS NULL";
                let read = |row: &Row| Ok((row.get::<String>("hash")?, end(row)?));
                tx.query(sql, params![texts.clone()]).await?.iter().map(read).collect::<Result<Vec<_>, Error>>()
            });
            ends.extend(found.await?.into_iter().filter_map(|(text, end)| Some((*known.get(&text)?, end))));
        }
        Ok(ends)
    }

    /// It was used just now.
    pub async fn session_move_on(&self, hash: &TokenHash) -> Result<(), Error> {
        let hash = hex(hash);
        self.write(async move |tx| {
            let sql = "UPDATE sessions SET idle_until = $2 WHERE hash = $1 AND idle_until > $3";
            tx.execute(sql, params![hash.as_str(), tx.now + IDLE_MAX, tx.now]).await
        })
        .await
    }

    /// Ends it, if there is one.
    pub async fn session_end(&self, hash: &TokenHash) -> Result<(), Error> {
        let hash = hex(hash);
        self.write(async move |tx| {
            let sql =
                "SELECT t.id, t.name FROM sessions s JOIN tokens t ON t.id = s.token_id WHERE s.hash = $1";
            let Some(row) = tx.query_one(sql, params![hash.as_str()]).await? else { return Ok(()) };
            let (id, name): (TokenId, String) = (row.parse("id")?, row.get("name")?);
            tx.execute("DELETE FROM sessions WHERE hash = $1", params![hash.as_str()]).await?;
            tx.record(&name, "session.end", "token", id.as_str(), json!({}));
            Ok(())
        })
        .await
    }

    /// Forgets sessions that have ended; says how many.
    pub async fn session_sweep(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let sql = "DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE idle_until <= $1 \
                       OR ends_at <= $1 LIMIT $2) RETURNING hash";
            Ok(tx.returning(sql, params![tx.now, limit]).await?.len())
        })
        .await
    }
}

/// The first of the ends of a session and of its token.
fn end(row: &Row) -> Result<Timestamp, Error> {
    let (idle_until, ends_at): (Timestamp, Timestamp) = (row.get("idle_until")?, row.get("ends_at")?);
    let own_end = idle_until.min(ends_at);
    Ok(row.get::<Option<Timestamp>>("expires_at")?.map_or(own_end, |token| token.min(own_end)))
}
