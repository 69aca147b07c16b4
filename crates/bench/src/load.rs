//! Load: many connections that each wait for an answer before they ask again, for a time or a number of
//! requests, or on a beat.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    bench::Scale,
    latency::Latency,
    proc::{Meter, own_cpu},
    wire::{Conn, Request, text_after},
};

/// After the end of a load its last answers are waited for no longer than this.
const LAST_ANSWERS: Duration = Duration::from_secs(60);
/// Connections of a load on a beat: enough that a slow answer does not hold up the next.
const BEAT_CONNECTIONS: usize = 16;

/// What a load came to.
pub struct Outcome {
    /// From sending to the answer.
    pub latency: Latency,
    /// Answers that were no success, and connections that broke, by what they said.
    pub failures: BTreeMap<String, u64>,
    pub count: u64,
    pub elapsed: Duration,
    pub side_cpu: Duration,
    pub client_cpu: Duration,
}

impl Outcome {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            latency: Latency::new()?,
            failures: BTreeMap::new(),
            count: 0,
            elapsed: Duration::ZERO,
            side_cpu: Duration::ZERO,
            client_cpu: Duration::ZERO,
        })
    }

    pub fn rate(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64()
    }

    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latency.quantile_ms(quantile)
    }

    /// Milliseconds of CPU for each, on the measured side.
    pub fn cpu_ms_each(&self) -> f64 {
        self.side_cpu.as_secs_f64() * 1000.0 / self.count.max(1) as f64
    }

    pub fn client_cpu_ms_each(&self) -> f64 {
        self.client_cpu.as_secs_f64() * 1000.0 / self.count.max(1) as f64
    }

    fn took(&mut self, began: Instant) {
        self.latency.record(began.elapsed());
    }

    fn failed(&mut self, what: String) {
        *self.failures.entry(what).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) -> anyhow::Result<()> {
        self.latency.add(&other.latency)?;
        self.count += other.count;
        for (what, count) in &other.failures {
            *self.failures.entry(what.clone()).or_default() += count;
        }
        Ok(())
    }
}

/// A sandbox's worker: sends numbered events, each request after the answer to the one before.
pub struct Writer {
    pub request: Request,
    /// Events that were acknowledged, in all its loads.
    pub acknowledged: u64,
}

impl Writer {
    pub fn new(request: Request) -> Self {
        Self { request, acknowledged: 0 }
    }
}

/// All writers at once, at full speed: a warm-up, then the time that counts.
pub async fn flood(
    at: SocketAddr,
    writers: Vec<Writer>,
    scale: &Scale,
    meter: Meter,
) -> anyhow::Result<(Outcome, Vec<Writer>)> {
    let mut conns = Vec::with_capacity(writers.len());
    for _ in &writers {
        conns.push(Conn::open(at).await?);
    }
    let from = Instant::now() + scale.warm_up;
    let to = from + scale.measure;
    let mut tasks = JoinSet::new();
    for (order, (conn, writer)) in conns.into_iter().zip(writers).enumerate() {
        tasks.spawn(async move { (order, write(conn, writer, from, to).await) });
    }
    sleep_until(from).await;
    let (side, client, began) = (meter.used()?, own_cpu()?, Instant::now());
    sleep_until(to).await;
    let mut outcome = Outcome::new()?;
    outcome.side_cpu = meter.used()?.saturating_sub(side);
    outcome.client_cpu = own_cpu()?.saturating_sub(client);
    outcome.elapsed = began.elapsed();
    let mut ended = timeout_at(to + LAST_ANSWERS, tasks.join_all()).await.context("answers are missing")?;
    ended.sort_by_key(|(order, _)| *order);
    let mut writers = Vec::with_capacity(ended.len());
    for (_, part) in ended {
        let (part, writer) = part?;
        outcome.merge(&part)?;
        writers.push(writer);
    }
    Ok((outcome, writers))
}

/// Stops at the first failure: what follows it in the sequence would be refused.
async fn write(
    mut conn: Conn,
    mut writer: Writer,
    from: Instant,
    to: Instant,
) -> anyhow::Result<(Outcome, Writer)> {
    let mut outcome = Outcome::new()?;
    loop {
        writer.request.number_from(writer.acknowledged + 1);
        let began = Instant::now();
        if began >= to {
            break;
        }
        match conn.exchange(&writer.request).await {
            Ok(answer) if answer.is_success() => {}
            Ok(answer) => {
                outcome.failed(answer.text());
                break;
            }
            Err(fault) => {
                outcome.failed(fault.to_string());
                break;
            }
        }
        writer.acknowledged += writer.request.numbers();
        let now = Instant::now();
        if now >= from && now < to {
            outcome.took(began);
            outcome.count += writer.request.numbers();
        }
    }
    Ok((outcome, writer))
}

