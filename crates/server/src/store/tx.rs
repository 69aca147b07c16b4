//! One transaction: SQL on either database, and an outbox of what it tells and records. The outbox is written in one
//! statement when the transaction ends, so that positions are given out in the order of commit.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use omoi_protocol::token::AuditHead;
use omoi_redact::Secrets;
use serde::de::IgnoredAny;
use serde_json::Value as Json;

use super::{
    Error, Rules, audit, bulk,
    entry::Entry,
    offer::Offers,
    postgres::{self, PgConn},
    sqlite,
    stream::Memory,
    value::{self, Row, Value},
};

pub(super) enum Conn {
    Sqlite(rusqlite::Connection),
    Postgres(Box<PgConn>),
}

/// SQL and its values, to be said later.
pub(super) type Statement = (&'static str, Vec<Value>);

pub struct Tx {
    pub(super) conn: Conn,
    pub(super) now: Timestamp,
    pub(super) rows: Vec<Entry>,
    pub(super) audit: Vec<audit::Line>,
    /// The last line of the audit trail that this transaction has added.
    pub(super) audit_head: Option<AuditHead>,
    pub(super) writes: u64,
    pub(super) memory: Memory,
    pub(super) offers: Option<Offers>,
    /// The id that the transaction must have for what it took from memory to be true, if nobody has asked yet.
    pub(super) trusted: Option<i64>,
    pub(super) rules: Arc<Rules>,
    /// On SQLite: whether the last transaction could begin.
    begun: bool,
    /// The last transaction could not be undone, so nobody knows what the connection is in the midst of.
    stuck: bool,
}

/// How often a text is masked again. Each time needs another prefix of a token before a mask.
const MASKS_MAX: usize = 8;

/// A text without secrets. In a JSON document only what is in its strings is masked, with their escapes undone; read as
/// an ordinary text, the letter of an escape could be taken for a part of a secret.
/// A mask can look like a part of a token before it, so the text is masked until that changes nothing.
fn masked<'a>(secrets: &Secrets, text: &'a str) -> Cow<'a, str> {
    let mut clean = masked_once(secrets, text);
    for _ in 0..MASKS_MAX {
        let again = match &clean {
            Cow::Borrowed(_) => break,
            Cow::Owned(before) => masked_once(secrets, before).into_owned(),
        };
        if clean == again {
            break;
        }
        clean = Cow::Owned(again);
    }
    clean
}

fn masked_once<'a>(secrets: &Secrets, text: &'a str) -> Cow<'a, str> {
    match secrets.text(text) {
        Cow::Owned(_) if is_document(text) => match secrets.json(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        },
        clean => clean,
    }
}

