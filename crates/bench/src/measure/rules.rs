//! What the rules of supervision cost, for a thousand sandboxes with long runs. They know no store.

use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::{
    bench::Bench,
    place::Kind,
    report::{Report, Row, Target, figure},
};

const SANDBOXES: usize = 1000;
/// One look at all of them.
const TICK_MS_MAX: f64 = 50.0;
const MEMORY_MB_MAX: f64 = 50.0;

pub async fn rules(bench: &Bench, kind: Kind, report: &mut Report) -> anyhow::Result<()> {
    if kind != Kind::Sqlite {
        return Ok(());
    }
    let figures = measure(bench).await?;
    let number = |key: &str| figures[key].as_f64().with_context(|| format!("no {key} in {figures}"));
    let name = format!("supervise: {SANDBOXES} runs of {} events", bench.scale.watched_events);
    let (first, last) = (number("first_us")?, number("last_us")?);
    report.push(
        Row::new(format!("{name}: one event"), kind, figure(number("event_us")?, "µs CPU"))
            .details(figures.clone()),
    );
    // What came before costs nothing: the last events are as cheap as the first.
    report.push(
        Row::new(format!("{name}: last events"), kind, figure(last, "µs CPU"))
            .beside(first, "the first events")
            .target(Target::RatioAtMost(1.5)),
    );
    report.push(
        Row::new(format!("{name}: one look at all"), kind, figure(number("tick_ms")?, "ms CPU"))
            .target(Target::AtMost(TICK_MS_MAX)),
    );
    let held = number("resident_bytes")? / 1e6;
    report.push(
        Row::new(format!("{name}: memory"), kind, figure(held, "MB")).target(Target::AtMost(MEMORY_MB_MAX)),
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the program that is measured")]
async fn measure(bench: &Bench) -> anyhow::Result<Value> {
    let mut command = Command::new(&bench.omoi);
    command.args(["supervise", "cost", "--json", "--sandboxes", &SANDBOXES.to_string()]);
    command.args(["--events", &bench.scale.watched_events.to_string()]);
    let output = command.env_clear().stdin(Stdio::null()).kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "omoi supervise cost: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}
