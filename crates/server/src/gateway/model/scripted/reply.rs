//! Brings an answer out: in its time, chunk by chunk, or broken where the scenario says so.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use omoi_protocol::Vendor;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    super::{call::Broken, refusal::Refusal},
    chat,
    library::Library,
    messages,
    place::Place,
    scenario::{FaultKind, Scenario, Spot},
    speech::{Occasion, Speech},
    talk::Talk,
};
use crate::{
    domain::{model_key::is_scripted, price::tokens_of},
    store::NewCall,
};

const STREAM: &str = "text/event-stream; charset=utf-8";
const JSON: &str = "application/json";
const PAGE: &str =
    "<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n";
/// Neither text nor an event.
const NOISE: &[u8] = b"data: {\"type\": \xff\xfe]]\n\nno: such thing\n\n";

const UNIQUE_CHARS: usize = 8;

/// A request that a scenario answers.
#[derive(Debug)]
pub struct Part {
    library: Library,
    scenario: Arc<Scenario>,
    talk: Talk,
    call: NewCall,
    /// Differs from request to request.
    unique: String,
}

/// An answer under way.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    rest: VecDeque<Piece>,
}

#[derive(Debug, PartialEq)]
enum Piece {
    Chunk(Bytes),
    Pause(Duration),
    /// The connection breaks.
    Cut,
}

impl Part {
    pub fn new(library: &Library, call: &NewCall, body: &[u8]) -> Result<Self, Refusal> {
        let talk = Talk::parse(call.vendor, body)?;
        let scenario = library.choose(&call.model, &talk)?;
        // The end of an id is random.
        let id = call.id.as_str();
        let unique = id[id.len().saturating_sub(UNIQUE_CHARS)..].to_owned();
        Ok(Self { library: library.clone(), scenario, talk, call: call.clone(), unique })
    }

    /// The beginning of the answer, when its time has come.
    pub async fn play(self) -> Reply {
        let (scenario, speed) = (&*self.scenario, self.library.speed);
        let place = Place::find(scenario, &self.talk);
        let occasion = Occasion {
            model: &self.call.model,
            scenario,
            talk: &self.talk,
            place,
            speed,
            request_bytes: self.call.request_bytes,
            unique: &self.unique,
        };
        if !self.talk.tools {
            return self.answer(&Speech::summary(&occasion), Duration::ZERO, None);
        }
        let fault = self.library.faults.next(&self.call.sandbox_id, scenario, place.step);
        let step = scenario.steps.get(place.step);
        let (delay, pace) = step.map_or_else(Default::default, |step| (step.delay, step.pace));
        if !delay.is_zero() {
            sleep(delay.div_f64(speed)).await;
        }
        match fault {
            Some(FaultKind::Status { code, retry_after }) => self.refused(code, retry_after),
            Some(FaultKind::Error(_)) if !self.talk.stream => self.refused(529, None),
            Some(FaultKind::Html) => Reply::new(StatusCode::OK, "text/html", [Piece::Chunk(PAGE.into())]),
            fault => self.answer(&Speech::of_step(&occasion, fault.as_ref()), pace, fault.as_ref()),
        }
    }

    fn answer(&self, speech: &Speech, pace: Duration, fault: Option<&FaultKind>) -> Reply {
        let (kind, chunks) = match (self.call.vendor, self.talk.stream) {
            (Vendor::Anthropic, true) => (STREAM, messages::stream(speech)),
            (Vendor::Anthropic, false) => (JSON, vec![messages::whole(speech)]),
            (Vendor::Openai, true) => (STREAM, chat::stream(speech)),
            (Vendor::Openai, false) => (JSON, vec![chat::whole(speech)]),
        };
        let total: usize = chunks.iter().map(Bytes::len).sum();
        let pieces = match fault {
            Some(FaultKind::Cut(Spot::Half)) => interrupted(chunks, total / 2, [Piece::Cut], Rest::Dropped),
            Some(FaultKind::Cut(Spot::Bytes(at))) => interrupted(chunks, *at, [Piece::Cut], Rest::Dropped),
            Some(FaultKind::Stall(pause)) => {
                let pause = Piece::Pause(pause.div_f64(self.library.speed));
                interrupted(chunks, total / 2, [pause], Rest::Follows)
            }
            Some(FaultKind::Garbage) => {
                let noise = Piece::Chunk(Bytes::from_static(NOISE));
                interrupted(chunks, total / 2, [noise], Rest::Dropped)
            }
            Some(FaultKind::Error(kind)) => {
                let half = chunks[..chunks.len() / 2].iter().map(Bytes::len).sum();
                interrupted(chunks, half, [Piece::Chunk(self.error_event(kind))], Rest::Dropped)
            }
            _ => chunks.into_iter().map(Piece::Chunk).collect(),
        };
        Reply::new(StatusCode::OK, kind, paced(pieces, pace.div_f64(self.library.speed)))
    }

    fn refused(&self, code: u16, retry_after: Option<Duration>) -> Reply {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = match code {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        let body = self.error(kind).to_string();
        let mut reply = Reply::new(status, JSON, [Piece::Chunk(body.into())]);
        if let Some(after) = retry_after {
            let seconds = after.div_f64(self.library.speed).as_secs_f64().ceil() as u64;
            reply.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        reply
    }

    fn error(&self, kind: &str) -> Value {
        let message = format!("the scenario {} says so", self.scenario.name);
        match self.call.vendor {
            Vendor::Anthropic => messages::error(kind, &message),
            Vendor::Openai => chat::error(kind, &message),
        }
    }

    fn error_event(&self, kind: &str) -> Bytes {
        match self.call.vendor {
            Vendor::Anthropic => messages::event(&self.error(kind)),
            Vendor::Openai => chat::event(&self.error(kind)),
        }
    }
}

impl Reply {
    /// To a request that only wants its tokens counted; none where it is a vendor's to answer.
    pub fn to_count(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Asked {
            model: String,
        }
        let asked: Asked = serde_json::from_slice(body).ok()?;
        let counted = json!({ "input_tokens": tokens_of(body.len() as u64) }).to_string();
        is_scripted(&asked.model).then(|| Self::new(StatusCode::OK, JSON, [Piece::Chunk(counted.into())]))
    }

    fn new(status: StatusCode, kind: &'static str, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Self { status, headers, rest: pieces.into_iter().collect() }
    }

    /// The next chunk; none at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            match self.rest.pop_front() {
                Some(Piece::Chunk(chunk)) => return Ok(Some(chunk)),
                Some(Piece::Pause(pause)) => sleep(pause).await,
                Some(Piece::Cut) => return Err(Broken),
                None => return Ok(None),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Follows,
    Dropped,
}

/// Puts something in after so many bytes.
fn interrupted(chunks: Vec<Bytes>, at: usize, by: [Piece; 1], rest: Rest) -> Vec<Piece> {
    let mut left = at;
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for mut chunk in chunks {
        let head = chunk.split_to(left.min(chunk.len()));
        left -= head.len();
        front.extend((!head.is_empty()).then_some(Piece::Chunk(head)));
        back.extend((!chunk.is_empty()).then_some(Piece::Chunk(chunk)));
    }
    front.extend(by);
    if rest == Rest::Follows {
        front.extend(back);
    }
    front
}

fn paced(pieces: Vec<Piece>, pace: Duration) -> Vec<Piece> {
    if pace.is_zero() {
        return pieces;
    }
    let mut paced: Vec<Piece> = pieces.into_iter().flat_map(|piece| [piece, Piece::Pause(pace)]).collect();
    paced.pop();
    paced
}
