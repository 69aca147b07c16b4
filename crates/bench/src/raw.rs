//! What the database can do without us: rows of events inserted straight into the same table with the same
//! indexes, durable.
//!
//! The raw multi-row insert rate is that of one connection which fills transactions of 1,000 rows, one after the
//! other: on SQLite by statements of 100 rows of VALUES, on PostgreSQL by one UNNEST. Rows come in runs of 50 for
//! each of 64 sandboxes, as batches would. The settings of SQLite are those of the server.

use std::{path::Path, time::Duration};

use anyhow::Context;
use rusqlite::Connection;
use tokio::time::Instant;
use tokio_postgres::{Client, Statement};

use crate::{
    bench::Bench,
    place::{Kind, Place},
    sample::{self, EVENT_BYTES, TOOL_USE},
};

/// Where the table of events is made, and where it became what it is.
const SCHEMA: [&str; 3] = [
    include_str!("../../server/src/store/migrations/0001_foundation.sql"),
    include_str!("../../server/src/store/migrations/0019_run.sql"),
    include_str!("../../server/src/store/migrations/0022_event_bytes.sql"),
];
const TRANSACTION_ROWS: usize = 1000;
const STATEMENT_ROWS: usize = 100;
const SANDBOXES: usize = 64;
const RUN_ROWS: usize = 50;
const COLUMNS: usize = 12;
const NAMES: &str = "pos, entity_type, entity_id, seq, worker_seq, worker_last, event_type, type_count, opens_run, \
                     source, data, created_at";

/// The table of events in a database of its own.
pub struct Raw {
    place: Place,
    rows: Rows,
    conn: Conn,
}

enum Conn {
    Sqlite(Connection),
    Postgres(Client, Statement),
}

impl Raw {
    pub async fn new(bench: &Bench, kind: Kind) -> anyhow::Result<Self> {
        let place = Place::fresh(bench, kind).await?;
        let conn = match place.database() {
            None => Conn::Sqlite(open(&place.dir().join("raw.db"))?),
            Some(database) => {
                let client = connect(bench, database).await?;
                client.batch_execute(&schema()).await?;
                let statement = client.prepare(UNNEST).await?;
                Conn::Postgres(client, statement)
            }
        };
        Ok(Self { place, rows: Rows::new(), conn })
    }

    /// Rows a second in transactions of 1,000.
    pub async fn insert_rate(&mut self, how_long: Duration) -> anyhow::Result<f64> {
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < how_long {
            match &mut self.conn {
                Conn::Sqlite(conn) => insert_sqlite(conn, &mut self.rows)?,
                Conn::Postgres(client, statement) => {
                    insert_postgres(client, statement, self.rows.next(TRANSACTION_ROWS)).await?;
                }
            }
            count += TRANSACTION_ROWS;
        }
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }

    /// Single rows a second, each committed before the next, on as many connections as can help.
    pub async fn commit_rate(&mut self, bench: &Bench, how_long: Duration) -> anyhow::Result<f64> {
        let began = Instant::now();
        let count = match &mut self.conn {
            Conn::Sqlite(conn) => {
                let mut count = 0;
                while began.elapsed() < how_long {
                    insert_statement(conn, &mut self.rows, 1)?;
                    count += 1;
                }
                count
            }
            Conn::Postgres(..) => {
                let database = self.place.database().context("no database")?;
                commit_postgres(bench, database, &mut self.rows, began + how_long).await?
            }
        };
        Ok(count as f64 / began.elapsed().as_secs_f64())
    }

    pub async fn remove(self, bench: &Bench) -> anyhow::Result<()> {
        drop(self.conn);
        self.place.remove(bench).await
    }
}

/// Endless rows, numbered as the server would number them.
struct Rows {
    ids: Vec<String>,
    data: String,
    last: i64,
}

struct Row {
    pos: i64,
    sandbox: usize,
    seq: i64,
}

impl Row {
    /// As the server tells it, where all events are of one type.
    fn opens_run(&self) -> bool {
        self.seq == 1 || self.seq % 16 == 0
    }
}

impl Rows {
    fn new() -> Self {
        let ids = (0..SANDBOXES).map(|n| format!("sbx-019a86b70c3f7d1ea2b4c5d6e7f8{n:04}")).collect();
        Self { ids, data: sample::data(EVENT_BYTES - 80), last: 0 }
    }

    fn row(&mut self) -> Row {
        let n = usize::try_from(self.last).unwrap_or(0);
        self.last += 1;
        let (run, in_run) = (n / RUN_ROWS, n % RUN_ROWS);
        let seq = i64::try_from((run / SANDBOXES) * RUN_ROWS + in_run + 1).unwrap_or(i64::MAX);
        Row { pos: self.last, sandbox: run % SANDBOXES, seq }
    }

    fn next(&mut self, count: usize) -> Columns<'_> {
        let rows: Vec<Row> = (0..count).map(|_| self.row()).collect();
        Columns {
            pos: rows.iter().map(|row| row.pos).collect(),
            id: rows.iter().map(|row| self.ids[row.sandbox].as_str()).collect(),
            seq: rows.iter().map(|row| row.seq).collect(),
            data: vec![self.data.as_str(); count],
        }
    }
}

struct Columns<'a> {
    pos: Vec<i64>,
    id: Vec<&'a str>,
    seq: Vec<i64>,
    data: Vec<&'a str>,
}

