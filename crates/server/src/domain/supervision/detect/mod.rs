//! The detectors: each looks at a trajectory and says whether something of its kind is so now, and by which events.

mod alternating;
mod burn;
mod claim;
mod drift;
mod error;
mod forbidden;
mod helpers;
mod instruction;
mod misaligned;
mod progress;
mod question;
mod repeated;
mod undo;
mod weakening;

use jiff::Timestamp;
use omoi_protocol::{FindingKind, FindingSeverity};

use super::{policy::Rules, sign::Sign, trajectory::Trajectory};

/// What a detector sees while it is so.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Which occurrence it is: as long as this stays, it is the same one.
    pub key: u64,
    pub severity: FindingSeverity,
    pub seqs: Vec<i64>,
    pub text: String,
    pub since: Timestamp,
}

pub struct Detector {
    pub kind: FindingKind,
    /// When something of its kind can begin or end.
    moments: &'static [Moment],
    pub look: fn(&Trajectory, &Rules, Timestamp) -> Option<Shown>,
}

impl Detector {
    pub fn looks_at(&self, moment: Moment) -> bool {
        self.moments.contains(&moment)
    }
}

/// What an event is to detectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Call,
    Result,
    Edit,
    Said,
    Told,
    Helper,
    Money,
    End,
    Judged,
    /// Nothing but that time has passed.
    Time,
    None,
}

impl Moment {
    pub fn of(sign: &Sign) -> Self {
        match sign {
            Sign::Call(_) => Self::Call,
            Sign::Result { .. } => Self::Result,
            Sign::Edited(_) => Self::Edit,
            Sign::Said { parent: None, .. } => Self::Said,
            Sign::Told { .. } => Self::Told,
            Sign::HelperAsked { .. } | Sign::HelperDone { .. } => Self::Helper,
            Sign::Spent { .. } | Sign::OverBudget => Self::Money,
            Sign::Halted { .. } | Sign::Ended { .. } | Sign::Checked { .. } => Self::End,
            Sign::Judged(_) => Self::Judged,
            Sign::Beat { .. }
            | Sign::Waiting
            | Sign::Work
            | Sign::Pushed
            | Sign::Began { .. }
            | Sign::Goal(_) => Self::Time,
            Sign::Said { .. } | Sign::Nothing => Self::None,
        }
    }
}

use Moment::{Call, Edit, End, Helper, Judged, Money, Result, Said, Time, Told};

/// In the order of `FindingKind::ALL`.
#[rustfmt::skip]
pub const DETECTORS: [Detector; 14] = [
    Detector { kind: FindingKind::RepeatedAction, moments: &[Result, Edit, Told, End], look: repeated::look },
    Detector { kind: FindingKind::AlternatingActions, moments: &[Result, Edit, Told, End], look: alternating::look },
    Detector { kind: FindingKind::SameError, moments: &[Result, Told, End], look: error::look },
    Detector { kind: FindingKind::EditUndo, moments: &[Edit], look: undo::look },
    Detector { kind: FindingKind::NoProgress, moments: &[Call, Result, Edit, Told, End, Time], look: progress::look },
    Detector { kind: FindingKind::Drift, moments: &[Edit], look: drift::look },
    Detector { kind: FindingKind::IgnoredInstruction, moments: &[Call, Edit, Said, Told], look: instruction::look },
    Detector { kind: FindingKind::UnansweredQuestion, moments: &[Call, Told, End, Time], look: question::look },
    Detector { kind: FindingKind::ForbiddenCommand, moments: &[Call], look: forbidden::look },
    Detector { kind: FindingKind::TestWeakening, moments: &[Result, Edit, End], look: weakening::look },
    Detector { kind: FindingKind::BudgetBurn, moments: &[Money, Edit], look: burn::look },
    Detector { kind: FindingKind::RunawaySubagents, moments: &[Helper], look: helpers::look },
    Detector { kind: FindingKind::FalseClaim, moments: &[Result, Said, End], look: claim::look },
    Detector { kind: FindingKind::Misaligned, moments: &[Judged, Told], look: misaligned::look },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_detector() {
        let kinds: Vec<FindingKind> = DETECTORS.iter().map(|detector| detector.kind).collect();
        assert_eq!(kinds, FindingKind::ALL);
    }
}
