//! Where the work tree differs from the index, and how the index learns of it. Git names the paths; each is looked at here
//! first, so that nothing large, unreadable or odd is handed to Git, which would give up over it.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{Metadata, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
};

use omoi_protocol::event::FileChange;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::{Change, Error, LargeFiles, nested, shadow::Shadow, shown};
use crate::git::{self, Feed, Git};

/// A file beyond this is not read.
pub const LARGE_BYTES: u64 = 20 * 1024 * 1024;
/// How often one set of paths is halved to find the one that Git gives up over.
const TRIES_MAX: usize = 64;

/// A file that is too large to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Large {
    pub bytes: u64,
    pub modified: (i64, i64),
    /// An earlier version is in the index.
    pub is_tracked: bool,
}

#[derive(Debug, Default)]
pub struct Found {
    /// New, changed or gone.
    pub paths: Vec<Vec<u8>>,
    /// Tracked, and now neither file nor link nor directory.
    pub odd: Vec<Vec<u8>>,
    pub large: LargeFiles,
    /// Repositories inside, whose files are among `paths`.
    pub repositories: Vec<Vec<u8>>,
    pub notes: Vec<String>,
}

pub async fn look(shadow: &Shadow) -> Result<Found, Error> {
    let args = ["ls-files", "-z", "-t", "--modified", "--deleted", "--others", "--exclude-standard"];
    let listed = shadow.git.bytes(&args).await?;
    let mut paths: BTreeMap<&[u8], bool> = BTreeMap::new();
    for line in listed.split(|byte| *byte == 0).filter(|line| line.len() > 2) {
        *paths.entry(&line[2..]).or_default() |= line[0] != b'?';
    }
    let mut found = Found::default();
    for (path, is_tracked) in paths {
        match path.strip_suffix(b"/") {
            Some(dir) => found.add_repository(shadow, dir).await?,
            None => found.add(shadow, path.to_owned(), is_tracked),
        }
    }
    Ok(found)
}

/// Lets the index know files that are as they were by what their inodes say now.
pub async fn refresh(git: &Git) -> Result<(), Error> {
    match git.run(&["update-index", "-q", "--refresh"]).await {
        // There are files that are not as they were.
        Err(git::Error::Failed { code: Some(1), .. }) => Ok(()),
        refreshed => Ok(refreshed?),
    }
}

/// Brings the index to what was found. A path that Git gives up over is left as it was, with a note.
pub async fn apply(git: &Git, found: &mut Found) -> Result<(), Error> {
    if !found.odd.is_empty() {
        feed(git, &["update-index", "-z", "--force-remove", "--stdin"], &found.odd).await?;
    }
    let args = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
    let mut sets: Vec<&[Vec<u8>]> = vec![&found.paths[..]];
    let mut tries = 0;
    while let Some(set) = sets.pop().filter(|set| !set.is_empty()) {
        tries += 1;
        match feed(git, &args, set).await {
            Ok(()) => {}
            Err(error @ git::Error::Failed { .. }) if tries >= TRIES_MAX => return Err(error.into()),
            Err(git::Error::Failed { complaint, .. }) if set.len() == 1 => {
                found.notes.push(format!("{} is not followed: {complaint}", shown(&set[0])));
            }
            Err(git::Error::Failed { .. }) => {
                let (first, second) = set.split_at(set.len() / 2);
                sets.extend([second, first]);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What became of large files.
pub fn compare<'a>(before: &'a LargeFiles, now: &'a LargeFiles) -> impl Iterator<Item = Change> + 'a {
    let changed = now.iter().filter_map(|(path, large)| match before.get(path) {
        Some(earlier) if (earlier.bytes, earlier.modified) == (large.bytes, large.modified) => None,
        Some(earlier) => Some(Change::large(path, FileChange::Modified, Some(earlier.bytes), large.bytes)),
        None if large.is_tracked => Some(Change::large(path, FileChange::Modified, None, large.bytes)),
        None => Some(Change::large(path, FileChange::Created, None, large.bytes)),
    });
    // One that is tracked and large no more is a change of its small version.
    let gone = before.iter().filter(|(path, large)| !large.is_tracked && !now.contains_key(*path));
    changed.chain(gone.map(|(path, large)| Change::large(path, FileChange::Deleted, Some(large.bytes), 0)))
}

impl Found {
    fn add(&mut self, shadow: &Shadow, path: Vec<u8>, is_tracked: bool) {
        let whole = shadow.workspace.join(OsStr::from_bytes(&path));
        let meta = match whole.symlink_metadata() {
            Ok(meta) => meta,
            // It has vanished since Git saw it, or was deleted.
            Err(error) if is_gone(&error) => return self.paths.push(path),
            Err(error) => return self.notes.push(format!("{} is not followed: {error}", shown(&path))),
        };
        if meta.is_file() && meta.len() > LARGE_BYTES {
            self.large.insert(path, Large::of(&meta, is_tracked));
        } else if meta.is_file() {
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            match OpenOptions::new().read(true).custom_flags(flags).open(&whole) {
                Err(error) if !is_gone(&error) => {
                    self.notes.push(format!("{} is not followed: {error}", shown(&path)));
                }
                _ => self.paths.push(path),
            }
        } else if meta.is_symlink() || meta.is_dir() {
            self.paths.push(path);
        } else {
            self.notes.push(format!("{} is neither a file nor a link", shown(&path)));
            self.odd.push(path);
        }
    }

    async fn add_repository(&mut self, shadow: &Shadow, dir: &[u8]) -> Result<(), Error> {
        match nested::files(&shadow.git, &shadow.workspace, dir).await? {
            Some(paths) => {
                if !paths.is_empty() {
                    self.repositories.push(dir.to_owned());
                }
                for path in paths {
                    self.add(shadow, path, false);
                }
            }
            None => self.notes.push(format!(
                "{}/ is a repository of its own with too many files to be followed",
                shown(dir)
            )),
        }
        Ok(())
    }
}

impl Large {
    fn of(meta: &Metadata, is_tracked: bool) -> Self {
        Self { bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()), is_tracked }
    }
}

pub async fn feed(git: &Git, args: &[&str], paths: &[Vec<u8>]) -> Result<(), git::Error> {
    let feed = async |feed: &mut Feed| {
        for path in paths {
            feed.write_all(path).await?;
            feed.write_all(b"\0").await?;
        }
        Ok(())
    };
    git.feed(args, feed).await.map(drop)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
