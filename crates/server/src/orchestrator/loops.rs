//! Everything that runs beside requests: which loops there are by the configuration, how often each runs, what wakes it.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Advance, Conductor, Defaults, Diagnose, Dispatch, Fetch, Guardian, Judge, Monitor, Node, Parts, Places,
    Supervise, every::every, overlaps, upkeep::attend,
};
use crate::{
    bus::{Bus, Wakes},
    config::Config,
    domain::idle::Patience,
    gateway::model::Calls,
    store::Store,
    usual::Usual,
};

const UPKEEP_PERIOD: Duration = Duration::from_secs(1);
const DISPATCH_PERIOD: Duration = Duration::from_secs(1);
const FETCH_PERIOD: Duration = Duration::from_secs(1);
const ADVANCE_PERIOD: Duration = Duration::from_secs(1);
const JUDGE_PERIOD: Duration = Duration::from_secs(1);
const PLACES_PERIOD: Duration = Duration::from_secs(1);
const DIAGNOSE_PERIOD: Duration = Duration::from_secs(60);
const OVERLAP_PERIOD: Duration = Duration::from_secs(10);
const SWEEP_PERIOD: Duration = Duration::from_secs(60);

/// None of them waits for another.
pub struct Loops {
    store: Store,
    node: Node,
    dispatch: Dispatch,
    fetch: Fetch,
    advance: Advance,
    diagnose: Diagnose,
    places: Places,
    /// And how often it looks; none when nobody is to be judged.
    supervise: Option<(Duration, Supervise)>,
    /// None when nobody is to look across sandboxes.
    conductor: Option<Conductor>,
    monitor: Option<Monitor>,
    /// And how often it looks by itself; none when it does not.
    guardian: Option<(Duration, Guardian)>,
    /// None when no model is asked for its opinion.
    judge: Option<Judge>,
    wakes: Wakes,
}

impl Loops {
    pub fn new(
        config: Config,
        parts: Parts,
        bus: &Bus,
        usual: &Usual,
        calls: Calls,
        tracker: TaskTracker,
    ) -> Self {
        let (store, clock, node) = (parts.store.clone(), parts.clock.clone(), parts.node.clone());
        let (mirrors, wakes) = (parts.mirrors.clone(), bus.wakes());
        let dispatch = Dispatch::new(store.clone(), node.clone(), wakes.clone());
        let advance = Advance { store: store.clone(), node: node.clone(), mirrors: mirrors.clone() };
        let fetch = Fetch { store: store.clone(), node: node.clone(), mirrors: mirrors.clone() };
        let diagnose = Diagnose { store: store.clone(), node: node.clone() };
        let supervise = config.supervise.enabled.then(|| {
            let patience = Patience::configured(&config.supervise);
            let (store, clock, node) = (store.clone(), clock.clone(), node.clone());
            (config.supervise.period, Supervise { store, clock, node, patience, stays: config.worker.idle })
        });
        let conductor = config
            .conductor
            .enabled
            .then(|| Conductor::new(store.clone(), clock.clone(), node.clone(), mirrors, config.conductor));
        let monitor = config
            .monitor
            .enabled
            .then(|| Monitor::new(store.clone(), clock.clone(), node.clone(), config.monitor));
        let guardian = config.guardian.enabled.then(|| {
            let plain = Guardian::new(store.clone(), clock.clone(), node.clone(), usual.policy.clone());
            let plain = plain.with_bus(bus.clone());
            let guardian = if config.judge.enabled { plain.with_judge() } else { plain };
            (config.guardian.period, guardian)
        });
        let judge =
            config.judge.enabled.then(|| Judge::new(store.clone(), clock, node.clone(), calls, config.judge));
        let push_bytes_max = parts.mirrors.push_bytes_max();
        let defaults = Defaults { sandbox: config.sandbox, worker: config.worker, push_bytes_max };
        let places = Places::new(parts, defaults, tracker);
        Self {
            store,
            node,
            dispatch,
            fetch,
            advance,
            diagnose,
            places,
            supervise,
            conductor,
            monitor,
            guardian,
            judge,
            wakes,
        }
    }

    pub fn start(self, tracker: &TaskTracker, stop: &CancellationToken) {
        let Self {
            store,
            node,
            dispatch,
            fetch,
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
            (store, node),
            |(store, node): (Store, Node)| async move { attend(&store, node.name()).await },
        );
        run.every("dispatch", DISPATCH_PERIOD, wakes.dispatch, dispatch, |it: Dispatch| async move {
            it.tick().await
        });
        run.every("fetch", FETCH_PERIOD, never(), fetch.clone(), |it: Fetch| async move { it.tick().await });
        run.every("settle", FETCH_PERIOD, never(), fetch, |it: Fetch| async move { it.settle().await });
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
            every(name, period, settle, &wake, stop, || tick(on.clone())).await;
        });
    }
}
