//! The init: process 1 of the sandbox. It starts the main command, reaps whatever is orphaned, keeps the log, and answers on
//! the control socket. It is one loop over descriptors and waits for nothing else.

use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use omoi_launcher::wire::{Error, Reply, Request};
use omoi_launcher::{DiskKind, Door, Exit, How, Usage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstatvfs;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};

use crate::host::cgroup::Meters;
use crate::inside::connection::Connection;
use crate::inside::log::Log;
use crate::inside::spawn::Spawner;
use crate::sys;

/// Callers beyond these wait until one has gone.
const CONNECTIONS_MAX: usize = 32;
/// How much of the log is taken before an end is written down; a process that stays behind may write for ever.
const LAST_CHUNKS: usize = 64;
const SIGTERM_GRACE: Duration = Duration::from_secs(10);

/// All that the init holds.
#[derive(Debug)]
pub struct Init {
    pub spawner: Spawner,
    pub control: UnixListener,
    pub signals: OwnedFd,
    pub doors: Vec<(Door, TcpListener)>,
    pub log: Log,
    pub exit_file: File,
    pub meters: Meters,
    pub disk: OwnedFd,
    pub disk_kind: DiskKind,
    pub linger: bool,
    pub main: i32,
    /// Free when the init has gone.
    #[expect(dead_code, reason = "held and never read")]
    pub lock: File,
    pub connections: Vec<Connection>,
    pub exit: Option<Exit>,
    pub stop_at: Option<Instant>,
}

/// What there is to do, found by one look at all descriptors.
#[derive(Default)]
struct Due {
    signal: bool,
    output: bool,
    caller: bool,
    /// By index: whether the socket, and whether the pipe of a starting command, has something.
    connections: Vec<(bool, bool)>,
}

impl Init {
    /// Runs until the sandbox is to end. Then everything in it is dead.
    pub fn run(mut self) {
        while !self.over() {
            let due = self.wait();
            if due.output {
                self.log.take();
            }
            if due.signal {
                self.signal();
            }
            self.serve(&due.connections);
            if due.caller {
                self.accept();
            }
        }
        self.finish();
    }

    fn over(&self) -> bool {
        match self.exit {
            Some(_) => self.stop_at.is_some() || !self.linger,
            None => self.stop_at.is_some_and(|at| at <= Instant::now()),
        }
    }

    fn wait(&self) -> Due {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.log.pipe().map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        let has_log = fds.len() > 1;
        if self.connections.len() < CONNECTIONS_MAX {
            fds.push(PollFd::new(&self.control, PollFlags::IN));
        }
        let first = fds.len();
        for connection in &self.connections {
            fds.push(PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN));
            fds.extend(connection.trouble().map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        }
        let timeout = self.stop_at.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        // An error such as an interruption is a look that found nothing.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Due { connections: vec![(false, false); self.connections.len()], ..Due::default() };
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut rest = ready[first..].iter().copied();
        let connections = self
            .connections
            .iter()
            .map(|one| {
                (rest.next().unwrap_or(false), one.trouble().is_some() && rest.next().unwrap_or(false))
            })
            .collect();
        let caller = first > 1 + usize::from(has_log) && ready[first - 1];
        Due { signal: ready[0], output: has_log && ready[1], caller, connections }
    }

