//! Tar archives, plain or compressed, read as they come and into a [`Tree`] alone.

use std::{
    borrow::Cow,
    cell::Cell,
    ffi::OsStr,
    fs::File,
    io::{self, BufReader, Read, Seek},
    os::unix::ffi::OsStrExt,
    path::Path,
    rc::Rc,
};

use tar::{Archive, EntryType};

use super::{
    Error, Limits,
    tree::{Owner, Tree},
};

/// Names and properties of one entry. They are held in memory, so this bounds it.
const HEADER_BYTES_MAX: u64 = 1 << 20;
/// What an entry takes in an archive beside its content, amply.
const ENTRY_BYTES: u64 = 4096;
/// The largest window of a zstd stream, as a power of two: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Names with which one tool marks things of its own.
const MARK: &[u8] = b".wh..wh.";

pub type Entry<'a> = tar::Entry<'a, Gate>;

/// The archive in a file, whatever it is compressed with.
pub fn open(file: &File, path: &Path) -> Result<Box<dyn Read>, Error> {
    let failed = || Error::file(path);
    let mut file = file.try_clone().map_err(failed())?;
    file.rewind().map_err(failed())?;
    let mut magic = [0; 6];
    let got = read_some(&mut file, &mut magic).map_err(failed())?;
    file.rewind().map_err(failed())?;
    let file = BufReader::with_capacity(1 << 16, file);
    match &magic[..got] {
        [0x1f, 0x8b, ..] => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(file))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(file).map_err(failed())?;
            decoder.window_log_max(WINDOW_LOG_MAX).map_err(failed())?;
            Ok(Box::new(decoder))
        }
        [0xfd, b'7', b'z', b'X', b'Z', ..] | [b'B', b'Z', b'h', ..] => {
            Err(Error::refused(path, "is compressed with xz or bzip2; make it .tar, .tar.gz or .tar.zst"))
        }
        _ => Ok(Box::new(file)),
    }
}

/// Calls `each` for every entry in turn.
pub fn walk(
    reader: Box<dyn Read>,
    path: &Path,
    limits: Limits,
    mut each: impl FnMut(&mut Entry<'_>) -> Result<Next, Error>,
) -> Result<(), Error> {
    let taken = Rc::new(Taken::default());
    let total = limits.bytes_max.saturating_add(limits.files_max.saturating_mul(ENTRY_BYTES));
    taken.total_left.set(total);
    taken.left.set(HEADER_BYTES_MAX);
    let mut archive = Archive::new(Gate { inner: reader, taken: taken.clone() });
    let damaged = |error: io::Error| Error::refused(path, format!("is no whole tar archive: {error}"));
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        taken.left.set(u64::MAX);
        let (begin, stored) = (taken.total_left.get(), stored(&entry));
        if each(&mut entry)? == Next::Stop {
            return Ok(());
        }
        // What is left of its content is passed over on the way to the next one.
        let rest = stored.saturating_sub(begin - taken.total_left.get());
        taken.left.set(rest.saturating_add(HEADER_BYTES_MAX));
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    More,
    Stop,
}

/// Puts a whole archive into a tree.
pub fn unpack(reader: Box<dyn Read>, path: &Path, limits: Limits, tree: &mut Tree) -> Result<(), Error> {
    walk(reader, path, limits, |entry| put(entry, tree).map(|()| Next::More))
}

/// Puts a layer over what the layers below it have left. What it hides of theirs goes first, since a layer hides nothing of
/// its own.
pub fn unpack_layer(file: &File, path: &Path, limits: Limits, tree: &mut Tree) -> Result<(), Error> {
    walk(open(file, path)?, path, limits, |entry| hide(entry, tree).map(|()| Next::More))?;
    walk(open(file, path)?, path, limits, |entry| {
        if !hides(&entry.path_bytes()) {
            put(entry, tree)?;
        }
        Ok(Next::More)
    })
}

fn put(entry: &mut Entry<'_>, tree: &mut Tree) -> Result<(), Error> {
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) {
        return Ok(());
    }
    let path = Tree::plain(&entry.path_bytes())?;
    let damaged = |error: io::Error| Error::refused(&path, error.to_string());
    let header = entry.header();
    let owner = Owner {
        mode: header.mode().map_err(damaged)?,
        uid: header.uid().unwrap_or(u64::MAX),
        gid: header.gid().unwrap_or(u64::MAX),
        mtime: header.mtime().ok().and_then(|at| i64::try_from(at).ok()).unwrap_or(0).min(TIME_MAX),
    };
    let target = entry.link_name_bytes().map(Cow::into_owned);
    let target = || target.ok_or_else(|| Error::refused(&path, "is a link to nothing"));
    match kind {
        EntryType::Directory => tree.dir(&path, &owner),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let size = entry.size();
            let written = tree.file(&path, &owner, entry)?;
            if written == size {
                Ok(())
            } else {
                Err(Error::refused(&path, "the archive ends in the middle of it"))
            }
        }
        EntryType::Symlink => tree.symlink(&path, &target()?, &owner),
        EntryType::Link => tree.link(&path, &Tree::plain(&target()?)?),
        _ => tree.skip(),
    }
}

/// The year 2100: what is later is no time of a file, and some file systems have none.
const TIME_MAX: i64 = 4_102_444_800;

fn name_of(path: &[u8]) -> &[u8] {
    Path::new(OsStr::from_bytes(path)).file_name().map_or(b"", OsStrExt::as_bytes)
}

fn hides(path: &[u8]) -> bool {
    name_of(path).starts_with(WHITEOUT)
}

fn hide(entry: &Entry<'_>, tree: &Tree) -> Result<(), Error> {
    let raw = entry.path_bytes();
    if !hides(&raw) {
        return Ok(());
    }
    let path = Tree::plain(&raw)?;
    let above = path.parent().unwrap_or(Path::new(""));
    match name_of(&raw) {
        OPAQUE => tree.clear(above),
        name if name.starts_with(MARK) => Ok(()),
        name => match &name[WHITEOUT.len()..] {
            b"" | b"." | b".." => Err(Error::refused(&path, "hides no name")),
            name => tree.remove(&above.join(OsStr::from_bytes(name))),
        },
    }
}

/// How much of the archive its content takes. Holes take nothing.
fn stored(entry: &Entry<'_>) -> u64 {
    let bytes = match entry.header().entry_type() {
        EntryType::GNUSparse => entry.header().entry_size().unwrap_or(0),
        _ => entry.size(),
    };
    bytes.saturating_add(511)
}

fn read_some(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < to.len() {
        match from.read(&mut to[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

/// Lets no more through than was agreed, so that a header that claims to be huge fills no memory and a small file that
/// unpacks to a huge one comes to an end.
pub struct Gate {
    inner: Box<dyn Read>,
    taken: Rc<Taken>,
}

#[derive(Default)]
struct Taken {
    left: Cell<u64>,
    total_left: Cell<u64>,
}

impl Read for Gate {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let left = self.taken.left.get().min(self.taken.total_left.get());
        if left == 0 && !to.is_empty() {
            return Err(io::Error::other("it goes on beyond every limit"));
        }
        let most = to.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let got = self.inner.read(&mut to[..most])?;
        self.taken.left.set(self.taken.left.get() - got as u64);
        self.taken.total_left.set(self.taken.total_left.get() - got as u64);
        Ok(got)
    }
}
