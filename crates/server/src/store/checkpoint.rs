//! SQLite's log is copied into the database on a thread of its own, a part at a time, so that whoever writes does not
//! wait for it. The log starts anew once all of it is copied and nobody reads from it; when it has grown long
//! without, the writer copies what is left itself. A server that stops leaves an empty one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;

use super::{Error, Tx, sqlite};

/// Pages that are written before they are copied: the disk is busy with a copy for some milliseconds, and whoever commits
/// then waits, so there are few copies; and a page that was written often is copied once.
const PART_PAGES: i32 = 16_000;
/// A log this long is not left to others: 64 MiB.
const LOG_PAGES_MAX: i32 = 32_000;

/// Says on each part that the connection has written that it is to be copied.
pub(super) fn watch(writer: &mut Connection) -> Result<Receiver<()>, Error> {
    let (due, parts) = sync_channel(1);
    let mut log = Log { asked_at: 0, due };
    writer
        .wal_hook(Some(move |wal: &mut rusqlite::hooks::Wal, pages| {
            if log.grown(pages) {
                // Somebody else may be at it; then it is tried after the next commit. What is written is durable.
                let _ = wal.checkpoint();
            }
            Ok(())
        }))
        .map_err(sqlite::fault)?;
    Ok(parts)
}

/// Copies as long as there is somebody who writes.
pub(super) fn run(conn: &Connection, parts: &Receiver<()>) {
    while parts.recv().is_ok() {
        if let Err(error) = sqlite::query(conn, "PRAGMA wal_checkpoint(PASSIVE)", vec![]) {
            tracing::warn!(%error, "the log could not be copied into the database");
        }
    }
}

/// Copies all of it and leaves none.
pub(super) async fn empty(tx: &mut Tx) -> Result<(), Error> {
    let told = tx.query_one("PRAGMA wal_checkpoint(TRUNCATE)", vec![]).await?;
    match told.map(|row| row.get::<i64>("busy")).transpose()? {
        Some(0) | None => Ok(()),
        Some(_) => Err(Error::Unavailable("somebody else uses the database".to_owned())),
    }
}

struct Log {
    asked_at: i32,
    due: SyncSender<()>,
}

impl Log {
    /// Asks for a copy when a part is full; says whether the log is too long.
    fn grown(&mut self, pages: i32) -> bool {
        if pages < self.asked_at {
            self.asked_at = 0;
        }
        if pages - self.asked_at >= PART_PAGES {
            self.asked_at = pages;
            // Whoever copies is asked already, then.
            let _ = self.due.try_send(());
        }
        pages >= LOG_PAGES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_asked_for_once_and_a_long_log_is_told() {
        let (due, parts) = sync_channel(1);
        let mut log = Log { asked_at: 0, due };
        let mut asked = |pages| {
            let long = log.grown(pages);
            (parts.try_recv().is_ok(), long)
        };
        for (pages, expected) in [
            (15_999, (false, false)),
            (16_000, (true, false)),
            (16_001, (false, false)),
            (31_999, (false, false)),
            (20, (false, false)),
            (16_020, (true, false)),
            (32_100, (true, true)),
            (32_200, (false, true)),
        ] {
            assert_eq!(asked(pages), expected, "{pages} pages");
        }
    }
}
