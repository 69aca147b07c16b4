//! The client of a running sandbox's control socket. Each call is a connection of its own, so that a caller that dies leaves
//! nothing behind.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wire::{Error, Inbox, Reply, Request, send};
use crate::{Door, Exec, Exit, Usage};

/// An init answers at once or is in trouble.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Speaks to the init of the sandbox in one directory.
#[derive(Debug, Clone)]
pub struct Control {
    dir: PathBuf,
}

impl Control {
    /// Fails when no init listens there.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let control = Self { dir: dir.to_owned() };
        control.connect()?;
        Ok(control)
    }

    /// The listening sockets inside the sandbox, each with its name and port. They are handed out as often as asked for.
    pub fn doors(&self) -> Result<Vec<(Door, std::net::TcpListener)>, Error> {
        let (reply, fds) = self.ask(&Request::Doors)?;
        match reply {
            Reply::Doors(doors) if doors.len() == fds.len() => {
                Ok(doors.into_iter().zip(fds.into_iter().map(Into::into)).collect())
            }
            other => Err(unexpected(other)),
        }
    }

    /// How the main command ended, or `None` while it runs.
    pub fn status(&self) -> Result<Option<Exit>, Error> {
        match self.ask(&Request::Status)?.0 {
            Reply::Status { exit, .. } => Ok(exit),
            other => Err(unexpected(other)),
        }
    }

    /// Waits until the main command has ended.
    pub fn wait(&self) -> Result<Exit, Error> {
        let socket = self.connect()?;
        socket.set_read_timeout(None).map_err(Error::Silent)?;
        send(&socket, &Request::Wait, &[])?;
        match Inbox::default().take(&socket)?.0 {
            Reply::Status { exit: Some(exit), .. } => Ok(exit),
            other => Err(unexpected(other)),
        }
    }

    pub fn usage(&self) -> Result<Usage, Error> {
        match self.ask(&Request::Usage)?.0 {
            Reply::Usage(usage) => Ok(usage),
            other => Err(unexpected(other)),
        }
    }

    /// Asks the main command to end and returns at once; after `grace` everything is killed and the init ends.
    pub fn stop(&self, grace: Duration) -> Result<(), Error> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        match self.ask(&Request::Stop { grace_ms })?.0 {
            Reply::Stopping => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Starts a further command under the same restrictions as the main one.
    pub fn exec(&self, exec: &Exec, stdio: [BorrowedFd<'_>; 3]) -> Result<Running, Error> {
        let socket = self.connect()?;
        send(&socket, &Request::Exec(exec.clone()), &stdio)?;
        let mut inbox = Inbox::default();
        match inbox.take(&socket)?.0 {
            Reply::Started { pid } => {
                socket.set_read_timeout(None).map_err(Error::Silent)?;
                Ok(Running { socket, inbox, pid })
            }
            other => Err(unexpected(other)),
        }
    }

    fn ask(&self, request: &Request) -> Result<(Reply, Vec<std::os::fd::OwnedFd>), Error> {
        let socket = self.connect()?;
        send(&socket, request, &[])?;
        Inbox::default().take(&socket)
    }

    /// Goes by a descriptor of the directory: a socket's own path may be no longer than 107 bytes.
    fn connect(&self) -> Result<UnixStream, Error> {
        let absent = |source| Error::Absent { dir: self.dir.clone(), source };
        let dir = File::open(&self.dir).map_err(absent)?;
        let path = format!("/proc/self/fd/{}/control.sock", dir.as_raw_fd());
        let socket = UnixStream::connect(path).map_err(absent)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(Error::Silent)?;
        socket.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(Error::Silent)?;
        Ok(socket)
    }
}

/// A command that [`Control::exec`] started. Dropping it kills the command's process group.
#[derive(Debug)]
pub struct Running {
    socket: UnixStream,
    inbox: Inbox,
    pid: i32,
}

impl Running {
    /// The process id inside the sandbox.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits until the command has ended.
    pub fn wait(mut self) -> Result<Exit, Error> {
        match self.inbox.take(&self.socket)?.0 {
            Reply::Exited(exit) => Ok(exit),
            other => Err(unexpected(other)),
        }
    }
}

/// Becomes readable when the command has ended, for callers that wait on several things.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn unexpected(reply: Reply) -> Error {
    match reply {
        Reply::Refused(refusal) => Error::Refused(refusal),
        other => Error::Strange(format!("{other:?}")),
    }
}
