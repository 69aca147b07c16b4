//! The client itself: the request, the clocks over its answer, and asking again.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;
use omoi_protocol::launch::Wire;
use reqwest::{
    Response, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    answer::{Answer, Ask, Flow, Progress, Reader, Tell},
    chat::{self, ChatReader, LengthField},
    error::{Error, Fault},
    messages::{self, MessageReader},
    refusal::{self, Refusal},
    retry::{RetryPolicy, Tries},
};
use crate::agent::{
    http::{self, chain},
    sse::Decoder,
};

/// At least how long the answer may take to begin. A model may think before it speaks, and while the server restarts the
/// request waits at its door.
const BEGIN_MIN: Duration = Duration::from_secs(300);
/// After the last event: whoever hangs up before the end is booked as somebody who did.
const DRAIN: Duration = Duration::from_secs(1);
const DRAIN_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone)]
pub struct Settings {
    pub wire: Wire,
    /// What the wire's own path is put behind.
    pub base_url: String,
    pub token: String,
    pub model: String,
    /// The longest silence amid an answer.
    pub stall: Duration,
    /// The longest that one attempt may take.
    pub total: Duration,
    pub retry: RetryPolicy,
}

pub struct Model {
    http: reqwest::Client,
    url: Url,
    settings: Settings,
    /// The longest silence before an answer.
    pub(super) begin: Duration,
    /// The server has said that it wants the other field for the length of answers.
    completion_tokens: AtomicBool,
}

