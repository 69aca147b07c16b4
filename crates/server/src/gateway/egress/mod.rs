//! The forward proxy on a sandbox's second door: HTTP CONNECT and plain HTTP to the hosts that its project allows,
//! and to nothing else. Every request is logged with the sandbox that made it.
//!
//! The listener was made inside the sandbox's network namespace, so whoever connects is that sandbox. A request is
//! read (`request`), its host judged by the project's list (`rules`), its addresses by their kind (`dial`), and its
//! bytes carried (`tunnel`, `forward`). `log` writes what became of it.

mod dial;
mod door;
mod forward;
mod log;
mod meter;
mod refusal;
mod request;
mod rules;
mod sni;
mod tunnel;
mod upload;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use omoi_protocol::{ProjectId, SandboxId};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    config::{self, Config},
    resolve::Resolver,
    store::Store,
};
use dial::Dialler;
use door::Door;

/// How long open connections may go on when the proxy stops.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Refusals that may be under way beyond the connections that are allowed.
const REFUSALS_MAX: usize = 32;
/// Without a free descriptor there is nothing to accept for a while.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whose proxy it is.
#[derive(Debug, Clone)]
pub struct SandboxContext {
    pub sandbox_id: SandboxId,
    pub project_id: ProjectId,
}

/// What the proxies of all sandboxes share.
#[derive(Clone)]
pub struct Egress(Arc<Shared>);

struct Shared {
    config: config::Egress,
    store: Store,
    clock: Clock,
    dialler: Dialler,
}

impl Egress {
    /// `listens_on` is the address of the API, which no sandbox reaches through its proxy.
    pub fn new(
        config: &Config,
        listens_on: SocketAddr,
        store: Store,
        clock: Clock,
        resolver: Arc<dyn Resolver>,
    ) -> Self {
        let dialler = Dialler::new(config, listens_on, resolver);
        Self(Arc::new(Shared { config: config.egress.clone(), store, clock, dialler }))
    }
}

/// Serves one sandbox's proxy until stopped; then open connections have a moment to end, and the log is written.
pub async fn serve(listener: TcpListener, sandbox: SandboxContext, shared: Egress, stop: CancellationToken) {
    let (log, notes) = log::channel();
    let writer = log::Writer::new(sandbox.sandbox_id.clone(), shared.0.store.clone());
    let cut = CancellationToken::new();
    let door = Arc::new(Door::new(sandbox, shared.0, log, cut.clone()));
    tokio::join!(accept(listener, door, stop, cut), writer.run(notes));
}

/// `cut` is the end of what does not end by itself once it is stopped.
async fn accept(listener: TcpListener, door: Arc<Door>, stop: CancellationToken, cut: CancellationToken) {
    let connections_max = door.connections_max();
    let slots = Arc::new(Semaphore::new(connections_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = open.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let client = match accepted {
            Ok((client, _)) => client,
            Err(error) => {
                tracing::warn!(%error, "an egress proxy cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let door = Arc::clone(&door);
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            open.spawn(async move {
                let _slot = slot;
                door.serve(client).await;
            });
        } else if let Ok(slot) = Arc::clone(&refusals).try_acquire_owned() {
            open.spawn(async move {
                let _slot = slot;
                door.turn_away(client, connections_max).await;
            });
        }
    }
    drop(listener);
    let all_ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_GRACE, all_ended).await.is_err() {
        cut.cancel();
        while open.join_next().await.is_some() {}
    }
}
