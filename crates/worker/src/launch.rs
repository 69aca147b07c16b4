//! The launch: read from its file, which goes away, into memory that nobody else may read.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use omoi_protocol::launch::{LaunchSpec, SPOOL_PATH};
use omoi_redact::Secrets;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::Surroundings;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the launch {path}: {source}; whoever starts the worker puts it there")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the launch {path} is not one that this version reads: {source}")]
    Unknown { path: PathBuf, source: serde_json::Error },
    #[error("cannot delete the launch {path}: {source}; it holds the sandbox's token and may not stay")]
    Stays { path: PathBuf, source: io::Error },
    #[error("cannot keep other processes from reading this one's memory: {0}")]
    Dumpable(io::Error),
}

/// Keeps processes of the same user away from this one's memory, where the launch is.
pub fn hide_memory() -> Result<(), Error> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| Error::Dumpable(error.into()))
}

/// Takes the launch out of its file. A file that lies where nothing can be deleted is emptied by nobody, so
/// that is an error.
pub fn read(path: &Path) -> Result<LaunchSpec, Error> {
    let text = fs::read(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    fs::remove_file(path).map_err(|source| Error::Stays { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|source| Error::Unknown { path: path.to_owned(), source })
}

/// What a run may not show: the sandbox's own token, and whatever has the shape of a token.
pub fn secrets(launch: &LaunchSpec) -> Secrets {
    Secrets::new([launch.token.expose()])
}

/// Where unsent events are kept: on the sandbox's disk, where a rescue finds them.
pub fn spool_dir(launch: &LaunchSpec, around: &Surroundings) -> PathBuf {
    match &launch.spool_path {
        Some(path) => PathBuf::from(path),
        None => home(around).join(SPOOL_PATH).join(launch.sandbox_id.as_str()),
    }
}

pub fn home(around: &Surroundings) -> PathBuf {
    PathBuf::from((around.env)("HOME").unwrap_or_else(|| "/".to_owned()))
}
