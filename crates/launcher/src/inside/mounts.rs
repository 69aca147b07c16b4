//! Mounts by descriptor: each is made first and attached then, so that no path is ever looked up outside of the new root.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

/// A new file system. An option without a value is a flag.
pub fn filesystem(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    let made = || -> rustix::io::Result<OwnedFd> {
        for (key, value) in options {
            match *value {
                "" => fsconfig_set_flag(&context, *key)?,
                value => fsconfig_set_string(&context, *key, value)?,
            }
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    made().map_err(|error| explain(context.try_clone(), error.into()))
}

/// A file system in memory of a limited size.
pub fn memory(size_bytes: u64, mode: u32) -> io::Result<OwnedFd> {
    // A file takes a page at least, or it is empty and takes an inode: either way there is an end to them.
    let inodes = (size_bytes / 4096).clamp(64, 100_000).to_string();
    let (size, mode) = (size_bytes.to_string(), format!("{mode:o}"));
    let options = [("size", &*size), ("nr_inodes", &*inodes), ("mode", &*mode)];
    filesystem("tmpfs", &options, nosuid_nodev())
}

/// Attaches a mount at a path below a root; links on the way stay below it.
pub fn attach(mount: impl AsFd, root: impl AsFd, path: impl AsRef<Path>) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let path = path.as_ref().strip_prefix("/").unwrap_or(path.as_ref());
    let place = openat2(root, path, flags, Mode::empty(), resolve)?;
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", place, c"", how)?)
}

pub fn nosuid_nodev() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

/// The kernel says more about a failed mount to whoever reads from the context.
fn explain(context: io::Result<OwnedFd>, error: io::Error) -> io::Error {
    let mut text = [0; 1024];
    match context.and_then(|context| std::fs::File::from(context).read(&mut text)) {
        Ok(size) => io::Error::other(format!("{error} ({})", String::from_utf8_lossy(&text[..size]).trim())),
        Err(_) => error,
    }
}
