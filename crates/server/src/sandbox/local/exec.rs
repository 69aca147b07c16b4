//! A further command in a running sandbox: its output through two pipes, its end from the control socket.

use std::{collections::BTreeMap, fs::File, os::fd::AsFd, path::PathBuf};

use omoi_launcher::{Control, Exec};
use omoi_protocol::launch::WORKSPACE_PATH;
use tokio::{io::AsyncReadExt, net::unix::pipe, sync::mpsc};

use super::{Ended, Error, Output, ended, failed};

const CHUNK_BYTES: usize = 16 * 1024;

pub async fn run(
    dir: PathBuf,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    output: mpsc::Sender<Output>,
) -> Result<Ended, Error> {
    let broken = |error: std::io::Error| Error::Failed(format!("a pipe to the sandbox: {error}"));
    let (stdout, into_stdout) = std::io::pipe().map_err(broken)?;
    let (stderr, into_stderr) = std::io::pipe().map_err(broken)?;
    let starting = tokio::task::spawn_blocking(move || {
        let nothing =
            File::open("/dev/null").map_err(|error| Error::Failed(format!("/dev/null: {error}")))?;
        let exec = Exec { argv, env, cwd: PathBuf::from(WORKSPACE_PATH), uid: 1000, gid: 1000 };
        let control = Control::open(&dir).map_err(failed)?;
        control.exec(&exec, [nothing.as_fd(), into_stdout.as_fd(), into_stderr.as_fd()]).map_err(failed)
    });
    let running = joined(starting.await)?;
    let stdout = pipe::Receiver::from_owned_fd(stdout.into()).map_err(broken)?;
    let stderr = pipe::Receiver::from_owned_fd(stderr.into()).map_err(broken)?;
    let copies = tokio::join!(
        copy(stdout, &output, Output::Stdout),
        copy(stderr, &output, Output::Stderr),
        tokio::task::spawn_blocking(move || running.wait().map(ended).map_err(failed)),
    );
    joined(copies.2)
}

fn joined<T>(done: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    done.unwrap_or_else(|panic| Err(Error::Failed(format!("a command broke off: {panic}"))))
}

/// Ends when the pipe does, or when nobody wants the output any more.
async fn copy(mut from: pipe::Receiver, to: &mpsc::Sender<Output>, as_output: fn(Vec<u8>) -> Output) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        if to.send(as_output(chunk[..n].to_vec())).await.is_err() {
            return;
        }
    }
}
