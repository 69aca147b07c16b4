//! A message to a worker that waits for one: from its post until the worker has it.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    bench::Bench,
    omoi::{Omoi, text},
    place::{Kind, Place},
    report::{Report, Row, Target, figure},
    sample::{self, Sandbox},
    wire::{Conn, Request},
};

/// The worker's question is with the server by then.
const ASK_LEAD: Duration = Duration::from_millis(5);

pub async fn message(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let place = Place::fresh(bench, kind).await?;
    let omoi = Omoi::start(bench, &place).await?;
    let (bare, _) = Bare::start(bench).await?;
    let sandbox = omoi.sandboxes(1).await?.remove(0);
    let mut worker = Worker { poll: Conn::open(omoi.at).await?, ack: Conn::open(omoi.at).await?, sandbox };
    let mut sender = Conn::open(omoi.at).await?;
    let mut append = Conn::open(bare.at).await?;
    let mut raw_request = sample::single(bare.at, &worker.sandbox);
    let (mut latency, mut raw) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
    for n in 0..bench.scale.messages {
        let began = Instant::now();
        raw_request.number_from(n as u64 + 1);
        ensure!(append.ask(&raw_request).await?.is_success(), "the bare server refused an append");
        raw.saturating_record(u64::try_from(began.elapsed().as_micros())?);
        latency.saturating_record(u64::try_from(worker.hear(&omoi, &mut sender, n).await?.as_micros())?);
    }
    bare.stop().await?;
    omoi.stop().await?;
    place.remove(bench).await?;
    let ms = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    report.push(
        Row::new("message: p99 until the worker has it", kind, figure(ms(&latency, 0.99), "ms"))
            .beside(ms(&raw, 0.99), "one durable append")
            .target(Target::AtMost(10.0))
            .details(json!({ "p50_ms": ms(&latency, 0.5), "max_ms": ms(&latency, 1.0), "raw_p50_ms": ms(&raw, 0.5) })),
    );
    Ok(())
}

struct Worker {
    poll: Conn,
    ack: Conn,
    sandbox: Sandbox,
}

impl Worker {
    /// Asks, is told, and acknowledges. How long the telling took.
    async fn hear(&mut self, omoi: &Omoi, sender: &mut Conn, n: usize) -> anyhow::Result<Duration> {
        let path = format!("/api/v1/sandboxes/{}/messages", self.sandbox.id);
        let content = format!("message {n}: please look at the parser again");
        let ask = Request::get(omoi.at, &format!("{path}?wait=20"), &self.sandbox.token);
        let tell = omoi.post(&path, &json!({ "content": content, "message_type": "user_message" }));
        let asked = async {
            let messages = self.poll.ask_json(&ask).await?;
            anyhow::Ok((messages, Instant::now()))
        };
        let told = async {
            tokio::time::sleep(ASK_LEAD).await;
            let began = Instant::now();
            sender.ask_json(&tell).await?;
            anyhow::Ok(began)
        };
        let ((messages, arrived), began) = tokio::try_join!(asked, told)?;
        let messages = messages.as_array().context("messages are no list")?;
        ensure!(messages.len() == 1, "{} messages came where one was sent", messages.len());
        ensure!(messages[0]["content"] == content, "another message came than was sent");
        self.acknowledge(omoi, &path, &messages[0]).await?;
        Ok(arrived - began)
    }

    async fn acknowledge(&mut self, omoi: &Omoi, path: &str, message: &Value) -> anyhow::Result<()> {
        let path = format!("{path}/{}/ack", text(&message["id"])?);
        let body = json!({ "state": "acknowledged" }).to_string();
        let report = Request::post(omoi.at, &path, &self.sandbox.token, body.as_bytes());
        self.ack.ask_json(&report).await?;
        Ok(())
    }
}
