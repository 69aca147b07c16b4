//! The directories below the data directory that the server makes and needs. Somebody may remove one while the server
//! runs: it is made again at once, empty, so that work goes on. What was in it and cannot be made again is told: in the
//! log, and by readiness until the server is restarted.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustix::fs::OFlags;

/// Each with what is lost with it; nothing where all of it is made again.
const NEEDED: &[(&str, Option<&str>)] = &[
    (
        "mirrors",
        Some(
            "the repositories of projects are fetched again; branches that were pushed here are lost, except for what \
             checkouts and running sandboxes hold",
        ),
    ),
    ("checkouts", None),
    ("sandboxes", Some("the sandboxes that were in it are lost, with the work that they had not pushed")),
    ("images", Some("the images that were imported are lost; import them again")),
    ("cache", None),
];

#[derive(Debug, thiserror::Error)]
#[error(
    "the directory {} was removed while the server uses it and cannot be made again: {source}; make it, or correct the \
     data directory's owner and mode", .path.display()
)]
pub struct Missing {
    path: PathBuf,
    source: io::Error,
}

#[derive(Debug)]
pub struct Directories {
    root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: BTreeMap<&'static str, Seen>,
    lost: Vec<String>,
}

/// A directory as it was found at the last look. Two of them are equal if they are the same directory.
#[derive(Debug)]
struct Seen {
    device: u64,
    inode: u64,
    /// Keeps the inode of a removed directory in use. The file system would give its number to the next directory
    /// otherwise, often the one that takes its place.
    _held: File,
}

impl Seen {
    fn at(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let held = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
        let meta = held.metadata().ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino(), _held: held })
    }
}

impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl Directories {
    pub fn new(data_dir: &Path) -> Self {
        Self { root: data_dir.to_owned(), state: Mutex::default() }
    }

    /// Makes again what was removed since the last look.
    pub fn look(&self) -> Result<(), Missing> {
        // Where the data directory itself is gone, the store says so, and nothing may grow in its place.
        if !self.root.is_dir() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing = None;
        for (name, loss) in NEEDED {
            let path = self.root.join(name);
            let mut now = Seen::at(&path);
            let was_seen = state.seen.contains_key(name);
            if was_seen && now.is_none() {
                let made = DirBuilder::new().mode(0o700).create(&path);
                now = Seen::at(&path);
                if let (Err(source), true) = (made, now.is_none()) {
                    missing.get_or_insert(Missing { path, source });
                    continue;
                }
            }
            // Whoever needed it first may have made it again.
            if was_seen && state.seen.get(name) != now.as_ref() {
                let loss = loss.unwrap_or("what was in it is made again when it is needed");
                let said =
                    format!("the directory {} was removed while the server ran: {loss}", path.display());
                tracing::error!("{said}");
                if NEEDED.iter().any(|(of, lost)| of == name && lost.is_some()) {
                    state.lost.retain(|other| *other != said);
                    state.lost.push(said);
                }
            }
            if let Some(now) = now {
                state.seen.insert(name, now);
            }
        }
        missing.map_or(Ok(()), Err)
    }

    /// What was lost since the server started.
    pub fn lost(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).lost.clone()
    }

    /// Looks again and again, until the task is dropped.
    pub async fn watch(&self, period: Duration) {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut was_missing = false;
        loop {
            ticks.tick().await;
            // A few calls of `stat`.
            let looked = self.look();
            if let (Err(error), false) = (&looked, was_missing) {
                tracing::error!(%error, "the server is not ready: {error}");
            }
            was_missing = looked.is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_in_the_place_of_a_removed_one_is_never_taken_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let directories = Directories::new(dir.path());
        for name in ["mirrors", "sandboxes", "images"] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            directories.look().unwrap();
            for _ in 0..20 {
                fs::remove_dir(&path).unwrap();
                fs::create_dir(&path).unwrap();
                directories.look().unwrap();
                assert!(directories.lost().last().is_some_and(|said| said.contains(name)), "{name}");
                directories.state.lock().unwrap().lost.clear();
            }
        }
    }

    #[test]
    fn a_removed_directory_is_there_again_and_what_was_lost_with_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let directories = Directories::new(dir.path());
        for name in ["mirrors", "checkouts", "sandboxes"] {
            fs::create_dir(at(name)).unwrap();
        }
        directories.look().unwrap();
        assert!(
            !at("images").exists() && directories.lost().is_empty(),
            "one that was never there is not missed"
        );
        for name in ["mirrors", "checkouts"] {
            fs::remove_dir(at(name)).unwrap();
        }
        // Another part of the server was faster.
        fs::rename(at("sandboxes"), at("away")).unwrap();
        fs::create_dir(at("sandboxes")).unwrap();
        directories.look().unwrap();
        directories.look().unwrap();
        assert!(at("mirrors").is_dir() && at("checkouts").is_dir());
        assert_eq!(fs::metadata(at("mirrors")).unwrap().mode() & 0o777, 0o700);
        let lost = directories.lost();
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(lost[0].contains("mirrors") && lost[1].contains("sandboxes"), "{lost:?}");

        fs::remove_dir(at("checkouts")).unwrap();
        fs::write(at("checkouts"), "in the way").unwrap();
        let missing = directories.look().unwrap_err().to_string();
        assert!(missing.contains("checkouts") && missing.contains("cannot be made again"), "{missing}");
        fs::remove_file(at("checkouts")).unwrap();
        directories.look().unwrap();
        assert!(at("checkouts").is_dir());
    }
}
