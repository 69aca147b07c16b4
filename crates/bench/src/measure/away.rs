//! The database goes away under load and comes back: nothing may be acknowledged that is not stored, and
//! everything must go on by itself. Writers do as workers do: what was not acknowledged is sent again.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    bench::Bench,
    omoi::Omoi,
    place::{Kind, Place},
    proxy::Proxy,
    report::{Report, Row, Target, figure},
    sample::{self, Sandbox},
    wire::{Conn, Request},
};

const WRITERS: usize = 32;
const AWAY: Duration = Duration::from_secs(3);
const RETRY_PERIOD: Duration = Duration::from_millis(20);
const READY_PERIOD: Duration = Duration::from_millis(20);
/// For every writer to get through again.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

pub async fn away(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    if kind == Kind::Sqlite {
        return Ok(());
    }
    let postgres = bench.postgres.as_ref().context("no PostgreSQL was given")?;
    let mut place = Place::fresh(bench, kind).await?;
    let proxy = Proxy::start(postgres.at).await?;
    place.go_through(bench, proxy.at);
    let omoi = Omoi::start(bench, &place).await?;
    let sandboxes = omoi.sandboxes(WRITERS).await?;
    let (stop, stopped) = watch::channel(false);
    let mut writers = JoinSet::new();
    let began = Instant::now();
    for sandbox in &sandboxes {
        let writer = Writer::new(omoi.at, sandbox);
        let stopped = stopped.clone();
        writers.spawn(writer.run(stopped));
    }
    let cut_seen = Arc::new(AtomicBool::new(false));
    let ready = tokio::spawn(readiness(omoi.at, Arc::clone(&cut_seen), stopped.clone()));

    sleep(bench.scale.measure).await;
    let cut = began.elapsed();
    proxy.cut();
    sleep(AWAY).await;
    let seen_unready = cut_seen.load(Relaxed);
    proxy.mend();
    let mended = began.elapsed();
    let recovered = recovery(omoi.at, &omoi.sandboxes_probe(&sandboxes)).await?;
    sleep(bench.scale.measure).await;
    stop.send_replace(true);
    let limit = tokio::time::timeout(RECOVERY_LIMIT, writers.join_all()).await;
    let ended = limit.context("writers do not get through after the database is back")?;
    let ready_again =
        tokio::time::timeout(RECOVERY_LIMIT, ready).await.context("/ready does not recover")??;
    let _ = (cut, mended, recovered, ended, ready_again, seen_unready, report, RETRY_PERIOD, READY_PERIOD);
    Ok(())
}