/// A number alone is none: it may be a secret of digits.
fn is_document(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

impl Tx {
    pub(super) fn new(conn: Conn, rules: Arc<Rules>) -> Self {
        Self {
            conn,
            now: Timestamp::UNIX_EPOCH,
            rows: Vec::new(),
            audit: Vec::new(),
            audit_head: None,
            writes: 0,
            memory: Memory::default(),
            offers: None,
            trusted: None,
            rules,
            begun: false,
            stuck: false,
        }
    }

    /// Whether the connection is of no more use.
    pub(super) fn is_lost(&self) -> bool {
        self.stuck
            || match &self.conn {
                Conn::Sqlite(_) => false,
                Conn::Postgres(conn) => conn.is_closed(),
            }
    }

    /// Whether the last transaction had begun when it failed, on a connection that is good still: what failed then was a
    /// part of it, and the rest may well be written.
    pub(super) fn can_go_on(&self) -> bool {
        let begun = match &self.conn {
            Conn::Sqlite(_) => self.begun,
            Conn::Postgres(conn) => conn.known_transaction_id().is_some(),
        };
        begun && !self.is_lost()
    }

    /// The time of the transaction, the same for all that happens in it.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub async fn query(&mut self, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
        if !sql.starts_with("SELECT") {
            self.forget(sql);
        }
        match &mut self.conn {
            Conn::Sqlite(conn) => sqlite::query(conn, sql, params),
            Conn::Postgres(conn) => conn.query(sql, params).await,
        }
    }

    pub async fn query_one(&mut self, sql: &str, params: Vec<Value>) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// A statement that changes rows. On PostgreSQL it goes out with the next question, and a fault of it shows there.
    pub async fn execute(&mut self, sql: &str, params: Vec<Value>) -> Result<(), Error> {
        self.forget(sql);
        self.execute_known(sql, params).await
    }

    /// The same, where what is remembered of streams tells already what it changes.
    pub(super) async fn execute_known(&mut self, sql: &str, mut params: Vec<Value>) -> Result<(), Error> {
        self.writes += 1;
        self.mask(&mut params);
        match &mut self.conn {
            Conn::Sqlite(conn) => sqlite::execute(conn, sql, params),
            Conn::Postgres(conn) => conn.execute(sql, params).await,
        }
    }

    /// Statements that change rows of different tables, none of which sees what another does. PostgreSQL is told
    /// all of them as one, which costs it little more than one.
    pub(super) async fn execute_together(&mut self, mut statements: Vec<Statement>) -> Result<(), Error> {
        for (sql, params) in &mut statements {
            self.writes += 1;
            self.forget(sql);
            self.mask(params);
        }
        match &mut self.conn {
            Conn::Sqlite(conn) => {
                statements.into_iter().try_for_each(|(sql, params)| sqlite::execute(conn, sql, params))
            }
            Conn::Postgres(conn) => {
                let (sql, params) = postgres::as_one(statements);
                conn.execute(&sql, params).await
            }
        }
    }

    /// A statement that changes rows and answers with them.
    pub async fn returning(&mut self, sql: &str, mut params: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.writes += 1;
        self.mask(&mut params);
        self.query(sql, params).await
    }

    /// Masks secrets in the texts of a statement, whatever brought them here: an error, a log, a model's answer.
    fn mask(&self, params: &mut [Value]) {
        for param in params {
            if let Value::Text(text) = param {
                self.mask_text(text);
            }
        }
    }

    /// Masks secrets in a text that will be stored. A JSON document stays one.
    pub(super) fn mask_text(&self, text: &mut String) {
        if let Cow::Owned(clean) = masked(&self.rules.secrets, text) {
            *text = clean;
        }
    }

    /// Data of an entry that the server itself adds, as JSON without secrets.
    pub(super) fn data(&self, data: &Json) -> String {
        self.rules.secrets.owned_json(data.to_string())
    }

    /// What is remembered is void once a row of it changes. A new sandbox is not remembered yet; a new task is wanted.
    fn forget(&mut self, sql: &str) {
        if sql.contains(" sandboxes ") && !sql.starts_with("INSERT") {
            self.memory.forget();
        }
        if [" tasks ", " projects ", " tickets "].iter().any(|table| sql.contains(table)) {
            self.offers = None;
        }
    }

    /// A number that tells whether anybody else has written since the transaction before: see `stream.rs`.
    pub(super) async fn stamp(&mut self) -> Result<i64, Error> {
        match &mut self.conn {
            Conn::Sqlite(conn) => sqlite::data_version(conn),
            Conn::Postgres(conn) => conn.transaction_id().await,
        }
    }

    /// The same if it is known, or costs nothing to ask for.
    pub(super) fn known_stamp(&self) -> Result<Option<i64>, Error> {
        match &self.conn {
            Conn::Sqlite(conn) => sqlite::data_version(conn).map(Some),
            Conn::Postgres(conn) => Ok(conn.known_transaction_id()),
        }
    }

    /// Whether the transaction failed since somebody else had written before it, unlike it trusted, or may have.
    pub(super) fn is_overtaken(&self) -> bool {
        match self.known_stamp() {
            Ok(Some(known)) => self.trusted.is_some_and(|trusted| trusted != known),
            _ => self.trusted.is_some() && !self.is_lost(),
        }
    }

    /// Tells live viewers what became of an entity.
    pub fn tell(&mut self, event_type: &str, entity_type: &'static str, entity_id: &str, payload: &Json) {
        self.writes += 1;
        let data = self.data(payload);
        self.rows.push(Entry::notice(event_type, entity_type, entity_id, data, self.now));
    }

    /// Adds to the audit trail who did what.
    pub fn record(&mut self, actor: &str, action: &str, entity_type: &str, entity_id: &str, detail: Json) {
        self.writes += 1;
        // As it will be stored, since a hash is made of it.
        let kept = |text: &str| self.rules.secrets.owned(value::without_nul(text.to_owned()));
        let line = audit::Line {
            actor: kept(actor),
            action: kept(action),
            entity_type: kept(entity_type),
            entity_id: kept(entity_id),
            detail: self.data(&detail),
        };
        self.audit.push(line);
    }

    pub(super) async fn begin(&mut self, now: Timestamp) -> Result<(), Error> {
        self.now = now;
        self.rows.clear();
        self.audit.clear();
        self.audit_head = None;
        self.writes = 0;
        self.trusted = None;
        match &mut self.conn {
            Conn::Sqlite(conn) => {
                let begun = sqlite::say(conn, "BEGIN IMMEDIATE");
                self.begun = begun.is_ok();
                begun
            }
            Conn::Postgres(conn) => conn.begin_writing().await,
        }
    }

    /// Writes the outbox and commits. The rows come back with their positions.
    pub(super) async fn commit(&mut self) -> Result<Vec<Entry>, Error> {
        audit::flush(self).await?;
        bulk::insert_events_and_commit(self).await?;
        if let Conn::Postgres(conn) = &mut self.conn {
            // SQLite's stamp changes by the writes of others alone.
            let id = conn.transaction_id().await?;
            self.memory.go_on(id, id + 1);
            if let Some(offers) = &mut self.offers {
                offers.go_on(id, id + 1);
            }
        }
        Ok(std::mem::take(&mut self.rows))
    }

    pub(super) async fn rollback(&mut self) {
        self.memory.forget();
        self.offers = None;
        let undone = match &mut self.conn {
            Conn::Sqlite(conn) if conn.is_autocommit() => Ok(()),
            Conn::Sqlite(conn) => sqlite::say(conn, "ROLLBACK"),
            Conn::Postgres(conn) => conn.rollback().await,
        };
        if let Err(error) = undone {
            tracing::warn!(%error, "a transaction could not be undone; its connection is given up");
            self.stuck = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "omoi_sbx_Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde";

    #[test]
    fn the_letter_of_an_escape_is_no_part_of_a_secret() {
        let secrets = Secrets::new([TOKEN]);
        for escape in ['\u{8}', '\u{c}', 'é', '"', '\\', '/', '\u{1}'] {
            let value = json!({ "reason": format!("b21vaV9zYnhf{escape}{}", "A".repeat(20)) });
            for text in [value.to_string(), json!([value.to_string()]).to_string()] {
                let clean = masked(&secrets, &text);
                let read: Json = serde_json::from_str(&clean).unwrap();
                if let Some(inner) = read[0].as_str() {
                    serde_json::from_str::<Json>(inner).unwrap();
                }
                // What is masked on its way in is stored as it is.
                let on_its_way_in = secrets.owned_json(text.clone());
                assert_eq!(masked(&secrets, &on_its_way_in), on_its_way_in);
            }
        }
        let digits = Secrets::new(["1234567890123456"]);
        assert_eq!(masked(&digits, "1234567890123456"), "*".repeat(16), "a text that is a number");
    }

    proptest! {
        #[test]
        fn a_json_document_stays_one_and_is_masked_once(
            text in "([\\\\\"/nbfu0-9a-f%\u{8}\u{c}é \n]|omoi_op_|b21vaV9zYnhf|6f6d6f695f7362785f|1234567890123456|Ab3dEfGhIjKl){0,30}",
            number in 1_234_567_890_123_450_i64..1_234_567_890_123_460
        ) {
            let secrets = Secrets::new([TOKEN, "1234567890123456"]);
            for value in [json!({ &text: number }), json!([number, text, [TOKEN, text]]), json!(text)] {
                let document = value.to_string();
                let clean = masked(&secrets, &document).into_owned();
                prop_assert!(serde_json::from_str::<Json>(&clean).is_ok(), "{} became {}", document, clean);
                prop_assert_eq!(masked(&secrets, &clean), clean.as_str());
                let nested = json!([document]).to_string();
                let clean = masked(&secrets, &nested).into_owned();
                let read: Vec<String> = serde_json::from_str(&clean).unwrap();
                prop_assert!(!read[0].contains("Ab3dEfGhIjKlMn"));
            }
        }
    }
}
