//! The writable half of a sandbox, before it is mounted: directories for the overlays and the places where other things are
//! mounted later. An earlier sandbox may have left anything here, so every step refuses to follow a link.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use omoi_launcher::{Layer, Plan};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, chmodat, fchmod, openat, openat2, renameat, statat,
};
use rustix::io::Errno;

use crate::host::copy::{copy, erase, give, make_dir, open_dir};
use crate::host::ids::Owners;
use crate::refuse::{OrRefuse as _, Result, refusal};

pub const ROOT: &str = "root";
pub const ROOT_WORK: &str = "root.work";
pub const WORKSPACE: &str = "workspace";
pub const WORKSPACE_WORK: &str = "workspace.work";
pub const HOME: &str = "home/agent";

/// What is laid over, and how.
#[derive(Debug)]
pub struct Lowers {
    pub image: OwnedFd,
    pub workspace: Option<OwnedFd>,
    /// Without overlays, the image and the workspace are copied.
    pub copy_image: bool,
    pub copy_workspace: bool,
    /// Directories that are mounted whole, such as `usr`, with an overlay each when root is asked for.
    pub host: Vec<String>,
    pub overlay_host: bool,
}

/// Makes, or completes, what the sandbox writes to.
pub fn prepare(disk: impl AsFd, plan: &Plan, owners: Owners, lowers: &Lowers) -> Result<()> {
    let disk = disk.as_fd();
    let broken = |what: &'static str| {
        move |error: io::Error| {
            refusal(
                Layer::DiskCap,
                format_args!("cannot make {what}: {error}"),
                "see that the disk is not full; start with `fresh` to drop the old one",
            )
        }
    };
    if lowers.copy_image {
        copy_once(disk, ROOT, &lowers.image, owners.root).or_broken(Layer::Image, "copy the image")?;
    }
    let root = place(disk, ROOT, owners.root).map_err(broken("the root"))?;
    place(disk, ROOT_WORK, owners.root).map_err(broken("the root's work directory"))?;
    for name in lowers.host.iter().filter(|_| lowers.overlay_host) {
        place(disk, &format!("{name}.upper"), owners.root).map_err(broken("an overlay"))?;
        place(disk, &format!("{name}.work"), owners.root).map_err(broken("an overlay"))?;
    }
    if let Some(lower) = &lowers.workspace {
        if lowers.copy_workspace {
            copy_once(disk, WORKSPACE, lower, owners.user)
                .or_broken(Layer::Workspace, "copy the workspace")?;
        }
        place(disk, WORKSPACE, owners.user).map_err(broken("the workspace"))?;
        place(disk, WORKSPACE_WORK, owners.root).map_err(broken("the workspace's work directory"))?;
    }
    mount_points(&root, plan, owners, lowers)
}

fn mount_points(root: &OwnedFd, plan: &Plan, owners: Owners, lowers: &Lowers) -> Result<()> {
    let point = |path: &Path, file: bool, owner: (u32, u32)| {
        mount_point(root, &lowers.image, path, file, owners.root, owner).or_refuse(
            Layer::Image,
            format_args!("make room for {}", path.display()),
            "see what the image has in that place; start with `fresh` if an earlier sandbox left it",
        )
    };
    for dir in ["proc", "dev", "tmp", "run"] {
        point(dir.as_ref(), false, owners.root)?;
    }
    for dir in &lowers.host {
        point(dir.as_ref(), false, owners.root)?;
    }
    point(HOME.as_ref(), false, owners.user)?;
    if let Some(workspace) = &plan.workspace {
        point(&workspace.at, false, owners.user)?;
    }
    for bind in &plan.binds {
        point(&bind.to, !bind.from.is_dir(), owners.root)?;
    }
    Ok(())
}

/// Copies a tree unless it was copied before. A copy that a crash interrupted has another name and is begun again.
fn copy_once(disk: BorrowedFd<'_>, name: &str, from: &OwnedFd, owner: (u32, u32)) -> io::Result<()> {
    if statat(disk, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    let draft = format!("{name}.draft");
    erase(disk, &CString::new(&*draft)?)?;
    copy(from, place(disk, &draft, owner)?, owner)?;
    Ok(renameat(disk, &draft, disk, name)?)
}

/// A directory of the disk with an owner.
fn place(disk: BorrowedFd<'_>, name: &str, owner: (u32, u32)) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let new = matches!(statat(disk, &name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT));
    make_dir(disk, &name)?;
    if new {
        give(disk, &name, owner)?;
    }
    let dir = open_dir(disk, &name)?;
    if new {
        fchmod(&dir, Mode::from_raw_mode(0o755))?;
    }
    Ok(dir)
}

/// Makes a path in the upper directory wherever the upper one lacks it. A link in the image ends the walk: what it points to
/// is found, inside the new root, when the thing is mounted.
fn mount_point(
    upper: &OwnedFd,
    lower: &OwnedFd,
    path: &Path,
    file: bool,
    root: (u32, u32),
    owner: (u32, u32),
) -> io::Result<()> {
    let names: Vec<&OsStr> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let mut here = upper.try_clone()?;
    let mut below = Some(lower.try_clone()?);
    for (depth, name) in names.iter().enumerate() {
        let last = depth + 1 == names.len();
        let name = CString::new(name.as_bytes())?;
        let beneath = below.as_ref().and_then(|dir| statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok());
        let above = statat(&here, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
        if above.is_none() {
            if beneath.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
                return Ok(());
            }
            let owner = if last { owner } else { root };
            make(&here, &name, file && last, owner, beneath.map_or(0o755, |stat| stat.st_mode & 0o1777))?;
        }
        if last {
            return Ok(());
        }
        here = enter(&here, &name)?;
        below = below.and_then(|dir| enter(&dir, &name).ok());
    }
    Ok(())
}

fn make(dir: &OwnedFd, name: &CString, file: bool, owner: (u32, u32), mode: u32) -> io::Result<()> {
    if file {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(dir, name, flags, Mode::from_raw_mode(0o644))?;
    } else {
        make_dir(dir, name)?;
        chmodat(dir, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    give(dir, name, owner)
}

fn enter(dir: &OwnedFd, name: &CString) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(dir, name, flags, Mode::empty(), resolve)?)
}
