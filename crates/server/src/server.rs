//! One running server: the store, the bus, the loops and the listening socket, started and stopped together.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use axum::extract::ConnectInfo;
use tokio::{net::TcpListener, sync::Notify};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    bus::Bus,
    clock::Clock,
    config::{Config, ServerRole},
    data_dir,
    directories::Directories,
    gateway::{door::Doors, egress::Egress, model},
    git::{self, Checkouts, Mirrors},
    http::{
        self, Gate,
        listen::{Ending, HEAD_TIMEOUT, Listen},
    },
    orchestrator::{Loops, Node, Parts},
    resolve,
    sandbox::local::{Local, Programs},
    store::{self, Store},
    telemetry,
    usual::{self, Usual},
};

/// How often the disk and the files of the data are looked at, whether or not anything is written.
const GROUND_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("there is no place for repositories: {0}")]
    Git(#[from] git::Error),
    #[error(transparent)]
    Model(#[from] model::Error),
    #[error(transparent)]
    Scenario(#[from] model::ScenarioError),
    #[error(transparent)]
    Policy(#[from] usual::Error),
}

pub struct Server {
    pub address: SocketAddr,
    /// The first operator's token, on the first start only.
    pub first_token: Option<String>,
    pub store: Store,
    /// Of the sandboxes on this machine.
    pub doors: Doors,
    stop: CancellationToken,
    tracker: TaskTracker,
    grace: Duration,
}

impl Server {
    pub async fn start(mut config: Config, clock: Clock) -> Result<Self, Error> {
        // Sandboxes are made by a program that may run elsewhere; what it is told has to hold there too.
        config.data_dir = std::path::absolute(&config.data_dir)
            .map_err(|source| data_dir::Error::unusable(&config.data_dir, source))?;
        data_dir::make(&config)?;
        let library = model::Library::load(&config.model)?;
        config.model.prices.extend(library.tariffs());
        let usual = Usual::load(config.guardian.policy.as_deref())?;
        // Before anything is counted: a figure that was asked for earlier counts nothing, for good.
        telemetry::metrics_handle();
        let (bus, intake) = Bus::new(config.live.ring_events, config.live.ring_bytes);
        let store = Store::open(&config, clock.clone(), bus.announce()).await?;
        let mirrors = Mirrors::new(&config)?;
        let directories = Arc::new(Directories::new(&config.data_dir));
        bus.begin_at(store.event_last_position().await?);

        let listen = (config.server.listen.host.clone(), config.server.listen.port);
        let unusable = |source| Error::Listen { address: config.server.listen.to_string(), source };
        let listener = TcpListener::bind(listen).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let calls = model::Calls::start(&config, &store, library, &tracker, &stop)?;

        tracker.spawn(telemetry::tidy(stop.child_token()));
        let (ground, until) = (store.clone(), stop.child_token());
        tracker.spawn(async move {
            until.run_until_cancelled(ground.watch_ground(GROUND_PERIOD)).await;
        });
        let (watched, until) = (directories.clone(), stop.child_token());
        tracker.spawn(async move {
            until.run_until_cancelled(watched.watch(GROUND_PERIOD)).await;
        });
        let gate = Arc::new(Gate::new(&config.limits));
        tracker.spawn(gate.clone().tidy(stop.child_token()));
        tracker.spawn(gate.clone().end_streams(store.clone(), clock.clone(), stop.child_token()));
        tracker.spawn(bus.clone().pump(intake, store.clone(), config.live.coalesce, stop.child_token()));
        if store.is_shared() {
            tracker.spawn(bus.clone().listen(store.clone(), stop.child_token()));
        }
        let grace = config.server.shutdown_grace;
        let connections_max = config.limits.connections_max;
        let wakes = bus.wakes();
        let app = http::router(
            config.clone(),
            http::Parts {
                address,
                clock: clock.clone(),
                store: store.clone(),
                gate,
                bus: bus.clone(),
                wake: wakes.places.clone(),
                mirrors: mirrors.clone(),
                directories,
                calls: calls.clone(),
                usual: usual.clone(),
                stop: stop.child_token(),
            },
        );
        let resolver = Arc::new(resolve::System::default());
        let egress = Egress::new(&config, address, store.clone(), clock.clone(), resolver);
        let doors = Doors::new(app.clone(), egress, tracker.clone(), stop.child_token());
        if config.server.role != ServerRole::Api {
            let parts = parts(&config, clock, store.clone(), mirrors, doors.clone(), wakes.places.clone())?;
            if parts.node.is_keeper() {
                store.place_adopt(parts.node.name()).await?;
                store.task_keys_changed().await?;
            }
            Loops::new(config, parts, &bus, &usual, calls, tracker.clone()).start(&tracker, &stop);
        }
        store.audit_look_at_head().await?;
        // Shown once: so it is made last, when nothing else can fail.
        let first_token = store.token_create_first().await?.map(|created| created.secret);
        let listen = Listen {
            socket: listener,
            connections_max,
            head_timeout: HEAD_TIMEOUT,
            app,
            ending: Ending::Finish,
            tracker: tracker.clone(),
            stop: stop.child_token(),
        };
        tracker.spawn(listen.serve(|request, peer| {
            request.insert(ConnectInfo(peer));
        }));
        Ok(Self { address, first_token, store, doors, stop, tracker, grace })
    }

    /// Serves until `stop` is ready, then ends gracefully.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        stop.await;
        self.stop().await;
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(self.grace, self.tracker.wait()).await.is_err() {
            tracing::warn!("the grace period is over; what still runs is cut off");
        }
        if let Err(error) = self.store.empty_log().await {
            tracing::info!(%error, "what was written last stays in the log beside the database");
        }
    }
}

/// What the loop of places works with.
fn parts(
    config: &Config,
    clock: Clock,
    store: Store,
    mirrors: Mirrors,
    doors: Doors,
    wake: Arc<Notify>,
) -> Result<Parts, Error> {
    let unusable = |source| data_dir::Error::unusable(&config.data_dir, source);
    let beside =
        std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
    Ok(Parts {
        provider: Local::new(config, &Programs::new(config, &beside)),
        checkouts: Checkouts::new(config, mirrors.clone(), clock.clone())?,
        mirrors,
        node: Node::open(&config.data_dir).map_err(unusable)?,
        store,
        clock,
        doors,
        wake,
    })
}
