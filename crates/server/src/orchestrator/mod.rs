//! Loops that look at stored state and move it one step towards what is wanted.

mod every;

mod overlap;
mod upkeep;

mod advance;
mod analyse;
mod combine;
mod commands;
mod conductor;
mod diagnose;
mod dispatch;
mod guardian;
mod judge;
mod launch;
mod monitor;
mod node;
mod places;
mod supervise;

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use advance::{Advance, advance};
pub use conductor::Conductor;
pub use diagnose::{Diagnose, diagnose};
pub use dispatch::{Dispatch, dispatch};
pub use guardian::Guardian;
pub use judge::Judge;
pub use launch::Defaults;
pub use monitor::Monitor;
pub use node::Node;
pub use overlap::overlaps;
pub use places::{Parts, Places};
pub use supervise::{Supervise, supervise};
pub use upkeep::upkeep;

use crate::{bus::Wakes, store::Store};

const UPKEEP_PERIOD: Duration = Duration::from_secs(1);
const DISPATCH_PERIOD: Duration = Duration::from_secs(1);
const ADVANCE_PERIOD: Duration = Duration::from_secs(1);
const JUDGE_PERIOD: Duration = Duration::from_secs(1);
const PLACES_PERIOD: Duration = Duration::from_secs(1);
const DIAGNOSE_PERIOD: Duration = Duration::from_secs(60);
const OVERLAP_PERIOD: Duration = Duration::from_secs(10);
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

/// Everything that runs beside requests. None of them waits for another.
pub struct Loops {
    pub store: Store,
    pub dispatch: Dispatch,
    pub advance: Advance,
    pub diagnose: Diagnose,
    pub places: Places,
    /// And how often it looks; none when nobody is to be judged.
    pub supervise: Option<(Duration, Supervise)>,
    /// None when nobody is to look across sandboxes.
    pub conductor: Option<Conductor>,
    pub monitor: Option<Monitor>,
    /// And how often it looks by itself; none when it does not.
    pub guardian: Option<(Duration, Guardian)>,
    /// None when no model is asked for its opinion.
    pub judge: Option<Judge>,
    pub wakes: Wakes,
}

impl Loops {
    pub fn start(self, tracker: &TaskTracker, stop: &CancellationToken) {
        let Self {
            store,
            dispatch,
            advance,
            diagnose,
            places,
            supervise,
            guardian,
            judge,
            conductor,
            monitor,
            wakes,
        } = self;
        let never = || Arc::new(Notify::new());
        let run = Runner { tracker, stop };
        run.every("overlaps", OVERLAP_PERIOD, never(), store.clone(), |store: Store| async move {
            overlaps(&store).await
        });
        run.every(
            "upkeep",
            UPKEEP_PERIOD,
            never(),
            store,
            |store: Store| async move { upkeep(&store).await },
        );
        run.every("dispatch", DISPATCH_PERIOD, wakes.dispatch, dispatch, |it: Dispatch| async move {
            it.tick().await
        });
        run.every(
            "advance",
            ADVANCE_PERIOD,
            wakes.advance,
            advance,
            |it: Advance| async move { it.tick().await },
        );
        run.every(
            "diagnose",
            DIAGNOSE_PERIOD,
            never(),
            diagnose,
            |it: Diagnose| async move { it.tick().await },
        );
        run.every("places", PLACES_PERIOD, wakes.places, places.clone(), |it: Places| async move {
            it.tick().await
        });
        run.every("sweep", SWEEP_PERIOD, never(), places, |it: Places| async move { it.sweep().await });
        if let Some((period, supervise)) = supervise {
            run.every(
                "supervise",
                period,
                never(),
                supervise,
                |it: Supervise| async move { it.tick().await },
            );
        }
        if let Some(monitor) = monitor {
            let period = monitor.settings.period;
            run.every("monitor", period, never(), monitor, |it: Monitor| async move { it.tick().await });
        }
        if let Some(conductor) = conductor {
            let (period, settle) = (conductor.settings.period, conductor.settings.settle);
            run.settling(
                "conductor",
                (period, settle),
                wakes.conductor,
                conductor,
                |it: Conductor| async move { it.tick().await },
            );
        }
        if let Some(judge) = judge {
            run.every("judge", JUDGE_PERIOD, never(), judge, |it: Judge| async move { it.tick().await });
        }
        if let Some((period, guardian)) = guardian {
            run.every(
                "guardian",
                period,
                wakes.guardian,
                guardian,
                |it: Guardian| async move { it.tick().await },
            );
        }
    }
}

struct Runner<'a> {
    tracker: &'a TaskTracker,
    stop: &'a CancellationToken,
}

impl Runner<'_> {
    fn every<T, F, R, E>(
        &self,
        name: &'static str,
        period: Duration,
        wake: Arc<Notify>,
        on: T,
        tick: impl Fn(T) -> F + Send + Sync + 'static,
    ) where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Result<R, E>> + Send,
        R: fmt::Debug + Default + PartialEq + Send,
        E: fmt::Display + Send,
    {
        self.settling(name, (period, Duration::ZERO), wake, on, tick);
    }

    fn settling<T, F, R, E>(
        &self,
        name: &'static str,
        (period, settle): (Duration, Duration),
        wake: Arc<Notify>,
        on: T,
        tick: impl Fn(T) -> F + Send + Sync + 'static,
    ) where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Result<R, E>> + Send,
        R: fmt::Debug + Default + PartialEq + Send,
        E: fmt::Display + Send,
    {
        let stop = self.stop.child_token();
        self.tracker.spawn(async move {
            every::every(name, period, settle, &wake, stop, || tick(on.clone())).await;
        });
    }
}
