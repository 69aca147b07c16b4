//! A fetch: what the client asks for goes in, the pack comes out as it is made. A client that goes away ends it.

use std::{path::PathBuf, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::request::Parts,
    response::Response,
};
use futures_util::stream;
use omoi_protocol::ProjectId;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    time::Instant,
};

use super::{
    Door,
    access::{Refused, Visit},
    answer,
    body::Incoming,
    turns::Turn,
    version,
};
use crate::{
    git::{self, Call, Mirrors, Running, tail},
    http::Watched,
};

/// A client names the commits that it has; no more than this of them.
const WANTS_BYTES_MAX: usize = 16 << 20;
const PART_BYTES: usize = 64 << 10;
const COMPLAINT_BYTES: usize = 1 << 10;
/// How Git ends when it cannot read an object, and when a client asks for one that is not there.
const BROKE_OFF: i32 = 128;

/// Everything may be seen but what we keep for ourselves.
pub fn call(door: &Door, version: Option<&'static str>) -> Call {
    let call = door.mirrors.git().call_nowhere("upload-pack").config("uploadpack.hideRefs=refs/omoi");
    let call = call.config("pack.threads=2").config("pack.windowMemory=128m");
    match version {
        Some(version) => call.env("GIT_PROTOCOL", version),
        None => call,
    }
}

pub fn serve(
    door: &Door,
    parts: &Parts,
    body: Body,
    mirror: PathBuf,
    turn: Turn,
    visit: Visit,
) -> Result<Response, Refused> {
    let Visit { project, token, .. } = visit;
    let incoming = Incoming::new(&parts.headers, body, WANTS_BYTES_MAX, token.clone())?;
    let call = call(door, version(parts)).arg("--stateless-rpc").arg(mirror);
    let mut running = call.start().map_err(git::Error::from)?;
    let (stdin, stdout, stderr) = (running.stdin(), running.stdout(), running.stderr());
    tokio::spawn(feed(incoming, stdin));
    tokio::spawn(async move {
        let said = tail(stderr, COMPLAINT_BYTES).await;
        if !said.is_empty() {
            tracing::debug!(said = %String::from_utf8_lossy(&said), "a fetch complained");
        }
    });
    let ends = Instant::now() + door.settings.timeout;
    let of = (door.mirrors.clone(), project.id);
    let pack = Pack { running, stdout, ends, token, of, _turn: turn };
    let parts = stream::unfold(pack, Pack::next);
    Ok(answer("application/x-git-upload-pack-result", Body::from_stream(parts)))
}

/// Ends when Git does, or when the client has said all.
async fn feed(mut incoming: Incoming, stdin: Option<ChildStdin>) {
    let Some(mut stdin) = stdin else { return };
    while let Ok(Some(part)) = incoming.next().await {
        if stdin.write_all(&part).await.is_err() {
            return incoming.drain().await;
        }
    }
}

/// A pack on its way out. Dropped with the response, it ends Git.
struct Pack {
    running: Running,
    stdout: Option<ChildStdout>,
    ends: Instant,
    token: Watched,
    of: (Mirrors, ProjectId),
    _turn: Turn,
}

impl Pack {
    async fn next(mut self) -> Option<(std::io::Result<Bytes>, Self)> {
        let mut part = Vec::with_capacity(PART_BYTES);
        let read = match &mut self.stdout {
            Some(stdout) => tokio::select! {
                biased;
                () = self.token.ended() => return self.broken(std::io::ErrorKind::PermissionDenied.into()),
                read = tokio::time::timeout_at(self.ends, stdout.read_buf(&mut part)) => read,
            },
            None => return None,
        };
        match read {
            Ok(Ok(0)) => {
                // A pack carries its own check sum, so the client knows whether it is whole.
                let ended = tokio::time::timeout(Duration::from_secs(5), self.running.wait()).await;
                if matches!(ended, Ok(Ok(status)) if status.code() == Some(BROKE_OFF)) {
                    let (mirrors, project) = &self.of;
                    if let Err(error) = mirrors.suspect_by_hearsay(project).await {
                        tracing::warn!(%error, "the mirror of project {project} cannot be looked at");
                    }
                }
                None
            }
            Ok(Ok(_)) => Some((Ok(part.into()), self)),
            Ok(Err(error)) => self.broken(error),
            Err(_) => self.broken(std::io::ErrorKind::TimedOut.into()),
        }
    }

    fn broken(mut self, error: std::io::Error) -> Option<(std::io::Result<Bytes>, Self)> {
        self.stdout = None;
        Some((Err(error), self))
    }
}
