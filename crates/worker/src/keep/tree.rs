//! Which files of the workspace are kept: what Git tracks, and what is there and not ignored. Files of repositories
//! inside are among them, which Git itself would leave out.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::Instant,
};

use rustix::fs::Mode;
use tokio::io::AsyncWriteExt;

use super::{
    Error,
    bare::Bare,
    commit::{Entry, GITLINK},
    import::quoted,
    left::{Losses, Notes, show},
    root::Root,
    walk::{Found, Item, What},
};
use crate::git::{self, Git, is_real_dir};

/// A file or a link whose content may not be in the repository yet. Paths are relative to the workspace, in bytes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    pub path: Vec<u8>,
    /// As Git writes it: of a file, or of a link.
    pub mode: &'static str,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct Tree {
    /// As it is in the commit that the work goes on from.
    pub before: BTreeMap<Vec<u8>, Entry>,
    /// What stays as it was.
    pub same: BTreeMap<Vec<u8>, Entry>,
    pub changed: Vec<Changed>,
}

pub async fn list(
    bare: &Bare,
    workspace: &Path,
    root: &mut Root,
    parent: Option<&str>,
    deadline: Instant,
    (notes, losses): (&mut Notes, &mut Losses),
) -> Result<Tree, Error> {
    let git = bare.looking_at(workspace);
    if let Some(parent) = parent {
        git.run(&["read-tree", parent]).await?;
    }
    let tracked = git.bytes(&["ls-files", "-z", "--stage"]).await?;
    let mut tree = Tree { before: parts(&tracked).filter_map(staged).collect(), ..Tree::default() };
    let found = Found::walk(root, deadline, notes);
    let ignored = ignored(&git, &found.items).await?;
    for Item { path, asked, what } in found.items {
        if !tree.before.contains_key(&path) && ignored.contains(&path[..asked]) {
            continue;
        }
        match what {
            What::File { bytes, mode } => match root.make_readable(&path, mode) {
                Ok(()) => tree.changed.push(Changed { path, mode: mode_of(mode), bytes }),
                Err(error) => {
                    losses.add(&path, bytes, format!("it cannot be made readable: {error}"));
                    tree.stays(&path);
                }
            },
            What::Symlink => tree.changed.push(Changed { path, mode: SYMLINK, bytes: 0 }),
            What::Unread { why } => {
                losses.add(&[&path[..], b"/"].concat(), 0, format!("the directory cannot be read: {why}"));
                tree.stays_below(&path);
            }
        }
    }
    let links: Vec<_> =
        tree.before.iter().filter(|(_, entry)| entry.mode == GITLINK).map(|(path, _)| path.clone()).collect();
    for path in links.into_iter().filter(|path| !has_entries(&workspace.join(OsStr::from_bytes(path)))) {
        tree.stays(&path);
    }
    tree.changed.sort_by(|one, other| one.path.cmp(&other.path));
    for dir in found.repositories {
        let below = [&dir[..], b"/"].concat();
        let first = tree.changed.partition_point(|file| file.path < below);
        if tree.changed.get(first).is_some_and(|file| file.path.starts_with(&below)) {
            notes.push(format!(
                "{} is a repository of its own; its files are kept as plain files",
                show(&dir)
            ));
        }
    }
    same(bare, &git, &mut tree).await?;
    Ok(tree)
}

pub const SYMLINK: &str = "120000";

fn mode_of(mode: Mode) -> &'static str {
    if mode.contains(Mode::XUSR) { "100755" } else { "100644" }
}

impl Tree {
    /// What cannot be read stays as it was before, so that it does not look as if it were deleted.
    pub fn stays(&mut self, path: &[u8]) {
        if let Some(entry) = self.before.get(path) {
            self.same.insert(path.to_owned(), entry.clone());
        }
    }

    fn stays_below(&mut self, dir: &[u8]) {
        let below = if dir.is_empty() { Vec::new() } else { [dir, b"/"].concat() };
        let inside = self.before.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below));
        self.same.extend(inside.map(|(path, entry)| (path.clone(), entry.clone())));
    }
}

/// Finds the files whose content the repository has under the same path, so that they are not read into it again.
async fn same(bare: &Bare, git: &Git, tree: &mut Tree) -> Result<(), Error> {
    let tracked = |file: &Changed| tree.before.get(&file.path).filter(|_| file.mode != SYMLINK);
    let ids: Vec<&str> = tree.changed.iter().filter_map(|file| Some(tracked(file)?.id.as_str())).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let feed = async |feed: &mut git::Feed| {
        for id in &ids {
            feed.write_all(format!("{id}\n").as_bytes()).await?;
        }
        Ok(())
    };
    let sizes = bare.git().feed(&["cat-file", "--batch-check=%(objectname) %(objectsize)"], feed).await?;
    let sizes = String::from_utf8_lossy(&sizes).into_owned();
    let sizes: BTreeMap<&str, u64> = sizes
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(id, size)| Some((id, size.parse().ok()?)))
        .collect();
    let alike: Vec<usize> = (0..tree.changed.len())
        .filter(|n| {
            let file = &tree.changed[*n];
            tracked(file).is_some_and(|before| sizes.get(before.id.as_str()) == Some(&file.bytes))
        })
        .collect();
    let feed = async |feed: &mut git::Feed| {
        for n in &alike {
            feed.write_all(&[quoted(&tree.changed[*n].path), b"\n".to_vec()].concat()).await?;
        }
        Ok(())
    };
    let hashes = match git.feed(&["hash-object", "--no-filters", "--stdin-paths"], feed).await {
        Ok(hashes) => String::from_utf8_lossy(&hashes).into_owned(),
        // One that cannot be read ends the answer for all; each is then read by us.
        Err(git::Error::Failed { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut is_same = vec![false; tree.changed.len()];
    for (n, id) in alike.into_iter().zip(hashes.lines()) {
        let file = &tree.changed[n];
        if tree.before.get(&file.path).is_some_and(|before| before.id == id) {
            let entry = Entry { mode: file.mode.to_owned(), id: id.to_owned() };
            tree.same.insert(file.path.clone(), entry);
            is_same[n] = true;
        }
    }
    let mut n = 0..;
    tree.changed.retain(|_| !n.next().is_some_and(|n| is_same[n]));
    Ok(())
}

pub fn parts(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|byte| *byte == 0).filter(|part| !part.is_empty())
}

/// `MODE ID STAGE\tPATH`
fn staged(entry: &[u8]) -> Option<(Vec<u8>, Entry)> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let mut fields = std::str::from_utf8(&entry[..tab]).ok()?.split(' ');
    let (mode, id) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    Some((entry[tab + 1..].to_owned(), Entry { mode, id }))
}

/// What of the paths that are asked about is ignored.
async fn ignored(git: &Git, items: &[Item]) -> Result<HashSet<Vec<u8>>, Error> {
    let mut asked: Vec<&[u8]> = items.iter().map(|item| &item.path[..item.asked]).collect();
    asked.retain(|path| !path.is_empty());
    asked.dedup();
    Ok(git.ignored(asked).await?)
}

fn has_entries(dir: &Path) -> bool {
    is_real_dir(dir) && fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}
