//! SQLite: the embedded default. WAL, one writing connection, several reading ones.

use std::{os::unix::fs::OpenOptionsExt as _, path::Path, rc::Rc, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, config::DbConfig, types::ValueRef};

use super::{
    Error,
    value::{Row, Value},
};
use crate::config::SqliteSynchronous;

/// How long a statement waits for another process that writes, such as `omoi token create`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENTS_CACHED: usize = 256;
/// A commit writes whole pages, and the events of many sandboxes are as many pages of an index: half of SQLite's usual size is
/// half as much to flush.
const PAGE_BYTES: u32 = 2048;

/// For what waits for another process to change the schema, however long that takes.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(super) fn patiently<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    conn.busy_timeout(PATIENCE).map_err(fault)?;
    let done = work(conn);
    conn.busy_timeout(BUSY_TIMEOUT).map_err(fault)?;
    done
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Makes the file of a database where there is none. SQLite gives the files beside it the same mode.
pub(super) fn make(path: &Path) -> Result<(), Error> {
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let text = format!("{} cannot be made: {error}", path.display());
            Err(if crate::disk::is_full(&error) { Error::DiskFull(text) } else { Error::Io(text) })
        }
        _ => Ok(()),
    }
}

/// Opens a database that is there: one that was removed is not made again unnoticed.
pub(super) fn open(path: &Path, synchronous: SqliteSynchronous, access: Access) -> Result<Connection, Error> {
    try_open(path, synchronous, access).map_err(|error| unusable(path, &error))
}

fn try_open(path: &Path, synchronous: SqliteSynchronous, access: Access) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    // A plan is made for a statement, not for its values: otherwise a statement that comes near a partial index is
    // parsed and planned anew whenever it is bound, which cost more than half of a claim.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let synchronous = match synchronous {
        SqliteSynchronous::Full => "FULL",
        SqliteSynchronous::Normal => "NORMAL",
    };
    conn.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = ON; \
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096; PRAGMA journal_size_limit = 67108864; \
         PRAGMA query_only = {};",
        u8::from(access == Access::Read)
    ))?;
    Ok(conn)
}

/// Whatever it is, nothing can be kept in the file as it is.
fn unusable(path: &Path, error: &rusqlite::Error) -> Error {
    let text = format!("{} cannot be opened: {error}", path.display());
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::DiskFull(text),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Error::Io(text),
        _ => Error::Unavailable(text),
    }
}

/// The lines that SQLite finds damage in, or none. A file that is too damaged to be looked through is damaged as well.
pub(super) fn check(path: &Path, synchronous: SqliteSynchronous) -> Result<Vec<String>, Error> {
    let lines = try_open(path, synchronous, Access::Read).and_then(|conn| {
        let mut asked = conn.prepare("PRAGMA integrity_check")?;
        asked.query_map((), |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
    });
    match lines {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        Err(error) if is_damage(&error) => Ok(vec![error.to_string()]),
        Err(error) => Err(unusable(path, &error)),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

pub(super) fn batch(conn: &Connection, sql: &str) -> Result<(), Error> {
    conn.execute_batch(sql).map_err(fault)
}

/// A statement without values that is said again and again, such as `COMMIT`.
pub(super) fn say(conn: &Connection, sql: &'static str) -> Result<(), Error> {
    conn.prepare_cached(sql).and_then(|mut statement| statement.raw_execute()).map(|_| ()).map_err(fault)
}

/// Changes whenever another connection, of this process or another, has written.
pub(super) fn data_version(conn: &Connection) -> Result<i64, Error> {
    let mut statement = conn.prepare_cached("PRAGMA data_version").map_err(fault)?;
    statement.query_row([], |row| row.get(0)).map_err(fault)
}

/// Copies all that is there at one moment. A copy begins anew whenever somebody else has written, unless it reads in a
/// transaction: with a server at work it would never end.
pub(super) fn backup(path: &Path, synchronous: SqliteSynchronous, to: &Path) -> Result<(), Error> {
    copy(&open(path, synchronous, Access::Read)?, to)
}

/// Copies what a connection sees into a new file.
pub(super) fn copy(from: &Connection, to: &Path) -> Result<(), Error> {
    // An empty file is an empty database, and from now on it is ours to remove. It holds what the database does, so only
    // its owner may read it.
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    made.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let detail = format!("{} exists already; name a new file", to.display());
            Error::conflict("file_exists", detail)
        }
        _ => {
            let what = "name a file in a directory that is there and that you may write to";
            Error::invalid("file_refused", format!("{} cannot be made: {error}; {what}", to.display()))
        }
    })?;
    let copied = batch(from, "BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1")
        .and_then(|()| from.backup("main", to, None::<fn(rusqlite::backup::Progress)>).map_err(fault));
    let ended = batch(from, "ROLLBACK");
    let copied = copied.and(ended);
    if copied.is_err()
        && let Err(error) = std::fs::remove_file(to)
    {
        tracing::warn!(%error, "the part of a copy at {} cannot be removed", to.display());
    }
    copied
}

