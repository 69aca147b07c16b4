//! Events of a sandbox: sending them and reading them back.

use omoi_protocol::{
    EventId, SandboxId,
    event::NewEvent,
    sandbox::{EventPage, EventReceived, EventsReceived, Trajectory},
};
use serde::Serialize;

use crate::{Client, Error, sandbox::path};

/// Which events are wanted. `after` alone gives those right behind it, otherwise the newest come first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EventQuery {
    pub event_type: Option<String>,
    /// By `seq`.
    pub after: Option<i64>,
    pub before: Option<i64>,
    pub limit: Option<usize>,
    pub offset: Option<usize>,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct TrajectoryQuery {
    pub limit: Option<usize>,
    pub cursor: Option<EventId>,
    /// `older` or `newer`.
    pub direction: Option<&'static str>,
}

#[derive(Serialize)]
struct Batch<'a> {
    events: &'a [NewEvent],
}

impl Client {
    pub async fn event_append(&self, id: &SandboxId, event: &NewEvent) -> Result<EventReceived, Error> {
        let call = self.post(&path(id, "/events")).body(event);
        if event.worker_seq.is_some() { call.repeatable().json().await } else { call.json().await }
    }

    /// All of them or none, in this order. Numbered events are sent again until they are acknowledged or the
    /// attempts are used up.
    pub async fn event_append_all(
        &self,
        id: &SandboxId,
        events: &[NewEvent],
    ) -> Result<EventsReceived, Error> {
        let call = self.post(&path(id, "/events")).body(&Batch { events });
        let numbered = events.iter().all(|event| event.worker_seq.is_some());
        if numbered { call.repeatable().json().await } else { call.json().await }
    }

    /// Newest first.
    pub async fn event_list(&self, id: &SandboxId, query: &EventQuery) -> Result<EventPage, Error> {
        self.get(&path(id, "/events")).query(query).json().await
    }

    /// Events without heartbeats.
    pub async fn trajectory(&self, id: &SandboxId, query: &TrajectoryQuery) -> Result<Trajectory, Error> {
        self.get(&path(id, "/trajectory")).query(query).json().await
    }
}
