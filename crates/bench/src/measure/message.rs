//! A message to a worker that waits for one: from its post until the worker has it.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    bench::Bench,
    latency::Latency,
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
    let (mut latency, mut raw) = (Latency::new()?, Latency::new()?);
    for n in 0..bench.scale.messages {
        let began = Instant::now();
        raw_request.number_from(n as u64 + 1);
        ensure!(append.ask(&raw_request).await?.is_success(), "the bare server refused an append");
        raw.record(began.elapsed());
        latency.record(worker.hear(&omoi, &mut sender, n).await?);
    }
    bare.stop().await?;
    omoi.stop().await?;
    place.remove(bench).await?;
    report.push(
        Row::new("message: p99 until the worker has it", kind, figure(latency.quantile_ms(0.99), "ms"))
            .beside(raw.quantile_ms(0.99), "one durable append")
            .target(Target::AtMost(10.0))
            .details(json!({ "p50_ms": latency.quantile_ms(0.5), "max_ms": latency.quantile_ms(1.0), "raw_p50_ms": raw.quantile_ms(0.5) })),
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
