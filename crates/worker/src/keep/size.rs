//! Which files fit into a push, judged before they are read, and in how many pushes all of them fit.

use std::{
    io::{self, Read, Write},
    path::Path,
    time::Instant,
};

use flate2::{Compression, write::ZlibEncoder};

use super::{left::Losses, root::Root, tree::Changed};

/// What one push may bring where the launch does not say.
pub const PUSH_BYTES: u64 = 100 << 20;
/// A file so many times larger than a push is not read to find out how far it can be compressed.
const READ_TIMES: u64 = 4;
/// Files below are not measured: there is not much to compress.
const MEASURED_BYTES_MIN: u64 = 64 << 10;
const CHUNK_BYTES: usize = 256 << 10;
/// What a file takes besides its content and its path: its headers, and its entry in a directory.
const ENTRY_BYTES: u64 = 96;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// What one push may bring.
    pub push: u64,
    /// What may be written in all.
    pub room: u64,
    pub deadline: Instant,
}

impl Limits {
    pub fn new(push: u64, scratch: &Path, deadline: Instant) -> Self {
        let room = rustix::fs::statvfs(scratch).map_or(u64::MAX, |of| match of.f_blocks {
            // A file system without a size.
            0 => u64::MAX,
            _ => of.f_bavail.saturating_mul(of.f_frsize),
        });
        Self { push, room: room - room / 8, deadline }
    }

    /// What commits may take in a push that brings files as well.
    pub fn beside_files(&self) -> u64 {
        (self.push - self.share()) / 2
    }

    /// What the contents in one push may take: the commit itself takes a little as well.
    fn share(&self) -> u64 {
        self.push - (self.push / 16).min(1 << 20)
    }
}

/// Puts files into shares, each small enough for a push; small files first. What fits into none is a loss.
pub fn shares(
    root: &mut Root,
    mut files: Vec<Changed>,
    limits: &Limits,
    losses: &mut Losses,
) -> Vec<Vec<Changed>> {
    files.sort_by_key(|file| file.bytes);
    let all: u64 =
        files.iter().map(|file| file.bytes.saturating_add(entry(file))).fold(0, u64::saturating_add);
    let is_scarce = all > limits.room;
    let (mut shares, mut share, mut used, mut total) = (Vec::new(), Vec::new(), 0, 0_u64);
    for file in files {
        let bytes = match packed(root, &file, is_scarce, limits) {
            Ok(bytes) => bytes.saturating_add(entry(&file)),
            Err(why) => {
                losses.add(&file.path, file.bytes, why);
                continue;
            }
        };
        if total.saturating_add(bytes) > limits.room {
            let why = format!("there is no room left to write it ({} bytes in all)", limits.room);
            losses.add(&file.path, file.bytes, why);
            continue;
        }
        if used + bytes > limits.share() && !share.is_empty() {
            shares.push(std::mem::take(&mut share));
            used = 0;
        }
        (used, total) = (used + bytes, total + bytes);
        share.push(file);
    }
    shares.push(share);
    shares
}

fn entry(file: &Changed) -> u64 {
    ENTRY_BYTES + file.path.len() as u64
}

/// At most so many bytes its content takes in a push, or why no push can bring it.
fn packed(root: &mut Root, file: &Changed, is_scarce: bool, limits: &Limits) -> Result<u64, String> {
    let max = limits.share().saturating_sub(entry(file));
    if file.bytes <= max && !(is_scarce && file.bytes >= MEASURED_BYTES_MIN) {
        return Ok(file.bytes);
    }
    let too_large = || {
        format!("it is larger than the {} bytes that one push may bring (git.push_bytes_max)", limits.push)
    };
    if file.bytes > limits.push.saturating_mul(READ_TIMES) {
        return Err(too_large());
    }
    if Instant::now() > limits.deadline {
        return Err("there was no time left to read it".to_owned());
    }
    match compressed(root, file, max) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(too_large()),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

/// What a file takes when it is compressed; None if that is more than `max`.
fn compressed(root: &mut Root, file: &Changed, max: u64) -> io::Result<Option<u64>> {
    let (opened, _) = root.file(&file.path)?;
    let mut opened = opened.take(file.bytes);
    let mut encoder = ZlibEncoder::new(Count(0), Compression::fast());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = opened.read(&mut chunk)?;
        if count == 0 {
            let bytes = encoder.finish()?.0;
            return Ok((bytes <= max).then_some(bytes));
        }
        encoder.write_all(&chunk[..count])?;
        if encoder.get_ref().0 > max {
            return Ok(None);
        }
    }
}

/// Counts what is written and keeps nothing of it.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
