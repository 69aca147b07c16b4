//! A sandbox as somebody watches it: its events in order and once, whatever becomes of the connection. The live stream
//! says that there is something new; what is shown is read from the store.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt, stream};
use omoi_client::{Client, Error, EventQuery, LiveFilter};
use omoi_protocol::{SandboxId, event::StoredEvent, live::LiveEvent, sandbox::Sandbox};
use tokio::time::{Instant, sleep, timeout};

const PAGE: usize = 500;
/// What a lost wake-up costs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a server may be away, and for how long its absence is asked about.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_secs(1);

pub struct Follow<'c> {
    client: &'c Client,
    id: SandboxId,
    /// The last `seq` that was handed out.
    seen: i64,
    live: Pin<Box<dyn Stream<Item = Result<LiveEvent, Error>> + Send>>,
    /// Why it could not be made, as it was announced.
    pub failure: Option<String>,
}

pub enum News {
    /// The next ones, oldest first.
    Events(Vec<StoredEvent>),
    /// There are no further events; the sandbox itself may have changed.
    Quiet,
}

impl<'c> Follow<'c> {
    /// From the first event on.
    pub fn from_start(client: &'c Client, id: &SandboxId) -> Self {
        Self::new(client, id, 0, None)
    }

    /// From behind an event of the sandbox, or from the first one on when there is none yet.
    pub fn behind(client: &'c Client, id: &SandboxId, event: Option<&StoredEvent>) -> Self {
        match event {
            Some(event) => Self::new(client, id, event.seq, Some(event.id.0)),
            None => Self::from_start(client, id),
        }
    }

    fn new(client: &'c Client, id: &SandboxId, seen: i64, position: Option<i64>) -> Self {
        let filter = LiveFilter { entity_ids: vec![id.to_string()], ..LiveFilter::default() };
        Self { client, id: id.clone(), seen, live: Box::pin(client.stream(&filter, position)), failure: None }
    }

    /// Waits for what is new, but not for long. May be dropped at any time.
    pub async fn next(&mut self) -> Result<News, Error> {
        let events = self.read().await?;
        if !events.is_empty() {
            return Ok(News::Events(events));
        }
        let waited = timeout(LOOK_EVERY, async {
            loop {
                match self.live.next().await {
                    Some(Ok(event)) if event.seq.is_some_and(|seq| seq <= self.seen) => {}
                    // Without the stream it takes a second longer to hear of things.
                    Some(Err(_)) | None => self.live = Box::pin(stream::pending()),
                    Some(Ok(event)) => {
                        if event.event_type == "SANDBOX_FAILED" {
                            self.failure = error_of(&event);
                        }
                        return event.seq.is_some();
                    }
                }
            }
        });
        let has_event = waited.await.unwrap_or(false);
        let events = if has_event { self.read().await? } else { Vec::new() };
        Ok(if events.is_empty() { News::Quiet } else { News::Events(events) })
    }

    /// What there is, and no more.
    pub async fn rest(&mut self) -> Result<Vec<StoredEvent>, Error> {
        let mut all = Vec::new();
        loop {
            let events = self.read().await?;
            if events.is_empty() {
                return Ok(all);
            }
            all.extend(events);
        }
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub async fn sandbox(&self) -> Result<Sandbox, Error> {
        patiently(async || self.client.sandbox_get(&self.id).await).await
    }

    async fn read(&mut self) -> Result<Vec<StoredEvent>, Error> {
        let query = EventQuery { after: Some(self.seen), limit: Some(PAGE), ..EventQuery::default() };
        let page = patiently(async || self.client.event_list(&self.id, &query).await).await?;
        let mut events = page.events;
        events.sort_by_key(|event| event.seq);
        self.seen = events.last().map_or(self.seen, |event| event.seq);
        Ok(events)
    }
}

fn error_of(notice: &LiveEvent) -> Option<String> {
    let told: serde_json::Value = serde_json::from_str(notice.payload.get()).ok()?;
    told["error"].as_str().map(str::to_owned)
}

/// The newest event of a sandbox.
pub async fn newest(client: &Client, id: &SandboxId) -> Result<Option<StoredEvent>, Error> {
    let query = EventQuery { limit: Some(1), ..EventQuery::default() };
    Ok(client.event_list(id, &query).await?.events.pop())
}

/// Asks again while the server is away.
pub async fn patiently<T>(ask: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(error) if error.is_passing() && Instant::now() < give_up => sleep(PAUSE).await,
            done => return done,
        }
    }
}
