//! The live stream: everything that happens, as it happens. A connection that breaks is made again from the last
//! position seen, so nothing is missed and nothing comes twice.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use omoi_protocol::live::LiveEvent;
use reqwest::header::ACCEPT;
use tokio::time::timeout;

use crate::{
    Client, Error, Retry,
    call::retry_after,
    sse::{self, Frame, Parser},
};

/// The server says something every 30 seconds; three times nothing means that nobody is there.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// A stream that was up outlives a server's restart: about a minute and a half.
const RECONNECTS_MAX: u32 = 20;

/// What a viewer wants to hear of; an empty list stands for everything.
#[derive(Debug, Clone, Default)]
pub struct LiveFilter {
    pub event_types: Vec<String>,
    pub entity_types: Vec<String>,
    pub entity_ids: Vec<String>,
}

impl Client {
    /// What happens after position `since`, or from now on: from where the server says that the first connection began.
    /// Ends after its first error, which comes when the server refuses or cannot be reached for long.
    pub fn stream(
        &self,
        filter: &LiveFilter,
        since: Option<i64>,
    ) -> impl Stream<Item = Result<LiveEvent, Error>> + Send + 'static {
        let live = Live {
            client: self.clone(),
            query: filter.query(),
            position: since,
            body: None,
            parser: Parser::default(),
            frames: VecDeque::new(),
            failures: 0,
            was_up: false,
        };
        stream::unfold(Some(live), async |live| {
            let mut live = live?;
            match live.next().await {
                Ok(event) => Some((Ok(event), Some(live))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

impl LiveFilter {
    fn query(&self) -> Vec<(&'static str, String)> {
        let lists = [
            ("event_types", &self.event_types),
            ("entity_types", &self.entity_types),
            ("entity_ids", &self.entity_ids),
        ];
        lists
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| (name, list.join(",")))
            .collect()
    }
}

type Body = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

struct Live {
    client: Client,
    query: Vec<(&'static str, String)>,
    position: Option<i64>,
    body: Option<Body>,
    parser: Parser,
    frames: VecDeque<Frame>,
    /// In a row; anything heard sets it back.
    failures: u32,
    was_up: bool,
}

impl Live {
    async fn next(&mut self) -> Result<LiveEvent, Error> {
        loop {
            while let Some(frame) = self.frames.pop_front() {
                if let Some(event) = self.read(&frame)? {
                    return Ok(event);
                }
            }
            match self.body.as_mut() {
                None => self.connect().await?,
                Some(body) => match timeout(SILENCE_MAX, body.next()).await {
                    Ok(Some(Ok(bytes))) => self.take(&bytes)?,
                    Ok(Some(Err(_)) | None) | Err(_) => self.lose().await?,
                },
            }
        }
    }

    /// Every id moves the position on; only what is not named and has data is an event. One that was seen before a break
    /// is not shown again.
    fn read(&mut self, frame: &Frame) -> Result<Option<LiveEvent>, Error> {
        let Some(position) = frame.id.as_ref().and_then(|id| id.parse::<i64>().ok()) else { return Ok(None) };
        if self.position.is_some_and(|seen| position <= seen) {
            return Ok(None);
        }
        self.position = Some(position);
        if frame.event.is_some() || frame.data.is_empty() {
            return Ok(None);
        }
        let url = || self.client.url().to_owned();
        serde_json::from_str(&frame.data).map(Some).map_err(|source| Error::Unreadable { url: url(), source })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.failures = 0;
        let url = || self.client.url().to_owned();
        let frames = self
            .parser
            .push(bytes)
            .map_err(|sse::LineTooLong| Error::LineTooLong { url: url(), bytes_max: sse::LINE_BYTES_MAX })?;
        self.frames.extend(frames);
        Ok(())
    }

    async fn lose(&mut self) -> Result<(), Error> {
        self.body = None;
        self.parser = Parser::default();
        let reason = "the live stream keeps breaking off".to_owned();
        self.failed(Error::Unreachable { url: self.client.url().to_owned(), reason }, None).await
    }

    async fn connect(&mut self) -> Result<(), Error> {
        match self.attempt().await {
            Ok(body) => {
                self.body = Some(body);
                self.was_up = true;
                Ok(())
            }
            Err((error, retry_after)) => self.failed(error, retry_after).await,
        }
    }

    async fn attempt(&mut self) -> Result<Body, (Error, Option<Duration>)> {
        let Client { http, timeout: limit, .. } = &self.client;
        let url = self.client.url();
        let mut request = http.get(format!("{url}/api/v1/stream")).query(&self.query);
        request = request.header(ACCEPT, "text/event-stream");
        if let Some(position) = self.position {
            request = request.query(&[("since", position)]).header("last-event-id", position);
        }
        let late = || (Error::TimedOut { url: url.to_owned(), after: *limit }, None);
        let broken = |error: reqwest::Error| (Error::transport(url, &error, *limit), None);
        let response = timeout(*limit, request.send()).await.map_err(|_| late())?.map_err(broken)?;
        let (status, retry_after) = (response.status(), retry_after(&response));
        if status.is_success() {
            return Ok(Box::pin(response.bytes_stream()));
        }
        let body = timeout(*limit, response.bytes()).await.map_err(|_| late())?.map_err(broken)?;
        Err((Error::refused(url, status, &body), retry_after))
    }

    /// Waits for the next attempt, or gives up with the error.
    async fn failed(&mut self, error: Error, retry_after: Option<Duration>) -> Result<(), Error> {
        self.failures += 1;
        let usual = self.client.retry;
        let retry = if self.was_up {
            Retry { attempts_max: usual.attempts_max.max(RECONNECTS_MAX), ..usual }
        } else {
            usual
        };
        match retry.pause(self.failures, retry_after) {
            Some(pause) if error.is_passing() => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            _ => Err(error),
        }
    }
}
