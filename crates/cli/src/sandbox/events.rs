//! What happens in a sandbox: its events, up to now or as they come, and its trajectory.

use anyhow::Result;
use omoi_client::{Client, EventQuery, TrajectoryQuery};
use omoi_protocol::{SandboxId, event::StoredEvent};
use omoi_server::clock::Clock;

use super::{
    describe::line,
    follow::{Follow, News, newest},
};
use crate::{Context, text::relative};

/// Show events, oldest first
#[derive(Debug, clap::Args)]
pub struct Events {
    /// As `omoi sandbox list` shows it
    id: SandboxId,
    /// Go on showing events as they come, until the sandbox ends
    #[arg(long, short)]
    follow: bool,
    /// Only events of this type, such as agent.tool_use
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// The newest so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
}

impl Events {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let query = EventQuery {
            event_type: self.event_type.clone(),
            limit: Some(self.limit.into()),
            ..EventQuery::default()
        };
        if self.follow {
            return self.follow(cx, client, &query).await;
        }
        let page = client.event_list(&self.id, &query).await?;
        cx.out.answer(&page, |style| {
            let lines: Vec<_> = page.events.iter().rev().map(|event| line(event, style)).collect();
            lines.join("\n")
        })?;
        let left = page.total_count - i64::try_from(page.events.len()).unwrap_or(0);
        if left > 0 && !cx.out.is_json() {
            // A page of large events is full earlier.
            let more = if page.events.len() < self.limit.into() { "" } else { "; --limit shows more" };
            cx.out.note(&format!("{left} older ones are left out{more}"));
        }
        Ok(())
    }

    async fn follow(&self, cx: &Context, client: &Client, query: &EventQuery) -> Result<()> {
        // The newest event of any type is where following begins.
        let newest = newest(client, &self.id).await?;
        let before = newest.as_ref().map(|event| event.seq + 1);
        if before.is_some() {
            let first = EventQuery { before, ..query.clone() };
            show(cx, client.event_list(&self.id, &first).await?.events)?;
        }
        let wanted =
            |event: &StoredEvent| self.event_type.as_ref().is_none_or(|kind| *kind == event.event_type);
        let mut follow = Follow::behind(client, &self.id, newest.as_ref());
        let mut over = false;
        loop {
            match follow.next().await? {
                News::Events(events) => show(cx, events.into_iter().filter(wanted).collect())?,
                News::Quiet if over => return Ok(()),
                News::Quiet => over = !follow.sandbox().await?.status.is_live(),
            }
        }
    }
}

fn show(cx: &Context, mut events: Vec<StoredEvent>) -> Result<()> {
    events.sort_by_key(|event| event.seq);
    events.iter().try_for_each(|event| cx.out.item(event, |style| line(event, style)))
}

/// Show events without heartbeats, oldest first
#[derive(Debug, clap::Args)]
pub struct Trajectory {
    /// As `omoi sandbox list` shows it
    id: SandboxId,
    /// The newest so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

impl Trajectory {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let query = TrajectoryQuery { limit: Some(self.limit.into()), ..TrajectoryQuery::default() };
        let trajectory = client.trajectory(&self.id, &query).await?;
        cx.out.answer(&trajectory, |style| {
            let lines: Vec<_> = trajectory.events.iter().rev().map(|event| line(event, style)).collect();
            lines.join("\n")
        })?;
        if !cx.out.is_json() {
            let shown = trajectory.events.len();
            let beats = &trajectory.heartbeat_summary;
            let last =
                beats.last_heartbeat.map(|at| format!(", the last {}", relative(Clock::Real.now(), at)));
            cx.out.note(&format!(
                "{shown} of {} events; {} heartbeats{}",
                trajectory.trajectory_events,
                beats.count,
                last.unwrap_or_default()
            ));
        }
        Ok(())
    }
}
