//! A directory that is filled from what nobody trusts. The kernel resolves every path with this directory as its root, so
//! no link leads out of it; bits that give power are dropped, and what is written is counted against limits.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chmodat,
        chownat, futimens, linkat, mkdirat, openat, openat2, statat, symlinkat, unlinkat,
    },
    io::Errno,
};

use super::{Error, Limits};

/// Longer or deeper paths are no software's, and cannot be handled by most.
const PATH_BYTES_MAX: usize = 4000;
const DEPTH_MAX: usize = 200;
/// Ids that a sandbox has: `0..=65535`. What is owned by others belongs to nobody.
const ID_MAX: u64 = 0xffff;
const NOBODY: u32 = 0xfffe;

const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);

pub struct Tree {
    path: PathBuf,
    root: OwnedFd,
    /// How many directories its own path goes down.
    depth: usize,
    /// Whether files can be given to others.
    gives: bool,
    limits: Limits,
    /// What was written, also where something else has taken its place since.
    files: u64,
    bytes: u64,
    pub skipped: u64,
}

/// What is kept of a file's properties.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub mtime: i64,
}

impl Tree {
    /// Makes the directory.
    pub fn make(path: &Path, limits: Limits) -> Result<Self, Error> {
        let failed = |error: Errno| Error::file(path)(error.into());
        mkdirat(CWD, path, Mode::from_raw_mode(0o755)).map_err(failed)?;
        // Whatever the umask says: a sandbox's user has to get in.
        chmodat(CWD, path, Mode::from_raw_mode(0o755), AtFlags::empty()).map_err(failed)?;
        let root = openat(CWD, path, DIRECTORY, Mode::empty()).map_err(failed)?;
        let gives = rustix::process::geteuid().is_root();
        let depth = depth(&root).map_err(Error::file(path))?;
        Ok(Self { path: path.to_owned(), root, depth, gives, limits, files: 0, bytes: 0, skipped: 0 })
    }

