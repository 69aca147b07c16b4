//! Signing in: an operator's token is shown once and a cookie stands for it from then on, so that no page ever holds
//! a token. A browser sends the cookie with whatever a page makes it ask for; so it counts only for the server's own
//! pages, which say so with a header that no other page can send.

use axum::{
    Json as Answer,
    extract::{FromRequestParts, Request, State},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use omoi_protocol::{
    Role,
    session::{NewSession, Session},
};

use super::{
    Api,
    auth::{Secret, Viewer},
    extract, origin, parameters,
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::store::{Bearer, token_hash};

pub const COOKIE: &str = "omoi_session";
/// A page of another origin cannot send it without being allowed to, which nothing here does.
const CSRF: HeaderName = HeaderName::from_static("x-omoi-csrf");

/// A token and little else: it is read before anybody knows who sends it.
const BODY_BYTES_MAX: usize = 4096;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(show, begin, end))
}

/// What the cookie of a session holds.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == COOKIE && !value.is_empty()).map(|(_, value)| value)
}

/// Whether a request with a cookie comes from a page of this very server.
pub fn from_own_page(parts: &Parts) -> ApiResult<()> {
    if let Some(origin) = origin::foreign(&parts.headers, &parts.uri) {
        let detail = format!("a page of {origin:?} may not use the session of this server's pages");
        return Err(ApiError::forbidden("csrf", detail));
    }
    match parts.method {
        Method::GET | Method::HEAD => Ok(()),
        _ => may_change(&parts.headers),
    }
}

/// Whether a request may change something, as far as a session's cookie goes.
pub fn may_change(headers: &HeaderMap) -> ApiResult<()> {
    match Secret::of(headers) {
        Some(Secret::Session(_)) if headers.get(CSRF).is_none_or(|value| value != "1") => {
            let detail = "a change with a session's cookie needs the header `X-Omoi-Csrf: 1`";
            Err(ApiError::forbidden("csrf", detail))
        }
        _ => Ok(()),
    }
}

/// Show who is signed in
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = Session)), tag = "sessions")]
async fn show(who: Viewer) -> ApiResult<Answer<Session>> {
    match who.bearer() {
        Bearer::Operator { name, role, expires_at, .. } => Ok(Answer(view(name, *role, *expires_at))),
        Bearer::Sandbox { .. } => Err(not_an_operator()),
    }
}

/// Sign in
///
/// The answer sets an HttpOnly cookie that stands for the token; it ends after twelve hours without use, after a week,
/// or with the token.
#[utoipa::path(post, path = "/api/v1/session", request_body = NewSession, responses(
    (status = 201, body = Session),
    (status = 401, body = omoi_protocol::problem::Problem, content_type = "application/problem+json",
        description = "The token is not known, or has ended"),
    (status = 403, body = omoi_protocol::problem::Problem, content_type = "application/problem+json",
        description = "The token is a sandbox's, or the page is not ours"),
    (status = 429, body = omoi_protocol::problem::Problem, content_type = "application/problem+json",
        description = "Too many wrong tokens; try again"),
), tag = "sessions", security(()))]
async fn begin(State(api): State<Api>, visit: Visit, request: Request) -> ApiResult<Response> {
    let new: NewSession = extract::secret_json(&api, request, BODY_BYTES_MAX).await?;
    let token = Some(Secret::Token(new.token.trim().to_owned()));
    let bearer = api.enter(&visit.from, token).await?;
    let Bearer::Operator { id, name, role, expires_at } = &*bearer else { return Err(not_an_operator()) };
    let begun = api.store.session_begin(name, id).await?;
    let ends_at = expires_at.map_or(begun.ends_at, |end| end.min(begun.ends_at));
    let seconds = (ends_at - api.clock.now()).get_seconds();
    let answer = Answer(view(name, *role, Some(ends_at)));
    Ok((StatusCode::CREATED, [set_cookie(&begun.secret, seconds, visit.is_https)?], answer).into_response())
}

/// Sign out
#[utoipa::path(delete, path = "/api/v1/session", responses(
    (status = 204),
    (status = 429, body = omoi_protocol::problem::Problem, content_type = "application/problem+json",
        description = "Too many sessions that are not known; try again"),
), tag = "sessions", security(()))]
async fn end(State(api): State<Api>, visit: Visit) -> ApiResult<Response> {
    if let Some(secret) = visit.session {
        visit.from_own_page?;
        let hash = token_hash(&secret);
        let secret = Secret::Session(secret);
        match api.enter(&visit.from, Some(secret.clone())).await {
            Ok(_) => {
                api.store.session_end(&hash).await?;
                api.gate.forget(&secret);
            }
            // It has ended already, and its cookie is all that is left of it.
            Err(ended) if ended.status() == StatusCode::UNAUTHORIZED => {}
            Err(refused) => return Err(refused),
        }
    }
    Ok((StatusCode::NO_CONTENT, [set_cookie("", 0, visit.is_https)?]).into_response())
}

fn view(name: &str, role: Role, expires_at: Option<Timestamp>) -> Session {
    Session { name: name.to_owned(), role, expires_at }
}

fn not_an_operator() -> ApiError {
    let detail = "this is the token of a sandbox; the pages need an operator's";
    ApiError::forbidden("operator_needed", detail)
}

fn set_cookie(value: &str, seconds: i64, is_https: bool) -> ApiResult<(HeaderName, HeaderValue)> {
    let secure = if is_https { "; Secure" } else { "" };
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let value = HeaderValue::try_from(text).map_err(|_| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the cookie could not be written")
    })?;
    Ok((header::SET_COOKIE, value))
}

/// How somebody comes who is not signed in, or leaves.
struct Visit {
    from: Extensions,
    session: Option<String>,
    from_own_page: ApiResult<()>,
    is_https: bool,
}

impl FromRequestParts<Api> for Visit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        parameters::check(parts)?;
        let says = |name: HeaderName, word: &str| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.is_some_and(|value| value.starts_with(word))
        };
        // The server speaks plain HTTP; only what stands before it, and the browser, know whether that was all the way.
        let by_https =
            says(header::ORIGIN, "https://") || says(HeaderName::from_static("x-forwarded-proto"), "https");
        Ok(Self {
            from: parts.extensions.clone(),
            session: cookie(&parts.headers).map(str::to_owned),
            from_own_page: from_own_page(parts),
            is_https: api.is_https || by_https,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others_and_by_its_whole_name() {
        let cases = [
            ("omoi_session=a", Some("a")),
            ("theme=dark; omoi_session=a_b-c; other=1", Some("a_b-c")),
            ("x_omoi_session=a", None),
            ("omoi_session=", None),
            ("omoi_session", None),
            ("OMOI_SESSION=a", None),
        ];
        for (line, found) in cases {
            let headers = HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static(line))]);
            assert_eq!(cookie(&headers), found, "{line}");
        }
    }
}
