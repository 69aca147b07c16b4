//! What every request passes first: where it is addressed to, who sent the page, a name for the log, and headers
//! that keep browsers from doing more than they should.

use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;

use super::{Api, figures, problem::ApiError};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 64;
/// Headers that an answer gets here, and a few more.
const HEADERS: usize = 12;

pub async fn front(State(api): State<Api>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or("unmatched", MatchedPath::as_str);
    let method = request.method().clone();
    let mut response = match admissible(&api, request.headers(), request.uri()) {
        Ok(()) => answer(request, next).await,
        Err(refused) => refused.into_response(),
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response = method_not_allowed(&method, path, response);
    }
    let status = response.status();
    harden(response.headers_mut(), &id);
    figures::count(path, &method, status, started.elapsed());
    if status.is_server_error() {
        tracing::warn!(request.id = ?id, %method, path, status = status.as_u16(), "a request failed");
    } else {
        tracing::debug!(request.id = ?id, %method, path, status = status.as_u16(), "answered");
    }
    response
}

/// A panic is a defect of one request and must not end the connection that others may use.
async fn answer(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        let detail = "the server made a mistake; its log says more under this request's X-Request-ID";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", detail).into_response()
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
fn admissible(api: &Api, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    let host = host_of(headers, uri);
    if !api.is_own_host(name_of(host)) {
        let detail = format!(
            "the request is addressed to {host:?}; add the name to server.allowed_hosts if it is ours"
        );
        return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "host_refused", detail));
    }
    let Some(origin) = foreign_origin(headers, uri) else { return Ok(()) };
    if api.allowed_origins.iter().any(|allowed| allowed == origin) {
        return Ok(());
    }
    let detail = format!("a page of {origin:?} may not call this server; see server.allowed_origins");
    Err(ApiError::forbidden("origin_refused", detail))
}

/// The site whose page makes the request, if it says so and is not this server.
pub fn foreign_origin<'a>(headers: &'a HeaderMap, uri: &Uri) -> Option<&'a str> {
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let host = host_of(headers, uri);
    let own = origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host));
    (!own).then_some(origin)
}

fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(uri.host()).unwrap_or_default()
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

fn request_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&id.len())
            && id.to_str().is_ok_and(|id| id.bytes().all(|b| b.is_ascii_graphic()))
    });
    given.cloned().unwrap_or_else(|| {
        let bytes = NEXT_ID.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        HeaderValue::from_str(&crate::store::hex(&bytes)).unwrap_or(HeaderValue::from_static("none"))
    })
}

/// From a random start on, so that the names of one run are not those of another.
static NEXT_ID: LazyLock<AtomicU32> = LazyLock::new(|| {
    let mut bytes = [0u8; 4];
    let _ = getrandom::fill(&mut bytes);
    AtomicU32::new(u32::from_be_bytes(bytes))
});

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
