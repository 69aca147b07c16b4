//! A repository in a directory of this machine that an administrator has not named by himself. Git follows symbolic
//! links, `.git` files, `commondir` and alternates to wherever they lead, with the rights of the server's user. So each
//! of them has to stay inside `git.allow_paths`.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::domain::repository::{Opened, Refusal, judge_path};

/// Entries of a repository that are looked at. One with more is for an administrator to name.
const ENTRIES_MAX: usize = 200_000;
/// Of a file that leads somewhere else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The directory that Git may be pointed at, once everything that it leads to was judged.
pub fn git_dir(named: &Path, opened: &Opened) -> Result<PathBuf, Refusal> {
    let roots = opened.paths.iter().filter_map(|root| fs::canonicalize(root).ok()).collect();
    let mut search = Search { named, roots, seen: BTreeSet::new(), left: ENTRIES_MAX };
    let found = search.git_dir()?;
    search.walk(&found)?;
    let common = found.join("commondir");
    if fs::symlink_metadata(&common).is_ok() {
        let text = one_line(&common).ok_or_else(|| search.refusal())?;
        search.walk(&found.join(text))?;
    }
    Ok(found)
}

struct Search<'a> {
    named: &'a Path,
    roots: Vec<PathBuf>,
    seen: BTreeSet<PathBuf>,
    left: usize,
}

impl Search<'_> {
    fn refusal(&self) -> Refusal {
        Refusal::Directory(self.named.display().to_string())
    }

    /// The path without links, if it is inside of what is allowed.
    fn real(&self, path: &Path) -> Result<PathBuf, Refusal> {
        let real = fs::canonicalize(path).ok();
        judge_path(self.named, real.as_deref(), &self.roots)?;
        real.ok_or_else(|| self.refusal())
    }

    /// Beside a work tree, in a file that names it, or right there.
    fn git_dir(&self) -> Result<PathBuf, Refusal> {
        let tree = self.real(self.named)?;
        let beside = tree.join(".git");
        match fs::symlink_metadata(&beside) {
            Err(_) => Ok(tree),
            Ok(meta) if meta.is_file() => {
                let text = one_line(&beside).ok_or_else(|| self.refusal())?;
                let path = text.strip_prefix("gitdir: ").filter(|path| is_exact(path));
                self.real(&tree.join(path.ok_or_else(|| self.refusal())?))
            }
            Ok(_) => self.real(&beside),
        }
    }

    /// Judges a directory with all below it, and what links and alternates lead to.
    fn walk(&mut self, dir: &Path) -> Result<(), Refusal> {
        let mut dirs = vec![self.real(dir)?];
        while let Some(dir) = dirs.pop() {
            if !self.seen.insert(dir.clone()) {
                continue;
            }
            let entries = fs::read_dir(&dir).map_err(|_| self.refusal())?;
            for entry in entries {
                let entry = entry.map_err(|_| self.refusal())?;
                self.left = self.left.checked_sub(1).ok_or_else(|| self.refusal())?;
                let kind = entry.file_type().map_err(|_| self.refusal())?;
                let path = if kind.is_symlink() { self.real(&entry.path())? } else { entry.path() };
                if path.is_dir() {
                    dirs.push(path);
                } else if entry.file_name() == "alternates" {
                    dirs.extend(self.alternates(&path)?);
                }
            }
        }
        Ok(())
    }

    /// Of `objects/info/alternates`; its paths are relative to `objects`.
    fn alternates(&self, file: &Path) -> Result<Vec<PathBuf>, Refusal> {
        let Some(objects) = file.parent().and_then(Path::parent) else { return Ok(Vec::new()) };
        let text = text(file).ok_or_else(|| self.refusal())?;
        let named = text.split('\n').filter(|line| !line.is_empty() && !line.starts_with('#'));
        named
            .map(|line| {
                // Git takes the quotes off a line that begins with one.
                let is_plain = is_exact(line) && !line.starts_with('"');
                if is_plain { self.real(&objects.join(line)) } else { Err(self.refusal()) }
            })
            .collect()
    }
}

/// A line that leads somewhere; Git takes the line feeds off its end.
fn one_line(file: &Path) -> Option<String> {
    let mut line = text(file)?;
    line.truncate(line.trim_end_matches(['\n', '\r']).len());
    is_exact(&line).then_some(line)
}

/// Whether nothing in it is read by Git in another way than by us: Git keeps white space at either end.
fn is_exact(line: &str) -> bool {
    !line.is_empty() && line.trim() == line && !line.contains(['\n', '\r', '\0'])
}

/// All of an ordinary file. A pipe in its place would hold a reader for ever.
fn text(file: &Path) -> Option<String> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(file).ok()?;
    let meta = opened.metadata().ok()?;
    if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut text = String::new();
    opened.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_reads_in_another_way_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let repository = root.join("shop");
        let info = repository.join("objects/info");
        fs::create_dir_all(&info).unwrap();
        fs::create_dir_all(root.join("more")).unwrap();
        let opened = Opened { paths: vec![root.clone()], ..Opened::default() };
        let judged = || git_dir(&repository, &opened).is_ok();
        let more = root.join("more").display().to_string();
        for (text, fine) in [
            ("", true),
            (&*format!("{more}\n"), true),
            (&*format!("# a comment\n\n{more}\n{more}\n"), true),
            (&*format!("{more} \n"), false),
            (&*format!(" {more}\n"), false),
            (&*format!("{more}\r\n"), false),
            (&*format!("\"{more}\"\n"), false),
            ("/etc\n", false),
        ] {
            fs::write(info.join("alternates"), text).unwrap();
            assert_eq!(judged(), fine, "{text:?}");
        }
        fs::remove_file(info.join("alternates")).unwrap();
        for (name, whole) in [("objects/info/alternates", ""), ("commondir", "/etc\n"), ("commondir", " ..")]
        {
            let file = repository.join(name);
            fs::write(&file, whole).unwrap();
            assert_eq!(judged(), whole.is_empty(), "{name}: {whole:?}");
            fs::remove_file(&file).unwrap();
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            assert!(!judged(), "{name} is a pipe");
            fs::remove_file(&file).unwrap();
        }
        assert!(judged());
    }
}
