//! Watching one sandbox for what should happen in it.

use std::time::{Duration, Instant};

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{
    SandboxId,
    event::{Payload, StoredEvent},
};
use tokio::time::timeout;

use crate::sandbox::follow::{Follow, News};

pub struct Eye<'c> {
    follow: Follow<'c>,
    /// All that was seen, oldest first.
    pub events: Vec<StoredEvent>,
}

impl<'c> Eye<'c> {
    pub fn on(client: &'c Client, id: &SandboxId) -> Self {
        Self { follow: Follow::from_start(client, id), events: Vec::new() }
    }

    /// The first event that fits, seen already or within this time. None when the sandbox has ended without it.
    pub async fn until(
        &mut self,
        limit: Duration,
        fits: impl Fn(&StoredEvent) -> bool,
    ) -> Result<Option<StoredEvent>> {
        let give_up = Instant::now() + limit;
        let mut looked_at = 0;
        let mut over = false;
        loop {
            if let Some(event) = self.events[looked_at..].iter().find(|event| fits(event)) {
                return Ok(Some(event.clone()));
            }
            looked_at = self.events.len();
            let left = give_up.saturating_duration_since(Instant::now());
            if over || left.is_zero() {
                return Ok(None);
            }
            match timeout(left, self.follow.next()).await {
                Err(_) => {}
                Ok(Ok(News::Events(events))) => self.events.extend(events),
                Ok(Ok(News::Quiet)) => {
                    // What it said last may have come in between.
                    over = !self.follow.sandbox().await?.status.is_live();
                    if over {
                        self.rest().await?;
                    }
                }
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// Everything that is there.
    pub async fn rest(&mut self) -> Result<()> {
        let rest = self.follow.rest().await?;
        self.events.extend(rest);
        Ok(())
    }

    /// Why it could not be made, or failed, as far as was heard.
    pub fn failure(&self) -> Option<String> {
        let told = self.events.iter().rev().find_map(|event| match event.payload() {
            Payload::SandboxFailed(data) => data.error,
            Payload::AgentFailed(data) => data.error,
            _ => None,
        });
        told.or_else(|| self.follow.failure.clone())
    }

    /// What was seen, in a few words.
    pub fn told(&self) -> String {
        let last = self.events.last().map_or("none", |event| event.event_type.as_str());
        format!("{} events, the last {last}", self.events.len())
    }
}
