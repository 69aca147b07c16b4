//! The refs of a repository that nobody vouches for, read as plain files.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::OFlags;

use crate::git::is_real_dir;

const REF_BYTES_MAX: u64 = 4096;
const PACKED_BYTES_MAX: u64 = 16 * 1024 * 1024;
const STASH_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
const BRANCHES_MAX: usize = 1000;
const DEPTH_MAX: usize = 16;
const STASH: &str = "refs/stash";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// The commit that is checked out.
    pub head: Option<String>,
    /// The tips of local branches and every stash, by name.
    pub branches: BTreeMap<String, String>,
    /// There are more branches or stashes than were read.
    pub is_cut: bool,
}

/// What cannot be read is not there.
pub fn read(git_dir: &Path) -> Refs {
    if !is_real_dir(git_dir) {
        return Refs::default();
    }
    let (mut branches, mut is_cut) = packed(git_dir);
    branches.retain(|name, _| name.starts_with("refs/heads/") || name == STASH);
    is_cut |= loose(git_dir, "refs/heads", DEPTH_MAX, &mut branches);
    if let Some((text, _)) = read_plain(&git_dir.join(STASH), REF_BYTES_MAX) {
        branches.extend(id(&text).map(|stash| (STASH.to_owned(), stash)));
    }
    let head = read_plain(&git_dir.join("HEAD"), REF_BYTES_MAX).map(|(text, _)| text);
    let head = head.and_then(|text| match text.trim().strip_prefix("ref: ") {
        Some(name) => branches.get(name.trim()).cloned(),
        None => id(&text),
    });
    let (stashes, is_log_cut) = stashes(git_dir);
    branches.extend(stashes);
    is_cut |= is_log_cut || branches.len() > BRANCHES_MAX;
    let branches = branches.into_iter().take(BRANCHES_MAX).collect();
    Refs { head, branches, is_cut }
}

/// All stashes but the newest: only the log of the stash names them. Says as well whether it is longer than what was read.
fn stashes(git_dir: &Path) -> (BTreeMap<String, String>, bool) {
    let Some((text, is_cut)) = read_plain(&git_dir.join("logs").join(STASH), STASH_LOG_BYTES_MAX) else {
        return (BTreeMap::new(), false);
    };
    // OLD NEW WHO WHEN\tMESSAGE, the newest last.
    let tips: Vec<Option<String>> = text.lines().map(|line| id(line.split(' ').nth(1)?)).collect();
    let older = tips.into_iter().rev().enumerate().skip(1);
    (older.filter_map(|(n, tip)| Some((format!("{STASH}@{{{n}}}"), tip?))).collect(), is_cut)
}

/// The first `bytes_max` of an ordinary file as text, and whether there is more of it.
fn read_plain(path: &Path, bytes_max: u64) -> Option<(String, bool)> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() as u64 > bytes_max;
    Some((String::from_utf8_lossy(&bytes).into_owned(), is_cut))
}

/// The name of an object, in full.
fn id(text: &str) -> Option<String> {
    let text = text.trim();
    let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}

fn packed(git_dir: &Path) -> (BTreeMap<String, String>, bool) {
    let (text, is_cut) = read_plain(&git_dir.join("packed-refs"), PACKED_BYTES_MAX).unwrap_or_default();
    let entry = |line: &str| line.split_once(' ').and_then(|(tip, name)| Some((name.to_owned(), id(tip)?)));
    (text.lines().filter_map(entry).collect(), is_cut)
}

/// Says whether there are more than were read.
fn loose(git_dir: &Path, name: &str, depth: usize, found: &mut BTreeMap<String, String>) -> bool {
    let dir = git_dir.join(name);
    if !is_real_dir(&dir) {
        return false;
    }
    if depth == 0 {
        return true;
    }
    let mut is_cut = false;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Some(part) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let name = format!("{name}/{part}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => is_cut |= loose(git_dir, &name, depth - 1, found),
            Ok(kind) if kind.is_file() && (found.len() < BRANCHES_MAX || found.contains_key(&name)) => {
                let tip = read_plain(&entry.path(), REF_BYTES_MAX).and_then(|(text, _)| id(&text));
                found.extend(tip.map(|tip| (name, tip)));
            }
            Ok(kind) if kind.is_file() => is_cut = true,
            _ => {}
        }
    }
    is_cut
}
