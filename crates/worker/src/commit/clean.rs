//! A work tree in which nothing is left to commit, told by one question to Git.

use std::path::Path;

use super::IN_PROGRESS;
use crate::{
    git::{Error, is_real_dir},
    workspace::{QUIET, Workspace},
};

const STATUS: [&str; 8] = [
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=normal",
    "--ignore-submodules=none",
];

impl Workspace<'_> {
    /// Whether the branch is checked out, with nothing beside it and nothing in progress. Where Git cannot tell, no.
    pub(super) async fn is_clean(&self, dir: &Path) -> Result<bool, Error> {
        let in_progress = IN_PROGRESS.iter().any(|(file, _)| dir.join(file).symlink_metadata().is_ok());
        if in_progress || !is_real_dir(dir) {
            return Ok(false);
        }
        match self.git.bytes(&[&QUIET[..], &STATUS[..]].concat()).await {
            Ok(said) => Ok(is_clean(&said, &self.repository.branch_name)),
            Err(Error::Failed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_clean(said: &[u8], branch: &str) -> bool {
    let head = format!("# branch.head {branch}");
    let (mut on_branch, mut has_commit) = (false, false);
    for part in said.split(|byte| *byte == 0).filter(|part| !part.is_empty()) {
        if !part.starts_with(b"# ") {
            return false;
        }
        on_branch |= part == head.as_bytes();
        has_commit |= part.starts_with(b"# branch.oid ") && part != b"# branch.oid (initial)";
    }
    on_branch && has_commit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_is_on_the_branch_with_nothing_beside_it() {
        let table: [(&[u8], bool); 6] = [
            (b"# branch.oid c0ffee\0# branch.head work\0", true),
            (b"# branch.oid c0ffee\0# branch.head work\0# branch.upstream origin/work\0", true),
            (b"# branch.oid c0ffee\0# branch.head work\0? new\0", false),
            (b"# branch.oid c0ffee\0# branch.head (detached)\0", false),
            (b"# branch.oid (initial)\0# branch.head work\0", false),
            (b"", false),
        ];
        for (said, clean) in table {
            assert_eq!(is_clean(said, "work"), clean, "{}", String::from_utf8_lossy(said));
        }
    }
}
