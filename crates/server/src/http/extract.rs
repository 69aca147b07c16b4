//! What comes in, parsed at the door: path, query and JSON, each refused with a problem that names what is wrong.

use std::borrow::Cow;

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, Uri, header, request::Parts},
};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;

use super::{
    Api,
    check::Valid,
    problem::{ApiError, ApiResult},
};

pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Api> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, api).await;
        path.map(|axum::extract::Path(value)| Self(value))
            .map_err(|bad| ApiError::invalid("invalid_id", bad.body_text()))
    }
}

pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            let detail = "a query value contains a NUL byte (%00), which cannot be stored; remove it";
            return Err(ApiError::invalid("nul_in_text", detail));
        }
        // Names of artefacts and the like are stored.
        let text = api.store.secrets().text(parts.uri.query().unwrap_or_default());
        let query = match text {
            Cow::Borrowed(_) => axum::extract::Query::<T>::try_from_uri(&parts.uri),
            Cow::Owned(clean) => {
                let uri = format!("/?{clean}").parse::<Uri>();
                let uri = uri.map_err(|bad| ApiError::invalid("invalid_query", bad.to_string()))?;
                axum::extract::Query::<T>::try_from_uri(&uri)
            }
        };
        query
            .map(|axum::extract::Query(value)| Self(value))
            .map_err(|bad| ApiError::invalid("invalid_query", bad.body_text()))
    }
}

/// A body that was read whole, is JSON, not too deep, and passes the checks of its type. Secrets are masked in it.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Valid> FromRequest<Api> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let bytes = json_bytes(api, request, api.limits.body_bytes_max).await?;
        checked(&bytes.map_or(EMPTY, |bytes| without_secrets(api, bytes))).map(Self)
    }
}

/// An empty body is an empty object: where all fields are optional, the body may be left out.
const EMPTY: Bytes = Bytes::from_static(b"{}");

/// The same of a body that brings a secret to be used, and may be no larger than this. Nothing is masked in it.
pub async fn secret_json<T: DeserializeOwned + Valid>(
    api: &Api,
    request: Request,
    limit: usize,
) -> ApiResult<T> {
    checked(&json_bytes(api, request, limit).await?.unwrap_or(EMPTY))
}

fn checked<T: DeserializeOwned + Valid>(bytes: &[u8]) -> ApiResult<T> {
    let value: T = parse(bytes)?;
    value.check().map_err(|invalid| ApiError::invalid("validation_failed", invalid))?;
    Ok(value)
}

/// What a body brings is stored, shown or repeated sooner or later, so secrets are masked in it before it is parsed. A
/// body that is sent again is masked alike, and so it is still recognised.
pub fn without_secrets(api: &Api, json: Bytes) -> Bytes {
    match api.store.secrets().json(&json) {
        Cow::Borrowed(_) => json.clone(),
        Cow::Owned(clean) => clean.into(),
    }
}

/// Masks each line alone, so that the same log in other parts is masked alike.
pub fn lines_without_secrets(api: &Api, text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.flat_map(|line| api.store.secrets().bytes(line).into_owned()).collect()
}

/// A body this many times too large is still read to its end, unheeded: whoever is cut off while sending does not
/// hear why.
const HEARD_OUT: usize = 4;

/// The bytes of a JSON body before its type is known.
pub struct JsonBytes {
    /// Without secrets.
    pub clean: Bytes,
    /// As they came.
    pub raw: Bytes,
}

impl FromRequest<Api> for JsonBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let bytes = json_bytes(api, request, api.limits.body_bytes_max).await?;
        let raw = bytes.unwrap_or_default();
        Ok(Self { clean: without_secrets(api, raw.clone()), raw })
    }
}

