//! The account of a recording: how many lines were read, and what became of each. A line is understood when its format
//! knows its kind, unknown when it is JSON of a kind that the format does not know, and broken when it cannot be read.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::super::text::line;

/// At most this many kinds are counted by name; the others share one name.
const KINDS_MAX: usize = 64;
const KIND_CHARS_MAX: usize = 80;
const OTHER_KINDS: &str = "(other kinds)";

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineError {
    NotUtf8,
    NotJson,
    /// JSON that ends in the middle.
    CutOff,
    /// A known kind whose fields do not fit it.
    Misshapen,
    TooLong,
    /// The run has as many events as are read.
    TooManyEvents,
    /// An event of ours with the number of one before it.
    Duplicate,
}

impl LineError {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotUtf8 => "not UTF-8",
            Self::NotJson => "not JSON",
            Self::CutOff => "cut off",
            Self::Misshapen => "fields of the wrong type",
            Self::TooLong => "too long",
            Self::TooManyEvents => "beyond the limit of events",
            Self::Duplicate => "duplicate event",
        }
    }
}

/// What a format makes of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Understood,
    /// The name of a kind that the format does not know.
    Unknown(String),
    Broken(LineError),
}

/// The counts of one recording, or of several together. `read` is the sum of `understood`, `unknown` and `broken`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Lines that are not blank; in a file that is one JSON document, its records.
    pub read: u64,
    pub understood: u64,
    /// Understood lines that became events of the run. The rest is of kinds that tell supervision nothing.
    pub used: u64,
    pub unknown: u64,
    pub broken: u64,
    pub unknown_kinds: BTreeMap<String, u64>,
    pub broken_causes: BTreeMap<LineError, u64>,
}

impl Ledger {
    /// Books one line. `used` says that it became events.
    pub fn book(&mut self, verdict: Verdict, used: bool) {
        self.read += 1;
        match verdict {
            Verdict::Understood => {
                self.understood += 1;
                self.used += u64::from(used);
            }
            Verdict::Unknown(kind) => {
                self.unknown += 1;
                self.count_kind(line(&kind, KIND_CHARS_MAX), 1);
            }
            Verdict::Broken(fault) => {
                self.broken += 1;
                *self.broken_causes.entry(fault).or_default() += 1;
            }
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.understood += other.understood;
        self.used += other.used;
        self.unknown += other.unknown;
        self.broken += other.broken;
        for (kind, count) in &other.unknown_kinds {
            self.count_kind(kind.clone(), *count);
        }
        for (fault, count) in &other.broken_causes {
            *self.broken_causes.entry(*fault).or_default() += count;
        }
    }

    fn count_kind(&mut self, kind: String, count: u64) {
        let is_listed = self.unknown_kinds.len() < KINDS_MAX || self.unknown_kinds.contains_key(&kind);
        let name = if is_listed { kind } else { OTHER_KINDS.to_owned() };
        *self.unknown_kinds.entry(name).or_default() += count;
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |items: Vec<String>| match items.is_empty() {
            true => String::new(),
            false => format!(" ({})", items.join(", ")),
        };
        let unknown = self.unknown_kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let broken =
            self.broken_causes.iter().map(|(fault, count)| format!("{} {count}", fault.as_str())).collect();
        write!(
            f,
            "{} lines read, {} understood ({} became events), {} unknown{}, {} broken{}",
            self.read,
            self.understood,
            self.used,
            self.unknown,
            listed(unknown),
            self.broken,
            listed(broken)
        )
    }
}
