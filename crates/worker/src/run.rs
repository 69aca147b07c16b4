//! A run: the work, and around it everything that must go on whatever the work is doing. One `select!` holds
//! them together: the work, messages, heartbeats, the deadline and signals.

use std::{collections::BTreeMap, time::Duration};

use omoi_client::{Client, Retry};
use omoi_protocol::{
    MessageType, ProviderKind,
    event::{AgentHeartbeat, AgentMessageInjected, Common, Decimal, SandboxBooting},
    launch::LaunchSpec,
    message::Message,
};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use crate::{
    Surroundings,
    agent::steer::Steering,
    group::Group,
    inbox, launch,
    outbox::{self, Outbox, Standing},
    proc,
    record::{Records, State},
    report::now,
    signals::Signals,
    work::{Phase, Stop, Work, drives_agent},
};

const MESSAGES_MAX: usize = 16;
/// As a shell says it of a program that Ctrl-C has ended.
pub const INTERRUPTED: u8 = 130;
/// Of the worker's own environment, what a program needs to find its way.
pub const PASSED_ON: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Outbox(#[from] outbox::Error),
    #[error(transparent)]
    Client(#[from] omoi_client::Error),
}

/// The code to leave with.
pub async fn run(launch: LaunchSpec, signals: Signals, around: &Surroundings) -> Result<u8, Error> {
    let spool = launch::spool_dir(&launch, around);
    let outbox = Outbox::open(&spool, common(&launch), launch::secrets(&launch))?;
    let records = Records::of(&spool);
    let reported = matches!(records.read(), Some(record) if matches!(record.state, State::Reported { .. }));
    if !reported {
        outbox.push(booting(&launch));
    }
    let client = client(&launch)?;
    let (messages, inbox) = mpsc::channel(MESSAGES_MAX);
    let mut around_work = JoinSet::new();
    around_work.spawn(outbox.clone().send(client.clone(), launch.sandbox_id.clone()));
    around_work.spawn(inbox::take(client.clone(), launch.sandbox_id.clone(), messages));

    let (phase, group) = (watch::Sender::new(Phase::Preparing), watch::Sender::new(None));
    let (stop, interrupted_by) = (watch::Sender::new(None), watch::Sender::new(None));
    let steering = Steering::default();
    let watcher = Watcher {
        launch: &launch,
        outbox: &outbox,
        stop: &stop,
        phase: &phase,
        group: &group,
        interrupted_by: &interrupted_by,
        steering: &steering,
    };
    let work = Work {
        launch: &launch,
        env: environment(&launch, around),
        outbox: &outbox,
        client: &client,
        records,
        dir: spool.clone(),
        steering: &steering,
        scratch: (around.env)("TMPDIR").unwrap_or_else(|| "/tmp".to_owned()).into(),
        phase: &phase,
        group: &group,
        interrupted_by: &interrupted_by,
    };
    let code = watcher.watch(work.run(stop.subscribe()), inbox, signals).await;
    if launch.provider == ProviderKind::External && outbox.waiting() == 0 {
        // Somebody's own machine, and nothing is left to be rescued from it.
        let _ = std::fs::remove_dir_all(&spool);
    }
    Ok(code)
}

/// One attempt per call: whoever calls knows better whether and when to try again.
pub fn client(launch: &LaunchSpec) -> Result<Client, omoi_client::Error> {
    let client = Client::new(&launch.door.url, launch.token.expose())?;
    Ok(client.with_retry(Retry { attempts_max: 1, ..Retry::default() }))
}

pub fn common(launch: &LaunchSpec) -> Common {
    Common {
        task_id: launch.task_id.as_ref().map(ToString::to_string),
        sandbox_id: Some(launch.sandbox_id.to_string()),
        ..Common::default()
    }
}

/// What programs find that the worker starts. Somebody's own machine passes on all it has, a sandbox little.
pub fn environment(launch: &LaunchSpec, around: &Surroundings) -> BTreeMap<String, String> {
    let mut env: BTreeMap<_, _> = match launch.provider {
        ProviderKind::External => (around.all)().into_iter().collect(),
        _ => {
            let passed = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), (around.env)(name)?)));
            passed.collect()
        }
    };
    env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    env.entry("HOME".to_owned()).or_insert_with(|| launch::home(around).display().to_string());
    env.extend(launch.environment());
    env
}

fn booting(launch: &LaunchSpec) -> SandboxBooting {
    SandboxBooting {
        timestamp: Some(now().to_string()),
        worker_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        branch_name: launch.repository.as_ref().map(|repository| repository.branch_name.clone()),
        env_left_out: Some(launch.environment_left_out()).filter(|names| !names.is_empty()),
        ..SandboxBooting::default()
    }
}

