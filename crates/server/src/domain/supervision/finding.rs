//! A finding: something in the work of an agent that somebody should know, with the events that show it.

use jiff::Timestamp;
use omoi_protocol::{FindingKind, FindingSeverity};
use serde::Serialize;

/// So many events are named.
pub const SEQS_MAX: usize = 8;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub kind: FindingKind,
    pub severity: FindingSeverity,
    /// Which occurrence it is: while this stays, it is the same finding.
    #[serde(skip)]
    pub key: u64,
    /// The events that show it, by their number in the sandbox; the newest where there are many.
    pub seqs: Vec<i64>,
    pub text: String,
    /// When it began.
    pub since: Timestamp,
    /// The event by which it was found, and its time.
    pub seq: i64,
    pub at: Timestamp,
    /// Which finding of its kind it is in the sandbox, from 1.
    pub number: u32,
}

/// Something began or ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum News {
    Found(Finding),
    /// The behaviour has changed: a finding of the kind would be a new one.
    Cleared {
        kind: FindingKind,
        seq: i64,
        at: Timestamp,
    },
}
