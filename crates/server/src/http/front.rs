//! What every request passes first: where it is addressed to, who sent the page, a name for the log, and headers
//! that keep browsers from doing more than they should.

use std::{net::IpAddr, panic::AssertUnwindSafe, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use tracing::{Instrument, field::Empty};

use super::{
    Api, figures,
    origin::{self, Guest},
    problem::ApiError,
    request_id::{self, REQUEST_ID},
};

/// Headers that an answer gets here, and a few more.
const HEADERS: usize = 12;
/// A year, and for this name alone: others of its domain are not ours.
const HTTPS_ALONE: HeaderValue = HeaderValue::from_static("max-age=31536000");

pub async fn front(State(api): State<Api>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id::of(request.headers());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("unmatched", MatchedPath::as_str);
    let method = request.method().clone();
    let admitted = admissible(&api, request.headers(), request.uri());
    let (guest, mut response) = match admitted {
        Ok(guest) => match guest.as_ref().and_then(|_| Guest::permission(&request)) {
            Some(permission) => (guest, permission),
            None => (guest, traced(&id, &method, path, answer(request, next)).await),
        },
        Err(refused) => (None, refused.into_response()),
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response = method_not_allowed(&method, path, response);
    }
    let status = response.status();
    harden(response.headers_mut(), &id);
    if api.is_https {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HTTPS_ALONE);
    }
    if let Some(guest) = guest {
        guest.admit(response.headers_mut());
    }
    figures::count(path, &method, status, started.elapsed());
    let (id, status) = (request_id::text(&id), status.as_u16());
    if response.status().is_server_error() {
        tracing::warn!(request.id = id, %method, path, status, "a request failed");
    } else {
        tracing::debug!(request.id = id, %method, path, status, "answered");
    }
    response
}

/// Under its name, and in a span, which is made only where somebody looks: traces are exported, or the log shows `debug`.
async fn traced(
    id: &HeaderValue,
    method: &Method,
    path: &str,
    answer: impl Future<Output = Response>,
) -> Response {
    let id_text = request_id::text(id);
    let span = tracing::debug_span!("request", request.id = id_text, %method, path, status = Empty);
    let response = request_id::under(id, answer).instrument(span.clone()).await;
    span.record("status", response.status().as_u16());
    response
}

/// A panic is a defect of one request and must not end the connection that others may use.
async fn answer(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        ApiError::defect(text).into_response()
    })
}

fn method_not_allowed(method: &Method, path: &str, mut refused: Response) -> Response {
    let detail = format!("{method} is not a method of {path}");
    let allow = refused.headers_mut().remove(header::ALLOW);
    let mut response =
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response();
    if let Some(allow) = allow {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

/// A page of another site can make a browser call a loopback server, but not under a name that is ours.
fn admissible(api: &Api, headers: &HeaderMap, uri: &Uri) -> Result<Option<Guest>, ApiError> {
    let host = origin::host(headers, uri);
    if !api.is_own_host(name_of(host)) {
        let detail = format!(
            "the request is addressed to {host:?}; add the name to server.allowed_hosts if it is ours"
        );
        return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "host_refused", detail));
    }
    Guest::of(headers, uri, &api.allowed_origins)
}

/// Without the port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// An address in numbers cannot be made to point elsewhere by whoever owns a name.
pub fn is_numeric(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

fn harden(headers: &mut HeaderMap, id: &HeaderValue) {
    headers.reserve(HEADERS);
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), microphone=(), geolocation=()"),
    );
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
}

#[cfg(test)]
mod tests {
    use super::{is_numeric, name_of};

    #[test]
    fn a_host_is_known_by_its_name_without_the_port() {
        for (host, name) in [
            ("localhost:18000", "localhost"),
            ("a.b", "a.b"),
            ("[::1]:80", "::1"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert_eq!(name_of(host), name);
        }
        assert!(
            is_numeric("::1") && is_numeric("10.0.0.1") && !is_numeric("evil.example") && !is_numeric("")
        );
    }
}
