//! Small files that are whole or not there, and locks that hold between processes.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::Write,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use super::Error;

/// How often a lock that somebody else holds is tried.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Puts a file in the place of an older one in one step.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", unique()));
    let beside = path.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .and_then(|mut file| file.write_all(content));
    written.and_then(|()| std::fs::rename(&beside, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

/// Makes a directory and some below it where they are missing, for the owner alone. The one above has to be there: where
/// the whole data directory was moved away, nothing grows in its place.
pub fn make_below(dir: &Path, names: &[&str]) -> std::io::Result<()> {
    let make = |path: &Path| match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    if !dir.is_dir() {
        make(dir)?;
        tracing::warn!(
            "the directory {} was removed under the running server and is made again",
            dir.display()
        );
    }
    names.iter().map(|name| dir.join(name)).filter(|path| !path.is_dir()).try_for_each(|path| make(&path))
}

/// A name that no other process or thread takes.
pub fn unique() -> String {
    let mut bytes = [0u8; 8];
    let _ = getrandom::fill(&mut bytes);
    crate::store::hex(&bytes)
}

/// Runs what waits for the disk where it may.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::io("a thread for the disk", std::io::Error::other(error))),
    }
}

/// A lock on a file, held until dropped. It holds between processes and within one alike, since each open of a file
/// locks for itself; the kernel frees it when its holder dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

#[derive(Debug, Clone, Copy)]
pub enum Hold {
    /// Nobody else at all.
    Alone,
    /// Others that share it, and nobody alone.
    Shared,
}

impl Lock {
    pub async fn take(path: PathBuf, hold: Hold, patience: Duration) -> Result<Self, Error> {
        let trying = async {
            loop {
                let open = path.clone();
                let taken = blocking(move || Self::try_now(&open, hold)).await?;
                match taken {
                    Some(lock) => return Ok(lock),
                    None => tokio::time::sleep(TRY_AGAIN).await,
                }
            }
        };
        match tokio::time::timeout(patience, trying).await {
            Ok(taken) => taken,
            Err(_) => Err(Error::Busy { lock: path.display().to_string(), patience }),
        }
    }

    /// Without waiting, where the caller may block for the disk. None too where the file was removed or replaced
    /// meanwhile: others would lock another.
    pub fn try_now(path: &Path, hold: Hold) -> Result<Option<Self>, Error> {
        let file = open_lock(path)?;
        match flock(&file, hold.operation()) {
            Ok(()) => Ok(is_at(&file, path).then_some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Error::io(path, error.into())),
        }
    }
}

/// Whether this file is still the one at the path.
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let (held, there) = (file.metadata().map(identity), std::fs::metadata(path).map(identity));
    matches!((held, there), (Ok(held), Ok(there)) if held == there)
}

impl Hold {
    fn operation(self) -> FlockOperation {
        match self {
            Self::Alone => FlockOperation::NonBlockingLockExclusive,
            Self::Shared => FlockOperation::NonBlockingLockShared,
        }
    }
}

fn open_lock(path: &Path) -> Result<File, Error> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.map_err(|source| Error::io(path, source))
}