const ENTITY_TYPE: &str = "sandbox";
const SOURCE: &str = "agent";
const CREATED_AT: i64 = 1_794_000_000_000_000;

/// The statements of the schema that make the table of events and its indexes.
fn schema() -> String {
    let lines = SCHEMA.iter().flat_map(|text| text.lines());
    let text: String =
        lines.filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
    let words = ["CREATE TABLE events ", "ALTER TABLE events ", "DROP INDEX events_"];
    let events = |sql: &&str| {
        words.iter().any(|words| sql.trim_start().starts_with(words)) || sql.contains(" ON events ")
    };
    text.split(';').filter(events).map(|sql| format!("{sql};")).collect()
}

fn open(path: &Path) -> anyhow::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; \
         PRAGMA cache_size = -4096; PRAGMA journal_size_limit = 67108864; PRAGMA wal_autocheckpoint = 4000;",
    )?;
    conn.execute_batch(&schema().replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY"))?;
    Ok(conn)
}

fn insert_sqlite(conn: &mut Connection, rows: &mut Rows) -> anyhow::Result<()> {
    let tx = conn.transaction()?;
    for _ in 0..TRANSACTION_ROWS / STATEMENT_ROWS {
        insert_statement(&tx, rows, STATEMENT_ROWS)?;
    }
    Ok(tx.commit()?)
}

fn insert_statement(conn: &Connection, rows: &mut Rows, count: usize) -> anyhow::Result<()> {
    let values = vec!["(?,?,?,?,?,?,?,?,?,?,?,?)"; count].join(",");
    let mut statement = conn.prepare_cached(&format!("INSERT INTO events ({NAMES}) VALUES {values}"))?;
    for n in 0..count {
        let row = rows.row();
        let at = n * COLUMNS;
        statement.raw_bind_parameter(at + 1, row.pos)?;
        statement.raw_bind_parameter(at + 2, ENTITY_TYPE)?;
        statement.raw_bind_parameter(at + 3, rows.ids[row.sandbox].as_str())?;
        statement.raw_bind_parameter(at + 4, row.seq)?;
        statement.raw_bind_parameter(at + 5, row.seq)?;
        statement.raw_bind_parameter(at + 6, row.seq)?;
        statement.raw_bind_parameter(at + 7, TOOL_USE)?;
        statement.raw_bind_parameter(at + 8, row.seq)?;
        statement.raw_bind_parameter(at + 9, row.opens_run())?;
        statement.raw_bind_parameter(at + 10, SOURCE)?;
        statement.raw_bind_parameter(at + 11, rows.data.as_str())?;
        statement.raw_bind_parameter(at + 12, CREATED_AT)?;
    }
    statement.raw_execute()?;
    Ok(())
}

const UNNEST: &str = "INSERT INTO events (pos, entity_type, entity_id, seq, worker_seq, worker_last, event_type, \
                      type_count, opens_run, source, data, created_at) \
                      SELECT pos, 'sandbox', id, seq, seq, seq, $5, seq, CASE WHEN seq = 1 OR seq % 16 = 0 \
                      THEN 1 ELSE 0 END, 'agent', data, $6 \
                      FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) AS r (pos, id, seq, data)";

async fn insert_postgres(client: &Client, statement: &Statement, columns: Columns<'_>) -> anyhow::Result<()> {
    let Columns { pos, id, seq, data } = columns;
    client.execute(statement, &[&pos, &id, &seq, &data, &TOOL_USE, &CREATED_AT]).await?;
    Ok(())
}

/// As many at once as the claims that this is held against.
async fn commit_postgres(
    bench: &Bench,
    database: &str,
    rows: &mut Rows,
    end: Instant,
) -> anyhow::Result<usize> {
    const CONNECTIONS: usize = 4;
    const EACH_MAX: usize = 100_000;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = connect(bench, database).await?;
        let statement = client.prepare(UNNEST).await?;
        let mut own = Rows { ids: rows.ids.clone(), data: rows.data.clone(), last: rows.last };
        // Rows that nobody else writes.
        rows.last += i64::try_from(EACH_MAX)?;
        tasks.spawn(async move {
            let mut count = 0;
            while Instant::now() < end && count < EACH_MAX {
                insert_postgres(&client, &statement, own.next(1)).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    tasks.join_all().await.into_iter().sum()
}

async fn connect(bench: &Bench, database: &str) -> anyhow::Result<Client> {
    bench.postgres.as_ref().context("no PostgreSQL was given")?.connect(database).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_table_is_the_one_of_the_schema() {
        let sql = schema();
        assert_eq!(sql.matches("CREATE TABLE").count(), 1, "{sql}");
        assert_eq!(sql.matches(" INDEX ").count() - 2 * sql.matches("DROP INDEX").count(), 2, "{sql}");
    }

    #[test]
    fn transactions_of_rows_go_into_sqlite() {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = open(&dir.path().join("raw.db")).unwrap();
        let mut rows = Rows::new();
        insert_sqlite(&mut conn, &mut rows).unwrap();
        insert_statement(&conn, &mut rows, 1).unwrap();
        let count: i64 = conn.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1001);
    }

    #[test]
    fn rows_of_a_sandbox_are_numbered_without_gaps() {
        let mut rows = Rows::new();
        let mut last = vec![0; SANDBOXES];
        for _ in 0..SANDBOXES * RUN_ROWS * 2 {
            let row = rows.row();
            assert_eq!(row.seq, last[row.sandbox] + 1);
            last[row.sandbox] = row.seq;
        }
    }
}
