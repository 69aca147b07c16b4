//! How good findings are on runs that somebody has judged: for each kind how many of them are right, how many of the
//! judged ones are found, and how long that takes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use omoi_protocol::{FindingKind, event::StoredEvent};
use serde::{Deserialize, Serialize};

use super::{finding::Finding, replay::Replay};

/// What somebody sees in a run.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    pub kind: FindingKind,
    /// It begins with the first event of this type, or whose data holds this text, so that a run that is recorded again keeps its labels.
    pub from: String,
    /// Found later than this counts as not found.
    #[serde(default)]
    pub within_seconds: Option<f64>,
    #[serde(default)]
    pub within_events: Option<i64>,
}

/// A finding that a run should have, and the event that begins it.
#[derive(Debug, Clone)]
pub struct Expected {
    pub kind: FindingKind,
    pub seq: i64,
    pub at: Timestamp,
    pub within_seconds: Option<f64>,
    pub within_events: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
#[error("run {run}: no event holds {text:?}, where {kind} begins by its label")]
pub struct NoSuchEvent {
    pub run: String,
    pub text: String,
    pub kind: FindingKind,
}

/// Of one kind, over all runs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    pub labelled: u32,
    pub found: u32,
    /// Findings where no label is.
    pub wrong: u32,
    pub delays_seconds: Vec<f64>,
    pub delays_events: Vec<i64>,
    /// How much of the run was still to come when it was found.
    pub leads_events: Vec<i64>,
    /// What the runs spent between the beginning and the finding.
    pub usd: f64,
    pub tokens: u64,
    /// The runs that make it worse than perfect.
    pub missed_in: Vec<String>,
    pub wrong_in: Vec<String>,
}

impl Tally {
    /// Of what was found, so much is right. None when nothing was found.
    pub fn precision(&self) -> Option<f64> {
        let all = self.found + self.wrong;
        (all > 0).then(|| f64::from(self.found) / f64::from(all))
    }

    /// Of what there is, so much was found. None when there is nothing.
    pub fn recall(&self) -> Option<f64> {
        (self.labelled > 0).then(|| f64::from(self.found) / f64::from(self.labelled))
    }
}

/// The value that this share of a list does not exceed. None for an empty list.
pub fn quantile<T: Copy + PartialOrd>(values: &[T], share: f64) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Score {
    pub runs: u32,
    /// Runs without a label, and those of them in which nothing was found.
    pub good: u32,
    pub quiet: u32,
    pub kinds: BTreeMap<FindingKind, Tally>,
    /// What was found, by what there was to find: `none` for runs without a fault.
    pub confusion: BTreeMap<Row, BTreeMap<Column, u32>>,
}

/// What there was to find in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum Row {
    Kind(FindingKind),
    None,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum Column {
    Kind(FindingKind),
    Nothing,
}

impl From<Row> for &'static str {
    fn from(row: Row) -> Self {
        match row {
            Row::Kind(kind) => kind.as_str(),
            Row::None => "none",
        }
    }
}

impl From<Column> for &'static str {
    fn from(column: Column) -> Self {
        match column {
            Column::Kind(kind) => kind.as_str(),
            Column::Nothing => "nothing",
        }
    }
}

impl Score {
    /// Adds a run that a person has labelled.
    pub fn add(
        &mut self,
        run: &str,
        events: &[StoredEvent],
        replay: &Replay,
        labels: &[Label],
    ) -> Result<(), NoSuchEvent> {
        let expected: Result<Vec<Expected>, NoSuchEvent> =
            labels.iter().map(|label| label.expected(run, events)).collect();
        self.judge(run, events, replay, &expected?, &[]);
        Ok(())
    }

    /// Adds a run of which it is known what there is to find. `also` are kinds that are neither expected nor wrong.
    pub fn judge(
        &mut self,
        run: &str,
        events: &[StoredEvent],
        replay: &Replay,
        expected: &[Expected],
        also: &[FindingKind],
    ) {
        self.runs += 1;
        self.good += u32::from(expected.is_empty());
        self.quiet += u32::from(expected.is_empty() && replay.findings.is_empty());
        let last = events.last().map_or(0, |event| event.seq);
        for kind in FindingKind::ALL {
            let tally = self.kinds.entry(*kind).or_default();
            let own: Vec<&Expected> = expected.iter().filter(|one| one.kind == *kind).collect();
            let found: Vec<&Finding> =
                replay.findings.iter().filter(|finding| finding.kind == *kind).collect();
            let missed = tally.missed_in.len();
            tally.add(run, &own, &found, also.contains(kind), replay, last);
            for _ in missed..tally.missed_in.len() {
                self.confuse(Row::Kind(*kind), Column::Nothing);
            }
        }
        let row = |found: FindingKind| match expected.iter().map(|one| one.kind).collect::<Vec<_>>() {
            kinds if kinds.contains(&found) => Row::Kind(found),
            kinds => kinds.first().map_or(Row::None, |kind| Row::Kind(*kind)),
        };
        let found: BTreeMap<FindingKind, ()> =
            replay.findings.iter().map(|finding| (finding.kind, ())).collect();
        for (kind, ()) in found {
            self.confuse(row(kind), Column::Kind(kind));
        }
        if expected.is_empty() && replay.findings.is_empty() {
            self.confuse(Row::None, Column::Nothing);
        }
    }

    fn confuse(&mut self, row: Row, column: Column) {
        *self.confusion.entry(row).or_default().entry(column).or_default() += 1;
    }
}

impl Label {
    fn expected(&self, run: &str, events: &[StoredEvent]) -> Result<Expected, NoSuchEvent> {
        let holds = |event: &&StoredEvent| {
            event.event_type == self.from || event.event_data.get().contains(&self.from)
        };
        let (run, text, kind) = (run.to_owned(), self.from.clone(), self.kind);
        let begin = events.iter().find(holds).ok_or(NoSuchEvent { run, text, kind })?;
        let (within_seconds, within_events) = (self.within_seconds, self.within_events);
        Ok(Expected { kind, seq: begin.seq, at: begin.created_at, within_seconds, within_events })
    }
}

impl Tally {
    fn add(
        &mut self,
        run: &str,
        expected: &[&Expected],
        found: &[&Finding],
        is_accepted: bool,
        replay: &Replay,
        last: i64,
    ) {
        self.labelled += expected.len() as u32;
        for one in expected {
            let after = found.iter().filter(|finding| finding.seq >= one.seq);
            let in_time = |finding: &&&Finding| {
                let seconds = finding.at.duration_since(one.at).as_secs_f64();
                one.within_seconds.is_none_or(|most| seconds <= most)
                    && one.within_events.is_none_or(|most| finding.seq - one.seq <= most)
            };
            let Some(finding) = after.into_iter().find(in_time) else {
                self.missed_in.push(run.to_owned());
                continue;
            };
            self.found += 1;
            self.delays_seconds.push(finding.at.duration_since(one.at).as_secs_f64());
            self.delays_events.push(finding.seq - one.seq);
            self.leads_events.push(last - finding.seq);
            let (usd, tokens) = replay.spent(one.seq, finding.seq);
            self.usd += usd;
            self.tokens += tokens;
        }
        // A finding is wrong when nothing of its kind has begun; another one of what goes on is not.
        let wrong = found.iter().filter(|finding| !expected.iter().any(|one| one.seq <= finding.seq)).count();
        let wrong = if is_accepted { 0 } else { wrong };
        self.wrong += wrong as u32;
        if wrong > 0 {
            self.wrong_in.push(run.to_owned());
        }
    }
}
