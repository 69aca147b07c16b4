//! How many calls may be under way at once, in this process and of one sandbox.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use omoi_protocol::SandboxId;

use super::refusal::Refusal;

#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    each_max: usize,
    all_max: usize,
    /// Sandboxes without a call are not in it.
    taken: Mutex<HashMap<SandboxId, usize>>,
}

/// Given back when it is dropped.
pub struct Slot {
    inner: Arc<Inner>,
    sandbox: SandboxId,
}

impl Slots {
    pub fn new(each_max: usize, all_max: usize) -> Self {
        Self(Arc::new(Inner { each_max, all_max, taken: Mutex::default() }))
    }

    pub fn take(&self, sandbox: &SandboxId) -> Result<Slot, Refusal> {
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.get(sandbox).is_some_and(|own| *own >= self.0.each_max) {
            let message = "the sandbox has as many calls under way as model.sandbox_calls_max allows";
            return Err(Refusal::busy("too_many_calls", message));
        }
        if taken.values().sum::<usize>() >= self.0.all_max {
            let message = "the server has as many calls under way as model.calls_max allows";
            return Err(Refusal::busy("too_many_calls", message));
        }
        *taken.entry(sandbox.clone()).or_default() += 1;
        Ok(Slot { inner: self.0.clone(), sandbox: sandbox.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.sandbox) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.sandbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_its_call_has_ended() {
        let slots = Slots::new(2, 3);
        let (one, other) = (SandboxId::generate(), SandboxId::generate());
        let held = [slots.take(&one).unwrap(), slots.take(&one).unwrap()];
        assert!(slots.take(&one).is_err());
        let last = slots.take(&other).unwrap();
        assert!(slots.take(&other).is_err(), "the process is full");
        drop(held);
        assert!(slots.take(&other).is_ok());
        drop(last);
        assert!(slots.0.taken.lock().unwrap().is_empty());
    }
}
