//! Images that a team brings: unpacked directories below `images/` in the data directory. Each is `NAME/root` with a
//! `metadata.json` beside it, made under another name and renamed when it is whole, so that one that can be seen can be
//! used.

mod archive;
mod copy;
mod import;
mod oci;
#[cfg(test)]
mod tests;
mod tree;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use omoi_launcher::Directory;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The label of a running sandbox that names its image.
pub const LABEL: &str = "omoi.image";
/// The name that stands for the system directories of the machine.
pub const HOST: &str = "host";

const ROOT: &str = "root";
const METADATA: &str = "metadata.json";
const LOCK: &str = ".lock";
/// What is being made, or removed, has a name that no image has.
const UNFINISHED: &str = ".unfinished-";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{0:?} is no name for an image: it has letters, digits, '-', '_' and '.', starts with a letter or digit, and is not \"{HOST}\""
    )]
    Name(String),
    #[error("there is an image {0:?} already; remove it first, or choose another name")]
    Exists(String),
    #[error("there is no image {0:?}; `omoi image list` shows those there are")]
    Absent(String),
    #[error("image {name:?} is used by {}; end what uses it first", sandboxes.join(", "))]
    Used { name: String, sandboxes: Vec<String> },
    #[error("{} running without saying from which image: {}; end them first", are(sandboxes.len()), sandboxes.join(", "))]
    Untold { sandboxes: Vec<String> },
    #[error("another import or removal is at work in {}; wait until it has ended", .0.display())]
    Busy(PathBuf),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// What it holds cannot be taken, and a repeat would meet the same.
    #[error("{}: {detail}", path.display())]
    Refused { path: PathBuf, detail: String },
    #[error("the image is larger than {bytes_max} bytes; take one that is smaller, or raise the limit")]
    TooLarge { bytes_max: u64 },
    #[error("the image has more than {files_max} files; take one that has fewer, or raise the limit")]
    TooMany { files_max: u64 },
}

impl Error {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    fn refused(path: impl Into<PathBuf>, detail: impl Into<String>) -> Self {
        Self::Refused { path: path.into(), detail: detail.into() }
    }
}

fn are(count: usize) -> String {
    if count == 1 { "1 sandbox is".to_owned() } else { format!("{count} sandboxes are") }
}

/// How much of an image is taken.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub bytes_max: u64,
    pub files_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 32 << 30, files_max: 2_000_000 }
    }
}

/// What is known of an image; the content of its `metadata.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub name: String,
    pub source: String,
    /// Of what it was made from; a directory has none.
    pub digest: Option<String>,
    pub bytes: u64,
    pub files: u64,
    /// Devices, pipes and sockets, which no image brings in.
    pub skipped: u64,
    /// None for one that somebody has put there by hand.
    pub imported_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub struct Images {
    dir: PathBuf,
    /// Where the sandboxes are that may use them.
    places: PathBuf,
}

impl Images {
    pub fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("images"), places: data_dir.join("sandboxes") }
    }

    /// Where an image of this name is unpacked.
    pub fn path(&self, name: &str) -> Result<PathBuf, super::Error> {
        let wrong = |detail: &str| super::Error::Image { name: name.to_owned(), detail: detail.to_owned() };
        if !is_name(name) {
            return Err(wrong(
                "a name has letters, digits, '-', '_' and '.', and starts with a letter or digit",
            ));
        }
        let path = self.dir.join(name).join(ROOT);
        if path.is_dir() {
            Ok(path)
        } else {
            Err(wrong("is not here; see `omoi image list` and `omoi image import`"))
        }
    }

    /// By name.
    pub fn list(&self) -> Result<Vec<Image>, Error> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(&self.dir)(error)),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut images: Vec<_> =
            names.filter(|name| is_name(name)).filter_map(|name| self.get(&name)).collect();
        images.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(images)
    }

    /// Makes an image of a directory, a tar archive (`.gz` and `.zst` too), or an OCI or Docker image as a directory or an
    /// archive. Nothing of it is believed.
    pub fn import(&self, name: &str, source: &Path, limits: Limits, now: Timestamp) -> Result<Image, Error> {
        if !is_name(name) || name == HOST {
            return Err(Error::Name(name.to_owned()));
        }
        let _lock = self.lock()?;
        if self.dir.join(name).exists() {
            return Err(Error::Exists(name.to_owned()));
        }
        let unfinished = self.dir.join(format!("{UNFINISHED}{name}"));
        let made = import::make(name, source, &unfinished, limits, now)
            .and_then(|image| self.show(&unfinished, name).map(|()| image));
        if made.is_err() {
            // What cannot be removed now is removed by the next import.
            let _ = tree::remove(&unfinished);
        }
        made
    }

    pub fn remove(&self, name: &str) -> Result<Image, Error> {
        if !is_name(name) {
            return Err(Error::Name(name.to_owned()));
        }
        let _lock = self.lock()?;
        let image = self.get(name).ok_or_else(|| Error::Absent(name.to_owned()))?;
        self.must_be_unused(name)?;
        let unfinished = self.dir.join(format!("{UNFINISHED}{name}"));
        let path = self.dir.join(name);
        fs::rename(&path, &unfinished).map_err(Error::file(path))?;
        tree::remove(&unfinished)?;
        Ok(image)
    }

    fn get(&self, name: &str) -> Option<Image> {
        let path = self.dir.join(name);
        let by_hand = Image {
            name: name.to_owned(),
            source: String::new(),
            digest: None,
            bytes: 0,
            files: 0,
            skipped: 0,
            imported_at: None,
        };
        let told = fs::read(path.join(METADATA)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        path.join(ROOT).is_dir().then(|| Image { name: name.to_owned(), ..told.unwrap_or(by_hand) })
    }

    /// Gives a whole image its name, and makes sure that a crash finds it whole.
    fn show(&self, unfinished: &Path, name: &str) -> Result<(), Error> {
        let path = self.dir.join(name);
        fs::rename(unfinished, &path).map_err(Error::file(path))?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(Error::file(&self.dir))
    }

    /// One at a time; whoever has the lock clears away what an earlier one left unfinished.
    fn lock(&self) -> Result<File, Error> {
        use std::os::unix::fs::DirBuilderExt;
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(Error::file(&self.dir))?;
        let path = self.dir.join(LOCK);
        let lock = File::create(&path).map_err(Error::file(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::Busy(self.dir.clone()))?;
        for entry in fs::read_dir(&self.dir).map_err(Error::file(&self.dir))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                tree::remove(&entry.path())?;
            }
        }
        Ok(lock)
    }

    /// A running sandbox has its image below it, and would see its files go.
    fn must_be_unused(&self, name: &str) -> Result<(), Error> {
        let (mut used, mut untold) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.places).into_iter().flatten().flatten() {
            let directory = Directory::new(&entry.path());
            // Of one that cannot be asked, the worst is assumed.
            if !directory.alive().unwrap_or(true) {
                continue;
            }
            let id = entry.file_name().to_string_lossy().into_owned();
            match directory.state().ok().flatten().and_then(|state| state.labels.get(LABEL).cloned()) {
                Some(image) if image == name => used.push(id),
                Some(_) => {}
                None => untold.push(id),
            }
        }
        if !used.is_empty() {
            return Err(Error::Used { name: name.to_owned(), sandboxes: used });
        }
        if !untold.is_empty() {
            return Err(Error::Untold { sandboxes: untold });
        }
        Ok(())
    }
}

pub fn is_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
