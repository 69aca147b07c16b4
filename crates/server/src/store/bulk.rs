//! Many rows in one go: SQLite runs one kept statement per row on its own thread, PostgreSQL takes whole columns.

use jiff::Timestamp;

use super::{
    Error, Tx,
    postgres::CHANNEL,
    sqlite,
    tx::Conn,
    value::{Value, params},
};

/// Writes the outbox: gives each row the next position and, on PostgreSQL, tells the other processes.
pub(super) async fn insert_events(tx: &mut Tx) -> Result<(), Error> {
    if tx.rows.is_empty() {
        return Ok(());
    }
    let last = match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let last = sqlite::query(conn, "SELECT COALESCE(max(pos), 0) AS pos FROM events", vec![])?;
            let last: i64 = last.first().map_or(Ok(0), |row| row.get("pos"))?;
            for (pos, row) in (last + 1..).zip(&tx.rows) {
                let values: Vec<Value> = params![
                    pos,
                    row.entity_type.as_ref(),
                    row.entity_id.as_str(),
                    row.seq,
                    row.worker_seq,
                    row.event_type.as_str(),
                    row.source.as_str(),
                    row.data.as_str(),
                    row.created_at,
                ];
                sqlite::execute(
                    conn,
                    "INSERT INTO events VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                    values,
                )?;
            }
            last
        }
        Conn::Postgres(conn) => {
            let rows = &tx.rows;
            let row = conn
                .query_raw(
                    &format!(
                        "WITH base AS (SELECT COALESCE(max(pos), 0) AS last FROM events), added AS ( \
                         INSERT INTO events SELECT base.last + r.n, r.entity_type, r.entity_id, r.seq, r.worker_seq, \
                         r.event_type, r.source, r.data, r.created_at FROM base, unnest($1::text[], $2::text[], \
                         $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[]) WITH ORDINALITY \
                         AS r (entity_type, entity_id, seq, worker_seq, event_type, source, data, created_at, n)) \
                         SELECT last, pg_notify('{CHANNEL}', (last + $9)::text) IS NULL AS told FROM base"
                    ),
                    &[
                        &column(rows, |r| r.entity_type.as_ref()),
                        &column(rows, |r| r.entity_id.as_str()),
                        &column(rows, |r| r.seq),
                        &column(rows, |r| r.worker_seq),
                        &column(rows, |r| r.event_type.as_str()),
                        &column(rows, |r| r.source.as_str()),
                        &column(rows, |r| r.data.as_str()),
                        &column(rows, |r| r.created_at.as_microsecond()),
                        &(rows.len() as i64),
                    ],
                )
                .await?;
            row.map_or(Ok(0), |row| row.get("last"))?
        }
    };
    for (pos, row) in (last + 1..).zip(&mut tx.rows) {
        row.pos = pos;
    }
    Ok(())
}

pub(super) async fn upsert_counts(
    tx: &mut Tx,
    counts: &[(&str, &str, i64)],
    now: Timestamp,
) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    tx.writes += 1;
    const CONFLICT: &str = "ON CONFLICT (sandbox_id, event_type) DO UPDATE SET \
                            count = event_counts.count + excluded.count, last_at = excluded.last_at";
    match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let sql = format!("INSERT INTO event_counts VALUES ($1, $2, $3, $4, $4) {CONFLICT}");
            for (sandbox, kind, n) in counts {
                sqlite::execute(conn, &sql, params![*sandbox, *kind, *n, now])?;
            }
        }
        Conn::Postgres(conn) => {
            let sql = format!(
                "INSERT INTO event_counts SELECT s, t, n, $4, $4 \
                 FROM unnest($1::text[], $2::text[], $3::bigint[]) AS r (s, t, n) {CONFLICT}"
            );
            let at = now.as_microsecond();
            let (s, t, n) = (column(counts, |c| c.0), column(counts, |c| c.1), column(counts, |c| c.2));
            conn.execute_raw(&sql, &[&s, &t, &n, &at]).await?;
        }
    }
    Ok(())
}

fn column<'a, R, T>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(of).collect()
}