    fn signal(&mut self) {
        while let Some(arrived) = sys::next_signal(self.signals.as_fd()) {
            // What is inside may not end the sandbox, whoever it runs as.
            if arrived.signal == libc::SIGTERM && arrived.from_outside {
                self.stop(SIGTERM_GRACE);
            }
        }
        // One signal may stand for many children.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            self.reaped(pid.as_raw_nonzero().get(), status);
        }
    }

    fn reaped(&mut self, pid: i32, status: WaitStatus) {
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => How::Code(code),
            (None, Some(signal)) => How::Signal(signal),
            (None, None) => return,
        };
        let exit = Exit { how, oom: self.meters.oom_kills().is_some_and(|kills| kills > 0) };
        if pid == self.main {
            self.main_ended(exit);
        } else if let Some(index) = self.connections.iter().position(|one| one.pid() == Some(pid)) {
            self.connections.swap_remove(index).ended(exit);
        }
    }

    fn main_ended(&mut self, exit: Exit) {
        for _ in 0..LAST_CHUNKS {
            if !self.log.take() {
                break;
            }
        }
        self.exit = Some(exit);
        let mut text = serde_json::to_vec(&exit).unwrap_or_default();
        text.push(b'\n');
        let _ = self.exit_file.write_all(&text).and_then(|()| self.exit_file.sync_data());
        let status = self.status();
        for connection in self.connections.iter().filter(|one| one.waits) {
            let _ = connection.reply(&status, &[]);
        }
    }

    fn accept(&mut self) {
        if let Ok((socket, _)) = self.control.accept()
            && let Ok(connection) = Connection::new(socket)
        {
            self.connections.push(connection);
        }
    }

    /// From the last to the first, so that one that is dropped moves none that is still to be looked at.
    fn serve(&mut self, due: &[(bool, bool)]) {
        // Reaping may have dropped connections since the look; a later look finds what this one misses.
        if due.len() != self.connections.len() {
            return;
        }
        for index in (0..due.len()).rev() {
            let (socket, trouble) = due[index];
            let started = if trouble { self.connections[index].started() } else { Ok(()) };
            let served = if socket && started.is_ok() { self.serve_one(index) } else { started };
            if served.is_err() {
                self.connections.swap_remove(index);
            }
        }
    }

    fn serve_one(&mut self, index: usize) -> Result<(), Error> {
        let Some((request, fds)) = self.connections[index].receive()? else { return Ok(()) };
        match request {
            Request::Exec(exec) => return self.connections[index].start(&self.spawner, &exec, &fds),
            Request::Stop { grace_ms } => self.stop(Duration::from_millis(grace_ms)),
            Request::Wait if self.exit.is_none() => {
                self.connections[index].waits = true;
                return Ok(());
            }
            Request::Doors | Request::Status | Request::Wait | Request::Usage => {}
        }
        let mut handed: Vec<BorrowedFd<'_>> = Vec::new();
        let reply = match request {
            Request::Doors => {
                handed.extend(self.doors.iter().map(|(_, listener)| listener.as_fd()));
                Reply::Doors(self.doors.iter().map(|(door, _)| door.clone()).collect())
            }
            Request::Status | Request::Wait => self.status(),
            Request::Usage => Reply::Usage(usage(&mut self.meters, &self.disk, self.disk_kind)),
            Request::Exec(_) | Request::Stop { .. } => Reply::Stopping,
        };
        self.connections[index].reply(&reply, &handed)
    }

    fn status(&self) -> Reply {
        let execs = self.connections.iter().filter(|one| one.pid().is_some()).count();
        Reply::Status { exit: self.exit, execs }
    }

    /// The earlier of two ends counts.
    fn stop(&mut self, grace: Duration) {
        if self.exit.is_none() {
            let _ = Pid::from_raw(self.main).map(|main| kill_process(main, Signal::TERM));
        }
        let at =
            Instant::now().checked_add(grace).unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400));
        self.stop_at = Some(self.stop_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Kills all and waits for all, so that the lock is free only when nothing runs any more.
    fn finish(mut self) {
        sys::kill_all();
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) => self.reaped(pid.as_raw_nonzero().get(), status),
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
}

fn usage(meters: &mut Meters, disk: &OwnedFd, kind: DiskKind) -> Usage {
    let mut usage = meters.usage();
    if let Ok(stat) = fstatvfs(disk) {
        // A plain directory shares its file system with the host, whose use is not the sandbox's.
        let own = kind == DiskKind::Image;
        usage.disk_used_bytes = own.then_some((stat.f_blocks - stat.f_bfree) * stat.f_frsize);
        usage.disk_free_bytes = Some(stat.f_bavail * stat.f_frsize);
    }
    usage
}
