//! The coverage matrix: requirement → tasks → commit → checks. A requirement is met when every task that addresses it is
//! done, and proven when each has a commit on which checks have passed.

use std::collections::BTreeMap;

use omoi_protocol::spec::{
    Phase,
    output::{Requirements, Tasks},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fact;

/// What a completed task has to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The commit that checks ran on.
    pub commit: Option<String>,
    pub checks: Vec<ProofCheck>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofCheck {
    pub name: String,
    pub passed: bool,
}

impl Proof {
    fn holds(&self) -> bool {
        self.commit.is_some() && !self.checks.is_empty() && self.checks.iter().all(|check| check.passed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageRow {
    /// Id of the requirement; of the ticket in a spec without requirements.
    pub requirement: String,
    pub title: String,
    pub tasks: Vec<CoveringTask>,
    pub status: Coverage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveringTask {
    /// `TSK-001`.
    pub key: String,
    /// None until it is done.
    pub proof: Option<Proof>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// No task addresses it.
    Uncovered,
    /// Tasks address it and none is done.
    Planned,
    /// Some of its tasks are done.
    Begun,
    /// All are done, and not all by a commit that checks have passed on.
    Done,
    Proven,
}

/// One row per requirement, in their order.
pub fn coverage(outputs: &BTreeMap<Phase, Value>, done: &dyn Fn(&str) -> Option<Proof>) -> Vec<CoverageRow> {
    let tasks: Tasks = read(outputs, Phase::Tasks);
    let requirements: Requirements = read(outputs, Phase::Requirements);
    let row = |id: &str, title: &str, keys: Vec<&str>| {
        let tasks: Vec<CoveringTask> =
            keys.into_iter().map(|key| CoveringTask { key: key.to_owned(), proof: done(key) }).collect();
        let status = status(&tasks);
        CoverageRow { requirement: id.to_owned(), title: title.to_owned(), tasks, status }
    };
    if requirements.requirements.is_empty() {
        let of = |ticket: &str| {
            tasks
                .tasks
                .iter()
                .filter(|task| task.parent_ticket == ticket)
                .map(|task| task.id.as_str())
                .collect()
        };
        return tasks.tickets.iter().map(|ticket| row(&ticket.id, &ticket.title, of(&ticket.id))).collect();
    }
    let named = fact::Covering::new(&tasks);
    let covering = |id: &str| named.of(id).0.into_iter().collect();
    requirements.requirements.iter().map(|one| row(&one.id, &one.title, covering(&one.id))).collect()
}

/// Per cent of the rows that are proven, rounded down so that 100 means all.
pub fn proven_percent(rows: &[CoverageRow]) -> u8 {
    let proven = rows.iter().filter(|row| row.status == Coverage::Proven).count();
    (100 * proven).checked_div(rows.len()).map_or(0, |percent| percent as u8)
}

fn read<T: for<'de> Deserialize<'de> + Default>(outputs: &BTreeMap<Phase, Value>, phase: Phase) -> T {
    outputs.get(&phase).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

fn status(tasks: &[CoveringTask]) -> Coverage {
    let proofs: Vec<&Proof> = tasks.iter().filter_map(|task| task.proof.as_ref()).collect();
    match (tasks.len(), proofs.len()) {
        (0, _) => Coverage::Uncovered,
        (_, 0) => Coverage::Planned,
        (all, done) if done < all => Coverage::Begun,
        _ if proofs.iter().all(|proof| proof.holds()) => Coverage::Proven,
        _ => Coverage::Done,
    }
}
