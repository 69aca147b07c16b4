//! The Guardian: watches what live sandboxes do while they do it, and does about it what policies say. What it makes of
//! events is in `domain::supervision`; here is when it looks, at whom, and that nothing is lost or done twice.
//!
//! What it remembers of each sandbox is a function of stored events and of what it stored itself. So whatever goes wrong,
//! it forgets everything and remembers again from the store.

mod policies;
mod watch;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use tokio::sync::Mutex;

use super::node::Node;
use crate::{
    bus::Bus,
    clock::Clock,
    domain::supervision::policy::Policy,
    store::{Entry, Error, GUARDIAN_ELSEWHERE as ELSEWHERE, GuardianTaken, Hold, PAGE_BYTES, Portion, Store},
};
use watch::Watch;

/// Entries that are read at a time, and how often in one look.
const PAGE: usize = 1_000;
const PAGES: usize = 40;
/// For so long nobody else watches, and this often that is made sure of.
const HOLD: SignedDuration = SignedDuration::from_secs(15);
const HOLD_AGAIN: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub found: usize,
    pub made: usize,
}

#[derive(Clone)]
pub struct Guardian {
    store: Store,
    clock: Clock,
    node: Node,
    usual: Arc<Policy>,
    has_judge: bool,
    bus: Option<Bus>,
    watch: Arc<Mutex<Option<Watch>>>,
}

impl Guardian {
    pub fn new(store: Store, clock: Clock, node: Node, usual: Arc<Policy>) -> Self {
        Self { store, clock, node, usual, has_judge: false, bus: None, watch: Arc::default() }
    }

    /// There is a judge, whom it asks when policies say so.
    pub fn with_judge(self) -> Self {
        Self { has_judge: true, ..self }
    }

    /// What is in memory is not read from the store.
    pub fn with_bus(self, bus: Bus) -> Self {
        Self { bus: Some(bus), ..self }
    }

    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        let mut held = self.watch.lock().await;
        let mut watch = match held.take() {
            Some(watch) => watch,
            None => match self.begin().await? {
                Some(watch) => watch,
                None => return Ok(Report::default()),
            },
        };
        // Whatever fails, what was remembered may be ahead of what is stored: it is not put back.
        match self.look(&mut watch).await {
            Ok(Some(report)) => {
                *held = Some(watch);
                Ok(report)
            }
            Ok(None) | Err(Error::Conflict { code: ELSEWHERE, .. }) => Ok(Report::default()),
            Err(error) => Err(error),
        }
    }

    /// Remembers all that live, as of what was judged last. None while another machine watches.
    async fn begin(&self) -> Result<Option<Watch>, Error> {
        let now = self.clock.now();
        let hold = Hold {
            node: self.node.name().to_owned(),
            until: now + HOLD,
            mark: None,
            tick_us: 0,
            watched: 0,
            bytes: 0,
        };
        let Some(mark) = self.store.guardian_hold(hold).await? else { return Ok(None) };
        let mut watch = Watch::new(mark, now, self.usual.clone());
        watch.remember_all(&self.store).await?;
        Ok(Some(watch))
    }

    /// None when another machine has taken over.
    async fn look(&self, watch: &mut Watch) -> Result<Option<Report>, Error> {
        let (began, mut report) = (Instant::now(), Report::default());
        watch.policies.refresh(&self.store).await?;
        for _ in 0..PAGES {
            let Portion { rows, is_last } = self.next(watch.mark.position).await?;
            watch.take(&self.store, rows).await?;
            if is_last {
                watch.pass(self.clock.now());
                if self.has_judge {
                    watch.ask(self.clock.now());
                }
            }
            self.keep(watch, &mut report).await?;
            if is_last {
                break;
            }
        }
        let is_fresh = self.clock.now().duration_since(watch.held_at) < HOLD_AGAIN;
        if is_fresh && watch.live() == watch.told {
            return Ok(Some(report));
        }
        Ok(self.hold(watch, began.elapsed()).await?.then_some(report))
    }

    /// What comes behind a position. That there is no more, the store alone can say.
    async fn next(&self, position: i64) -> Result<Portion<Entry>, Error> {
        let rows = self.bus.as_ref().map_or_else(Vec::new, |bus| bus.recent(position, PAGE));
        if rows.is_empty() {
            return self.store.event_after(position, PAGE, PAGE_BYTES).await;
        }
        Ok(Portion { rows, is_last: false })
    }

    /// Stores what has come about, if anything has.
    async fn keep(&self, watch: &mut Watch, report: &mut Report) -> Result<(), Error> {
        if watch.changes.is_empty() {
            return Ok(());
        }
        let changes = std::mem::take(&mut watch.changes);
        let (found, made) = watch::count(&changes);
        let node = self.node.name().to_owned();
        self.store.guardian_take(GuardianTaken { node, from: watch.stored, to: watch.mark, changes }).await?;
        watch.stored = watch.mark.position;
        report.found += found;
        report.made += made;
        Ok(())
    }

    /// Keeps the right to watch, and how far was looked where nothing came about.
    async fn hold(&self, watch: &mut Watch, took: Duration) -> Result<bool, Error> {
        let now = self.clock.now();
        let hold = Hold {
            node: self.node.name().to_owned(),
            until: now + HOLD,
            mark: Some(watch.mark),
            tick_us: i64::try_from(took.as_micros()).unwrap_or(i64::MAX),
            watched: watch.live() as i64,
            bytes: watch.bytes() as i64,
        };
        let kept = self.store.guardian_hold(hold).await?;
        (watch.held_at, watch.stored, watch.told) = (now, watch.mark.position, watch.live());
        Ok(kept.is_some_and(|mark| mark.position == watch.mark.position))
    }
}
