//! One connection to the control socket, as the init keeps it. A connection whose command runs stays until the command has
//! ended; if the other side goes first, the command's process group is killed.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use omoi_launcher::wire::{Error, Inbox, Reply, Request, send};
use omoi_launcher::{Exec, Exit};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::inside::spawn::{Spawned, Spawner, started};
use crate::refuse::refusal;
use omoi_launcher::Layer;

#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    inbox: Inbox,
    command: Option<Command>,
    /// Wants to hear when the main command has ended.
    pub waits: bool,
}

#[derive(Debug)]
struct Command {
    pid: i32,
    /// Open until it is known whether the command has started.
    trouble: Option<File>,
}

impl Connection {
    pub fn new(socket: UnixStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, inbox: Inbox::default(), command: None, waits: false })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub fn trouble(&self) -> Option<BorrowedFd<'_>> {
        self.command.as_ref()?.trouble.as_ref().map(|pipe| pipe.as_fd())
    }

    /// The process whose end this connection waits for.
    pub fn pid(&self) -> Option<i32> {
        self.command.as_ref().map(|command| command.pid)
    }

    /// Reads what has arrived. An error means that the other side has gone or does not make sense.
    pub fn receive(&mut self) -> Result<Option<(Request, Vec<OwnedFd>)>, Error> {
        if !self.inbox.fill(&self.socket)? {
            return Err(Error::Closed);
        }
        self.inbox.line()
    }

    /// A peer that does not read its answers is one that has gone.
    pub fn reply(&self, reply: &Reply, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        send(&self.socket, reply, fds)
    }

    pub fn start(&mut self, spawner: &Spawner, exec: &Exec, fds: &[OwnedFd]) -> Result<(), Error> {
        let [input, output, error] = fds else {
            let detail = format!("{} descriptors came with the request", fds.len());
            let refused = refusal(Layer::Command, detail, "send standard input, output and error");
            return self.reply(&Reply::Refused(refused), &[]);
        };
        if self.command.is_some() {
            let refused = refusal(Layer::Command, "this connection has a command already", "open another");
            return self.reply(&Reply::Refused(refused), &[]);
        }
        match spawner.spawn(exec, [input.as_fd(), output.as_fd(), error.as_fd()]) {
            Ok(Spawned { pid, trouble }) => {
                self.command = Some(Command { pid, trouble: Some(File::from(trouble)) });
                Ok(())
            }
            Err(refused) => self.reply(&Reply::Refused(refused), &[]),
        }
    }

    /// Called when the pipe of a starting command has something to say. The refusal fits into one write of its writer.
    pub fn started(&mut self) -> Result<(), Error> {
        let Some(command) = &mut self.command else { return Ok(()) };
        let Some(mut pipe) = command.trouble.take() else { return Ok(()) };
        let mut said = vec![0; 64 * 1024];
        let size = pipe.read(&mut said).unwrap_or(0);
        let pid = command.pid;
        match started(&said[..size]) {
            Ok(()) => self.reply(&Reply::Started { pid }, &[]),
            Err(refused) => {
                self.command = None;
                self.reply(&Reply::Refused(refused), &[])
            }
        }
    }

    /// The command has ended; nothing is left to do for this connection.
    pub fn ended(&mut self, exit: Exit) {
        // It may have ended before anybody looked whether it had started.
        let _ = self.started();
        if self.command.take().is_some() {
            let _ = self.reply(&Reply::Exited(exit), &[]);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(pid) = self.pid().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}
