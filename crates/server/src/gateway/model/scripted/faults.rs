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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::model::scripted::read;

    #[test]
    fn faults_come_one_after_the_other_and_memory_is_bounded() {
        let text = "steps: [{ say: x, fault: [{ html: true, times: 2 }, { refuse: true, times: 0 }, { garbage: true }] }]";
        let scenario = read::scenario("x.yaml", "x", text).unwrap();
        let (faults, sandbox) = (Faults::default(), SandboxId::generate());
        let seen: Vec<_> = (0..5).map(|_| faults.next(&sandbox, &scenario, 0)).collect();
        assert_eq!(
            seen,
            [Some(FaultKind::Html), Some(FaultKind::Html), Some(FaultKind::Garbage), None, None]
        );
        assert_eq!(faults.next(&sandbox, &scenario, 1), None, "there is no such step");
        for _ in 0..2 * REMEMBERED_MAX {
            assert!(faults.next(&SandboxId::generate(), &scenario, 0).is_some());
        }
        assert!(faults.0.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
