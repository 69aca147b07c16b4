//! A server under test as a process of its own, and what a person sees of it.

use std::{
    os::unix::{
        fs::{PermissionsExt, chown},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures_util::StreamExt;
use omoi_client::{Client, LiveFilter};
use omoi_protocol::{ProjectId, SandboxId, live::LiveEvent, sandbox::Sandbox};
use omoi_server::crash::Point;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::git::Repository;

/// Longer than anything here takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// An ordinary user that owns nothing.
const USER: u32 = 54_321;

/// Who the server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    Root,
    /// Without ranges of ids and without control groups, which an administrator has accepted.
    User,
}

pub struct Omoi {
    dir: TempDir,
    who: As,
    env: Vec<(&'static str, String)>,
    served: Option<Served>,
    token: String,
    repositories: std::sync::Mutex<Vec<Repository>>,
    /// Removed with it.
    dirs: std::sync::Mutex<Vec<PathBuf>>,
    pub client: Client,
    pub http: reqwest::Client,
}

struct Served {
    url: String,
    first_token: Option<String>,
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Omoi {
    pub async fn start(who: As) -> Self {
        Self::start_with(who, &[]).await
    }

    pub async fn start_with(who: As, env: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut own = Vec::new();
        if who == As::User {
            own.push(("OMOI_SANDBOX_ALLOW_SOFT_LIMITS", "true".to_owned()));
            own.push(("OMOI_SANDBOX_ALLOW_SHARED_ID", "true".to_owned()));
            chown(dir.path(), Some(USER), Some(USER)).unwrap();
        }
        let env: Vec<_> =
            own.into_iter().chain(env.iter().map(|(name, value)| (*name, (*value).to_owned()))).collect();
        programs(dir.path());
        let served = serve(dir.path(), who, &env).await;
        let token = served.first_token.clone().expect("the first start makes a token");
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let client = Client::new(&served.url, &token).unwrap();
        Self {
            dir,
            who,
            env,
            served: Some(served),
            token,
            repositories: Default::default(),
            dirs: Default::default(),
            client,
            http,
        }
    }

    /// The directory is removed with the server.
    pub fn keep_until_the_end(&self, dir: PathBuf) {
        self.dirs.lock().unwrap().push(dir);
    }

    /// Waits until a file is in the workspace of a sandbox.
    pub async fn until_file(&self, id: &SandboxId, name: &str) {
        let look = format!("until test -e /workspace/{name}; do sleep 0.05; done");
        assert_eq!(self.exec(id, &["/bin/sh", "-c", &look]).await.code, Some(0));
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn url(&self) -> &str {
        &self.served.as_ref().expect("it runs").url
    }

    /// Of the server's process.
    pub fn pid(&self) -> u32 {
        self.served.as_ref().and_then(|served| served.child.id()).expect("it runs")
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// `kill -9` of the server alone.
    pub async fn kill(&mut self) {
        self.served.take().expect("it runs").child.kill().await.unwrap();
    }

    /// Starts it again on the same data.
    pub async fn start_again(&mut self) {
        let served = serve(self.dir.path(), self.who, &self.env).await;
        self.client = Client::new(&served.url, &self.token).unwrap();
        self.served = Some(served);
    }

    /// What its environment says from the next start on.
    pub fn set(&mut self, name: &'static str, value: &str) {
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value.to_owned()));
    }

    /// The same, and it dies by itself when it has passed this point so often.
    pub async fn start_again_until(&mut self, point: Point, nth: usize) {
        self.env.push(("OMOI_CRASH_AT", format!("{}:{nth}", point.as_str())));
        self.start_again().await;
        self.env.pop();
    }

    /// Waits until it has died as if it were killed.
    pub async fn died(&mut self) {
        let mut served = self.served.take().expect("it runs");
        let died = timeout(PATIENCE, served.child.wait()).await;
        let status = died.unwrap_or_else(|_| panic!("it lives on\n{}", self.last_words())).unwrap();
        assert_eq!(status.signal(), Some(9), "{status}\n{}", self.last_words());
    }

    pub fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("serve.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url())).bearer_auth(&self.token).json(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    pub async fn patch(&self, path: &str, body: &Value) {
        let request = self.http.patch(format!("{}{path}", self.url())).bearer_auth(&self.token).json(body);
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.text().await.unwrap());
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = self.http.get(format!("{}{path}", self.url())).bearer_auth(&self.token);
        request.send().await.unwrap().json().await.unwrap()
    }

    pub async fn project(&self, repository: &Repository) -> ProjectId {
        self.project_with(repository, json!({})).await
    }

    /// Tests start their tasks themselves, unless they say otherwise.
    pub async fn project_with(&self, repository: &Repository, mut settings: Value) -> ProjectId {
        settings.as_object_mut().unwrap().entry("autonomous").or_insert(false.into());
        if self.who == As::User {
            repository.give_to(USER);
        }
        let name = format!("project {}", repository.path().display());
        let body = json!({ "name": name, "repository_url": repository.path(), "settings": settings });
        let (status, project) = self.post("/api/v1/projects", &body).await;
        assert_eq!(status, 201, "{project}");
        project["id"].as_str().unwrap().parse().unwrap()
    }

    /// A project of a few files, which are there as long as the server.
    pub async fn small_project(&self) -> ProjectId {
        self.small_project_with(json!({})).await
    }

    pub async fn small_project_with(&self, settings: Value) -> ProjectId {
        let repository = Repository::small();
        let project = self.project_with(&repository, settings).await;
        self.repositories.lock().unwrap().push(repository);
        project
    }

    /// Asks for a sandbox that runs a command.
    pub async fn order(&self, project: &ProjectId, argv: &[&str]) -> SandboxId {
        self.order_with(project, json!({ "command": argv })).await
    }

    pub async fn order_with(&self, project: &ProjectId, body: Value) -> SandboxId {
        let (status, sandbox) = self.post(&format!("/api/v1/projects/{project}/sandboxes"), &body).await;
        assert_eq!(status, 202, "{sandbox}");
        sandbox["id"].as_str().unwrap().parse().unwrap()
    }

    pub async fn sandbox(&self, id: &SandboxId) -> Sandbox {
        self.client.sandbox_get(id).await.unwrap()
    }

    /// Everything that happens to a sandbox, from its beginning, until one thing does.
    pub async fn until(&self, id: &SandboxId, is_it: impl Fn(&LiveEvent) -> bool) -> Vec<LiveEvent> {
        let filter = LiveFilter { entity_ids: vec![id.to_string()], ..LiveFilter::default() };
        let mut stream = Box::pin(self.client.stream(&filter, Some(0)));
        let mut seen = Vec::new();
        let found = timeout(PATIENCE, async {
            while let Some(event) = stream.next().await {
                let event = by_its_own_name(event.unwrap());
                let found = is_it(&event);
                seen.push(event);
                if found {
                    return true;
                }
            }
            false
        });
        let found = found.await;
        assert_eq!(found, Ok(true), "it does not come to that: {seen:#?}\n{}", self.last_words());
        seen
    }

    /// The first event of this type.
    pub async fn until_event(&self, id: &SandboxId, event_type: &str) -> Value {
        let seen = self.until(id, |event| event.event_type == event_type).await;
        serde_json::to_value(seen.last().unwrap()).unwrap()
    }

    /// Waits until nothing is left of it; everything that happened.
    pub async fn gone(&self, id: &SandboxId) -> Vec<LiveEvent> {
        self.until(id, |event| event.event_type == "SANDBOX_REMOVED").await
    }

    /// Runs a command in a new sandbox to its end: exit code and everything it wrote.
    pub async fn run(&self, project: &ProjectId, argv: &[&str]) -> Ran {
        let id = self.order(project, argv).await;
        let seen = self.gone(&id).await;
        Ran::read(id, &seen)
    }

    pub async fn sh(&self, project: &ProjectId, script: &str) -> Ran {
        self.run(project, &["/bin/sh", "-c", script]).await
    }

    /// Runs a further command in a sandbox that is up.
    pub async fn exec(&self, id: &SandboxId, argv: &[&str]) -> Ran {
        let (status, command) =
            self.post(&format!("/api/v1/sandboxes/{id}/commands"), &json!({ "argv": argv })).await;
        assert_eq!(status, 202, "{command}");
        let command_id = command["id"].as_str().unwrap().to_owned();
        let of = |event: &LiveEvent| data(event)["command_id"] == command_id.as_str();
        let seen = self.until(id, |event| event.event_type == "command.completed" && of(event)).await;
        let seen: Vec<LiveEvent> = seen.into_iter().filter(of).collect();
        Ran::read(id.clone(), &seen)
    }

    pub async fn terminate(&self, id: &SandboxId) {
        let (status, answer) = self.post(&format!("/api/v1/sandboxes/{id}/terminate"), &json!({})).await;
        assert_eq!(status, 200, "{answer}");
    }
}

impl Omoi {
    /// The process that a sandbox hangs on.
    fn init(&self, id: &SandboxId) -> rustix::process::Pid {
        let state =
            std::fs::read_to_string(self.data().join("sandboxes").join(id.as_str()).join("state.json"));
        let state: Value = serde_json::from_str(&state.unwrap()).unwrap();
        rustix::process::Pid::from_raw(i32::try_from(state["pid"].as_i64().unwrap()).unwrap()).unwrap()
    }

    /// Its workspace, as its processes see it.
    pub fn workspace(&self, id: &SandboxId) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root/workspace", self.init(id).as_raw_nonzero()))
    }

    pub fn kill_init(&self, id: &SandboxId) {
        rustix::process::kill_process(self.init(id), rustix::process::Signal::KILL).unwrap();
    }

    /// False when it has ended by itself.
    pub fn try_kill_init(&self, id: &SandboxId) -> bool {
        let state = self.data().join("sandboxes").join(id.as_str()).join("state.json");
        state.exists() && rustix::process::kill_process(self.init(id), rustix::process::Signal::KILL).is_ok()
    }

    /// The processes that sandboxes hang on.
    pub fn inits(&self) -> Vec<rustix::process::Pid> {
        let places = std::fs::read_dir(self.data().join("sandboxes")).unwrap();
        places
            .map(|place| self.init(&place.unwrap().file_name().to_str().unwrap().parse().unwrap()))
            .collect()
    }

    /// Somebody removes a sandbox behind the server's back.
    pub fn remove_place(&self, id: &SandboxId) {
        #[expect(clippy::disallowed_methods, reason = "the program under test")]
        let mut command = std::process::Command::new(self.dir.path().join("bin/omoi-launcher"));
        if self.who == As::User {
            std::os::unix::process::CommandExt::uid(&mut command, USER);
        }
        let removed =
            command.arg("remove").arg(self.data().join("sandboxes").join(id.as_str())).status().unwrap();
        assert!(removed.success());
    }
}

/// A server that is dropped leaves its sandboxes running: end them, so that a failed test leaves nothing.
impl Drop for Omoi {
    fn drop(&mut self) {
        self.served.take();
        for dir in self.dirs.lock().unwrap().drain(..) {
            let _ = std::fs::remove_dir_all(dir);
        }
        let Ok(places) = std::fs::read_dir(self.data().join("sandboxes")) else { return };
        for place in places.flatten() {
            #[expect(clippy::disallowed_methods, reason = "the program under test")]
            let removed =
                std::process::Command::new(bin("omoi-launcher")).arg("remove").arg(place.path()).status();
            drop(removed);
        }
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub id: SandboxId,
    pub code: Option<i64>,
    pub signal: Option<i64>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn read(id: SandboxId, seen: &[LiveEvent]) -> Self {
        let mut ran = Self { id, code: None, signal: None, stdout: String::new(), stderr: String::new() };
        for event in seen {
            let data = data(event);
            match event.event_type.as_str() {
                "command.output" => {
                    let text = data["text"].as_str().unwrap();
                    if data["stream"] == "stderr" {
                        ran.stderr.push_str(text);
                    } else {
                        ran.stdout.push_str(text);
                    }
                }
                "command.completed" => {
                    (ran.code, ran.signal) = (data["exit_code"].as_i64(), data["signal"].as_i64());
                }
                _ => {}
            }
        }
        ran
    }

    /// What it wrote, when it went well.
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout.trim_end()
    }
}

/// On the wire a sandbox's own events bear a prefix; what became of the sandbox itself is in capitals.
fn by_its_own_name(mut event: LiveEvent) -> LiveEvent {
    if let Some(own) = event.event_type.strip_prefix("SANDBOX_").filter(|own| own.contains('.')) {
        event.event_type = own.to_owned();
    }
    event
}

pub fn data(event: &LiveEvent) -> Value {
    serde_json::to_value(event).unwrap()["payload"].clone()
}

/// A program of ours, built beside the test.
pub fn bin(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().unwrap().parent().unwrap().join(name);
    assert!(path.exists(), "{} is missing: cargo build --workspace --bins", path.display());
    path
}

/// Where everybody may run them.
fn programs(dir: &Path) {
    let to = dir.join("bin");
    std::fs::create_dir(&to).unwrap();
    for name in ["omoi", "omoi-launcher", "omoi-worker"] {
        let (from, to) = (bin(name), to.join(name));
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).unwrap();
        }
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755)).unwrap();
    }
}

async fn serve(dir: &Path, who: As, env: &[(&'static str, String)]) -> Served {
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(dir.join("bin/omoi"));
    let log = std::fs::File::options().create(true).append(true).open(dir.join("serve.log")).unwrap();
    command
        // A relative one, as people give it.
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg("data")
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("OMOI_LOG", "info")
        // The default model would need a key.
        .env("OMOI_WORKER_MODEL", "scripted/binomial")
        .envs(env.iter().map(|(name, value)| (*name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true);
    if who == As::User {
        command.uid(USER).gid(USER);
    }
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    timeout(PATIENCE, stdout.read_line(&mut line)).await.expect("it starts in time").unwrap();
    let Ok(banner) = serde_json::from_str::<Value>(&line) else {
        panic!(
            "it does not serve: {line}{}",
            std::fs::read_to_string(dir.join("serve.log")).unwrap_or_default()
        );
    };
    let text = |key: &str| banner[key].as_str().map(str::to_owned);
    Served { url: text("url").unwrap(), first_token: text("first_token"), child, _stdout: stdout }
}
