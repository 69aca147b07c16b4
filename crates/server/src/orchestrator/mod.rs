//! Loops that look at stored state and move it one step towards what is wanted.

mod every;

mod upkeep;

mod commands;
mod dispatch;
mod launch;
mod node;
mod places;

use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use dispatch::Dispatch;
pub use dispatch::dispatch;
pub use launch::Defaults;
pub use node::Node;
pub use places::{Parts, Places};
pub use upkeep::upkeep;

use crate::{bus::Wakes, store::Store};

const UPKEEP_PERIOD: Duration = Duration::from_secs(1);
const PLACES_PERIOD: Duration = Duration::from_secs(1);
const DISPATCH_PERIOD: Duration = Duration::from_secs(1);
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

pub fn start(
    store: &Store,
    places: Places,
    node: Node,
    wakes: Wakes,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) {
    let Wakes { dispatch: wake, places: wake_places } = wakes;
    let dispatch = Dispatch { store: store.clone(), node, places: wake_places.clone(), own: wake.clone() };
    let tick = move || {
        let dispatch = dispatch.clone();
        async move { dispatch.tick().await }
    };
    let stopping = stop.child_token();
    tracker.spawn(async move { every::every("dispatch", DISPATCH_PERIOD, &wake, stopping, tick).await });

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
    tracker.spawn(async move { every::every("places", PLACES_PERIOD, &wake_places, stopping, tick).await });

    let tick = move || {
        let places = sweeping.clone();
        async move { places.sweep().await }
    };
    let (never, stopping) = (Notify::new(), stop.child_token());
    tracker.spawn(async move { every::every("sweep", SWEEP_PERIOD, &never, stopping, tick).await });
}