/// Each connection repeats its request until `total` were answered or the time is over. What `keep` finds in an
/// answer is collected.
pub async fn repeat(
    at: SocketAddr,
    requests: Vec<Request>,
    total: u64,
    limit: Duration,
    keep: fn(&[u8]) -> Option<String>,
) -> anyhow::Result<(Outcome, Vec<String>)> {
    let left = Arc::new(AtomicU64::new(total));
    let mut conns = Vec::with_capacity(requests.len());
    for _ in &requests {
        conns.push(Conn::open(at).await?);
    }
    let began = Instant::now();
    let end = began + limit;
    let mut tasks: JoinSet<anyhow::Result<(Outcome, Vec<String>)>> = JoinSet::new();
    for (mut conn, request) in conns.into_iter().zip(requests) {
        let left = Arc::clone(&left);
        tasks.spawn(async move {
            let (mut outcome, mut kept) = (Outcome::new()?, Vec::new());
            let take = |n: u64| n.checked_sub(1);
            while Instant::now() < end && left.fetch_update(Relaxed, Relaxed, take).is_ok() {
                let began = Instant::now();
                let answer = conn.exchange(&request).await?;
                if answer.is_success() {
                    kept.extend(keep(answer.body));
                    outcome.took(began);
                    outcome.count += 1;
                } else {
                    outcome.failed(answer.text());
                }
            }
            Ok((outcome, kept))
        });
    }
    let parts = timeout_at(end + LAST_ANSWERS, tasks.join_all()).await.context("answers are missing")?;
    let (mut outcome, mut kept) = (Outcome::new()?, Vec::new());
    outcome.elapsed = began.elapsed();
    for part in parts {
        let (part, found) = part?;
        outcome.merge(&part)?;
        kept.extend(found);
    }
    Ok((outcome, kept))
}

/// When an event was sent, and the position it was given.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub position: i64,
    pub at: Duration,
}

/// Posts single events on a beat, however long the answers take. Times count from `epoch`.
pub async fn beat(
    at: SocketAddr,
    request: &Request,
    per_second: u32,
    how_long: Duration,
    epoch: Instant,
) -> anyhow::Result<(Outcome, Vec<Sent>)> {
    let total = (how_long.as_secs_f64() * f64::from(per_second)) as usize;
    let mut conns = Vec::with_capacity(BEAT_CONNECTIONS);
    for _ in 0..BEAT_CONNECTIONS {
        conns.push(Conn::open(at).await?);
    }
    let began = Instant::now();
    let mut tasks: JoinSet<anyhow::Result<(Outcome, Vec<Sent>)>> = JoinSet::new();
    for (first, mut conn) in conns.into_iter().enumerate() {
        let request = request.clone();
        tasks.spawn(async move {
            let (mut outcome, mut sent) = (Outcome::new()?, Vec::new());
            for n in (first..total).step_by(BEAT_CONNECTIONS) {
                sleep_until(began + Duration::from_secs(1) * u32::try_from(n)? / per_second).await;
                let now = Instant::now();
                let answer = conn.exchange(&request).await?;
                if !answer.is_success() {
                    outcome.failed(answer.text());
                    continue;
                }
                let position = text_after(answer.body, "\"event_id\":\"evt-").and_then(|id| id.parse().ok());
                let position = position.context("an answer without an event_id")?;
                outcome.took(now);
                outcome.count += 1;
                sent.push(Sent { position, at: now - epoch });
            }
            Ok((outcome, sent))
        });
    }
    let parts = timeout_at(began + how_long + LAST_ANSWERS, tasks.join_all()).await;
    let (mut outcome, mut sent) = (Outcome::new()?, Vec::new());
    outcome.elapsed = began.elapsed();
    for part in parts.context("answers are missing")? {
        let (part, more) = part?;
        outcome.merge(&part)?;
        sent.extend(more);
    }
    Ok((outcome, sent))
}
