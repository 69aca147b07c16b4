//! Mirrors that may be damaged, because something in them could not be read. Whoever notices leaves a file in
//! `DATA/mirrors/suspect`; the next fetch looks at the mirror first, and so does the process that looks after the data
//! directory.

use std::{fs, io, path::PathBuf, time::Duration};

use omoi_protocol::{ProjectId, project::Project};

use super::{
    Error, Hold, Mirrors,
    file::{self, blocking},
    health::{Condition, Depth},
    rebuild::finish_exchange,
};
use crate::clock::Clock;

const NEW: &[u8] = b"new\n";
const TRIED: &[u8] = b"tried\n";
/// How long after a failed attempt at a repair the next one begins by itself.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// Beside the name of a project whose mirror was looked at and is not known to be damaged.
const SOUND: &str = ".sound";
/// How long that counts against what a client may have caused.
const SOUND_FOR: Duration = Duration::from_secs(600);

impl Mirrors {
    /// Something in the mirror of this project could not be read.
    pub async fn suspect(&self, project: &ProjectId) -> Result<(), Error> {
        self.prepare()?;
        let mark = self.mark(project);
        blocking(move || {
            if mark.exists() {
                return Ok(());
            }
            file::replace(&mark, NEW, 0o600).map_err(|source| Error::io(&mark, source))
        })
        .await
    }

    /// The same where a client may have caused the failure: a mirror that was looked at of late is not looked at again.
    pub async fn suspect_by_hearsay(&self, project: &ProjectId) -> Result<(), Error> {
        let sound = self.suspect_dir().join(format!("{project}{SOUND}"));
        let looked_at = fs::metadata(sound).and_then(|meta| meta.modified()).ok();
        let now: std::time::SystemTime = Clock::Real.now().into();
        if looked_at.is_some_and(|at| now.duration_since(at).unwrap_or_default() < SOUND_FOR) {
            return Ok(());
        }
        self.suspect(project).await
    }

    pub(super) fn is_suspect(&self, project: &ProjectId) -> bool {
        self.mark(project).exists()
    }

    /// All that are to be looked at now.
    pub async fn suspects(&self) -> Result<Vec<ProjectId>, Error> {
        let dir = self.suspect_dir();
        blocking(move || {
            let entries = match fs::read_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(|source| Error::io(&dir, source))?,
            };
            let now: std::time::SystemTime = Clock::Real.now().into();
            let due = entries.flatten().filter(|entry| {
                let tried = entry.metadata().and_then(|meta| meta.modified()).ok();
                let waits = tried.is_some_and(|at| now.duration_since(at).unwrap_or_default() < TRY_AGAIN);
                !waits || fs::read(entry.path()).is_ok_and(|content| content == NEW)
            });
            let names = due.filter_map(|entry| entry.file_name().into_string().ok());
            Ok(names.filter(|name| !name.contains('.')).filter_map(|name| name.parse().ok()).collect())
        })
        .await
    }

    /// Looks at the mirror of a suspected project, and rebuilds it if it is damaged.
    pub async fn attend(&self, project: &Project) -> Result<(), Error> {
        let _one_at_a_time = self.lock(&project.id, "fetch", Hold::Alone, self.settings.timeout).await?;
        self.settle(project).await
    }

    /// The same for a caller who holds the lock of fetches.
    pub(super) async fn settle(&self, project: &Project) -> Result<(), Error> {
        let mark = self.mark(&project.id);
        let attended = self.repair(project, Depth::Objects).await.map(|_| ());
        let is_settled = attended.is_ok();
        let sound = self.suspect_dir().join(format!("{}{SOUND}", project.id));
        blocking(move || {
            let noted = if is_settled {
                fs::write(&sound, b"").and_then(|()| fs::remove_file(&mark))
            } else {
                fs::write(&mark, TRIED)
            };
            match noted {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(&mark, error)),
                _ => Ok(()),
            }
        })
        .await?;
        attended
    }

    /// Says whether the mirror was damaged, and is rebuilt. The caller holds the lock of fetches.
    pub(super) async fn repair(&self, project: &Project, depth: Depth) -> Result<bool, Error> {
        let path = self.path(&project.id);
        let place = path.clone();
        blocking(move || finish_exchange(&place)).await?;
        let damage = if path.exists() {
            match self.examine(&project.id, &path, depth).await? {
                Condition::Sound => return Ok(false),
                Condition::Unknown(why) => {
                    let id = &project.id;
                    tracing::warn!(
                        project.id = %id,
                        "the mirror of project {id} could not be examined and is used as it is: {why}; \
                         if it is large, raise git.timeout"
                    );
                    return Ok(false);
                }
                Condition::Damaged(damage) => damage,
            }
        } else if self.was_seen(&project.id) {
            "its directory is gone".to_owned()
        } else {
            return Ok(false);
        };
        self.rebuild(project, &Self::remote(project)?, &damage).await?;
        Ok(true)
    }

    fn suspect_dir(&self) -> PathBuf {
        self.dir().join("suspect")
    }

    fn mark(&self, project: &ProjectId) -> PathBuf {
        self.suspect_dir().join(project.as_str())
    }
}
