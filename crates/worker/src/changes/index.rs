//! The index that a shadow begins with: a copy of the repository's own. It remembers of each file, besides its time and inode,
//! who owned it where the index was written. A sandbox sees other owners, and Git would read every file anew because
//! of that; so the copy is told who owns them here. A file that was changed has another time all the same.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// A larger one is not worth it.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
const HEADER_BYTES: usize = 12;
/// Where an entry has its owner and the owner's group, and where the name of its content begins.
const OWNER: usize = 28;
const GROUP: usize = 32;
const ID: usize = 40;
const NAME_LENGTH: u16 = 0x0fff;
const EXTENDED: u16 = 0x4000;

/// With its time, by which Git tells what may have changed while the index was written.
pub fn copy(from: &Path, to: &Path, id_bytes: usize, as_owned_here: bool) -> io::Result<()> {
    let meta = from.symlink_metadata()?;
    if !meta.is_file() || meta.len() > BYTES_MAX {
        return Err(io::Error::other("it is no ordinary file"));
    }
    let mut bytes = fs::read(from)?;
    if as_owned_here && own(&mut bytes, id_bytes, meta.uid(), meta.gid()).is_none() {
        return Err(io::Error::other("it is written in another way"));
    }
    let mut file = File::create(to)?;
    file.write_all(&bytes)?;
    file.set_modified(meta.modified()?)
}

/// None if it is not as expected.
fn own(index: &mut [u8], id_bytes: usize, owner: u32, group: u32) -> Option<()> {
    if !index.starts_with(b"DIRC") || !matches!(number(index, 4)?, 2 | 3) {
        return None;
    }
    let end = index.len().checked_sub(id_bytes)?;
    let mut at = HEADER_BYTES;
    for _ in 0..number(index, 8)? {
        let entry = index.get_mut(at..end)?;
        entry.get_mut(OWNER..OWNER + 4)?.copy_from_slice(&owner.to_be_bytes());
        entry.get_mut(GROUP..GROUP + 4)?.copy_from_slice(&group.to_be_bytes());
        let flags = entry.get(ID + id_bytes..)?.first_chunk().map(|flags| u16::from_be_bytes(*flags))?;
        let name = ID + id_bytes + if flags & EXTENDED == 0 { 2 } else { 4 };
        let length = match flags & NAME_LENGTH {
            NAME_LENGTH => entry.get(name..)?.iter().position(|byte| *byte == 0)?,
            length => usize::from(length),
        };
        // Filled up to a multiple of eight, with one byte at least.
        at += (name + length + 8) & !7;
    }
    // Its sum is no longer right. Without one, Git believes it.
    index[end..].fill(0);
    (at <= end).then_some(())
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;
    use crate::git::Git;

    #[tokio::test]
    async fn whoever_owned_the_files_what_is_as_it_was_is_not_read_and_what_changed_is() {
        let temp = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
        let mut git = Git { dir: temp.path().to_owned(), env, limit: Duration::from_secs(60) };
        git.run(&["init", "--quiet", "."]).await.unwrap();
        let long = "x".repeat(100);
        for name in ["a", "b", long.as_str()] {
            fs::write(temp.path().join(name), "one\n").unwrap();
        }
        git.run(&["add", "-A"]).await.unwrap();
        // As if somebody else had written it, a while after the files.
        let (index, copied) = (temp.path().join(".git/index"), temp.path().join(".git/copied"));
        let (meta, mut bytes) = (index.metadata().unwrap(), fs::read(&index).unwrap());
        own(&mut bytes, 20, meta.uid() + 1, meta.gid() + 1).unwrap();
        fs::write(&index, bytes).unwrap();
        let later = meta.modified().unwrap() + Duration::from_secs(10);
        File::options().write(true).open(&index).unwrap().set_modified(later).unwrap();
        git.env.insert("GIT_INDEX_FILE".to_owned(), copied.display().to_string());
        let dirty = ["diff-files", "--name-only"];

        copy(&index, &copied, 20, false).unwrap();
        assert_eq!(git.text(&dirty).await.unwrap().lines().count(), 3, "other owners");
        copy(&index, &copied, 20, true).unwrap();
        assert_eq!(git.text(&dirty).await.unwrap(), "");
        fs::write(temp.path().join("b"), "two\n").unwrap();
        File::options().write(true).open(temp.path().join("b")).unwrap().set_modified(later).unwrap();
        assert_eq!(git.text(&dirty).await.unwrap(), "b");
    }

    #[test]
    fn what_is_no_index_is_left_alone() {
        for bytes in [&b""[..], b"DIRC", b"DIRC\0\0\0\x04\0\0\0\0", b"DIRC\0\0\0\x02\0\0\0\x09 and no more"] {
            assert!(own(&mut bytes.to_vec(), 20, 1, 1).is_none());
        }
    }
}
