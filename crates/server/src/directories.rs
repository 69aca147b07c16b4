//! The directories below the data directory that the server makes and needs. Somebody may remove one while the server
//! runs: it is made again at once, empty, so that work goes on. What was in it and cannot be made again is told: in the
//! log, and by readiness until the server is restarted.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

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
    /// Device and inode of each that was seen.
    seen: BTreeMap<&'static str, (u64, u64)>,
    lost: Vec<String>,
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
            let identity = |path: &Path| {
                fs::metadata(path).ok().filter(fs::Metadata::is_dir).map(|meta| (meta.dev(), meta.ino()))
            };
            let (before, mut now) = (state.seen.get(name).copied(), identity(&path));
            let was_removed = before.is_some() && now.is_none();
            if was_removed {
                let made = DirBuilder::new().mode(0o700).create(&path);
                now = identity(&path);
                if let (Err(source), None) = (made, now) {
                    missing.get_or_insert(Missing { path, source });
                    continue;
                }
            }
            // Whoever needed it first may have made it again. One that is made here may get the number of the old one.
            if was_removed || before.is_some() && before != now {
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
    use super::*;

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
