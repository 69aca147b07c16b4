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
const BRANCHES_MAX: usize = 1000;
const DEPTH_MAX: usize = 16;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// The commit that is checked out.
    pub head: Option<String>,
    /// The tips of local branches and of the stash, by name.
    pub branches: BTreeMap<String, String>,
}

/// What cannot be read is not there.
pub fn read(git_dir: &Path) -> Refs {
    if !is_real_dir(git_dir) {
        return Refs::default();
    }
    let mut branches = packed(git_dir);
    branches.retain(|name, _| name.starts_with("refs/heads/") || name == "refs/stash");
    loose(git_dir, "refs/heads", DEPTH_MAX, &mut branches);
    if let Some(stash) = read_plain(&git_dir.join("refs/stash"), REF_BYTES_MAX).and_then(|text| id(&text)) {
        branches.insert("refs/stash".to_owned(), stash);
    }
    let head = read_plain(&git_dir.join("HEAD"), REF_BYTES_MAX);
    let head = head.and_then(|text| match text.trim().strip_prefix("ref: ") {
        Some(name) => branches.get(name.trim()).cloned(),
        None => id(&text),
    });
    Refs { head, branches }
}

/// An ordinary file of at most `bytes_max`, as text.
fn read_plain(path: &Path, bytes_max: u64) -> Option<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The name of an object, in full.
fn id(text: &str) -> Option<String> {
    let text = text.trim();
    let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}

fn packed(git_dir: &Path) -> BTreeMap<String, String> {
    let text = read_plain(&git_dir.join("packed-refs"), PACKED_BYTES_MAX).unwrap_or_default();
    let entry = |line: &str| line.split_once(' ').and_then(|(tip, name)| Some((name.to_owned(), id(tip)?)));
    text.lines().filter_map(entry).collect()
}

fn loose(git_dir: &Path, name: &str, depth: usize, found: &mut BTreeMap<String, String>) {
    let dir = git_dir.join(name);
    if depth == 0 || !is_real_dir(&dir) {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Some(part) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let name = format!("{name}/{part}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => loose(git_dir, &name, depth - 1, found),
            Ok(kind) if kind.is_file() && found.len() < BRANCHES_MAX => {
                let tip = read_plain(&entry.path(), REF_BYTES_MAX).and_then(|text| id(&text));
                found.extend(tip.map(|tip| (name, tip)));
            }
            _ => {}
        }
    }
}
