//! Work trees that were made to be hard to keep, and what became of each of their files.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, File},
    io::Write,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, chmodat, ftruncate, mkdirat, mknodat, open, openat, symlinkat,
};
use serde_json::Value;

use crate::{left::Left, repo::try_git};

/// What a path of components holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// So many bytes that do not compress.
    Noise(usize),
    Text(&'static str),
    /// A file with so many zeros and no block on the disk.
    Sparse(u64),
    Link(&'static str),
    Pipe,
    Socket,
    /// A repository that has just been made.
    Repository,
}

impl Content {
    /// None for what holds no data.
    pub fn bytes(&self, seed: usize) -> Option<Vec<u8>> {
        match self {
            Self::Noise(length) => Some(noise(*length, seed)),
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Sparse(length) if *length < 16 << 20 => Some(vec![0; usize::try_from(*length).unwrap()]),
            // Nothing reads as much.
            Self::Sparse(_) => Some(Vec::new()),
            Self::Link(target) => Some(target.as_bytes().to_vec()),
            Self::Pipe | Self::Socket | Self::Repository => None,
        }
    }
}

/// Bytes that no compression makes fewer.
pub fn noise(length: usize, seed: usize) -> Vec<u8> {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

pub type Name = Vec<u8>;

pub fn names(path: &[&[u8]]) -> Vec<Name> {
    path.iter().map(|name| name.to_vec()).collect()
}

/// Makes what is at a path of any length. Says whether it could: something else may be there.
pub fn make(top: &Path, path: &[Name], content: &Content, seed: usize) -> bool {
    let Some((name, dirs)) = path.split_last() else { return false };
    let Some(dir) = dir(top, dirs) else { return false };
    let name = OsStr::from_bytes(name);
    match content {
        Content::Link(target) => symlinkat(*target, &dir, name).is_ok(),
        Content::Pipe => mknodat(&dir, name, FileType::Fifo, Mode::RWXU, 0).is_ok(),
        Content::Socket => mknodat(&dir, name, FileType::Socket, Mode::RWXU, 0).is_ok(),
        Content::Repository => repository(&dir, name),
        Content::Sparse(length) => create(&dir, name).is_some_and(|file| ftruncate(&file, *length).is_ok()),
        Content::Noise(_) | Content::Text(_) => create(&dir, name)
            .is_some_and(|mut file| file.write_all(&content.bytes(seed).expect("it is data")).is_ok()),
    }
}

/// Changes the mode of what is at a path of any length.
pub fn set_mode(top: &Path, path: &[Name], mode: u32) {
    let (name, dirs) = path.split_last().expect("it has a name");
    let Some(dir) = dir(top, dirs) else { return };
    let _ = chmodat(&dir, OsStr::from_bytes(name), Mode::from_raw_mode(mode), AtFlags::empty());
}

fn create(dir: &OwnedFd, name: &OsStr) -> Option<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    openat(dir, name, flags, Mode::from_raw_mode(0o644)).ok().map(File::from)
}

fn repository(dir: &OwnedFd, name: &OsStr) -> bool {
    let below = |at: &OwnedFd, name: &str| {
        mkdirat(at, name, Mode::RWXU).is_ok().then(|| open_dir(at, name)).flatten()
    };
    if mkdirat(dir, name, Mode::RWXU).is_err() {
        return false;
    }
    let Some(git) = open_dir(dir, name).and_then(|inner| below(&inner, ".git")) else { return false };
    let is_made = ["objects", "refs"].iter().all(|name| mkdirat(&git, *name, Mode::RWXU).is_ok());
    is_made
        && create(&git, OsStr::new("HEAD"))
            .is_some_and(|mut head| head.write_all(b"ref: refs/heads/main\n").is_ok())
}

fn open_dir(at: &OwnedFd, name: impl rustix::path::Arg) -> Option<OwnedFd> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).ok()
}

