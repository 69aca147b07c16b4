//! The work itself, from the workspace to the last report, in a straight line. Whoever watches over it says by a
//! `Stop` that it should end sooner.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use omoi_client::Client;
use omoi_protocol::{
    FailureKind, MessageState,
    event::{AgentInterrupted, AgentWaiting},
    launch::LaunchSpec,
    message::Message,
    outcome::Failure,
};
use tokio::{sync::watch, time::timeout};

use crate::{
    agent::steer::Steering,
    check,
    command::{self, Command},
    drive, git,
    group::Group,
    keep::{Keep, Kept},
    outbox::Outbox,
    record::{Record, Records, State},
    report::{self, Done},
    say::say,
    workspace::Workspace,
};

/// There is one command for now.
const COMMAND_ID: &str = "cmd-1";
/// How long the last events may take to reach a server that is away.
const FLUSH_LIMIT: Duration = Duration::from_secs(1800);
/// The same for somebody who has to leave.
const FLUSH_LEAVING: Duration = Duration::from_secs(4);
/// Of the time to leave, what stopping the command and the last events need.
const GRACE_RESERVED: Duration = Duration::from_secs(10);
/// Keeping gets this much, however short the time to leave is.
const KEEP_MIN: Duration = Duration::from_secs(3);
/// And this much when nobody is in a hurry.
const KEEP_MAX: Duration = Duration::from_secs(300);
const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// As a shell says it of a command that ran out of time, and of one that was told to leave.
const CODE_TIMED_OUT: u8 = 124;
const CODE_LEFT: u8 = 143;
const CODE_FAILED: u8 = 1;

/// Why the work should end, the more urgent last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Somebody wants the command stopped. The worker stays.
    Interrupt,
    /// The time of the whole sandbox is over.
    Deadline,
    /// The worker has to go.
    Leave,
    /// The server takes nothing from this sandbox any more.
    Closed,
}

/// What the worker is at, in its heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Preparing,
    Running,
    Waiting,
    /// What was made is brought outside.
    Ending,
    /// Everything is said; no heartbeat follows.
    Leaving,
}

pub struct Work<'a> {
    pub launch: &'a LaunchSpec,
    /// What the command finds in its environment.
    pub env: BTreeMap<String, String>,
    pub outbox: &'a Outbox,
    pub client: &'a Client,
    pub records: Records,
    /// Where the worker keeps its own files: on the sandbox's disk, where a rescue finds them.
    pub dir: PathBuf,
    /// What is said to the agent.
    pub steering: &'a Steering,
    /// Where kept objects may be put, away from the workspace.
    pub scratch: PathBuf,
    pub phase: &'a watch::Sender<Phase>,
    /// The process group of the command, while it runs.
    pub group: &'a watch::Sender<Option<i32>>,
    /// What was said by whoever interrupts.
    pub interrupted_by: &'a watch::Sender<Option<Message>>,
}

pub type Wish = watch::Receiver<Option<Stop>>;

