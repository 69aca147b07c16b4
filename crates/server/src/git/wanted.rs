//! Repositories that somebody waits for. A request does not fetch: it leaves a file in `DATA/mirrors/wanted`, and the
//! process that looks after the data directory fetches and takes the file away. So any process may ask, and a crash
//! between the two loses nothing. A fetch that failed leaves its reason for whoever asks next.

use std::{fs, io, path::PathBuf};

use omoi_protocol::ProjectId;

use super::{
    Error, Mirrors,
    file::{self, blocking},
};

const FAILED: &str = ".failed";

impl Mirrors {
    /// Asks for a fetch. Answers with the reason why the one before could not be made, once.
    pub async fn want(&self, project: &ProjectId) -> Result<Option<String>, Error> {
        self.prepare()?;
        let (wanted, failed) = self.wish(project);
        blocking(move || {
            file::replace(&wanted, b"", 0o600).map_err(|source| Error::io(&wanted, source))?;
            let reason = fs::read_to_string(&failed).ok();
            gone(&failed)?;
            Ok(reason)
        })
        .await
    }

    /// All that are asked for.
    pub async fn wanted(&self) -> Result<Vec<ProjectId>, Error> {
        let dir = self.wanted_dir();
        blocking(move || {
            let entries = match fs::read_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(|source| Error::io(&dir, source))?,
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            Ok(names.filter(|name| !name.contains('.')).filter_map(|name| name.parse().ok()).collect())
        })
        .await
    }

    /// Nobody need wait any longer, for one of two reasons.
    pub async fn answer_wish(&self, project: &ProjectId, failure: Option<String>) -> Result<(), Error> {
        let (wanted, failed) = self.wish(project);
        blocking(move || {
            match failure {
                Some(reason) => file::replace(&failed, reason.as_bytes(), 0o600)
                    .map_err(|source| Error::io(&failed, source))?,
                None => gone(&failed)?,
            }
            gone(&wanted)
        })
        .await
    }

    /// What says that a project is wanted, or why it could not be had.
    fn wish(&self, project: &ProjectId) -> (PathBuf, PathBuf) {
        let dir = self.wanted_dir();
        (dir.join(project.as_str()), dir.join(format!("{project}{FAILED}")))
    }
}

fn gone(path: &PathBuf) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}
