//! Which files of the workspace are kept: what Git tracks, and what is there and not ignored. Files of repositories
//! inside are among them, which Git itself would leave out.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

use tokio::io::AsyncWriteExt;

use super::{Error, bare::Bare, blob};
use crate::git::{self, Git, is_real_dir};

/// More than any work tree has; beyond it somebody fills the disk with names.
const FILES_MAX: usize = 2_000_000;
const MODE_FILE: &str = "100644";
const MODE_PROGRAM: &str = "100755";
pub const MODE_SYMLINK: &str = "120000";
const MODE_GITLINK: &str = "160000";

/// What stands under a path. Paths are relative to the workspace, in bytes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File {
        executable: bool,
        /// The blob that Git has of it already.
        known: Option<String>,
    },
    Symlink {
        /// The blob that Git has of its target already.
        known: Option<String>,
    },
    /// A commit of another repository, whose files are not here.
    Gitlink { commit: String },
}

impl Kind {
    /// As a tree of Git has it.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::File { executable: true, .. } => MODE_PROGRAM,
            Self::File { executable: false, .. } => MODE_FILE,
            Self::Symlink { .. } => MODE_SYMLINK,
            Self::Gitlink { .. } => MODE_GITLINK,
        }
    }

    /// Whether it is what a tree has under this mode and id.
    fn is(&self, mode: &str, id: &str) -> bool {
        let known = match self {
            Self::File { known, .. } | Self::Symlink { known } => known.as_deref(),
            Self::Gitlink { commit } => Some(commit.as_str()),
        };
        self.mode() == mode && known == Some(id)
    }
}

pub type Files = BTreeMap<Vec<u8>, Kind>;

/// What a workspace holds.
pub struct Listed {
    pub files: Files,
    /// Whether it is exactly what the parent holds.
    pub is_parent: bool,
}

pub async fn list(
    bare: &Bare,
    workspace: &Path,
    parent: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Listed, Error> {
    let git = bare.looking_at(workspace);
    if let Some(parent) = parent {
        git.run(&["read-tree", parent]).await?;
    }
    let tracked = git.bytes(&["ls-files", "-z", "--stage"]).await?;
    let tracked: Vec<_> = parts(&tracked).filter_map(staged).collect();
    let blobs = tracked.iter().filter(|(mode, ..)| *mode != MODE_GITLINK).map(|(_, id, _)| *id).collect();
    let sizes = bare.sizes(&blobs).await?;
    let mut files = Files::new();
    for &(mode, id, path) in &tracked {
        if mode != MODE_GITLINK {
            add(workspace, path, &mut files, notes);
            // Only what is listed is read: it lies behind no link.
            if let (Some(size), Some(Kind::File { known, .. } | Kind::Symlink { known })) =
                (sizes.get(id), files.get_mut(path))
            {
                *known = blob::holds(workspace, path, id, *size).then(|| id.to_owned());
            }
        } else if !has_entries(&workspace.join(OsStr::from_bytes(path))) {
            files.insert(path.to_owned(), Kind::Gitlink { commit: id.to_owned() });
        }
    }
    let found = Found::walk(workspace, notes);
    let ignored = if found.odd_ignore_file {
        notes.push("a .gitignore is no file; what is ignored is kept as well".to_owned());
        Vec::new()
    } else {
        ignored(&git, &found.paths).await?
    };
    let ignored: HashSet<&[u8]> = parts(&ignored).collect();
    for path in found.paths.iter().filter(|path| !ignored.contains(path.as_slice())) {
        if !files.contains_key(path) {
            add(workspace, path, &mut files, notes);
        }
    }
    for dir in found.repositories {
        let below = [&dir[..], b"/"].concat();
        if files.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below)) {
            notes.push(format!(
                "{} is a repository of its own; its files are kept as plain files",
                show(&dir)
            ));
        }
    }
    let is_same =
        |&(mode, id, path): &(&str, &str, &[u8])| files.get(path).is_some_and(|kind| kind.is(mode, id));
    let is_parent = parent.is_some() && files.len() == tracked.len() && tracked.iter().all(is_same);
    Ok(Listed { files, is_parent })
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
        let executable = meta.permissions().mode() & 0o100 != 0;
        files.insert(path.to_owned(), Kind::File { executable, known: None });
    } else if meta.is_symlink() {
        files.insert(path.to_owned(), Kind::Symlink { known: None });
    } else if !meta.is_dir() {
        notes.push(format!("{} is not kept: it is neither a file nor a link", show(path)));
    }
}

/// What lies in the workspace. Git is not asked: on its own way through a work tree it opens what it takes for
/// another repository, and a pipe in there would hold it for ever.
#[derive(Debug, Default)]
struct Found {
    /// All that is no directory, except what belongs to Git.
    paths: Vec<Vec<u8>>,
    /// Directories that are repositories, or look like one.
    repositories: Vec<Vec<u8>>,
    odd_ignore_file: bool,
}

impl Found {
    fn walk(workspace: &Path, notes: &mut Vec<String>) -> Self {
        let (mut found, mut dirs) = (Self::default(), vec![Vec::new()]);
        while let Some(dir) = dirs.pop() {
            if let Err(error) = found.look_into(workspace, &dir, &mut dirs) {
                notes.push(format!("{}/ is not kept whole: {error}", show(&dir)));
            }
        }
        found
    }

    fn look_into(&mut self, workspace: &Path, dir: &[u8], dirs: &mut Vec<Vec<u8>>) -> io::Result<()> {
        for entry in fs::read_dir(workspace.join(OsStr::from_bytes(dir)))? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            if name == ".git" {
                if !dir.is_empty() {
                    self.repositories.push(dir.to_owned());
                }
                continue;
            }
            if self.paths.len() + dirs.len() >= FILES_MAX {
                return Err(io::Error::other("there are too many files"));
            }
            // A link under this name is not followed by Git either.
            self.odd_ignore_file |= name == ".gitignore" && !kind.is_file() && !kind.is_symlink();
            let path = if dir.is_empty() {
                name.as_bytes().to_owned()
            } else {
                [dir, b"/", name.as_bytes()].concat()
            };
            if kind.is_dir() { dirs.push(path) } else { self.paths.push(path) }
        }
        Ok(())
    }
}

/// Those of `paths` that are ignored, each closed by a zero.
async fn ignored(git: &Git, paths: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let feed = async |feed: &mut git::Feed| {
        for path in paths {
            feed.write_all(path).await?;
            feed.write_all(b"\0").await?;
        }
        Ok(())
    };
    match git.feed(&["check-ignore", "-z", "--no-index", "--stdin"], feed).await {
        // None of them is.
        Err(git::Error::Failed { code: Some(1), .. }) => Ok(Vec::new()),
        ignored => Ok(ignored?),
    }
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
