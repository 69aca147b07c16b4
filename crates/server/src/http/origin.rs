//! Pages of other sites: which of them may call, and what their browsers are told. Only those of
//! `server.allowed_origins` get in, with a token that the page itself sends; cookies are for the server's own pages.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use super::problem::ApiError;

/// What a page may send beyond what every page may.
const TAKEN: HeaderValue =
    HeaderValue::from_static("authorization, content-type, last-event-id, x-request-id");
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// What a page may read of an answer's head beyond what every page may.
const TOLD: HeaderValue = HeaderValue::from_static("content-disposition, retry-after, x-request-id");
/// How long a browser may go by an answer to its question.
const KEPT_SECONDS: HeaderValue = HeaderValue::from_static("600");

/// A page of another site that may call.
pub struct Guest(HeaderValue);

impl Guest {
    /// None for the server's own pages, and for whoever is no page.
    pub fn of(headers: &HeaderMap, uri: &Uri, allowed: &[String]) -> Result<Option<Self>, ApiError> {
        let Some(origin) = foreign(headers, uri) else { return Ok(None) };
        if allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return Ok(headers.get(header::ORIGIN).cloned().map(Self));
        }
        let detail = format!("a page of {origin:?} may not call this server; see server.allowed_origins");
        Err(ApiError::forbidden("origin_refused", detail))
    }

    /// The answer to a browser that asks whether the page may send what it is about to; none to any other request.
    pub fn permission(request: &Request) -> Option<Response> {
        let asks = request.method() == Method::OPTIONS
            && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let granted = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, TAKEN),
            (header::ACCESS_CONTROL_MAX_AGE, KEPT_SECONDS),
        ];
        asks.then(|| (StatusCode::NO_CONTENT, granted).into_response())
    }

    /// Lets the browser hand the answer to the page.
    pub fn admit(self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.0);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, TOLD);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
}

/// The site whose page makes the request, if it says so and is not this server.
pub fn foreign<'a>(headers: &'a HeaderMap, uri: &Uri) -> Option<&'a str> {
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let host = host(headers, uri);
    let own = origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host));
    (!own).then_some(origin)
}

/// What the request is addressed to, the port included.
pub fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(uri.host()).unwrap_or_default()
}
