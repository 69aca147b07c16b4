//! Marks: numbers that a loop remembers from one look to the next, whichever process runs it.

use super::{Error, Tx, value::params};

pub(super) async fn mark(tx: &mut Tx, name: &str, value: i64) -> Result<(), Error> {
    let sql = "INSERT INTO marks (name, value) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    tx.execute(sql, params![name, value]).await
}

pub(super) async fn marked(tx: &mut Tx, name: &str) -> Result<Option<i64>, Error> {
    let row = tx.query_one("SELECT value FROM marks WHERE name = $1", params![name]).await?;
    row.map(|row| row.get("value")).transpose()
}
