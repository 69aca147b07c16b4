//! The log: every request becomes a line, written in batches. Requests that are refused alike share a line per minute,
//! and so do all beyond a number, so that no loop in a sandbox can fill the database.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use omoi_protocol::{EgressDecision, EgressId, SandboxId, egress::EgressRequest};
use tokio::{sync::mpsc, time::Instant};

use crate::store::{Denial, Store};

/// Lines that wait for the store; whoever has more to log waits with them.
const QUEUE: usize = 256;
const BATCH_MAX: usize = 256;
const FLUSH_PERIOD: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_secs(60);
/// Lines of their own within a minute: for allowed requests, and for different refusals.
const ALLOWED_MAX: usize = 600;
const REFUSED_MAX: usize = 200;
/// Hosts whose refusal is told in the sandbox's stream.
const DENIALS_MAX: usize = 50;
/// How long the last lines are held for a store that does not answer.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The host of a line that stands for many.
const MANY: &str = "*";

pub enum Note {
    /// A request is under way: its line shows it until it ends.
    Began(EgressRequest),
    /// One has ended, or was refused.
    Ended(EgressRequest, Option<Denial>),
}

/// A queue holds room for many notes from the start, and most sandboxes write few: so it holds where they are.
pub type Log = mpsc::Sender<Box<Note>>;

pub fn channel() -> (Log, mpsc::Receiver<Box<Note>>) {
    mpsc::channel(QUEUE)
}

/// Requests with the same key may share a line.
type Key = (EgressDecision, String, String, i64, Option<String>);

pub struct Writer {
    sandbox: SandboxId,
    store: Store,
    /// Lines to be written, as they are now.
    changed: BTreeMap<EgressId, EgressRequest>,
    denials: Vec<Denial>,
    denied: HashSet<String>,
    /// Begun with a line of their own.
    under_way: HashSet<EgressId>,
    window_began: Instant,
    shared: HashMap<Key, EgressRequest>,
    allowed: usize,
}

impl Writer {
    pub fn new(sandbox: SandboxId, store: Store) -> Self {
        Self {
            sandbox,
            store,
            changed: BTreeMap::new(),
            denials: Vec::new(),
            denied: HashSet::new(),
            under_way: HashSet::new(),
            window_began: Instant::now(),
            shared: HashMap::new(),
            allowed: 0,
        }
    }

    /// Writes until nobody can log any more.
    pub async fn run(mut self, mut notes: mpsc::Receiver<Box<Note>>) {
        let mut period = tokio::time::interval(FLUSH_PERIOD);
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // Full, it takes nothing more until the store has taken what there is.
                note = notes.recv(), if self.changed.len() < BATCH_MAX => match note {
                    Some(note) => self.take(*note),
                    None => break,
                },
                _ = period.tick() => {
                    if !self.flush().await && notes.is_closed() {
                        break;
                    }
                }
            }
        }
        while let Ok(note) = notes.try_recv() {
            self.take(*note);
        }
        if tokio::time::timeout(LAST_WORDS, self.flush_stubbornly(period)).await.is_err() {
            let lines = self.changed.len();
            tracing::error!(
                lines,
                sandbox.id = %self.sandbox,
                "the last lines of the egress log are lost: the store does not take them"
            );
        }
    }

    async fn flush_stubbornly(&mut self, mut period: tokio::time::Interval) {
        while !self.flush().await {
            period.tick().await;
        }
    }

    fn take(&mut self, note: Note) {
        if self.window_began.elapsed() >= WINDOW {
            self.window_began = Instant::now();
            self.shared.clear();
            self.allowed = 0;
        }
        match note {
            Note::Began(line) => self.begin(line),
            Note::Ended(line, denial) => {
                self.end(line);
                let told = denial.filter(|_| self.denied.len() < DENIALS_MAX);
                self.denials.extend(told.filter(|denial| self.denied.insert(denial.host.clone())));
            }
        }
    }

    fn begin(&mut self, line: EgressRequest) {
        if self.allowed < ALLOWED_MAX {
            self.allowed += 1;
            self.under_way.insert(line.id.clone());
            self.changed.insert(line.id.clone(), line);
        }
    }

    fn end(&mut self, line: EgressRequest) {
        if self.under_way.remove(&line.id) {
            self.changed.insert(line.id.clone(), line);
        } else {
            self.share(line);
        }
    }

    fn share(&mut self, mut line: EgressRequest) {
        let mut key = key(&line);
        if !self.shared.contains_key(&key) && self.shared.len() >= REFUSED_MAX {
            (line.host, line.port, line.address, line.reason) = (MANY.to_owned(), 0, None, None);
            key = self::key(&line);
        }
        let line = match self.shared.remove(&key) {
            Some(earlier) => add(earlier, &line),
            None => line,
        };
        self.changed.insert(line.id.clone(), line.clone());
        self.shared.insert(key, line);
    }

    /// Whether nothing is left to write.
    async fn flush(&mut self) -> bool {
        if self.changed.is_empty() && self.denials.is_empty() {
            return true;
        }
        let lines = self.changed.values().cloned().collect();
        match self.store.egress_record(&self.sandbox, lines, self.denials.clone()).await {
            Ok(()) => {}
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, sandbox.id = %self.sandbox, "the egress log waits for the store");
                return false;
            }
            Err(error) => {
                let lines = self.changed.len();
                tracing::error!(%error, lines, sandbox.id = %self.sandbox, "lines of the egress log are lost");
            }
        }
        self.changed.clear();
        self.denials.clear();
        true
    }
}

fn key(line: &EgressRequest) -> Key {
    (line.decision, line.method.clone(), line.host.clone(), line.port, line.code.clone())
}

/// One line for both, under the name of the earlier.
fn add(earlier: EgressRequest, later: &EgressRequest) -> EgressRequest {
    let duration_ms = earlier.duration_ms.unwrap_or(0).saturating_add(later.duration_ms.unwrap_or(0));
    EgressRequest {
        last_at: later.last_at,
        requests: earlier.requests.saturating_add(later.requests),
        bytes_up: earlier.bytes_up.saturating_add(later.bytes_up),
        bytes_down: earlier.bytes_down.saturating_add(later.bytes_down),
        duration_ms: Some(duration_ms),
        ..earlier
    }
}