/// The bytes of a JSON body, or none if it is empty.
async fn json_bytes(api: &Api, request: Request, limit: usize) -> ApiResult<Option<Bytes>> {
    let (parts, body) = request.into_parts();
    // What an empty body is said to be does not matter: some clients name a form where they send nothing.
    if !body.is_end_stream() {
        says_json(&parts.headers)?;
    }
    let bytes = read_within(api, &parts.headers, body, limit).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    scan(&bytes, api.limits.json_depth_max)?;
    Ok(Some(bytes))
}

fn says_json(headers: &HeaderMap) -> ApiResult<()> {
    let said = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("unreadable"));
    match said {
        None => Ok(()),
        Some(kind) if kind.split(';').next().is_some_and(|kind| kind.trim().ends_with("json")) => Ok(()),
        Some(kind) => {
            let detail = format!("the body is {kind:?}; send application/json");
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", detail))
        }
    }
}

/// The whole body, if it is not too large and does not take too long.
pub async fn read_within(api: &Api, headers: &HeaderMap, body: Body, limit: usize) -> ApiResult<Bytes> {
    let reading = read(headers, body, limit);
    tokio::time::timeout(api.limits.request_timeout, reading).await.unwrap_or_else(|_| {
        let detail = "the body did not arrive within limits.request_timeout";
        Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", detail))
    })
}

async fn read(headers: &HeaderMap, body: Body, limit: usize) -> ApiResult<Bytes> {
    let broken_off =
        |error: axum::Error| ApiError::new(StatusCode::BAD_REQUEST, "body_broken_off", error.to_string());
    let told =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if told.is_some_and(|told| told <= limit) {
        return axum::body::to_bytes(body, limit).await.map_err(broken_off);
    }
    let (mut parts, mut bytes, mut size) = (body.into_data_stream(), BytesMut::new(), 0);
    while let Some(part) = parts.next().await.transpose().map_err(broken_off)? {
        size += part.len();
        if size <= limit {
            bytes.extend_from_slice(&part);
        } else if size > limit.saturating_mul(HEARD_OUT) {
            break;
        }
    }
    if size > limit {
        return Err(ApiError::too_large("body_too_large", format!("the body has more than {limit} bytes")));
    }
    Ok(bytes.freeze())
}

pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        if error.is_data() || is_json(bytes) {
            return ApiError::invalid("validation_failed", error.to_string());
        }
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is not JSON: {error}"))
    })
}

/// The parser calls it a slip of syntax when it finds, say, a number where it wants a word.
fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}

/// One pass over the text of JSON: how deep it goes, and whether a string holds a NUL, which no database keeps.
fn scan(bytes: &[u8], depth_max: usize) -> ApiResult<()> {
    let (mut depth, mut in_string) = (0usize, false);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (in_string, byte) {
            (true, b'\\') => {
                if bytes[at..].starts_with(br"\u0000") {
                    let detail = "a text holds NUL (\\u0000), which cannot be stored; leave it out";
                    return Err(ApiError::invalid("nul_in_text", detail));
                }
                at += 1;
            }
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => {
                depth += 1;
                if depth > depth_max {
                    let detail = format!("the JSON is nested deeper than {depth_max} levels");
                    return Err(ApiError::invalid("nested_too_deep", detail));
                }
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::scan;

    #[test]
    fn nesting_and_nul_are_found_and_nothing_else_is_mistaken_for_them() {
        let cases = [
            (r#"{"a":[1,{"b":2}]}"#, true),
            (r#"{"a":"[[[[[[[["}"#, true),
            (r#"{"a":"\"[[[[[["}"#, true),
            (r#"[[[[[1]]]]]"#, false),
            (r#"{"a":"x\u0000y"}"#, false),
            (r#"{"a":"x\\u0000y"}"#, true),
            (r#"{"a":"\\\u0000"}"#, false),
        ];
        for (text, fine) in cases {
            assert_eq!(scan(text.as_bytes(), 4).is_ok(), fine, "{text}");
        }
        assert!(scan(&b"[".repeat(1_000_000), 64).is_err());
    }
}
