//! What a session knows of files: the contents that it has last read or written. Whoever has not seen a file as it is
//! may not change it.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hasher},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// One that is forgotten has to be read again, nothing worse.
const FILES_MAX: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    bytes: u64,
    hash: u64,
}

impl Digest {
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self { bytes: content.len() as u64, hash: hasher.finish() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    Never,
    Outdated,
    Current,
}

#[derive(Debug, Default)]
pub struct Seen(Mutex<HashMap<PathBuf, Digest>>);

impl Seen {
    pub fn note(&self, path: &Path, digest: Digest) {
        let mut files = self.files();
        if files.len() >= FILES_MAX
            && !files.contains_key(path)
            && let Some(any) = files.keys().next().cloned()
        {
            files.remove(&any);
        }
        files.insert(path.to_owned(), digest);
    }

    pub fn knows(&self, path: &Path, now: Digest) -> Knowledge {
        match self.files().get(path) {
            None => Knowledge::Never,
            Some(digest) if *digest == now => Knowledge::Current,
            Some(_) => Knowledge::Outdated,
        }
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_knows_a_change() {
        let seen = Seen::default();
        for number in 0..=FILES_MAX {
            seen.note(Path::new(&format!("/{number}")), Digest::of(b"a"));
        }
        assert_eq!(seen.files().len(), FILES_MAX);
        let last = PathBuf::from(format!("/{FILES_MAX}"));
        assert_eq!(seen.knows(&last, Digest::of(b"a")), Knowledge::Current);
        assert_eq!(seen.knows(&last, Digest::of(b"b")), Knowledge::Outdated);
        assert_eq!(seen.knows(Path::new("/other"), Digest::of(b"a")), Knowledge::Never);
    }
}
