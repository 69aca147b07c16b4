//! What lies in the work tree. Git is not asked: on its own way through a work tree it opens what it takes for another
//! repository, and a pipe in there would hold it for ever.

use std::{io, time::Instant};

use rustix::fs::{FileType, Mode};

use super::{
    left::{Notes, show},
    root::{Entry, Root},
};

/// More than any work tree has; beyond it somebody fills the disk with names.
const FILES_MAX: usize = 2_000_000;
/// All paths together, which are held in memory.
const PATH_BYTES_MAX: usize = 256 << 20;
/// The longest path that Git can be asked about: with the path of the work tree and a name below, it is within `PATH_MAX`.
pub const ASKED_BYTES_MAX: usize = 3072;
/// Rules of what is ignored that are larger are not read.
const IGNORE_BYTES_MAX: u64 = 4 << 20;
/// What the `.git` of a submodule or a linked work tree begins with, where it is a file.
const LINKED: &[u8] = b"gitdir: ";

/// Something that is no directory, or a directory that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Relative to the work tree, in bytes as they are.
    pub path: Vec<u8>,
    /// How much of the path says whether it is ignored: all of it, or a directory above.
    pub asked: usize,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    File { bytes: u64, mode: Mode },
    Symlink,
    Unread { why: String },
}

#[derive(Debug, Default)]
pub struct Found {
    pub items: Vec<Item>,
    /// Directories that are repositories, or look like one.
    pub repositories: Vec<Vec<u8>>,
    path_bytes: usize,
}

struct Pending {
    path: Vec<u8>,
    asked: usize,
}

impl Found {
    /// Ends at the deadline: directories that were not looked into by then are items that could not be read.
    pub fn walk(root: &mut Root, deadline: Instant, notes: &mut Notes) -> Self {
        let (mut found, mut dirs) = (Self::default(), vec![Pending { path: Vec::new(), asked: 0 }]);
        while let Some(dir) = dirs.pop() {
            let looked = if Instant::now() > deadline {
                Err(io::Error::other("there was no time left to look into it"))
            } else if found.items.len() + dirs.len() > FILES_MAX {
                Err(io::Error::other(format!("the work tree has more than {FILES_MAX} files")))
            } else if found.path_bytes > PATH_BYTES_MAX {
                Err(too_many_bytes())
            } else {
                root.entries(&dir.path)
            };
            match looked {
                Ok(entries) => found.look_into(root, &dir, entries, &mut dirs, notes),
                Err(error) => {
                    let what = What::Unread { why: error.to_string() };
                    found.items.push(Item { path: dir.path, asked: dir.asked, what });
                }
            }
        }
        found
    }

    fn look_into(
        &mut self,
        root: &mut Root,
        dir: &Pending,
        entries: Vec<Entry>,
        dirs: &mut Vec<Pending>,
        notes: &mut Notes,
    ) {
        let asks = dir.asked == dir.path.len() && can_be_asked(root, dir, &entries, notes);
        for Entry { name, kind, bytes, mode } in entries {
            if self.path_bytes > PATH_BYTES_MAX {
                let what = What::Unread { why: too_many_bytes().to_string() };
                self.items.push(Item { path: dir.path.clone(), asked: dir.asked, what });
                return;
            }
            let path = if dir.path.is_empty() { name.clone() } else { [&dir.path[..], b"/", &name].concat() };
            self.path_bytes += path.len();
            if name == b".git" && !(kind == FileType::RegularFile && is_plain(root, &path, mode)) {
                if !dir.path.is_empty() {
                    self.repositories.push(dir.path.clone());
                }
                continue;
            }
            let asked = if asks && path.len() <= ASKED_BYTES_MAX { path.len() } else { dir.asked };
            let what = match kind {
                FileType::Directory => {
                    dirs.push(Pending { path, asked });
                    continue;
                }
                FileType::RegularFile => What::File { bytes, mode },
                FileType::Symlink => What::Symlink,
                _ => {
                    notes.push(format!("{} is not kept: it is neither a file nor a link", show(&path)));
                    continue;
                }
            };
            self.items.push(Item { path, asked, what });
        }
    }
}

fn too_many_bytes() -> io::Error {
    io::Error::other(format!("the paths of the work tree have more than {PATH_BYTES_MAX} bytes"))
}

/// Whether Git can be asked what is ignored in a directory. A link that is called `.gitignore` it does not follow.
fn can_be_asked(root: &mut Root, dir: &Pending, entries: &[Entry], notes: &mut Notes) -> bool {
    let Some(rules) = entries.iter().find(|entry| entry.name == b".gitignore") else { return true };
    let path = [&dir.path[..], if dir.path.is_empty() { b"" } else { b"/" }, b".gitignore"].concat();
    let odd = match rules.kind {
        FileType::Symlink => return true,
        FileType::RegularFile if rules.bytes <= IGNORE_BYTES_MAX => {
            root.make_readable(&path, rules.mode).err().map(|error| error.to_string())
        }
        FileType::RegularFile => Some(format!("it has {} bytes", rules.bytes)),
        _ => Some("it is no file".to_owned()),
    };
    match odd {
        None => true,
        Some(why) => {
            notes.push(format!(
                "{} cannot be used as an ignore file ({why}); files it may ignore are kept",
                show(&path)
            ));
            false
        }
    }
}

/// A file called `.git` that leads to no repository.
fn is_plain(root: &mut Root, path: &[u8], mode: Mode) -> bool {
    use std::io::Read;
    let mut start = [0; LINKED.len()];
    let opened = root.make_readable(path, mode).and_then(|()| root.file(path));
    let read = opened.and_then(|(mut file, _)| file.read(&mut start));
    !read.is_ok_and(|count| start[..count] == *LINKED)
}
