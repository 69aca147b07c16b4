//! Migrations: forward only, run at start, one process at a time, on a connection without the limits of requests: a large
//! table takes its time to change, and whoever waits for another process to change it takes as long.

use super::{
    Error, Tx,
    postgres::{self, MIGRATION_LOCK, WRITE_LOCK},
    sqlite,
    tx::Conn,
    value::params,
};

const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("migrations/0001_foundation.sql")),
    (2, include_str!("migrations/0002_place.sql")),
    (3, include_str!("migrations/0003_model_calls.sql")),
    (4, include_str!("migrations/0004_egress.sql")),
    (5, include_str!("migrations/0005_transcript.sql")),
    (6, include_str!("migrations/0006_check.sql")),
    (7, include_str!("migrations/0007_graph.sql")),
    (8, include_str!("migrations/0008_dispatch.sql")),
    (9, include_str!("migrations/0009_artifact.sql")),
    (10, include_str!("migrations/0010_sessions.sql")),
    (11, include_str!("migrations/0011_prune.sql")),
    (12, include_str!("migrations/0012_spec.sql")),
    (13, include_str!("migrations/0013_guardian.sql")),
    (14, include_str!("migrations/0014_conductor.sql")),
    (15, include_str!("migrations/0015_spec_branch.sql")),
    (17, include_str!("migrations/0017_action.sql")),
    (18, include_str!("migrations/0018_judgement.sql")),
    (19, include_str!("migrations/0019_run.sql")),
    (20, include_str!("migrations/0020_agent_status.sql")),
    (21, include_str!("migrations/0021_lookup.sql")),
    (22, include_str!("migrations/0022_event_bytes.sql")),
    (23, include_str!("migrations/0023_bounds.sql")),
    (24, include_str!("migrations/0024_marks.sql")),
    (25, include_str!("migrations/0025_lookup.sql")),
    (26, include_str!("migrations/0026_rescue.sql")),
    (27, include_str!("migrations/0027_lease_seconds.sql")),
    (28, include_str!("migrations/0028_repository_reach.sql")),
    (29, include_str!("migrations/0029_model_key.sql")),
    (30, include_str!("migrations/0030_reported_cost.sql")),
];

/// Brings the schema up to date; says how many migrations ran.
pub(super) async fn run(tx: &mut Tx) -> Result<usize, Error> {
    match &mut tx.conn {
        Conn::Sqlite(conn) => sqlite::patiently(conn, |conn| sqlite::batch(conn, "BEGIN EXCLUSIVE"))?,
        Conn::Postgres(conn) => {
            conn.batch(&format!("BEGIN; SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")).await?;
        }
    }
    match pending(tx).await {
        Ok(n) => commit(tx).await.map(|()| n),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

async fn pending(tx: &mut Tx) -> Result<usize, Error> {
    batch(tx, "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY)").await?;
    let missing = missing(tx).await?;
    if let (false, Conn::Postgres(conn)) = (missing.is_empty(), &mut tx.conn) {
        // No writer is half-way through tables that are about to change: it and the migration could wait for each other.
        conn.batch(&format!("SELECT pg_advisory_xact_lock({WRITE_LOCK})")).await?;
    }
    for (version, sql) in &missing {
        batch(tx, sql).await?;
        tx.execute("INSERT INTO schema_migrations (version) VALUES ($1)", params![*version]).await?;
    }
    Ok(missing.len())
}

/// Refuses a schema that is not this program's, for whoever only reads and so changes nothing.
pub(super) async fn must_be_done(tx: &mut Tx) -> Result<(), Error> {
    let missing = if exists(tx).await? { missing(tx).await? } else { MIGRATIONS.to_vec() };
    if missing.is_empty() {
        return Ok(());
    }
    let found = if missing.len() == MIGRATIONS.len() { 0 } else { version(tx).await? };
    let detail = format!(
        "the database is at schema {found}, and this program's is {}; `omoi db migrate` brings it up to date, and so \
         does `omoi serve` when it starts",
        newest()
    );
    Err(Error::invalid("schema_too_old", detail))
}

async fn missing(tx: &mut Tx) -> Result<Vec<(i64, &'static str)>, Error> {
    let (done, newest) = (version(tx).await?, newest());
    if done > newest {
        let detail =
            format!("the database is at schema {done}, newer than this program's {newest}; use a newer omoi");
        return Err(Error::invalid("schema_too_new", detail));
    }
    let rows = tx.query("SELECT version FROM schema_migrations", params![]).await?;
    let have: Vec<i64> = rows.iter().map(|row| row.get("version")).collect::<Result<_, _>>()?;
    Ok(MIGRATIONS.iter().filter(|(version, _)| !have.contains(version)).copied().collect())
}

fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |(version, _)| *version)
}

