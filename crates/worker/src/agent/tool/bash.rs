//! The tool Bash: a command in a shell, followed to its end or put in the background.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use omoi_protocol::event::CommandStream;
use omoi_redact::{Secrets, Stream};
use serde_json::json;
use tokio::{
    io::AsyncRead,
    process::Child,
    sync::{Mutex, watch},
    time::timeout,
};

use super::{
    background::{self, Background},
    capture::{self, Capture},
    input::{self, Input},
    outcome::Outcome,
    shell::{self, Course, Shell},
    tools::{Around, Done, Piece},
    tree::Tree,
};
use crate::{
    end::{End, oom_kills},
    output::{Listener, Written, pump},
};

pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(2 * 60);
pub const TIMEOUT_MAX: Duration = Duration::from_secs(60 * 60);
/// What one argument may have, with the zero at its end.
const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;
/// Of all live pieces of one call together.
const LIVE_BYTES_MAX: usize = 256 * 1024;
/// How long the streams may stay open once all processes are gone.
const DRAIN: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Input(#[from] input::Error),
    #[error(transparent)]
    Shell(#[from] shell::Error),
    #[error(transparent)]
    TooMany(#[from] background::TooMany),
    #[error("cannot keep what the command writes in {path}: {source}")]
    Output { path: String, source: std::io::Error },
}

/// Where commands run, and what they find.
pub struct Place<'a> {
    pub workspace: &'a Path,
    pub outputs: &'a Path,
    pub env: &'a std::collections::BTreeMap<String, String>,
    pub background: &'a Background,
    /// Masked in what commands write.
    pub secrets: &'a Secrets,
    pub owner: u64,
}

impl Place<'_> {
    pub async fn run(&self, id: &str, input: &Input<'_>, around: &Around<'_>) -> Result<Done, Error> {
        let command = input.text("command")?;
        let hint = "write it to a file and run that";
        input.bounded("command", command, COMMAND_BYTES_MAX, hint)?;
        input.without_zero("command", command)?;
        if command.trim().is_empty() {
            return Err(input.wrong("command", "is empty; give a command").into());
        }
        let limit = match input.number("timeout")? {
            Some(0) => return Err(input.wrong("timeout", "has to be at least 1 millisecond").into()),
            Some(milliseconds) => Duration::from_millis(milliseconds).min(TIMEOUT_MAX),
            None => TIMEOUT_DEFAULT,
        };
        match input.flag("run_in_background")? {
            true => self.start(id, command).await,
            false => self.attend(id, command, limit, around).await,
        }
    }

    async fn start(&self, id: &str, command: &str) -> Result<Done, Error> {
        self.background.check_room()?;
        let mut path = capture::file_of(self.outputs, id);
        let created = capture::create(&mut path).await;
        let file = created.map_err(|source| Error::Output { path: path.display().to_string(), source })?;
        let shell = Shell::spawn(id, command, self.workspace, self.env)?;
        let pid = self.background.add(self.owner, shell, file);
        let response = json!({ "background_pid": pid, "output_file": path });
        Ok(Done::good(background::started(pid, &path), response))
    }

    async fn attend(
        &self,
        id: &str,
        command: &str,
        limit: Duration,
        around: &Around<'_>,
    ) -> Result<Done, Error> {
        let (began, ooms) = (Instant::now(), oom_kills());
        let Shell { mut child, tree, argv } = Shell::spawn(id, command, self.workspace, self.env)?;
        let mut hold = Hold { tree: &tree, group: around.group, over: false };
        around.group.send_replace(child.id().map(u32::cast_signed));
        (around.listen)(Piece::Started { argv: &argv, cwd: self.workspace });

        let capture = Mutex::new(Capture::new(capture::file_of(self.outputs, id)));
        let written = Arc::new(Written::new(LIVE_BYTES_MAX));
        let streams = [self.secrets.stream(), self.secrets.stream()];
        let course = follow(&mut child, &tree, limit, around, streams, &capture, &written).await;
        hold.over = course.stuck == 0;
        drop(hold);

        let oom = ooms.zip(oom_kills()).is_some_and(|(before, after)| after > before);
        let end = course.status.map(|status| End::new(status, oom));
        (around.listen)(Piece::Ended {
            exit_code: end.and_then(|end| end.exit_code),
            signal: end.and_then(|end| end.signal),
            duration: began.elapsed(),
            output_bytes: written.bytes(),
            dropped_bytes: written.dropped(),
        });
        let outcome = Outcome { course, end, oom, limit };
        Ok(outcome.told(capture.into_inner()).await)
    }
}

/// Hears all that the command writes until it has ended.
async fn follow(
    child: &mut Child,
    tree: &Tree,
    limit: Duration,
    around: &Around<'_>,
    [stdout_masked, stderr_masked]: [Stream; 2],
    capture: &Mutex<Capture>,
    written: &Arc<Written>,
) -> Course {
    let over = watch::Sender::new(false);
    let tap = |stream| Tap { stream, capture, listen: around.listen };
    let stdout = hear(child.stdout.take(), tap(CommandStream::Stdout), stdout_masked, written, &over);
    let stderr = hear(child.stderr.take(), tap(CommandStream::Stderr), stderr_masked, written, &over);
    let mut pumps = Box::pin(async { tokio::join!(stdout, stderr) });
    let mut stop = around.stop.clone();
    let mut course = Box::pin(shell::see_through(child, tree, limit, &mut stop));
    let course = tokio::select! {
        course = &mut course => course,
        _ = &mut pumps => return course.await,
    };
    // Somebody who got away may hold the streams open.
    if timeout(DRAIN, &mut pumps).await.is_err() {
        over.send_replace(true);
        pumps.await;
    }
    course
}

async fn hear(
    from: Option<impl AsyncRead + Unpin>,
    tap: Tap<'_>,
    masked: Stream,
    written: &Arc<Written>,
    over: &watch::Sender<bool>,
) {
    if let Some(from) = from {
        pump(from, tap, masked, written.clone(), over.subscribe()).await;
    }
}

/// Ends the command when nobody waits for it any more.
struct Hold<'a> {
    tree: &'a Tree,
    group: &'a watch::Sender<Option<i32>>,
    over: bool,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.tree.kill_now();
        }
        self.group.send_replace(None);
    }
}

/// One stream, for whoever follows it live and for the end.
struct Tap<'a> {
    stream: CommandStream,
    capture: &'a Mutex<Capture>,
    listen: &'a (dyn Fn(Piece<'_>) + Send + Sync),
}

impl Listener for Tap<'_> {
    async fn hear(&self, bytes: &[u8]) {
        self.capture.lock().await.add(&self.stream, bytes).await;
    }

    fn tell(&self, text: &str, lossy: bool, dropped_bytes: Option<u64>) {
        (self.listen)(Piece::Output { stream: self.stream.clone(), text, lossy, dropped_bytes });
    }
}
