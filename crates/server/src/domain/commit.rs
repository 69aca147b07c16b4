//! The id of a commit, as Git writes it: 40 hexadecimal digits, or 64 in a repository that uses SHA-256.

use std::{fmt, str::FromStr};

use omoi_protocol::TaskId;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitId(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the full id of a commit: 40 or 64 digits of 0-9 and a-f, not all of them 0")]
pub struct NotACommitId(String);

/// The work of a task that others build on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    pub task: TaskId,
    /// What it was completed with.
    pub commit: Option<CommitId>,
    pub branch: Option<String>,
}

impl CommitId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CommitId {
    type Err = NotACommitId;

    /// All zeros stand for "nothing" where Git writes two ids side by side, so they are no commit.
    fn from_str(text: &str) -> Result<Self, NotACommitId> {
        let fits = matches!(text.len(), 40 | 64);
        let plain = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let is_something = text.bytes().any(|b| b != b'0');
        let shown = || text.chars().take(80).collect();
        if fits && plain && is_something { Ok(Self(text.to_owned())) } else { Err(NotACommitId(shown())) }
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_has_a_full_id_and_nothing_else_is_one() {
        for good in ["a".repeat(40), "0123456789abcdef".repeat(4)] {
            assert_eq!(good.parse::<CommitId>().unwrap().as_str(), good);
        }
        for bad in ["", "main", "--all", &"A".repeat(40), &"a".repeat(39), &"0".repeat(40), &"g".repeat(40)] {
            assert!(bad.parse::<CommitId>().is_err(), "{bad}");
        }
    }
}
