//! The bus: stored rows on their way to live viewers, in this process and in others.
//!
//! Rows come from the store's own commits or, when another process wrote them, are read back by position. They go
//! into one ring. A viewer holds nothing but its position: it takes what is new from the ring, or from the store
//! when it has fallen behind the ring. So no viewer has a queue, none can slow a writer, and none misses a row.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use axum::extract::ws::Utf8Bytes;
use omoi_protocol::{SandboxId, live::LiveEvent};
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::store::{Announce, Entry, Error, MESSAGE_QUEUED, Store};

/// Batches of rows that may wait for the pump; beyond it they are read back from the store.
const INTAKE_MAX: usize = 1024;
/// How many rows are read back at a time.
const PAGE: usize = 1000;
/// How often the store is asked for rows that nobody told of, such as those of a command-line call.
const POLL: Duration = Duration::from_secs(1);
/// After these a task may be ready that was not, or there may be room for one.
const MAY_FREE_A_TASK: &[&str] = &[
    "TASK_CREATED",
    "TASK_UPDATED",
    "TASK_STATUS_CHANGED",
    "TASK_COMPLETED",
    "PROJECT_UPDATED",
    "SANDBOX_ENDED",
    "SANDBOX_KEPT",
];
/// After these two tasks may get in each other's way that did not before, or no longer.
const MAY_BRING_A_CONFLICT: &[&str] = &["agent.file_edited", "git.push", "TASK_ASSIGNED", "SANDBOX_ENDED"];
const MAY_ADVANCE_A_SPEC: &[&str] = &[
    "TASK_STATUS_CHANGED",
    "TASK_COMPLETED",
    "TASK_FAILED",
    "TASK_CANCELLED",
    "SPEC_PHASE_STARTED",
    "SPEC_BRANCH_WANTED",
];
/// What the Guardian does not wait for its time with. All else it takes together, a moment later.
const TO_THE_GUARDIAN: &[&str] = &["SANDBOX_ENDED", "POLICY_CHANGED"];
const LISTEN_AGAIN: Duration = Duration::from_millis(500);
/// How often viewers are woken in a row after a quiet while: a few steps that follow from one another are seen at once.
const WAKES_AT_ONCE: f64 = 4.0;

/// A row as viewers see it; its text is made once, for the first who wants it.
pub struct Live {
    pub entry: Entry,
    frame: OnceLock<Utf8Bytes>,
}

impl Live {
    fn new(entry: Entry) -> Arc<Self> {
        Arc::new(Self { entry, frame: OnceLock::new() })
    }

    /// A sandbox's own events are announced under a prefix, as they always were.
    pub fn event_type(&self) -> String {
        match self.entry.seq {
            Some(_) => format!("SANDBOX_{}", self.entry.event_type),
            None => self.entry.event_type.clone(),
        }
    }

    pub fn frame(&self) -> &Utf8Bytes {
        self.frame.get_or_init(|| {
            let event = LiveEvent {
                position: self.entry.pos,
                event_type: self.event_type(),
                entity_type: self.entry.entity_type.to_string(),
                entity_id: self.entry.entity_id.clone(),
                payload: self.payload(),
                seq: self.entry.seq,
                timestamp: self.entry.created_at,
            };
            serde_json::to_string(&event).unwrap_or_default().into()
        })
    }