impl Work<'_> {
    /// The code to leave with. When this returns, the server has every event, or will not have it from here.
    pub async fn run(&self, mut stop: Wish) -> u8 {
        let code = match self.records.read().map(|record| record.state) {
            Some(State::Reported { code }) => code,
            before => {
                let done = match before {
                    None => self.attempt(&mut stop).await,
                    Some(state) => self.pick_up(&state).await,
                };
                report::end(self.outbox, self.launch, &done);
                let state = State::Reported { code: done.code };
                let _ = self.records.write(&Record { command_id: COMMAND_ID.to_owned(), state });
                done.code
            }
        };
        self.phase.send_replace(Phase::Leaving);
        self.flush(&mut stop).await;
        code
    }

    async fn attempt(&self, stop: &mut Wish) -> Done {
        let workspace = Workspace::of(self.launch, &self.env);
        if let Some(workspace) = &workspace {
            let prepared = tokio::select! {
                prepared = workspace.prepare(self.outbox) => prepared,
                stop = more_than(stop, Stop::Interrupt) => return self.ended_early(stop).await,
            };
            if let Err(error) = prepared {
                return Done::failed(CODE_FAILED, git_failure("the workspace cannot be prepared", &error));
            }
        }
        self.phase.send_replace(Phase::Running);
        if !self.launch.checks.is_empty() {
            return check::run(self, stop).await;
        }
        if drives_agent(self.launch) {
            return Box::pin(drive::drive(self, workspace.as_ref(), stop)).await;
        }
        self.outbox.push(report::command_started(self.launch));
        let end = match &self.launch.command {
            Some(argv) if stop.borrow().is_none() => match self.command(argv, stop).await {
                Ok(end) => Some(end),
                Err(error) => {
                    let failure = Failure::new(FailureKind::Invalid, error.to_string());
                    return Done::failed(CODE_FAILED, failure);
                }
            },
            _ => None,
        };
        let wish = *stop.borrow();
        match (end, wish) {
            (Some(end), None) => {
                let result = end.failure().map_or(Ok(()), Err);
                self.push(workspace.as_ref(), end.code(), result).await
            }
            (_, None | Some(Stop::Interrupt)) => {
                let stop = self.wait(stop).await;
                self.ended_early(stop).await
            }
            (_, Some(stop)) => self.ended_early(stop).await,
        }
    }

    async fn command(&self, argv: &[String], stop: &mut Wish) -> Result<crate::end::End, command::Error> {
        let cwd = Path::new(&self.launch.workspace_path);
        let command = Command { id: COMMAND_ID.to_owned(), argv, env: &self.env, cwd, tail: None };
        let end = command.run(self.outbox, &self.records, self.group, stop).await;
        self.phase.send_replace(Phase::Ending);
        end
    }

    /// Nothing runs until somebody ends it.
    async fn wait(&self, stop: &mut Wish) -> Stop {
        let by = self.interrupted_by.borrow().clone();
        let said = match &by {
            Some(message) => {
                self.outbox.push(AgentInterrupted {
                    reason: Some(message.content.clone()),
                    sender_id: Some(message.sender.clone()),
                    message_id: Some(message.id.to_string()),
                    ..AgentInterrupted::default()
                });
                "the command was interrupted; the worker waits until it is ended"
            }
            None => "there is nothing to run; the worker waits until it is ended",
        };
        self.outbox.push(AgentWaiting { message: Some(said.to_owned()), ..AgentWaiting::default() });
        self.phase.send_replace(Phase::Waiting);
        if let Some(message) = by {
            self.acknowledge(&message).await;
        }
        more_than(stop, Stop::Interrupt).await
    }

    /// Behind the event that says the message was taken up, so that its states come in their order.
    async fn acknowledge(&self, message: &Message) {
        if self.outbox.flush(REPORT_LIMIT).await {
            let id = &self.launch.sandbox_id;
            let report = self.client.message_report(id, &message.id, MessageState::Acknowledged);
            let _ = timeout(REPORT_LIMIT, report).await;
        }
    }

    pub fn out_of_time(&self) -> Failure {
        let limit = self.launch.limits.wall_clock_seconds;
        let message =
            format!("the sandbox has had its {limit} s; let the task take longer, or make it smaller");
        Failure::new(FailureKind::TimedOut, message)
    }

    pub async fn ended_early(&self, stop: Stop) -> Done {
        match stop {
            Stop::Interrupt | Stop::Deadline if !self.launch.checks.is_empty() => {
                Done::failed(CODE_TIMED_OUT, self.out_of_time())
            }
            Stop::Interrupt | Stop::Deadline => {
                let workspace = Workspace::of(self.launch, &self.env);
                self.push(workspace.as_ref(), CODE_TIMED_OUT, Err(self.out_of_time())).await
            }
            Stop::Leave => {
                let message = "the worker was told to leave before the work was done";
                let failure = Failure::new(FailureKind::ShutDown, message);
                Done { kept: self.keep(self.grace()).await, ..Done::failed(CODE_LEFT, failure) }
            }
            Stop::Closed => {
                let message = "the server takes nothing from this sandbox any more";
                let failure = Failure::new(FailureKind::Lost, message);
                Done { kept: self.keep(self.grace()).await, ..Done::failed(CODE_LEFT, failure) }
            }
        }
    }

    /// A worker before this one was killed while its command ran. What became of the command nobody can tell, and
    /// a second run might do twice what may be done once.
    async fn pick_up(&self, state: &State) -> Done {
        if let State::Started { pid, at } = state
            && let Some(group) = Group::of(*pid)
        {
            group.kill_since(*at);
        }
        let message = "the worker was killed while its command ran, and how the command ended is not known";
        let failure = Failure::new(FailureKind::Crashed, message);
        Done { kept: self.keep(KEEP_MAX).await, ..Done::failed(CODE_FAILED, failure) }
    }

    /// Brings the branch outside. A success whose commits stay inside is none.
    async fn push(&self, workspace: Option<&Workspace<'_>>, code: u8, result: Result<(), Failure>) -> Done {
        let Some(workspace) = workspace else { return Done { code, result, ..Done::ended() } };
        match workspace.push(self.outbox).await {
            Ok(pushed) => Done { code, result, pushed: Some(pushed), ..Done::ended() },
            Err(error) => {
                say(&error.to_string());
                let failure = git_failure("the command has ended, but its branch cannot be pushed", &error);
                let code = if code == 0 { CODE_FAILED } else { code };
                Done::failed(code, result.err().unwrap_or(failure))
            }
        }
    }

    fn grace(&self) -> Duration {
        let grace = Duration::from_secs(self.launch.limits.grace_seconds);
        grace.saturating_sub(GRACE_RESERVED).max(KEEP_MIN)
    }

    async fn keep(&self, limit: Duration) -> Option<Kept> {
        let keep = Keep::new(self.launch, &self.env, &self.scratch)?;
        match timeout(limit, keep.keep()).await {
            Ok(Ok(kept)) => Some(kept),
            Ok(Err(error)) => {
                say(&format!("the work is not kept: {error}"));
                None
            }
            Err(_) => {
                say("the work is not kept: there was no time left");
                None
            }
        }
    }

    async fn flush(&self, stop: &mut Wish) {
        let leave = async {
            more_than(stop, Stop::Deadline).await;
            self.outbox.flush(FLUSH_LEAVING).await
        };
        let flushed = tokio::select! {
            flushed = self.outbox.flush(FLUSH_LIMIT) => flushed,
            flushed = leave => flushed,
        };
        if !flushed {
            say(&format!("{} events stay in the spool", self.outbox.waiting()));
        }
    }
}

/// Without a command of somebody's, a task is the agent's.
pub fn drives_agent(launch: &LaunchSpec) -> bool {
    launch.command.is_none() && launch.context.is_some() && launch.checks.is_empty()
}

/// Waits for a wish that is more urgent than `this`.
pub async fn more_than(stop: &mut Wish, this: Stop) -> Stop {
    match stop.wait_for(|wish| *wish > Some(this)).await.map(|wish| *wish) {
        Ok(Some(wish)) => wish,
        // Nobody can wish any more.
        _ => std::future::pending().await,
    }
}

fn git_failure(what: &str, error: &git::Error) -> Failure {
    let kind = match error {
        git::Error::Start(_) => FailureKind::Invalid,
        _ => FailureKind::Unavailable,
    };
    Failure::new(kind, format!("{what}: {error}"))
}
