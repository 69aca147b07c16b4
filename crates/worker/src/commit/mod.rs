//! Committing what is in the workspace, in whatever state it was left.
//!
//! What is not committed becomes a commit on what is checked out, and that line is brought onto the branch:
//!
//! - It goes on from the branch: the branch moves there.
//! - The branch goes on from it (an older commit was checked out to look at it): the branch stays.
//! - Each has commits of its own (another branch, a rebase half done): a merge has both as parents, so that none is lost
//!   and the branch never has to be forced. Where the two do not merge cleanly, it has the files of the branch, and
//!   the other line is reachable as its second parent.
//!
//! A merge in progress becomes the merge commit. After it, `HEAD` is on the branch and nothing is in progress. A
//! repository that somebody made inside is committed as plain files, unless it is a submodule.

mod clean;
mod lock;
mod message;
mod nested;

#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::io::AsyncWriteExt;

pub use self::message::message;
use crate::{
    git::{Error, Feed, Git},
    say::say,
    workspace::{LIMIT, Workspace},
};

const JOINED: &str = "Merge what was left outside of the branch\n";
/// What may be in progress, by the file that tells of it.
const IN_PROGRESS: [(&str, &str); 5] = [
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// The branch has it all already.
    Nothing,
    New {
        commit: String,
        /// How many files differ from what the branch had before.
        files: u64,
    },
}

impl Workspace<'_> {
    /// Commits everything that is not ignored, on the branch.
    pub async fn commit(&self, message: &str) -> Result<Committed, Error> {
        let name = format!("refs/heads/{}", self.repository.branch_name);
        let usual = self.git.dir.join(".git");
        lock::clear(&usual, &self.git.dir, &name).await;
        if self.is_clean(&usual).await? {
            return Ok(Committed::Nothing);
        }
        let dir = PathBuf::from(self.git.text(&["rev-parse", "--absolute-git-dir"]).await?);
        lock::clear(&dir, &self.git.dir, &name).await;
        let before = self.tip(&name).await?;
        let head = self.tip("HEAD").await?.or_else(|| before.clone());
        self.stage(&dir, head.as_deref()).await?;
        let tree = self.git.text(&["write-tree"]).await?;
        let Some(tip) = self.tip_with(&dir, head, &tree, message).await? else {
            return Ok(Committed::Nothing);
        };
        let commit = match &before {
            None => tip,
            Some(before) => self.join(before, tip).await?,
        };
        self.quietly(&["update-ref", "-m", "commit by the worker", &name, &commit], LIMIT).await?;
        self.quietly(&["symbolic-ref", "HEAD", &name], LIMIT).await?;
        self.quit(&dir).await;
        if self.git.text(&["rev-parse", &format!("{commit}^{{tree}}")]).await? != tree {
            // All that is in the way is in a commit that the new one goes on from.
            self.quietly(&["reset", "--quiet", "--hard"], LIMIT).await?;
        }
        if before.as_ref() == Some(&commit) {
            return Ok(Committed::Nothing);
        }
        let files = self.count(before.as_deref(), &commit).await?;
        Ok(Committed::New { commit, files })
    }

    /// All that is there is in the index.
    async fn stage(&self, dir: &Path, head: Option<&str>) -> Result<(), Error> {
        match self.add().await {
            // With a lock, it is somebody else's who is at it.
            Err(Error::Failed { code: Some(128), .. }) if !dir.join("index.lock").exists() => {
                // An index that a killed Git left half written cannot be read; everything in it is in `HEAD` or here.
                let _ = fs::remove_file(dir.join("index"));
                if let Some(head) = head {
                    self.quietly(&["read-tree", head], LIMIT).await?;
                }
                self.add().await?;
            }
            added => added?,
        }
        nested::add(&self.git, head).await
    }

    async fn add(&self) -> Result<(), Error> {
        match self
            .quietly(&["-c", "advice.addEmbeddedRepo=false", "add", "-A", "--ignore-errors"], LIMIT)
            .await
        {
            // What can be added is. A repository without a commit cannot, and is dealt with by itself.
            Err(Error::Failed { code: Some(1), complaint, .. }) => {
                say(&format!("git add: {complaint}"));
                Ok(())
            }
            added => added,
        }
    }

    /// What is checked out, with a commit for what is not yet in one. None if there is nothing at all.
    async fn tip_with(
        &self,
        dir: &Path,
        head: Option<String>,
        tree: &str,
        message: &str,
    ) -> Result<Option<String>, Error> {
        let merged = fs::read_to_string(dir.join("MERGE_HEAD")).unwrap_or_default();
        let merged: Vec<&str> = merged.lines().filter(|line| head.as_deref() != Some(line)).collect();
        let earlier = match &head {
            Some(head) => self.git.text(&["rev-parse", &format!("{head}^{{tree}}")]).await?,
            None => self.git.feed_text(&["hash-object", "-t", "tree", "--stdin"], "").await?,
        };
        if earlier == tree && merged.is_empty() {
            return Ok(head);
        }
        let parents: Vec<&str> = head.as_deref().into_iter().chain(merged).collect();
        self.make(tree, &parents, message).await.map(Some)
    }

    /// A line that has both.
    async fn join(&self, branch: &str, tip: String) -> Result<String, Error> {
        if self.is_below(branch, &tip).await? {
            return Ok(tip);
        }
        if self.is_below(&tip, branch).await? {
            return Ok(branch.to_owned());
        }
        let tree = match self.git.text(&["merge-tree", "--write-tree", branch, &tip]).await {
            Ok(tree) => tree,
            // They do not merge, or Git is older than this way to do it.
            Err(Error::Failed { .. }) => self.git.text(&["rev-parse", &format!("{branch}^{{tree}}")]).await?,
            Err(error) => return Err(error),
        };
        self.make(tree.trim(), &[branch, &tip], JOINED).await
    }

    /// A commit, by the plain means: no hook, no editor, no signature.
    async fn make(&self, tree: &str, parents: &[&str], message: &str) -> Result<String, Error> {
        let mut args = vec!["commit-tree", tree, "-F", "-"];
        for parent in parents {
            args.extend(["-p", *parent]);
        }
        self.git.feed_text(&args, message).await
    }

    async fn quit(&self, dir: &Path) {
        for (file, what) in IN_PROGRESS {
            if dir.join(file).symlink_metadata().is_ok() {
                let _ = self.quietly(&[what, "--quit"], LIMIT).await;
            }
        }
    }

    async fn tip(&self, name: &str) -> Result<Option<String>, Error> {
        let name = format!("{name}^{{commit}}");
        match self.git.text(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).await {
            Ok(tip) => Ok(Some(tip)),
            Err(Error::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn is_below(&self, commit: &str, tip: &str) -> Result<bool, Error> {
        match self.git.run(&["merge-base", "--is-ancestor", commit, tip]).await {
            Ok(()) => Ok(true),
            Err(Error::Failed { code: Some(1), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn count(&self, before: Option<&str>, commit: &str) -> Result<u64, Error> {
        let names = match before {
            Some(before) => self.git.bytes(&["diff-tree", "-r", "-z", "--name-only", before, commit]).await?,
            None => self.git.bytes(&["ls-tree", "-r", "-z", "--name-only", commit]).await?,
        };
        Ok(names.iter().filter(|byte| **byte == 0).count() as u64)
    }
}

impl Git {
    async fn feed_text(&self, args: &[&str], text: &str) -> Result<String, Error> {
        let printed = self.feed(args, async |feed: &mut Feed| feed.write_all(text.as_bytes()).await).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }
}
