//! The routes of the model API, under the paths that the vendors' libraries call, and who may use them: a sandbox, with
//! its own token in the place of a key.

use std::{
    borrow::Cow,
    task::{Poll, ready},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, request::Parts},
    response::Response,
    routing::{any, get, post},
};
use futures_util::stream;
use omoi_protocol::{CallId, CallPurpose, SandboxId, Vendor};
use omoi_redact::Secrets;
use tokio::sync::{mpsc, oneshot};

use super::{
    ask::Ask,
    call::{Call, Head},
    calls::Calls,
    refusal::Refusal,
    request::Request as Sent,
    scripted::{Part, Reply},
    upstream::Letter,
};
use crate::{
    domain::{charge::Ceiling, model_key::is_scripted},
    http::{Api, Secret, Watched, bearer, extract},
    store::{Bearer, NewCall},
};

/// Chunks that may wait for a sandbox to take them.
const CHUNKS_MAX: usize = 16;
const QUERY_BYTES_MAX: usize = 1000;
const API_KEY: &str = "x-api-key";

#[derive(Clone)]
struct Door {
    api: Api,
    calls: Calls,
}

/// What a path stands for.
#[derive(Clone, Copy)]
pub struct Target {
    vendor: Vendor,
    /// Behind the vendor's base address.
    pub path: &'static str,
    billing: Billing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Billing {
    Metered,
    Free,
}

pub const MESSAGES: Target =
    Target { vendor: Vendor::Anthropic, path: "/v1/messages", billing: Billing::Metered };
const COUNT_TOKENS: Target =
    Target { vendor: Vendor::Anthropic, path: "/v1/messages/count_tokens", billing: Billing::Free };
const ANTHROPIC_MODELS: Target =
    Target { vendor: Vendor::Anthropic, path: "/v1/models", billing: Billing::Free };
pub const COMPLETIONS: Target =
    Target { vendor: Vendor::Openai, path: "/chat/completions", billing: Billing::Metered };
const OPENAI_MODELS: Target = Target { vendor: Vendor::Openai, path: "/models", billing: Billing::Free };

pub fn routes(api: Api, calls: Calls) -> Router<Api> {
    let to = |target: Target| move |State(door): State<Door>, request: Request| door.pass(target, request);
    let nowhere = |vendor: Vendor| move || async move { no_such_path(vendor) };
    Router::new()
        .route("/model/anthropic/v1/messages", post(to(MESSAGES)))
        .route("/model/anthropic/v1/messages/count_tokens", post(to(COUNT_TOKENS)))
        .route("/model/anthropic/v1/models", get(to(ANTHROPIC_MODELS)))
        .route("/model/openai/v1/chat/completions", post(to(COMPLETIONS)))
        .route("/model/openai/v1/models", get(to(OPENAI_MODELS)))
        // Claude Code looks whether its base address is there at all.
        .route("/model/anthropic", get(|| async {}))
        .route("/model/anthropic/", get(|| async {}))
        .route("/model/anthropic/{*rest}", any(nowhere(Vendor::Anthropic)))
        .route("/model/openai/{*rest}", any(nowhere(Vendor::Openai)))
        .with_state(Door { api, calls })
}

fn no_such_path(vendor: Vendor) -> Response {
    let message = "this path of the model API is not offered to sandboxes";
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message).into_response(vendor)
}

impl Door {
    async fn pass(self, target: Target, request: Request) -> Response {
        match self.call(target, request).await {
            Ok(response) => response,
            Err(refusal) => refusal.into_response(target.vendor),
        }
    }

