//! Keeping work: whatever is in the workspace becomes a commit outside, whoever left it there in whatever state.
//!
//! Nothing in the workspace is trusted. Git runs with a directory and a configuration of our own; of the
//! workspace's own it is shown the objects alone. Files are read by us, byte by byte as they are, and no link is
//! followed. So no hook, filter, attribute or setting of the workspace takes part, and new objects need no room
//! on its disk.

mod bare;
mod blob;
mod import;
mod objects;
mod refs;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use omoi_protocol::launch::{LaunchSpec, Repository};

pub use self::import::quoted;
use self::{bare::Bare, import::Import};
use crate::git;

/// How many branches besides the one that is checked out are kept with it.
const OTHER_TIPS_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} is no directory")]
    NoWorkspace(PathBuf),
    #[error("cannot make room for the work in {path}: {source}")]
    Scratch { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] git::Error),
    #[error("{first}; and without the objects of the workspace: {second}")]
    Twice { first: Box<Error>, second: Box<Error> },
}

pub struct Keep<'a> {
    launch: &'a LaunchSpec,
    repository: &'a Repository,
    workspace: PathBuf,
    scratch: &'a Path,
    env: BTreeMap<String, String>,
}

/// What is outside now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub commit: String,
    /// Where it is to be found; None when it is part of a branch there already.
    pub ref_name: Option<String>,
    pub base_commit: Option<String>,
    /// How many files differ from the commit that the work began with.
    pub files: u64,
    /// What could not be taken along, and what was changed in taking it, one line each.
    pub notes: Vec<String>,
}

/// Whether the workspace's own objects are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Objects {
    Workspace,
    DoorOnly,
}

impl<'a> Keep<'a> {
    /// None when there is no repository to keep it in. Of `env` the search path alone is used.
    pub fn new(launch: &'a LaunchSpec, env: &BTreeMap<String, String>, scratch: &'a Path) -> Option<Self> {
        let mut own = launch.git_environment();
        own.extend(env.get_key_value("PATH").map(|(name, path)| (name.clone(), path.clone())));
        let workspace = PathBuf::from(&launch.workspace_path);
        Some(Self { launch, repository: launch.repository.as_ref()?, workspace, scratch, env: own })
    }

    /// Objects that are broken, or made to break Git, are done without: the files are what counts.
    pub async fn keep(&self) -> Result<Kept, Error> {
        if !git::is_real_dir(&self.workspace) {
            return Err(Error::NoWorkspace(self.workspace.clone()));
        }
        let first = match self.keep_with(Objects::Workspace).await {
            Err(first @ Error::Git(_)) => first,
            kept => return kept,
        };
        match self.keep_with(Objects::DoorOnly).await {
            Ok(mut kept) => {
                kept.notes.push(format!("commits that are in the workspace alone are not kept: {first}"));
                Ok(kept)
            }
            Err(second) => Err(Error::Twice { first: Box::new(first), second: Box::new(second) }),
        }
    }

    async fn keep_with(&self, objects: Objects) -> Result<Kept, Error> {
        let bare =
            Bare::make(self.scratch, &self.env, &self.workspace, objects == Objects::Workspace).await?;
        let mut notes = Vec::new();
        let url = &self.repository.url;
        let outside = bare.tips_at(url).await?;
        let base = bare.find_base(url, &self.repository.base_commit).await?;
        let (head, others) = match objects {
            Objects::Workspace => self.tips(&bare, base.as_deref(), &outside, &mut notes).await?,
            Objects::DoorOnly => (None, Vec::new()),
        };
        let parent = head.or_else(|| base.clone());
        let name = format!("refs/preserved/{}", self.launch.sandbox_id);
        let listed = tree::list(&bare, &self.workspace, parent.as_deref(), &mut notes).await?;
        let commit = match &parent {
            // There is nothing to write.
            Some(parent) if others.is_empty() && listed.is_parent => parent.clone(),
            _ => {
                let import = Import { name: &name, parent: parent.as_deref(), others: &others };
                let made = import.run(&bare, &self.workspace, &listed.files, &mut notes).await?;
                match &parent {
                    Some(parent) if others.is_empty() && bare.is_same_tree(parent, &made).await? => {
                        parent.clone()
                    }
                    _ => made,
                }
            }
        };
        let files = match &base {
            Some(base) if *base == commit => 0,
            _ => bare.count_changes(base.as_deref(), &commit).await?,
        };
        let is_outside = base.as_ref() == Some(&commit) || outside.values().any(|tip| *tip == commit);
        let ref_name = if is_outside {
            outside.into_iter().find(|(_, tip)| *tip == commit).map(|(name, _)| name)
        } else {
            bare.push(url, &commit, &name).await?;
            Some(name)
        };
        Ok(Kept { commit, ref_name, base_commit: base, files, notes })
    }

    /// The commit that is checked out, and the tips of other branches that are not outside and not below it. Only
    /// commits whose whole history can be read count.
    async fn tips(
        &self,
        bare: &Bare,
        base: Option<&str>,
        outside: &BTreeMap<String, String>,
        notes: &mut Vec<String>,
    ) -> Result<(Option<String>, Vec<String>), Error> {
        let found = refs::read(&self.workspace.join(".git"));
        let mut known: BTreeSet<String> = outside.values().cloned().collect();
        known.extend(base.map(str::to_owned));
        let known = bare.present(&known).await?;
        let head = match found.head {
            Some(head) if bare.is_whole(&head, &known).await? => Some(head),
            Some(head) => {
                notes.push(format!("HEAD is {head}, whose history cannot be read; the files are kept"));
                None
            }
            None => None,
        };
        let mut below: Vec<String> = known.iter().cloned().chain(head.clone()).collect();
        let mut others = Vec::new();
        for (name, tip) in found.branches {
            if below.contains(&tip)
                || !bare.is_whole(&tip, &known).await?
                || bare.is_below(&tip, &below).await?
            {
                continue;
            }
            if others.len() == OTHER_TIPS_MAX {
                notes.push(format!("{name} at {tip} is not kept: too many branches"));
                continue;
            }
            below.push(tip.clone());
            others.push(tip);
        }
        Ok((head, others))
    }
}
