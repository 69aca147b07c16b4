//! What can go wrong with a project's repository, for the people who have to put it right.

use std::{path::Path, time::Duration};

use omoi_protocol::ProjectId;

use super::{command::Failure, fault::Fault, health::Depth};
use crate::domain::{
    commit::CommitId,
    repository::{NotAnAddress, Refusal},
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Address(#[from] NotAnAddress),
    #[error(transparent)]
    NotAllowed(#[from] Refusal),
    #[error("project {0} has no repository; set its repository_url")]
    NoRepository(ProjectId),
    /// The failure itself is for the log.
    #[error("{address} cannot be fetched: {fault}")]
    Fetch { address: String, fault: Fault, failure: Failure },
    #[error("the host {host} of repository_url has no address: check the address and the network")]
    Unresolved { host: String },
    #[error("the repository {address} has no commits; push a first one to its branch {branch} and try again")]
    Empty { address: String, branch: String },
    #[error(
        "the repository {address} has no branch {branch}; it has {found}: set the project's default_branch to one"
    )]
    NoDefaultBranch { address: String, branch: String, found: String },
    #[error("project {0} has not been fetched yet; that happens when its first task is started")]
    NoMirror(ProjectId),
    #[error("the branch name {name:?} {problem}")]
    Branch { name: String, problem: String },
    #[error(
        "commit {commit} is not in the repository of project {project}; fetch it, or name one that is pushed"
    )]
    NoCommit { project: ProjectId, commit: CommitId },
    #[error("commit {commit} is too large to check out: more than {limit}; raise {key} if that is meant")]
    TooLarge { commit: CommitId, limit: String, key: &'static str },
    #[error("{one} and {two} conflict in {}", listed(.files))]
    Conflict { one: String, two: String, files: Vec<String> },
    #[error(
        "the server's own mirror of the repository, {mirror} in the data directory, is damaged ({damage}) and cannot be \
         rebuilt: {reason}; it is kept as it is, and the next fetch tries again"
    )]
    Damaged { mirror: String, damage: String, reason: String },
    #[error("{} damaged mirrors of this project are already kept because refs in them could not be recovered ({}); inspect and remove them", .mirrors.len(), listed(.mirrors))]
    TooManyAside { mirrors: Vec<String> },
    #[error("git {name} printed something that cannot be read")]
    Unreadable { name: &'static str },
    #[error("{lock} was held by somebody else for {patience:?}; try again")]
    Busy { lock: String, patience: Duration },
    #[error(transparent)]
    Git(#[from] Failure),
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
}

impl Error {
    pub(super) fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().display().to_string(), source }
    }

    /// Whether our own mirror may be the cause, and how closely it is to be looked at.
    pub(super) fn may_be_ours(&self) -> Option<Depth> {
        match self {
            Self::Fetch { fault: Fault::Other, .. } | Self::Git(_) | Self::Io { .. } => Some(Depth::Objects),
            Self::Fetch { fault: Fault::NotThere, .. } => Some(Depth::Outline),
            _ => None,
        }
    }

    /// Whether the same may work later without anybody putting something right.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Damaged { .. }
                | Self::Fetch { .. }
                | Self::Unresolved { .. }
                | Self::Git(_)
                | Self::Io { .. }
        )
    }
}

/// So many files stand in a sentence.
const FILES_SHOWN: usize = 10;

fn listed(files: &[String]) -> String {
    let mut text = files.iter().take(FILES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > FILES_SHOWN {
        text.push_str(&format!(" and {} more", files.len() - FILES_SHOWN));
    }
    text
}