/// SQLite numbers rows by a column of exactly this type.
pub(super) fn migration(sql: &str) -> String {
    sql.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY")
}

pub(super) fn query(conn: &Connection, sql: &str, params: Vec<Value>) -> Result<Vec<Row>, Error> {
    let mut statement = prepare(conn, sql, params)?;
    let columns: Rc<[String]> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    let mut answer = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        let values = (0..columns.len()).map(|at| Ok(read(row.get_ref(at).map_err(fault)?)));
        answer.push(Row { columns: Rc::clone(&columns), values: values.collect::<Result<_, Error>>()? });
    }
    Ok(answer)
}

/// Runs one statement for each row, prepared once.
pub(super) fn execute_each<R>(
    conn: &Connection,
    sql: &str,
    rows: impl Iterator<Item = R>,
    bind: impl Fn(&mut Statement<'_>, R) -> rusqlite::Result<()>,
) -> Result<(), Error> {
    let mut statement = prepare(conn, sql, vec![])?;
    for row in rows {
        bind(&mut statement, row).map_err(fault)?;
        statement.raw_execute().map_err(fault)?;
    }
    Ok(())
}

pub(super) fn execute(conn: &Connection, sql: &str, params: Vec<Value>) -> Result<(), Error> {
    let mut statement = prepare(conn, sql, params)?;
    statement.raw_execute().map(|_| ()).map_err(fault)
}

fn prepare<'c>(
    conn: &'c Connection,
    sql: &str,
    params: Vec<Value>,
) -> Result<rusqlite::CachedStatement<'c>, Error> {
    let sql = translate(sql);
    #[cfg(debug_assertions)]
    plan::check(conn, &sql);
    let mut statement = conn.prepare_cached(&sql).map_err(fault)?;
    for (at, value) in params.into_iter().enumerate() {
        bind(&mut statement, at + 1, value).map_err(fault)?;
    }
    Ok(statement)
}

fn bind(statement: &mut Statement<'_>, at: usize, value: Value) -> rusqlite::Result<()> {
    match value {
        Value::Null => statement.raw_bind_parameter(at, rusqlite::types::Null),
        Value::Int(n) => statement.raw_bind_parameter(at, n),
        Value::Real(x) => statement.raw_bind_parameter(at, x),
        Value::Text(text) => statement.raw_bind_parameter(at, text),
        Value::Bytes(bytes) => statement.raw_bind_parameter(at, bytes),
        Value::Texts(texts) => statement.raw_bind_parameter(at, serde_json::Value::from(texts).to_string()),
        Value::Ints(ints) => statement.raw_bind_parameter(at, serde_json::Value::from(ints).to_string()),
    }
}

fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => Value::Int(n),
        ValueRef::Real(x) => Value::Real(x),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// From PostgreSQL's way of writing to SQLite's: `$1` is `?1`, and lists are JSON.
fn translate(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 64);
    let mut rest = sql;
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let (before, number) = (&rest[..at], &rest[at + 1..at + 1 + digits]);
        rest = &rest[at + 1 + digits..];
        let list = [("= ANY(", "IN"), ("<> ALL(", "NOT IN")];
        match list.iter().find_map(|(pg, lite)| before.strip_suffix(pg).map(|before| (before, lite))) {
            Some((before, word)) => {
                out.push_str(before);
                out.push_str(&format!("{word} (SELECT value FROM json_each(?{number})"));
            }
            None => {
                out.push_str(before);
                out.push('?');
                out.push_str(number);
            }
        }
    }
    out.push_str(rest);
    out
}

pub(super) fn fault(error: rusqlite::Error) -> Error {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::DiskFull(text),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => Error::Io(text),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory,
        ) => Error::Unavailable(text),
        _ => Error::Statement(text),
    }
}

