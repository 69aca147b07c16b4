//! Durable events over HTTP: how many a second, at what latency, and what each costs in CPU.
//!
//! The two sides take turns, so that a disk which is slow for a while is slow for both; medians count.

use std::collections::BTreeMap;

use serde_json::json;

use crate::{
    bare::Bare,
    bench::Bench,
    load::{Outcome, Writer, flood},
    omoi::Omoi,
    place::{Kind, Place},
    raw::Raw,
    report::{Report, Row, Target, figure, median},
    sample::{self, Sandbox, TOOL_USE},
    wire::Request,
};

const CONNECTIONS: usize = 64;
const MANY_CONNECTIONS: usize = 256;
const BATCH: usize = 50;
const CPU_MS_MAX: f64 = 0.1;

pub async fn single(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let mut sides = Sides::start(bench, kind, CONNECTIONS, sample::single).await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        bare.push(sides.flood_bare(bench).await?);
        ours.push(sides.flood(bench).await?);
    }
    let wrong = sides.check(&ours).await?;
    sides.stop(bench).await?;
    let raw = median(bare.iter().map(Outcome::rate).collect());
    report.push(
        Row::new("ingest_single: 64 connections", kind, figure(middle_rate(&ours), "events/s"))
            .beside(raw, "bare durable append server")
            .target(Target::RatioAtLeast(0.5))
            .wrong(wrong)
            .details(json!({ "ours": details(&ours), "bare": details(&bare) })),
    );
    report.push(
        Row::new("ingest_single: CPU per event", kind, figure(cpu(&ours), "ms"))
            .beside(cpu(&bare), "bare server")
            .target(Target::AtMost(CPU_MS_MAX))
            .details(json!({ "client_ms": client_cpu(&ours), "client_ms_bare": client_cpu(&bare) })),
    );
    Ok(())
}

pub async fn batch(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let request = |at, sandbox: &Sandbox| sample::batch(at, sandbox, &[TOOL_USE], BATCH);
    let mut sides = Sides::start(bench, kind, CONNECTIONS, request).await?;
    let mut table = Raw::new(bench, kind).await?;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        raw.push(table.insert_rate(bench.scale.measure).await?);
        ours.push(sides.flood(bench).await?);
    }
    let wrong = sides.check(&ours).await?;
    sides.stop(bench).await?;
    table.remove(bench).await?;
    report.push(
        Row::new("ingest_batch: batches of 50", kind, figure(middle_rate(&ours), "events/s"))
            .beside(median(raw.clone()), "multi-row inserts, 1,000 a commit")
            .target(Target::RatioAtLeast(0.5))
            .wrong(wrong)
            .details(json!({ "ours": details(&ours), "raw": raw })),
    );
    report.push(
        Row::new("ingest_batch: CPU per event", kind, figure(cpu(&ours), "ms"))
            .target(Target::AtMost(CPU_MS_MAX))
            .details(json!({ "client_ms": client_cpu(&ours) })),
    );
    Ok(())
}

pub async fn latency(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let mut sides = Sides::start(bench, kind, MANY_CONNECTIONS, sample::single).await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        bare.push(sides.flood_bare(bench).await?);
        ours.push(sides.flood(bench).await?);
    }
    let wrong = sides.check(&ours).await?;
    sides.stop(bench).await?;
    let p99 =
        |outcomes: &[Outcome]| median(outcomes.iter().map(|outcome| outcome.quantile_ms(0.99)).collect());
    report.push(
        Row::new("latency_256: p99 of single events", kind, figure(p99(&ours), "ms"))
            .beside(p99(&bare), "bare durable append server")
            .target(Target::AtMost(100.0))
            .wrong(wrong)
            .details(json!({ "ours": details(&ours), "bare": details(&bare) })),
    );
    Ok(())
}

/// A server and the bare one, with a writer for each sandbox on either.
struct Sides {
    place: Place,
    omoi: Omoi,
    bare: Bare,
    sandboxes: Vec<Sandbox>,
    writers: Vec<Writer>,
    bare_writers: Vec<Writer>,
}

impl Sides {
    async fn start(
        bench: &Bench,
        kind: Kind,
        connections: usize,
        request: impl Fn(std::net::SocketAddr, &Sandbox) -> Request,
    ) -> anyhow::Result<Self> {
        let place = Place::fresh(bench, kind).await?;
        let omoi = Omoi::start(bench, &place).await?;
        let (bare, _) = Bare::start(bench).await?;
        let sandboxes = omoi.sandboxes(connections).await?;
        let writers = |at| sandboxes.iter().map(|sandbox| Writer::new(request(at, sandbox))).collect();
        Ok(Self { writers: writers(omoi.at), bare_writers: writers(bare.at), place, omoi, bare, sandboxes })
    }

    async fn flood(&mut self, bench: &Bench) -> anyhow::Result<Outcome> {
        let writers = std::mem::take(&mut self.writers);
        let (outcome, writers) = flood(self.omoi.at, writers, &bench.scale, self.omoi.meter).await?;
        self.writers = writers;
        Ok(outcome)
    }

    async fn flood_bare(&mut self, bench: &Bench) -> anyhow::Result<Outcome> {
        let writers = std::mem::take(&mut self.bare_writers);
        let (outcome, writers) = flood(self.bare.at, writers, &bench.scale, self.bare.meter).await?;
        self.bare_writers = writers;
        Ok(outcome)
    }

    /// Everything acknowledged is stored once, and nothing was refused.
    async fn check(&self, outcomes: &[Outcome]) -> anyhow::Result<Option<String>> {
        let mut failures = BTreeMap::new();
        for (what, count) in outcomes.iter().flat_map(|outcome| &outcome.failures) {
            *failures.entry(what.as_str()).or_insert(0) += count;
        }
        if let Some((what, count)) = failures.iter().next() {
            return Ok(Some(format!("{count} requests failed: {what}")));
        }
        for (sandbox, writer) in self.sandboxes.iter().zip(&self.writers) {
            let (stored, sent) = (self.omoi.count(sandbox, TOOL_USE).await?, writer.acknowledged);
            if stored != sent {
                return Ok(Some(format!(
                    "{sent} events of {} were acknowledged, {stored} are stored",
                    sandbox.id
                )));
            }
        }
        Ok(None)
    }

    async fn stop(self, bench: &Bench) -> anyhow::Result<()> {
        self.bare.stop().await?;
        self.omoi.stop().await?;
        self.place.remove(bench).await
    }
}

fn middle_rate(outcomes: &[Outcome]) -> f64 {
    median(outcomes.iter().map(Outcome::rate).collect())
}

fn cpu(outcomes: &[Outcome]) -> f64 {
    median(outcomes.iter().map(Outcome::cpu_ms_each).collect())
}

fn client_cpu(outcomes: &[Outcome]) -> f64 {
    median(outcomes.iter().map(Outcome::client_cpu_ms_each).collect())
}

fn details(outcomes: &[Outcome]) -> serde_json::Value {
    let each = outcomes.iter().map(|outcome| {
        json!({
            "per_second": outcome.rate(),
            "p50_ms": outcome.quantile_ms(0.5),
            "p99_ms": outcome.quantile_ms(0.99),
            "cpu_ms_each": outcome.cpu_ms_each(),
            "client_cpu_ms_each": outcome.client_cpu_ms_each(),
        })
    });
    each.collect()
}
