//! The ways through the phases: all of them, tasks at once for a small change, or the way of a bug, which is shown, traced,
//! mended and kept from coming back.

use std::{fmt, str::FromStr};

use omoi_protocol::spec::Phase;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::evaluate::{Evaluation, Finding, Known, Severity, evaluate_at};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    #[default]
    Full,
    /// A small change: tasks at once.
    Quick,
    /// The tasks come with `bugfix`: how to reproduce it, its cause, what mends it and what guards against it.
    Bugfix,
}

impl Flow {
    pub const ALL: [Self; 3] = [Self::Full, Self::Quick, Self::Bugfix];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Bugfix => "bugfix",
        }
    }

    /// In the order in which they are gone through.
    pub const fn phases(self) -> &'static [Phase] {
        match self {
            Self::Full => Phase::ALL,
            Self::Quick | Self::Bugfix => &[Phase::Tasks, Phase::Sync],
        }
    }

    pub fn first(self) -> Phase {
        self.phases()[0]
    }

    /// The phase after this one; none after the last and for one that is not gone through.
    pub fn next(self, phase: Phase) -> Option<Phase> {
        let at = self.phases().iter().position(|other| *other == phase)?;
        self.phases().get(at + 1).copied()
    }

    /// The outputs that have to stand before a phase can start; none for a phase that is not gone through.
    pub fn needs(self, phase: Phase) -> Option<&'static [Phase]> {
        let at = self.phases().iter().position(|other| *other == phase)?;
        Some(&self.phases()[..at])
    }

    /// An evaluation that also asks for what this way needs.
    pub fn evaluate(self, threshold: f64, phase: Phase, output: &Value, known: &Known<'_>) -> Evaluation {
        let mut evaluation = evaluate_at(threshold, phase, output, known);
        let mut missing = |at: &str, text: String| {
            evaluation.passed = false;
            evaluation.findings.insert(0, Finding { severity: Severity::Issue, at: at.to_owned(), text });
        };
        match self.needs(phase) {
            None => missing("$", format!("a {self} spec has no {phase} phase")),
            Some(needs) => {
                for need in needs.iter().rev().filter(|need| !known.earlier.contains_key(need)) {
                    missing("$", format!("the {need} phase has to stand before the {phase} phase"));
                }
            }
        }
        if self == Self::Bugfix && phase == Phase::Tasks && output.get("bugfix").is_none_or(Value::is_null) {
            let text = "is missing; expected an object with reproduce, cause, fix, guard";
            missing("$.bugfix", text.to_owned());
        }
        evaluation
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no flow of a spec; it is one of full, quick, bugfix")]
pub struct UnknownFlow(String);

impl FromStr for Flow {
    type Err = UnknownFlow;

    fn from_str(word: &str) -> Result<Self, UnknownFlow> {
        Self::ALL.into_iter().find(|flow| flow.as_str() == word).ok_or_else(|| UnknownFlow(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_phases_and_what_they_need() {
        use Phase::{Design, Explore, Prd, Requirements, Sync, Tasks};
        let full = [Explore, Prd, Requirements, Design, Tasks, Sync];
        assert_eq!(Flow::Full.phases(), full);
        for (at, phase) in full.into_iter().enumerate() {
            assert_eq!(Flow::Full.needs(phase), Some(&full[..at]));
            assert_eq!(Flow::Full.next(phase), full.get(at + 1).copied());
        }
        for flow in [Flow::Quick, Flow::Bugfix] {
            assert_eq!((flow.first(), flow.next(Tasks), flow.next(Sync)), (Tasks, Some(Sync), None));
            assert_eq!(flow.needs(Sync), Some(&[Tasks][..]));
            assert_eq!((flow.needs(Design), flow.next(Explore)), (None, None));
        }
    }

    #[test]
    fn a_flow_is_spelt_alike_in_text_and_json() {
        for flow in Flow::ALL {
            assert_eq!(serde_json::to_value(flow).unwrap(), flow.as_str());
            assert_eq!(flow.as_str().parse(), Ok(flow));
        }
        let error = "slow".parse::<Flow>().unwrap_err();
        assert_eq!(error.to_string(), r#""slow" is no flow of a spec; it is one of full, quick, bugfix"#);
    }
}
