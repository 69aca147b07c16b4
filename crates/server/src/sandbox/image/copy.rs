//! A directory of this machine, copied into a [`Tree`] without following a link.

use std::{
    collections::HashMap,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    Error,
    tree::{Owner, Tree},
};

/// Files with several names, by device and number.
type Names = HashMap<(u64, u64), PathBuf>;

pub fn copy(source: &Path, tree: &mut Tree) -> Result<(), Error> {
    below(source, Path::new(""), tree, &mut Names::new())
}

fn below(source: &Path, at: &Path, tree: &mut Tree, names: &mut Names) -> Result<(), Error> {
    let dir = source.join(at);
    for entry in fs::read_dir(&dir).map_err(Error::file(&dir))? {
        let entry = entry.map_err(Error::file(&dir))?;
        let path = Tree::plain(at.join(entry.file_name()).as_os_str().as_bytes())?;
        let from = entry.path();
        // Of the entry itself, also where it is a link.
        let found = entry.metadata().map_err(Error::file(&from))?;
        let owner = Owner {
            mode: found.mode(),
            uid: found.uid().into(),
            gid: found.gid().into(),
            mtime: found.mtime().max(0),
        };
        let kind = found.file_type();
        if kind.is_dir() {
            tree.dir(&path, &owner)?;
            below(source, &path, tree, names)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&from).map_err(Error::file(&from))?;
            tree.symlink(&path, target.as_os_str().as_bytes(), &owner)?;
        } else if kind.is_file() {
            file(&from, &path, &found, &owner, tree, names)?;
        } else {
            debug_assert!(
                kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
            );
            tree.skip()?;
        }
    }
    Ok(())
}

fn file(
    from: &Path,
    path: &Path,
    found: &fs::Metadata,
    owner: &Owner,
    tree: &mut Tree,
    names: &mut Names,
) -> Result<(), Error> {
    if found.nlink() > 1 {
        if let Some(first) = names.get(&(found.dev(), found.ino())) {
            return tree.link(path, first);
        }
        names.insert((found.dev(), found.ino()), path.to_owned());
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(from);
    tree.file(path, owner, &mut opened.map_err(Error::file(from))?).map(|_| ())
}
