//! Commands that run on while the agent does other things. What they write goes to a file; they end by themselves, by
//! `kill`, or with the session.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use omoi_protocol::event::OUTPUT_TEXT_BYTES_MAX;
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::Mutex as AsyncMutex,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    capture::{FILE_BYTES_MAX, FLOOD_PAUSE, Keep},
    shell::Shell,
    tree::Tree,
};

/// That run at the same time.
const COMMANDS_MAX: usize = 32;
/// How long the last lines may take to reach the file.
const DRAIN: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
#[error("{COMMANDS_MAX} commands run in the background already; end some with `kill`")]
pub struct TooMany;

#[derive(Debug, Default)]
pub struct Background(Mutex<Vec<Running>>);

#[derive(Debug)]
struct Running {
    /// Whose it is.
    owner: u64,
    tree: Tree,
    task: JoinHandle<()>,
}

impl Background {
    pub fn check_room(&self) -> Result<(), TooMany> {
        let mut running = self.running();
        running.retain(|one| !one.task.is_finished() || !one.tree.find().is_empty());
        if running.len() < COMMANDS_MAX { Ok(()) } else { Err(TooMany) }
    }

    /// Its process.
    pub fn add(&self, owner: u64, shell: Shell, file: File) -> Option<u32> {
        let (pid, tree) = (shell.child.id(), shell.tree.clone());
        self.running().push(Running { owner, tree, task: tokio::spawn(follow(shell, file)) });
        pid
    }

    /// Of one owner, or all.
    pub async fn end(&self, owner: Option<u64>) {
        let ending: Vec<Running> = {
            let mut running = self.running();
            let (ending, staying) =
                running.drain(..).partition(|one| owner.is_none_or(|owner| owner == one.owner));
            *running = staying;
            ending
        };
        let mut ends = JoinSet::new();
        for mut one in ending {
            ends.spawn(async move {
                one.tree.end().await;
                if timeout(DRAIN, &mut one.task).await.is_err() {
                    one.task.abort();
                }
            });
        }
        while ends.join_next().await.is_some() {}
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down all it says, and how it ended.
async fn follow(mut shell: Shell, file: File) {
    let log = Arc::new(AsyncMutex::new(Keep::Open(file, 0)));
    let (stdout, stderr) = (shell.child.stdout.take(), shell.child.stderr.take());
    let streams = async { tokio::join!(copy(stdout, &log), copy(stderr, &log)) };
    let (status, _) = tokio::join!(shell.child.wait(), streams);
    let word = match status {
        Ok(status) => match status.code() {
            Some(code) => format!("\n[ended with exit code {code}]\n"),
            None => format!("\n[ended: {status}]\n"),
        },
        Err(error) => format!("\n[its end was not seen: {error}]\n"),
    };
    if let Keep::Open(file, _) = &mut *log.lock().await {
        let _ = file.write_all(word.as_bytes()).await;
        let _ = file.flush().await;
    }
}

async fn copy(from: Option<impl AsyncRead + Unpin>, log: &AsyncMutex<Keep>) {
    let Some(mut from) = from else { return };
    let (mut buffer, mut bytes) = (vec![0; OUTPUT_TEXT_BYTES_MAX], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut log = log.lock().await;
        *log = std::mem::replace(&mut *log, Keep::NotYet).and(&buffer[..count]).await;
        bytes += count as u64;
        if bytes > FILE_BYTES_MAX {
            sleep(FLOOD_PAUSE).await;
        }
    }
}

/// What a model is told.
pub fn started(pid: Option<u32>, path: &Path) -> String {
    let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    format!(
        "runs in the background as process {pid}; what it writes goes to {}. End it with `kill -- -{pid}`.",
        path.display()
    )
}
