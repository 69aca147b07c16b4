//! Who may run Git when: so many at once, and of one caller no more than a share of them, so that a slow or hostile
//! sandbox leaves room for the others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The share of one caller, and what it gets at the least.
const SHARE: usize = 4;
const EACH_MIN: usize = 2;

#[derive(Debug, Clone)]
pub struct Turns {
    all: Arc<Semaphore>,
    each: usize,
    callers: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

/// Held while Git runs.
#[derive(Debug)]
pub struct Turn {
    _own: OwnedSemaphorePermit,
    _one_of_all: OwnedSemaphorePermit,
}

impl Turns {
    pub fn new(max: usize) -> Self {
        let each = (max / SHARE).max(EACH_MIN).min(max);
        Self { all: Arc::new(Semaphore::new(max)), each, callers: Arc::default() }
    }

    /// The caller's next turn, unless it does not come in time.
    pub async fn take(&self, caller: &str, patience: Duration) -> Option<Turn> {
        let own = self.own(caller);
        let taking = async {
            let own = own.acquire_owned().await.ok()?;
            Some(Turn { _own: own, _one_of_all: self.all.clone().acquire_owned().await.ok()? })
        };
        tokio::time::timeout(patience, taking).await.ok().flatten()
    }

    fn own(&self, caller: &str) -> Arc<Semaphore> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever neither holds nor waits is forgotten.
        callers.retain(|name, own| name == caller || Arc::strong_count(own) > 1);
        callers.entry(caller.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(self.each))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn one_caller_cannot_take_all_turns() {
        let turns = Turns::new(4);
        let first = [turns.take("a", AT_ONCE).await, turns.take("a", AT_ONCE).await];
        assert!(first.iter().all(Option::is_some));
        assert!(turns.take("a", AT_ONCE).await.is_none(), "no more than its share");
        let others = [turns.take("b", AT_ONCE).await, turns.take("c", AT_ONCE).await];
        assert!(others.iter().all(Option::is_some));
        assert!(turns.take("d", AT_ONCE).await.is_none(), "no more than all");
        drop((first, others));
        assert!(turns.take("a", AT_ONCE).await.is_some());
        assert_eq!(turns.callers.lock().unwrap().len(), 1, "the others are forgotten");
    }
}
