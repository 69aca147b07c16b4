//! The measurements, in the order in which they are made, each on a server and a store of its own.

mod away;
mod claim;
mod dispatch;
mod guardian;
mod ingest;
mod message;
pub mod page;
mod rules;
mod spawn;
mod start;
mod supervise;
mod view;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::ensure;

use crate::{
    bench::{Args, Bench},
    machine::Machine,
    place::Kind,
    report::Report,
};

/// No measurement takes longer on one store.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(900);

const NAMES: [&str; 15] = [
    "ingest_single",
    "ingest_batch",
    "latency_256",
    "page",
    "start",
    "viewers",
    "stalled_viewer",
    "db_away",
    "message",
    "claim",
    "spawn",
    "supervise",
    "dispatch",
    "supervise_rules",
    "guardian",
];

pub async fn all(mut args: Args) -> anyhow::Result<ExitCode> {
    let only = std::mem::take(&mut args.only);
    for name in &only {
        ensure!(
            NAMES.contains(&name.as_str()),
            "no measurement named {name}; there are {}",
            NAMES.join(", ")
        );
    }
    let bench = Bench::new(args).await?;
    let machine = Machine::look(&bench).await?;
    writeln!(io::stderr(), "{}", machine.lines())?;
    let mut report = Report::new(machine, bench.scale);
    for name in NAMES {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        for kind in bench.kinds() {
            let made =
                tokio::time::timeout(MEASUREMENT_TIMEOUT, Box::pin(one(name, &bench, kind, &mut report)))
                    .await;
            match made {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => report.failed(format!("{name} on {kind}: {fault:#}")),
                Err(_) => report.failed(format!("{name} on {kind}: not over after {MEASUREMENT_TIMEOUT:?}")),
            }
        }
    }
    if let Some(postgres) = &bench.postgres {
        postgres.drop_all().await?;
    }
    report.finish(&bench.out)?;
    Ok(if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn one(name: &str, bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    match name {
        "ingest_single" => ingest::single(bench, kind, report).await,
        "ingest_batch" => ingest::batch(bench, kind, report).await,
        "latency_256" => ingest::latency(bench, kind, report).await,
        "page" => page::pages(bench, kind, report).await,
        "start" => start::start(bench, kind, report).await,
        "viewers" => view::viewers(bench, kind, report).await,
        "stalled_viewer" => view::stalled(bench, kind, report).await,
        "db_away" => away::away(bench, kind, report).await,
        "message" => message::message(bench, kind, report).await,
        "claim" => claim::claim(bench, kind, report).await,
        "spawn" => spawn::spawn(bench, kind, report).await,
        "supervise" => supervise::supervised(bench, kind, report).await,
        "dispatch" => dispatch::dispatched(bench, kind, report).await,
        "supervise_rules" => rules::rules(bench, kind, report).await,
        "guardian" => guardian::guarded(bench, kind, report).await,
        _ => unreachable!("names are checked"),
    }
}