    /// A sandbox's own event names its source and its type among its data.
    fn payload(&self) -> Box<RawValue> {
        let data = self.entry.data.trim();
        let text = match (self.entry.seq, data.strip_suffix('}')) {
            (Some(_), Some(open)) => {
                let comma = if open.trim_end() == "{" { "" } else { "," };
                let kind = serde_json::Value::from(self.entry.event_type.as_str());
                format!(r#"{open}{comma}"source":"{}","original_event_type":{kind}}}"#, self.entry.source)
            }
            _ => data.to_owned(),
        };
        RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

/// Loops that are woken by what happens, in whichever process.
#[derive(Clone, Default)]
pub struct Wakes {
    pub dispatch: Arc<Notify>,
    pub advance: Arc<Notify>,
    pub places: Arc<Notify>,
    pub conductor: Arc<Notify>,
    pub guardian: Arc<Notify>,
}

#[derive(Clone)]
pub struct Bus(Arc<Inner>);

struct Inner {
    ring: RwLock<VecDeque<Arc<Live>>>,
    ring_max: usize,
    /// The last position that viewers may see.
    tail: watch::Sender<i64>,
    intake: mpsc::Sender<Vec<Entry>>,
    /// Somebody says that rows up to here exist.
    hinted: AtomicI64,
    hint: Notify,
    waiters: Mutex<HashMap<String, Weak<Notify>>>,
    wakes: Wakes,
}

/// What the pump needs besides the bus.
pub struct Intake(mpsc::Receiver<Vec<Entry>>);

impl Bus {
    pub fn new(ring_max: usize) -> (Self, Intake) {
        let (intake, rows) = mpsc::channel(INTAKE_MAX);
        let inner = Inner {
            ring: RwLock::new(VecDeque::new()),
            ring_max,
            tail: watch::Sender::new(0),
            intake,
            hinted: AtomicI64::new(0),
            hint: Notify::new(),
            waiters: Mutex::new(HashMap::new()),
            wakes: Wakes::default(),
        };
        (Self(Arc::new(inner)), Intake(rows))
    }

    /// What the store calls after each commit. Never waits.
    pub fn announce(&self) -> Announce {
        let bus = self.clone();
        Box::new(move |rows| {
            let Some(last) = rows.last().map(|row| row.pos) else { return };
            bus.wake_waiters(&rows);
            if bus.0.intake.try_send(rows).is_err() {
                bus.hint(last);
            }
        })
    }

    fn hint(&self, pos: i64) {
        self.0.hinted.fetch_max(pos, Ordering::SeqCst);
        self.0.hint.notify_one();
    }

    pub fn wakes(&self) -> Wakes {
        self.0.wakes.clone()
    }

    /// Wakes the loops that have something to do now, and whoever waits for messages to this sandbox.
    fn wake_waiters(&self, rows: &[Entry]) {
        let told = |types: &[&str]| {
            rows.iter().any(|row| row.seq.is_none() && types.contains(&row.event_type.as_str()))
        };
        if told(MAY_FREE_A_TASK) {
            self.0.wakes.dispatch.notify_one();
        }
        if told(MAY_ADVANCE_A_SPEC) {
            self.0.wakes.advance.notify_one();
        }
        if told(&["SANDBOX_ENDED"]) {
            self.0.wakes.places.notify_one();
        }
        if rows.iter().any(|row| MAY_BRING_A_CONFLICT.contains(&row.event_type.as_str())) {
            self.0.wakes.conductor.notify_one();
        }
        if told(TO_THE_GUARDIAN) {
            self.0.wakes.guardian.notify_one();
        }
        for row in rows.iter().filter(|row| row.event_type == MESSAGE_QUEUED) {
            let waiters = self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(waiter) = waiters.get(&row.entity_id).and_then(Weak::upgrade) {
                waiter.notify_waiters();
            }
        }
    }

    /// Told when a message is queued for the sandbox, by whichever process.
    pub fn messages_for(&self, id: &SandboxId) -> Arc<Notify> {
        let mut waiters = self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|_, waiter| waiter.strong_count() > 0);
        if let Some(waiter) = waiters.get(id.as_str()).and_then(Weak::upgrade) {
            return waiter;
        }
        let waiter = Arc::new(Notify::new());
        waiters.insert(id.to_string(), Arc::downgrade(&waiter));
        waiter
    }

    /// Runs until stopped: takes rows in, in order and without a gap, and shows them to viewers.
    pub async fn pump(
        self,
        Intake(mut rows): Intake,
        store: Store,
        coalesce: Duration,
        stop: CancellationToken,
    ) {
        let mut next = *self.0.tail.borrow() + 1;
        let mut poll = tokio::time::interval(POLL);
        let mut pace = Pace { every: coalesce, left: WAKES_AT_ONCE, at: Instant::now() };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(batch) = rows.recv() => self.accept(&mut next, batch),
                () = self.0.hint.notified() => {}
                _ = poll.tick() => self.0.hinted.store(i64::MAX, Ordering::SeqCst),
            }
            while let Ok(batch) = rows.try_recv() {
                self.accept(&mut next, batch);
            }
            if self.0.hinted.swap(0, Ordering::SeqCst) >= next
                && let Err(error) = self.catch_up(&mut next, &store).await
            {
                tracing::debug!(%error, "live rows cannot be read; asked again in a moment");
            }
            if self.0.tail.send_if_modified(|tail| std::mem::replace(tail, next - 1) != next - 1)
                && let Some(pause) = pace.woken(Instant::now())
            {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }

    fn accept(&self, next: &mut i64, batch: Vec<Entry>) {
        let Some(first) = batch.first().map(|row| row.pos) else { return };
        if first > *next {
            // Another process wrote what is missing here.
            self.0.hinted.fetch_max(batch.last().map_or(first, |row| row.pos), Ordering::SeqCst);
            return;
        }
        let mut ring = self.0.ring.write().unwrap_or_else(PoisonError::into_inner);
        let known = *next;
        for row in batch.into_iter().skip_while(|row| row.pos < known) {
            *next = row.pos + 1;
            ring.push_back(Live::new(row));
        }
        while ring.len() > self.0.ring_max {
            ring.pop_front();
        }
    }

    async fn catch_up(&self, next: &mut i64, store: &Store) -> Result<(), Error> {
        loop {
            let rows = store.event_after(*next - 1, PAGE).await?;
            let full = rows.len() == PAGE;
            self.wake_waiters(&rows);
            self.accept(next, rows);
            if !full {
                return Ok(());
            }
        }
    }

    /// Hears of other processes' rows until stopped.
    pub async fn listen(self, store: Store, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                ended = store.listen(|pos| self.hint(pos)) => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, "other processes cannot be heard; trying again");
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LISTEN_AGAIN) => self.hint(i64::MAX),
            }
        }
    }

    /// Where the order stands when the process starts.
    pub fn begin_at(&self, pos: i64) {
        self.0.tail.send_replace(pos);
    }

    /// A viewer of everything after `since`, or of what comes from now on.
    pub fn view(&self, since: Option<i64>, store: Store) -> Viewer {
        let tail = self.0.tail.subscribe();
        let next = since.unwrap_or_else(|| *tail.borrow()) + 1;
        Viewer { bus: self.clone(), store, tail, next }
    }

    fn take_from_ring(&self, next: i64, limit: usize) -> Option<Vec<Arc<Live>>> {
        let ring = self.0.ring.read().unwrap_or_else(PoisonError::into_inner);
        let first = ring.front()?.entry.pos;
        let skip = usize::try_from(next - first).ok()?;
        Some(ring.iter().skip(skip).take(limit).cloned().collect())
    }
}

