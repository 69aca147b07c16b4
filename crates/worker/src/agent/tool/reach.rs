//! How far file tools reach. A path is judged by where it really leads: what it names is opened first, as a mere handle
//! that neither reads nor blocks, and the handle is asked for its place. So no link that is changed in between leads
//! elsewhere.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use omoi_protocol::launch::{ExecutionMode, PermissionMode};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2},
    io::Errno,
};

/// Where a session that explores may write, in the workspace.
pub const NOTES: &str = "notes";
/// And which files, wherever they are.
pub const NOTES_FILE: &str = "ITERATION_NOTES.md";

/// Whether a path inside the workspace is one that an exploration may write.
pub fn is_note(path: &str) -> bool {
    path.split_once('/').is_some_and(|(dir, _)| dir == NOTES) || path.rsplit('/').next() == Some(NOTES_FILE)
}
const GIT: &str = ".git";
const GIT_FILE_BYTES_MAX: u64 = 8 * 1024;
/// What the kernel shows there are no files to be read to the end.
const KERNEL: [&str; 2] = ["/proc", "/sys"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {path}; relative paths are taken from {workspace}")]
    Missing { path: String, workspace: String },
    #[error("{path} is {what}; {hint}")]
    Kind { path: String, what: &'static str, hint: &'static str },
    #[error("{path} leads to {real}, which is outside of what this tool may touch: {roots}")]
    Outside { path: String, real: String, roots: String },
    #[error("{path} belongs to Git; use git commands to change what it keeps")]
    Git { path: String },
    #[error("{path} is a view into the kernel; look at it with a command")]
    Kernel { path: String },
    #[error("this session explores: it may write below {NOTES}/ and files named {NOTES_FILE}, not {path}")]
    NoNotes { path: String },
    #[error("{path} is a link that leads nowhere; remove it, or write to where it should lead")]
    Dangling { path: String },
    #[error("cannot open {path}: {source}")]
    Io { path: String, source: io::Error },
}

#[derive(Debug)]
pub struct Reach {
    pub workspace: PathBuf,
    temporary: PathBuf,
    outputs: PathBuf,
    everywhere: bool,
    notes_only: bool,
}

/// Something that exists and may be read.
#[derive(Debug)]
pub struct Place {
    pub real: PathBuf,
    handle: OwnedFd,
    stat: Stat,
}

/// Where a file may be written.
#[derive(Debug)]
pub struct Target {
    pub real: PathBuf,
    pub existing: Option<Place>,
    /// The deepest directory on the way that exists.
    pub dir: OwnedFd,
    /// Directories below it that do not.
    pub missing: Vec<OsString>,
    pub name: OsString,
}

