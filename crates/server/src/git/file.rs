//! Small files that are whole or not there, and locks that hold between processes.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
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
        let open = path.clone();
        let file = blocking(move || open_lock(&open)).await?;
        let trying = async {
            loop {
                match flock(&file, hold.operation()) {
                    Ok(()) => return Ok(()),
                    Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(TRY_AGAIN).await,
                    Err(error) => return Err(Error::io(&path, error.into())),
                }
            }
        };
        match tokio::time::timeout(patience, trying).await {
            Ok(taken) => taken.map(|()| Self { _file: file }),
            Err(_) => Err(Error::Busy { lock: path.display().to_string(), patience }),
        }
    }

    /// Without waiting, where the caller may block for the disk.
    pub fn try_now(path: &Path, hold: Hold) -> Result<Option<Self>, Error> {
        let file = open_lock(path)?;
        match flock(&file, hold.operation()) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Error::io(path, error.into())),
        }
    }
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