struct Watcher<'a> {
    launch: &'a LaunchSpec,
    outbox: &'a Outbox,
    stop: &'a watch::Sender<Option<Stop>>,
    phase: &'a watch::Sender<Phase>,
    group: &'a watch::Sender<Option<i32>>,
    interrupted_by: &'a watch::Sender<Option<Message>>,
    steering: &'a Steering,
}

impl Watcher<'_> {
    async fn watch(
        &self,
        work: impl Future<Output = u8>,
        mut inbox: mpsc::Receiver<Message>,
        mut signals: Signals,
    ) -> u8 {
        let limits = &self.launch.limits;
        let beat = Duration::from_secs(limits.heartbeat_seconds.max(1));
        let mut beats = interval_at(Instant::now() + beat, beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut deadline = Box::pin(sleep(Duration::from_secs(limits.wall_clock_seconds)));
        let mut progress = self.outbox.progress();
        let mut is_leaving = false;
        let mut work = Box::pin(work);
        loop {
            tokio::select! {
                code = &mut work => return code,
                Some(message) = inbox.recv() => self.take(message),
                _ = beats.tick() => self.beat(),
                () = &mut deadline, if !deadline.is_elapsed() => self.wish(Stop::Deadline),
                () = signals.recv() => {
                    if std::mem::replace(&mut is_leaving, true) && self.is_own_machine() {
                        return self.leave_at_once();
                    }
                    self.wish(Stop::Leave);
                }
                Ok(()) = progress.changed() => {
                    match progress.borrow_and_update().standing {
                        Standing::Welcome => {}
                        Standing::PassedOn { .. } => self.wish(Stop::Leave),
                        Standing::Closed { .. } => self.wish(Stop::Closed),
                    }
                }
            }
        }
    }

    /// A sandbox of a server's is stopped by its init, which may say so more than once and then ends all of it.
    fn is_own_machine(&self) -> bool {
        self.launch.provider == ProviderKind::External
    }

    /// Somebody asked twice. What was not sent yet is in the spool.
    fn leave_at_once(&self) -> u8 {
        if let Some(group) = self.group.borrow().and_then(Group::of) {
            group.kill();
        }
        INTERRUPTED
    }

    /// A wish does not take back a more urgent one.
    fn wish(&self, wish: Stop) {
        self.stop.send_if_modified(|stop| {
            let more = *stop < Some(wish);
            if more {
                *stop = Some(wish);
            }
            more
        });
    }

    fn take(&self, message: Message) {
        if drives_agent(self.launch) {
            self.steering.put(message);
        } else {
            self.take_for_command(message);
        }
    }

    /// An interrupt stops the command. Anything else has nobody to go to, which its event says.
    fn take_for_command(&self, message: Message) {
        // While the workspace is prepared there is a command yet to come, which then does not.
        let runs = matches!(*self.phase.borrow(), Phase::Preparing | Phase::Running);
        let interrupts = message.message_type == MessageType::Interrupt && runs;
        let mut event = AgentMessageInjected {
            message_type: Some(message.message_type.to_string()),
            content_length: Some(message.content.chars().count() as u64),
            content: Some(message.content.clone()),
            sender_id: Some(message.sender.clone()),
            message_id: Some(message.id.to_string()),
            ..AgentMessageInjected::default()
        };
        if !interrupts {
            let note = if runs {
                "a command runs, which hears no messages"
            } else {
                "nothing runs that could hear it"
            };
            event.extra.insert("note".to_owned(), json!(format!("recorded only: {note}")));
        }
        self.outbox.push(event);
        if interrupts {
            self.interrupted_by.send_replace(Some(message));
            self.wish(Stop::Interrupt);
        }
    }

    fn beat(&self) {
        let status = match *self.phase.borrow() {
            Phase::Preparing => "preparing",
            Phase::Running => "running",
            Phase::Waiting => "waiting",
            Phase::Ending => "ending",
            Phase::Leaving => return,
        };
        let usage = proc::usage(*self.group.borrow());
        self.outbox.push(AgentHeartbeat {
            timestamp: Some(now().to_string()),
            status: Some(status.to_owned()),
            event_count: Some(self.outbox.count().unsigned_abs()),
            mode: Some(self.launch.mode.as_str().to_owned()),
            processes: Some(usage.processes),
            cpu_seconds: Decimal::new(usage.cpu_seconds),
            memory_bytes: Some(usage.memory_bytes),
            io_bytes: Some(usage.io_bytes),
            ..AgentHeartbeat::default()
        });
    }
}
