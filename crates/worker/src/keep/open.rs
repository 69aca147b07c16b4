//! The workspace's own repository, made readable to its owner before anything is looked for in it.

use std::time::Instant;

use rustix::fs::FileType;

use super::{left::Notes, root::Root};

/// Of its directories, those that refs, their logs and objects are read from.
const READ: [&[u8]; 3] = [b".git/objects", b".git/refs", b".git/logs"];
const ENTRIES_MAX: usize = 2_000_000;

/// What cannot be made readable is not there for us, as everything else that is broken in it.
pub fn repository(root: &mut Root, deadline: Instant, notes: &mut Notes) {
    let (mut dirs, mut count) = (vec![b".git".to_vec()], 0);
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = root.entries(&dir) else { continue };
        for entry in entries {
            count += 1;
            if count > ENTRIES_MAX || Instant::now() > deadline {
                notes.push("not all of .git was looked at: there are too many files in it");
                return;
            }
            let path = [&dir[..], b"/", &entry.name].concat();
            match entry.kind {
                FileType::Directory if is_read(&path) => dirs.push(path),
                FileType::RegularFile => {
                    if let Err(error) = root.make_readable(&path, entry.mode) {
                        notes.push(format!("{} cannot be read: {error}", String::from_utf8_lossy(&path)));
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_read(path: &[u8]) -> bool {
    READ.iter().any(|read| path.starts_with(read))
}
