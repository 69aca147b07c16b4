//! The root file system: overlays over the image and the workspace, fresh `/proc`, `/dev`, `/tmp` and `/run`, and then no way
//! back to the host's.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use omoi_launcher::{Layer, Plan};
use rustix::fs::{AtFlags, CWD, Mode as FileMode, OFlags, chownat, mkdirat, openat};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::process::{Gid, Uid, chdir, fchdir, pivot_root};

use crate::host::ids::Mode;
use crate::host::trees::Trees;
use crate::host::upper::{Lowers, ROOT, ROOT_WORK, WORKSPACE, WORKSPACE_WORK};
use crate::inside::mounts::{attach, filesystem, memory, nosuid_nodev};
use crate::inside::system;
use crate::probe;
use crate::refuse::{OrRefuse as _, Result};
use crate::sys;

/// Directories of the host that surely exist; one of them is where the new root is put together, seen by nobody else.
const STAGES: [&str; 4] = ["/usr", "/tmp", "/dev", "/etc"];

/// Builds the root and moves into it. Returns a descriptor of the disk, by which its use is told.
pub fn build(plan: &Plan, mode: Mode, lowers: &Lowers, trees: Trees) -> Result<OwnedFd> {
    let layer = Layer::MountNamespace;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        // A namespace without powers in it is what AppArmor gives to programs that it does not know.
        .or_refuse(
            Layer::UserNamespace,
            "mount inside the user namespace",
            probe::fix(Layer::UserNamespace),
        )?;
    let stage = make_stage().or_broken(layer, "make a place for the new root")?;
    stage_trees(&trees, &stage).or_broken(layer, "put the new root together")?;
    let disk =
        openat(&stage, "disk", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, FileMode::empty())
            .or_broken(Layer::DiskCap, "open the disk")?;

    let fix = "put the server's data on ext4, XFS or Btrfs; or deny `overlay` to have everything copied";
    let root = match lowers.copy_image {
        true => bind(&stage, ROOT).or_broken(Layer::Image, "mount the copied image")?,
        false => overlay("image", ROOT, ROOT_WORK).or_refuse(
            Layer::Overlay,
            "lay an overlay over the image",
            fix,
        )?,
    };
    attach(root, &stage, "root").or_broken(layer, "attach the new root")?;
    let root = open_dir(&stage, "root").or_broken(layer, "open the new root")?;

    attach_host(lowers, trees.host, &stage, &root)?;
    attach_workspace(plan, lowers, &stage, &root)?;
    system::attach_all(plan, mode, &root, trees.devices)
        .or_broken(layer, "mount /proc, /dev, /tmp and /run")?;
    for (to, tree) in trees.binds {
        attach(tree, &root, &to).or_broken(Layer::Image, format_args!("mount {}", to.display()))?;
    }
    enter(&root).or_broken(layer, "move into the new root")?;
    Ok(disk)
}

/// Writes the plan's files below `/run/omoi`, in memory.
pub fn write_files(plan: &Plan, mode: Mode) -> io::Result<()> {
    let owner =
        if mode == Mode::Shared { None } else { Some((Uid::from_raw(plan.uid), Gid::from_raw(plan.gid))) };
    let give = |path: &Path| match owner {
        Some((uid, gid)) => chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW),
        None => Ok(()),
    };
    let base = Path::new("/run/omoi");
    fs::create_dir(base)?;
    give(base)?;
    for file in &plan.files {
        let mut path = base.to_owned();
        let parts: Vec<_> = file.path.components().collect();
        for (depth, part) in parts.iter().enumerate() {
            let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            path.push(name);
            if depth + 1 < parts.len() && !path.is_dir() {
                fs::create_dir(&path)?;
                give(&path)?;
            }
        }
        let mut target = fs::File::create_new(&path)?;
        rustix::fs::fchmod(&target, FileMode::from_raw_mode(file.mode & 0o777))?;
        target.write_all(file.content.as_bytes())?;
        give(&path)?;
    }
    Ok(())
}

fn make_stage() -> io::Result<OwnedFd> {
    let place = STAGES.into_iter().find(|path| Path::new(path).is_dir()).ok_or(io::ErrorKind::NotFound)?;
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(memory(1 << 20, 0o700)?, c"", CWD, place, how)?;
    let stage = open_dir(CWD, place)?;
    // Overlays take paths: short ones, from here.
    fchdir(&stage)?;
    Ok(stage)
}

fn stage_trees(trees: &Trees, stage: &OwnedFd) -> io::Result<()> {
    let all = [
        ("image", Some(&trees.image)),
        ("lower", trees.workspace.as_ref()),
        ("disk", Some(&trees.disk)),
        ("root", None),
    ];
    for (name, tree) in all {
        mkdirat(stage, name, FileMode::RWXU)?;
        if let Some(tree) = tree {
            attach(tree, stage, name)?;
        }
    }
    Ok(())
}

fn overlay(lower: &str, upper: &str, work: &str) -> io::Result<OwnedFd> {
    let (upper, work) = (format!("disk/{upper}"), format!("disk/{work}"));
    let options = [("lowerdir", lower), ("upperdir", &*upper), ("workdir", &*work), ("userxattr", "")];
    filesystem("overlay", &options, nosuid_nodev())
}

/// A directory of the disk, writable.
fn bind(stage: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(stage, format!("disk/{name}"), flags)?;
    sys::mount_setattr(tree.as_fd(), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, None, false)?;
    Ok(tree)
}

fn attach_host(lowers: &Lowers, host: Vec<(String, OwnedFd)>, stage: &OwnedFd, root: &OwnedFd) -> Result<()> {
    for (name, tree) in host {
        let mounted = match lowers.overlay_host {
            true => overlay_host(&name, tree, stage).and_then(|over| attach(over, root, &name)),
            false => attach(tree, root, &name),
        };
        mounted.or_broken(Layer::Image, format_args!("mount /{name}"))?;
    }
    Ok(())
}

fn overlay_host(name: &str, tree: OwnedFd, stage: &OwnedFd) -> io::Result<OwnedFd> {
    mkdirat(stage, name, FileMode::RWXU)?;
    attach(tree, stage, name)?;
    overlay(name, &format!("{name}.upper"), &format!("{name}.work"))
}

fn attach_workspace(plan: &Plan, lowers: &Lowers, stage: &OwnedFd, root: &OwnedFd) -> Result<()> {
    let Some(workspace) = &plan.workspace else { return Ok(()) };
    let mount = match lowers.copy_workspace {
        true => bind(stage, WORKSPACE),
        false => overlay("lower", WORKSPACE, WORKSPACE_WORK),
    };
    mount
        .and_then(|mount| attach(mount, root, &workspace.at))
        .or_broken(Layer::Workspace, format_args!("mount the workspace at {}", workspace.at.display()))
}

/// After this nothing of the host's tree has a name any more.
fn enter(root: &OwnedFd) -> io::Result<()> {
    fchdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(chdir("/")?)
}

fn open_dir(at: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(at, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, FileMode::empty())?)
}
