//! Which ended sandboxes have stopped and wait for their rescue, and which are being rescued. All of it is in memory: after a
//! restart each is stopped once more, which also ends a rescue that was under way.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use omoi_protocol::SandboxId;

use crate::{
    domain::place::{Rescuing, Share},
    store::Placed,
};

pub(super) struct Rescues {
    share: Share,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stopped: HashSet<SandboxId>,
    under_way: HashMap<SandboxId, Rescuing>,
}

/// A place among the rescues, given back when it is dropped.
pub(super) struct Slot<'a> {
    of: &'a Rescues,
    id: SandboxId,
}

impl Rescues {
    pub fn new(share: Share) -> Self {
        Self { share, state: Mutex::default() }
    }

    pub fn has_stopped(&self, id: &SandboxId) -> bool {
        self.lock().stopped.contains(id)
    }

    pub fn stopped(&self, id: &SandboxId) {
        self.lock().stopped.insert(id.clone());
    }

    /// Whether it has stopped and has to wait, because its rescue would be one too many.
    pub fn must_wait(&self, row: &Placed) -> bool {
        let state = self.lock();
        state.stopped.contains(&row.id) && !state.admits(&self.share, row)
    }

    /// Whether it has stopped and its rescue may begin.
    pub fn is_next(&self, row: &Placed) -> bool {
        let state = self.lock();
        state.stopped.contains(&row.id) && state.admits(&self.share, row)
    }

    /// Takes a place for a sandbox that has stopped. Another try stops it again first: a rescue that broke off may have left
    /// something running.
    pub fn take(&self, row: &Placed) -> Option<Slot<'_>> {
        let mut state = self.lock();
        if !state.admits(&self.share, row) {
            return None;
        }
        state.stopped.remove(&row.id);
        state.under_way.insert(row.id.clone(), rescuing(row));
        Some(Slot { of: self, id: row.id.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admits(&self, share: &Share, row: &Placed) -> bool {
        share.admits(self.under_way.values(), &rescuing(row))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.of.lock().under_way.remove(&self.id);
    }
}

fn rescuing(row: &Placed) -> Rescuing {
    Rescuing { project: row.project_id.clone(), is_repeated: row.rescue_tries > 0 }
}
