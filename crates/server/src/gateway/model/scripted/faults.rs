//! How often each fault has happened to whom. It is held in memory alone: after a restart, and when there is too much
//! to remember, faults may happen again.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use omoi_protocol::SandboxId;

use super::scenario::{Fault, FaultKind, Scenario};

const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct Faults(Mutex<HashMap<(SandboxId, String, usize), u32>>);

impl Faults {
    /// The fault that the step's answer has this time, if any.
    pub fn next(&self, sandbox: &SandboxId, scenario: &Scenario, step: usize) -> Option<FaultKind> {
        let faults =
            scenario.steps.get(step).map(|step| &step.faults[..]).filter(|faults| !faults.is_empty())?;
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED_MAX {
            seen.clear();
        }
        let played = seen.entry((sandbox.clone(), scenario.name.clone(), step)).or_default();
        let fault = nth(faults, *played);
        *played = played.saturating_add(1);
        fault
    }
}

/// One after the other, each as often as it says.
fn nth(faults: &[Fault], mut played: u32) -> Option<FaultKind> {
    for fault in faults {
        match played.checked_sub(fault.times) {
            Some(left) => played = left,
            None => return Some(fault.kind.clone()),
        }
    }
    None
}
