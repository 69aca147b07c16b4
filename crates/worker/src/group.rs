//! A process group: everything that one command has started, unless it took pains to get away.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::proc;

/// How a command is made to end: one signal after the other, each with a while to act on it.
#[derive(Debug, Clone, Copy)]
pub struct Escalation(pub &'static [(Signal, Duration)]);

/// As a person would do it, so that a program may put its things in order.
pub const INTERRUPT: Escalation = Escalation(&[
    (Signal::INT, Duration::from_secs(3)),
    (Signal::TERM, Duration::from_secs(2)),
    (Signal::KILL, Duration::from_secs(5)),
]);
/// For somebody who has to leave.
pub const LEAVE: Escalation =
    Escalation(&[(Signal::TERM, Duration::from_secs(3)), (Signal::KILL, Duration::from_secs(2))]);

#[derive(Debug, Clone, Copy)]
pub struct Group(Pid);

impl Group {
    /// The group that a child leads which was started with `process_group(0)`.
    pub fn led_by(child: &Child) -> Option<Self> {
        Self::of(child.id()?.cast_signed())
    }

    pub fn of(leader: i32) -> Option<Self> {
        // Process 1 leads what the worker itself belongs to.
        if leader > 1 { Pid::from_raw(leader).map(Self) } else { None }
    }

    pub fn id(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// A group that has no members any more needs no signal.
    pub fn signal(self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }

    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Kills what is left of a group that a worker before this one has started at `since`. Nobody else's: the
    /// number may have been given again.
    pub fn kill_since(self, since: u64) {
        if proc::all().iter().any(|process| process.group == self.id() && process.started >= since) {
            self.kill();
        }
    }
}
