//! The contents of files, written as a stream that `git fast-import` reads: bytes as we read them, into one pack.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    time::Instant,
};

use tokio::io::AsyncWriteExt;

use super::{
    Error,
    bare::Bare,
    left::{Losses, show},
    root::Root,
    tree::{Changed, SYMLINK},
};
use crate::git::Feed;

const CHUNK_BYTES: usize = 64 * 1024;

/// Reads files and links into the repository; gives the id of each content by its place among `files`. A file without one is
/// among the losses.
pub async fn contents(
    bare: &Bare,
    root: &mut Root,
    files: &[&Changed],
    deadline: Instant,
    losses: &mut Losses,
) -> Result<BTreeMap<usize, String>, Error> {
    if files.is_empty() {
        return Ok(BTreeMap::new());
    }
    let marks = bare.dir().join("marks");
    let export = format!("--export-marks={}", marks.display());
    let feed = async |feed: &mut Feed| {
        for (n, one) in files.iter().enumerate() {
            if Instant::now() > deadline {
                losses.add(&one.path, one.bytes, "there was no time left to read it");
            } else {
                let mark = n + 1;
                content(feed, root, one, mark, losses).await?;
            }
        }
        feed.write_all(b"done\n").await
    };
    bare.git().feed(&["fast-import", "--quiet", "--force", "--done", &export], feed).await?;
    let failed = |source| Error::Scratch { path: marks.clone(), source };
    let text = fs::read_to_string(&marks).map_err(failed)?;
    let mark = |line: &str| {
        let (mark, id) = line.strip_prefix(':')?.split_once(' ')?;
        Some((mark.parse::<usize>().ok()?.checked_sub(1)?, id.to_owned()))
    };
    Ok(text.lines().filter_map(mark).collect())
}

async fn content(
    feed: &mut Feed,
    root: &mut Root,
    of: &Changed,
    mark: usize,
    losses: &mut Losses,
) -> io::Result<()> {
    let head = |length: u64| format!("blob\nmark :{mark}\ndata {length}\n");
    if of.mode == SYMLINK {
        return match root.link(&of.path) {
            Ok(target) => {
                feed.write_all(head(target.len() as u64).as_bytes()).await?;
                feed.write_all(&[&target[..], b"\n"].concat()).await
            }
            Err(error) => {
                losses.add(&of.path, 0, format!("the link cannot be read: {error}"));
                Ok(())
            }
        };
    }
    match root.file(&of.path) {
        // What has grown meanwhile could be too large by now.
        Ok((mut file, length)) => {
            let length = length.min(of.bytes);
            feed.write_all(head(length).as_bytes()).await?;
            file_content(feed, &mut file, &of.path, length, losses).await
        }
        Err(error) => {
            losses.add(&of.path, of.bytes, format!("it cannot be read: {error}"));
            Ok(())
        }
    }
}

/// Exactly as many bytes as announced, even if somebody cuts the file meanwhile.
async fn file_content(
    feed: &mut Feed,
    file: &mut fs::File,
    path: &[u8],
    length: u64,
    losses: &mut Losses,
) -> io::Result<()> {
    let (mut buffer, mut left) = (vec![0; CHUNK_BYTES], length);
    let mut is_broken = false;
    while left > 0 {
        let want = CHUNK_BYTES.min(usize::try_from(left).unwrap_or(CHUNK_BYTES));
        let read = if is_broken { Ok(0) } else { file.read(&mut buffer[..want]) };
        let count = match read {
            Ok(count @ 1..) => count,
            broken => {
                if !is_broken {
                    let why = broken
                        .err()
                        .map_or_else(|| "it became shorter".to_owned(), |error| error.to_string());
                    losses.add(
                        path,
                        left,
                        format!("{} is kept in part: {why}; the rest is zeros", show(path)),
                    );
                }
                is_broken = true;
                buffer.fill(0);
                want
            }
        };
        feed.write_all(&buffer[..count]).await?;
        left -= count as u64;
    }
    feed.write_all(b"\n").await
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