/// Viewers are woken once per so long at most, but for a few times that a quiet while has left over, however many commits
/// there are.
struct Pace {
    every: Duration,
    left: f64,
    at: Instant,
}

impl Pace {
    /// They were woken now; how long they are left alone.
    fn woken(&mut self, now: Instant) -> Option<Duration> {
        let gained = (now - self.at).as_secs_f64() / self.every.as_secs_f64().max(f64::EPSILON);
        self.left = (self.left + gained).min(WAKES_AT_ONCE) - 1.0;
        self.at = now;
        (self.left < 0.0).then(|| self.every.mul_f64(-self.left))
    }
}

pub struct Viewer {
    bus: Bus,
    store: Store,
    tail: watch::Receiver<i64>,
    next: i64,
}

impl Viewer {
    /// What is new, at least one row; waits for it. May be given up at any time without losing any.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<Arc<Live>>, Error> {
        loop {
            let tail = *self.tail.borrow_and_update();
            if self.next <= tail {
                let mut rows = match self.bus.take_from_ring(self.next, limit) {
                    Some(rows) => rows,
                    None => self
                        .store
                        .event_after(self.next - 1, limit)
                        .await?
                        .into_iter()
                        .map(Live::new)
                        .collect(),
                };
                rows.retain(|row| row.entry.pos <= tail);
                if let Some(last) = rows.last() {
                    self.next = last.entry.pos + 1;
                    return Ok(rows);
                }
            }
            if self.tail.changed().await.is_err() {
                return Err(Error::Unavailable("the bus has stopped".to_owned()));
            }
        }
    }

    /// The last position that was seen.
    pub fn position(&self) -> i64 {
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_are_woken_a_few_times_at_once_and_then_at_a_pace() {
        let (every, begun) = (Duration::from_millis(10), Instant::now());
        let mut pace = Pace { every, left: WAKES_AT_ONCE, at: begun };
        for _ in 0..4 {
            assert_eq!(pace.woken(begun), None);
        }
        // Whoever keeps to the pauses never has one that is longer.
        let mut now = begun;
        for _ in 0..3 {
            let pause = pace.woken(now).unwrap();
            assert_eq!(pause.as_millis(), 10);
            now += pause;
        }
        now += every * 100;
        assert_eq!((0..4).map(|_| pace.woken(now)).collect::<Vec<_>>(), [None; 4], "no more than at first");
        assert!(pace.woken(now).is_some());
        let mut unpaced = Pace { every: Duration::ZERO, left: 0.0, at: begun };
        assert_eq!(unpaced.woken(now), None);
    }
}
