//! The files of a repository that somebody made inside the workspace. Git itself would take it for one entry, the commit
//! it is at, and refuse it when it has none.

use std::{ffi::OsStr, fs, io, os::unix::ffi::OsStrExt, path::Path};

use crate::git::{self, Git};

/// Somebody who clones something large into the workspace does not write it.
const FILES_MAX: usize = 5000;

/// What is not ignored below `dir`, relative to the workspace. None if there is too much of it.
pub async fn files(git: &Git, workspace: &Path, dir: &[u8]) -> Result<Option<Vec<Vec<u8>>>, git::Error> {
    let Ok(Some(mut paths)) = walk(workspace, dir) else { return Ok(None) };
    let ignored = git.ignored(paths.iter().map(Vec::as_slice)).await?;
    paths.retain(|path| !ignored.contains(path));
    Ok((paths.len() <= FILES_MAX).then_some(paths))
}

/// More than are taken, since some may be ignored.
fn walk(workspace: &Path, dir: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
    let (mut paths, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(workspace.join(OsStr::from_bytes(&dir)))? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            if name == ".git" {
                continue;
            }
            if paths.len() + dirs.len() >= FILES_MAX * 10 {
                return Ok(None);
            }
            let path = [&dir, &b"/"[..], name.as_bytes()].concat();
            if kind.is_dir() {
                dirs.push(path);
            } else if kind.is_file() || kind.is_symlink() {
                paths.push(path);
            }
        }
    }
    Ok(Some(paths))
}
