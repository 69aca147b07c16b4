//! A guard watches over one trajectory: it takes events, lets the detectors look, and tells what began and what ended. A
//! finding is told once per occurrence, however long it goes on.

use std::sync::Arc;

use jiff::Timestamp;
use omoi_protocol::{FindingKind, event::StoredEvent};

use super::{
    detect::{DETECTORS, Moment, Shown},
    finding::{Finding, News, SEQS_MAX},
    policy::Rules,
    trajectory::{Charter, Trajectory},
};

const KINDS: usize = FindingKind::ALL.len();
const _: () = assert!(DETECTORS.len() == KINDS);

#[derive(Debug, Clone)]
pub struct Guard {
    pub trajectory: Trajectory,
    /// What is known to be so, by the key of its occurrence.
    open: [Option<u64>; KINDS],
    numbers: [u32; KINDS],
}

impl Guard {
    pub fn new(charter: Arc<Charter>) -> Self {
        Self { trajectory: Trajectory::new(charter), open: [None; KINDS], numbers: [0; KINDS] }
    }

    pub fn take(&mut self, event: &StoredEvent, rules: &Rules) -> Vec<News> {
        let moment = Moment::of(&self.trajectory.take(event));
        let now = self.trajectory.at;
        self.look(moment, now, rules)
    }

    /// Takes an event that was judged before. With what was found (`restore`), the guard is as it was.
    pub fn recall(&mut self, event: &StoredEvent) {
        self.trajectory.take(event);
    }

    /// What was found before: how many of a kind, and the occurrence that goes on.
    pub fn restore(&mut self, kind: FindingKind, number: u32, open: Option<u64>) {
        if let Some(at) = FindingKind::ALL.iter().position(|known| *known == kind) {
            (self.numbers[at], self.open[at]) = (number, open);
        }
    }

    pub fn is_open(&self, kind: FindingKind) -> bool {
        self.open().any(|open| open == kind)
    }

    /// Time has passed without an event.
    pub fn tick(&mut self, now: Timestamp, rules: &Rules) -> Vec<News> {
        self.look(Moment::Time, now.max(self.trajectory.at), rules)
    }

    /// Kinds of which a finding goes on.
    pub fn open(&self) -> impl Iterator<Item = FindingKind> {
        FindingKind::ALL.iter().zip(&self.open).filter(|(_, open)| open.is_some()).map(|(kind, _)| *kind)
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Trajectory>() + self.trajectory.bytes()
    }

    fn look(&mut self, moment: Moment, now: Timestamp, rules: &Rules) -> Vec<News> {
        let mut news = Vec::new();
        for (at, detector) in DETECTORS.iter().enumerate() {
            if !detector.looks_at(moment) {
                continue;
            }
            match ((detector.look)(&self.trajectory, rules, now), self.open[at]) {
                (None, None) => {}
                (None, Some(_)) => {
                    self.open[at] = None;
                    news.push(News::Cleared { kind: detector.kind, seq: self.trajectory.seq, at: now });
                }
                (Some(shown), Some(open)) if shown.key == open => {}
                (Some(shown), _) => {
                    self.open[at] = Some(shown.key);
                    self.numbers[at] += 1;
                    news.push(News::Found(self.finding(detector.kind, self.numbers[at], shown, now)));
                }
            }
        }
        news
    }

    fn finding(&self, kind: FindingKind, number: u32, mut shown: Shown, at: Timestamp) -> Finding {
        shown.seqs.sort_unstable();
        shown.seqs.dedup();
        let surplus = shown.seqs.len().saturating_sub(SEQS_MAX);
        shown.seqs.drain(..surplus);
        let (severity, seqs, text, since) = (shown.severity, shown.seqs, shown.text, shown.since);
        Finding { kind, severity, key: shown.key, seqs, text, since, seq: self.trajectory.seq, at, number }
    }
}
