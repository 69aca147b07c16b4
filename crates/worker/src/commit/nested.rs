//! Repositories that somebody made inside the workspace. As Git would have it, the commit names the commit that they are at
//! and nothing of theirs is in it; nobody outside has that commit.

use std::{collections::BTreeSet, slice};

use crate::{
    changes::{feed, nested_files},
    git::{Error, Git},
    say::say,
};

const MODE_LINK: &[u8] = b"160000";

/// Puts their files into the index, in place of them.
pub async fn add(git: &Git, head: Option<&str>) -> Result<(), Error> {
    let linked = linked(git, head).await?;
    let others = git.bytes(&["ls-files", "-z", "--others", "--exclude-standard"]).await?;
    let others = parts(&others).filter_map(|path| path.strip_suffix(b"/")).map(<[u8]>::to_owned);
    let modules = modules(git).await;
    let dirs: BTreeSet<Vec<u8>> =
        linked.iter().cloned().chain(others).filter(|dir| !modules.contains(dir)).collect();
    for dir in dirs {
        if linked.contains(&dir) {
            feed(git, &["update-index", "-z", "--force-remove", "--stdin"], slice::from_ref(&dir)).await?;
        }
        match nested_files(git, &git.dir, &dir).await? {
            Some(files) => feed(git, &["update-index", "-z", "--add", "--stdin"], &files).await?,
            None => say(&format!(
                "{} is a repository of its own with too many files and is not committed",
                String::from_utf8_lossy(&dir)
            )),
        }
    }
    Ok(())
}

/// Entries of the index that are repositories and are none in `head`.
async fn linked(git: &Git, head: Option<&str>) -> Result<Vec<Vec<u8>>, Error> {
    let Some(head) = head else {
        let listed = git.bytes(&["ls-files", "-z", "--stage"]).await?;
        let links = parts(&listed).filter(|entry| entry.starts_with(MODE_LINK));
        return Ok(links
            .filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1))
            .map(<[u8]>::to_owned)
            .collect());
    };
    let args = ["diff-index", "--cached", "-z", "--no-renames", "--diff-filter=AT", head];
    let listed = git.bytes(&args).await?;
    let (mut fields, mut links) = (parts(&listed), Vec::new());
    while let (Some(entry), Some(path)) = (fields.next(), fields.next()) {
        if entry.split(|byte| *byte == b' ').nth(1) == Some(MODE_LINK) {
            links.push(path.to_owned());
        }
    }
    Ok(links)
}

/// Where `.gitmodules` wants a submodule.
async fn modules(git: &Git) -> Vec<Vec<u8>> {
    let args = ["config", "-z", "-f", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"];
    let listed = git.bytes(&args).await.unwrap_or_default();
    let path = |entry: &[u8]| entry.splitn(2, |byte| *byte == b'\n').nth(1).map(<[u8]>::to_owned);
    parts(&listed).filter_map(path).collect()
}

fn parts(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}
