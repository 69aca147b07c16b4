//! Runs the commands that people ask for in sandboxes of this machine. Output becomes events, in bounded pieces.

use std::{collections::BTreeMap, time::Duration};

use omoi_protocol::{
    event::{OUTPUT_BYTES_MAX, OUTPUT_TEXT_BYTES_MAX},
    sandbox::Command,
};
use omoi_redact::{Secrets, Stream};
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    sandbox::{Output, Provider},
    store::{self, Store},
};

/// How long output is collected before it becomes an event.
const COLLECT: Duration = Duration::from_millis(50);
const FOREVER: Duration = Duration::from_secs(3600);
const PIECES: usize = 16;

/// Runs one command to its end and stores what became of it.
pub async fn run(
    store: &Store,
    provider: &dyn Provider,
    command: &Command,
    env: &BTreeMap<String, String>,
) -> Result<(), store::Error> {
    if !store.command_begin(&command.id).await? {
        return Ok(());
    }
    let id = &command.sandbox_id;
    let begun = Instant::now();
    store
        .event_tell(
            id,
            "command.started",
            &json!({ "command_id": command.id, "argv": command.argv, "cwd": "/workspace" }),
        )
        .await?;
    let (sender, receiver) = mpsc::channel(PIECES);
    let (ended, written) =
        tokio::join!(provider.exec(id, &command.argv, env, sender), collect(store, command, receiver),);
    let (written, dropped) = written?;
    let how = ended.map(|ended| i64::from(ended.code)).map_err(|error| error.to_string());
    let mut told = json!({
        "command_id": command.id, "duration_ms": begun.elapsed().as_millis() as u64, "output_bytes": written,
        "dropped_bytes": dropped,
    });
    match &how {
        Ok(code @ 129..) => told["signal"] = json!(code - 128),
        Ok(code) => told["exit_code"] = json!(code),
        Err(error) => told["error"] = json!(error),
    }
    store.command_end(&command.id, how).await?;
    store.event_tell(id, "command.completed", &told).await
}

/// A command whose sandbox ended before it could run.
pub async fn give_up(store: &Store, command: &Command) -> Result<(), store::Error> {
    let error = "the sandbox had ended".to_owned();
    store.command_end(&command.id, Err(error.clone())).await?;
    tell_given_up(store, &Command { error: Some(error), ..command.clone() }).await
}

/// One that is over without an end of its own; its row says why.
pub async fn tell_given_up(store: &Store, command: &Command) -> Result<(), store::Error> {
    let told = json!({
        "command_id": command.id, "duration_ms": 0, "output_bytes": 0, "error": command.error,
    });
    store.event_tell(&command.sandbox_id, "command.completed", &told).await
}

/// Output on its way into events, without secrets.
struct Collected {
    /// Of standard output and of standard error.
    masked: [Stream; 2],
    stderr: bool,
    waiting: Vec<u8>,
    told: usize,
    dropped: u64,
}

impl Collected {
    fn new(secrets: &Secrets) -> Self {
        let masked = [secrets.stream(), secrets.stream()];
        Self { masked, stderr: false, waiting: Vec::new(), told: 0, dropped: 0 }
    }

    /// Adds a piece of one stream. What waits is told first where the piece does not belong to it.
    async fn add(
        &mut self,
        stderr: bool,
        bytes: Vec<u8>,
        store: &Store,
        command: &Command,
    ) -> Result<(), store::Error> {
        if stderr != self.stderr || self.waiting.len() + bytes.len() > OUTPUT_TEXT_BYTES_MAX {
            self.tell(store, command).await?;
        }
        self.stderr = stderr;
        self.take(bytes);
        Ok(())
    }

    /// Output beyond the limit of one command is counted and not kept.
    fn take(&mut self, mut bytes: Vec<u8>) {
        let room = OUTPUT_BYTES_MAX.saturating_sub(self.told + self.waiting.len());
        self.dropped += bytes.len().saturating_sub(room) as u64;
        bytes.truncate(room);
        self.waiting.append(&mut bytes);
    }

    async fn tell(&mut self, store: &Store, command: &Command) -> Result<(), store::Error> {
        let bytes = std::mem::take(&mut self.waiting);
        if bytes.is_empty() {
            return Ok(());
        }
        self.told += bytes.len();
        let text = String::from_utf8_lossy(&bytes);
        let data = json!({
            "command_id": command.id, "stream": if self.stderr { "stderr" } else { "stdout" }, "text": text,
            "lossy": matches!(text, std::borrow::Cow::Owned(_)), "dropped_bytes": self.dropped,
        });
        store.event_tell(&command.sandbox_id, "command.output", &data).await
    }
}

/// Tells output as it comes, a little at a time; what there was in all, and how much of it was not kept.
async fn collect(
    store: &Store,
    command: &Command,
    mut output: mpsc::Receiver<Output>,
) -> Result<(u64, u64), store::Error> {
    let mut total = 0u64;
    let mut collected = Collected::new(store.secrets());
    loop {
        let wait = if collected.waiting.is_empty() { FOREVER } else { COLLECT };
        let Ok(next) = tokio::time::timeout(wait, output.recv()).await else {
            collected.tell(store, command).await?;
            continue;
        };
        let Some(piece) = next else { break };
        let (stderr, bytes) = match piece {
            Output::Stdout(bytes) => (false, bytes),
            Output::Stderr(bytes) => (true, bytes),
        };
        total += bytes.len() as u64;
        let bytes = collected.masked[usize::from(stderr)].push(&bytes);
        collected.add(stderr, bytes, store, command).await?;
    }
    for stderr in [false, true] {
        let rest = collected.masked[usize::from(stderr)].finish();
        if !rest.is_empty() {
            collected.add(stderr, rest, store, command).await?;
        }
    }
    collected.tell(store, command).await?;
    Ok((total, collected.dropped))
}
