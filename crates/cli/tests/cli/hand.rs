//! The loop that makes sandboxes, turned by hand: a server that only answers requests, and its store moved step by step as
//! the loop moves it. So the test decides when anything happens.

use std::{net::TcpListener, time::Duration};

use omoi_protocol::{CommandId, FailureKind, SandboxId, sandbox::Kept};
use omoi_server::{
    Server,
    clock::Clock,
    config::{Config, HostPort, ServerRole},
    sandbox::DoorSockets,
    store::Store,
};
use serde_json::{Value, json};

use crate::{
    program::Dir,
    server::{Served, Worker},
};

const LOOK_EVERY: Duration = Duration::from_millis(20);
const GIVE_UP: Duration = Duration::from_secs(30);

pub struct Hand {
    runtime: tokio::runtime::Runtime,
    store: Store,
    /// Beside the server under test, with the same store: it opens the doors of sandboxes, through which their workers come.
    server: Server,
}

impl Hand {
    pub fn new(dir: &Dir) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        config.database.pool_size = 1;
        config.server.role = ServerRole::Api;
        config.server.listen = HostPort { host: "127.0.0.1".to_owned(), port: 0 };
        let server = runtime.block_on(Server::start(config, Clock::Real)).unwrap();
        Self { runtime, store: server.store.clone(), server }
    }

    /// The sandbox that somebody has asked for, once they have.
    pub fn wanted(&self) -> SandboxId {
        self.until(async || {
            let rows = self.store.place_list("here", 10).await.unwrap();
            rows.into_iter().find(|row| row.place == omoi_protocol::Place::Wanted).map(|row| row.id)
        })
    }

    /// Its place is there, and its worker can speak.
    pub fn up(&self, served: &Served<'_>, id: &SandboxId) -> Worker {
        let layers = json!({ "level": "reduced", "layers": [{ "layer": "disk_cap", "status": "reduced" }] });
        let token = self.runtime.block_on(async {
            assert!(self.store.place_take(id, "here", 100).await.unwrap());
            let token = self.store.place_facts(id).await.unwrap().token;
            self.store.place_up(id, layers).await.unwrap();
            token
        });
        served.worker_through(Some(self.open_door(id)), id.as_str(), &token)
    }

    /// The address of the sandbox's door, once it is open.
    fn open_door(&self, id: &SandboxId) -> String {
        let socket = || TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = DoorSockets { api: socket(), proxy: socket() };
        let address = format!("http://{}", sockets.api.local_addr().unwrap());
        let _in_runtime = self.runtime.enter();
        self.server.doors.open_for(id, &"prj-1".parse().unwrap(), sockets).unwrap();
        address
    }

    /// Where it is to start from.
    pub fn base(&self, id: &SandboxId) -> Option<String> {
        self.runtime.block_on(self.store.place_facts(id)).unwrap().wish.base
    }

    pub fn failed(&self, id: &SandboxId, error: &str) {
        self.runtime.block_on(self.store.place_failed(id, FailureKind::Invalid, error)).unwrap();
    }

    /// It has ended, and now nothing of it can be lost.
    pub fn kept(&self, id: &SandboxId, kept: Value) {
        let kept: Kept = serde_json::from_value(kept).unwrap();
        self.runtime.block_on(async {
            self.store.place_kept(id, kept, 0).await.unwrap();
            self.store.place_gone(id).await.unwrap();
        });
    }

    /// The command that somebody wants to run, once they do.
    pub fn command(&self) -> CommandId {
        let id = self.until(async || {
            let rows = self.store.command_list_pending("here", 10).await.unwrap();
            rows.into_iter().next().map(|(command, _)| command.id)
        });
        assert!(self.runtime.block_on(self.store.command_begin(&id)).unwrap());
        id
    }

    pub fn command_end(&self, id: &CommandId, how: Result<i64, String>) {
        self.runtime.block_on(self.store.command_end(id, how)).unwrap();
    }

    /// Whether the sandbox has been asked to end, once it has.
    pub fn ended(&self, id: &SandboxId) -> String {
        self.until(async || {
            let sandbox = self.store.sandbox_get(id).await.unwrap();
            (!sandbox.status.is_live()).then(|| sandbox.end_reason.unwrap_or_default())
        })
    }

    fn until<T>(&self, look: impl AsyncFn() -> Option<T>) -> T {
        let looking = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        self.runtime.block_on(async { tokio::time::timeout(GIVE_UP, looking).await }).expect("it never came")
    }
}
