//! How long a server takes from exec to a healthy answer, and what it holds when nobody asks it for anything.

use std::time::{Duration, Instant};

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
    let (mut empty, mut bare, mut schemas) = (Vec::new(), Vec::new(), Vec::new());
    // All stay until the end: for a while after a file is gone, some file systems look longer for the place of a new one.
    let mut places = Vec::new();
    for _ in 0..bench.scale.starts {
        let place = Place::fresh(bench, kind).await?;
        let (omoi, took) = Omoi::start_bare(bench, &place).await?;
        empty.push(took.as_secs_f64());
        omoi.stop().await?;
        let (server, took) = Bare::start(bench).await?;
        bare.push(took.as_secs_f64());
        server.stop().await?;
        if kind == Kind::Postgres {
            let raw = Place::fresh(bench, kind).await?;
            schemas.push(bare_schema(bench, &place, &raw).await?.as_secs_f64());
            places.push(raw);
        }
        places.push(place);
    }
    for place in places {
        place.remove(bench).await?;
    }
    let raw = median(bare);
    let (beside, what) = match kind {
        Kind::Sqlite => (raw, "bare server"),
        Kind::Postgres => (raw + median(schemas), "bare server, as many bare tables and indexes"),
    };
    report.push(
        Row::new("start: empty", kind, figure(median(empty.clone()), "s"))
            .beside(beside, what)
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

/// How long PostgreSQL takes for as many tables, with a key and nothing else, and as many indexes as a server has made.
async fn bare_schema(bench: &Bench, like: &Place, raw: &Place) -> anyhow::Result<Duration> {
    let postgres = bench.postgres.as_ref().context("no PostgreSQL was given")?;
    let made = postgres.connect(like.database().context("no database")?).await?;
    let count = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = $1::\"char\"";
    let tables: i64 = made.query_one(count, &[&(b'r' as i8)]).await?.get(0);
    let indexes: i64 = made.query_one(count, &[&(b'i' as i8)]).await?.get(0);
    let keyed = (0..tables).map(|n| format!("CREATE TABLE bare_{n} (id TEXT PRIMARY KEY);"));
    let others =
        (tables..indexes).map(|n| format!("CREATE INDEX bare_by_{n} ON bare_{} (id);", n % tables.max(1)));
    let schema: String = keyed.chain(others).collect();
    let client = postgres.connect(raw.database().context("no database")?).await?;
    let began = Instant::now();
    client.batch_execute(&format!("BEGIN; {schema} COMMIT")).await?;
    Ok(began.elapsed())
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