impl Reach {
    pub fn new(
        workspace: &Path,
        temporary: &Path,
        outputs: &Path,
        mode: ExecutionMode,
        permission: PermissionMode,
    ) -> Self {
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| plain(path));
        Self {
            workspace: real(workspace),
            temporary: real(temporary),
            outputs: real(outputs),
            everywhere: permission == PermissionMode::All,
            notes_only: mode == ExecutionMode::Exploration,
        }
    }

    /// What is there, to be read.
    pub fn find(&self, path: &str) -> Result<Place, Error> {
        let place = self.place(path, &self.absolute(path))?;
        self.check_read(path, &place.real)?;
        Ok(place)
    }

    /// Where `path` leads, to be written. Nothing is made yet.
    pub fn target(&self, path: &str) -> Result<Target, Error> {
        let absolute = self.absolute(path);
        if path.ends_with('/') || absolute.file_name().is_none() {
            return Err(directory(path));
        }
        let target = match self.place(path, &absolute) {
            Ok(place) => self.over(path, place)?,
            Err(Error::Missing { .. }) => self.anew(path, &absolute)?,
            Err(error) => return Err(error),
        };
        self.check_write(path, &target.real)?;
        Ok(target)
    }

    /// As short as it can be said.
    pub fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.workspace).ok().filter(|rest| !rest.as_os_str().is_empty());
        below.unwrap_or(path).display().to_string()
    }

    pub fn absolute(&self, path: &str) -> PathBuf {
        plain(&self.workspace.join(path))
    }

    fn place(&self, path: &str, absolute: &Path) -> Result<Place, Error> {
        let handle = open_handle(absolute, OFlags::empty()).map_err(|error| match error {
            Errno::NOENT if is_link(absolute) => Error::Dangling { path: path.to_owned() },
            Errno::NOENT | Errno::NOTDIR => {
                Error::Missing { path: path.to_owned(), workspace: self.workspace.display().to_string() }
            }
            error => refused(path, error.into()),
        })?;
        let stat = fstat(&handle).map_err(|error| refused(path, error.into()))?;
        let real = real_path(&handle, absolute).map_err(|source| refused(path, source))?;
        Ok(Place { real, handle, stat })
    }

    fn over(&self, path: &str, place: Place) -> Result<Target, Error> {
        place.check_regular(path)?;
        let (Some(parent), Some(name)) = (place.real.parent(), place.real.file_name()) else {
            return Err(directory(path));
        };
        let name = name.to_owned();
        let dir = open_dir(path, parent)?;
        // The directory may have been moved since the file was opened.
        let real = real_path(&dir, parent).map_err(|source| refused(path, source))?.join(&name);
        Ok(Target { real, existing: Some(place), dir, missing: Vec::new(), name })
    }

    fn anew(&self, path: &str, absolute: &Path) -> Result<Target, Error> {
        let mut names = Vec::new();
        let mut at = absolute;
        loop {
            let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
                return Err(directory(path));
            };
            names.push(name.to_owned());
            at = parent;
            if is_link(at) && !at.exists() {
                return Err(Error::Dangling { path: at.display().to_string() });
            }
            if at.symlink_metadata().is_ok() {
                break;
            }
        }
        let dir = open_dir(path, at)?;
        let mut real = real_path(&dir, at).map_err(|source| refused(path, source))?;
        real.extend(names.iter().rev());
        let name = names.remove(0);
        names.reverse();
        Ok(Target { real, existing: None, dir, missing: names, name })
    }

    fn check_read(&self, path: &str, real: &Path) -> Result<(), Error> {
        self.check_inside(path, real, &[&self.workspace, &self.temporary, &self.outputs])
    }

    fn check_write(&self, path: &str, real: &Path) -> Result<(), Error> {
        self.check_inside(path, real, &[&self.workspace, &self.temporary])?;
        let of_git = |below: &Path| below.components().any(|part| part.as_os_str() == GIT);
        if real.starts_with(self.git_dir()) || real.strip_prefix(&self.workspace).is_ok_and(of_git) {
            return Err(Error::Git { path: path.to_owned() });
        }
        let is_note = || {
            real.starts_with(self.workspace.join(NOTES))
                || real.file_name().is_some_and(|name| name == NOTES_FILE)
        };
        // Who explores leaves the work tree as it is; what lies beside it is nobody's.
        if self.notes_only && real.starts_with(&self.workspace) && !is_note() {
            return Err(Error::NoNotes { path: path.to_owned() });
        }
        Ok(())
    }

    /// Where Git keeps what belongs to the workspace: a link or a small file may say that it is elsewhere.
    fn git_dir(&self) -> PathBuf {
        let named = self.workspace.join(GIT);
        let mut text = String::new();
        let is_file = named.metadata().is_ok_and(|meta| meta.is_file());
        if is_file && let Ok(file) = File::open(&named) {
            // What is no text says nothing.
            let _ = file.take(GIT_FILE_BYTES_MAX).read_to_string(&mut text);
        }
        let dir = text.strip_prefix("gitdir:").map_or(named, |dir| self.absolute(dir.trim()));
        fs::canonicalize(&dir).unwrap_or(dir)
    }

    fn check_inside(&self, path: &str, real: &Path, roots: &[&PathBuf]) -> Result<(), Error> {
        if KERNEL.iter().any(|root| real.starts_with(root)) {
            return Err(Error::Kernel { path: path.to_owned() });
        }
        if self.everywhere || roots.iter().any(|root| real.starts_with(root)) {
            return Ok(());
        }
        let roots =
            roots[..2].iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(" and ");
        Err(Error::Outside { path: path.to_owned(), real: real.display().to_string(), roots })
    }
}

impl Place {
    pub fn is_dir(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    pub fn mode(&self) -> Mode {
        Mode::from_raw_mode(self.stat.st_mode)
    }

    pub fn owner(&self) -> (u32, u32) {
        (self.stat.st_uid, self.stat.st_gid)
    }

    pub fn bytes(&self) -> u64 {
        self.stat.st_size.unsigned_abs()
    }

    /// The file behind the handle, whatever has its name by now.
    pub fn open(&self, path: &str) -> Result<File, Error> {
        self.check_regular(path)?;
        let behind = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        File::open(behind).map_err(|source| refused(path, source))
    }

    fn check_regular(&self, path: &str) -> Result<(), Error> {
        let (what, hint) = match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Directory => return Err(directory(path)),
            FileType::Fifo => ("a pipe", "only regular files can be read and written"),
            FileType::Socket => ("a socket", "only regular files can be read and written"),
            FileType::CharacterDevice | FileType::BlockDevice => {
                ("a device", "only regular files can be read and written")
            }
            _ => ("no regular file", "only regular files can be read and written"),
        };
        Err(Error::Kind { path: path.to_owned(), what, hint })
    }
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

fn open_dir(path: &str, dir: &Path) -> Result<OwnedFd, Error> {
    open_handle(dir, OFlags::DIRECTORY).map_err(|error| match error {
        Errno::NOTDIR => Error::Kind {
            path: dir.display().to_string(),
            what: "no directory",
            hint: "nothing can be below it",
        },
        error => refused(path, error.into()),
    })
}

/// Never by way of `/proc/PID/fd` and the like, where the kernel can tell such links apart.
fn open_handle(path: &Path, more: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, path, flags, Mode::empty()),
        opened => opened,
    }
}

fn real_path(handle: &OwnedFd, path: &Path) -> io::Result<PathBuf> {
    let told = fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    told.or_else(|_| fs::canonicalize(path))
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}

fn directory(path: &str) -> Error {
    let hint = "Glob with a pattern like `*` lists what is in it, and files are read one by one";
    Error::Kind { path: path.to_owned(), what: "a directory", hint }
}

fn refused(path: &str, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}