fn dir(top: &Path, dirs: &[Name]) -> Option<OwnedFd> {
    let mut at = open(top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()?;
    for name in dirs {
        let name = OsStr::from_bytes(name);
        let _ = mkdirat(&at, name, Mode::RWXU);
        at = open_dir(&at, name)?;
    }
    Some(at)
}

/// Everything that a rescue brought out, by path: what is in the commit, and what is set aside.
pub struct Outside {
    pub kept: BTreeMap<Vec<u8>, Vec<u8>>,
    pub aside: BTreeMap<Vec<u8>, Vec<u8>>,
    pub left_out: Vec<String>,
}

impl Outside {
    pub fn of(left: &Left, report: &Value) -> Self {
        let kept = files(left, report["commit"].as_str().expect("there is a commit"));
        let mut aside = BTreeMap::new();
        if let Some(commit) = report["set_aside"]["commit"].as_str() {
            let numbered = files(left, commit);
            let index = String::from_utf8(numbered[b"INDEX".as_slice()].clone()).unwrap();
            for line in index.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                let path = unquoted(line["quoted"].as_str().unwrap());
                aside.insert(path, numbered[line["file"].as_str().unwrap().as_bytes()].clone());
            }
            assert_eq!(report["set_aside"]["files"].as_u64().unwrap_or(0), aside.len() as u64);
            assert_eq!(report["set_aside"]["listed"].as_array().map_or(0, Vec::len), aside.len().min(50));
        }
        let paths = report["left_out"].as_array().into_iter().flatten();
        let left_out = paths.map(|one| one["path"].as_str().unwrap().to_owned()).collect();
        Self { kept, aside, left_out }
    }

    /// Where a file is to be found with all that it held: in the commit, set aside, or named as left out.
    #[track_caller]
    pub fn has(&self, path: &[u8], content: &[u8]) -> &'static str {
        let shown = String::from_utf8_lossy(path).replace(char::is_control, "\u{fffd}");
        for (place, files) in [("kept", &self.kept), ("set aside", &self.aside)] {
            if files.get(path).is_some_and(|kept| kept == content) {
                return place;
            }
        }
        let ends = |left: &String| match left.split_once('…') {
            Some((start, end)) => shown.starts_with(start) && shown.ends_with(end),
            None => *left == shown || left.ends_with('/') && shown.starts_with(left.as_str()),
        };
        assert!(self.left_out.iter().any(ends), "{shown:?} is nowhere, and not named: {:?}", self.left_out);
        "left out"
    }
}

fn files(left: &Left, commit: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let listed = try_git(&left.mirror.path, &["ls-tree", "-r", "-z", commit]).stdout;
    let mut files = BTreeMap::new();
    for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').unwrap();
        let head = std::str::from_utf8(&line[..tab]).unwrap();
        let id = head.split(' ').next_back().unwrap();
        let content = try_git(&left.mirror.path, &["cat-file", "blob", id]).stdout;
        files.insert(line[tab + 1..].to_vec(), content);
    }
    files
}

fn unquoted(text: &str) -> Vec<u8> {
    let inner =
        text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).expect("it is quoted").as_bytes();
    let (mut path, mut n) = (Vec::new(), 0);
    while n < inner.len() {
        match (inner[n], inner.get(n + 1)) {
            (b'\\', Some(escaped @ (b'"' | b'\\'))) => {
                path.push(*escaped);
                n += 2;
            }
            (b'\\', _) => {
                let digits = std::str::from_utf8(&inner[n + 1..n + 4]).unwrap();
                path.push(u8::from_str_radix(digits, 8).unwrap());
                n += 4;
            }
            (plain, _) => {
                path.push(plain);
                n += 1;
            }
        }
    }
    path
}

/// The mirror takes what the server's takes.
pub fn be_strict(left: &Left, push_bytes_max: u64) {
    for (key, value) in [
        ("receive.fsckObjects", "true"),
        ("receive.maxInputSize", &push_bytes_max.to_string()),
        ("gc.auto", "0"),
    ] {
        left.mirror.git(&["config", key, value]);
    }
    let _ = fs::create_dir_all(left.scratch());
}
