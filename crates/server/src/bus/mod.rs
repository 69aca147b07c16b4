//! The bus: stored rows on their way to live viewers, in this process and in others.
//!
//! Rows come from the store's own commits or, when another process wrote them, are read back by position. They go
//! into one ring. A viewer holds nothing but its position: it takes what is new from the ring, or from the store
//! when it has fallen behind the ring. So no viewer has a queue, none can slow a writer, and none misses a row.

mod ring;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use omoi_protocol::SandboxId;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use ring::Live;
use ring::{Ring, VIEW_BYTES, weight};

use crate::store::{Announce, Entry, Error, MESSAGE_QUEUED, PAGE_BYTES, Store};

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
    "SANDBOX_UNKEPT",
];
/// After these two tasks may get in each other's way that did not before, or no longer.
const MAY_BRING_A_CONFLICT: &[&str] =
    &["agent.file_edited", "git.push", "TASK_ASSIGNED", "SANDBOX_ENDED", "SANDBOX_RETURNED"];
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
    ring: RwLock<Ring>,
    /// What waits for the pump, and may.
    intake_bytes: AtomicUsize,
    intake_bytes_max: usize,
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
    /// With a ring of so many rows and bytes. As many bytes may wait for it: more would drive each other out of it.
    pub fn new(rows_max: usize, bytes_max: usize) -> (Self, Intake) {
        let (intake, rows) = mpsc::channel(INTAKE_MAX);
        let inner = Inner {
            ring: RwLock::new(Ring::new(rows_max, bytes_max)),
            intake_bytes: AtomicUsize::new(0),
            intake_bytes_max: bytes_max,
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
            if !bus.send(rows) {
                bus.hint(last);
            }
        })
    }

    /// Hands rows to the pump, unless too many wait for it.
    fn send(&self, rows: Vec<Entry>) -> bool {
        let bytes: usize = rows.iter().map(weight).sum();
        let waiting = self.0.intake_bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let sent = waiting <= self.0.intake_bytes_max && self.0.intake.try_send(rows).is_ok();
        if !sent {
            self.0.intake_bytes.fetch_sub(bytes, Ordering::SeqCst);
        }
        sent
    }

    /// Rows that waited for the pump.
    fn receive(&self, next: &mut i64, rows: Vec<Entry>) {
        let bytes = rows.iter().map(weight).sum();
        self.accept(next, rows);
        self.0.intake_bytes.fetch_sub(bytes, Ordering::SeqCst);
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
                Some(batch) = rows.recv() => self.receive(&mut next, batch),
                () = self.0.hint.notified() => {}
                _ = poll.tick() => self.0.hinted.store(i64::MAX, Ordering::SeqCst),
            }
            while let Ok(batch) = rows.try_recv() {
                self.receive(&mut next, batch);
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
        let (known, half) = (*next, (ring.rows_max as i64 / 2).max(1));
        for row in batch.into_iter().skip_while(|row| row.pos < known) {
            *next = row.pos + 1;
            ring.push(row);
        }
        // In time to find them here, where they cost nobody a question.
        if known / half != *next / half {
            self.0.wakes.guardian.notify_one();
        }
    }

    async fn catch_up(&self, next: &mut i64, store: &Store) -> Result<(), Error> {
        loop {
            let page = store.event_after(*next - 1, PAGE, PAGE_BYTES).await?;
            self.wake_waiters(&page.rows);
            self.accept(next, page.rows);
            if page.is_last {
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

    /// What came right behind a position, if it is in memory still.
    pub fn recent(&self, pos: i64, limit: usize) -> Vec<Entry> {
        let rows = self.take_from_ring(pos + 1, limit).unwrap_or_default();
        rows.iter().map(|row| row.entry.clone()).collect()
    }

    fn take_from_ring(&self, next: i64, limit: usize) -> Option<Vec<Arc<Live>>> {
        self.0.ring.read().unwrap_or_else(PoisonError::into_inner).take(next, limit)
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
                        .event_after(self.next - 1, limit, VIEW_BYTES)
                        .await?
                        .rows
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
    use super::{ring::tests::entry, *};

    #[test]
    fn what_waits_for_the_pump_is_bounded_by_bytes() {
        let (bus, mut intake) = Bus::new(100, 10_000);
        assert!(bus.send(vec![entry(1, 1000)]) && bus.send(vec![entry(2, 1000)]));
        assert!(!bus.send(vec![entry(3, 2000)]), "it is read back");
        let mut next = 1;
        while let Ok(batch) = intake.0.try_recv() {
            bus.receive(&mut next, batch);
        }
        assert_eq!((next, bus.0.intake_bytes.load(Ordering::SeqCst)), (3, 0));
        assert!(bus.send(vec![entry(3, 2000)]));
    }

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
