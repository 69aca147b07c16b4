//! Rows of events, as many as go together into some memory. An event may be as large as `limits.event_bytes_max` and a page
//! has hundreds: small data comes along with its row, and of large data as much is asked for as still fits.

use std::collections::HashMap;

use super::{
    Error, Tx,
    value::{Row, Value, params},
};

/// What the data of one page comes to at most, unless its first event alone is larger.
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The largest page, and data that comes along with its row: rows that are not answered after all cost no more than a page.
const PAGE_ROWS: usize = 1000;
const SMALL_BYTES: usize = 8 * 1024;
const _: () = assert!(SMALL_BYTES * PAGE_ROWS <= PAGE_BYTES);

/// Rows in the order that was asked for, from the first on.
#[derive(Debug)]
pub struct Portion<T> {
    pub rows: Vec<T>,
    /// Nothing more was found.
    pub is_last: bool,
}

/// SQL for the data of an event, to be filled up by a [`Room`].
pub(super) fn data() -> String {
    format!(
        "CAST(octet_length(data) AS BIGINT) AS bytes, CASE WHEN octet_length(data) <= {SMALL_BYTES} THEN data END AS data"
    )
}

/// What still goes into a page.
pub(super) struct Room {
    left: usize,
    is_empty: bool,
}

impl Room {
    pub fn new(bytes: usize) -> Self {
        Self { left: bytes, is_empty: true }
    }

    /// Those that fit, with all their data, and whether some did not. The very first one always does.
    pub async fn fill(&mut self, tx: &mut Tx, mut rows: Vec<Row>) -> Result<(Vec<Row>, bool), Error> {
        let (mut fitting, mut large) = (0, Vec::new());
        for row in &rows {
            let bytes = usize::try_from(row.get::<i64>("bytes")?).unwrap_or(usize::MAX);
            if bytes > self.left && !self.is_empty {
                break;
            }
            self.left = self.left.saturating_sub(bytes);
            self.is_empty = false;
            fitting += 1;
            if bytes > SMALL_BYTES {
                large.push(Some(row.get::<i64>("pos")?));
            }
        }
        let is_cut = fitting < rows.len();
        rows.truncate(fitting);
        if !large.is_empty() {
            fetch(tx, large, &mut rows).await?;
        }
        Ok((rows, is_cut))
    }
}

async fn fetch(tx: &mut Tx, large: Vec<Option<i64>>, rows: &mut [Row]) -> Result<(), Error> {
    let sql = "SELECT pos, data FROM events WHERE pos = ANY($1)";
    let mut found = HashMap::with_capacity(large.len());
    for mut row in tx.query(sql, params![Value::Ints(large)]).await? {
        found.insert(row.get::<i64>("pos")?, row.take("data")?);
    }
    for row in rows {
        if let Some(data) = found.remove(&row.get::<i64>("pos")?) {
            row.put("data", data)?;
        }
    }
    Ok(())
}
