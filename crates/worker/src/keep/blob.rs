//! Whether a file is what Git has already: its content is hashed here, so that a file that nobody has changed is not sent through
//! Git once more.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use sha1::{Digest, Sha1};

use super::import;

const CHUNK_BYTES: usize = 64 * 1024;

/// Whether the file, or the target of the link, has this id as a blob. What cannot be read has not. Ids of SHA-256 are not
/// compared.
pub fn holds(workspace: &Path, path: &[u8], id: &str, size: u64) -> bool {
    let path = workspace.join(OsStr::from_bytes(path));
    let found = match path.symlink_metadata() {
        Ok(meta) if meta.len() != size => return false,
        Ok(meta) if meta.is_symlink() => {
            fs::read_link(&path).and_then(|target| id_of(target.as_os_str().as_bytes(), size))
        }
        Ok(_) => import::open(&path).and_then(|(file, _)| id_of(file, size)),
        Err(_) => return false,
    };
    found.is_ok_and(|found| found == id)
}

/// The id of a blob of this size with this content. One byte more or less makes another id.
fn id_of(content: impl Read, size: u64) -> io::Result<String> {
    let mut content = content.take(size.saturating_add(1));
    let mut hash = Sha1::new_with_prefix(format!("blob {size}\0"));
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match content.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// As `git hash-object` names them.
    const EMPTY: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
    const HELLO: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    #[test]
    fn a_file_is_known_by_its_content_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("hello"), "hello\n").unwrap();
        fs::write(dir.path().join("empty"), "").unwrap();
        fs::write(dir.path().join("target"), "target").unwrap();
        symlink("hello\n", dir.path().join("link")).unwrap();
        for (path, id, size, is_held) in [
            ("hello", HELLO, 6, true),
            ("hello", HELLO, 5, false),
            ("hello", EMPTY, 6, false),
            ("empty", EMPTY, 0, true),
            ("target", HELLO, 6, false),
            ("link", HELLO, 6, true),
            ("absent", EMPTY, 0, false),
            (".", EMPTY, 0, false),
        ] {
            assert_eq!(holds(dir.path(), path.as_bytes(), id, size), is_held, "{path} {id} {size}");
        }
    }
}
