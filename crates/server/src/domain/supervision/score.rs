//! How good findings are on runs that somebody has judged: for each kind how many of them are right, how many of the
//! judged ones are found, and how long that takes.

use std::collections::BTreeMap;

use omoi_protocol::{FindingKind, event::StoredEvent};
use serde::{Deserialize, Serialize};

use super::replay::Replay;

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

    pub fn mean_seconds(&self) -> Option<f64> {
        let count = self.delays_seconds.len();
        (count > 0).then(|| self.delays_seconds.iter().sum::<f64>() / count as f64)
    }

    pub fn mean_events(&self) -> Option<f64> {
        let count = self.delays_events.len();
        (count > 0).then(|| self.delays_events.iter().sum::<i64>() as f64 / count as f64)
    }
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Score {
    pub runs: u32,
    /// Runs without a label, and those of them in which nothing was found.
    pub good: u32,
    pub quiet: u32,
    pub kinds: BTreeMap<FindingKind, Tally>,
}

impl Score {
    pub fn add(
        &mut self,
        run: &str,
        events: &[StoredEvent],
        replay: &Replay,
        labels: &[Label],
    ) -> Result<(), NoSuchEvent> {
        self.runs += 1;
        self.good += u32::from(labels.is_empty());
        self.quiet += u32::from(labels.is_empty() && replay.findings.is_empty());
        for kind in FindingKind::ALL {
            let tally = self.kinds.entry(*kind).or_default();
            let own: Vec<&Label> = labels.iter().filter(|label| label.kind == *kind).collect();
            tally.add(run, *kind, &own, events, replay)?;
        }
        Ok(())
    }
}

impl Tally {
    fn add(
        &mut self,
        run: &str,
        kind: FindingKind,
        labels: &[&Label],
        events: &[StoredEvent],
        replay: &Replay,
    ) -> Result<(), NoSuchEvent> {
        let found: Vec<_> = replay.findings.iter().filter(|finding| finding.kind == kind).collect();
        let mut begins = Vec::new();
        for label in labels {
            let holds = |event: &&StoredEvent| {
                event.event_type == label.from || event.event_data.get().contains(&label.from)
            };
            let (run, text) = (run.to_owned(), label.from.clone());
            begins.push(events.iter().find(holds).ok_or(NoSuchEvent { run, text, kind })?);
        }
        self.labelled += labels.len() as u32;
        for (label, begin) in labels.iter().zip(&begins) {
            let delays = found.iter().filter(|finding| finding.seq >= begin.seq).map(|finding| {
                (finding, finding.at.duration_since(begin.created_at).as_secs_f64(), finding.seq - begin.seq)
            });
            let in_time = |(_, seconds, count): &(_, f64, i64)| {
                label.within_seconds.is_none_or(|most| *seconds <= most)
                    && label.within_events.is_none_or(|most| *count <= most)
            };
            let Some((finding, seconds, count)) = delays.into_iter().find(in_time) else {
                self.missed_in.push(run.to_owned());
                continue;
            };
            self.found += 1;
            self.delays_seconds.push(seconds);
            self.delays_events.push(count);
            let (usd, tokens) = replay.spent(begin.seq, finding.seq);
            self.usd += usd;
            self.tokens += tokens;
        }
        // A finding is wrong when nothing of its kind has begun; another one of what goes on is not.
        let wrong =
            found.iter().filter(|finding| !begins.iter().any(|begin| begin.seq <= finding.seq)).count();
        self.wrong += wrong as u32;
        if wrong > 0 {
            self.wrong_in.push(run.to_owned());
        }
        Ok(())
    }
}
