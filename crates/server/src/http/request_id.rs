//! The name of a request: given or made up, in its answer, and in whatever is logged while it is answered.

use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CHARS_MAX: usize = 64;

tokio::task_local! {
    static CURRENT: HeaderValue;
}

pub fn of(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(REQUEST_ID).filter(|id| {
        (1..=CHARS_MAX).contains(&id.len())
            && id.to_str().is_ok_and(|id| id.bytes().all(|b| b.is_ascii_graphic()))
    });
    given.cloned().unwrap_or_else(|| {
        let bytes = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        HeaderValue::from_str(&crate::store::hex(&bytes)).unwrap_or(HeaderValue::from_static("none"))
    })
}

/// As it is logged.
pub fn text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

/// Answers a request under its name. A span would carry it too, but one per request costs what the name alone does not.
pub async fn under<T>(id: &HeaderValue, answer: impl Future<Output = T>) -> T {
    CURRENT.scope(id.clone(), answer).await
}

/// The name of the request that is being answered here; none where work goes on after its answer has begun.
pub fn current() -> Option<String> {
    CURRENT.try_with(|id| text(id).to_owned()).ok()
}

/// From a random start on, so that the names of one run are not those of another.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let mut bytes = [0u8; 4];
    let _ = getrandom::fill(&mut bytes);
    AtomicU32::new(u32::from_be_bytes(bytes))
});
