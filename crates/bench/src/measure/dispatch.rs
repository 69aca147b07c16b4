//! Dispatch: how soon a task has its sandbox ordered, what that costs with few and with many tasks waiting, and a task
//! that does nothing, from the request to its proof.

use std::{
    io::{self, Write},
    time::Duration,
};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    bench::Bench,
    inside::Inside,
    latency::Latency,
    place::{Kind, Place},
    report::{Report, Row, Target, figure, median},
    sandboxes::{Programs, Sandboxes, Work, medians},
};

const FEW: u64 = 100;
/// What the removal of a sandbox has left to the disk is written by then: only after it is the machine idle.
const REST: Duration = Duration::from_millis(500);

pub async fn dispatched(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    among_many(bench, kind, report).await?;
    throughput(bench, kind, report).await?;
    if !rustix::process::geteuid().is_root() {
        writeln!(io::stderr(), "dispatch: tasks in sandboxes skipped, because they need root")?;
        return Ok(());
    }
    in_sandboxes(bench, kind, report).await
}

/// What one order costs, and what a tick costs that finds nothing to do, by the number of tasks that wait.
async fn among_many(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let place = Place::fresh(bench, kind).await?;
    let inside = Inside::open(bench, &place).await?;
    let (mut waiting, mut few) = (0, None);
    for count in [FEW, bench.scale.tasks / 10, bench.scale.tasks] {
        // What was taken is made up for.
        inside.pending(count + bench.scale.orders as u64 - waiting).await?;
        let mut times = Vec::with_capacity(bench.scale.orders);
        for _ in 0..bench.scale.orders {
            let began = Instant::now();
            inside.dispatched().await?.context("there is nothing to dispatch")?;
            times.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        waiting = count;
        let each = median(times);
        let base = *few.get_or_insert(each);
        report.push(
            Row::new(format!("dispatch: one order, {count} tasks pending"), kind, figure(each, "ms"))
                .beside(base, "100 pending")
                .target(Target::RatioAtMost(2.0)),
        );
    }
    drop(inside);
    place.remove(bench).await
}

/// All that the store does for a task that does nothing, one after the other, beside bare claims.
async fn throughput(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let place = Place::fresh(bench, kind).await?;
    let inside = Inside::open(bench, &place).await?;
    let count = bench.scale.orders as u64;
    inside.pending(2 * count).await?;
    let agent = inside.agent().await?;
    let began = Instant::now();
    for _ in 0..count {
        ensure!(inside.store.task_claim_next(&agent).await?.is_some(), "there is nothing to claim");
    }
    let claims = count as f64 / began.elapsed().as_secs_f64();
    let began = Instant::now();
    for _ in 0..count {
        inside.live_once().await?;
    }
    let lives = count as f64 / began.elapsed().as_secs_f64();
    report.push(
        Row::new("dispatch: tasks that do nothing, in the store", kind, figure(lives, "/s"))
            .beside(claims, "claims alone"),
    );
    drop(inside);
    place.remove(bench).await
}

async fn in_sandboxes(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let mut sandboxes = Sandboxes::start(bench, kind, Programs::beside(&bench.omoi)?).await?;
    // The first one also makes the mirror and the checkout.
    sandboxes.work_once(&json!([])).await?;
    for (what, checks) in
        [("without checks", json!([])), ("with one check", json!([{ "name": "nothing", "command": "true" }]))]
    {
        let mut works = Vec::with_capacity(bench.scale.works);
        for _ in 0..bench.scale.works {
            tokio::time::sleep(REST).await;
            works.push(sandboxes.work_once(&checks).await?);
        }
        let quantile = |of: fn(&Work) -> Duration, quantile: f64| -> anyhow::Result<f64> {
            let mut times = Latency::new()?;
            works.iter().for_each(|work| times.record(of(work)));
            Ok(times.quantile_ms(quantile))
        };
        if checks == json!([]) {
            let assigned = quantile(|work| work.assigned, 0.5)?;
            report.push(
                Row::new("dispatch: POST to assigned, idle", kind, figure(assigned, "ms"))
                    .target(Target::AtMost(5.0))
                    .details(json!({ "p95_ms": quantile(|work| work.assigned, 0.95)? })),
            );
        }
        let over = quantile(|work| work.completed.saturating_sub(work.starts), 0.5)?;
        report.push(
            Row::new(
                format!("dispatch: a task that does nothing {what}, over sandbox starts"),
                kind,
                figure(over, "ms"),
            )
            .target(Target::AtMost(150.0))
            .details(json!({
                "completed_ms": quantile(|work| work.completed, 0.5)?,
                "starts_ms": quantile(|work| work.starts, 0.5)?,
                "over_p95_ms": quantile(|work| work.completed.saturating_sub(work.starts), 0.95)?,
                "steps_ms": medians(works.iter().map(|work| &work.steps)),
            })),
        );
    }
    let left = sandboxes.stop().await?;
    ensure!(left.is_empty(), "{} sandboxes have left something behind", left.len());
    Ok(())
}
