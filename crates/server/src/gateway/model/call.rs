//! One call, from its admission to its record. It runs by itself: whoever asked may go at any moment, and the call still
//! ends, and is booked with what was counted.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use omoi_protocol::{CallState, ModelFailure, Vendor, model::error_of};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    calls::{Calls, UnderWay},
    meter::{Excess, Form, Meter, Reading},
    refusal::Refusal,
    request::{Request, Response},
    slot::Slot,
    upstream::{Upstream, encoding, returned},
};
use crate::{
    domain::charge::Ceiling,
    http::Watched,
    store::{EndedCall, NewCall, Opened},
};

/// How long a call waits for others to give back what they have reserved of the budget.
const ROOM_WAIT: Duration = Duration::from_secs(10);
/// How often it looks, should the others be in another process.
const ROOM_LOOK: Duration = Duration::from_millis(250);
/// How often a store that does not answer is asked again to book a call; afterwards the call counts as lost.
const BOOK_TRIES: u32 = 40;
const BOOK_AGAIN: Duration = Duration::from_millis(500);
/// Of what a vendor says in place of an answer, so much is looked at.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The beginning of an answer.
pub struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
}

/// The answer broke off. Whoever reads it finds the connection cut, and so no end that could be taken for one.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the answer of the model API broke off")]
pub struct Broken;

pub type HeadSender = oneshot::Sender<Result<Head, Refusal>>;
pub type BodySender = mpsc::Sender<Result<Bytes, Broken>>;

pub struct Call {
    pub calls: Calls,
    pub vendor: Vendor,
    pub request: Request,
    pub ceiling: Ceiling,
    /// None for what costs nothing and is not recorded.
    pub booking: Option<NewCall>,
    /// Held until the end; none for calls of the server's own.
    pub slot: Option<Slot>,
    /// The call breaks off when this token ends; none for calls of the server's own.
    pub token: Option<Watched>,
}

/// What becomes of a call while it runs.
struct Course {
    started: Instant,
    status: Option<StatusCode>,
    first_byte: Option<Duration>,
    meter: Option<Meter>,
    /// What the vendor says in place of an answer, without the key.
    error: Vec<u8>,
    /// Whether the vendor may have done anything for it.
    sent: bool,
    /// The answer in place of the vendor's, given when the call is booked.
    refusal: Option<(HeadSender, Refusal)>,
}

impl Call {
    pub async fn run(self, mut head: HeadSender, body: BodySender) {
        // Announced before it is admitted, so that it is kept alive from the first moment on.
        let under_way = self.booking.as_ref().map(|booking| self.calls.enter(&booking.id));
        if let Some(booking) = &self.booking
            && let Err(refusal) = admit(&self.calls, booking, &mut head).await
        {
            let _ = head.send(Err(refusal));
            return;
        }
        let Self { calls, vendor, request, ceiling, booking, slot, token } = self;
        let mut course = Course {
            started: Instant::now(),
            status: None,
            first_byte: None,
            meter: None,
            error: Vec::new(),
            sent: false,
            refusal: None,
        };
        let state = tokio::select! {
            state = course.run(&calls, vendor, request, head, &body) => state,
            () = cut(under_way.as_ref()) => CallState::Broken,
            () = ended(token.as_ref()) => CallState::Broken,
        };
        let refusal = course.refusal.take();
        if let Some(booking) = booking {
            book(&calls, course.ended(booking, state, &ceiling)).await;
        }
        if let Some((head, refusal)) = refusal {
            let _ = head.send(Err(refusal));
        } else if state == CallState::Broken {
            let _ = timeout(calls.config.chunk_timeout, body.send(Err(Broken))).await;
        }
        drop((under_way, slot));
    }
}

/// Asks for admission, and waits a while where only calls under way stand against it.
async fn admit(calls: &Calls, booking: &NewCall, head: &mut HeadSender) -> Result<(), Refusal> {
    let until = Instant::now() + ROOM_WAIT;
    loop {
        let booked = calls.booked.notified();
        let full = match calls.store.call_open(booking.clone()).await? {
            Opened::Admitted => return Ok(()),
            Opened::Exceeded(of) => return Err(Refusal::over_budget(&of)),
            Opened::JudgeExceeded { spent, limit } => {
                return Err(Refusal::judge_over_budget(spent, limit));
            }
            Opened::Wait(of) => of,
        };
        tokio::select! {
            () = booked => {}
            () = sleep(ROOM_LOOK) => {}
            () = head.closed() => return Err(Refusal::reserved(&full)),
        }
        if Instant::now() >= until {
            return Err(Refusal::reserved(&full));
        }
    }
}

