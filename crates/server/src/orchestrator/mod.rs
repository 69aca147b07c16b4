//! Loops that look at stored state and move it one step towards what is wanted.

mod every;
mod upkeep;

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::store::Store;

const UPKEEP_PERIOD: Duration = Duration::from_secs(1);

pub use upkeep::upkeep;

pub fn start(store: &Store, tracker: &TaskTracker, stop: &CancellationToken) {
    let store = store.clone();
    let tick = move || {
        let store = store.clone();
        async move { upkeep(&store).await }
    };
    tracker.spawn(every::every("upkeep", UPKEEP_PERIOD, stop.child_token(), tick));
}
