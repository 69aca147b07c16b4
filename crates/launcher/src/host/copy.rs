//! Copying and erasing whole trees whose content nobody trusts: no link is followed, no special file is opened, and depth
//! and names are whatever the tree says.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Timespec, Timestamps, chownat, fchmod, futimens,
    mkdirat, openat, readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

/// Deeper trees are refused rather than walked.
const DEPTH_MAX: usize = 512;

/// Copies the content of one directory into another and gives it all to one owner.
pub fn copy(from: impl AsFd, to: impl AsFd, owner: (u32, u32)) -> io::Result<()> {
    copy_level(from.as_fd().try_clone_to_owned()?, to.as_fd().try_clone_to_owned()?, owner, 0)
}

/// Removes whatever has this name. What is not there is well.
pub fn erase(parent: impl AsFd, name: &CStr) -> io::Result<()> {
    erase_level(parent.as_fd().try_clone_to_owned()?, name, 0)
}

fn copy_level(from: OwnedFd, to: OwnedFd, owner: (u32, u32), depth: usize) -> io::Result<()> {
    deep(depth)?;
    for name in names(&from)? {
        let stat = statat(&from, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                make_dir(&to, &name)?;
                copy_level(open_dir(&from, &name)?, open_dir(&to, &name)?, owner, depth + 1)?;
                give(&to, &name, owner)?;
                finish(File::from(open_dir(&to, &name)?), &stat)?;
            }
            FileType::RegularFile => {
                let mut source = File::from(openat(&from, &name, read_flags(), Mode::empty())?);
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let mut target = File::from(openat(&to, &name, flags, Mode::RUSR | Mode::WUSR)?);
                io::copy(&mut source, &mut target)?;
                give(&to, &name, owner)?;
                finish(target, &stat)?;
            }
            FileType::Symlink => {
                symlinkat(readlinkat(&from, &name, Vec::new())?, &to, &name)?;
                give(&to, &name, owner)?;
            }
            // Sockets, pipes and devices belong to whoever made them.
            _ => {}
        }
    }
    Ok(())
}

fn erase_level(parent: OwnedFd, name: &CStr, depth: usize) -> io::Result<()> {
    deep(depth)?;
    match unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    let path_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = match openat(&parent, name, path_flags, Mode::empty()) {
        Ok(place) => place,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // A directory that its owner may not enter is still the owner's to change. Only a path by descriptor reaches what was
    // looked at, whatever has the name by now.
    let mode = Mode::RWXU;
    let _ = rustix::fs::chmodat(
        CWD,
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place)),
        mode,
        AtFlags::empty(),
    );
    let dir = open_dir(&parent, name)?;
    for child in names(&dir)? {
        erase_level(dir.try_clone()?, &child, depth + 1)?;
    }
    match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

pub fn open_dir(parent: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

pub fn make_dir(parent: impl AsFd, name: &CStr) -> io::Result<()> {
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub fn give(parent: impl AsFd, name: &CStr, owner: (u32, u32)) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    Ok(chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Modes without set-uid and its like, and the time of the last change, by which Git knows what it need not read again.
fn finish(target: File, stat: &rustix::fs::Stat) -> io::Result<()> {
    fchmod(&target, Mode::from_raw_mode((stat.st_mode & 0o777) as RawMode))?;
    let time = Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ };
    Ok(futimens(&target, &Timestamps { last_access: time, last_modification: time })?)
}

fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC
}

fn deep(depth: usize) -> io::Result<()> {
    if depth < DEPTH_MAX {
        Ok(())
    } else {
        Err(io::Error::other(format!("directories nested deeper than {DEPTH_MAX}")))
    }
}
