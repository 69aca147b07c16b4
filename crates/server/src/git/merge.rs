//! Merges, made in the mirror without a work tree: a commit that holds both sides, or the files in which they conflict
//! and nothing else. The same sides always give the same commit, so whoever builds on the same work finds it made.

use omoi_protocol::{ProjectId, project::Project};

use super::{Error, mirror::Mirrors};
use crate::domain::commit::{CommitId, Work};

/// So many files of a conflict are told.
const FILES_MAX: usize = 100;

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    Merged(CommitId),
    /// The files that both sides change, each in its own way.
    Conflict(Vec<String>),
}

impl Mirrors {
    /// Where the branch of a task is to begin: with the work that it builds on, or at the tip of the default branch. One
    /// that is there already goes on as it is, so nothing is merged for it.
    pub async fn start(
        &self,
        project: &Project,
        branch: &str,
        default_tip: CommitId,
        works: &[Work],
    ) -> Result<CommitId, Error> {
        if works.is_empty() || self.branch_tip(&project.id, branch).await?.is_some() {
            return Ok(default_tip);
        }
        match self.built_on(&project.id, works).await? {
            Some(work) if !self.is_ancestor(&project.id, &work, &default_tip).await? => Ok(work),
            _ => Ok(default_tip),
        }
    }

    /// The work of all of these: the commit of one, or a merge. None where they have left nothing here.
    pub async fn built_on(&self, project: &ProjectId, works: &[Work]) -> Result<Option<CommitId>, Error> {
        let mut held: Vec<(CommitId, &Work)> = Vec::new();
        for work in works {
            if let Some(commit) = self.left_by(project, work).await? {
                held.push((commit, work));
            }
        }
        let commits: Vec<CommitId> = held.iter().map(|(commit, _)| commit.clone()).collect();
        let apart = self.independent(project, &commits).await?;
        held.retain(|(commit, _)| apart.contains(commit));
        held.dedup_by(|one, other| one.0 == other.0);
        let mut held = held.into_iter();
        let Some((mut all, first)) = held.next() else { return Ok(None) };
        let mut merged = vec![(all.clone(), first)];
        for (commit, work) in held {
            let message = format!("Merge the work of {}", work.task);
            match self.merge(project, &all, &commit, &message).await? {
                Merge::Merged(both) => all = both,
                Merge::Conflict(files) => {
                    let (with, files) = self.culprit(project, &merged, &commit, files).await?;
                    let (one, two) = (named(with), named(work));
                    return Err(Error::Conflict { one, two, files });
                }
            }
            merged.push((commit, work));
        }
        Ok(Some(all))
    }

    /// What a task has left here: the commit that it was completed with, if that is on its branch, else what the branch
    /// holds.
    pub async fn left_by(&self, project: &ProjectId, work: &Work) -> Result<Option<CommitId>, Error> {
        let tip = match &work.branch {
            Some(branch) => self.branch_tip(project, branch).await?,
            None => None,
        };
        let (Some(named), Some(tip)) = (&work.commit, &tip) else { return Ok(tip) };
        let is_there = named == tip
            || (self.has_commit(project, named).await? && self.is_ancestor(project, named, tip).await?);
        Ok(Some(if is_there { named.clone() } else { tip.clone() }))
    }

    /// One commit with both: one of the two where it holds the other, else a new one.
    pub async fn merge(
        &self,
        project: &ProjectId,
        ours: &CommitId,
        theirs: &CommitId,
        message: &str,
    ) -> Result<Merge, Error> {
        if self.is_ancestor(project, theirs, ours).await? {
            return Ok(Merge::Merged(ours.clone()));
        }
        if self.is_ancestor(project, ours, theirs).await? {
            return Ok(Merge::Merged(theirs.clone()));
        }
        let path = self.existing(project)?;
        let call = self.git().call(&path, "merge-tree").args([
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            "--allow-unrelated-histories",
        ]);
        let (code, output) = call.args([ours.as_str(), theirs.as_str()]).run_for(&[1]).await?;
        let output = String::from_utf8_lossy(&output);
        let mut words = output.split('\0').filter(|word| !word.is_empty());
        let tree = words.next().unwrap_or_default();
        if code == 1 {
            let mut files: Vec<String> = words.map(str::to_owned).collect();
            files.sort();
            files.dedup();
            files.truncate(FILES_MAX);
            return Ok(Merge::Conflict(files));
        }
        let call = self.git().call(&path, "log").args(["--no-walk=unsorted", "--format=%ct"]);
        let times = call.args([ours.as_str(), theirs.as_str()]).run().await?;
        let newest = String::from_utf8_lossy(&times).lines().filter_map(|time| time.parse().ok()).max();
        let date = format!("@{} +0000", newest.unwrap_or(0_i64).max(0));
        let call = self.git().call(&path, "commit-tree").env("GIT_AUTHOR_DATE", &date);
        let call = call.env("GIT_COMMITTER_DATE", &date).args([tree, "-p", ours.as_str(), "-p"]);
        let made = call.arg(theirs.as_str()).args(["-F", "-"]).input(format!("{message}\n")).run().await?;
        let made = String::from_utf8_lossy(&made);
        made.trim().parse().map(Merge::Merged).map_err(|_| Error::Unreadable { name: "commit-tree" })
    }

    /// Of these commits those that no other of them holds.
    async fn independent(&self, project: &ProjectId, of: &[CommitId]) -> Result<Vec<CommitId>, Error> {
        if of.len() < 2 {
            return Ok(of.to_vec());
        }
        let call = self.git().call(&self.existing(project)?, "merge-base").arg("--independent");
        let found = call.args(of.iter().map(CommitId::as_str)).run().await?;
        Ok(String::from_utf8_lossy(&found).lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Which of several that were merged conflicts with a commit, and in which files; the last, where it is none of them
    /// alone.
    async fn culprit<'w>(
        &self,
        project: &ProjectId,
        merged: &[(CommitId, &'w Work)],
        commit: &CommitId,
        files: Vec<String>,
    ) -> Result<(&'w Work, Vec<String>), Error> {
        for (other, work) in merged {
            if let Merge::Conflict(files) = self.merge(project, other, commit, "Try").await? {
                return Ok((work, files));
            }
        }
        Ok((merged[merged.len() - 1].1, files))
    }
}

/// A task as people find it again.
fn named(work: &Work) -> String {
    match &work.branch {
        Some(branch) => format!("{} on {branch}", work.task),
        None => work.task.to_string(),
    }
}
