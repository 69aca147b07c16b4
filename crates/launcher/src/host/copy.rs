//! Copying and erasing whole trees whose content nobody trusts: no link is followed, no special file is opened, and depth
//! and names are whatever the tree says.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, RenameFlags, Timespec, Timestamps, chmodat, chownat,
    fchmod, futimens, mkdirat, openat, readlinkat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

/// Deeper trees are refused rather than copied: each level holds descriptors.
const DEPTH_MAX: usize = 200;

/// Copies the content of one directory into another and gives it all to one owner.
pub fn copy(from: impl AsFd, to: impl AsFd, owner: (u32, u32)) -> io::Result<()> {
    copy_level(from.as_fd().try_clone_to_owned()?, to.as_fd().try_clone_to_owned()?, owner, 0)
}

/// Removes whatever has this name. What is not there is well. A tree is flattened while it is removed, so that no depth and no
/// number of directories costs more than a few descriptors.
pub fn erase(parent: impl AsFd, name: &CStr) -> io::Result<()> {
    let parent = parent.as_fd();
    if unlink(parent, name)? {
        return Ok(());
    }
    let top = enter(parent, name)?;
    let mut moved: u64 = 0;
    loop {
        let left = names(&top)?;
        if left.is_empty() {
            break;
        }
        for name in left {
            if unlink(top.as_fd(), &name)? {
                continue;
            }
            let dir = enter(top.as_fd(), &name)?;
            for child in names(&dir)? {
                if !unlink(dir.as_fd(), &child)? {
                    // To be moved, a directory must itself be writable.
                    drop(enter(dir.as_fd(), &child)?);
                    raise(&dir, &child, &top, &mut moved)?;
                }
            }
            unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
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

/// Says whether the name is gone; it is not if it is a directory with something in it.
fn unlink(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        // Some file systems say of a directory that it may not be unlinked, in place of what it is.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory that its owner may have closed to itself.
fn enter(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(parent, name, flags, Mode::empty())?;
    // By descriptor, so that it is the directory that was opened, whatever has the name by now.
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    chmodat(CWD, path, Mode::RWXU, AtFlags::empty())?;
    open_dir(parent, name)
}

/// Moves a directory up, under a name that nobody has.
fn raise(from: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        match renameat_with(from, name, top, format!(".raised-{moved}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return Ok(other?),
        }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_tree_of_any_depth_and_mode_is_erased_and_no_link_is_followed() {
        let temp = tempfile::tempdir().unwrap();
        let kept = temp.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "kept").unwrap();
        let tree = temp.path().join("tree");
        fs::create_dir(&tree).unwrap();
        symlink(&kept, tree.join("link")).unwrap();
        fs::create_dir(tree.join(".raised-1")).unwrap();
        fs::write(tree.join(".raised-1/file"), "").unwrap();
        // Deeper than any path can name, and than there are descriptors.
        let mut here = File::open(&tree).unwrap();
        for _ in 0..3000 {
            make_dir(&here, c"deep").unwrap();
            symlinkat(&kept, &here, "link").ok();
            let next = File::from(open_dir(&here, c"deep").unwrap());
            here = next;
        }
        fs::set_permissions(tree.join("deep/deep"), fs::Permissions::from_mode(0o000)).unwrap();
        let parent = File::open(temp.path()).unwrap();
        erase(&parent, c"tree").unwrap();
        erase(&parent, c"tree").unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
    }
}
