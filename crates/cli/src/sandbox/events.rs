//! What happens in a sandbox: its events, up to now or as they come, and its trajectory.

use std::pin::pin;

use anyhow::Result;
use futures_util::StreamExt;
use omoi_client::{Client, EventQuery, LiveFilter, TrajectoryQuery};
use omoi_protocol::{SandboxId, event::StoredEvent};
use omoi_server::clock::Clock;

use super::describe::line;
use crate::{Context, text::relative};

const PAGE: usize = 500;

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

    /// The live stream says that there is something new; what is shown is read from the store, in order and once.
    async fn follow(&self, cx: &Context, client: &Client, query: &EventQuery) -> Result<()> {
        // The newest event of any type is where the stream begins.
        let newest =
            client.event_list(&self.id, &EventQuery { limit: Some(1), ..EventQuery::default() }).await?;
        let (position, mut seen) = newest.events.first().map_or((0, 0), |event| (event.id.0, event.seq));
        let first = EventQuery { before: Some(seen + 1), ..query.clone() };
        show(cx, client.event_list(&self.id, &first).await?.events)?;
        let filter = LiveFilter { entity_ids: vec![self.id.to_string()], ..LiveFilter::default() };
        let mut live = pin!(client.stream(&filter, Some(position)));
        // Its end comes after this position, unless it has ended by now.
        let mut ended = !client.sandbox_get(&self.id).await?.status.is_live();
        loop {
            seen = self.catch_up(cx, client, seen).await?;
            if ended {
                return Ok(());
            }
            let news = loop {
                match live.next().await {
                    Some(Ok(event)) if event.event_type == "SANDBOX_ENDED" => break None,
                    Some(Ok(event)) if event.seq.is_some_and(|seq| seq > seen) => break Some(event),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Ok(()),
                }
            };
            ended = news.is_none();
        }
    }

    /// Shows what came after `seen`; says how far that is.
    async fn catch_up(&self, cx: &Context, client: &Client, mut seen: i64) -> Result<i64> {
        loop {
            let query = EventQuery { after: Some(seen), limit: Some(PAGE), ..EventQuery::default() };
            let page = client.event_list(&self.id, &query).await?;
            let Some(newest) = page.events.iter().map(|event| event.seq).max() else { return Ok(seen) };
            seen = newest;
            let wanted =
                |event: &StoredEvent| self.event_type.as_ref().is_none_or(|kind| *kind == event.event_type);
            show(cx, page.events.into_iter().filter(wanted).collect())?;
            if !page.has_more {
                return Ok(seen);
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
