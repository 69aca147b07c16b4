//! An `omoi serve` of our own, and the few calls that set a measurement up.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::{
    bench::Bench,
    place::Place,
    proc::Meter,
    sample::Sandbox,
    wire::{Conn, Request},
};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const HEALTH_PERIOD: Duration = Duration::from_millis(1);
/// Where Git and what makes disks are looked for.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
const LOG_FILE: &str = "serve.log";

pub struct Omoi {
    pub at: SocketAddr,
    pub meter: Meter,
    pub pid: u32,
    /// An administrator's.
    pub token: String,
    child: Child,
}

impl Omoi {
    /// Starts a server on a place and gets a token for it.
    pub async fn start(bench: &Bench, place: &Place) -> anyhow::Result<Self> {
        let (mut omoi, _) = Self::start_bare(bench, place).await?;
        omoi.token = token(bench, place).await?;
        Ok(omoi)
    }

    /// Starts a server and says how long it took from exec to a healthy answer.
    pub async fn start_bare(bench: &Bench, place: &Place) -> anyhow::Result<(Self, Duration)> {
        let at = free_address()?;
        let log = File::options().create(true).append(true).open(place.dir().join(LOG_FILE))?;
        let mut command = command(bench, place);
        command.arg("serve").arg("--data-dir").arg(place.dir()).arg("--listen").arg(at.to_string());
        command.stdout(log.try_clone()?).stderr(log);
        let began = Instant::now();
        let mut child = command.spawn().context("cannot start omoi serve")?;
        let pid = child.id().context("omoi serve has ended")?;
        while !is_healthy(at).await {
            if let Some(status) = child.try_wait()? {
                bail!("omoi serve ended with {status}: {}", last_words(place.dir()));
            }
            ensure!(
                began.elapsed() < START_TIMEOUT,
                "omoi serve is not healthy: {}",
                last_words(place.dir())
            );
            tokio::time::sleep(HEALTH_PERIOD).await;
        }
        let took = began.elapsed();
        Ok((Self { at, meter: place.meter(bench, pid), pid, token: String::new(), child }, took))
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("no such process")?;
        kill_process(pid, Signal::TERM)?;
        let ended = tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await;
        let status = ended.context("omoi serve does not stop on SIGTERM")??;
        ensure!(status.success(), "omoi serve ended with {status}");
        Ok(())
    }

    pub fn get(&self, path: &str) -> Request {
        Request::get(self.at, path, &self.token)
    }

    pub fn post(&self, path: &str, body: &Value) -> Request {
        Request::post(self.at, path, &self.token, body.to_string().as_bytes())
    }

    pub async fn call(&self, request: &Request) -> anyhow::Result<Value> {
        Conn::open(self.at).await?.ask_json(request).await
    }

    pub async fn sandboxes(&self, count: usize) -> anyhow::Result<Vec<Sandbox>> {
        let mut conn = Conn::open(self.at).await?;
        let mut sandboxes = Vec::with_capacity(count);
        for _ in 0..count {
            let attached = conn.ask_json(&self.post("/api/v1/sandboxes", &json!({}))).await?;
            sandboxes
                .push(Sandbox { id: text(&attached["sandbox"]["id"])?, token: text(&attached["token"])? });
        }
        Ok(sandboxes)
    }

    /// How many events of one type a sandbox has.
    pub async fn count(&self, sandbox: &Sandbox, event_type: &str) -> anyhow::Result<u64> {
        let path = format!("/api/v1/sandboxes/{}/events?limit=1&event_type={event_type}", sandbox.id);
        self.call(&self.get(&path)).await?["total_count"].as_u64().context("no total_count")
    }
}

pub fn text(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).context("an answer without the text that belongs there")
}

/// Defaults throughout, but for the lease: that a sandbox says nothing for minutes is no loss here.
#[expect(clippy::disallowed_methods, reason = "the program that is measured")]
fn command(bench: &Bench, place: &Place) -> Command {
    let mut command = Command::new(&bench.omoi);
    command.env_clear().env("PATH", PATH).env("OMOI_LEASE_DURATION", "1h");
    command.stdin(Stdio::null()).kill_on_drop(true);
    if place.scenarios().is_dir() {
        command.env("OMOI_MODEL_SCENARIOS", place.scenarios());
    }
    if let Some(url) = place.database_url() {
        command.env("OMOI_DATABASE_URL", url);
    }
    command
}

async fn token(bench: &Bench, place: &Place) -> anyhow::Result<String> {
    let mut command = command(bench, place);
    command.args(["token", "create", "--role", "admin", "--data-dir"]).arg(place.dir());
    let output = tokio::time::timeout(START_TIMEOUT, command.output()).await??;
    ensure!(output.status.success(), "omoi token create: {}", String::from_utf8_lossy(&output.stderr));
    let token = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(!token.is_empty() && !token.contains(char::is_whitespace), "omoi token create printed {token:?}");
    Ok(token)
}

async fn is_healthy(at: SocketAddr) -> bool {
    let Ok(mut conn) = Conn::open(at).await else { return false };
    conn.ask(&Request::get(at, "/health", "none")).await.is_ok_and(|answer| answer.status == 200)
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

pub fn last_words(dir: &Path) -> String {
    let log = std::fs::read_to_string(dir.join(LOG_FILE)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
