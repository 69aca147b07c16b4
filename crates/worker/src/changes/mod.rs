//! What changes in the work tree, whoever changes it: edits by tools and by shell commands, deletions, renames, modes,
//! links and binary files.
//!
//! A Git directory of our own, away from the workspace, takes a snapshot after each step and compares it with the one
//! before. The repository's own index, `HEAD` and objects are read when it is made, and never written.
//!
//! - What `.gitignore` names is not followed, nor is `.git`.
//! - Files over 20 MiB are known by size and time alone; their content is not read.
//! - A submodule is one entry, its commit. A repository that somebody makes inside is followed file by file, up to
//!   some thousands.
//! - Objects that the repository already has are borrowed from it. When it loses them (`.git` deleted, history
//!   pruned), the next step says so in a note and follows anew from there.

mod change;
mod index;
mod nested;
mod opening;
mod patch;
mod scan;
mod shadow;
mod state;
mod undo;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io, mem,
    path::{Path, PathBuf},
};

pub use self::{change::Change, nested::files as nested_files, opening::Opening, scan::feed};
use self::{
    patch::Patch,
    scan::{Found, Large},
    shadow::Shadow,
    state::State,
};
use crate::git;

/// How many files of one step are told one by one.
const CHANGES_MAX: usize = 1000;
/// How many looks at the work tree go by until the index learns of files that were touched and not changed. Until then,
/// each look reads them again.
const REFRESH_EVERY: u64 = 16;
/// How many notes wait to be taken, and how many are remembered so that none is made twice.
const NOTES_MAX: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} lies in the workspace, whose changes are to be kept there; name a place outside")]
    Inside(PathBuf),
    #[error(
        "cannot keep what changes in {path}: {source}; see that there is room and that it may be written"
    )]
    Scratch { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] git::Error),
}

pub struct Changes {
    shadow: Shadow,
    state: State,
    notes: Vec<String>,
    noted: BTreeSet<String>,
    looks: u64,
}

impl Changes {
    /// Follows `workspace` from now on, or from the last step of whoever used `dir` before.
    pub async fn open(workspace: &Path, dir: &Path, env: &BTreeMap<String, String>) -> Result<Self, Error> {
        let shadow = Shadow::new(workspace, dir, env)?;
        let earlier = shadow.is_there().then(|| State::read(&shadow.dir)).flatten();
        let (notes, noted) = (Vec::new(), BTreeSet::new());
        let is_new = earlier.is_none();
        let mut changes = Self { shadow, state: earlier.unwrap_or_default(), notes, noted, looks: 0 };
        if is_new {
            changes.begin(true).await?;
        }
        Ok(changes)
    }

    /// What has changed since the last step, or since the beginning.
    pub async fn step(&mut self) -> Result<Vec<Change>, Error> {
        match self.compare().await {
            Err(Error::Git(git::Error::Failed { complaint, .. })) => {
                self.begin(false).await?;
                self.note(format!(
                    "changes are followed anew from here, since git cannot go on: {complaint}"
                ));
                Ok(Vec::new())
            }
            compared => compared,
        }
    }

    /// Puts back what has changed since the last step, unless it is to be kept: exploration changes nothing. Names
    /// what was put back. What is kept is part of the next step.
    pub async fn revert(&mut self, keep: &(dyn Fn(&str) -> bool + Sync)) -> Result<Vec<String>, Error> {
        let found = self.look().await?;
        let tree = self.shadow.write_tree().await?;
        let mut notes = Vec::new();
        let done = undo::run(&self.shadow, &self.state, &tree, &found, keep, &mut notes).await?;
        notes.into_iter().for_each(|note| self.note(note));
        Ok(done)
    }

    /// What could not be followed, in words, each once.
    pub fn notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    async fn begin(&mut self, with_index: bool) -> Result<(), Error> {
        self.shadow.make(with_index).await?;
        let found = self.look().await?;
        let tree = self.shadow.write_tree().await?;
        self.state = State { last: tree, large: found.large };
        self.state.write(&self.shadow.dir)
    }

    async fn compare(&mut self) -> Result<Vec<Change>, Error> {
        let found = self.look().await?;
        let mut changes: Vec<Change> = scan::compare(&self.state.large, &found.large).collect();
        let tree = self.shadow.write_tree().await?;
        if tree == self.state.last && changes.is_empty() {
            return Ok(changes);
        }
        let patch = Patch::between(&self.shadow.git, &self.state.last, &tree).await?;
        if patch.left_out > 0 {
            self.note(format!("{} more files have changed than are told one by one", patch.left_out));
        }
        // A file that outgrew the limit is told as such; its last small version stands still.
        changes.extend(patch.changes);
        changes.sort_by(|one, other| one.file_path.cmp(&other.file_path));
        self.state.last = tree;
        self.state.large = found.large;
        self.state.write(&self.shadow.dir)?;
        Ok(changes)
    }

    /// Brings the index to what is there.
    async fn look(&mut self) -> Result<Found, Error> {
        self.shadow.tidy()?;
        if self.looks.is_multiple_of(REFRESH_EVERY) {
            scan::refresh(&self.shadow.git).await?;
        }
        self.looks += 1;
        let mut found = scan::look(&self.shadow).await?;
        scan::apply(&self.shadow.git, &mut found).await?;
        mem::take(&mut found.notes).into_iter().for_each(|note| self.note(note));
        Ok(found)
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX && self.noted.len() < NOTES_MAX && self.noted.insert(note.clone()) {
            self.notes.push(note);
        }
    }
}

/// What is known of large files, by path.
type LargeFiles = BTreeMap<Vec<u8>, Large>;

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
