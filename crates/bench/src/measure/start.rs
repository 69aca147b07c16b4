//! How long a server takes from exec to a healthy answer, and what it holds when nobody asks it for anything.

use anyhow::Context;
use serde_json::json;

use super::page;
use crate::{
    bare::Bare,
    bench::Bench,
    omoi::Omoi,
    place::{Kind, Place},
    proc::resident_bytes,
    report::{Report, Row, Target, figure, median},
};

pub async fn start(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let (mut empty, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.starts {
        let place = Place::fresh(bench, kind).await?;
        let (omoi, took) = Omoi::start_bare(bench, &place).await?;
        empty.push(took.as_secs_f64());
        omoi.stop().await?;
        place.remove(bench).await?;
        let (server, took) = Bare::start(bench).await?;
        bare.push(took.as_secs_f64());
        server.stop().await?;
    }
    let raw = median(bare);
    report.push(
        Row::new("start: empty", kind, figure(median(empty.clone()), "s"))
            .beside(raw, "bare server")
            .target(Target::AtMost(0.1))
            .details(json!({ "all": empty })),
    );

    page::fill(bench, kind).await?;
    let filled = bench.filled.lock().await;
    let place = &filled.get(&kind).context("nothing was filled")?.place;
    let mut full = Vec::new();
    for _ in 0..bench.scale.starts {
        let (omoi, took) = Omoi::start_bare(bench, place).await?;
        full.push(took.as_secs_f64());
        omoi.stop().await?;
    }
    report.push(
        Row::new(
            format!("start: with {} events", bench.scale.page_events),
            kind,
            figure(median(full.clone()), "s"),
        )
        .beside(raw, "bare server")
        .target(Target::AtMost(1.0))
        .details(json!({ "all": full })),
    );

    let fresh = Place::fresh(bench, kind).await?;
    let bare = idle_bare(bench).await?;
    report.push(
        Row::new("start: idle memory", kind, figure(idle(bench, &fresh).await?, "MB"))
            .beside(bare, "bare server")
            .target(Target::AtMost(30.0))
            .details(json!({ "mb_with_many_events": idle(bench, place).await? })),
    );
    fresh.remove(bench).await
}

/// Megabytes of memory a while after the start.
async fn idle(bench: &Bench, place: &Place) -> anyhow::Result<f64> {
    let (omoi, _) = Omoi::start_bare(bench, place).await?;
    tokio::time::sleep(bench.scale.idle).await;
    let bytes = resident_bytes(omoi.pid)?;
    omoi.stop().await?;
    Ok(bytes as f64 / 1e6)
}

async fn idle_bare(bench: &Bench) -> anyhow::Result<f64> {
    let (bare, _) = Bare::start(bench).await?;
    tokio::time::sleep(bench.scale.idle).await;
    let bytes = resident_bytes(bare.pid)?;
    bare.stop().await?;
    Ok(bytes as f64 / 1e6)
}
