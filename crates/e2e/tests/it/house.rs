//! A server on a free port with an empty database, and short ways to ask it.

use std::time::Duration;

use omoi_client::{Client, EventQuery};
use omoi_protocol::{
    SandboxId, TaskId, TaskStatus,
    event::{Payload, StoredEvent},
    sandbox::{AttachSandbox, SandboxAttached},
};
use omoi_server::{
    Server,
    clock::Clock,
    config::{self, Config},
};
use rustix::process::{Pid, Signal, kill_process};

pub struct House {
    pub client: Client,
    pub token: String,
    pub dir: tempfile::TempDir,
    config: Config,
    server: Option<Server>,
}

impl House {
    pub async fn open() -> Self {
        Self::open_in(tempfile::tempdir().unwrap()).await
    }

    pub async fn open_in(dir: tempfile::TempDir) -> Self {
        Self::open_with(dir, |_| {}).await
    }

    /// With a changed configuration.
    pub async fn open_with(dir: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        config.server.listen = config::HostPort { host: "127.0.0.1".to_owned(), port: 0 };
        // A long poll is no reason to wait when the server is stopped.
        config.server.shutdown_grace = Duration::from_millis(300);
        change(&mut config);
        let server = Server::start(config.clone(), Clock::Real).await.unwrap();
        config.server.listen.port = server.address.port();
        let token = server.first_token.clone().unwrap();
        let client = Client::new(&format!("http://{}", server.address), &token).unwrap();
        Self { client, token, dir, config, server: Some(server) }
    }

    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// The server goes away.
    pub async fn close(&mut self) {
        self.server.take().unwrap().stop().await;
    }

    /// It comes back on the same port with the same data.
    pub async fn reopen(&mut self) {
        let server = eventually(async || Server::start(self.config.clone(), Clock::Real).await.ok()).await;
        self.server = Some(server);
    }

    pub async fn task(&self) -> TaskId {
        self.task_described("").await
    }

    pub async fn task_described(&self, description: &str) -> TaskId {
        let project = serde_json::json!({ "name": format!("parser {}", SandboxId::generate()) });
        let project = serde_json::from_value(project).unwrap();
        let project = self.client.project_create(&project).await.unwrap();
        let task = serde_json::json!({
            "project_id": project.id, "title": "fix the parser", "description": description, "max_retries": 0,
        });
        self.client.task_create(&serde_json::from_value(task).unwrap()).await.unwrap().id
    }

    pub async fn attach(&self, task: Option<&TaskId>) -> SandboxAttached {
        let new = AttachSandbox { task_id: task.cloned(), ..AttachSandbox::default() };
        self.client.sandbox_attach(&new).await.unwrap()
    }

    pub async fn task_status(&self, task: &TaskId) -> TaskStatus {
        self.client.task_get(task).await.unwrap().status
    }

    /// All events of a sandbox, oldest first.
    pub async fn events(&self, sandbox: &SandboxId) -> Vec<StoredEvent> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let query = EventQuery { after: Some(after), limit: Some(500), ..EventQuery::default() };
            let mut page = self.client.event_list(sandbox, &query).await.unwrap().events;
            page.sort_by_key(|event| event.seq);
            let Some(last) = page.last() else { return all };
            after = last.seq;
            all.extend(page);
        }
    }

    /// Waits until there is such an event.
    #[track_caller]
    pub fn event(
        &self,
        sandbox: &SandboxId,
        wanted: impl Fn(&Payload) -> bool,
    ) -> impl Future<Output = StoredEvent> {
        eventually(async move || {
            let events = self.events(sandbox).await;
            events.into_iter().find(|event| wanted(&event.payload()))
        })
    }

    /// Waits for the first event of this type.
    #[track_caller]
    pub fn told(&self, sandbox: &SandboxId, event_type: &str) -> impl Future<Output = StoredEvent> {
        self.event(sandbox, move |payload| payload.event_type() == event_type)
    }
}

/// A worker that was killed leaves its command running, here as anywhere; but only there, in the test's own directory.
impl Drop for House {
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let here = std::fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|cwd| cwd.starts_with(self.dir.path()));
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            if let (true, Some(pid)) = (here, pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// The types, without heartbeats.
pub fn types(events: &[StoredEvent]) -> Vec<&str> {
    events.iter().filter(|event| !event.is_heartbeat()).map(|event| event.event_type.as_str()).collect()
}

/// What a command wrote to one of its streams, put together.
pub fn written(events: &[StoredEvent], stream: &str) -> String {
    let text = events.iter().filter_map(|event| match event.payload() {
        Payload::CommandOutput(output)
            if output.stream.as_ref().is_some_and(|one| one.as_str() == stream) =>
        {
            output.text
        }
        _ => None,
    });
    text.collect()
}

/// Every number once and in order.
#[track_caller]
pub fn assert_dense(events: &[StoredEvent]) {
    let numbers: Vec<_> = events.iter().filter_map(|event| event.worker_seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
}

const SOON: Duration = Duration::from_secs(30);

/// Asks until there is an answer, for what tells nobody when it happens.
#[track_caller]
pub fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, asking).await;
        waited.unwrap_or_else(|_| panic!("nothing came within {SOON:?}, at {caller}"))
    }
}
