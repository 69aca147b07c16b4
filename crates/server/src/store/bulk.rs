//! Many rows in one go: SQLite runs one kept statement per row on its own thread, PostgreSQL takes whole columns.

use omoi_protocol::SandboxId;
use tokio_postgres::types::ToSql;

use super::{
    Entry, Error, Tx,
    postgres::{CHANNEL, WRITE_LOCK},
    sandbox::Reporter,
    sqlite,
    tx::Conn,
    typed,
    value::{Row, Value, params},
};

/// In the order of the values below. They are named, so that a column which a newer program adds stays its own affair.
const COLUMNS: &str = "pos, entity_type, entity_id, seq, worker_seq, worker_last, event_type, type_count, source, data, \
                       created_at, refused, opens_run, total_bytes";

/// Writes the outbox and commits: gives each row the next position and, on PostgreSQL, tells the other processes. What was
/// trusted there and is not so voids the transaction: a division by zero where it would commit.
pub(super) async fn insert_events_and_commit(tx: &mut Tx) -> Result<(), Error> {
    let last = match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let last = insert_into_sqlite(conn, &tx.rows)?;
            sqlite::say(conn, "COMMIT")?;
            last
        }
        Conn::Postgres(conn) if tx.rows.is_empty() => {
            if let Some(trusted) = tx.trusted
                && conn.transaction_id().await? != trusted
            {
                return Err(Error::Unavailable("another process has written in between".to_owned()));
            }
            conn.batch("COMMIT").await?;
            0
        }
        Conn::Postgres(conn) => {
            // The lock is held already, unless the statement stands alone: then it comes before the id and before all rows.
            let sql = format!(
                "WITH stamp AS MATERIALIZED (SELECT txid_current() AS id FROM pg_advisory_xact_lock({WRITE_LOCK})), \
                 base AS (SELECT COALESCE(max(pos), 0) AS last FROM events), added AS ( \
                 INSERT INTO events ({COLUMNS}) SELECT base.last + r.n, r.entity_type, r.entity_id, r.seq, r.worker_seq, \
                 r.worker_last, r.event_type, r.type_count, r.source, r.data, r.created_at, r.refused, r.opens_run, r.total_bytes \
                 FROM stamp, base, unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], \
                 $7::bigint[], $8::text[], $9::text[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[]) WITH ORDINALITY \
                 AS r (entity_type, entity_id, seq, worker_seq, worker_last, event_type, type_count, source, data, created_at, \
                 refused, opens_run, total_bytes, n)) \
                 SELECT id, last, pg_notify('{CHANNEL}', (last + $14)::text) IS NULL AS told, \
                 1 / CASE WHEN id = COALESCE($15, id) THEN 1 ELSE 0 END AS trusted FROM stamp, base"
            );
            let rows = &tx.rows;
            let texts = |of: fn(&Entry) -> &str| rows.iter().map(of).collect::<Vec<_>>();
            let ints = |of: fn(&Entry) -> Option<i64>| rows.iter().map(of).collect::<Vec<_>>();
            let values: [&(dyn ToSql + Sync); 15] = [
                &texts(|row| &row.entity_type),
                &texts(|row| &row.entity_id),
                &ints(|row| row.seq),
                &ints(|row| row.worker_seq),
                &ints(|row| Some(row.worker_last)),
                &texts(|row| &row.event_type),
                &ints(|row| Some(row.type_count)),
                &texts(|row| row.source.as_str()),
                &texts(|row| &row.data),
                &ints(|row| Some(row.created_at.as_microsecond())),
                &rows.iter().map(|row| row.refused.as_deref()).collect::<Vec<_>>(),
                &ints(|row| Some(row.opens_run.into())),
                &ints(|row| Some(row.total_bytes)),
                &i64::try_from(rows.len()).unwrap_or(i64::MAX),
                &tx.trusted,
            ];
            // What it sees is then as old as the statement, and right if the id is: nobody has written in between.
            let stands_alone = tx.trusted.is_some() && conn.has_said_nothing();
            let answer = match stands_alone {
                true => conn.query_alone(&sql, &values).await?,
                false => conn.query_and_commit(&sql, &values).await?,
            };
            let answer = answer.first().ok_or_else(|| Error::corrupt("events", "no answer to an insert"))?;
            conn.set_transaction_id(answer.get("id")?);
            answer.get("last")?
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
    let sql = format!(
        "INSERT INTO events ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)"
    );
    sqlite::execute_each(conn, &sql, (last + 1..).zip(rows), |statement, (pos, row)| {
        statement.raw_bind_parameter(1, pos)?;
        statement.raw_bind_parameter(2, row.entity_type.as_ref())?;
        statement.raw_bind_parameter(3, row.entity_id.as_str())?;
        statement.raw_bind_parameter(4, row.seq)?;
        statement.raw_bind_parameter(5, row.worker_seq)?;
        statement.raw_bind_parameter(6, row.worker_last)?;
        statement.raw_bind_parameter(7, row.event_type.as_str())?;
        statement.raw_bind_parameter(8, row.type_count)?;
        statement.raw_bind_parameter(9, row.source.as_str())?;
        statement.raw_bind_parameter(10, row.data.as_str())?;
        statement.raw_bind_parameter(11, row.created_at.as_microsecond())?;
        statement.raw_bind_parameter(12, row.refused.as_deref())?;
        statement.raw_bind_parameter(13, row.opens_run)?;
        statement.raw_bind_parameter(14, row.total_bytes)
    })?;
    Ok(last)
}