/// Whether anything was ever migrated.
async fn exists(tx: &mut Tx) -> Result<bool, Error> {
    let sql = match &tx.conn {
        Conn::Sqlite(_) => "SELECT 1 AS one FROM sqlite_schema WHERE name = 'schema_migrations'",
        Conn::Postgres(_) => "SELECT 1 AS one WHERE to_regclass('schema_migrations') IS NOT NULL",
    };
    Ok(tx.query_one(sql, params![]).await?.is_some())
}

pub(super) async fn version(tx: &mut Tx) -> Result<i64, Error> {
    let row = tx.query_one("SELECT max(version) AS version FROM schema_migrations", params![]).await?;
    row.map_or(Ok(0), |row| Ok(row.get::<Option<i64>>("version")?.unwrap_or(0)))
}

async fn batch(tx: &mut Tx, sql: &str) -> Result<(), Error> {
    match &mut tx.conn {
        Conn::Sqlite(conn) => sqlite::batch(conn, &sqlite::migration(sql)),
        Conn::Postgres(conn) => conn.batch(&postgres::migration(sql)).await,
    }
}

async fn commit(tx: &mut Tx) -> Result<(), Error> {
    batch(tx, "COMMIT").await
}

#[cfg(test)]
mod tests {
    use super::{super::typed, MIGRATIONS, sqlite};

    /// Events that were stored before there were runs are found by their type like others.
    #[test]
    fn what_was_stored_before_runs_opens_them_where_it_should() {
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        let (before, runs): (Vec<_>, Vec<_>) = MIGRATIONS.iter().partition(|(version, _)| *version < 19);
        for (_, sql) in before {
            sqlite::batch(&conn, &sqlite::migration(sql)).unwrap();
        }
        let kind = |n: i64| if n % 5 == 0 || n == 47 { "b" } else { "a" };
        for (pos, (sandbox, n)) in ["s", "t"].iter().flat_map(|s| (1..=60).map(move |n| (s, n))).enumerate() {
            let sql =
                "INSERT INTO events VALUES (?1, 'sandbox', ?2, ?3, NULL, 0, ?4, 1, 'agent', '{}', 0, NULL)";
            conn.execute(sql, (pos as i64 + 1, sandbox, n, kind(n))).unwrap();
        }
        let notice =
            "INSERT INTO events VALUES (999, 'task', 'x', NULL, NULL, 0, 'a', 0, 'system', '{}', 0, NULL)";
        conn.execute(notice, ()).unwrap();
        sqlite::batch(&conn, runs[0].1).unwrap();
        let mut asked = conn
            .prepare("SELECT seq FROM events WHERE opens_run = 1 AND entity_id = 't' ORDER BY seq")
            .unwrap();
        let found: Vec<i64> = asked.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let previous = |n: i64| (1..n).rev().find(|before| kind(*before) == kind(n));
        let expected: Vec<i64> = (1..=60).filter(|n| typed::opens_run(*n, previous(*n))).collect();
        assert_eq!(found, expected);
    }
}
