//! What the store stands on: the disks that its files are on, and the files themselves.
//!
//! A server that goes on writing to a database file which somebody has removed acknowledges events that nobody can ever
//! read. So the identity (device and inode) of each file is noted when it is opened and compared after each commit,
//! before anything is acknowledged. That is a few calls of `stat` per batch, which cost nothing beside its flush.
//!
//! A full disk is noticed in two ways: a write fails with it, or the free space is below `disk::FREE_BYTES_MIN`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Error, Place};
use crate::disk::{self, Room};

pub(super) struct Ground {
    /// Directories on whose disks data is stored: the data directory, and that of an embedded database.
    dirs: Vec<PathBuf>,
    /// The embedded database.
    database: Option<PathBuf>,
    opened: Mutex<Vec<Opened>>,
    /// What the writer has saved of files that were removed.
    saved: Mutex<Option<Saved>>,
    /// A write has failed because the disk was full, and none has succeeded since.
    write_failed: AtomicBool,
}

/// What became of the content of a removed file.
pub(super) enum Saved {
    /// A copy of the database.
    Copy(PathBuf),
    /// The log was copied into the database, which is still there.
    IntoDatabase,
}

/// A file or directory as it was when the store was opened.
struct Opened {
    part: Part,
    path: PathBuf,
    identity: Identity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    DataDir,
    Database,
    /// The write-ahead log, which holds what was committed last.
    Log,
    /// The index of the log, through which processes share it.
    LogIndex,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::DataDir => "data directory",
            Self::Database => "database file",
            Self::Log => "database's log",
            Self::LogIndex => "index of the database's log",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let meta = fs::metadata(path)?;
        Ok(Self { device: meta.dev(), inode: meta.ino() })
    }
}

impl Ground {
    pub fn new(data_dir: &Path, place: &Place) -> Self {
        let database = match place {
            Place::Sqlite { path, .. } => Some(path.clone()),
            Place::Postgres(_) => None,
        };
        let beside = database.as_deref().and_then(Path::parent).filter(|dir| *dir != data_dir);
        let dirs = [Some(data_dir), beside].into_iter().flatten().map(Path::to_owned).collect();
        Self {
            dirs,
            database,
            opened: Mutex::default(),
            saved: Mutex::default(),
            write_failed: AtomicBool::new(false),
        }
    }

    /// Notes which files are in use. Called once the database is open and its log is there.
    pub fn note_opened(&self) {
        let mut parts = vec![(Part::DataDir, self.dirs[0].clone())];
        if let Some(path) = &self.database {
            parts.push((Part::Database, path.clone()));
            parts.push((Part::Log, beside(path, "-wal")));
            parts.push((Part::LogIndex, beside(path, "-shm")));
        }
        // Without an embedded database there may be no data directory.
        let identified = parts.into_iter().filter_map(|(part, path)| {
            let identity = Identity::of(&path).ok()?;
            Some(Opened { part, path, identity })
        });
        *lock(&self.opened) = identified.collect();
    }

    /// The first part that is no longer what was opened.
    pub fn missing(&self) -> Option<(Part, PathBuf)> {
        let opened = lock(&self.opened);
        let gone = |opened: &&Opened| match Identity::of(&opened.path) {
            Ok(identity) => identity != opened.identity,
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        // The database before the directory, since the loss of its file asks for more.
        let found = opened.iter().filter(gone).max_by_key(|opened| opened.part == Part::Database);
        found.map(|opened| (opened.part, opened.path.clone()))
    }

    /// Fails when a file was removed, replaced or moved while it is in use.
    pub fn in_place(&self) -> Result<(), Error> {
        let Some((part, path)) = self.missing() else { return Ok(()) };
        let (name, path) = (part.name(), path.display());
        let next = match &*lock(&self.saved) {
            Some(Saved::Copy(copy)) => format!(
                "a copy of all it held is at {}: stop the server, put the copy in its place and start the server again",
                copy.display()
            ),
            Some(Saved::IntoDatabase) => {
                "all it held was copied into the database: start the server again".to_owned()
            }
            None => {
                "put it back, or stop the server and start it again with the right data directory".to_owned()
            }
        };
        Err(Error::Removed(format!(
            "the {name} {path} was removed, replaced or moved while the server uses it, so nothing more is stored; {next}"
        )))
    }

    pub fn database(&self) -> Option<&Path> {
        self.database.as_deref()
    }

    pub fn note_saved(&self, saved: Option<Saved>) {
        *lock(&self.saved) = saved;
    }

    pub fn is_saved(&self) -> bool {
        lock(&self.saved).is_some()
    }

    /// Fails when one of the disks is full, by its free space.
    pub fn has_room(&self) -> Result<(), Error> {
        match self.tightest() {
            Some((dir, room)) if room.is_full() => Err(full(&dir, room)),
            _ => Ok(()),
        }
    }

    /// The disk with the least free space, and a directory on it.
    pub fn tightest(&self) -> Option<(PathBuf, Room)> {
        let rooms = self.dirs.iter().filter_map(|dir| Some((dir.clone(), Room::of(dir).ok()?)));
        rooms.min_by_key(|(_, room)| room.free_bytes)
    }

    /// Whether a write has failed because the disk was full, and none has succeeded since.
    pub fn has_failed(&self) -> bool {
        self.write_failed.load(Ordering::Relaxed)
    }

    /// Tells a full disk from other reasons why a write failed. SQLite does not say why the system refused to write, so the
    /// system is asked once more, with a file beside the database.
    pub fn judge(&self, error: Error) -> Error {
        let judged = match (error, &self.database) {
            (Error::Io(why), Some(path)) => match path.parent().map(disk::try_to_write) {
                Some(Err(error)) if disk::is_full(&error) => Error::DiskFull(why),
                _ => Error::Io(why),
            },
            (error, _) => error,
        };
        let Error::DiskFull(why) = judged else { return judged };
        if !self.write_failed.swap(true, Ordering::Relaxed) {
            tracing::error!(
                error = why,
                "the disk below the database is full; nothing is stored until there is room"
            );
        }
        match self.database.as_deref().and_then(Path::parent) {
            Some(dir) => full(dir, Room::of(dir).unwrap_or(Room { free_bytes: 0, total_bytes: 0 })),
            None => Error::DiskFull(format!("the disk of the PostgreSQL server is full: {why}")),
        }
    }

    /// A commit has succeeded.
    pub fn note_written(&self) {
        if self.has_failed() && self.has_room().is_ok() {
            self.write_failed.store(false, Ordering::Relaxed);
            tracing::info!("the disk below the database has room again");
        }
    }
}

fn full(dir: &Path, room: Room) -> Error {
    let Room { free_bytes, .. } = room;
    Error::DiskFull(format!("the disk that holds {} is full ({free_bytes} bytes are free)", dir.display()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
