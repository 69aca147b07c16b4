//! The disk that a sandbox writes to: a file system of its own in a sparse file, which the kernel caps; or a plain directory,
//! which nothing caps and which is reported so.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use omoi_launcher::directory::{DISK_DIR, DISK_IMAGE};
use omoi_launcher::{DiskKind, Layer, Plan};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};

use crate::host::ids::Mode;
use crate::refuse::{OrRefuse as _, Reports, Result, refusal};
use crate::{host::copy::erase, sys};

const RELEASED_WITHIN: Duration = Duration::from_secs(30);
/// Counts up when [`make_filesystem`] makes another one.
const TEMPLATE_VERSION: u32 = 1;
const SMALLEST_BYTES: u64 = 8 << 20;

/// What is there after [`make`].
#[derive(Debug)]
pub struct Disk {
    pub kind: DiskKind,
    /// Whether this call made it, so that undoing removes it.
    pub new: bool,
    /// The mounted file system of an image. A directory is opened by whoever mounts it.
    pub mount: Option<OwnedFd>,
}

/// Finds the disk of an earlier sandbox or makes one.
pub fn make(plan: &Plan, mode: Mode, reports: &mut Reports) -> Result<Disk> {
    let (image, dir) = (plan.dir.join(DISK_IMAGE), plan.dir.join(DISK_DIR));
    if plan.fresh {
        remove(plan, mode)?;
    }
    if image.exists() {
        let mount = mount_image(&image).or_broken(Layer::DiskCap, "mount the disk that was left")?;
        reports.yes(Layer::DiskCap, "ext4 image of an earlier sandbox");
        return Ok(Disk { kind: DiskKind::Image, new: false, mount: Some(mount) });
    }
    let old = dir.exists();
    let missing = match mode {
        _ if plan.deny.contains(&Layer::DiskCap) => "denied by the plan".to_owned(),
        _ if old => "an earlier sandbox left a plain directory".to_owned(),
        Mode::Delegated | Mode::Shared => "only root can mount an image".to_owned(),
        Mode::Root => match make_image(&image, plan).and_then(|()| mount_image(&image)) {
            Ok(mount) => {
                reports.yes(Layer::DiskCap, format_args!("ext4 image of {} bytes", plan.limits.disk_bytes));
                return Ok(Disk { kind: DiskKind::Image, new: true, mount: Some(mount) });
            }
            Err(error) => {
                let _ = fs::remove_file(&image);
                error.to_string()
            }
        },
    };
    let fix = "run the server as root with loop devices and e2fsprogs";
    if plan.limits.disk_hard {
        return Err(refusal(Layer::DiskCap, missing, format_args!("{fix}; or do without `disk_hard`")));
    }
    reports.reduced(Layer::DiskCap, format_args!("{missing}; the disk is a directory without a cap"), fix);
    if !old {
        fs::create_dir(&dir).or_broken(Layer::DiskCap, "make the disk's directory")?;
    }
    Ok(Disk { kind: DiskKind::Directory, new: !old, mount: None })
}

/// Removes whatever disk there is.
pub fn remove(plan: &Plan, mode: Mode) -> Result<()> {
    let parent = File::open(&plan.dir).or_broken(Layer::Directory, "open the sandbox's directory")?;
    mode.with_files(plan.ids, || {
        for name in [c"disk.img", c"disk.draft", c"disk"] {
            erase(&parent, name).or_broken(Layer::DiskCap, "remove the disk")?;
        }
        Ok(())
    })
}

/// Mounts a directory as the disk, in the mount namespace of the caller.
pub fn mount_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, dir.join(DISK_DIR), flags)?;
    sys::mount_setattr(tree.as_fd(), libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, None, false)?;
    Ok(tree)
}

