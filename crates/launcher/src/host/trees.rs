//! The parts of the host that a sandbox sees, as mounts that are attached nowhere yet. Root makes them before the sandbox
//! exists and maps their ids; an ordinary user makes them inside, as the kernel allows it there alone.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use omoi_launcher::{Image, Layer, Plan};
use rustix::fs::{CWD, Mode as FileMode, OFlags, open};
use rustix::mount::{OpenTreeFlags, open_tree};

use crate::host::disk::{self, Disk};
use crate::host::ids::{Mode, map_namespace};
use crate::host::skeleton;
use crate::host::upper::Lowers;
use crate::refuse::{OrRefuse as _, Reports, Result};
use crate::sys;

pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

#[derive(Debug)]
pub struct Trees {
    pub image: OwnedFd,
    pub host: Vec<(String, OwnedFd)>,
    pub workspace: Option<OwnedFd>,
    pub disk: OwnedFd,
    pub binds: Vec<(PathBuf, OwnedFd)>,
    pub devices: Vec<(&'static str, OwnedFd)>,
}

/// User namespaces whose maps the mounts apply: the range, and the workspace's owner as the sandbox's user.
#[derive(Debug)]
pub struct Maps {
    range: OwnedFd,
    workspace: Option<OwnedFd>,
}

impl Maps {
    /// None where mounts cannot be mapped: then files of the host belong to nobody inside, and workspaces are copied.
    pub fn make(plan: &Plan, mode: Mode, image: &Path, reports: &mut Reports) -> Option<Self> {
        let fix = "run the server as root on Linux 5.19 or newer, with its data on ext4, XFS or Btrfs";
        let missing = match mode {
            _ if plan.deny.contains(&Layer::IdmappedMounts) => "denied by the plan".to_owned(),
            Mode::Delegated | Mode::Shared => "only root can map the ids of a mount".to_owned(),
            Mode::Root => match Self::try_make(plan, image) {
                Ok(maps) => {
                    reports.yes(Layer::IdmappedMounts, "image and workspace");
                    return Some(maps);
                }
                Err(error) => error.to_string(),
            },
        };
        let detail =
            format!("{missing}; files of the image belong to nobody inside, and the workspace is copied");
        reports.reduced(Layer::IdmappedMounts, detail, fix);
        None
    }

    fn try_make(plan: &Plan, image: &Path) -> io::Result<Self> {
        let range = map_namespace((0, 0), (plan.ids.base, plan.ids.base), plan.ids.count)?;
        let workspace = match &plan.workspace {
            None => None,
            Some(workspace) => {
                let owner = workspace.lower.metadata()?;
                // One owner is one line: a file of anybody else belongs to nobody inside.
                let user = (plan.ids.base + plan.uid, plan.ids.base + plan.gid);
                let map = map_namespace((owner.uid(), owner.gid()), user, 1)?;
                tree(&workspace.lower, Some(map.as_fd()), false)?;
                Some(map)
            }
        };
        tree(image, Some(range.as_fd()), false)?;
        Ok(Self { range, workspace })
    }
}

/// The directory that the root is laid over.
pub fn image_path(plan: &Plan) -> Result<PathBuf> {
    match &plan.image {
        Image::Host { .. } => skeleton::find(&plan.cache).or_refuse(
            Layer::Image,
            format_args!("make the skeleton below {}", plan.cache.display()),
            "see that the cache directory can be written to",
        ),
        Image::Dir(path) => Ok(path.clone()),
    }
}

/// What is laid over, opened to be looked at and copied from.
pub fn lowers(plan: &Plan, image: &Path, overlay: bool, maps: bool, mode: Mode) -> Result<Lowers> {
    let (host, root_inside) = match &plan.image {
        Image::Host { opt } => (skeleton::host_directories(*opt), plan.root_inside),
        Image::Dir(_) => (Vec::new(), false),
    };
    let workspace = plan.workspace.as_ref();
    let open_dir = |path: &Path, layer: Layer| {
        open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, FileMode::empty()).or_refuse(
            layer,
            format_args!("open {}", path.display()),
            "name a directory that exists",
        )
    };
    Ok(Lowers {
        image: open_dir(image, Layer::Image)?,
        workspace: workspace.map(|it| open_dir(&it.lower, Layer::Workspace)).transpose()?,
        copy_image: !overlay,
        // With one shared id the checkout is the sandbox user's own already.
        copy_workspace: !overlay || workspace.is_some_and(|it| it.copy) || (!maps && mode != Mode::Shared),
        host,
        overlay_host: root_inside && overlay && maps,
    })
}

impl Trees {
    pub fn open(
        plan: &Plan,
        image: &Path,
        lowers: &Lowers,
        disk: &mut Disk,
        maps: Option<&Maps>,
    ) -> Result<Self> {
        let range = maps.map(|maps| maps.range.as_fd());
        let here = |path: &Path, map: Option<BorrowedFd<'_>>, layer: Layer| {
            tree(path, map, maps.is_none()).or_refuse(
                layer,
                format_args!("mount {}", path.display()),
                "see that it exists and that the server may read it",
            )
        };
        let host = lowers
            .host
            .iter()
            .map(|name| Ok((name.clone(), here(&Path::new("/").join(name), range, Layer::Image)?)));
        let workspace = match &plan.workspace {
            Some(workspace) if !lowers.copy_workspace => {
                let map = maps.and_then(|maps| maps.workspace.as_ref()).map(|map| map.as_fd());
                Some(here(&workspace.lower, map, Layer::Workspace)?)
            }
            _ => None,
        };
        let binds = plan.binds.iter().map(|bind| {
            // A bind may lie where ids cannot be mapped; then everybody may read it or nobody can.
            let tree =
                here(&bind.from, range, Layer::Image).or_else(|_| here(&bind.from, None, Layer::Image))?;
            Ok((bind.to.clone(), tree))
        });
        Ok(Self {
            image: here(image, range, Layer::Image)?,
            host: host.collect::<Result<_>>()?,
            workspace,
            disk: match disk.mount.take() {
                Some(mount) => mount,
                None => disk::mount_dir(&plan.dir).or_broken(Layer::DiskCap, "mount the disk's directory")?,
            },
            binds: binds.collect::<Result<_>>()?,
            devices: devices()?,
        })
    }
}

/// A read-only mount of one place. What is mounted below it is left out, where the kernel lets us: inside a user namespace it
/// must come along, because it may hide something.
fn tree(path: &Path, map: Option<BorrowedFd<'_>>, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = open_tree(CWD, path, flags)?;
    let attributes = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    sys::mount_setattr(tree.as_fd(), attributes, map, recursive)?;
    Ok(tree)
}

fn devices() -> Result<Vec<(&'static str, OwnedFd)>> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let device = |name: &'static str| {
        let tree = open_tree(CWD, Path::new("/dev").join(name), flags)
            .or_broken(Layer::MountNamespace, format_args!("mount /dev/{name}"))?;
        Ok((name, tree))
    };
    DEVICES.into_iter().map(device).collect()
}
