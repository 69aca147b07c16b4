//! The outbox: what is put into it reaches the server once and in order, whatever happens to either side.
//!
//! Events are numbered and written to disk before they are sent, sent in batches, and sent again until the
//! server acknowledges them. Numbers have no gap, so the server recognises a repeat. Of heartbeats one waits at
//! most; nothing else is ever dropped, unless the server says that it keeps no more of this sandbox's events.

mod queue;
mod send;
mod spool;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use omoi_client::Client;
use omoi_protocol::{
    EventSource, SandboxId,
    event::{Common, NewEvent, Payload},
};
use omoi_redact::Secrets;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};

use self::queue::Queue;
pub use self::spool::{Error, Spool, write_whole};
use crate::say::say;

/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
    common: Common,
    secrets: Secrets,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    added: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The last number that the server has.
    pub acknowledged: i64,
    pub standing: Standing,
}

/// How the server takes what it is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    #[default]
    Welcome,
    /// Another sandbox has the task, or it is over: reports are kept and change nothing.
    PassedOn { why: String },
    /// Nothing is taken any more.
    Closed { why: String },
}

impl Outbox {
    /// What an earlier worker has left there is sent first. Without a usable disk everything waits in memory, and
    /// the first event says so.
    pub fn open(dir: &Path, common: Common, secrets: Secrets) -> Result<Self, Error> {
        let (spool, left) = match Spool::open(dir) {
            Ok((spool, left)) => (Some(spool), left),
            Err(error @ Error::InUse { .. }) => return Err(error),
            Err(error) => {
                say(&format!("{error}; events wait in memory"));
                (None, spool::Left::default())
            }
        };
        let queue = Queue::new(spool, left);
        let progress = Progress { acknowledged: queue.acknowledged(), ..Progress::default() };
        let shared =
            Shared { queue: Mutex::new(queue), added: Notify::new(), progress: watch::Sender::new(progress) };
        Ok(Self { shared: Arc::new(shared), common, secrets })
    }

    /// Masks secrets in the event. Returns once it is on disk, or known to be in memory alone.
    pub fn push(&self, event: impl Into<Payload>) {
        let payload = event.into().with_common(self.common.clone());
        let source = source(payload.event_type());
        self.queue().push(self.without_secrets(NewEvent::new(&payload, source)));
        self.shared.added.notify_one();
    }

    /// What may not leave the sandbox.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn without_secrets(&self, mut event: NewEvent) -> NewEvent {
        if let Cow::Owned(clean) = self.secrets.json(event.event_data.get().as_bytes()) {
            let text = String::from_utf8_lossy(&clean).into_owned();
            event.event_data = RawValue::from_string(text).expect("a mask keeps JSON valid");
        }
        event
    }

    /// Sends, for as long as the server takes anything.
    pub async fn send(self, client: Client, sandbox: SandboxId) {
        send::send(&self, &client, &sandbox).await;
    }

    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress.subscribe()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queue().waiting()
    }

    /// How many there have been.
    pub fn count(&self) -> i64 {
        self.queue().last()
    }

    /// Waits until the server has what is there now. False when it takes nothing any more, or not in time.
    pub async fn flush(&self, limit: Duration) -> bool {
        let last = self.count();
        let mut progress = self.progress();
        // Nothing may wait although a number was never reached: the server may have had them counted anew.
        let is_done = |progress: &Progress| progress.acknowledged >= last || self.waiting() == 0;
        let is_over =
            |progress: &Progress| is_done(progress) || matches!(progress.standing, Standing::Closed { .. });
        let waited = tokio::time::timeout(limit, progress.wait_for(is_over)).await;
        matches!(waited, Ok(Ok(progress)) if is_done(&progress))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who speaks: the agent of what it does, the worker of all else.
fn source(event_type: &str) -> EventSource {
    let own =
        ["agent.started", "agent.heartbeat", "agent.shutdown", "agent.message_injected", "agent.processing"];
    let is_agent = event_type.starts_with("agent.") && !own.contains(&event_type);
    if is_agent { EventSource::Agent } else { EventSource::Worker }
}