impl Course {
    async fn run(
        &mut self,
        calls: &Calls,
        vendor: Vendor,
        request: Request,
        mut head: HeadSender,
        body: &BodySender,
    ) -> CallState {
        if head.is_closed() {
            return CallState::HungUp;
        }
        self.sent = true;
        let sent = tokio::select! {
            sent = timeout(calls.config.first_byte_timeout, request.send()) => sent,
            () = head.closed() => return CallState::HungUp,
        };
        let upstream = calls.upstreams.of(vendor);
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                self.sent = !error.is_connect();
                tracing::warn!(error = %error.without_url(), vendor = %vendor, "a model API gave no answer");
                self.refusal = Some((head, upstream.unreachable(self.sent)));
                return CallState::Broken;
            }
            Err(_) => {
                let message = "no answer began within model.first_byte_timeout";
                let refusal = Refusal::new(StatusCode::GATEWAY_TIMEOUT, "model_timeout", message);
                self.refusal = Some((head, refusal));
                return CallState::Broken;
            }
        };
        self.status = Some(response.status());
        self.first_byte = Some(self.started.elapsed());
        if response.status().is_redirection() {
            self.refusal = Some((head, upstream.redirected()));
            return CallState::Done;
        }
        let bytes_max = calls.config.answer_bytes_max;
        if let Some(refusal) = unfit(&response, upstream, bytes_max) {
            tracing::warn!(vendor = %vendor, code = refusal.code(), "the answer of a model API was refused");
            self.refusal = Some((head, refusal));
            return CallState::Broken;
        }
        let secrets = calls.store.secrets();
        let headers = returned(response.headers(), secrets);
        self.meter = Some(Meter::new(vendor, form(headers.get(header::CONTENT_TYPE)), bytes_max));
        if head.send(Ok(Head { status: response.status(), headers })).is_err() {
            return CallState::HungUp;
        }
        let deadline = self.started + calls.config.call_timeout;
        tokio::select! {
            state = self.pass(vendor, calls.config.chunk_timeout, response, secrets.stream(), body) => state,
            () = body.closed() => CallState::HungUp,
            () = sleep_until(deadline) => CallState::Broken,
        }
    }

    /// Passes the answer on without secrets, chunk by chunk as it comes.
    async fn pass(
        &mut self,
        vendor: Vendor,
        pause: Duration,
        mut response: Response,
        mut masked: omoi_redact::Stream,
        body: &BodySender,
    ) -> CallState {
        loop {
            let (chunk, last) = match timeout(pause, response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    if let Err(excess) = self.meter.iter_mut().try_for_each(|meter| meter.feed(&chunk)) {
                        return self.cut_off(vendor, excess, body).await;
                    }
                    (Bytes::from(masked.push(&chunk)), false)
                }
                Ok(Ok(None)) => (Bytes::from(masked.finish()), true),
                Ok(Err(_)) | Err(_) => return CallState::Broken,
            };
            self.note_error(&chunk);
            if !chunk.is_empty() && body.send(Ok(chunk)).await.is_err() {
                return CallState::HungUp;
            }
            if last {
                return CallState::Done;
            }
        }
    }

    /// An answer that is too long ends here. A stream says why; what comes in one piece has no place for it.
    async fn cut_off(&mut self, vendor: Vendor, excess: Excess, body: &BodySender) -> CallState {
        tracing::warn!(vendor = %vendor, %excess, "the answer of a model API was cut off");
        if self.meter.as_ref().is_some_and(|meter| meter.form() == Form::Stream) {
            let _ = body.send(Ok(Refusal::too_long(excess).into_event(vendor))).await;
        }
        CallState::Broken
    }

    fn note_error(&mut self, chunk: &[u8]) {
        if self.status.is_some_and(|status| !status.is_success()) {
            let room = ERROR_BYTES_MAX - self.error.len();
            self.error.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
    }

    fn ended(self, booking: NewCall, state: CallState, ceiling: &Ceiling) -> EndedCall {
        let accepted = self.sent && self.status.is_none_or(|status| status.is_success());
        let refused = self.status.filter(|status| !status.is_success() && !status.is_redirection());
        let failure = refused.map(|status| ModelFailure::of(Some(status.as_u16()), &error_of(&self.error)));
        // Without an answer, the request alone counts.
        let meter = self.meter.unwrap_or_else(|| Meter::new(booking.vendor, Form::Stream, 0));
        let Reading { usage, estimated, stop_reason } = meter.finish(accepted, ceiling);
        EndedCall {
            id: booking.id,
            state,
            status_code: self.status.map(|status| status.as_u16()),
            failure,
            stop_reason,
            usage,
            estimated,
            first_byte: self.first_byte,
            duration: self.started.elapsed(),
        }
    }
}

/// Why an answer is not even begun to be passed on.
fn unfit(response: &Response, upstream: &Upstream, bytes_max: usize) -> Option<Refusal> {
    let headers = response.headers();
    if let Some(encoding) = encoding(headers) {
        return Some(upstream.encoded(&encoding));
    }
    let told = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse::<u64>().ok()?;
    (told > bytes_max as u64).then(|| Refusal::too_long(Excess::Answer(bytes_max as u64)))
}

async fn book(calls: &Calls, ended: EndedCall) {
    count(&ended);
    let id = ended.id.clone();
    for left in (0..BOOK_TRIES).rev() {
        match calls.store.call_end(ended.clone()).await {
            Ok(_) => break,
            Err(error) if error.may_pass() && left > 0 => sleep(BOOK_AGAIN).await,
            Err(error) => {
                tracing::error!(%error, call.id = %id, "model call {id} could not be booked; it will count as lost");
                break;
            }
        }
    }
    calls.booked.notify_waiters();
}

fn count(ended: &EndedCall) {
    let state = ended.state.as_str();
    metrics::counter!("omoi_model_calls_total", "state" => state).increment(1);
    metrics::histogram!("omoi_model_call_seconds").record(ended.duration.as_secs_f64());
    let usage = &ended.usage;
    for (kind, tokens) in [
        ("input", usage.input),
        ("output", usage.output),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
    ] {
        metrics::counter!("omoi_model_tokens_total", "kind" => kind).increment(tokens);
    }
}

async fn cut(under_way: Option<&UnderWay>) {
    match under_way {
        Some(under_way) => under_way.cut.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn ended(token: Option<&Watched>) {
    match token {
        Some(token) => token.ended().await,
        None => std::future::pending().await,
    }
}

fn form(content_type: Option<&HeaderValue>) -> Form {
    let kind = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/event-stream") { Form::Stream } else { Form::Whole }
}
