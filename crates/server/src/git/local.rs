//! A repository in a directory of this machine that an administrator has not named by himself. Git follows symbolic
//! links, `.git` files, `commondir` and alternates to wherever they lead, with the rights of the server's user. So each
//! of them has to stay inside `git.allow_paths`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::domain::repository::{Opened, Refusal, judge_path};

/// Entries of a repository that are looked at. One with more is for an administrator to name.
const ENTRIES_MAX: usize = 200_000;

/// The directory that Git may be pointed at, once everything that it leads to was judged.
pub fn git_dir(named: &Path, opened: &Opened) -> Result<PathBuf, Refusal> {
    let roots = opened.paths.iter().filter_map(|root| fs::canonicalize(root).ok()).collect();
    let mut search = Search { named, roots, seen: BTreeSet::new(), left: ENTRIES_MAX };
    let found = search.git_dir()?;
    search.walk(&found)?;
    if let Some(common) = one_line(&found.join("commondir")) {
        search.walk(&found.join(common))?;
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
                let path = text.strip_prefix("gitdir:").ok_or_else(|| self.refusal())?;
                self.real(&tree.join(path.trim()))
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
        let text = fs::read_to_string(file).map_err(|_| self.refusal())?;
        let named = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        named.map(|line| self.real(&objects.join(line))).collect()
    }
}

fn one_line(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}
