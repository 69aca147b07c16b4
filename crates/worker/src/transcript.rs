//! The agent's log on its way to the server: sent as it grows, from where the server has it, until the server has all of it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use omoi_client::{Client, Retry};
use omoi_protocol::SandboxId;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use crate::say::say;

/// What one request carries.
const PART_BYTES_MAX: u64 = 512 * 1024;
/// Small steps are gathered for a while.
const GATHER: Duration = Duration::from_millis(500);
const RETRY: Retry =
    Retry { attempts_max: u32::MAX, base: Duration::from_millis(200), cap: Duration::from_secs(5) };

pub struct Transcript {
    pub client: Client,
    pub sandbox: SandboxId,
    pub session_id: String,
    pub path: PathBuf,
    /// Told when somebody waits for all of it: nothing more is gathered then.
    pub hurry: Arc<Notify>,
}

/// How much the server has, and whether it takes more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    pub bytes: u64,
    pub is_over: bool,
}

impl Transcript {
    /// Goes on for as long as the log may grow, or the server takes anything.
    pub async fn send(self, mut size: watch::Receiver<u64>, sent: watch::Sender<Sent>) {
        let mut failures = 0;
        loop {
            let has = sent.borrow().bytes;
            if size.wait_for(|size| *size > has).await.is_err() {
                return;
            }
            match self.send_part(has).await {
                Ok(bytes) => {
                    failures = 0;
                    sent.send_replace(Sent { bytes, is_over: false });
                    if bytes == *size.borrow() {
                        tokio::select! {
                            () = tokio::time::sleep(GATHER) => {}
                            () = self.hurry.notified() => {}
                        }
                    }
                }
                Err(error) => match trouble(&error) {
                    Trouble::ElseWhere(bytes) => {
                        sent.send_replace(Sent { bytes, is_over: false });
                    }
                    Trouble::Passing => {
                        failures += 1;
                        tokio::time::sleep(RETRY.pause(failures, None).unwrap_or(RETRY.cap)).await;
                    }
                    Trouble::Final => {
                        say(&format!("the transcript is not stored any further: {error}"));
                        sent.send_replace(Sent { bytes: has, is_over: true });
                        return;
                    }
                },
            }
        }
    }

    /// How much the server has now.
    async fn send_part(&self, from: u64) -> Result<u64, omoi_client::Error> {
        let part = read(&self.path, from).unwrap_or_default();
        self.client.transcript_append(&self.sandbox, &self.session_id, from, &part).await
    }
}

/// Waits until the server has `size` bytes. False when it takes no more, or not in time.
pub async fn flush(sent: &mut watch::Receiver<Sent>, hurry: &Notify, size: u64, limit: Duration) -> bool {
    hurry.notify_one();
    let done = sent.wait_for(|sent| sent.bytes >= size || sent.is_over);
    matches!(timeout(limit, done).await, Ok(Ok(sent)) if sent.bytes >= size)
}

enum Trouble {
    /// The server has this much and no more.
    ElseWhere(u64),
    Passing,
    Final,
}

fn trouble(error: &omoi_client::Error) -> Trouble {
    match (error.size(), error.status()) {
        (Some(size), _) => Trouble::ElseWhere(size),
        (None, None | Some(408 | 429 | 500..)) => Trouble::Passing,
        (None, Some(_)) => Trouble::Final,
    }
}

fn read(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut part = Vec::new();
    file.take(PART_BYTES_MAX).read_to_end(&mut part)?;
    Ok(part)
}
