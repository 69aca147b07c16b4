//! The workspace: the repository on its branch when the work begins, its commits outside when it ends.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use omoi_protocol::{
    event::{WorkspaceProgress, WorkspacePushed, WorkspaceReady},
    launch::{LaunchSpec, Repository},
};
use tokio::time::Instant;

use crate::{
    git::{Error, Git},
    outbox::Outbox,
};

/// A clone of something large over something slow.
const CLONE_LIMIT: Duration = Duration::from_secs(1800);
pub const LIMIT: Duration = Duration::from_secs(120);
const HEADS: &str = "+refs/heads/*:refs/remotes/origin/*";
/// What the worker itself does runs none of the repository's programs.
pub const QUIET: [&str; 4] = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];

pub struct Workspace<'a> {
    pub repository: &'a Repository,
    pub git: Git,
}

/// What of the branch is outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    pub commit: String,
    /// There was something beyond the commit that the work began with.
    pub is_new: bool,
    /// How many files differ from it.
    pub files: u64,
}

impl<'a> Workspace<'a> {
    /// None when the launch has no repository.
    pub fn of(launch: &'a LaunchSpec, env: &BTreeMap<String, String>) -> Option<Self> {
        let repository = launch.repository.as_ref()?;
        let git = Git { dir: PathBuf::from(&launch.workspace_path), env: env.clone(), limit: LIMIT };
        Some(Self { repository, git })
    }

    /// Puts the workspace on its branch. A directory that holds no repository gets one through the door.
    pub async fn prepare(&self, outbox: &Outbox) -> Result<(), Error> {
        let begun = Instant::now();
        let Repository { url, branch_name, .. } = self.repository;
        std::fs::create_dir_all(&self.git.dir)
            .map_err(|source| Error::Io { what: "checkout".to_owned(), source })?;
        if self.git.dir.join(".git").symlink_metadata().is_err() {
            progress(outbox, "clone", &format!("cloning {url}"), begun);
            self.clone_here().await?;
        }
        progress(outbox, "checkout", &format!("switching to {branch_name}"), begun);
        let commit = self.switch().await?;
        self.set_origin(url).await?;
        outbox.push(WorkspaceReady {
            branch_name: Some(branch_name.clone()),
            commit: Some(commit),
            duration_ms: Some(begun.elapsed().as_millis() as u64),
            ..WorkspaceReady::default()
        });
        Ok(())
    }

    /// On the branch, and where that stands.
    async fn switch(&self) -> Result<String, Error> {
        let Repository { branch_name, base_commit, .. } = self.repository;
        let branch = format!("refs/heads/{branch_name}");
        let head = std::fs::read_to_string(self.git.dir.join(".git/HEAD")).unwrap_or_default();
        let head = head.trim_end();
        if head == base_commit {
            // Detached where the branch begins, as the checkouts of a server are: nothing in the work tree changes.
            self.git.run(&["update-ref", &branch, base_commit]).await?;
            self.git.run(&["symbolic-ref", "HEAD", &branch]).await?;
            return Ok(base_commit.clone());
        }
        // A worker that was killed has left its successor on the branch, maybe with commits of the agent's.
        if head.strip_prefix("ref: ") != Some(branch.as_str()) {
            let from = if self.git.run(&["rev-parse", "--quiet", "--verify", "HEAD"]).await.is_ok() {
                "HEAD"
            } else {
                base_commit
            };
            self.quietly(&["checkout", "--quiet", "-B", branch_name, from], LIMIT).await?;
        }
        self.git.text(&["rev-parse", "HEAD"]).await
    }

    /// Pushes the branch if it has commits of its own.
    pub async fn push(&self, outbox: &Outbox) -> Result<Pushed, Error> {
        let Repository { url, branch_name, base_commit, .. } = self.repository;
        let branch = format!("refs/heads/{branch_name}");
        let loose = std::fs::read_to_string(self.git.dir.join(".git").join(&branch));
        if loose.is_ok_and(|tip| !base_commit.is_empty() && tip.trim_end() == base_commit) {
            // The branch is where it began, as its file says; Git need not be asked.
            return Ok(Pushed { commit: base_commit.clone(), is_new: false, files: 0 });
        }
        let both = self.git.text(&["rev-parse", &branch, &format!("{base_commit}^{{commit}}")]).await?;
        let (commit, base) = both.split_once('\n').unwrap_or((&both, ""));
        let (commit, base) = (commit.to_owned(), base.to_owned());
        if commit == base {
            return Ok(Pushed { commit, is_new: false, files: 0 });
        }
        self.quietly(&["push", "--quiet", "--no-verify", url, &format!("{branch}:{branch}")], LIMIT).await?;
        let changed = self.git.bytes(&["diff", "--no-ext-diff", "--name-only", "-z", &base, &commit]).await?;
        let files = changed.iter().filter(|byte| **byte == 0).count() as u64;
        outbox.push(WorkspacePushed {
            branch_name: Some(branch_name.clone()),
            commit: Some(commit.clone()),
            files_changed: Some(files),
            ..WorkspacePushed::default()
        });
        Ok(Pushed { commit, is_new: true, files })
    }

    /// What differs from the last commit, and is not ignored.
    pub async fn left_over(&self) -> Result<Vec<String>, Error> {
        let args = [&QUIET[..], &["status", "--porcelain", "-z", "--no-renames"]].concat();
        let listed = self.git.bytes(&args).await?;
        let paths = listed.split(|byte| *byte == 0).filter_map(|line| line.get(3..));
        Ok(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// In steps, because a clone wants an empty directory and the workspace may hold something.
    async fn clone_here(&self) -> Result<(), Error> {
        let Repository { url, base_commit, .. } = self.repository;
        self.git.run(&["init", "--quiet", "--template="]).await?;
        self.quietly(&["fetch", "--quiet", url, HEADS], CLONE_LIMIT).await?;
        self.quietly(&["checkout", "--quiet", "--detach", base_commit], CLONE_LIMIT).await
    }

    async fn set_origin(&self, url: &str) -> Result<(), Error> {
        self.git.run(&["config", "remote.origin.url", url]).await?;
        let config = std::fs::read_to_string(self.git.dir.join(".git/config")).unwrap_or_default();
        if config.contains(&format!("fetch = {HEADS}")) {
            return Ok(());
        }
        self.git.run(&["config", "remote.origin.fetch", HEADS]).await
    }

    pub async fn quietly(&self, args: &[&str], limit: Duration) -> Result<(), Error> {
        let git = Git { limit, ..self.git.clone() };
        git.run(&[&QUIET[..], args].concat()).await
    }
}

fn progress(outbox: &Outbox, step: &str, message: &str, begun: Instant) {
    outbox.push(WorkspaceProgress {
        step: Some(step.to_owned()),
        message: Some(message.to_owned()),
        elapsed_ms: Some(begun.elapsed().as_millis() as u64),
        ..WorkspaceProgress::default()
    });
}
