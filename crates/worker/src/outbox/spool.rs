//! The outbox's disk: one line of JSON per event in `events.jsonl`, and in `acknowledged` the last number that
//! the server has.
//!
//! Whoever runs in the sandbox has the same user id and may have been here: what is not an ordinary file is
//! not opened, and what is not an event is passed over.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use omoi_protocol::event::NewEvent;
use rustix::fs::OFlags;

const EVENTS: &str = "events.jsonl";
const ACKNOWLEDGED: &str = "acknowledged";
/// More is not ours: the worker writes far less before it makes room.
const EVENTS_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// A file of acknowledged events is emptied when it has grown to this.
const EMPTY_AT_BYTES: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the spool {path} cannot be used: {source}")]
    Unusable { path: PathBuf, source: io::Error },
    #[error("another worker uses the spool {path}; only one may")]
    InUse { path: PathBuf },
}

#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    /// Locked for as long as this lives.
    file: File,
    /// How much of the file is whole lines.
    bytes: u64,
    /// The last number that is in the file, or need not be.
    upto: i64,
}

/// What a worker before this one has left.
#[derive(Debug, Default)]
pub struct Left {
    pub acknowledged: i64,
    /// Without those that are acknowledged.
    pub events: Vec<NewEvent>,
}

impl Spool {
    pub fn open(dir: &Path) -> Result<(Self, Left), Error> {
        let unusable = |source| Error::Unusable { path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unusable)?;
        let mut file = open_plain(&dir.join(EVENTS)).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Error::InUse { path: dir.to_owned() }),
            Err(fs::TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let acknowledged = read_number(&dir.join(ACKNOWLEDGED)).unwrap_or(0);
        let mut text = Vec::new();
        Read::by_ref(&mut file).take(EVENTS_BYTES_MAX).read_to_end(&mut text).map_err(unusable)?;
        // A worker that was killed while it wrote leaves half a line.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (bytes, events) = (whole as u64, parse(&text[..whole], acknowledged));
        let upto = events.last().and_then(|event| event.worker_seq).unwrap_or(acknowledged);
        let mut spool = Self { dir: dir.to_owned(), file, bytes, upto };
        // On a full or read-only disk what is there can still be sent.
        let _ = spool.cut();
        Ok((spool, Left { acknowledged, events }))
    }

    /// The last number that needs no writing any more.
    pub fn upto(&self) -> i64 {
        self.upto
    }

    /// Writes events behind those that are there, all or none.
    pub fn append<'a>(&mut self, events: impl Iterator<Item = &'a NewEvent>) -> io::Result<()> {
        let (mut lines, mut upto) = (Vec::new(), self.upto);
        for event in events {
            serde_json::to_writer(&mut lines, event)?;
            lines.push(b'\n');
            upto = event.worker_seq.unwrap_or(upto);
        }
        if let Err(error) = self.file.write_all(&lines) {
            let _ = self.cut();
            return Err(error);
        }
        self.bytes += lines.len() as u64;
        self.upto = upto;
        Ok(())
    }

    /// A handle to flush the file to disk with, away from whoever holds the spool.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Notes that the server has everything up to `number`. If the note gets lost, events are sent again, which
    /// is harmless. `rest` says whether others still wait.
    pub fn acknowledge(&mut self, number: i64, rest: bool) -> io::Result<()> {
        self.upto = self.upto.max(number);
        let done = !rest && self.bytes >= EMPTY_AT_BYTES;
        write_whole(&self.dir, ACKNOWLEDGED, number.to_string().as_bytes(), done)?;
        if done {
            self.bytes = 0;
            self.cut()?;
        }
        Ok(())
    }

    /// Puts these in the place of all that is there.
    pub fn rewrite<'a>(
        &mut self,
        acknowledged: i64,
        events: impl Iterator<Item = &'a NewEvent>,
    ) -> io::Result<()> {
        write_whole(&self.dir, ACKNOWLEDGED, acknowledged.to_string().as_bytes(), true)?;
        (self.bytes, self.upto) = (0, acknowledged);
        self.cut()?;
        self.append(events)
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes)).map(drop)
    }
}

/// Replaces a small file at once: whoever reads it sees the old content or the new.
pub fn write_whole(dir: &Path, name: &str, content: &[u8], durable: bool) -> io::Result<()> {
    let temporary = dir.join(format!("{name}.new"));
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    if durable {
        file.sync_all()?;
    }
    fs::rename(&temporary, dir.join(name))?;
    if durable { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// A file that is none of: a link, a pipe that nobody writes to, a device.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not an ordinary file")) }
}

fn read_number(path: &Path) -> Option<i64> {
    let mut text = String::new();
    open_plain(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().filter(|number| *number >= 0)
}

/// Numbered and rising; a line that is not is no event of ours.
fn parse(text: &[u8], acknowledged: i64) -> Vec<NewEvent> {
    let mut last = acknowledged;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.filter_map(|line| serde_json::from_slice::<NewEvent>(line).ok());
    let rising = events.filter(|event| match event.worker_seq {
        Some(number) if number > last => {
            last = number;
            true
        }
        _ => false,
    });
    rising.collect()
}
