//! The pages.
use axum::{
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
pub(crate) async fn page(uri: Uri, _headers: HeaderMap) -> Response {
    super::problem::ApiError::new(
        axum::http::StatusCode::NOT_FOUND,
        "no_such_path",
        format!("there is nothing at {}", uri.path()),
    )
    .into_response()
}
