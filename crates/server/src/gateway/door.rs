//! The door of each sandbox on this machine: two sockets that listen inside its network and are served here. A request
//! that comes through a door is known to be from that sandbox, and only its own token counts there.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use axum::Router;
use omoi_protocol::{ProjectId, SandboxId};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::egress::{self, Egress, SandboxContext};
use crate::{
    http::listen::{Ending, HEAD_TIMEOUT, Listen},
    sandbox::DoorSockets,
};

/// Requests of one sandbox that are open together.
const CONNECTIONS_MAX: usize = 128;

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
        let door = Listen {
            socket: api,
            connections_max: CONNECTIONS_MAX,
            head_timeout: HEAD_TIMEOUT,
            app: self.0.app.clone(),
            ending: Ending::CutOff,
            tracker: self.0.tracker.clone(),
            stop,
        };
        let through = Through(id.clone());
        self.0.tracker.spawn(door.serve(move |request, _| {
            request.insert(through.clone());
        }));
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
