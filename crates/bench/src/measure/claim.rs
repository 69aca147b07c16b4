//! Claims: agents that take one task after the other from a long queue.

use std::{collections::HashSet, time::Duration};

use anyhow::ensure;
use serde_json::json;

use crate::{
    bench::Bench,
    load::repeat,
    omoi::{Omoi, text},
    place::{Kind, Place},
    raw::Raw,
    report::{Report, Row, Target, figure},
    wire::{Request, text_after},
};

const PROJECTS: usize = 4;
const PROJECT_CONCURRENT: u64 = 10_000;
const CREATORS: usize = 64;
const CLAIMERS: usize = 4;
const CREATE_LIMIT: Duration = Duration::from_secs(600);
const CLAIM_LIMIT: Duration = Duration::from_secs(30);

pub async fn claim(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    // First, since to remove a database makes PostgreSQL write out all others, and their next commits long.
    let mut table = Raw::new(bench, kind).await?;
    let raw = table.commit_rate(bench, bench.scale.measure).await?;
    table.remove(bench).await?;
    let place = Place::fresh(bench, kind).await?;
    let omoi = Omoi::start(bench, &place).await?;
    // As many more as will be claimed, so that the queue never gets shorter than it should be.
    let tasks = bench.scale.tasks + bench.scale.claims;
    create(&omoi, tasks).await?;
    let mut requests = Vec::new();
    for n in 0..CLAIMERS {
        let agent =
            omoi.call(&omoi.post("/api/v1/agents", &json!({ "name": format!("claimer {n}") }))).await?;
        let path = format!("/api/v1/agents/{}/claim", text(&agent["id"])?);
        requests.push(Request::post(omoi.at, &path, &omoi.token, b""));
    }
    // What was filled in a hurry is cleaned up, as it would be by the time that agents ask.
    if let (Some(postgres), Some(database)) = (&bench.postgres, place.database()) {
        postgres.connect(database).await?.batch_execute("VACUUM ANALYZE").await?;
    }
    let before = omoi.meter.used()?;
    let id = |body: &[u8]| text_after(body, "{\"task\":{\"id\":\"").map(str::to_owned);
    let (outcome, claimed) = repeat(omoi.at, requests, bench.scale.claims, CLAIM_LIMIT, id).await?;
    let cpu = omoi.meter.used()?.saturating_sub(before);
    omoi.stop().await?;
    place.remove(bench).await?;

    let different = claimed.iter().collect::<HashSet<_>>().len() as u64;
    let wrong = if let Some((what, count)) = outcome.failures.iter().next() {
        Some(format!("{count} claims failed: {what}"))
    } else if different != outcome.count {
        Some(format!("{} claims were answered, {different} different tasks were given", outcome.count))
    } else {
        None
    };
    let name = format!("claim: {} tasks pending", bench.scale.tasks);
    report.push(
        Row::new(format!("{name}: rate"), kind, figure(outcome.rate(), "/s"))
            .beside(raw, "single-row commits")
            .target(Target::AtLeast(1000.0))
            .wrong(wrong)
            .details(json!({
                "claims": outcome.count,
                "cpu_ms_each": cpu.as_secs_f64() * 1000.0 / outcome.count.max(1) as f64,
            })),
    );
    report.push(
        Row::new(format!("{name}: p99"), kind, figure(outcome.quantile_ms(0.99), "ms"))
            .target(Target::AtMost(5.0))
            .details(json!({ "p50_ms": outcome.quantile_ms(0.5), "max_ms": outcome.quantile_ms(1.0) })),
    );
    Ok(())
}

async fn create(omoi: &Omoi, tasks: u64) -> anyhow::Result<()> {
    let mut projects = Vec::new();
    for n in 0..PROJECTS {
        let body = json!({ "name": format!("project {n}"), "max_concurrent": PROJECT_CONCURRENT });
        projects.push(text(&omoi.call(&omoi.post("/api/v1/projects", &body)).await?["id"])?);
    }
    let requests = (0..CREATORS).map(|n| {
        let priority = ["LOW", "MEDIUM", "HIGH"][n % 3];
        let body = json!({
            "project_id": projects[n % PROJECTS],
            "title": format!("Repair the parser, part {n}"),
            "description": "The parser takes a comma for a full stop, and the tests do not show it.",
            "priority": priority,
        });
        omoi.post("/api/v1/tasks", &body)
    });
    let (outcome, _) = repeat(omoi.at, requests.collect(), tasks, CREATE_LIMIT, |_| None).await?;
    let failure = outcome.failures.keys().next();
    ensure!(outcome.count == tasks, "{} of {tasks} tasks could be made: {failure:?}", outcome.count);
    Ok(())
}
