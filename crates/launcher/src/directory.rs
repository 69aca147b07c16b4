//! What a sandbox's directory says to whoever comes to it later: whether its init lives, what was made, how it ended.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::wire::Error;
use crate::{Exit, State};

pub const LOCK: &str = "lock";
/// Written first, so that what a sandbox had is found even if it was never completed.
pub const INTENT: &str = "intent.json";
pub const STATE: &str = "state.json";
pub const EXIT: &str = "exit.json";
pub const CONTROL: &str = "control.sock";
pub const LOG: &str = "log";
pub const LOG_OLD: &str = "log.1";
pub const DISK_DIR: &str = "disk";
pub const DISK_IMAGE: &str = "disk.img";

#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Whether an init holds the lock. Process ids are used again, locks end with their holder.
    pub fn alive(&self) -> Result<bool, Error> {
        let path = self.path.join(LOCK);
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(Error::File { path, source }),
        };
        // A shared lock, so that two who ask at once do not take each other for an init.
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(Error::File { path, source: error.into() }),
        }
    }

    /// Waits until no init holds the lock: then nothing of the sandbox runs, unless its init was killed, which its processes
    /// survive by a moment.
    pub fn wait_gone(&self) -> Result<(), Error> {
        let path = self.path.join(LOCK);
        let failed = |source| Error::File { path: path.clone(), source };
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(failed(source)),
        };
        rustix::io::retry_on_intr(|| flock(&lock, FlockOperation::LockShared))
            .map_err(|error| failed(error.into()))
    }

    /// What was made there last; it stays when the sandbox has ended.
    pub fn state(&self) -> Result<Option<State>, Error> {
        self.read(STATE)
    }

    /// How the main command ended. `None` while it runs, and when it was killed together with its init.
    pub fn exit(&self) -> Result<Option<Exit>, Error> {
        self.read(EXIT)
    }

    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Older output than `log` holds.
    pub fn log_old(&self) -> PathBuf {
        self.path.join(LOG_OLD)
    }

    /// An answer is whole when it ends with a line feed: an init writes it in place, for it may not write to the directory.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.path.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::File { path, source }),
        };
        if !text.ends_with('\n') {
            return Ok(None);
        }
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Error::Strange(format!("{}: {error}", path.display())))
    }
}
