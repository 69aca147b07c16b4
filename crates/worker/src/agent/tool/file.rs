//! Files taken in and put in place whole. A file that is replaced is never half there, and keeps its mode and owner.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{
        AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, mkdirat, openat, renameat_with,
        unlinkat,
    },
    io::Errno,
};

use super::{
    reach::{self, Place, Target},
    seen::{Digest, Knowledge, Seen},
};

/// Of what is held in memory whole.
pub const FILE_BYTES_MAX: u64 = 10 * 1024 * 1024;

static NUMBER: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Reach(#[from] reach::Error),
    #[error("{path} has {bytes} bytes, {FILE_BYTES_MAX} are the most; {hint}")]
    TooBig { path: String, bytes: u64, hint: &'static str },
    #[error("{path} has not been read in this session; Read it first, so that nothing unseen is lost")]
    Unseen { path: String },
    #[error("{path} has changed since it was read; Read it again, then decide anew")]
    Changed { path: String },
    #[error("{path} has come into being just now; Read it first")]
    Appeared { path: String },
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
}

pub fn read_whole(path: &str, place: &Place, hint: &'static str) -> Result<Vec<u8>, Error> {
    let too_big = |bytes| Error::TooBig { path: path.to_owned(), bytes, hint };
    if place.bytes() > FILE_BYTES_MAX {
        return Err(too_big(place.bytes()));
    }
    let mut content = Vec::new();
    // It may grow while it is read.
    let read = place.open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if content.len() as u64 > FILE_BYTES_MAX { Err(too_big(content.len() as u64)) } else { Ok(content) }
}

/// Whether the session has seen the file as it is.
pub fn check_seen(path: &str, place: &Place, content: &[u8], seen: &Seen) -> Result<(), Error> {
    match seen.knows(&place.real, Digest::of(content)) {
        Knowledge::Current => Ok(()),
        Knowledge::Never => Err(Error::Unseen { path: path.to_owned() }),
        Knowledge::Outdated => Err(Error::Changed { path: path.to_owned() }),
    }
}

pub fn put(path: &str, target: Target, content: &[u8], seen: &Seen) -> Result<(), Error> {
    let real = target.real.clone();
    replace(target, content).map_err(|error| match error {
        Errno::EXIST => Error::Appeared { path: path.to_owned() },
        error => Error::Write { path: path.to_owned(), source: error.into() },
    })?;
    seen.note(&real, Digest::of(content));
    Ok(())
}

fn replace(target: Target, content: &[u8]) -> Result<(), Errno> {
    let dir = make_dirs(target.dir, &target.missing)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // Short, since the name itself may be as long as names can be.
    let beside = format!(".omoi-{}-{number}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&dir, &beside, flags, Mode::from_raw_mode(0o666))?;
    let placed = fill(file, target.existing.as_ref(), content).and_then(|()| match target.existing {
        Some(_) => rustix::fs::renameat(&dir, &beside, &dir, &target.name),
        None => rename_new(&dir, &beside, &target.name),
    });
    if placed.is_err() {
        let _ = unlinkat(&dir, &beside, AtFlags::empty());
    }
    placed
}

fn make_dirs(mut dir: OwnedFd, missing: &[std::ffi::OsString]) -> Result<OwnedFd, Errno> {
    for name in missing {
        match mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        dir = openat(&dir, name, flags, Mode::empty())?;
    }
    Ok(dir)
}

fn fill(file: OwnedFd, existing: Option<&Place>, content: &[u8]) -> Result<(), Errno> {
    let mut file = File::from(file);
    if let Some(existing) = existing {
        let (user, group) = existing.owner();
        // Only root may give files away; to keep the mode is what matters.
        let _ = fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        fchmod(&file, existing.mode())?;
    }
    let errno = |error: io::Error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
    file.write_all(content).map_err(errno)
}

/// Over nothing, so that nothing is lost which came in between.
fn rename_new(dir: impl AsFd + Copy, from: &str, to: &std::ffi::OsStr) -> Result<(), Errno> {
    match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // Not every file system knows how.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(dir, from, dir, to),
        renamed => renamed,
    }
}
