//! Many rows in one go: SQLite runs one kept statement per row on its own thread, PostgreSQL takes whole columns.

use jiff::Timestamp;

use super::{
    Entry, Error, Tx,
    postgres::CHANNEL,
    sqlite,
    tx::Conn,
    value::{Value, params},
};

/// Writes the outbox and commits: gives each row the next position and, on PostgreSQL, tells the other processes.
pub(super) async fn insert_events_and_commit(tx: &mut Tx) -> Result<(), Error> {
    let last = match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let last = insert_into_sqlite(conn, &tx.rows)?;
            sqlite::batch(conn, "COMMIT")?;
            last
        }
        Conn::Postgres(conn) if tx.rows.is_empty() => {
            conn.batch("COMMIT").await?;
            0
        }
        Conn::Postgres(conn) => {
            let sql = format!(
                "WITH base AS (SELECT COALESCE(max(pos), 0) AS last FROM events), added AS ( \
                 INSERT INTO events SELECT base.last + r.n, r.entity_type, r.entity_id, r.seq, r.worker_seq, \
                 r.worker_last, r.event_type, r.source, r.data, r.created_at FROM base, unnest($1::text[], \
                 $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], \
                 $9::bigint[]) WITH ORDINALITY AS r (entity_type, entity_id, seq, worker_seq, worker_last, \
                 event_type, source, data, created_at, n)) \
                 SELECT last, pg_notify('{CHANNEL}', (last + $10)::text) IS NULL AS told FROM base"
            );
            let rows = conn.query_and_commit(&sql, columns(&tx.rows)).await?;
            rows.first().map_or(Ok(0), |row| row.get("last"))?
        }
    };
    for (pos, row) in (last + 1..).zip(&mut tx.rows) {
        row.pos = pos;
    }
    Ok(())
}

fn insert_into_sqlite(conn: &rusqlite::Connection, rows: &[Entry]) -> Result<i64, Error> {
    if rows.is_empty() {
        return Ok(0);
    }
    let last = sqlite::query(conn, "SELECT COALESCE(max(pos), 0) AS pos FROM events", vec![])?;
    let last: i64 = last.first().map_or(Ok(0), |row| row.get("pos"))?;
    let values = (last + 1..).zip(rows).map(|(pos, row)| {
        params![
            pos,
            row.entity_type.as_ref(),
            row.entity_id.as_str(),
            row.seq,
            row.worker_seq,
            row.worker_last,
            row.event_type.as_str(),
            row.source.as_str(),
            row.data.as_str(),
            row.created_at,
        ]
    });
    sqlite::execute_each(
        conn,
        "INSERT INTO events VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        values,
    )?;
    Ok(last)
}

fn columns(rows: &[Entry]) -> Vec<Value> {
    let texts = |of: fn(&Entry) -> &str| Value::Texts(rows.iter().map(|row| of(row).to_owned()).collect());
    let ints = |of: fn(&Entry) -> Option<i64>| Value::Ints(rows.iter().map(of).collect());
    vec![
        texts(|row| &row.entity_type),
        texts(|row| &row.entity_id),
        ints(|row| row.seq),
        ints(|row| row.worker_seq),
        ints(|row| Some(row.worker_last)),
        texts(|row| &row.event_type),
        texts(|row| row.source.as_str()),
        texts(|row| &row.data),
        ints(|row| Some(row.created_at.as_microsecond())),
        rows.len().into(),
    ]
}

pub(super) async fn upsert_counts(
    tx: &mut Tx,
    counts: &[(&str, &str, i64)],
    now: Timestamp,
) -> Result<(), Error> {
    const CONFLICT: &str = "ON CONFLICT (sandbox_id, event_type) DO UPDATE SET \
                            count = event_counts.count + excluded.count, last_at = excluded.last_at";
    if counts.is_empty() {
        return Ok(());
    }
    tx.writes += 1;
    match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let sql = format!("INSERT INTO event_counts VALUES ($1, $2, $3, $4, $4) {CONFLICT}");
            let rows = counts.iter().map(|(sandbox, kind, n)| params![*sandbox, *kind, *n, now]);
            sqlite::execute_each(conn, &sql, rows)
        }
        Conn::Postgres(conn) => {
            let sql = format!(
                "INSERT INTO event_counts SELECT s, t, n, $4, $4 \
                 FROM unnest($1::text[], $2::text[], $3::bigint[]) AS r (s, t, n) {CONFLICT}"
            );
            let sandboxes = counts.iter().map(|c| c.0.to_owned()).collect::<Vec<_>>();
            let kinds = counts.iter().map(|c| c.1.to_owned()).collect::<Vec<_>>();
            let numbers = Value::Ints(counts.iter().map(|c| Some(c.2)).collect());
            conn.execute(&sql, vec![sandboxes.into(), kinds.into(), numbers, now.into()]).await
        }
    }
}
