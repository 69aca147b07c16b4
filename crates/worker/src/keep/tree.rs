//! Which files of the workspace are kept: what Git tracks and what it would add, and the files of repositories
//! inside, which Git would leave out.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

use tokio::io::AsyncWriteExt;

use super::{Error, bare::Bare};
use crate::git::{self, Git, is_real_dir};

/// More than any work tree has; beyond it somebody fills the disk with names.
const FILES_MAX: usize = 2_000_000;
const MODE_LINK: &str = "160000";

/// What stands under a path. Paths are relative to the workspace, in bytes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File {
        executable: bool,
    },
    Symlink,
    /// A commit of another repository, whose files are not here.
    Gitlink {
        commit: String,
    },
}

pub type Files = BTreeMap<Vec<u8>, Kind>;

pub async fn list(
    bare: &Bare,
    workspace: &Path,
    parent: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Files, Error> {
    let git = bare.looking_at(workspace);
    if let Some(parent) = parent {
        git.run(&["read-tree", parent]).await?;
    }
    let tracked = git.bytes(&["ls-files", "-z", "--stage"]).await?;
    let others = git.bytes(&["ls-files", "-z", "--others", "--exclude-standard"]).await?;
    let (mut files, mut nested) = (Files::new(), Vec::new());
    for entry in parts(&tracked) {
        let Some((mode, id, path)) = staged(entry) else { continue };
        if mode != MODE_LINK {
            add(workspace, path, &mut files, notes);
        } else if has_entries(&workspace.join(OsStr::from_bytes(path))) {
            nested.push(path.to_owned());
        } else {
            files.insert(path.to_owned(), Kind::Gitlink { commit: id.to_owned() });
        }
    }
    for path in parts(&others) {
        match path.strip_suffix(b"/") {
            Some(path) => nested.push(path.to_owned()),
            None => add(workspace, path, &mut files, notes),
        }
    }
    for path in nested {
        notes.push(format!("{} is a repository of its own; its files are kept as plain files", show(&path)));
        add_nested(&git, workspace, &path, &mut files, notes).await?;
    }
    Ok(files)
}

fn parts(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

/// `MODE ID STAGE\tPATH`
fn staged(entry: &[u8]) -> Option<(&str, &str, &[u8])> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let mut fields = std::str::from_utf8(&entry[..tab]).ok()?.split(' ');
    Some((fields.next()?, fields.next()?, &entry[tab + 1..]))
}

/// A path that is not there any more was deleted, and is left out.
fn add(workspace: &Path, path: &[u8], files: &mut Files, notes: &mut Vec<String>) {
    if path.split(|byte| *byte == b'/').any(is_git_name) {
        notes.push(format!("{} is not kept: Git allows no such name", show(path)));
        return;
    }
    let Ok(meta) = workspace.join(OsStr::from_bytes(path)).symlink_metadata() else { return };
    // What lies behind a link is not in the workspace.
    let mut above = Path::new(OsStr::from_bytes(path)).ancestors().skip(1);
    if above.any(|dir| !is_real_dir(&workspace.join(dir))) {
        return;
    }
    if files.len() >= FILES_MAX {
        notes.push(format!("{} is not kept: there are too many files", show(path)));
    } else if meta.is_file() {
        files.insert(path.to_owned(), Kind::File { executable: meta.permissions().mode() & 0o100 != 0 });
    } else if meta.is_symlink() {
        files.insert(path.to_owned(), Kind::Symlink);
    } else if !meta.is_dir() {
        notes.push(format!("{} is not kept: it is neither a file nor a link", show(path)));
    }
}

/// The files of a repository inside, except those that are ignored.
async fn add_nested(
    git: &Git,
    workspace: &Path,
    dir: &[u8],
    files: &mut Files,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let mut found = Vec::new();
    if let Err(error) = walk(workspace, dir, &mut found) {
        notes.push(format!("{} is not kept whole: {error}", show(dir)));
    }
    let feed = async |feed: &mut git::Feed| {
        for path in &found {
            feed.write_all(path).await?;
            feed.write_all(b"\0").await?;
        }
        Ok(())
    };
    let ignored = match git.feed(&["check-ignore", "-z", "--no-index", "--stdin"], feed).await {
        Ok(ignored) => ignored,
        // None of them is.
        Err(git::Error::Failed { code: Some(1), .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let ignored: std::collections::HashSet<&[u8]> = parts(&ignored).collect();
    for path in found.iter().filter(|path| !ignored.contains(path.as_slice())) {
        add(workspace, path, files, notes);
    }
    Ok(())
}

/// All below `dir` that is no directory, except what belongs to Git.
fn walk(workspace: &Path, dir: &[u8], found: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(workspace.join(OsStr::from_bytes(&dir)))? {
            let entry = entry?;
            let name = entry.file_name();
            if is_git_name(name.as_bytes()) {
                continue;
            }
            if found.len() + dirs.len() >= FILES_MAX {
                return Err(io::Error::other("there are too many files"));
            }
            let path = [&dir, &b"/"[..], name.as_bytes()].concat();
            if entry.file_type()?.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    Ok(())
}

/// In the spellings that other file systems take for it as well: a mirror may refuse them all.
fn is_git_name(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b"git~1")
}

fn has_entries(dir: &Path) -> bool {
    is_real_dir(dir) && fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

pub fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
