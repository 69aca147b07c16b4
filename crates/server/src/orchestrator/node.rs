//! This machine, as far as sandboxes on it are concerned: a name that stays, and a lock that lets one process per data
//! directory look after them.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::{FlockOperation, flock};

use crate::git::{is_at, replace};

#[derive(Clone)]
pub struct Node {
    name: Arc<str>,
    name_path: PathBuf,
    lock_path: PathBuf,
    lock: Arc<Mutex<Option<File>>>,
}

impl Node {
    /// The name is made once and kept in the data directory.
    pub fn open(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join("node");
        let name = match std::fs::read_to_string(&path) {
            Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
            _ => make_name(&path)?,
        };
        let lock_path = data_dir.join("keeper.lock");
        Ok(Self { name: name.into(), name_path: path, lock_path, lock: Arc::new(Mutex::new(None)) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this process is the one; it tries to be.
    pub fn is_keeper(&self) -> bool {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // A lock whose file was removed keeps no other process out.
        if held.as_ref().is_some_and(|file| !is_at(file, &self.lock_path)) {
            *held = None;
        }
        if held.is_none() {
            let opened =
                OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.lock_path);
            *held = opened.ok().filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok());
        }
        // Under another name the next start would not know the sandboxes of this machine.
        if held.is_some() && !self.name_path.exists() {
            let written = replace(&self.name_path, self.name.as_bytes(), 0o600);
            tracing::warn!(written = written.is_ok(), "the file {} was removed", self.name_path.display());
        }
        held.is_some()
    }
}

fn make_name(path: &Path) -> io::Result<String> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let name = format!("node-{}", crate::store::hex(&bytes));
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Ok(mut file) => {
            io::Write::write_all(&mut file, name.as_bytes())?;
            file.sync_all()?;
            Ok(name)
        }
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(std::fs::read_to_string(path)?.trim().to_owned())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::Node;

    #[test]
    fn one_process_keeps_a_machine_s_sandboxes_and_the_next_takes_over() {
        let dir = tempfile::tempdir().unwrap();
        let first = Node::open(dir.path()).unwrap();
        let second = Node::open(dir.path()).unwrap();
        assert_eq!(first.name(), second.name());
        assert!(first.is_keeper() && first.is_keeper());
        assert!(!second.is_keeper());
        // A file that was removed is locked anew, by one of them.
        std::fs::remove_file(dir.path().join("keeper.lock")).unwrap();
        assert!(second.is_keeper() && !first.is_keeper());
        drop(second);
        assert!(first.is_keeper());
        // The name stays, also where its file was removed.
        std::fs::remove_file(dir.path().join("node")).unwrap();
        assert!(first.is_keeper());
        assert_eq!(Node::open(dir.path()).unwrap().name(), first.name());
    }
}
