//! Where programs run: a data directory, a database, and the processes on them.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Longer than anything here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Place {
    dir: TempDir,
    database: Option<Database>,
}

impl Place {
    pub fn sqlite() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), database: None }
    }

    pub async fn postgres() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), database: Some(Database::create().await) }
    }

    /// The program on this place, with nothing of ours in its environment.
    pub fn omoi(&self, args: &[&str], env: &[(&str, &str)]) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the program under test")]
        let mut command = Command::new(env!("CARGO_BIN_EXE_omoi"));
        command.args(args).arg("--data-dir").arg(self.dir.path().join("data"));
        command.env_clear().env("HOME", self.dir.path()).env("OMOI_LOG", "warn").envs(env.iter().copied());
        if let Some(database) = &self.database {
            command.env("DATABASE_URL", &database.url);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Starts a server and waits until it listens.
    pub async fn serve(&self, listen: &str, args: &[&str], env: &[(&str, &str)]) -> Served {
        let args: Vec<&str> = ["serve", "--json", "--listen", listen].iter().chain(args).copied().collect();
        let log = std::fs::File::options().create(true).append(true).open(self.log()).unwrap();
        let mut child = self.omoi(&args, env).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        timeout(PATIENCE, stdout.read_line(&mut line)).await.expect("it starts in time").unwrap();
        let Ok(banner) = serde_json::from_str::<Value>(&line) else {
            panic!("it does not serve: {line}{}", self.last_words());
        };
        let text = |key: &str| banner[key].as_str().map(str::to_owned);
        Served { url: text("url").unwrap(), first_token: text("first_token"), child, _stdout: stdout }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("serve.log")
    }

    pub fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// A running server. Killed when dropped.
pub struct Served {
    pub url: String,
    /// On the first start of a store.
    pub first_token: Option<String>,
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Served {
    /// `kill -9`.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// An address that stays free while nobody listens on it: the system gives out ports above 32768 by itself, and a
/// client that knocks there in vain may be given that very port and find itself.
pub fn lasting_address() -> String {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let next = || 20_000 + (std::process::id() + ASKED.fetch_add(1, Ordering::Relaxed)) % 12_000;
    let mut addresses = std::iter::repeat_with(|| format!("127.0.0.1:{}", next())).take(12_000);
    addresses.find(|address| TcpListener::bind(address).is_ok()).expect("a free port")
}

pub fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().connect_timeout(PATIENCE).read_timeout(PATIENCE).build().unwrap()
}

/// A database of its own on the private PostgreSQL, dropped at the end.
struct Database {
    url: String,
    name: String,
}

impl Database {
    async fn create() -> Self {
        let server = postgres_url();
        let random = tempfile::Builder::new().rand_bytes(12).tempdir().unwrap();
        let random = random.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.');
        let name = format!("omoi_crash_{}", random.to_ascii_lowercase());
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

fn postgres_url() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests are told by the environment where PostgreSQL is")]
    let url = std::env::var("OMOI_TEST_POSTGRES");
    url.expect("OMOI_TEST_POSTGRES names a PostgreSQL server; `make test` starts one")
}

async fn execute(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let driving = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    driving.await.unwrap().unwrap();
}
