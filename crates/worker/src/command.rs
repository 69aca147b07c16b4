//! One command: started in a process group of its own, listened to, and stopped when that is asked for.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use omoi_protocol::event::{CommandCompleted, CommandStarted, CommandStream, OUTPUT_BYTES_MAX};
use tokio::{
    process::{Child, Command as Program},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use crate::{
    end::{End, oom_kills},
    group::{Escalation, Group, INTERRUPT, LEAVE},
    outbox::Outbox,
    output::{Tail, Teller, Written, pump},
    proc,
    record::{Record, Records, State},
    say::say,
    work::Stop,
};

/// How long the streams may stay open once the command and its group are gone.
const DRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the command is empty; give a program and its arguments")]
    Empty,
    #[error("cannot start {program:?} in {cwd}: {source}")]
    Start { program: String, cwd: String, source: io::Error },
    #[error("cannot wait for the command: {0}")]
    Wait(io::Error),
}

pub struct Command<'a> {
    pub id: String,
    pub argv: &'a [String],
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    /// Hears the end of what it writes.
    pub tail: Option<Arc<Tail>>,
}

impl Command<'_> {
    /// Runs to its end, or until `stop` wants it to end. `group` hears which process group it is.
    pub async fn run(
        &self,
        outbox: &Outbox,
        records: &Records,
        group: &watch::Sender<Option<i32>>,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<End, Error> {
        // Not to be written is better than not to be run.
        let record = |state| {
            let written = records.write(&Record { command_id: self.id.clone(), state });
            written.unwrap_or_else(|error| say(&format!("no record of the command: {error}")));
        };
        record(State::Starting);
        let (begun, ooms) = (Instant::now(), oom_kills());
        let mut child = self.spawn()?;
        let own = Group::led_by(&child);
        if let Some(process) = own.and_then(|group| proc::read(group.id())) {
            record(State::Started { pid: process.pid, at: process.started });
        }
        group.send_replace(own.map(Group::id));
        outbox.push(CommandStarted {
            command_id: Some(self.id.clone()),
            argv: Some(self.argv.to_vec()),
            cwd: Some(self.cwd.display().to_string()),
            ..CommandStarted::default()
        });
        let (written, over) = (Arc::new(Written::new(OUTPUT_BYTES_MAX)), watch::Sender::new(false));
        let mut pumps = self.listen(&mut child, outbox, &written, &over);
        let status = wait(&mut child, own, stop).await.map_err(Error::Wait)?;
        if let Some(group) = own {
            group.kill();
        }
        if timeout(DRAIN, join(&mut pumps)).await.is_err() {
            over.send_replace(true);
            join(&mut pumps).await;
        }
        group.send_replace(None);
        let out_of_memory = ooms.zip(oom_kills()).is_some_and(|(before, after)| after > before);
        let end = End::new(status, out_of_memory);
        outbox.push(CommandCompleted {
            command_id: Some(self.id.clone()),
            exit_code: end.exit_code.map(i64::from),
            signal: end.signal.map(i64::from),
            duration_ms: Some(begun.elapsed().as_millis() as u64),
            output_bytes: Some(written.bytes()),
            dropped_bytes: Some(written.dropped()).filter(|dropped| *dropped > 0),
            ..CommandCompleted::default()
        });
        Ok(end)
    }

    #[expect(clippy::disallowed_methods, reason = "running the command is what the worker is for")]
    fn spawn(&self) -> Result<Child, Error> {
        let (program, args) = self.argv.split_first().ok_or(Error::Empty)?;
        let mut command = Program::new(program);
        command.args(args).env_clear().envs(self.env).current_dir(self.cwd).process_group(0);
        // A pipe that ends at once, since an empty image has no /dev/null.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::Start {
            program: program.clone(),
            cwd: self.cwd.display().to_string(),
            source,
        })?;
        drop(child.stdin.take());
        Ok(child)
    }

    fn listen(
        &self,
        child: &mut Child,
        outbox: &Outbox,
        written: &Arc<Written>,
        over: &watch::Sender<bool>,
    ) -> JoinSet<()> {
        let teller = |stream| Teller {
            outbox: outbox.clone(),
            command_id: self.id.clone(),
            stream,
            tail: self.tail.clone(),
        };
        let masked = || outbox.secrets().stream();
        let mut pumps = JoinSet::new();
        if let Some(stdout) = child.stdout.take() {
            let (teller, over) = (teller(CommandStream::Stdout), over.subscribe());
            pumps.spawn(pump(stdout, teller, masked(), written.clone(), over));
        }
        if let Some(stderr) = child.stderr.take() {
            let (teller, over) = (teller(CommandStream::Stderr), over.subscribe());
            pumps.spawn(pump(stderr, teller, masked(), written.clone(), over));
        }
        pumps
    }
}

/// Waits for the end; a wish to stop makes it come.
async fn wait(
    child: &mut Child,
    group: Option<Group>,
    stop: &mut watch::Receiver<Option<Stop>>,
) -> io::Result<std::process::ExitStatus> {
    loop {
        let wish = *stop.borrow_and_update();
        let escalation = match wish {
            None => {
                tokio::select! {
                    status = child.wait() => return status,
                    Ok(()) = stop.changed() => continue,
                }
            }
            Some(Stop::Interrupt | Stop::Deadline) => INTERRUPT,
            Some(Stop::Leave | Stop::Closed) => LEAVE,
        };
        if let Some(status) = end(child, group, escalation, stop).await? {
            return Ok(status);
        }
        // Nothing ends what the kernel holds; a more urgent wish is waited for, or the end.
        tokio::select! {
            status = child.wait() => return status,
            Ok(()) = stop.changed() => {}
        }
    }
}

/// None when a more urgent wish came, or when no signal helped.
async fn end(
    child: &mut Child,
    group: Option<Group>,
    escalation: Escalation,
    stop: &mut watch::Receiver<Option<Stop>>,
) -> io::Result<Option<std::process::ExitStatus>> {
    for (signal, patience) in escalation.0 {
        if let Some(group) = group {
            group.signal(*signal);
        }
        tokio::select! {
            status = child.wait() => return status.map(Some),
            () = tokio::time::sleep(*patience) => {}
            Ok(()) = stop.changed() => {
                stop.mark_changed();
                return Ok(None);
            }
        }
    }
    Ok(None)
}

async fn join(pumps: &mut JoinSet<()>) {
    while pumps.join_next().await.is_some() {}
}
