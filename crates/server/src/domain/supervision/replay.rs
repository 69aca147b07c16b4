//! A recorded run, watched as if it happened now: the same guard and the same decisions, event by event, with the ticks
//! that would have come in between.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use omoi_protocol::event::StoredEvent;
use serde::Serialize;

use super::{
    decide::{Action, History, decide},
    finding::{Finding, News},
    guard::Guard,
    policy::Policy,
    trajectory::Charter,
};

/// How often a quiet sandbox is looked at, and how often at most between two events.
const TICK: Duration = Duration::from_secs(10);
const TICKS_MAX: u32 = 1_000;

/// What supervision would have found and done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Replay {
    pub events: usize,
    pub findings: Vec<Finding>,
    pub actions: Vec<Action>,
    #[serde(skip)]
    pub meter: Vec<Reading>,
}

/// What had been spent by an event.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub seq: i64,
    pub usd: f64,
    pub tokens: u64,
}

impl Replay {
    /// What was spent after one event and up to another.
    pub fn spent(&self, after: i64, until: i64) -> (f64, u64) {
        let by = |seq: i64| self.meter.iter().take_while(|reading| reading.seq <= seq).last();
        let (before, then) = (by(after), by(until));
        let usd = then.map_or(0.0, |reading| reading.usd) - before.map_or(0.0, |reading| reading.usd);
        let tokens = then.map_or(0, |reading| reading.tokens) - before.map_or(0, |reading| reading.tokens);
        (usd, tokens)
    }
}

pub fn replay(events: &[StoredEvent], charter: Charter, policy: &Policy) -> Replay {
    let mut replaying = Replaying::new(charter);
    replaying.take(events, policy);
    replaying.end()
}

/// A replay under way, for a run that is read piece by piece.
#[derive(Debug)]
pub struct Replaying {
    guard: Guard,
    history: History,
    replay: Replay,
    /// When the last event came.
    before: Option<Timestamp>,
}

impl Replaying {
    pub fn new(charter: Charter) -> Self {
        let (guard, history) = (Guard::new(Arc::new(charter)), History::default());
        Self { guard, history, replay: Replay::default(), before: None }
    }

    /// The number of the last event that was taken.
    pub fn seq(&self) -> i64 {
        self.guard.trajectory.seq
    }

    pub fn events(&self) -> usize {
        self.replay.events
    }

    pub fn end(self) -> Replay {
        self.replay
    }

    /// Takes the next events.
    pub fn take(&mut self, events: &[StoredEvent], policy: &Policy) {
        self.replay.events += events.len();
        for event in events {
            if let Some(before) = self.before.replace(event.created_at) {
                for now in ticks(before, event.created_at) {
                    let news = self.guard.tick(now, &policy.rules);
                    self.note(news, policy, now);
                }
            }
            let news = self.guard.take(event, &policy.rules);
            self.read_meter(event.seq);
            self.note(news, policy, self.guard.trajectory.at);
        }
    }

    fn read_meter(&mut self, seq: i64) {
        let (spend, meter) = (&self.guard.trajectory.spend, &mut self.replay.meter);
        let reading = Reading { seq, usd: spend.usd, tokens: spend.tokens };
        if meter.last().is_none_or(|last| (last.usd, last.tokens) != (reading.usd, reading.tokens)) {
            meter.push(reading);
        }
    }

    fn note(&mut self, news: Vec<News>, policy: &Policy, now: Timestamp) {
        let found = news.into_iter().filter_map(|one| match one {
            News::Found(finding) => Some(finding),
            News::Cleared { .. } => None,
        });
        let found: Vec<Finding> = found.collect();
        for action in decide(&self.guard.trajectory, &found, policy, &self.history, now) {
            self.history.record(&action);
            self.replay.actions.push(action);
        }
        self.replay.findings.extend(found);
    }
}

fn ticks(from: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
    (1..=TICKS_MAX).map_while(move |n| from.checked_add(TICK * n).ok().filter(|now| *now < until))
}
