//! The output of the main command, kept in two files of half the limit each. The init has no right to rename files in the
//! sandbox's directory, so a full `log` is copied over the older `log.1` and begun anew.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub struct Log {
    pipe: Option<File>,
    new: File,
    old: File,
    half_bytes: u64,
    written: u64,
}

impl Log {
    /// Goes on at the end of what an earlier sandbox has left.
    pub fn new(pipe: OwnedFd, mut new: File, old: File, limit_bytes: u64) -> Self {
        let written = new.seek(SeekFrom::End(0)).unwrap_or(0);
        Self { pipe: Some(File::from(pipe)), new, old, half_bytes: (limit_bytes / 2).max(4096), written }
    }

    /// Where output arrives, until all who could write have gone.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    /// Keeps what has arrived, at most one buffer of it. Says whether there was any.
    pub fn take(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut chunk = [0; 64 * 1024];
        match pipe.read(&mut chunk) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(size) => {
                // A host whose disk is full loses output and keeps the sandbox.
                let _ = self.keep(&chunk[..size]);
                true
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                false
            }
            Err(_) => {
                self.pipe = None;
                false
            }
        }
    }

    fn keep(&mut self, chunk: &[u8]) -> io::Result<()> {
        for part in chunk.chunks(usize::try_from(self.half_bytes).unwrap_or(usize::MAX)) {
            if self.written + part.len() as u64 > self.half_bytes {
                self.rotate()?;
            }
            self.new.write_all(part)?;
            self.written += part.len() as u64;
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.old.set_len(0)?;
        self.old.seek(SeekFrom::Start(0))?;
        self.new.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.new, &mut self.old)?;
        self.new.set_len(0)?;
        self.new.seek(SeekFrom::Start(0))?;
        self.written = 0;
        Ok(())
    }
}
