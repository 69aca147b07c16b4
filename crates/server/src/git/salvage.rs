//! What a damaged repository still says of its refs, read without Git, which gives up at the first line that it cannot
//! read. Only refs that were made here are of interest; the others are fetched again.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::domain::{branch, commit::CommitId};

/// Refs that a fetch brings. Every other was made here.
const FETCHED: &[&str] = &["refs/remotes", "refs/tags"];
const PACKED: &str = "packed-refs";
/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What is known of a ref.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// What the ref itself says.
    pub written: Option<CommitId>,
    /// Where it was before, by its log, newest first.
    pub before: Vec<CommitId>,
    /// The lines of its log, oldest first.
    pub log: Vec<String>,
}

impl Found {
    /// All commits that it could be put back to, the best first.
    pub fn candidates(&self) -> Vec<CommitId> {
        let mut all: Vec<CommitId> = self.written.iter().chain(&self.before).cloned().collect();
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|commit| seen.insert(commit.clone()));
        all
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    pub refs: BTreeMap<String, Found>,
    /// Files that may name further refs and are too large to be read.
    pub unread: Vec<String>,
}

pub(super) fn read(git_dir: &Path) -> Remains {
    let mut remains = Remains::default();
    let packed = git_dir.join(PACKED);
    if fs::metadata(&packed).is_ok_and(|meta| meta.len() > FILE_BYTES_MAX) {
        remains.unread.push(PACKED.to_owned());
    }
    for line in text(&packed).lines() {
        if let Some((commit, name)) = line.split_once(' ')
            && let (Ok(commit), true) = (commit.parse(), is_own(name))
        {
            remains.refs.entry(name.to_owned()).or_default().written = Some(commit);
        }
    }
    for (name, file) in files(git_dir) {
        let found = remains.refs.entry(name).or_default();
        // A file of its own counts before the packed line, which is older.
        let packed = std::mem::replace(&mut found.written, text(&file).trim().parse().ok());
        found.before.extend(packed);
    }
    for (name, file) in files(&git_dir.join("logs")) {
        let lines: Vec<String> = text(&file).lines().map(str::to_owned).collect();
        let moves = lines.iter().rev().filter_map(|line| line.split(' ').nth(1)?.parse().ok());
        let before: Vec<CommitId> = moves.collect();
        if !before.is_empty() {
            let found = remains.refs.entry(name).or_default();
            found.before.splice(0..0, before);
            found.log = lines;
        }
    }
    remains
}

fn is_own(name: &str) -> bool {
    !FETCHED.iter().any(|above| name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')))
        // A line that was cut off may end anywhere.
        && name.strip_prefix("refs/").is_some_and(|rest| rest.contains('/') && branch::is_valid(rest))
}

/// The files of own refs below `dir/refs`, by their names below `dir`.
fn files(dir: &Path) -> Vec<(String, PathBuf)> {
    let (mut found, mut dirs) = (Vec::new(), vec![dir.join("refs")]);
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                dirs.push(path);
            } else if let Some(name) = path.strip_prefix(dir).ok().and_then(Path::to_str)
                && !name.ends_with(".lock")
                && is_own(name)
            {
                found.push((name.to_owned(), path));
            }
        }
    }
    found
}

fn text(file: &Path) -> String {
    let small = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_BYTES_MAX);
    let read = if small { fs::read(file).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&read).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ref_is_found_that_any_file_still_tells_of() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, content: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let id = |digit: &str| digit.repeat(40);
        let packed =
            format!("# pack-refs\n{} refs/heads/packed\n{} refs/tags/v1\n{}", id("a"), id("a"), "bbb");
        put("packed-refs", &packed);
        put("refs/heads/loose", &format!("{}\n", id("b")));
        put("refs/heads/empty", "");
        put("refs/heads/half.lock", &id("b"));
        put("refs/preserved/sbx-1", &format!("{}\n", id("c")));
        put("refs/set-aside/sbx-1", &format!("{}\n", id("c")));
        put("refs/omoi/followed/main", &format!("{}\n", id("c")));
        put("refs/of-later/x", &format!("{}\n", id("c")));
        put("refs/remotes/origin/main", &format!("{}\n", id("d")));
        put("refs/tags/v2", &format!("{}\n", id("d")));
        let log =
            |from: &str, to: &str| format!("{} {} Omoi <omoi@localhost> 1 +0000\tpush\n", id(from), id(to));
        put("logs/refs/heads/empty", &format!("{}{}torn", log("0", "e"), log("e", "f")));
        put("logs/refs/heads/gone", &log("0", "e"));
        let found = read(dir.path());
        let names: Vec<_> = found.refs.keys().map(String::as_str).collect();
        let all = ["empty", "gone", "loose", "packed"].map(|name| format!("refs/heads/{name}"));
        let others =
            ["refs/of-later/x", "refs/omoi/followed/main", "refs/preserved/sbx-1", "refs/set-aside/sbx-1"];
        let all: Vec<&str> = all.iter().map(String::as_str).chain(others).collect();
        assert_eq!(names, all);
        assert_eq!(found.unread, Vec::<String>::new());
        let of = |name: &str| {
            found.refs[name].candidates().iter().map(|id| id.as_str()[..1].to_owned()).collect::<String>()
        };
        assert_eq!(of("refs/heads/empty"), "fe");
        assert_eq!(of("refs/heads/gone"), "e");
        assert_eq!((of("refs/heads/loose"), of("refs/heads/packed")), ("b".to_owned(), "a".to_owned()));
        assert!(found.refs["refs/heads/gone"].written.is_none());
    }

    #[test]
    fn a_file_of_refs_that_is_too_large_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let packed = fs::File::create(dir.path().join(PACKED)).unwrap();
        packed.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(read(dir.path()).unread, [PACKED]);
    }
}
