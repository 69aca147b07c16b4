//! The head of the audit trail: how many entries it has, and the hash of the last. The chain of hashes says whether an entry
//! was changed, but not whether the last ones were deleted. So the head is also kept outside the database, in the file
//! `audit.head` of the data directory, which is replaced after each commit that adds an entry.
//!
//! A crash between the two leaves the head behind the trail, which is harmless. A trail behind its head was cut off, or is
//! that of an older backup. The file never goes back, and no longer moves once the trail does not hold its entry.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use omoi_protocol::token::AuditHead;
use rustix::fs::{FlockOperation, flock};

use super::{Error, Tx, value::params};

const NAME: &str = "audit.head";

#[derive(Debug)]
pub(super) struct HeadFile {
    path: PathBuf,
}

impl HeadFile {
    pub fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join(NAME) }
    }

    /// What was recorded last. A file that cannot be read counts as none: it may be half written after a power cut.
    pub fn read(&self) -> Option<AuditHead> {
        let read = fs::read(&self.path);
        let parsed = read.and_then(|text| serde_json::from_slice(&text).map_err(io::Error::other));
        match parsed {
            Ok(head) => Some(head),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(%error, "{} cannot be read", self.path.display());
                None
            }
        }
    }

    /// Whether the trail still holds the entry that was recorded last.
    pub async fn is_held(&self, tx: &mut Tx) -> Result<bool, Error> {
        let Some(head) = self.read().filter(|head| head.entries > 0) else { return Ok(true) };
        let row = tx.query_one("SELECT hash FROM audit WHERE n = $1", params![head.entries]).await?;
        let hash: Option<String> = row.map(|row| row.get("hash")).transpose()?;
        let is_held = hash.as_ref() == Some(&head.hash);
        if !is_held {
            tracing::error!(
                entries = head.entries,
                "the audit trail no longer holds entry {}, which was recorded: run `omoi audit verify`",
                head.entries
            );
        }
        Ok(is_held)
    }

    /// Records a later head. A failure is logged: what was committed stands.
    pub fn advance(&self, head: &AuditHead) {
        match self.try_advance(head) {
            // A command on a shared database may have no data directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(%error, "{} cannot be written", self.path.display()),
            Ok(()) => {}
        }
    }

    fn try_advance(&self, head: &AuditHead) -> io::Result<()> {
        // Several processes may write to one trail.
        let lock = self.path.with_extension("lock");
        let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(lock)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        if self.read().is_some_and(|recorded| recorded.entries >= head.entries) {
            return Ok(());
        }
        let beside = self.path.with_extension("new");
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec(head)?)?;
        fs::rename(&beside, &self.path)
    }

    /// Puts the file aside, so that the next entry begins a new one. Returns what it said.
    pub fn put_aside(&self) -> io::Result<Option<AuditHead>> {
        let Some(head) = self.read() else { return Ok(None) };
        fs::rename(&self.path, self.path.with_extension(format!("head-before-{}", head.entries)))?;
        Ok(Some(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(entries: i64) -> AuditHead {
        AuditHead { entries, hash: format!("hash of {entries}"), recorded_at: None }
    }

    #[test]
    fn the_recorded_head_never_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = HeadFile::new(dir.path());
        assert_eq!(file.read(), None);
        for (written, read) in [(3, 3), (2, 3), (7, 7)] {
            file.advance(&head(written));
            assert_eq!(file.read(), Some(head(read)));
        }
    }

    #[test]
    fn a_half_written_file_counts_as_none_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = HeadFile::new(dir.path());
        fs::write(dir.path().join(NAME), "{\"entr").unwrap();
        assert_eq!(file.read(), None);
        file.advance(&head(1));
        assert_eq!(file.read(), Some(head(1)));
    }
}
