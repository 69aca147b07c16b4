//! What a sandbox did and what its commands wrote, as lines.

use anyhow::Result;
use omoi_client::{Client, EventQuery};
use omoi_protocol::{
    SandboxId,
    event::{Payload, StoredEvent},
};

use super::{
    describe::line,
    follow::{Follow, News},
    watch::is_settled,
};
use crate::{Context, out::clean};

/// Print what a sandbox did and what its commands wrote, oldest first
///
/// A line for each event but heartbeats; the output of commands as they wrote it.
#[derive(Debug, clap::Args)]
pub struct Logs {
    /// As `omoi sandbox list` shows it
    id: SandboxId,
    /// From the newest so many events on
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=500))]
    tail: u16,
    /// Go on until the sandbox has ended
    #[arg(long, short)]
    follow: bool,
}

impl Logs {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let query = EventQuery { limit: Some(self.tail.into()), ..EventQuery::default() };
        let mut events = client.event_list(&self.id, &query).await?.events;
        events.reverse();
        let mut printer = Printer { cx, within_line: false };
        events.iter().try_for_each(|event| printer.print(event))?;
        if self.follow {
            let mut follow = Follow::behind(client, &self.id, events.last());
            let mut over = false;
            loop {
                match follow.next().await? {
                    News::Events(events) => events.iter().try_for_each(|event| printer.print(event))?,
                    News::Quiet if over => break,
                    News::Quiet => over = is_settled(&follow.sandbox().await?),
                }
            }
        }
        printer.end_line()
    }
}

struct Printer<'a> {
    cx: &'a Context,
    within_line: bool,
}

impl Printer<'_> {
    fn print(&mut self, event: &StoredEvent) -> Result<()> {
        if event.is_heartbeat() {
            return Ok(());
        }
        if let (Payload::CommandOutput(data), false) = (event.payload(), self.cx.out.is_json()) {
            let text = data.text.unwrap_or_default();
            self.within_line = text.chars().next_back().map_or(self.within_line, |last| last != '\n');
            return self.cx.out.raw(&clean(&text));
        }
        self.end_line()?;
        self.cx.out.item(event, |style| line(event, style))
    }

    fn end_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.within_line) { self.cx.out.raw("\n") } else { Ok(()) }
    }
}