    /// A path as an archive writes it. One that could mean another place than it says is refused.
    pub fn plain(raw: &[u8]) -> Result<PathBuf, Error> {
        let path = Path::new(OsStr::from_bytes(raw));
        let refused = |detail: &str| Err(Error::refused(String::from_utf8_lossy(raw).into_owned(), detail));
        if raw.contains(&0) {
            return refused("the path holds NUL");
        }
        if raw.len() > PATH_BYTES_MAX {
            return refused("the path is too long");
        }
        let mut plain = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => plain.push(name),
                Component::CurDir => {}
                Component::ParentDir => return refused("the path goes up with '..'"),
                Component::RootDir | Component::Prefix(_) => return refused("the path is absolute"),
            }
        }
        if plain.components().count() > DEPTH_MAX { refused("the path is too deep") } else { Ok(plain) }
    }

    pub fn dir(&mut self, path: &Path, owner: &Owner) -> Result<(), Error> {
        let Some((parent, name)) = self.place(path)? else { return Ok(()) };
        if kind(&parent, name).map_err(self.at(path))? != Some(FileType::Directory) {
            discard(&parent, name).map_err(self.at(path))?;
            mkdirat(&parent, name, Mode::RWXU).map_err(self.at(path))?;
        }
        self.give(&parent, name, owner).map_err(self.at(path))?;
        // Its owner can always get in: otherwise nobody but root could remove it.
        let mode = Mode::from_raw_mode(owner.mode & 0o1777 | 0o700);
        let dir = openat(&parent, name, DIRECTORY, Mode::empty()).map_err(self.at(path))?;
        rustix::fs::fchmod(dir, mode).map_err(self.at(path))
    }

    /// How much was written.
    pub fn file(&mut self, path: &Path, owner: &Owner, from: &mut dyn Read) -> Result<u64, Error> {
        let Some((parent, name)) = self.place(path)? else {
            return Err(Error::refused(path, "a file cannot be the root"));
        };
        discard(&parent, name).map_err(self.at(path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut to: File =
            openat(&parent, name, flags, Mode::RUSR | Mode::WUSR).map_err(self.at(path))?.into();
        let left = self.limits.bytes_max - self.bytes;
        let written = io::copy(&mut from.take(left.saturating_add(1)), &mut to);
        let written = written.map_err(Error::file(self.path.join(path)))?;
        if written > left {
            return Err(Error::TooLarge { bytes_max: self.limits.bytes_max });
        }
        self.bytes += written;
        self.give(&parent, name, owner).map_err(self.at(path))?;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(owner.mode & 0o777)).map_err(self.at(path))?;
        let time = Timespec { tv_sec: owner.mtime, tv_nsec: 0 };
        futimens(&to, &Timestamps { last_access: time, last_modification: time }).map_err(self.at(path))?;
        Ok(written)
    }

    /// Where a link leads is nobody's concern as long as it is followed inside alone.
    pub fn symlink(&mut self, path: &Path, target: &[u8], owner: &Owner) -> Result<(), Error> {
        let Some((parent, name)) = self.place(path)? else {
            return Err(Error::refused(path, "a link cannot be the root"));
        };
        discard(&parent, name).map_err(self.at(path))?;
        symlinkat(OsStr::from_bytes(target), &parent, name).map_err(self.at(path))?;
        self.give(&parent, name, owner).map_err(self.at(path))
    }

    /// A second name for a file of this tree.
    pub fn link(&mut self, path: &Path, to: &Path) -> Result<(), Error> {
        let Some((parent, name)) = self.place(path)? else {
            return Err(Error::refused(path, "a link cannot be the root"));
        };
        let absent = || Error::refused(path, format!("it links to {}, which is not there", to.display()));
        let from = self.find(to.parent().unwrap_or(Path::new("")))?.ok_or_else(absent)?;
        let target = to.file_name().ok_or_else(absent)?;
        match kind(&from, target).map_err(self.at(to))? {
            Some(FileType::RegularFile | FileType::Symlink) => {}
            Some(_) => {
                return Err(Error::refused(path, format!("it links to {}, which is no file", to.display())));
            }
            None => return Err(absent()),
        }
        if path == to {
            return Ok(());
        }
        discard(&parent, name).map_err(self.at(path))?;
        linkat(&from, target, &parent, name, AtFlags::empty()).map_err(self.at(path))
    }

    /// A device, pipe or socket.
    pub fn skip(&mut self) -> Result<(), Error> {
        self.skipped += 1;
        self.count()
    }

    /// Takes away what is there, if anything is.
    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        match self.find(parent)? {
            Some(parent) => discard(&parent, name).map_err(self.at(path)),
            None => Ok(()),
        }
    }

    /// Takes away what is in a directory, if there is one.
    pub fn clear(&self, path: &Path) -> Result<(), Error> {
        let Some(dir) = self.find(path)? else { return Ok(()) };
        empty(&dir).map_err(self.at(path))
    }

    /// A regular file of the tree, to be read.
    pub fn open(dir: &Path, path: &Path) -> Result<File, Error> {
        let failed = |error: Errno| Error::file(dir.join(path))(error.into());
        let root = openat(CWD, dir, DIRECTORY, Mode::empty()).map_err(failed)?;
        // A pipe must not keep us waiting.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = openat2(root, path, flags, Mode::empty(), INSIDE).map_err(failed)?.into();
        let found = file.metadata().map_err(Error::file(dir.join(path)))?;
        if found.is_file() { Ok(file) } else { Err(Error::refused(dir.join(path), "is no file")) }
    }

    fn count(&mut self) -> Result<(), Error> {
        self.files += 1;
        let files_max = self.limits.files_max;
        if self.files > files_max { Err(Error::TooMany { files_max }) } else { Ok(()) }
    }

    /// The directory and the name that something is to have; None for the root itself.
    fn place<'p>(&mut self, path: &'p Path) -> Result<Option<(OwnedFd, &'p OsStr)>, Error> {
        self.count()?;
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let parent = self.find_or_make(above)?;
        self.must_be_shallow(&parent, path)?;
        Ok(Some((parent, name)))
    }

    fn find_or_make(&mut self, path: &Path) -> Result<OwnedFd, Error> {
        if let Some(found) = self.find(path)? {
            return Ok(found);
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Error::refused(path, "the root is gone"));
        };
        let parent = self.find_or_make(above)?;
        self.count()?;
        mkdirat(&parent, name, Mode::from_raw_mode(0o755)).map_err(self.at(path))?;
        openat(&parent, name, DIRECTORY, Mode::empty()).map_err(self.at(path))
    }

    /// A directory of the tree, by whatever links of the tree lead to it.
    fn find(&self, path: &Path) -> Result<Option<OwnedFd>, Error> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match openat2(&self.root, path, DIRECTORY & !OFlags::NOFOLLOW, Mode::empty(), INSIDE) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.at(path)(error)),
        }
    }

    /// Links can put short paths below one another: what counts is where the directory really is.
    fn must_be_shallow(&self, dir: &OwnedFd, path: &Path) -> Result<(), Error> {
        let depth = depth(dir).map_err(Error::file(self.path.join(path)))?;
        if depth > self.depth + DEPTH_MAX {
            Err(Error::refused(path, "the path is too deep"))
        } else {
            Ok(())
        }
    }

    fn give(&self, parent: &OwnedFd, name: &OsStr, owner: &Owner) -> Result<(), Errno> {
        if !self.gives {
            return Ok(());
        }
        let id = |id: u64| if id > ID_MAX { NOBODY } else { u32::try_from(id).unwrap_or(NOBODY) };
        let (uid, gid) = (Uid::from_raw(id(owner.uid)), Gid::from_raw(id(owner.gid)));
        chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn at(&self, path: &Path) -> impl Fn(Errno) -> Error {
        let path = self.path.join(path);
        move |error| Error::file(&path)(error.into())
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How many directories down it really is.
fn depth(dir: &OwnedFd) -> io::Result<usize> {
    Ok(fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?.components().count())
}

/// Removes a directory of ours with everything in it, following no link.
pub fn remove(path: &Path) -> Result<(), Error> {
    discard(CWD, path.as_os_str()).map_err(|error| Error::file(path)(error.into()))
}

fn kind(parent: &OwnedFd, name: &OsStr) -> Result<Option<FileType>, Errno> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes away whatever has this name.
fn discard(parent: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let parent: BorrowedFd<'_> = parent.as_fd();
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    let dir = openat(parent, name, DIRECTORY, Mode::empty())?;
    empty(&dir)?;
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn empty(dir: &OwnedFd) -> Result<(), Errno> {
    let names: Vec<_> = Dir::read_from(dir)?
        .map(|entry| entry.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned()))
        .collect::<Result<_, _>>()?;
    names.iter().filter(|name| *name != "." && *name != "..").try_for_each(|name| discard(dir, name))
}
