//! Sandboxes: how long one takes from the request to its first event, to its workspace and to its end, beside what the
//! machine takes for the same without a server; many at once; and what each costs the server in memory.

use std::{
    io::{self, Write},
    time::Duration,
};

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    bench::{Bench, Scale},
    latency::Latency,
    launch::Launch,
    place::Kind,
    proc::resident_bytes,
    report::{Report, Row, Target, figure, median},
    repository::{BYTES, FILES},
    sandboxes::{BOOTING, ENDED, Life, Programs, READY, REMOVED, Sandboxes, medians},
};

const WAIT: [&str; 2] = ["sleep", "3600"];
const LOOK: [&str; 3] = ["/bin/sh", "-c", "git status --short | head -1; echo done"];
/// Memory that moves less than this in a while has settled.
const SETTLED_BYTES: u64 = 128 * 1024;
const SETTLE_ROUNDS: usize = 12;

/// Whatever the store, so on one alone.
pub async fn spawn(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    if kind != Kind::Sqlite {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        writeln!(io::stderr(), "spawn: skipped, because it needs root for disks and control groups")?;
        return Ok(());
    }
    let programs = Programs::beside(&bench.omoi)?;
    let mut sandboxes = Sandboxes::start(bench, Kind::Sqlite, programs).await?;
    let scale = &bench.scale;
    let measured = async {
        one_by_one(&mut sandboxes, scale, report).await?;
        memory(&mut sandboxes, scale, report).await?;
        at_once(&mut sandboxes, scale, report).await
    };
    measured.await?;
    let left = sandboxes.stop().await?;
    if !left.is_empty() {
        report.failed(format!("spawn: {} sandboxes have left something behind", left.len()));
    }
    Ok(())
}

async fn one_by_one(sandboxes: &mut Sandboxes, scale: &Scale, report: &mut Report) -> anyhow::Result<()> {
    // The first one also makes the mirror and the checkout.
    sandboxes.live_once(&["true"]).await?;
    let launch = Launch::new(sandboxes.programs(), sandboxes.data(), &sandboxes.project)?;
    launch.time()?;
    let (mut lives, mut raw) = (Vec::new(), Vec::new());
    // In turns, so that both sides see the same machine.
    for n in 0..scale.spawns {
        lives.push(sandboxes.live_once(&["true"]).await?);
        if (n + 1) * scale.launches / scale.spawns > raw.len() {
            raw.push(launch.time()?.as_secs_f64() * 1000.0);
        }
    }
    let bare = median(raw.clone());
    let details = json!({
        "files": FILES, "bytes": BYTES, "spawns": lives.len(), "launches_ms": raw, "events_ms": medians(lives.iter()),
    });
    for (what, event_type, target) in [
        ("to first event", BOOTING, Some(Target::RatioAtMost(2.0))),
        ("to workspace", READY, Some(Target::RatioAtMost(2.0))),
        ("to its end", ENDED, None),
        ("until removed", REMOVED, None),
    ] {
        let times = latency(&lives, event_type)?;
        let mut row = Row::new(format!("spawn: {what}"), Kind::Sqlite, figure(times.quantile_ms(0.5), "ms"))
            .beside(bare, "launcher alone")
            .details(json!({ "p95_ms": times.quantile_ms(0.95), "run": &details }));
        if let Some(target) = target {
            row = row.target(target);
        }
        report.push(row);
        report.push(Row::new(
            format!("spawn: {what}: p95"),
            Kind::Sqlite,
            figure(times.quantile_ms(0.95), "ms"),
        ));
    }
    Ok(())
}

fn latency(lives: &[Life], event_type: &str) -> anyhow::Result<Latency> {
    let mut times = Latency::new()?;
    for life in lives {
        let Some(took) = life.get(event_type) else {
            anyhow::bail!("a sandbox was never told of with {event_type}, only with {:?}", life.keys());
        };
        times.record(*took);
    }
    Ok(times)
}

/// What the server holds more when so many are up and wait.
async fn memory(sandboxes: &mut Sandboxes, scale: &Scale, report: &mut Report) -> anyhow::Result<()> {
    let idle = settled(sandboxes.pid, scale.idle).await?;
    let ids = crowd(sandboxes, scale.crowd, &WAIT).await?;
    sandboxes.all(&ids, READY).await?;
    let busy = settled(sandboxes.pid, scale.idle).await?;
    for id in &ids {
        sandboxes.terminate(id).await?;
    }
    sandboxes.all(&ids, REMOVED).await?;
    let after = settled(sandboxes.pid, scale.idle).await?;
    let each = (busy as f64 - idle as f64) / scale.crowd as f64 / 1000.0;
    report.push(
        Row::new(format!("spawn: memory each, of {}", scale.crowd), Kind::Sqlite, figure(each, "KB"))
            .target(Target::AtMost(64.0))
            .details(json!({ "idle_bytes": idle, "running_bytes": busy, "removed_bytes": after })),
    );
    Ok(())
}

/// Resident memory once it has stopped moving.
async fn settled(pid: u32, a_while: Duration) -> anyhow::Result<u64> {
    let mut last = resident_bytes(pid)?;
    for _ in 0..SETTLE_ROUNDS {
        sleep(a_while).await;
        let now = resident_bytes(pid)?;
        if now.abs_diff(last) < SETTLED_BYTES {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}

async fn at_once(sandboxes: &mut Sandboxes, scale: &Scale, report: &mut Report) -> anyhow::Result<()> {
    let began = Instant::now();
    let ids = crowd(sandboxes, scale.crowd, &LOOK).await?;
    let ordered = began.elapsed();
    sandboxes.all(&ids, REMOVED).await?;
    let took = began.elapsed();
    let mut others = Vec::new();
    for id in &ids {
        let status = sandboxes.status(id).await?;
        if status != "completed" {
            others.push(format!("{id} is {status}"));
        }
    }
    report.push(
        Row::new(
            format!("spawn: {} at once, until removed", scale.crowd),
            Kind::Sqlite,
            figure(took.as_secs_f64(), "s"),
        )
        .wrong((!others.is_empty()).then(|| format!("not completed: {}", others.join(", "))))
        .details(json!({
            "ordered_after_s": ordered.as_secs_f64(),
            "sandboxes_per_second": scale.crowd as f64 / took.as_secs_f64(),
        })),
    );
    Ok(())
}

async fn crowd(sandboxes: &mut Sandboxes, count: usize, argv: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(sandboxes.order(argv).await?);
    }
    Ok(ids)
}
