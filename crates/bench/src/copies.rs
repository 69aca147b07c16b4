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
        let ids: Vec<String> = of.iter().map(|id| format!("'{id}'")).collect();
        match self {
            Self::Sqlite(path) => {
                let conn = Connection::open(path)?;
                conn.busy_timeout(std::time::Duration::from_secs(30))?;
                let mut names = conn.prepare("SELECT name FROM pragma_table_info('tasks')")?;
                let names: Vec<String> =
                    names.query_map([], |row| row.get(0))?.collect::<Result<_, rusqlite::Error>>()?;
                let id = "substr(t.id, 1, length(t.id) - 12) || printf('%012x', numbers.n)";
                conn.execute(&statement(&names, id, &ids, each), [])?;
                conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            Self::Postgres(client) => {
                let sql =
                    "SELECT column_name::text FROM information_schema.columns WHERE table_name = 'tasks'";
                let names: Vec<String> = client.query(sql, &[]).await?.iter().map(|row| row.get(0)).collect();
                let id = "left(t.id, -12) || lpad(to_hex(numbers.n), 12, '0')";
                client.batch_execute(&statement(&names, id, &ids, each)).await?;
                for settle in ["VACUUM ANALYZE tasks", "CHECKPOINT"] {
                    client.batch_execute(settle).await?;
                }
            }
        }
        Ok(())
    }
}

fn statement(names: &[String], id: &str, of: &[String], each: u64) -> String {
    let values = names.iter().map(|name| if name == "id" { id.to_owned() } else { format!("t.{name}") });
    format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {each}) \
         INSERT INTO tasks ({}) SELECT {} FROM tasks t, numbers WHERE t.id IN ({})",
        names.join(", "),
        values.collect::<Vec<_>>().join(", "),
        of.join(", ")
    )
}
