//! Loops that look at stored state and move it one step towards what is wanted.

mod every;

mod overlap;
mod upkeep;

mod commands;
mod launch;
mod node;
mod places;

use std::{sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use launch::Defaults;
pub use node::Node;
pub use overlap::overlaps;
pub use places::{Parts, Places};
pub use upkeep::upkeep;

use crate::store::Store;

const UPKEEP_PERIOD: Duration = Duration::from_secs(1);
const PLACES_PERIOD: Duration = Duration::from_secs(1);
const OVERLAP_PERIOD: Duration = Duration::from_secs(10);
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

pub fn start(
    store: &Store,
    places: Places,
    wake: Arc<Notify>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) {
    let comparing = store.clone();
    let tick = move || {
        let store = comparing.clone();
        async move { overlaps(&store).await }
    };
    let (never, stopping) = (Notify::new(), stop.child_token());
    tracker.spawn(async move { every::every("overlaps", OVERLAP_PERIOD, &never, stopping, tick).await });

    let store = store.clone();
    let tick = move || {
        let store = store.clone();
        async move { upkeep(&store).await }
    };
    let (never, stopping) = (Notify::new(), stop.child_token());
    tracker.spawn(async move { every::every("upkeep", UPKEEP_PERIOD, &never, stopping, tick).await });

    let sweeping = places.clone();
    let tick = move || {
        let places = places.clone();
        async move { places.tick().await }
    };
    let stopping = stop.child_token();
    tracker.spawn(async move { every::every("places", PLACES_PERIOD, &wake, stopping, tick).await });

    let tick = move || {
        let places = sweeping.clone();
        async move { places.sweep().await }
    };
    let (never, stopping) = (Notify::new(), stop.child_token());
    tracker.spawn(async move { every::every("sweep", SWEEP_PERIOD, &never, stopping, tick).await });
}