    async fn call(&self, target: Target, request: Request) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        let (sandbox, token) = self.admit(&parts).await?;
        let slot = self.calls.slots.take(&sandbox)?;
        let limit = self.calls.config.body_bytes_max;
        let body = extract::read_within(&self.api, &parts.headers, body, limit).await?;
        let body = extract::without_secrets(&self.api, body);
        let (booking, ceiling, body) = match target.billing {
            Billing::Metered => {
                let ask = Ask::parse(target.vendor, body)?;
                let booking = NewCall {
                    id: CallId::generate(),
                    sandbox_id: sandbox,
                    vendor: target.vendor,
                    model: ask.model,
                    purpose: CallPurpose::Work,
                    request_bytes: ask.ceiling.request_bytes,
                    output_max: ask.ceiling.output.expected,
                };
                (Some(booking), ask.ceiling, ask.body)
            }
            Billing::Free => {
                self.calls.store.call_allowed(&sandbox).await?;
                (None, Ceiling::FREE, body)
            }
        };
        let request = match scripted(&self.calls, booking.as_ref(), &body)? {
            Some(request) => request,
            None => {
                let secrets = self.calls.store.secrets();
                let path = path(target, &parts, secrets)?;
                let headers = without_secrets(parts.headers, secrets);
                let letter = Letter { method: parts.method, path, headers, body };
                Sent::Vendor(self.calls.upstreams.of(target.vendor).request(letter)?)
            }
        };
        let calls = self.calls.clone();
        let slot = Some(slot);
        let token = Some(token);
        self.run(Call { calls, vendor: target.vendor, request, ceiling, booking, slot, token }).await
    }

    /// Whose token it is, as either vendor's library sends it.
    async fn admit(&self, parts: &Parts) -> Result<(SandboxId, Watched), Refusal> {
        let secret = bearer(&parts.headers).or_else(|| api_key(&parts.headers));
        let secret = secret.map(|secret| Secret::Token(secret.to_owned()));
        let bearer = self.api.enter(&parts.extensions, secret.clone()).await?;
        let secret = secret.ok_or_else(Watched::refusal)?;
        match &*bearer {
            Bearer::Sandbox { id, .. } => Ok((id.clone(), self.api.watch(&secret))),
            Bearer::Operator { .. } => {
                let message =
                    "model calls are made with a sandbox's token, so that it is known who pays for them";
                Err(Refusal::new(StatusCode::FORBIDDEN, "sandbox_needed", message))
            }
        }
    }

    async fn run(&self, call: Call) -> Result<Response, Refusal> {
        let (head, answer) = oneshot::channel();
        let (chunks, mut body) = mpsc::channel(CHUNKS_MAX);
        let token = call.token.clone();
        self.calls.tracker.spawn(call.run(head, chunks));
        let Head { status, headers } = answer.await.unwrap_or_else(|_| {
            if token.is_some_and(|token| token.has_ended()) {
                return Err(Watched::refusal().into());
            }
            Err(Refusal::bad_gateway(
                "the call was cut off, because its sandbox has ended or the server stops",
            ))
        })?;
        let mut broken = None;
        let chunks = stream::poll_fn(move |cx| {
            if let Some(broken) = broken.take() {
                return Poll::Ready(Some(Err(broken)));
            }
            match ready!(body.poll_recv(cx)) {
                Some(Err(error)) => {
                    // The connection is closed at once on an error: what was sent before it leaves first.
                    broken = Some(error);
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                chunk => Poll::Ready(chunk),
            }
        });
        let mut response = Response::new(Body::from_stream(chunks));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// None for what goes to a vendor.
pub fn scripted(calls: &Calls, booking: Option<&NewCall>, body: &[u8]) -> Result<Option<Sent>, Refusal> {
    match booking {
        Some(call) if is_scripted(&call.model) => {
            Ok(Some(Sent::Scripted(Box::new(Part::new(&calls.library, call, body)?))))
        }
        Some(_) => Ok(None),
        None => Ok(Reply::to_count(body).map(Sent::Answered)),
    }
}

fn path(target: Target, parts: &Parts, secrets: &Secrets) -> Result<String, Refusal> {
    match parts.uri.query() {
        None => Ok(target.path.to_owned()),
        Some(query) if query.len() <= QUERY_BYTES_MAX => {
            Ok(format!("{}?{}", target.path, secrets.text(query)))
        }
        Some(_) => Err(Refusal::invalid(format!("the query has more than {QUERY_BYTES_MAX} bytes"))),
    }
}

/// A value that is no text is left as it is, as no secret is in it.
fn without_secrets(mut headers: HeaderMap, secrets: &Secrets) -> HeaderMap {
    for value in headers.values_mut() {
        if let Ok(Cow::Owned(clean)) = value.to_str().map(|text| secrets.text(text))
            && let Ok(clean) = HeaderValue::try_from(clean)
        {
            *value = clean;
        }
    }
    headers
}

fn api_key(headers: &HeaderMap) -> Option<&str> {
    headers.get(API_KEY)?.to_str().ok().map(str::trim)
}
