//! Saves what an embedded database holds when its file, or its log, was removed while the server uses it. The system keeps
//! a removed file for as long as a process has it open, so the connection that writes can still read all of it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::{
    Error, Tx,
    ground::{Ground, Part, Saved},
    sqlite,
    tx::Conn,
};

/// Tries to save what would be lost when this process ends. A failure is logged, and tried again with the next write.
pub(super) fn save(tx: &Tx, part: Part, ground: &Ground, now: Timestamp) {
    let (Conn::Sqlite(conn), Some(path)) = (&tx.conn, ground.database()) else { return };
    match part {
        // Its files have moved with it.
        Part::DataDir => {}
        Part::Database => copy(conn, path, ground, now),
        // The database itself is there: what only the log holds is copied into it.
        Part::Log | Part::LogIndex => match checkpoint(conn) {
            Ok(Checkpoint::Whole) => {
                tracing::error!("the log of {} was removed; its content was saved", path.display());
                ground.note_saved(Some(Saved::IntoDatabase));
            }
            Ok(Checkpoint::Busy) => tracing::error!(
                "the log of {} was removed and cannot be saved while a reader uses it; the server tries again with \
                 the next write",
                path.display()
            ),
            Err(error) => {
                tracing::error!(%error, "the log of {} was removed and cannot be saved", path.display());
            }
        },
    }
}

enum Checkpoint {
    Whole,
    /// A reader or another writer stood in the way.
    Busy,
}

/// Copies all that the log holds into the database. SQLite reports a failure in the answer's column `busy`.
fn checkpoint(conn: &rusqlite::Connection) -> Result<Checkpoint, Error> {
    let rows = sqlite::query(conn, "PRAGMA wal_checkpoint(FULL)", vec![])?;
    let busy: i64 = rows.first().map_or(Ok(1), |row| row.get("busy"))?;
    Ok(if busy == 0 { Checkpoint::Whole } else { Checkpoint::Busy })
}

fn copy(conn: &rusqlite::Connection, path: &Path, ground: &Ground, now: Timestamp) {
    // Where its directory is gone as well, it was probably moved as a whole.
    if !path.parent().is_some_and(Path::is_dir) {
        return;
    }
    let to = rescued(path, now);
    match sqlite::copy(conn, &to) {
        Ok(()) => {
            tracing::error!("{} was removed; all it held was copied to {}", path.display(), to.display());
            ground.note_saved(Some(Saved::Copy(to)));
        }
        Err(error) => {
            tracing::error!(%error, "{} was removed and cannot be copied to {}", path.display(), to.display());
        }
    }
}

fn rescued(path: &Path, now: Timestamp) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".rescued-{}", now.strftime("%Y%m%dT%H%M%SZ")));
    name.into()
}