/// A copy of an empty file system, which is made once for each size: copying its few blocks is faster than making it.
fn make_image(image: &Path, plan: &Plan) -> io::Result<()> {
    let bytes = plan.limits.disk_bytes;
    if bytes < SMALLEST_BYTES {
        return Err(io::Error::other(format!("disk_bytes is less than {SMALLEST_BYTES}")));
    }
    let template = plan.cache.join(format!("disk-{TEMPLATE_VERSION}-{bytes}.img"));
    if !template.exists() {
        fs::create_dir_all(&plan.cache)?;
        let draft = plan.cache.join(format!("disk-draft-{}", std::process::id()));
        // Only a whole file system gets the name; anything else is what a crash left.
        sized(&draft, bytes)
            .and_then(|_| make_filesystem(&draft))
            .and_then(|()| fs::rename(&draft, &template))
            .inspect_err(|_| {
                let _ = fs::remove_file(&draft);
            })?;
    }
    let draft = image.with_extension("draft");
    copy_blocks(&mut File::open(template)?, &mut sized(&draft, bytes)?)?;
    fs::rename(draft, image)
}

fn sized(path: &Path, bytes: u64) -> io::Result<File> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_len(bytes)?;
    Ok(file)
}

fn make_filesystem(file: &Path) -> io::Result<()> {
    let programs = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"];
    let program = programs.into_iter().find(|path| Path::new(path).exists());
    let program = program.ok_or_else(|| io::Error::other("mkfs.ext4 is not installed"))?;
    #[expect(clippy::disallowed_methods, reason = "nothing else makes an ext4 file system")]
    let output = Command::new(program)
        .args(["-q", "-F", "-m", "0", "-O", "^resize_inode"])
        .args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"])
        .arg(file)
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(io::Error::other(format!("mkfs.ext4: {}", String::from_utf8_lossy(&output.stderr).trim())))
        }
    }
}

/// Copies what is not a hole.
fn copy_blocks(from: &mut File, to: &mut File) -> io::Result<()> {
    let mut at = 0;
    loop {
        let begin = match rustix::fs::seek(&*from, rustix::fs::SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&*from, rustix::fs::SeekFrom::Hole(begin))?;
        from.seek(SeekFrom::Start(begin))?;
        to.seek(SeekFrom::Start(begin))?;
        io::copy(&mut from.take(end - begin), to)?;
        at = end;
    }
}

/// The mount holds the loop device, and the device lets go of the file when the mount has gone.
fn mount_image(image: &Path) -> io::Result<OwnedFd> {
    let backing = File::options().read(true).write(true).open(image)?;
    wait_released(image)?;
    let (device, path) = attach(&backing)?;
    let context = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", &path)?;
    // Tables that mkfs left for later are written when they are needed.
    fsconfig_set_flag(&context, "noinit_itable")?;
    fsconfig_create(&context)?;
    drop(device);
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn attach(backing: &File) -> io::Result<(File, PathBuf)> {
    let control = File::open("/dev/loop-control")?;
    // Somebody else may take the free device first; each attempt asks for another.
    for _ in 0..64 {
        let path = PathBuf::from(format!("/dev/loop{}", sys::loop_free(&control)?));
        let device = File::options().read(true).write(true).open(&path)?;
        match sys::loop_configure(&device, backing) {
            Ok(()) => return Ok((device, path)),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("every loop device was taken by somebody else"))
}

/// Two mounts of one image destroy it. The lock of a dead sandbox is free a moment before its mount has gone.
fn wait_released(image: &Path) -> io::Result<()> {
    let image = image.canonicalize()?;
    let deadline = Instant::now() + RELEASED_WITHIN;
    while in_use(&image)? {
        if Instant::now() > deadline {
            return Err(io::Error::other("the disk is still mounted by an earlier sandbox"));
        }
        crate::pause(Duration::from_millis(5));
    }
    Ok(())
}

fn in_use(image: &Path) -> io::Result<bool> {
    for entry in fs::read_dir("/sys/block")?.flatten() {
        // Absent for devices that have no file behind them.
        if let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file"))
            && Path::new(backing.trim_end_matches('\n')) == image
        {
            return Ok(true);
        }
    }
    Ok(false)
}