/// In a debug build, and so in every test, a statement that would read a whole table is a defect, unless the table stays
/// small or the statement says `/* all */` itself. So is one that looks for rows in the order of an index without a bound:
/// it may walk through all of them to find none. Where most rows are wanted it ends soon, and says `/* most */`.
#[cfg(debug_assertions)]
mod plan {
    use std::{cell::RefCell, collections::HashSet};

    use rusqlite::Connection;

    const SMALL: &[&str] =
        &["schema_migrations", "projects", "policies", "monitor_baselines", "marks", "radar"];

    thread_local! {
        static CHECKED: RefCell<HashSet<String>> = RefCell::default();
    }

    pub fn check(conn: &Connection, sql: &str) {
        if CHECKED.with_borrow(|checked| checked.contains(sql)) {
            return;
        }
        // New rows read nothing but what a trigger or a reference asks for.
        let reads = !sql.starts_with("INSERT") || sql.contains("SELECT");
        if reads && !sql.contains("/* all */") {
            explain(conn, sql);
        }
        // Only now: a statement that is a defect is one each time it is said.
        CHECKED.with_borrow_mut(|checked| checked.insert(sql.to_owned()));
    }

    fn explain(conn: &Connection, sql: &str) {
        // The first rows in the order of the table itself are found without an index.
        let takes_first = sql.contains(" LIMIT ") && !sql.contains(" WHERE ");
        let Ok(mut explained) = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")) else { return };
        let mut rows = explained.raw_query();
        while let Ok(Some(row)) = rows.next() {
            let step: String = row.get("detail").unwrap_or_default();
            let Some(scan) = step.strip_prefix("SCAN ") else { continue };
            match scan.split_once(" USING INDEX ") {
                Some((alias, index)) => {
                    let seeks =
                        !sql.contains("/* most */") && is_filtered(sql, alias) && !is_few(conn, index);
                    let named = table(conn, sql, alias).filter(|_| seeks);
                    assert_eq!(named, None, "may walk through all of it by {index}: {sql}");
                }
                None if scan.contains(" USING ") || takes_first => {}
                None => assert_eq!(table(conn, sql, scan), None, "reads all of it: {sql}"),
            }
        }
    }

    /// The growing table that is called so in the statement.
    fn table(conn: &Connection, sql: &str, alias: &str) -> Option<String> {
        growing(conn).into_iter().find(|table| {
            alias == table
                || sql.contains(&format!("{table} {alias} "))
                || sql.contains(&format!("{table} {alias})"))
                || sql.ends_with(&format!("{table} {alias}"))
        })
    }

