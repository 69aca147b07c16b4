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
    let (mut guard, mut history) = (Guard::new(Arc::new(charter)), History::default());
    let mut replay = Replay { events: events.len(), ..Replay::default() };
    for (at, event) in events.iter().enumerate() {
        if let Some(before) = at.checked_sub(1).map(|at| &events[at]) {
            for now in ticks(before.created_at, event.created_at) {
                let news = guard.tick(now, &policy.rules);
                replay.note(news, &guard, policy, &mut history, now);
            }
        }
        let news = guard.take(event, &policy.rules);
        let spend = &guard.trajectory.spend;
        let reading = Reading { seq: event.seq, usd: spend.usd, tokens: spend.tokens };
        if replay.meter.last().is_none_or(|last| (last.usd, last.tokens) != (reading.usd, reading.tokens)) {
            replay.meter.push(reading);
        }
        replay.note(news, &guard, policy, &mut history, guard.trajectory.at);
    }
    replay
}

impl Replay {
    fn note(
        &mut self,
        news: Vec<News>,
        guard: &Guard,
        policy: &Policy,
        history: &mut History,
        now: Timestamp,
    ) {
        let found = news.into_iter().filter_map(|one| match one {
            News::Found(finding) => Some(finding),
            News::Cleared { .. } => None,
        });
        let found: Vec<Finding> = found.collect();
        for action in decide(&guard.trajectory, &found, policy, history, now) {
            history.record(&action);
            self.actions.push(action);
        }
        self.findings.extend(found);
    }
}

fn ticks(from: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
    (1..=TICKS_MAX).map_while(move |n| from.checked_add(TICK * n).ok().filter(|now| *now < until))
}
