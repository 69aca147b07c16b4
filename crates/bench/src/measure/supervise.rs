//! One look at all live sandboxes: leases, timeouts, quiet ones judged, places listed.

use std::time::Duration;

use anyhow::ensure;
use omoi_server::{
    domain::idle::Patience,
    orchestrator::{supervise, upkeep},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    bench::Bench,
    inside::{Inside, NODE},
    place::{Kind, Place},
    report::{Report, Row, Target, figure, median},
};

const LIMIT: usize = 5_000;

pub async fn supervised(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let place = Place::fresh(bench, kind).await?;
    let inside = Inside::open(bench, &place).await?;
    let count = bench.scale.live;
    inside.live(count).await?;
    let patience = Patience::configured(&inside.config.supervise);
    // Each of them seems quiet, and is looked at closely.
    let impatient = Patience { idle_after: Duration::ZERO, ..patience.clone() };
    for (what, patience) in [("at work", &patience), ("that seem quiet", &impatient)] {
        tick(&inside, patience, count).await?;
        let mut times = Vec::with_capacity(bench.scale.ticks);
        let before = inside.meter.used()?;
        for _ in 0..bench.scale.ticks {
            let began = Instant::now();
            tick(&inside, patience, count).await?;
            times.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        let cpu = inside.meter.used()?.saturating_sub(before).as_secs_f64() * 1000.0;
        report.push(
            Row::new(
                format!("supervise: tick over {count} sandboxes {what}: CPU"),
                kind,
                figure(cpu / bench.scale.ticks as f64, "ms"),
            )
            .target(Target::AtMost(20.0))
            .details(json!({ "ticks": bench.scale.ticks, "wall_ms": median(times) })),
        );
    }
    drop(inside);
    place.remove(bench).await
}

async fn tick(inside: &Inside, patience: &Patience, count: usize) -> anyhow::Result<()> {
    upkeep(&inside.store).await?;
    let judged = supervise(&inside.store, &inside.clock, patience, Duration::ZERO).await?;
    ensure!(judged.idle + judged.stuck == 0, "sandboxes at work were ended: {judged:?}");
    let listed = inside.store.place_list(NODE, LIMIT).await?.len();
    ensure!(listed == count, "{listed} of {count} sandboxes are listed");
    Ok(())
}