impl Model {
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let url = url(&settings)?;
        let http = http::builder(&url).default_headers(headers(&settings)?);
        let http = http.build().map_err(|error| Error::Setup(chain(&error.without_url())))?;
        let begin = settings.stall.max(BEGIN_MIN);
        Ok(Self { http, url, settings, begin, completion_tokens: AtomicBool::new(false) })
    }

    /// One answer. Who drops the future hangs up.
    pub async fn ask(
        &self,
        ask: &Ask<'_>,
        tell: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Answer, Error> {
        let mut body = self.body(ask)?;
        let mut tries = Tries::new(self.settings.retry);
        loop {
            let fault = match self.attempt(body.clone(), tell).await {
                Ok(answer) => return Ok(answer),
                Err(Outcome::OtherField) => {
                    body = self.body(ask)?;
                    continue;
                }
                Err(Outcome::Failed(fault)) => fault,
            };
            let pause = tries.after(fault, Instant::now())?;
            tell(Progress::Retrying {
                attempt: pause.attempt,
                attempts_max: pause.attempts_max,
                delay: pause.delay,
                status: pause.status,
                error: pause.error,
            });
            sleep(pause.delay).await;
        }
    }

    fn body(&self, ask: &Ask<'_>) -> Result<Bytes, Error> {
        let model = &self.settings.model;
        let body = match self.settings.wire {
            Wire::Messages => messages::body(model, ask),
            Wire::Chat => chat::body(model, ask, self.length_field()),
        };
        body.map(Bytes::from).map_err(|error| Error::Setup(format!("the request cannot be written: {error}")))
    }

    fn length_field(&self) -> LengthField {
        match self.completion_tokens.load(Ordering::Relaxed) {
            false => LengthField::MaxTokens,
            true => LengthField::MaxCompletionTokens,
        }
    }

    async fn attempt(&self, body: Bytes, tell: Tell<'_>) -> Result<Answer, Outcome> {
        let clock = Clock { until: Instant::now() + self.settings.total, total: self.settings.total };
        let request = self.http.post(self.url.clone()).body(body);
        let response = clock.wait(self.begin, request.send()).await?.map_err(refusal::unsent)?;
        if !refusal::is_ok(&response) {
            let refusal = Refusal::read(response).await;
            return Err(if self.wants_other_field(&refusal) {
                Outcome::OtherField
            } else {
                refusal.fault(self.settings.wire.vendor()).into()
            });
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if let Some(other) = content_type.filter(|kind| !kind.starts_with("text/event-stream")) {
            let other = other.to_owned();
            return Err(refusal::no_stream(response, &other).await.into());
        }
        Ok(self.read(response, &clock, tell).await?)
    }

    /// At most once: the first answer to this changes what is sent.
    fn wants_other_field(&self, refusal: &Refusal) -> bool {
        self.settings.wire == Wire::Chat
            && refusal.names("max_completion_tokens")
            && !self.completion_tokens.swap(true, Ordering::Relaxed)
    }

    async fn read(&self, mut response: Response, clock: &Clock, tell: Tell<'_>) -> Result<Answer, Fault> {
        let mut reader: Box<dyn Reader> = match self.settings.wire {
            Wire::Messages => Box::new(MessageReader::default()),
            Wire::Chat => Box::new(ChatReader::default()),
        };
        let mut decoder = Decoder::default();
        loop {
            let silence = if reader.has_begun() { self.settings.stall } else { self.begin };
            let chunk = clock.wait(silence, response.chunk()).await?;
            let Some(chunk) = chunk.map_err(|error| broken_off(&error.without_url()))? else { break };
            for event in decoder.push(&chunk).map_err(|error| Fault::void(error.to_string()))? {
                if reader.event(&event, tell)? == Flow::Done {
                    drain(response).await;
                    return reader.finish();
                }
            }
        }
        if let Some(event) = decoder.finish().map_err(|error| Fault::void(error.to_string()))? {
            reader.event(&event, tell)?;
        }
        reader.finish()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = &self.settings.model;
        f.debug_struct("Model").field("url", &self.url.as_str()).field("model", model).finish_non_exhaustive()
    }
}

/// What an attempt comes to that brings no answer.
enum Outcome {
    Failed(Fault),
    /// The same again at once, in other words.
    OtherField,
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Of one attempt.
struct Clock {
    until: Instant,
    total: Duration,
}

impl Clock {
    async fn wait<T>(&self, silence: Duration, work: impl Future<Output = T>) -> Result<T, Fault> {
        let limit = Instant::now() + silence;
        match timeout_at(limit.min(self.until), work).await {
            Ok(done) => Ok(done),
            Err(_) if limit < self.until => Err(Fault::void(format!("nothing came for {silence:?}"))),
            Err(_) => Err(Fault::void(format!("the answer was not complete after {:?}", self.total))),
        }
    }
}

fn broken_off(error: &reqwest::Error) -> Fault {
    Fault::void(format!("the answer broke off: {}", chain(error)))
}

/// To the end of the body, if that comes soon.
async fn drain(mut response: Response) {
    let read = async {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes += chunk.len();
            if bytes > DRAIN_BYTES_MAX {
                break;
            }
        }
    };
    let _ = timeout(DRAIN, read).await;
}

fn url(settings: &Settings) -> Result<Url, Error> {
    let path = match settings.wire {
        Wire::Messages => "/v1/messages",
        Wire::Chat => "/chat/completions",
    };
    let base = settings.base_url.trim().trim_end_matches('/');
    let bad =
        || Error::Setup(format!("{base:?} is no address of a model API; it begins with http:// or https://"));
    // By itself first: behind a base without a host, the path would be taken for one.
    let mut url = Url::parse(base).map_err(|_| bad())?;
    let plain = matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none();
    if !plain {
        return Err(bad());
    }
    url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
    Ok(url)
}

fn headers(settings: &Settings) -> Result<HeaderMap, Error> {
    let (name, value) = match settings.wire {
        Wire::Messages => (HeaderName::from_static("x-api-key"), settings.token.clone()),
        Wire::Chat => (AUTHORIZATION, format!("Bearer {}", settings.token)),
    };
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| Error::Setup("the token holds characters that no header may have".to_owned()))?;
    value.set_sensitive(true);
    let mut headers = HeaderMap::from_iter([
        (name, value),
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("text/event-stream")),
    ]);
    if settings.wire == Wire::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    Ok(headers)
}
