//! Live viewers: whether each gets every event once and in order, how soon, and what one that never reads costs
//! the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use serde_json::json;
use tokio::{sync::watch, task::JoinSet, time::Instant};

use crate::{
    bench::Bench,
    latency::Latency,
    load::{Sent, beat},
    omoi::Omoi,
    place::{Kind, Place},
    report::{Report, Row, Target, figure, median},
    sample::{self, EVENT_BYTES, Sandbox, TOOL_USE},
    viewer::{Faults, Sight, Viewer},
    wire::{Conn, text_after},
};

const PER_SECOND: u32 = 200;
/// Enough and large enough that the buffers between the server and one that does not read are full in seconds.
const STALL_PER_SECOND: u32 = 1000;
const STALL_EVENT_BYTES: usize = 2000;
const STALL_VIEWERS: usize = 10;
const STALL_RECEIVE_BYTES: u32 = 4096;
/// What has not arrived by then is lost.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(15);
/// After everything has arrived, for what should not.
const REPEAT_WAIT: Duration = Duration::from_millis(300);

pub async fn viewers(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let place = Place::fresh(bench, kind).await?;
    let omoi = Omoi::start(bench, &place).await?;
    let show = Show {
        viewers: bench.scale.viewers,
        stalled: false,
        per_second: PER_SECOND,
        event_bytes: EVENT_BYTES,
        how_long: bench.scale.view,
    };
    let seen = show.run(&omoi).await?;
    omoi.stop().await?;
    place.remove(bench).await?;
    let name = format!("viewers: {} × {PER_SECOND} events/s", show.viewers);
    report.push(
        Row::new(format!("{name}: delivered"), kind, figure(seen.delivered() * 100.0, "%"))
            .target(Target::AtLeast(100.0))
            .wrong(seen.wrong())
            .details(json!({ "faults": seen.faults, "sent": seen.sent, "closed": seen.closed })),
    );
    report.push(
        Row::new(format!("{name}: delivery p99"), kind, figure(seen.quantile_ms(0.99), "ms"))
            .details(json!({ "p50_ms": seen.quantile_ms(0.5), "max_ms": seen.quantile_ms(1.0) })),
    );
    report.push(
        Row::new(format!("{name}: CPU of the server"), kind, figure(seen.cpu_cores, "cores"))
            .details(json!({ "client_cores": seen.client_cores })),
    );
    Ok(())
}

pub async fn stalled(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds {
        for stalled in [false, true] {
            let place = Place::fresh(bench, kind).await?;
            let omoi = Omoi::start(bench, &place).await?;
            let show = Show {
                viewers: if stalled { STALL_VIEWERS - 1 } else { STALL_VIEWERS },
                stalled,
                per_second: STALL_PER_SECOND,
                event_bytes: STALL_EVENT_BYTES,
                how_long: bench.scale.view,
            };
            if stalled { &mut with } else { &mut without }.push(show.run(&omoi).await?);
            omoi.stop().await?;
            place.remove(bench).await?;
        }
    }
    let middle = |rounds: &[Seen], of: fn(&Seen) -> f64| median(rounds.iter().map(of).collect());
    let row = |name: &str, of: fn(&Seen) -> f64, unit| {
        Row::new(format!("stalled_viewer: {name}"), kind, figure(middle(&with, of), unit))
            .beside(middle(&without, of), "none stalled")
    };
    report.push(
        row("the others' share delivered", |seen| seen.delivered() * 100.0, "%")
            .target(Target::AtLeast(100.0))
            .wrong(with.iter().chain(&without).find_map(Seen::wrong)),
    );
    report.push(row("delivery p50", |seen| seen.quantile_ms(0.5), "ms").target(Target::RatioAtMost(1.25)));
    report.push(row("delivery p99", |seen| seen.quantile_ms(0.99), "ms"));
    report.push(row("ingest", |seen| seen.rate, "events/s").target(Target::RatioAtLeast(0.95)));
    Ok(())
}

/// Events on a beat, before an audience.
struct Show {
    viewers: usize,
    /// Whether there is one more, who never reads.
    stalled: bool,
    per_second: u32,
    event_bytes: usize,
    how_long: Duration,
}

/// What became of it.
struct Seen {
    faults: Faults,
    /// Viewers that the server sent away, by its code.
    closed: Vec<u16>,
    refused: u64,
    sent: u64,
    viewers: u64,
    latency: Latency,
    rate: f64,
    cpu_cores: f64,
    client_cores: f64,
}

