//! Merges two commits for a try, without a work tree and without a trace: what Git writes goes into a directory of its own,
//! which is removed again.

use std::{path::Path, time::Duration};

use omoi_protocol::{ProjectId, conductor::Clash};

use super::{Call, Error, Failure, file, mirror::Mirrors};
use crate::domain::{
    commit::CommitId,
    radar::{self, FILES_MAX, Touched, Trial},
};

/// Longer than this nobody waits for a try.
const PATIENCE: Duration = Duration::from_secs(20);
/// So many files are looked into for their lines.
const LOOKED_INTO: usize = 8;

impl Mirrors {
    /// Whether two commits merge, and where they do not.
    pub async fn trial(&self, project: &ProjectId, a: &CommitId, b: &CommitId) -> Result<Trial, Error> {
        let mirror = self.existing(project)?;
        let scratch = tempdir(&mirror)?;
        let tried = tokio::time::timeout(PATIENCE, self.try_merge(&mirror, &scratch.0, a, b)).await;
        tried.unwrap_or_else(|_| {
            Err(Failure::TimedOut { name: "merge-tree".to_owned(), limit: PATIENCE }.into())
        })
    }

    async fn try_merge(
        &self,
        mirror: &Path,
        scratch: &Path,
        a: &CommitId,
        b: &CommitId,
    ) -> Result<Trial, Error> {
        let call = self.aside(mirror, scratch, "merge-tree");
        let options = ["--write-tree", "-z", "--name-only", "--no-messages", "--allow-unrelated-histories"];
        let (code, output) = call.args(options).args([a.as_str(), b.as_str()]).run_for(&[1]).await?;
        if code == 0 {
            return Ok(Trial::Clean);
        }
        // The tree comes first, then the files, each once for every reason.
        let mut paths: Vec<String> = output
            .split(|byte| *byte == 0)
            .skip(1)
            .filter(|name| !name.is_empty())
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect();
        paths.dedup();
        paths.truncate(FILES_MAX);
        let base = self.aside(mirror, scratch, "merge-base").args([a.as_str(), b.as_str()]);
        let (_, base) = base.run_for(&[1]).await?;
        let base = String::from_utf8_lossy(&base).trim().parse::<CommitId>().ok();
        let mut clashes = Vec::with_capacity(paths.len());
        for path in paths {
            let lines = match &base {
                Some(base) if clashes.len() < LOOKED_INTO => {
                    let one = self.changed(mirror, scratch, base, a, &path).await?;
                    one.meets(&self.changed(mirror, scratch, base, b, &path).await?)
                }
                _ => Vec::new(),
            };
            clashes.push(Clash { path, lines });
        }
        Ok(Trial::Clashes(clashes))
    }

    /// Which lines of a file are another at `commit` than at `base`.
    async fn changed(
        &self,
        mirror: &Path,
        scratch: &Path,
        base: &CommitId,
        commit: &CommitId,
        path: &str,
    ) -> Result<Touched, Error> {
        let call = self.aside(mirror, scratch, "diff-tree").env("GIT_LITERAL_PATHSPECS", "1");
        let options = ["-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let diff = call.args(options).args([base.as_str(), commit.as_str(), "--", path]).run().await?;
        Ok(radar::hunks(&String::from_utf8_lossy(&diff)).into())
    }

    /// A command that reads the mirror's objects and writes none into it.
    fn aside(&self, mirror: &Path, scratch: &Path, name: &'static str) -> Call {
        self.git()
            .call(mirror, name)
            .env("GIT_OBJECT_DIRECTORY", scratch)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", mirror.join("objects"))
    }
}

struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempdir(mirror: &Path) -> Result<Scratch, Error> {
    let path = mirror.with_extension(format!("trial-{}", file::unique()));
    std::fs::create_dir(&path).map_err(|source| Error::io(&path, source))?;
    Ok(Scratch(path))
}
