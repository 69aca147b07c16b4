//! A real server on a free port with an empty database of its own, and short ways to talk to it.

use std::{
    collections::HashMap,
    net::TcpListener,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::SandboxId;
use omoi_server::{
    Server,
    clock::Clock,
    config::{self, Config, DatabaseUrl},
    orchestrator,
    sandbox::DoorSockets,
    store::Store,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// Which database a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Sqlite,
    Postgres,
}

/// Runs each test on both databases: `on_both! { async fn name(app: App) { … } }`. A changed configuration comes
/// first: `on_both! { |config| config.message.queue_max = 3 => async fn … }`.
#[macro_export]
macro_rules! on_both {
    ($($(#[$attr:meta])* async fn $name:ident($app:ident: App) $body:block)*) => {
        $crate::on_both! { |_| {} => $($(#[$attr])* async fn $name($app: App) $body)* }
    };
    ($change:expr => $(#[$attr:meta])* async fn $name:ident($app:ident: App) $body:block $($more:tt)*) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn run($app: $crate::app::App) $body

            $(#[$attr])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                run($crate::app::App::start_with($crate::app::On::Sqlite, $change).await).await;
            }

            $(#[$attr])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                run($crate::app::App::start_with($crate::app::On::Postgres, $change).await).await;
            }
        }
        $crate::on_both! { $change => $($more)* }
    };
    ($change:expr =>) => {};
}

pub struct App {
    pub base: String,
    /// The first operator's token, an admin's.
    pub token: String,
    pub http: reqwest::Client,
    pub clock: Clock,
    pub config: Config,
    /// Where the tokens of sandboxes on this machine count.
    doors: Mutex<HashMap<String, String>>,
    server: Option<Server>,
    _dir: tempfile::TempDir,
    _database: Option<Database>,
}

/// An answer, read whole.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Value,
    pub headers: reqwest::header::HeaderMap,
}

impl Answer {
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self.body
    }

    /// A problem with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert!(!self.body["detail"].as_str().unwrap().is_empty());
        self.body
    }
}

/// A sandbox and its token.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub id: String,
    pub token: String,
    pub task: Option<String>,
}

impl App {
    pub async fn start(on: On) -> Self {
        Self::start_with(on, |_| {}).await
    }

    pub async fn start_with(on: On, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = match on {
            On::Sqlite => None,
            On::Postgres => Some(Database::create().await),
        };
        let mut config = Config { data_dir: dir.path().to_owned(), ..Config::default() };
        config.server.listen = config::HostPort { host: "127.0.0.1".to_owned(), port: 0 };
        config.limits.failed_logins_per_minute = 10_000;
        // The test turns the clock and runs the loops itself.
        config.server.role = config::ServerRole::Api;
        // It needs no key.
        config.worker.model = "scripted/binomial".to_owned();
        if let Some(database) = &database {
            config.database.url = DatabaseUrl::Postgres(database.url.clone().into());
            config.database.pool_size = 2;
        }
        change(&mut config);
        let clock = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let server = Server::start(config.clone(), clock.clone()).await.unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).no_proxy().build().unwrap();
        Self {
            base: format!("http://{}", server.address),
            token: server.first_token.clone().unwrap(),
            http,
            clock,
            config,
            doors: Mutex::default(),
            server: Some(server),
            _dir: dir,
            _database: database,
        }
    }

    /// A second server on the same PostgreSQL.
    pub async fn beside(&self) -> Self {
        assert!(self._database.is_some(), "only a PostgreSQL is shared");
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().to_owned(), ..self.config.clone() };
        let server = Server::start(config.clone(), self.clock.clone()).await.unwrap();
        Self {
            base: format!("http://{}", server.address),
            token: self.token.clone(),
            http: self.http.clone(),
            clock: self.clock.clone(),
            config,
            doors: Mutex::default(),
            server: Some(server),
            _dir: dir,
            _database: None,
        }
    }

    /// Stops the server and starts it again on the same data.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.start_again().await;
    }

    pub async fn stop(&mut self) {
        self.server.take().unwrap().stop().await;
    }

    pub async fn start_again(&mut self) {
        let server = Server::start(self.config.clone(), self.clock.clone()).await.unwrap();
        assert_eq!(server.first_token, None, "a second start makes no first token");
        self.base = format!("http://{}", server.address);
        self.server = Some(server);
    }

    pub fn store(&self) -> &Store {
        &self.server.as_ref().unwrap().store
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Turns the clock and lets the loops see it.
    pub async fn advance(&self, by: Duration) {
        self.clock.advance(SignedDuration::try_from(by).unwrap());
        orchestrator::upkeep(self.store()).await.unwrap();
    }

    pub async fn call(&self, method: Method, path: &str, token: &str, body: Option<&Value>) -> Answer {
        let mut request = self.request(method, path, token);
        if let Some(body) = body {
            request = request.json(body);
        }
        answer(request).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &self.token, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, &self.token, Some(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PATCH, path, &self.token, Some(&body)).await
    }

    /// As the sandbox.
    pub async fn post_as(&self, sandbox: &Sandbox, path: &str, body: Value) -> Answer {
        self.call(
            Method::POST,
            &format!("/api/v1/sandboxes/{}{path}", sandbox.id),
            &sandbox.token,
            Some(&body),
        )
        .await
    }

    pub async fn get_as(&self, sandbox: &Sandbox, path: &str) -> Answer {
        self.call(Method::GET, &format!("/api/v1/sandboxes/{}{path}", sandbox.id), &sandbox.token, None).await
    }

    pub async fn event(&self, sandbox: &Sandbox, kind: &str, data: Value) -> Answer {
        self.post_as(sandbox, "/events", json!({ "event_type": kind, "event_data": data })).await
    }

    /// The worker of a sandbox on this machine, which comes through the door of its sandbox.
    pub async fn worker_of(&self, id: &str) -> Sandbox {
        let id: SandboxId = id.parse().unwrap();
        let token = self.store().place_facts(&id).await.unwrap().token;
        let door = self.open_door(&id);
        self.doors.lock().unwrap().insert(token.clone(), door);
        Sandbox { id: id.to_string(), token, task: None }
    }

    /// Opens the door of a sandbox, and says where it is.
    pub fn open_door(&self, id: &SandboxId) -> String {
        let socket = || TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = DoorSockets { api: socket(), proxy: socket() };
        let base = format!("http://{}", sockets.api.local_addr().unwrap());
        let doors = &self.server.as_ref().unwrap().doors;
        doors.open_for(id, &"prj-1".parse().unwrap(), sockets).unwrap();
        base
    }

    /// Where a token counts: at a door, or on the server's own port.
    pub fn base_of(&self, token: &str) -> String {
        self.doors.lock().unwrap().get(token).unwrap_or(&self.base).clone()
    }

    /// A sandbox that holds no task.
    pub async fn sandbox(&self) -> Sandbox {
        self.attach(json!({})).await
    }

    pub async fn attach(&self, body: Value) -> Sandbox {
        let attached = self.post("/api/v1/sandboxes", body).await.expect(201);
        Sandbox {
            id: attached["sandbox"]["id"].as_str().unwrap().to_owned(),
            token: attached["token"].as_str().unwrap().to_owned(),
            task: attached["sandbox"]["task_id"].as_str().map(str::to_owned),
        }
    }

    pub async fn project(&self, name: &str) -> String {
        let project = self.post("/api/v1/projects", json!({ "name": name })).await.expect(201);
        project["id"].as_str().unwrap().to_owned()
    }

    /// A pending task in a project.
    pub async fn task(&self, project: &str, more: Value) -> String {
        let mut body = json!({ "project_id": project, "title": "fix the parser" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let task = self.post("/api/v1/tasks", body).await.expect(201);
        task["id"].as_str().unwrap().to_owned()
    }

    /// A sandbox that holds a new task of a new project.
    pub async fn sandbox_with_task(&self) -> Sandbox {
        let project = self.project(&unique("project")).await;
        let task = self.task(&project, json!({})).await;
        self.attach(json!({ "task_id": task })).await
    }

    pub async fn task_status(&self, task: &str) -> String {
        let task = self.get(&format!("/api/v1/tasks/{task}")).await.expect(200);
        task["status"].as_str().unwrap().to_owned()
    }
}

pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer { status, body, headers }
}

/// What must come, and comes at once unless something is broken.
#[track_caller]
pub fn soon<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(SOON, work).await;
        waited.unwrap_or_else(|_| panic!("nothing came within {SOON:?}, at {caller}"))
    }
}

const SOON: Duration = Duration::from_secs(30);

/// Asks until there is an answer, for what tells nobody when it happens.
#[track_caller]
pub fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    soon(async move {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
}

pub fn unique(word: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{word}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A database of its own on the private PostgreSQL, dropped at the end.
pub struct Database {
    pub url: String,
    name: String,
}

impl Database {
    pub async fn create() -> Self {
        let server = postgres_url();
        // Process ids come round again, and a test that was killed leaves its database behind.
        let mut bytes = [0u8; 8];
        getrandom::fill(&mut bytes).unwrap();
        let name = format!("omoi_test_{:016x}", u64::from_be_bytes(bytes));
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (rest, _) = server.rsplit_once('/').unwrap();
        Self { url: format!("{rest}/{name}"), name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        // A runtime of its own, since this may run on a thread of one.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(execute(&postgres_url(), &sql));
        });
        let _ = dropped.join();
    }
}

pub fn postgres_url() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment where PostgreSQL is")]
    let url = std::env::var("OMOI_TEST_POSTGRES");
    url.expect("OMOI_TEST_POSTGRES names a PostgreSQL server; `make test` starts one")
}

pub async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    driving.await.unwrap().unwrap();
}
