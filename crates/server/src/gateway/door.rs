//! The door of each sandbox on this machine: two sockets that listen inside its network and are served here. A request
//! that comes through a door is known to be from that sandbox, and only its own token counts there.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use omoi_protocol::{ProjectId, SandboxId};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use super::egress::{self, Egress, SandboxContext};
use crate::sandbox::DoorSockets;

/// Requests of one sandbox that are open together.
const CONNECTIONS_MAX: usize = 128;
const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);
/// When sockets of this process run out, waiting is all there is to do.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Marks a request that came through the door of a sandbox.
#[derive(Debug, Clone)]
pub struct Through(pub SandboxId);

/// All doors that are served here.
#[derive(Clone)]
pub struct Doors(Arc<Shared>);

struct Shared {
    app: Router,
    egress: Egress,
    tracker: TaskTracker,
    stop: CancellationToken,
    open: Mutex<HashMap<SandboxId, CancellationToken>>,
}

impl Doors {
    pub fn new(app: Router, egress: Egress, tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self(Arc::new(Shared { app, egress, tracker, stop, open: Mutex::new(HashMap::new()) }))
    }

    pub fn is_open(&self, id: &SandboxId) -> bool {
        self.open().contains_key(id)
    }

    /// Serves the sockets until the door is closed.
    pub fn open_for(&self, id: &SandboxId, project: &ProjectId, sockets: DoorSockets) -> io::Result<()> {
        let stop = self.0.stop.child_token();
        let api = listener(sockets.api)?;
        let proxy = listener(sockets.proxy)?;
        if let Some(before) = self.open().insert(id.clone(), stop.clone()) {
            before.cancel();
        }
        let sandbox = SandboxContext { sandbox_id: id.clone(), project_id: project.clone() };
        self.0.tracker.spawn(egress::serve(proxy, sandbox, self.0.egress.clone(), stop.clone()));
        self.0.tracker.spawn(serve(api, id.clone(), self.0.app.clone(), self.0.tracker.clone(), stop));
        Ok(())
    }

    pub fn close(&self, id: &SandboxId) {
        if let Some(stop) = self.open().remove(id) {
            stop.cancel();
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<SandboxId, CancellationToken>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listener(socket: std::net::TcpListener) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

async fn serve(
    listener: TcpListener,
    id: SandboxId,
    app: Router,
    tracker: TaskTracker,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = async {
                let place = places.clone().acquire_owned().await;
                (listener.accept().await, place)
            } => accepted,
        };
        let (socket, place) = match accepted {
            (Ok((socket, _)), Ok(place)) => (socket, place),
            (Err(error), _) => {
                tracing::warn!(sandbox.id = %id, %error, "a door cannot take a connection");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
            (_, Err(_)) => return,
        };
        let _ = socket.set_nodelay(true);
        let (app, id, stop) = (app.clone(), id.clone(), stop.clone());
        tracker.spawn(async move {
            let service = hyper::service::service_fn(move |mut request: Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(Through(id.clone()));
                app.clone().call(request.map(Body::new))
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_TIMEOUT)
                .serve_connection(TokioIo::new(socket), service);
            tokio::select! {
                () = stop.cancelled() => {}
                served = connection => if let Err(error) = served {
                    tracing::debug!(%error, "a connection through a door ended");
                },
            }
            drop(place);
        });
    }
}
