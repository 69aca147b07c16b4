//! The control socket's language: one JSON line per request or answer, with descriptors beside its first byte.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Door, Exec, Exit, Refusal, Usage};

/// No line may be longer, in either direction.
pub const LINE_BYTES_MAX: usize = 256 * 1024;
/// No line may carry more descriptors. The kernel's own limit is 253.
pub const FDS_MAX: usize = 16;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Doors,
    Status,
    /// Answered with [`Reply::Status`] when the main command has ended.
    Wait,
    Usage,
    /// Comes with three descriptors: standard input, output and error.
    Exec(Exec),
    Stop {
        grace_ms: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Comes with a descriptor for each door, in this order.
    Doors(Vec<Door>),
    /// `None` while the main command runs.
    Status {
        exit: Option<Exit>,
        execs: usize,
    },
    Usage(Usage),
    Started {
        pid: i32,
    },
    Exited(Exit),
    Stopping,
    Refused(Refusal),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no sandbox answers in {dir}: {source}; it has ended or was never started")]
    Absent { dir: PathBuf, source: io::Error },
    #[error("sandbox does not answer: {0}; kill it with `omoi-launcher kill`")]
    Silent(#[source] io::Error),
    #[error("sandbox closed the connection without an answer; it is ending")]
    Closed,
    #[error("line longer than {LINE_BYTES_MAX} bytes")]
    Long,
    #[error("answer is not understood: {0}; launcher and server are of different versions")]
    Strange(String),
    #[error("sandbox refused: {0}")]
    Refused(#[from] Refusal),
    #[error("launcher {program} cannot be run: {source}; see that it is installed and executable")]
    Program { program: PathBuf, source: io::Error },
    #[error("launcher failed: {0}")]
    Launcher(String),
    #[error("{path} cannot be read: {source}")]
    File { path: PathBuf, source: io::Error },
}

pub fn send(socket: impl AsFd, line: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
    let mut bytes = serde_json::to_vec(line).map_err(|error| Error::Strange(error.to_string()))?;
    bytes.push(b'\n');
    if bytes.len() > LINE_BYTES_MAX {
        return Err(Error::Long);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Error::Strange(format!("{} descriptors are more than {FDS_MAX}", fds.len())));
    }
    let mut sent = 0;
    while sent < bytes.len() {
        let part = [IoSlice::new(&bytes[sent..])];
        sent += sendmsg(&socket, &part, &mut control, SendFlags::NOSIGNAL)
            .map_err(|error| Error::Silent(error.into()))?;
        control.clear();
    }
    Ok(())
}

/// What has arrived and is not a whole line yet.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Inbox {
    /// Reads once. `Ok(false)` means that the other side has closed.
    pub fn fill(&mut self, socket: impl AsFd) -> Result<bool, Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut chunk = [0; 16 * 1024];
        let got = recvmsg(socket, &mut [IoSliceMut::new(&mut chunk)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .map_err(|error| Error::Silent(error.into()))?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.bytes.extend_from_slice(&chunk[..got.bytes]);
        if self.bytes.len() > LINE_BYTES_MAX || self.fds.len() > FDS_MAX {
            return Err(Error::Long);
        }
        Ok(got.bytes > 0)
    }

    /// The next whole line and the descriptors that have come with it.
    pub fn line<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<OwnedFd>)>, Error> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        let value = serde_json::from_slice(&line).map_err(|error| Error::Strange(error.to_string()))?;
        Ok(Some((value, std::mem::take(&mut self.fds))))
    }

    /// Waits for a line.
    pub fn take<T: DeserializeOwned>(&mut self, socket: impl AsFd) -> Result<(T, Vec<OwnedFd>), Error> {
        loop {
            if let Some(found) = self.line()? {
                return Ok(found);
            }
            if !self.fill(&socket)? {
                return Err(Error::Closed);
            }
        }
    }
}
