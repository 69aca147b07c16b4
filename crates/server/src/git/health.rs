//! Whether a mirror is sound. A fetch that fails says little: Git's complaint about an object that is missing here reads
//! like one about the far repository. So after a failure the mirror is looked at by itself, without the network.

use std::{
    fs,
    path::{Path, PathBuf},
};

use omoi_protocol::ProjectId;

use super::{Error, Failure, Mirrors, file::blocking, salvage};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Sound,
    /// What is wrong with it.
    Damaged(String),
    /// Why nothing is known of its objects.
    Unknown(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Its own files and refs: milliseconds.
    Outline,
    /// Every object that a ref leads to as well, read and checked.
    Objects,
}

impl Mirrors {
    pub(super) async fn examine(
        &self,
        project: &ProjectId,
        path: &Path,
        depth: Depth,
    ) -> Result<Condition, Error> {
        match self.condition(path, depth).await? {
            Condition::Damaged(_) => {
                // A push that is under way, and an object that comes while Git reads, look like damage.
                let _alone = self.alone(project).await?;
                self.condition(path, depth).await
            }
            condition => Ok(condition),
        }
    }

    async fn condition(&self, path: &Path, depth: Depth) -> Result<Condition, Error> {
        let dir = path.to_owned();
        if let Some(damage) = blocking(move || Ok(outline(&dir))).await? {
            return Ok(Condition::Damaged(damage));
        }
        for args in [&["rev-parse", "--is-bare-repository"][..], &["for-each-ref", "--count=1"]] {
            let (name, args) = (args[0], &args[1..]);
            if let Err(failure) = self.git().call(path, name).args(args.iter().copied()).run().await {
                return damaged(failure);
            }
        }
        match depth {
            Depth::Outline => Ok(Condition::Sound),
            Depth::Objects => self.fsck(path).await,
        }
    }

    async fn fsck(&self, path: &Path) -> Result<Condition, Error> {
        // Each bit of the exit code is a kind of fault.
        let faults: Vec<i32> = (1..32).collect();
        let call =
            self.git().call(path, "fsck").args(["--full", "--no-dangling", "--no-progress", "--no-reflogs"]);
        match call.run_for(&faults).await {
            Ok((0, _)) => Ok(Condition::Sound),
            Ok((_, output)) => {
                let said = String::from_utf8_lossy(&output);
                let first = said.lines().next().unwrap_or("objects or refs cannot be read");
                Ok(Condition::Damaged(format!("git fsck: {first}")))
            }
            Err(failure @ (Failure::TimedOut { .. } | Failure::TooMuch { .. })) => {
                Ok(Condition::Unknown(failure.to_string()))
            }
            Err(failure) => damaged(failure),
        }
    }
}

fn damaged(failure: Failure) -> Result<Condition, Error> {
    match failure {
        Failure::Exit { stderr, name, .. } => {
            let first =
                stderr.split("; ").next().unwrap_or_default().trim_start_matches("fatal: ").to_owned();
            Ok(Condition::Damaged(format!("git {name}: {first}")))
        }
        other => Err(other.into()),
    }
}

/// What is missing of the files that every repository has, or of its refs.
fn outline(dir: &Path) -> Option<String> {
    let file = |name: &str| fs::metadata(dir.join(name)).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    if let Some(name) = ["HEAD", "config"].into_iter().find(|name| !file(name)) {
        return Some(format!("its file {name} is missing or empty"));
    }
    if let Some(name) = ["objects", "refs"].into_iter().find(|name| !dir.join(name).is_dir()) {
        return Some(format!("its directory {name} is missing"));
    }
    // Git deletes the log of a ref with the ref. One that is left is of a ref that was lost.
    let found = salvage::read(dir);
    let lost = found.refs.iter().find(|(_, found)| found.written.is_none());
    lost.map(|(name, _)| format!("ref {name} is missing or unreadable"))
}

/// The mirror as people find it: below the data directory.
pub(super) fn shown(path: &Path) -> String {
    let name = path.file_name().map(PathBuf::from).unwrap_or_default();
    format!("mirrors/{}", name.display())
}
