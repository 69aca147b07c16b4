//! Many tasks that wait: a few made in the ordinary way, and copies of their rows, written straight into the table. What a
//! measurement needs a hundred thousand of is then there in seconds.

use std::path::PathBuf;

use omoi_protocol::TaskId;
use rusqlite::Connection;
use tokio_postgres::Client;

use crate::{bench::Bench, place::Place};

const DATABASE_FILE: &str = "omoi.db";

/// The same database as the store's, by another connection.
pub enum Copies {
    Sqlite(PathBuf),
    Postgres(Client),
}

impl Copies {
    pub async fn open(bench: &Bench, place: &Place) -> anyhow::Result<Self> {
        Ok(match (&bench.postgres, place.database()) {
            (Some(postgres), Some(database)) => Self::Postgres(postgres.connect(database).await?),
            _ => Self::Sqlite(place.dir().join(DATABASE_FILE)),
        })
    }

    /// So many of each of these, and the database at rest again: what follows is not to pay for it.
    pub async fn make(&self, of: &[TaskId], each: u64) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(path) => {
                let conn = Connection::open(path)?;
                conn.busy_timeout(std::time::Duration::from_secs(30))?;
                let mut names = conn.prepare("SELECT name FROM pragma_table_info('tasks')")?;
                let names: Vec<String> =
                    names.query_map([], |row| row.get(0))?.collect::<Result<_, rusqlite::Error>>()?;
                let id = "substr(t.id, 1, length(t.id) - 12) || printf('%012x', numbers.n)";
                conn.execute_batch(&statements(&names, id, of, each))?;
                conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            Self::Postgres(client) => {
                let sql =
                    "SELECT column_name::text FROM information_schema.columns WHERE table_name = 'tasks'";
                let names: Vec<String> = client.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect();
                let id = "left(t.id, -12) || lpad(to_hex(numbers.n), 12, '0')";
                client.batch_execute(&statements(&names, id, of, each)).await?;
                for settle in ["VACUUM ANALYZE tasks", "CHECKPOINT"] {
                    client.batch_execute(settle).await?;
                }
            }
        }
        Ok(())
    }
}

/// Ids that were made in one moment begin alike, so the copies of each have numbers of their own.
fn statements(names: &[String], id: &str, of: &[TaskId], each: u64) -> String {
    let values = names.iter().map(|name| if name == "id" { id.to_owned() } else { format!("t.{name}") });
    let (names, values) = (names.join(", "), values.collect::<Vec<_>>().join(", "));
    let one = |(first, of): (u64, &TaskId)| {
        format!(
            "WITH RECURSIVE numbers (n) AS (SELECT {} UNION ALL SELECT n + 1 FROM numbers WHERE n < {}) \
             INSERT INTO tasks ({names}) SELECT {values} FROM tasks t, numbers WHERE t.id = '{of}';",
            first * each + 1,
            first * each + each
        )
    };
    (0..).zip(of).map(one).collect()
}
