//! The least that a durable server can be: each body is appended to a file, and answered once fdatasync has
//! returned. Appends that wait together share one. It runs as a process of its own, so that its CPU can be told
//! from the generator's; it ends when its standard input does.

use std::{
    fs::File,
    io::{self, Write},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::{get, post},
    serve::ListenerExt,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    sync::{mpsc, oneshot},
};

use crate::{
    bench::Bench,
    proc::Meter,
    wire::{Conn, Request},
};

const QUEUE_MAX: usize = 4096;
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The process, from its starter's side.
pub struct Bare {
    pub at: SocketAddr,
    pub meter: Meter,
    pub pid: u32,
    child: Child,
}

impl Bare {
    /// Starts one and says how long it took until it answered.
    pub async fn start(bench: &Bench) -> anyhow::Result<(Self, Duration)> {
        let file = bench.dir().join("bare.log");
        let began = Instant::now();
        let mut child = spawn(&file)?;
        let pid = child.id().context("the bare server has ended")?;
        let stdout = child.stdout.take().context("the bare server has no output")?;
        let mut line = String::new();
        tokio::time::timeout(START_TIMEOUT, BufReader::new(stdout).read_line(&mut line)).await??;
        let at = line.trim().parse().context("the bare server did not say where it listens")?;
        let health = Request::get(at, "/health", "none");
        ensure!(Conn::open(at).await?.ask(&health).await?.is_success(), "the bare server is not healthy");
        Ok((Self { at, meter: Meter::of(pid), pid, child }, began.elapsed()))
    }

    pub async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let ended = tokio::time::timeout(START_TIMEOUT, self.child.wait()).await;
        ensure!(ended.context("the bare server does not end")??.success(), "the bare server failed");
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "this very program, for the raw limit")]
fn spawn(file: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare-server").arg("--file").arg(file).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().context("cannot start the bare server")
}

struct Append {
    body: Bytes,
    done: oneshot::Sender<io::Result<()>>,
}

/// The process itself.
pub async fn serve(file: &Path) -> anyhow::Result<()> {
    let file = File::create(file)?;
    let (queue, appends) = mpsc::channel(QUEUE_MAX);
    std::thread::Builder::new().name("append".to_owned()).spawn(move || write_all(file, appends))?;
    let app = Router::new().route("/health", get(async || "ok")).fallback(post(append)).with_state(queue);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::select! {
        ended = axum::serve(listener, app) => ended?,
        () = end_of_input() => {}
    }
    Ok(())
}

async fn end_of_input() {
    let read = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    let _ = read.await;
}

async fn append(State(queue): State<mpsc::Sender<Append>>, body: Bytes) -> impl IntoResponse {
    let (done, answer) = oneshot::channel();
    let sent = queue.send(Append { body, done }).await;
    match (sent, answer.await) {
        (Ok(()), Ok(Ok(()))) => {
            (StatusCode::OK, [(CONTENT_TYPE, "application/json")], r#"{"status":"received"}"#)
        }
        _ => {
            (StatusCode::SERVICE_UNAVAILABLE, [(CONTENT_TYPE, "application/json")], r#"{"status":"failed"}"#)
        }
    }
}

fn write_all(mut file: File, mut appends: mpsc::Receiver<Append>) {
    let mut bytes = Vec::new();
    while let Some(first) = appends.blocking_recv() {
        let mut group = vec![first];
        while let Ok(next) = appends.try_recv() {
            group.push(next);
        }
        bytes.clear();
        for append in &group {
            bytes.extend_from_slice(&append.body);
            bytes.push(b'\n');
        }
        let written = file.write_all(&bytes).and_then(|()| file.sync_data());
        for append in group {
            let copy = written.as_ref().copied().map_err(|fault| fault.kind().into());
            let _ = append.done.send(copy);
        }
    }
}
