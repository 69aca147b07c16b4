//! A page from a sandbox with a long history against the same page from one with a short history. The same
//! connection asks for the one and the other in turn.

use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    omoi::{Omoi, text},
    place::{Kind, Place},
    report::{Report, Row, Target, figure, median},
    sample::{self, MIX, Sandbox},
    wire::{Conn, Request},
};

const FEW: u64 = 1000;
const BATCH: u64 = 1000;
const PAGE: usize = 100;
const WARM_UP: usize = 20;

/// A place whose store holds a long history and a short one.
pub struct Filled {
    pub place: Place,
    long: History,
    short: History,
}

struct History {
    sandbox: Sandbox,
    events: u64,
}

pub async fn pages(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    fill(bench, kind).await?;
    let filled = bench.filled.lock().await;
    let filled = filled.get(&kind).context("nothing was filled")?;
    let omoi = Omoi::start(bench, &filled.place).await?;
    let asks: [(&str, Ask); 6] = [
        ("events, newest", |_, _| "events?limit=100".to_owned()),
        ("events, before the middle", |events, _| format!("events?limit=100&before={}", events / 2)),
        ("events, offset of nine tenths", |events, _| format!("events?limit=100&offset={}", events / 10 * 9)),
        ("events of one type", |_, _| "events?limit=100&event_type=agent.message".to_owned()),
        ("trajectory, newest", |_, _| "trajectory?limit=100".to_owned()),
        ("trajectory, from the middle", |_, middle| format!("trajectory?limit=100&cursor={middle}")),
    ];
    for (name, ask) in asks {
        let mut requests = Vec::new();
        for history in [&filled.long, &filled.short] {
            let middle = middle(&omoi, history).await?;
            let path = ask(history.events, &middle);
            requests.push(omoi.get(&format!("/api/v1/sandboxes/{}/{path}", history.sandbox.id)));
        }
        let [long, short] = compare(&omoi, &requests, bench.scale.page_requests).await?;
        report.push(
            Row::new(format!("page: {name}, of {}", filled.long.events), kind, figure(long, "ms"))
                .beside(short, "the same of 1,000")
                .target(Target::RatioAtMost(1.5)),
        );
    }
    omoi.stop().await
}

/// The path of a page, given the number of events and the id of the one in the middle.
type Ask = fn(u64, &str) -> String;

/// Fills a place unless that is done.
pub async fn fill(bench: &Bench, kind: Kind) -> anyhow::Result<()> {
    let mut all = bench.filled.lock().await;
    if all.contains_key(&kind) {
        return Ok(());
    }
    let place = Place::fresh(bench, kind).await?;
    let omoi = Omoi::start(bench, &place).await?;
    let mut histories = Vec::new();
    for (sandbox, events) in omoi.sandboxes(2).await?.into_iter().zip([bench.scale.page_events, FEW]) {
        write(&omoi, &sandbox, events).await?;
        histories.push(History { sandbox, events });
    }
    omoi.stop().await?;
    let (short, long) = (histories.pop(), histories.pop());
    let (short, long) = (short.context("no history")?, long.context("no history")?);
    all.insert(kind, Filled { place, long, short });
    Ok(())
}

/// One worker, in order, in the largest batches that are taken.
async fn write(omoi: &Omoi, sandbox: &Sandbox, events: u64) -> anyhow::Result<()> {
    let mut conn = Conn::open(omoi.at).await?;
    let mut request = sample::batch(omoi.at, sandbox, &MIX, usize::try_from(BATCH)?);
    for batch in 0..events / BATCH {
        request.number_from(batch * BATCH + 1);
        let answer = conn.ask(&request).await?;
        ensure!(answer.is_success(), "a batch was answered {}", answer.text());
    }
    Ok(())
}

async fn middle(omoi: &Omoi, history: &History) -> anyhow::Result<String> {
    let path =
        format!("/api/v1/sandboxes/{}/events?limit=1&before={}", history.sandbox.id, history.events / 2);
    text(&omoi.call(&omoi.get(&path)).await?["events"][0]["id"])
}

/// Milliseconds each request takes, in the middle.
async fn compare(omoi: &Omoi, requests: &[Request], times: usize) -> anyhow::Result<[f64; 2]> {
    let mut conn = Conn::open(omoi.at).await?;
    for request in requests {
        let page: Value = conn.ask_json(request).await?;
        let found = page["events"].as_array().map_or(0, Vec::len);
        ensure!(found == PAGE, "a page of {PAGE} has {found} events: {}", json!(page["total_count"]));
    }
    let mut took = [Vec::new(), Vec::new()];
    for n in 0..WARM_UP + times {
        for (request, took) in requests.iter().zip(&mut took) {
            let began = Instant::now();
            ensure!(conn.ask(request).await?.is_success(), "a page was refused");
            if n >= WARM_UP {
                took.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
    }
    Ok(took.map(median))
}