    /// Whether the SELECT that reads it has conditions of its own.
    fn is_filtered(sql: &str, alias: &str) -> bool {
        let names = [format!("{alias} WHERE "), format!("{alias} JOIN "), format!("{alias} LEFT JOIN ")];
        let Some(at) = names.iter().find_map(|name| sql.find(name.as_str())) else { return false };
        let mut depth = 0;
        let rest = &sql[at..];
        for (at, c) in rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return false,
                ')' => depth -= 1,
                'W' if depth == 0 && rest[at..].starts_with("WHERE ") => return true,
                _ => {}
            }
        }
        false
    }

    /// An index that leaves rows out was made for the few that it holds.
    fn is_few(conn: &Connection, index: &str) -> bool {
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1 AND sql IS NOT NULL";
        let made: Result<String, _> = conn.query_row(sql, [index], |row| row.get(0));
        made.is_ok_and(|made| made.contains(" WHERE "))
    }

    fn growing(conn: &Connection) -> Vec<String> {
        let tables = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let Ok(mut tables) = conn.prepare(tables) else { return Vec::new() };
        let Ok(names) = tables.query_map((), |row| row.get::<_, String>(0)) else { return Vec::new() };
        names.flatten().filter(|name| !SMALL.contains(&name.as_str())).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn database() -> Connection {
            let conn = Connection::open_in_memory().unwrap();
            let made = "CREATE TABLE tasks (id TEXT PRIMARY KEY, status TEXT, title TEXT);
                        CREATE INDEX tasks_open ON tasks (id) WHERE status = 'open';";
            conn.execute_batch(made).unwrap();
            conn
        }

        fn is_refused(sql: &str) -> bool {
            let conn = database();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&conn, sql))).is_err()
        }

        #[test]
        fn a_statement_that_may_walk_through_a_whole_table_is_refused_each_time() {
            for sql in [
                "SELECT title FROM tasks WHERE title = ?1",
                "SELECT title FROM tasks WHERE title = ?1 ORDER BY id LIMIT 5",
                "SELECT t.title FROM tasks t WHERE t.title = ?1 ORDER BY t.id LIMIT 5",
                "SELECT 1 FROM (SELECT t.title FROM tasks t WHERE t.title = ?1 ORDER BY t.id LIMIT 5) AS first",
            ] {
                assert!(is_refused(sql) && is_refused(sql), "{sql}");
            }
        }

        #[test]
        fn one_that_has_a_bound_or_ends_soon_is_not() {
            for sql in [
                "SELECT title FROM tasks ORDER BY id LIMIT 5",
                "SELECT title, (SELECT max(o.id) FROM tasks o WHERE o.id < t.id) FROM tasks t ORDER BY t.id LIMIT 5",
                "SELECT title FROM tasks WHERE id < ?1 AND title = ?2 ORDER BY id LIMIT 5",
                "SELECT title FROM tasks WHERE status = 'open' AND title = ?1 ORDER BY id LIMIT 5",
                "SELECT title FROM tasks WHERE title <> ?1 /* most */ ORDER BY id LIMIT 5",
                "SELECT title FROM tasks /* all */ WHERE title = ?1",
            ] {
                assert!(!is_refused(sql), "{sql}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::sync_channel,
    };

    use super::*;

    /// Somebody commits all the time, and what they wrote together is in the copy together.
    #[test]
    fn a_copy_is_made_while_others_write() {
        const COMMITS_MAX: i64 = 50_000;
        let dir = tempfile::tempdir().unwrap();
        let (path, to) = (dir.path().join("omoi.db"), dir.path().join("copy.db"));
        make(&path).unwrap();
        let writer = open(&path, SqliteSynchronous::Normal, Access::Write).unwrap();
        batch(
            &writer,
            "PRAGMA synchronous = OFF; CREATE TABLE a (n); CREATE TABLE b (n); CREATE TABLE filler (x)",
        )
        .unwrap();
        let rows = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4000) \
                    INSERT INTO filler SELECT randomblob(2000) FROM r";
        batch(&writer, rows).unwrap();
        let (enough, (begun, begins)) = (AtomicBool::new(false), sync_channel(1));
        let commits = std::thread::scope(|scope| {
            let enough = &enough;
            let writing = scope.spawn(move || {
                let mut commits = 0;
                while commits < COMMITS_MAX && !enough.load(Ordering::SeqCst) {
                    batch(
                        &writer,
                        "BEGIN IMMEDIATE; INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); COMMIT",
                    )
                    .unwrap();
                    commits += 1;
                    let _ = begun.try_send(());
                }
                commits
            });
            begins.recv().unwrap();
            let copied = backup(&path, SqliteSynchronous::Normal, &to);
            enough.store(true, Ordering::SeqCst);
            copied.unwrap();
            writing.join().unwrap()
        });
        assert!(commits < COMMITS_MAX, "the copy waited until nobody wrote any more");
        let copy = Connection::open(&to).unwrap();
        let one = |sql: &str| copy.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(one("SELECT count(*) FROM a"), one("SELECT count(*) FROM b"));
        assert_eq!(one("SELECT count(*) FROM filler"), 4000);
        let sound: String = copy.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_and_touches_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, to) = (dir.path().join("omoi.db"), dir.path().join("copy.db"));
        std::fs::write(&path, "no database, but long enough to be read as if it were one".repeat(100))
            .unwrap();
        assert!(backup(&path, SqliteSynchronous::Full, &to).is_err());
        assert!(!to.exists());
        std::fs::write(&to, "somebody's").unwrap();
        let other = dir.path().join("other.db");
        make(&other).unwrap();
        assert!(matches!(backup(&other, SqliteSynchronous::Full, &to), Err(Error::Conflict { .. })));
        assert_eq!(std::fs::read(&to).unwrap(), b"somebody's");
    }

    #[test]
    fn statements_are_written_once_and_read_by_both() {
        let cases = [
            ("SELECT 1", "SELECT 1"),
            ("a = $1 AND b = $12", "a = ?1 AND b = ?12"),
            ("a = ANY($2) OR b = $1", "a IN (SELECT value FROM json_each(?2)) OR b = ?1"),
            ("a <> ALL($1)", "a NOT IN (SELECT value FROM json_each(?1))"),
        ];
        for (pg, lite) in cases {
            assert_eq!(translate(pg), lite);
        }
    }
}
