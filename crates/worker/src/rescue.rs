//! Rescue: run in a fresh sandbox on the disk of a dead one. The work is kept outside, events that the dead worker
//! could not send are sent, and one line of JSON says what became of both.

use std::{path::Path, sync::Arc, time::Duration};

use omoi_protocol::{launch::LaunchSpec, sandbox};
use omoi_redact::Secrets;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::{
    Surroundings,
    agent::log::Log,
    git,
    keep::{self, Keep, Kept},
    launch,
    outbox::{self, Outbox},
    run,
    transcript::{self, Sent, Transcript},
};

const SEND_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the work is not kept: {0}")]
    Keep(#[from] keep::Error),
    #[error("the events cannot be sent: {0}")]
    Outbox(#[from] outbox::Error),
    #[error("the events cannot be sent: {0}")]
    Client(#[from] omoi_client::Error),
    #[error("{0} events are not sent, because the server does not take them")]
    Unsent(usize),
}

/// What is printed.
#[derive(Debug, Default, Serialize)]
struct Report {
    #[serde(flatten)]
    kept: sandbox::Kept,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_commit: Option<String>,
}

/// The code to leave with: 0 when nothing is lost.
pub async fn rescue(launch: LaunchSpec, scratch: &Path, around: &Surroundings) -> Result<u8, Error> {
    let kept = keep(&launch, scratch, around).await;
    // Each is tried whatever became of the other.
    let sent = send(&launch, around).await;
    let log = send_log(&launch, around).await;
    let kept = kept?;
    let (events, unsent) = sent?;
    let mut report = match kept {
        Some(kept) => Report { base_commit: kept.base_commit.clone(), kept: kept.into() },
        None => Report::default(),
    };
    if !report.kept.kept {
        report.kept.notes.push("there is no repository".to_owned());
    }
    report.kept.events = events as u64;
    report.kept.notes.extend(log.err());
    print(&report, &launch::secrets(&launch));
    if unsent > 0 { Err(Error::Unsent(unsent)) } else { Ok(0) }
}

async fn keep(launch: &LaunchSpec, scratch: &Path, around: &Surroundings) -> Result<Option<Kept>, Error> {
    match Keep::new(launch, &run::environment(launch, around), scratch) {
        Some(keep) => Ok(Some(keep.keep().await?)),
        None => Ok(None),
    }
}

/// How many events were sent, and how many were not.
async fn send(launch: &LaunchSpec, around: &Surroundings) -> Result<(usize, usize), Error> {
    let dir = launch::spool_dir(launch, around);
    if !git::is_real_dir(&dir) {
        return Ok((0, 0));
    }
    let outbox = Outbox::open(&dir, run::common(launch), launch::secrets(launch))?;
    let waiting = outbox.waiting();
    let sending = tokio::spawn(outbox.clone().send(run::client(launch)?, launch.sandbox_id.clone()));
    outbox.flush(SEND_LIMIT).await;
    sending.abort();
    Ok((waiting - outbox.waiting().min(waiting), outbox.waiting()))
}

/// The agent's log, as far as the server has not got it. To lose its end is a pity and no reason to keep the sandbox.
async fn send_log(launch: &LaunchSpec, around: &Surroundings) -> Result<(), String> {
    let path = Log::path_in(&launch::spool_dir(launch, around));
    let Some(session_id) = Log::session_of(&path) else { return Ok(()) };
    let size =
        std::fs::metadata(&path).map_err(|error| format!("the agent's log is not stored: {error}"))?.len();
    let client = run::client(launch).map_err(|error| format!("the agent's log is not stored: {error}"))?;
    let (sent, mut seen) = watch::channel(Sent::default());
    let (_grows, sizes) = watch::channel(size);
    let hurry = Arc::new(Notify::new());
    let sandbox = launch.sandbox_id.clone();
    let transcript = Transcript { client, sandbox, session_id, path, hurry: hurry.clone() };
    let sending = tokio::spawn(transcript.send(sizes, sent));
    let whole = transcript::flush(&mut seen, &hurry, size, SEND_LIMIT).await;
    sending.abort();
    if whole { Ok(()) } else { Err("the end of the agent's log is not stored".to_owned()) }
}

#[expect(clippy::print_stdout, reason = "whoever runs a rescue reads its report from there")]
fn print(report: &Report, secrets: &Secrets) {
    println!("{}", secrets.owned_json(serde_json::to_string(report).unwrap_or_default()));
}
