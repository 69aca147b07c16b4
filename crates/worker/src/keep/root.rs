//! The work tree as it lies on the disk, reached from one open directory, name by name: no path is too long, no link on the
//! way is followed, and what its owner may not read is made readable first.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, chmodat, fchmod, fstat, open, openat, readlinkat, statat},
    io::Errno,
};

/// Directories that stay open between two calls. Deeper ones are opened again each time.
const OPEN_MAX: usize = 128;
const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPEN_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

pub struct Root {
    top: OwnedFd,
    /// The directory of the last call and those above it.
    open: Vec<(Vec<u8>, OwnedFd)>,
    /// The directory of the last call where more are above it than stay open.
    deep: Option<OwnedFd>,
    made_readable: u64,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub kind: FileType,
    pub bytes: u64,
    pub mode: Mode,
}

impl Root {
    pub fn open(path: &Path) -> io::Result<Self> {
        let (top, was_closed) = match open(path, OPEN_DIR, Mode::empty()) {
            Err(Errno::ACCESS) => {
                rustix::fs::chmod(path, Mode::RWXU)?;
                (open(path, OPEN_DIR, Mode::empty())?, true)
            }
            opened => (opened?, false),
        };
        let made_readable = u64::from(allow(top.as_fd())? || was_closed);
        Ok(Self { top, open: Vec::new(), deep: None, made_readable })
    }

    /// How many files and directories the owner could not read before.
    pub fn made_readable(&self) -> u64 {
        self.made_readable
    }

    /// What is in a directory, except itself and the one above.
    pub fn entries(&mut self, dir: &[u8]) -> io::Result<Vec<Entry>> {
        let dir = self.dir(dir)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed meanwhile.
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            entries.push(Entry {
                name: name.to_owned(),
                kind: FileType::from_raw_mode(stat.st_mode),
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
                mode: Mode::from_raw_mode(stat.st_mode),
            });
        }
        Ok(entries)
    }

    /// An ordinary file and its length.
    pub fn file(&mut self, path: &[u8]) -> io::Result<(File, u64)> {
        let (dir, name) = split(path);
        let dir = self.dir(dir)?;
        let file = File::from(openat(dir, name, OPEN_FILE, Mode::empty())?);
        let meta = file.metadata()?;
        if meta.is_file() { Ok((file, meta.len())) } else { Err(io::Error::other("it is no ordinary file")) }
    }

    /// Where a link leads.
    pub fn link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = split(path);
        let dir = self.dir(dir)?;
        Ok(readlinkat(dir, name, Vec::new())?.into_bytes())
    }

    /// Lets the owner read an ordinary file.
    pub fn make_readable(&mut self, path: &[u8], mode: Mode) -> io::Result<()> {
        if mode.contains(Mode::RUSR) {
            return Ok(());
        }
        let (dir, name) = split(path);
        let dir = self.dir(dir)?;
        match chmodat(dir, name, mode | Mode::RUSR, AtFlags::empty()) {
            Ok(()) => self.made_readable += 1,
            // It belongs to another, and may be readable all the same.
            Err(_) => drop(openat(dir, name, OPEN_FILE, Mode::empty())?),
        }
        Ok(())
    }

    fn dir(&mut self, path: &[u8]) -> io::Result<BorrowedFd<'_>> {
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let same = self.open.iter().zip(&parts).take_while(|((name, _), part)| name == *part).count();
        self.open.truncate(same);
        self.deep = None;
        for part in &parts[same..] {
            let above =
                self.deep.as_ref().or(self.open.last().map(|(_, dir)| dir)).unwrap_or(&self.top).as_fd();
            let (dir, was_closed) = open_below(above, part)?;
            self.made_readable += u64::from(was_closed);
            if self.open.len() < OPEN_MAX {
                self.open.push((part.to_vec(), dir));
            } else {
                self.deep = Some(dir);
            }
        }
        Ok(self.deep.as_ref().or(self.open.last().map(|(_, dir)| dir)).unwrap_or(&self.top).as_fd())
    }
}

/// A directory, and whether its owner could not look into it before.
fn open_below(above: BorrowedFd<'_>, name: &[u8]) -> io::Result<(OwnedFd, bool)> {
    match openat(above, name, OPEN_DIR, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
            chmodat(above, name, mode | Mode::RWXU, AtFlags::empty())?;
            Ok((openat(above, name, OPEN_DIR, Mode::empty())?, true))
        }
        opened => {
            let dir = opened?;
            let was_closed = allow(dir.as_fd())?;
            Ok((dir, was_closed))
        }
    }
}

/// Lets the owner of an open directory list it and reach what is in it. Says whether that was not so before. Of what belongs
/// to another nothing is changed: whether it can be read shows when it is.
fn allow(dir: BorrowedFd<'_>) -> io::Result<bool> {
    let mode = Mode::from_raw_mode(fstat(dir)?.st_mode);
    Ok(!mode.contains(Mode::RUSR | Mode::XUSR) && fchmod(dir, mode | Mode::RWXU).is_ok())
}

fn split(path: &[u8]) -> (&[u8], &OsStr) {
    let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    (dir, OsStr::from_bytes(name))
}
