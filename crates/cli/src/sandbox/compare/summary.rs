//! What happened in one sandbox, counted from its events.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use jiff::SignedDuration;
use omoi_client::{Client, EventQuery};
use omoi_protocol::{
    SandboxId,
    event::{Payload, StoredEvent, is_heartbeat},
    sandbox::Sandbox,
};
use serde::Serialize;

const PAGE: usize = 500;
/// What goes beyond is not counted, and the answer says so.
pub const EVENTS_MAX: usize = 100_000;

#[derive(Debug, Serialize)]
pub struct Summary {
    pub sandbox_id: SandboxId,
    pub status: &'static str,
    pub end_reason: Option<String>,
    /// From when it was made to when it ended, or to its last event.
    pub duration_ms: Option<i64>,
    /// From when it was made to the first event that shows work.
    pub first_work_ms: Option<i64>,
    /// What its worker reported last of how it went.
    pub outcome: Option<String>,
    /// Answers of the model to the agent itself.
    pub turns: usize,
    pub cost_usd: f64,
    pub files_changed: usize,
    pub lines_added: u64,
    pub lines_removed: u64,
    pub events: usize,
    pub heartbeats: usize,
    pub by_type: BTreeMap<String, usize>,
    /// Whether all events were counted.
    pub complete: bool,
}

impl Summary {
    /// Reads all events of a sandbox.
    pub async fn fetch(client: &Client, id: &SandboxId) -> Result<Self> {
        let sandbox = client.sandbox_get(id).await?;
        let mut events: Vec<StoredEvent> = Vec::new();
        let mut complete = true;
        loop {
            let before = events.last().map(|event| event.seq);
            let query = EventQuery { before, limit: Some(PAGE), ..EventQuery::default() };
            let page = client.event_list(id, &query).await?;
            events.extend(page.events);
            if !page.has_more {
                break;
            }
            if events.len() >= EVENTS_MAX {
                complete = false;
                break;
            }
        }
        Ok(Self::of(&sandbox, &events, complete))
    }

    pub fn of(sandbox: &Sandbox, events: &[StoredEvent], complete: bool) -> Self {
        let mut by_type = BTreeMap::new();
        for event in events {
            *by_type.entry(event.event_type.clone()).or_insert(0) += 1;
        }
        let since_made = |at: jiff::Timestamp| millis(at.duration_since(sandbox.created_at));
        let last = events.iter().map(|event| event.created_at).max();
        let work = Work::of(events);
        let first_work = events.iter().filter(|event| event.is_work()).map(|event| event.created_at).min();
        Self {
            sandbox_id: sandbox.id.clone(),
            status: sandbox.status.as_str(),
            end_reason: sandbox.end_reason.clone(),
            duration_ms: sandbox.ended_at.or(last).map(since_made),
            first_work_ms: first_work.map(since_made),
            outcome: work.outcome,
            turns: work.turns.len(),
            cost_usd: sandbox.cost_usd,
            files_changed: work.files.len(),
            lines_added: work.lines_added,
            lines_removed: work.lines_removed,
            events: events.len(),
            heartbeats: events.iter().filter(|event| is_heartbeat(&event.event_type)).count(),
            by_type,
            complete,
        }
    }
}

/// What an agent did, as its events tell.
#[derive(Default)]
struct Work {
    outcome: Option<String>,
    turns: BTreeSet<u64>,
    files: BTreeSet<String>,
    lines_added: u64,
    lines_removed: u64,
}

impl Work {
    /// Events come newest first.
    fn of(events: &[StoredEvent]) -> Self {
        let mut work = Self::default();
        for event in events {
            match event.payload() {
                Payload::AgentAssistantMessage(data) if data.parent_tool_use_id.is_none() => {
                    work.turns.extend(data.turn);
                }
                Payload::AgentFileEdited(data) => {
                    work.files.extend(data.file_path);
                    work.lines_added += data.lines_added.unwrap_or(0);
                    work.lines_removed += data.lines_removed.unwrap_or(0);
                }
                Payload::AgentCompleted(data) => work.end("completed", data.final_output),
                Payload::AgentFailed(data) => {
                    work.end(data.failure_kind.as_deref().unwrap_or("failed"), data.error);
                }
                Payload::ContinuousCompleted(data) => {
                    let stop = data.stop_reason.as_ref().map_or("completed", |stop| stop.as_str());
                    work.end(stop, data.error.or(data.final_output));
                }
                _ => {}
            }
        }
        work
    }

    fn end(&mut self, how: &str, words: Option<String>) {
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        self.outcome.get_or_insert_with(|| format!("{how}{words}"));
    }
}

fn millis(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
