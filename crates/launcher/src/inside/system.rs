//! `/proc`, `/dev`, `/tmp` and `/run`: nothing of the host's, each with an end to its size.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use omoi_launcher::{Plan, RUN_BYTES};
use rustix::fs::{Mode as FileMode, OFlags, mkdirat, openat, symlinkat};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

use crate::host::ids::Mode;
use crate::inside::mounts::{attach, filesystem, memory, nosuid_nodev};
use crate::sys;

/// Files of `/proc` that say or do something beyond the sandbox.
const MASKED: [&str; 7] =
    ["kcore", "keys", "key-users", "sysrq-trigger", "timer_list", "sched_debug", "latency_stats"];
const MASKED_DIRS: [&str; 3] = ["acpi", "scsi", "bus"];
const READ_ONLY: [&str; 3] = ["sys", "irq", "fs"];

const DEV_BYTES: u64 = 64 << 10;

pub fn attach_all(
    plan: &Plan,
    mode: Mode,
    root: &OwnedFd,
    devices: Vec<(&'static str, OwnedFd)>,
) -> io::Result<()> {
    attach(memory(plan.limits.tmp_bytes, 0o1777)?, root, "tmp")?;
    attach(memory(RUN_BYTES, 0o755)?, root, "run")?;
    attach_dev(plan, mode, root, devices)?;
    attach_proc(root)
}

fn attach_proc(root: &OwnedFd) -> io::Result<()> {
    let attributes = nosuid_nodev() | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    // The init is invisible to the sandbox's user. Kernels before 5.8 had one such setting for all.
    let proc = filesystem("proc", &[("hidepid", "invisible")], attributes)
        .or_else(|_| filesystem("proc", &[], attributes))?;
    attach(proc, root, "proc")?;
    let proc = open(root, "proc")?;
    for name in READ_ONLY.into_iter().filter(|name| open(&proc, name).is_ok()) {
        let tree = open_tree(&proc, name, clone_flags())?;
        sys::mount_setattr(
            tree.as_fd(),
            u64::from((attributes | MountAttrFlags::MOUNT_ATTR_RDONLY).bits()),
            None,
            false,
        )?;
        attach(tree, &proc, name)?;
    }
    for name in MASKED.into_iter().filter(|name| open(&proc, name).is_ok()) {
        attach(open_tree(root, "dev/null", clone_flags())?, &proc, name)?;
    }
    for name in MASKED_DIRS.into_iter().filter(|name| open(&proc, name).is_ok()) {
        let empty = filesystem(
            "tmpfs",
            &[("size", "4096"), ("mode", "555")],
            attributes | MountAttrFlags::MOUNT_ATTR_RDONLY,
        )?;
        attach(empty, &proc, name)?;
    }
    Ok(())
}

fn attach_dev(
    plan: &Plan,
    mode: Mode,
    root: &OwnedFd,
    devices: Vec<(&'static str, OwnedFd)>,
) -> io::Result<()> {
    attach(memory(DEV_BYTES, 0o755)?, root, "dev")?;
    let dev = open(root, "dev")?;
    for (name, tree) in devices {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&dev, name, flags, FileMode::from_raw_mode(0o666))?;
        attach(tree, &dev, name)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlinkat(target, &dev, name)?;
    }
    for name in ["pts", "shm"] {
        mkdirat(&dev, name, FileMode::from_raw_mode(0o755))?;
    }
    // Group 5 is `tty`; with one shared id there is no such group.
    let terminals = [("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5")];
    let terminals = if mode == Mode::Shared { &terminals[..2] } else { &terminals[..] };
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    attach(filesystem("devpts", terminals, attributes)?, &dev, "pts")?;
    attach(memory(plan.limits.tmp_bytes, 0o1777)?, &dev, "shm")
}

fn clone_flags() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC
}

fn open(at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, FileMode::empty())?)
}
