//! Closing sandboxes that ended long ago, so that nothing can report for them any more.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use omoi_client::{Client, SandboxQuery};
use omoi_protocol::{SandboxStatus, sandbox::Sandbox, task::Reason};
use omoi_server::clock::Clock;

use super::show::{HEADER, rows};
use crate::{Context, page::collect, table::Table, text::parse_span};

/// The rest is pruned by the next call.
const SANDBOXES_MAX: usize = 10_000;

/// Terminate sandboxes that ended long ago: completed, failed or lost, never live ones
#[derive(Debug, clap::Args)]
pub struct Prune {
    /// How long ago they must have ended
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_span)]
    older_than: Duration,
    /// Only show which
    #[arg(long)]
    dry_run: bool,
}

impl Prune {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let fetch = async |size, cursor| {
            let live = Some(false);
            client
                .sandbox_list(&SandboxQuery { live, limit: Some(size), cursor, ..SandboxQuery::default() })
                .await
        };
        let mut due = collect(SANDBOXES_MAX, fetch).await?.items;
        let before = Clock::Real.now() - self.older_than;
        due.retain(|sandbox| is_due(sandbox, before));
        if !self.dry_run {
            let reason = Reason { reason: Some("pruned".to_owned()) };
            for sandbox in &mut due {
                *sandbox = client.sandbox_terminate(&sandbox.id, &reason).await?;
            }
        }
        cx.out.answer(&due, |style| rows(Table::new(style, HEADER), &due).render())?;
        let did = if self.dry_run { "would be terminated" } else { "terminated" };
        cx.out.note(&format!("{} {did}", due.len()));
        Ok(())
    }
}

fn is_due(sandbox: &Sandbox, before: Timestamp) -> bool {
    let ended_at = sandbox.ended_at.unwrap_or(sandbox.created_at);
    match sandbox.status {
        SandboxStatus::Completed | SandboxStatus::Failed | SandboxStatus::Lost => ended_at < before,
        SandboxStatus::Creating | SandboxStatus::Running | SandboxStatus::Terminated => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_ended_long_ago_and_is_not_closed_is_due() {
        let before: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let (old, young) = ("2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z");
        for (status, ended_at, due) in [
            ("completed", old, true),
            ("failed", old, true),
            ("lost", old, true),
            ("lost", young, false),
            ("running", old, false),
            ("creating", old, false),
            ("terminated", old, false),
        ] {
            let sandbox: Sandbox = serde_json::from_value(json!({
                "id": "sbx-1", "provider": "external", "status": status, "generation": 0, "labels": {},
                "created_at": "2026-01-01T00:00:00Z", "ended_at": ended_at,
            }))
            .unwrap();
            assert_eq!(is_due(&sandbox, before), due, "{status}");
        }
    }
}
