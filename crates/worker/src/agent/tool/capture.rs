//! What a command has written, as it came: the beginning and the end in memory, the whole in a file when there is much.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_protocol::event::CommandStream;
use tokio::{
    fs::{File, OpenOptions, create_dir_all},
    io::AsyncWriteExt,
};

use super::clean::{clean, cut_middle};

/// What a model is shown of one command.
pub const TEXT_CHARS_MAX: usize = 30_000;
/// What is kept of one command in all.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Of either end: more than is shown, since colours and the like are taken out first.
const END_BYTES_MAX: usize = 128 * 1024;
/// Of either end of one stream, for the record.
const STREAM_END_BYTES_MAX: usize = 3 * 1024;
/// How long each read waits once all that is kept has been written: a flood is not worth a processor.
pub const FLOOD_PAUSE: Duration = Duration::from_millis(1);
const NAME_CHARS_MAX: usize = 100;
const NAMES_MAX: usize = 1000;

#[derive(Debug)]
pub struct Capture {
    both: Ends,
    stdout: Ends,
    stderr: Ends,
    file: Keep,
    path: PathBuf,
}

/// The whole, once there is a file for it.
#[derive(Debug)]
pub enum Keep {
    /// All fits in memory yet.
    NotYet,
    Open(File, u64),
    Failed(io::Error),
}

impl Capture {
    /// `path` is where the whole goes when it is much; another name beside it when that is taken.
    pub fn new(path: PathBuf) -> Self {
        let (both, one) = (Ends::new(END_BYTES_MAX), || Ends::new(STREAM_END_BYTES_MAX));
        Self { both, stdout: one(), stderr: one(), file: Keep::NotYet, path }
    }

    pub async fn add(&mut self, stream: &CommandStream, bytes: &[u8]) {
        match stream {
            CommandStream::Stderr => self.stderr.add(bytes),
            _ => self.stdout.add(bytes),
        }
        // Up to here nothing has left the middle.
        if matches!(self.file, Keep::NotYet) && self.both.bytes + bytes.len() as u64 > TEXT_CHARS_MAX as u64 {
            self.file = match create(&mut self.path).await {
                Ok(file) => Keep::Open(file, 0).and(&self.both.all()).await,
                Err(error) => Keep::Failed(error),
            };
        }
        self.both.add(bytes);
        self.file = std::mem::replace(&mut self.file, Keep::NotYet).and(bytes).await;
        if self.both.bytes > FILE_BYTES_MAX {
            tokio::time::sleep(FLOOD_PAUSE).await;
        }
    }

    /// For the model: all of it, or both ends and where the whole is.
    pub async fn text(&mut self) -> String {
        let shown = clean(&self.both.all());
        let lost = self.both.lost();
        if let Keep::Open(file, _) = &mut self.file
            && let Err(error) = file.flush().await
        {
            self.file = Keep::Failed(error);
        }
        let kept = match &self.file {
            Keep::Failed(error) => format!("the whole could not be kept: {error}"),
            Keep::Open(_, bytes) if *bytes < self.both.bytes => {
                format!("the first {bytes} bytes are in {}", self.path.display())
            }
            _ => format!("the whole is in {}", self.path.display()),
        };
        let note = |left_out: usize| {
            let bytes = if lost > 0 { format!(" and {lost} bytes more") } else { String::new() };
            format!("[… {left_out} characters{bytes} left out; {kept} …]")
        };
        match cut_middle(&shown, TEXT_CHARS_MAX, note) {
            Some(cut) => cut,
            // Much of it was for terminals alone.
            None if lost > 0 => format!("{shown}\n[… {lost} bytes left out in between; {kept} …]"),
            None => {
                if matches!(self.file, Keep::Open(..)) {
                    let _ = tokio::fs::remove_file(&self.path).await;
                    self.file = Keep::NotYet;
                }
                shown
            }
        }
    }

    /// Where the whole is, if it did not fit.
    pub fn file(&self) -> Option<&Path> {
        matches!(self.file, Keep::Open(..)).then_some(self.path.as_path())
    }

    pub fn stream(&self, stream: &CommandStream) -> String {
        let ends = if *stream == CommandStream::Stderr { &self.stderr } else { &self.stdout };
        let (all, lost) = (ends.all(), ends.lost());
        match lost {
            0 => clean(&all),
            _ => {
                let (head, tail) = all.split_at(ends.head.len());
                format!("{}\n[… {lost} bytes left out …]\n{}", clean(head), clean(tail))
            }
        }
    }
}

impl Keep {
    pub async fn and(self, bytes: &[u8]) -> Self {
        let Self::Open(mut file, written) = self else { return self };
        let room = FILE_BYTES_MAX.saturating_sub(written).min(bytes.len() as u64) as usize;
        match file.write_all(&bytes[..room]).await {
            Ok(()) => Self::Open(file, written + room as u64),
            Err(error) => Self::Failed(error),
        }
    }
}

/// The first and the last of many bytes.
#[derive(Debug)]
struct Ends {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    max: usize,
    bytes: u64,
}

impl Ends {
    fn new(max: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), max, bytes: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.max - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.max)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.max);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// With nothing in between when nothing was lost.
    fn all(&self) -> Vec<u8> {
        let (first, second) = self.tail.as_slices();
        [&self.head, first, second].concat()
    }

    fn lost(&self) -> u64 {
        self.bytes - (self.head.len() + self.tail.len()) as u64
    }
}

/// Whatever a call is named, in a name for a file.
pub fn file_of(outputs: &Path, id: &str) -> PathBuf {
    let plain = |next: char| if next.is_ascii_alphanumeric() || "-_".contains(next) { next } else { '_' };
    let name: String = id.chars().take(NAME_CHARS_MAX).map(plain).collect();
    outputs.join(format!("{}.txt", if name.is_empty() { "call" } else { &name }))
}

/// A new file: what another call of the same name has left stays.
pub async fn create(path: &mut PathBuf) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        create_dir_all(dir).await?;
    }
    let first = path.clone();
    let stem = first.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for number in 2..NAMES_MAX {
        match OpenOptions::new().write(true).create_new(true).open(&path).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                *path = first.with_file_name(format!("{stem}-{number}.txt"));
            }
            opened => return opened,
        }
    }
    Err(io::Error::other("there are too many files of that name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_and_no_more() {
        let mut ends = Ends::new(4);
        for piece in ["ab", "cd", "efghij", "k", "lmnopqrstuvw"] {
            ends.add(piece.as_bytes());
        }
        assert_eq!((ends.all(), ends.lost()), (b"abcdtuvw".to_vec(), 15));
        let mut few = Ends::new(4);
        few.add(b"abcdefg");
        assert_eq!((few.all(), few.lost()), (b"abcdefg".to_vec(), 0));
    }

    #[test]
    fn a_name_stays_in_its_directory() {
        let file = |id| file_of(Path::new("/o"), id);
        assert_eq!(file("toolu_01-A"), Path::new("/o/toolu_01-A.txt"));
        assert_eq!(file("../../etc/x"), Path::new("/o/______etc_x.txt"));
        assert_eq!(file(""), Path::new("/o/call.txt"));
    }
}
