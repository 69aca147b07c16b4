//! The measure of the rules on runs that no person has labelled: good runs, made of passages of honest work or taken from a
//! recorded set, into which one known fault is put at a known event. What is made depends on a seed alone.

mod dice;
mod fault;
mod generate;
mod good;
mod kit;
mod scene;
#[cfg(test)]
mod tests;

use omoi_protocol::{FindingKind, event::StoredEvent};

pub use self::generate::{Base, generate};
use super::{score::Expected, trajectory::Charter};

/// A run with what is to be found in it.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub charter: Charter,
    pub events: Vec<StoredEvent>,
    pub expected: Vec<Expected>,
    /// Kinds that a reader would accept as other names of the same fault.
    pub also: &'static [FindingKind],
}
