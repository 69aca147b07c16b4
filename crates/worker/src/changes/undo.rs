//! Putting files back as they were at the last step.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use tokio::io::AsyncWriteExt;

use super::{
    Error,
    patch::{self, Record},
    scan::{Found, feed},
    shadow::Shadow,
    shown,
    state::State,
};
use crate::git::{Feed, is_real_dir};

const MODE_NONE: &str = "000000";
const MODE_LINK: &str = "160000";

/// Names what was put back. The index is that of the last step then, except for what is kept.
pub async fn run(
    shadow: &Shadow,
    state: &State,
    tree: &str,
    found: &Found,
    keep: &(dyn Fn(&str) -> bool + Sync),
    notes: &mut Vec<String>,
) -> Result<Vec<String>, Error> {
    let mut records = patch::list(&shadow.git, &state.last, tree).await?;
    records.retain(|record| !keep(&shown(&record.path)));
    let (links, records): (Vec<Record>, Vec<Record>) =
        records.into_iter().partition(|record| record.mode.0 == MODE_LINK || record.mode.1 == MODE_LINK);
    for link in links {
        notes.push(format!("{} is a submodule and is not put back", shown(&link.path)));
    }
    let mut done: Vec<String> = records.iter().map(|record| shown(&record.path)).collect();
    let (created, mut changed): (Vec<Record>, Vec<Record>) =
        records.into_iter().partition(|record| record.mode.0 == MODE_NONE);
    restore_index(shadow, &created, &changed).await?;
    for record in &created {
        remove(&shadow.workspace, &record.path);
    }
    remove_repositories(shadow, found, keep);
    let mut paths: Vec<Vec<u8>> = changed.drain(..).map(|record| record.path).collect();
    large(shadow, state, found, keep, &mut paths, &mut done, notes);
    feed(&shadow.git, &["checkout-index", "-f", "-q", "-u", "-z", "--stdin"], &paths).await?;
    done.sort();
    done.dedup();
    Ok(done)
}

/// What is gone goes first, since it may be in the way of what comes back.
async fn restore_index(shadow: &Shadow, created: &[Record], changed: &[Record]) -> Result<(), Error> {
    let write = async |feed: &mut Feed| {
        for Record { mode, id, path, .. } in created.iter().chain(changed) {
            let mode = if mode.0 == MODE_NONE { "0" } else { &mode.0 };
            feed.write_all(format!("{mode} {}\t", id.0).as_bytes()).await?;
            feed.write_all(path).await?;
            feed.write_all(b"\0").await?;
        }
        Ok(())
    };
    shadow.git.feed(&["update-index", "--replace", "-z", "--index-info"], write).await?;
    Ok(())
}

/// Large files that are new go; one that has outgrown the limit gets its small version back. Of others there is no
/// earlier version.
fn large(
    shadow: &Shadow,
    state: &State,
    found: &Found,
    keep: &dyn Fn(&str) -> bool,
    paths: &mut Vec<Vec<u8>>,
    done: &mut Vec<String>,
    notes: &mut Vec<String>,
) {
    for (path, large) in found.large.iter().filter(|(path, _)| !keep(&shown(path))) {
        match state.large.get(path) {
            Some(earlier) if earlier == large => continue,
            Some(_) => {
                notes.push(format!("{} has changed and is too large to be put back", shown(path)));
                continue;
            }
            None if large.is_tracked => paths.push(path.clone()),
            None => remove(&shadow.workspace, path),
        }
        done.push(shown(path));
    }
    for path in state.large.keys().filter(|path| !found.large.contains_key(*path) && !keep(&shown(path))) {
        notes.push(format!("{} is gone and was too large to be put back", shown(path)));
    }
}

/// A repository that was made since and of which nothing is kept.
fn remove_repositories(shadow: &Shadow, found: &Found, keep: &dyn Fn(&str) -> bool) {
    for dir in &found.repositories {
        let below = [&dir[..], b"/"].concat();
        let is_kept = found.paths.iter().any(|path| path.starts_with(&below) && keep(&shown(path)));
        if !is_kept && let Some(whole) = inside(&shadow.workspace, dir) {
            let _ = fs::remove_dir_all(whole);
        }
    }
}

/// The file, and the directories that are empty without it.
fn remove(workspace: &Path, path: &[u8]) {
    let Some(whole) = inside(workspace, path) else { return };
    let _ = fs::remove_file(&whole);
    for dir in whole.ancestors().skip(1).take_while(|dir| *dir != workspace) {
        if fs::remove_dir(dir).is_err() {
            return;
        }
    }
}

/// None if a link leads there.
fn inside(workspace: &Path, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    path.ancestors().skip(1).all(|dir| is_real_dir(&workspace.join(dir))).then(|| workspace.join(path))
}