impl Show {
    async fn run(&self, omoi: &Omoi) -> anyhow::Result<Seen> {
        let sandbox = omoi.sandboxes(1).await?.remove(0);
        let since = post_one(omoi, &sandbox).await?;
        let query = format!("since={since}&entity_ids={}&event_types=SANDBOX_{TOOL_USE}", sandbox.id);
        let epoch = Instant::now();
        let arrived = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = watch::channel(false);
        let mut audience = JoinSet::new();
        for _ in 0..self.viewers {
            let viewer = Viewer::open(omoi.at, &omoi.token, &query, None).await?;
            audience.spawn(viewer.watch(epoch, Arc::clone(&arrived), stopped.clone()));
        }
        let _stalled = match self.stalled {
            true => Some(Viewer::open(omoi.at, &omoi.token, &query, Some(STALL_RECEIVE_BYTES)).await?),
            false => None,
        };
        // All of them are listening once this one has arrived.
        let first = post_one(omoi, &sandbox).await?;
        arrivals(&arrived, self.viewers).await;

        let (side, client) = (omoi.meter.used()?, crate::proc::own_cpu()?);
        let request = sample::unnumbered(omoi.at, &sandbox, self.event_bytes);
        let (outcome, mut sent) = beat(omoi.at, &request, self.per_second, self.how_long, epoch).await?;
        let seconds = outcome.elapsed.as_secs_f64();
        let cpu_cores = omoi.meter.used()?.saturating_sub(side).as_secs_f64() / seconds;
        let client_cores = crate::proc::own_cpu()?.saturating_sub(client).as_secs_f64() / seconds;

        arrivals(&arrived, (sent.len() + 1) * self.viewers).await;
        tokio::time::sleep(REPEAT_WAIT).await;
        stop.send_replace(true);
        let sights = audience.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        sent.sort_by_key(|sent| sent.position);
        Ok(Seen {
            faults: faults(&sights, first, &sent)?,
            closed: sights.iter().filter_map(|sight| sight.closed).collect(),
            refused: outcome.failures.values().sum(),
            sent: sent.len() as u64,
            viewers: self.viewers as u64,
            latency: latency(&sights, &sent)?,
            rate: outcome.rate(),
            cpu_cores,
            client_cores,
        })
    }
}

impl Seen {
    /// Share of what was sent that arrived.
    fn delivered(&self) -> f64 {
        let due = ((self.sent + 1) * self.viewers) as f64;
        (due - self.faults.lost as f64) / due
    }

    fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latency.quantile_ms(quantile)
    }

    fn wrong(&self) -> Option<String> {
        let Faults { lost, repeated, out_of_order } = self.faults;
        let fault = self.faults.any() || self.refused > 0;
        fault.then(|| {
            format!(
                "{lost} lost, {repeated} repeated, {out_of_order} out of order; {} posts refused; {} viewers sent away \
                 {:?}",
                self.refused,
                self.closed.len(),
                self.closed.first()
            )
        })
    }
}

/// Waits until so many have arrived, in all; not for ever.
async fn arrivals(arrived: &AtomicU64, count: usize) {
    let end = Instant::now() + ARRIVAL_TIMEOUT;
    while arrived.load(Relaxed) < count as u64 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn post_one(omoi: &Omoi, sandbox: &Sandbox) -> anyhow::Result<i64> {
    let mut conn = Conn::open(omoi.at).await?;
    let answer = conn.ask(&sample::unnumbered(omoi.at, sandbox, EVENT_BYTES)).await?;
    let position = text_after(answer.body, "\"event_id\":\"evt-").and_then(|id| id.parse().ok());
    position.with_context(|| format!("an event was answered {}", answer.text()))
}

fn faults(sights: &[Sight], first: i64, sent: &[Sent]) -> anyhow::Result<Faults> {
    let mut expected: Vec<i64> = sent.iter().map(|sent| sent.position).collect();
    expected.insert(0, first);
    let mut faults = Faults::default();
    for sight in sights {
        faults.add(sight, &expected)?;
    }
    Ok(faults)
}

/// From sending to arrival, of all events with all viewers.
fn latency(sights: &[Sight], sent: &[Sent]) -> anyhow::Result<Latency> {
    let mut latency = Latency::new()?;
    for (position, at) in sights.iter().flat_map(|sight| &sight.arrivals) {
        if let Ok(n) = sent.binary_search_by_key(position, |sent| sent.position) {
            latency.record(Duration::from_micros(u64::from(*at)).saturating_sub(sent[n].at));
        }
    }
    Ok(latency)
}
