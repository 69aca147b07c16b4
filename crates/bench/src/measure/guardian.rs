//! One look of the Guardian over live sandboxes on a store, with one new event in each and with none. What long runs cost
//! it is in `rules.rs`.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use omoi_protocol::{EventSource, event::NewEvent};
use omoi_server::{
    domain::supervision::policy::Policy,
    orchestrator::{Guardian, Node},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    bench::Bench,
    inside::Inside,
    place::{Kind, Place},
    report::{Report, Row, Target, figure, median},
};

const TICK_MS_MAX: f64 = 50.0;
const KB_MAX: f64 = 64.0;

pub async fn guarded(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    let place = Place::fresh(bench, kind).await?;
    let inside = Inside::open(bench, &place).await?;
    let count = bench.scale.live;
    let ids = inside.live(count).await?;
    let node = Node::open(place.dir())?;
    let guardian =
        Guardian::new(inside.store.clone(), inside.clock.clone(), node, Arc::new(Policy::shipped()));
    guardian.tick().await?;
    for (what, news) in [("with one new event in each", 1), ("with nothing new", 0)] {
        let (mut used, mut times) = (Duration::ZERO, Vec::with_capacity(bench.scale.ticks));
        for round in 0..bench.scale.ticks {
            for id in ids.iter().take(count * news) {
                let data = json!({ "tool": "Bash", "tool_use_id": format!("c{round}"), "input": { "command": format!("make {round}") } });
                let event = NewEvent {
                    event_type: "agent.tool_use".to_owned(),
                    event_data: serde_json::value::to_raw_value(&data)?,
                    source: EventSource::Worker,
                    worker_seq: None,
                };
                inside.store.event_append(id, vec![event]).await?;
            }
            let (before, began) = (inside.meter.used()?, Instant::now());
            guardian.tick().await?;
            times.push(began.elapsed().as_secs_f64() * 1000.0);
            used += inside.meter.used()?.saturating_sub(before);
        }
        let cpu = used.as_secs_f64() * 1000.0 / bench.scale.ticks as f64;
        report.push(
            Row::new(format!("guardian: one look at {count} sandboxes {what}: CPU"), kind, figure(cpu, "ms"))
                .target(Target::AtMost(TICK_MS_MAX))
                .details(json!({ "ticks": bench.scale.ticks, "wall_ms": median(times) })),
        );
    }
    let status = inside.store.guardian_status(omoi_protocol::Steering::Suggest, &inside.config.judge).await?;
    ensure!(status.sandboxes_watched == count as i64, "{} of {count} are watched", status.sandboxes_watched);
    let each = status.bytes as f64 / count as f64 / 1024.0;
    report.push(
        Row::new(format!("guardian: memory for each of {count} sandboxes"), kind, figure(each, "KB"))
            .target(Target::AtMost(KB_MAX)),
    );
    drop(inside);
    place.remove(bench).await
}
