//! The evaluation of an output: a score from 0 to 1 and what is to be done better. The same output against the same earlier
//! outputs and files always gets the same.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::{Phase, output};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{design, explore, name, prd, requirement, sync, task, work};

/// From this score on an output passes, where nobody has set another.
pub const THRESHOLD: f64 = 0.7;
const FINDINGS_MAX: usize = 50;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// From 0 to 1.
    pub score: f64,
    pub passed: bool,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub severity: Severity,
    /// A JSON path such as `$.tasks[2].title`.
    pub at: String,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// With one of these an output fails, whatever its score.
    Issue,
    /// Costs score.
    Warning,
}

/// What an output is held against.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Outputs that stand.
    pub earlier: &'a BTreeMap<Phase, Value>,
    /// Paths in the repository at the commit that the phase looked at.
    pub files: &'a BTreeSet<String>,
}

impl Known<'_> {
    /// An earlier output, if there is one that can be read.
    pub(super) fn output<T: DeserializeOwned>(&self, phase: Phase) -> Option<T> {
        T::deserialize(self.earlier.get(&phase)?).ok()
    }

    /// What a wrong path may have meant; not looked for when nobody would read it.
    pub(super) fn meant(&self, marks: &Marks, path: &str) -> String {
        if marks.has_room() { name::meant(self.files, path) } else { String::new() }
    }
}

pub fn evaluate(phase: Phase, output: &Value, known: &Known<'_>) -> Evaluation {
    evaluate_at(THRESHOLD, phase, output, known)
}

pub fn evaluate_at(threshold: f64, phase: Phase, output: &Value, known: &Known<'_>) -> Evaluation {
    let mut marks = Marks::default();
    if let Err(error) = output::shape_of(phase, output) {
        error.places().into_iter().for_each(|wrong| marks.issue(wrong.at, wrong.text));
        return marks.evaluation(threshold);
    }
    let read = match phase {
        Phase::Explore => judge(output, |output| explore::judge(output, known, &mut marks)),
        Phase::Prd => judge(output, |output| prd::judge(output, &mut marks)),
        Phase::Requirements => judge(output, |output| requirement::judge(output, known, &mut marks)),
        Phase::Design => judge(output, |output| design::judge(output, known, &mut marks)),
        Phase::Tasks => judge(output, |output| task::judge(output, known, &mut marks)),
        Phase::Sync => judge(output, |output| sync::judge(output, known, &mut marks)),
    };
    if let Err(error) = read {
        marks.issue("$", format!("cannot be read: {error}"));
    }
    marks.evaluation(threshold)
}

fn judge<T: DeserializeOwned>(output: &Value, judge: impl FnOnce(&T)) -> Result<(), serde_json::Error> {
    T::deserialize(output).map(|output| judge(&output))
}

/// What an evaluator has found so far.
#[derive(Debug, Default)]
pub(super) struct Marks {
    score: f64,
    findings: Vec<Finding>,
    more: usize,
}

impl Marks {
    pub fn issue(&mut self, at: impl Into<String>, text: impl Into<String>) {
        self.find(Severity::Issue, at.into(), text.into());
    }

    pub fn warn(&mut self, at: impl Into<String>, text: impl Into<String>) {
        self.find(Severity::Warning, at.into(), text.into());
    }

    /// Adds the part of a weight that is earned, from 0 to 1.
    pub fn earn(&mut self, weight: f64, part: f64) {
        self.score += weight * part.clamp(0.0, 1.0);
    }

    /// The whole weight, or a warning.
    pub fn expect(&mut self, weight: f64, good: bool, at: &str, text: &str) {
        self.earn(weight, if good { 1.0 } else { 0.0 });
        if !good {
            self.warn(at, text);
        }
    }

    /// The part of the weight that as many as wanted earn, with a warning when there are fewer.
    pub fn at_least(&mut self, weight: f64, count: usize, wanted: usize, at: &str) {
        self.earn(weight, share(count, wanted));
        if count < wanted {
            self.warn(at, format!("has {count}; at least {wanted} are wanted"));
        }
    }

    /// Where issues are, of which a caller wants to know whether any were added.
    pub fn issues(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Issue).count()
    }

    /// Whether another finding would be listed, and is worth working out.
    pub fn has_room(&self) -> bool {
        self.findings.len() < FINDINGS_MAX
    }

    fn find(&mut self, severity: Severity, at: String, text: String) {
        work::step(at.len() + text.len());
        let finding = Finding { severity, at, text };
        if self.findings.contains(&finding) {
            return;
        }
        // An issue decides, so it is never the one that has no room.
        if self.findings.len() >= FINDINGS_MAX {
            self.more += 1;
            let warning = self.findings.iter().rposition(|finding| finding.severity == Severity::Warning);
            match (severity, warning) {
                (Severity::Issue, Some(at)) => drop(self.findings.remove(at)),
                _ => return,
            }
        }
        self.findings.push(finding);
    }

    fn evaluation(mut self, threshold: f64) -> Evaluation {
        let score = (self.score * 1000.0).round() / 1000.0;
        let issues = self.issues();
        let passed = issues == 0 && score >= threshold;
        if self.more > 0 {
            let text = format!("{} more findings are not listed", self.more);
            self.findings.push(Finding { severity: Severity::Warning, at: "$".to_owned(), text });
        }
        Evaluation { score, passed, findings: self.findings }
    }
}

/// How much of what is wanted is there; all of nothing is 1.
pub(super) fn share(count: usize, wanted: usize) -> f64 {
    if wanted == 0 { 1.0 } else { (count as f64 / wanted as f64).min(1.0) }
}

/// Whether a value says anything.
pub(super) fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => items.iter().any(says),
        Value::Object(object) => object.values().any(says),
        Value::Bool(_) | Value::Number(_) => true,
    }
}
