//! `omoi monitor`: how the whole is doing, at a glance or for as long as somebody looks.

use std::time::Duration;

use anyhow::Result;
use omoi_protocol::monitor::{Anomaly, Dashboard, Disk, Figures};
use omoi_server::clock::Clock;

use crate::{
    Context,
    connect::Connect,
    out::Style,
    table::{Item, Table, fields, maybe, number},
    text::{relative, size},
};

const EVERY: Duration = Duration::from_secs(2);
/// Puts the cursor at the top and takes away what is below it.
const AGAIN: &str = "\u{1b}[H\u{1b}[J";

/// Show how the whole is doing: tasks, agents, figures, and what is unusual
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Go on showing it, until Ctrl-C
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    connect: Connect,
}

impl Args {
    pub fn answers_signals(&self) -> bool {
        self.watch
    }

    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        let show = async || {
            let dashboard = client.monitor_dashboard().await?;
            if !self.watch {
                return cx.out.answer(&dashboard, |style| page(&dashboard, style));
            }
            cx.out.item(&dashboard, |style| {
                let top = if style.tty { AGAIN } else { "" };
                format!("{top}{}", page(&dashboard, style))
            })
        };
        show().await?;
        if !self.watch {
            return Ok(());
        }
        loop {
            tokio::select! {
                _ = cx.signals.next() => return Ok(()),
                () = tokio::time::sleep(EVERY) => show().await?,
            }
        }
    }
}

fn not_kept(sandboxes: u64) -> String {
    format!(
        "the work of {sandboxes} ended sandboxes could not be saved; list them with `omoi sandbox list --unkept`, \
         then rescue or discard each"
    )
}

fn page(dashboard: &Dashboard, style: Style) -> String {
    let mut text = fields([
        (
            "tasks",
            Some(format!(
                "{} pending, {} running, {} completed, {} failed",
                dashboard.total_tasks_pending,
                dashboard.total_tasks_running,
                dashboard.total_tasks_completed,
                dashboard.total_tasks_failed
            )),
        ),
        ("agents", Some(format!("{} active, {} stale", dashboard.active_agents, dashboard.stale_agents))),
        ("leases", Some(dashboard.active_locks.to_string())),
        ("conflicts", Some(dashboard.open_conflicts.to_string())),
        (
            "coherence",
            dashboard.coherence_score.map(|score| {
                let status = dashboard.system_status.map(|status| format!(" ({status})")).unwrap_or_default();
                format!("{score:.2}{status}")
            }),
        ),
        ("critical", Some(dashboard.critical_alerts.to_string())),
        ("disk", dashboard.disk.as_ref().map(disk)),
        ("not kept", (dashboard.unkept_sandboxes > 0).then(|| not_kept(dashboard.unkept_sandboxes))),
    ]);
    if let Some(point) = &dashboard.now {
        text.push_str(&format!("\nfigures of {}\n", relative(Clock::Real.now(), point.at)));
        text.push_str(&figures(&point.figures));
    }
    let table = Table::new(style, &["kind", "phase", "attempts", "time", "fails", "cpu", "memory"]);
    let usual = dashboard.baselines.iter().fold(table, |table, row| {
        table.row([
            row.agent_kind.as_str().into(),
            row.phase.as_str().into(),
            number(&row.samples),
            Item::Number(format!("{:.0} ± {:.0} s", row.latency_ms / 1000.0, row.latency_std / 1000.0)),
            Item::Number(format!("{:.0} %", row.error_rate * 100.0)),
            Item::Number(format!("{:.2}", row.cpu)),
            Item::Number(size(row.memory_bytes as u64)),
        ])
    });
    section(&mut text, "what is usual", &usual.render());
    let table = Table::new(style, &["id", "severity", "when", "what"]);
    let unusual = dashboard.recent_anomalies.iter().fold(table, anomaly).render();
    section(&mut text, "unusual, and not acknowledged", &unusual);
    text
}

fn disk(disk: &Disk) -> String {
    let Disk { path, state, free_bytes, total_bytes, .. } = disk;
    format!("{state}: {} free of {} at {path}", size(*free_bytes), size(*total_bytes))
}

fn section(text: &mut String, title: &str, content: &str) {
    if !content.is_empty() {
        text.push_str(&format!("\n{title}\n{content}\n"));
    }
}

fn anomaly(table: Table, anomaly: &Anomaly) -> Table {
    table.row([
        anomaly.id.to_string().into(),
        Item::Word(anomaly.severity.as_str()),
        relative(Clock::Real.now(), anomaly.detected_at).into(),
        match &anomaly.sandbox_id {
            Some(id) => maybe(Some(format!("{id} {}", anomaly.description))),
            None => anomaly.description.as_str().into(),
        },
    ])
}

fn figures(figures: &Figures) -> String {
    let seconds = |value: Option<f64>| value.map(|value| format!("{value:.1} s"));
    fields([
        ("events", Some(format!("{:.1} a second", figures.events_per_second))),
        ("completions", Some(format!("{:.0}", figures.completions))),
        ("failures", Some(format!("{:.0}", figures.failures))),
        ("queue", Some(format!("{:.0}", figures.queue_depth))),
        ("wait", seconds(figures.queue_wait_seconds)),
        ("spawn", seconds(figures.spawn_seconds)),
        ("task", seconds(figures.task_duration_seconds)),
        ("heartbeat", seconds(figures.heartbeat_age_seconds)),
        ("cost", Some(format!("{:.4} USD", figures.cost_usd))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_shows_what_there_is_and_leaves_out_what_is_not() {
        let dashboard = Dashboard {
            total_tasks_pending: 3,
            total_tasks_running: 2,
            total_tasks_completed: 7,
            total_tasks_failed: 1,
            active_agents: 2,
            stale_agents: 0,
            active_locks: 2,
            recent_anomalies: Vec::new(),
            critical_alerts: 0,
            unkept_sandboxes: 0,
            open_conflicts: 1,
            coherence_score: Some(0.75),
            system_status: Some(omoi_protocol::SystemStatus::Normal),
            now: None,
            baselines: Vec::new(),
            disk: Some(Disk {
                path: "/srv/omoi".to_owned(),
                state: omoi_protocol::DiskState::Full,
                free_bytes: 0,
                total_bytes: 1 << 30,
                full_below_bytes: 1 << 20,
                low_below_bytes: 10 << 30,
            }),
        };
        let text = page(&dashboard, Style::PLAIN);
        assert!(text.contains("3 pending, 2 running, 7 completed, 1 failed"), "{text}");
        assert!(text.contains("full: 0 B free of 1.0 GiB at /srv/omoi"), "{text}");
        assert!(text.contains("0.75 (normal)") && !text.contains("usual"), "{text}");
    }
}