/// The events that a worker has sent under these numbers; `unnumbered` came without one. The worker's last number never
/// falls from event to event, so an event is found by halving what is in question, however many have no number.
pub(super) async fn numbered(
    tx: &mut Tx,
    of: &SandboxId,
    numbers: Vec<i64>,
    unnumbered: i64,
) -> Result<Vec<Row>, Error> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    // `at` is an event before the wanted one; it moves on by ever smaller steps, to each that is before it as well.
    let step = unnumbered.checked_ilog2().map_or(0, |bits| 1_i64 << bits);
    let select = |asked: &str, found: &str| {
        format!(
            "WITH RECURSIVE halving (n, at, step) AS (SELECT {asked} UNION ALL SELECT n, at + CASE WHEN (SELECT e.worker_last \
             FROM events e WHERE e.entity_id = $1 AND e.seq IS NOT NULL AND e.seq = at + step) < n THEN step ELSE 0 END, \
             step / 2 FROM halving WHERE step > 0) \
             SELECT pos, seq, worker_seq, event_type, source, data, created_at, refused FROM events \
             WHERE entity_id = $1 AND seq IS NOT NULL AND {found} AND worker_seq IS NOT NULL"
        )
    };
    match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let sql = select(
                "$2, $2 - 1, $3",
                "seq = (SELECT at + 1 FROM halving WHERE step = 0) AND worker_seq = $2",
            );
            let mut rows = Vec::with_capacity(numbers.len());
            for n in numbers {
                rows.extend(sqlite::query(conn, &sql, params![of, n, step])?);
            }
            Ok(rows)
        }
        Conn::Postgres(conn) => {
            let sql = select(
                "asked.n, asked.n - 1, $3::bigint FROM unnest($2::bigint[]) AS asked (n)",
                "seq = ANY(ARRAY(SELECT at + 1 FROM halving WHERE step = 0)) AND worker_seq = ANY($2::bigint[])",
            );
            let numbers = Value::Ints(numbers.into_iter().map(Some).collect());
            conn.query(&sql, params![of, numbers, step]).await
        }
    }
}

/// What is known of each sandbox and of the type of its events; nothing of a sandbox that does not exist.
pub(super) async fn streams(tx: &mut Tx, of: &[(&str, &str)]) -> Result<Vec<Row>, Error> {
    // The last event by the index alone; a join would leave the planner free to read them all.
    let last = |column: &str| {
        format!(
            "(SELECT e.{column} FROM events e WHERE e.entity_id = s.id AND e.seq IS NOT NULL \
             ORDER BY e.seq DESC LIMIT 1) AS {column}"
        )
    };
    let select = |event_type: &str| {
        let of_type = |column: &str| typed::last(column, "s.id", event_type);
        format!(
            "SELECT {event_type} AS event_type, {}, {}, {}, {}, ({}) AS type_count, ({}) AS type_seq",
            Reporter::COLUMNS,
            last("seq"),
            last("worker_last"),
            last("total_bytes"),
            of_type("e.type_count"),
            of_type("e.seq"),
        )
    };
    match &mut tx.conn {
        Conn::Sqlite(conn) => {
            let sql = format!("{} FROM sandboxes s WHERE s.id = $2", select("$1"));
            let mut rows = Vec::with_capacity(of.len());
            for (sandbox, event_type) in of {
                rows.extend(sqlite::query(conn, &sql, params![*event_type, *sandbox])?);
            }
            Ok(rows)
        }
        Conn::Postgres(conn) => {
            let sql = format!(
                "{} FROM unnest($1::text[], $2::text[]) AS asked (event_type, id) JOIN sandboxes s ON s.id = asked.id",
                select("asked.event_type")
            );
            let column = |at: fn(&(&str, &str)) -> String| of.iter().map(at).collect::<Vec<_>>();
            conn.query(&sql, params![column(|of| of.1.to_owned()), column(|of| of.0.to_owned())]).await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::FutureExt;

    use super::*;
    use crate::{
        config::Config,
        store::{Rules, migrate},
    };

    /// A worker that repeats one event must not cost everybody the time to read all that it ever said without a number.
    #[test]
    fn an_event_is_found_by_its_number_without_a_look_at_those_that_have_none() {
        const COUNT: i64 = 20_000;
        let conn = rusqlite::Connection::open_in_memory().unwrap();
        let steps = Arc::new(AtomicUsize::new(0));
        let mut tx = Tx::new(Conn::Sqlite(conn), Arc::new(Rules::new(&Config::default())));
        migrate::run(&mut tx).now_or_never().unwrap().unwrap();
        let Conn::Sqlite(conn) = &mut tx.conn else { panic!("on SQLite") };
        let sql = format!(
            "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {COUNT}) \
             INSERT INTO events ({COLUMNS}) SELECT n, 'sandbox', 'sbx-1', n, CASE WHEN n % 5000 = 0 THEN n / 5000 END, \
             n / 5000, 'a', n, 'agent', '{{}}', 0, NULL, 0, 0 FROM r"
        );
        sqlite::batch(conn, &sql).unwrap();
        let counted = steps.clone();
        let count = move || counted.fetch_add(1, Ordering::SeqCst) > usize::MAX / 2;
        conn.progress_handler(1, Some(count)).unwrap();
        let id = "sbx-1".parse().unwrap();
        let found = numbered(&mut tx, &id, vec![1, 2, 3, 4], COUNT - 4);
        let rows = found.now_or_never().unwrap().unwrap();
        let seqs: Vec<i64> = rows.iter().map(|row| row.get("seq").unwrap()).collect();
        assert_eq!(seqs, [5000, 10_000, 15_000, 20_000]);
        let steps = steps.load(Ordering::SeqCst);
        assert!(steps < 10_000, "{steps} steps of SQLite's machine");
    }
}
