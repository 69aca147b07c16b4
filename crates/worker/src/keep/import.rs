//! The commit, written as a stream that `git fast-import` reads: files as we read them, into one pack.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;
use tokio::io::AsyncWriteExt;

use super::{
    Error,
    bare::Bare,
    tree::{self, Files, Kind, show},
};
use crate::{git::Feed, report::now};

const CHUNK_BYTES: usize = 64 * 1024;

pub struct Import<'a> {
    pub name: &'a str,
    pub parent: Option<&'a str>,
    /// Tips of other branches, which become reachable with it.
    pub others: &'a [String],
}

impl Import<'_> {
    /// The new commit.
    pub async fn run(
        &self,
        bare: &Bare,
        workspace: &Path,
        files: &Files,
        notes: &mut Vec<String>,
    ) -> Result<String, Error> {
        let feed = async |feed: &mut Feed| {
            self.head(feed).await?;
            for (path, kind) in files {
                let mode = kind.mode();
                match kind {
                    Kind::File { known: Some(id), .. }
                    | Kind::Symlink { known: Some(id) }
                    | Kind::Gitlink { commit: id } => {
                        feed.write_all(format!("M {mode} {id} ").as_bytes()).await?;
                        feed.write_all(&[quoted(path), b"\n".to_vec()].concat()).await?;
                    }
                    Kind::File { known: None, .. } => file(feed, workspace, path, mode, notes).await?,
                    Kind::Symlink { known: None } => link(feed, workspace, path, notes).await?,
                }
            }
            feed.write_all(b"done\n").await
        };
        bare.git().feed(&["fast-import", "--quiet", "--force", "--done", "--date-format=raw"], feed).await?;
        Ok(bare.git().text(&["rev-parse", "--verify", self.name]).await?)
    }

    async fn head(&self, feed: &mut Feed) -> io::Result<()> {
        let message = "Keep what was left in the workspace\n";
        let mut head = format!(
            "commit {}\ncommitter Omoi <sandbox@omoi.invalid> {} +0000\ndata {}\n{message}",
            self.name,
            now().as_second(),
            message.len(),
        );
        if let Some(parent) = self.parent {
            head += &format!("from {parent}\n");
        }
        for other in self.others {
            head += &format!("merge {other}\n");
        }
        head += "deleteall\n";
        feed.write_all(head.as_bytes()).await
    }
}

/// Exactly as many bytes as announced, even if somebody cuts the file meanwhile.
async fn file(
    feed: &mut Feed,
    workspace: &Path,
    path: &[u8],
    mode: &str,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    let (mut file, length) = match open(&workspace.join(OsStr::from_bytes(path))) {
        Ok(opened) => opened,
        Err(error) => {
            notes.push(format!("{} is not kept: {error}", show(path)));
            return Ok(());
        }
    };
    entry(feed, mode, path, length).await?;
    let (mut buffer, mut left) = (vec![0; CHUNK_BYTES], length);
    while left > 0 {
        let want = CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
        let count = match file.read(&mut buffer[..want]) {
            Ok(count @ 1..) => count,
            broken => {
                let why =
                    broken.err().map_or_else(|| "it became shorter".to_owned(), |error| error.to_string());
                notes.push(format!("{} is not kept whole: {why}; the rest is zeros", show(path)));
                buffer.fill(0);
                want
            }
        };
        feed.write_all(&buffer[..count]).await?;
        left -= count as u64;
    }
    feed.write_all(b"\n").await
}

async fn link(feed: &mut Feed, workspace: &Path, path: &[u8], notes: &mut Vec<String>) -> io::Result<()> {
    match std::fs::read_link(workspace.join(OsStr::from_bytes(path))) {
        Ok(target) => {
            let target = target.as_os_str().as_bytes();
            entry(feed, tree::MODE_SYMLINK, path, target.len() as u64).await?;
            feed.write_all(&[target, b"\n"].concat()).await
        }
        Err(error) => {
            notes.push(format!("{} is not kept: {error}", show(path)));
            Ok(())
        }
    }
}

async fn entry(feed: &mut Feed, mode: &str, path: &[u8], length: u64) -> io::Result<()> {
    feed.write_all(format!("M {mode} inline ").as_bytes()).await?;
    feed.write_all(&quoted(path)).await?;
    feed.write_all(format!("\ndata {length}\n").as_bytes()).await
}

/// An ordinary file, through no link, and its length.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() { Ok((file, meta.len())) } else { Err(io::Error::other("it is no ordinary file")) }
}

/// As Git quotes a path that may hold anything.
pub fn quoted(path: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            0x20..=0x7e => text.push(*byte),
            other => text.extend(format!("\\{other:03o}").into_bytes()),
        }
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_can_be_quoted() {
        assert_eq!(quoted(b"a b"), b"\"a b\"");
        assert_eq!(quoted(b"a\"b\\c\nd\xff"), b"\"a\\\"b\\\\c\\012d\\377\"");
    }
}
