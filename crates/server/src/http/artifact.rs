//! Artefacts: handed in by sandboxes, fetched by people. A name is only ever shown: no path of a request is opened.

use std::borrow::Cow;

use axum::{
    Json as Answer,
    body::Body,
    extract::{FromRequest, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use omoi_protocol::{
    ArtifactId, SandboxId, TaskId,
    artifact::{ARTIFACT_BYTES_MAX, Artifact},
    page::Page,
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    Api,
    auth::{ReaderOf, Viewer, WorkerOf},
    check,
    extract::{Path, Query, read_within},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};

const NAME_CHARS_MAX: usize = 200;
const TYPE_CHARS_MAX: usize = 100;
const UNKNOWN_TYPE: &str = "application/octet-stream";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_artifacts, hand_in))
        .routes(routes!(list_of_task))
        .routes(routes!(download))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Named {
    /// A file's name without directories.
    #[param(min_length = 1, max_length = 200)]
    name: String,
}

/// A body as it is.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
struct ArtifactContent(Bytes);

impl FromRequest<Api> for ArtifactContent {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let content = read_within(api, &parts.headers, body, ARTIFACT_BYTES_MAX).await?;
        Ok(Self(match api.store.secrets().bytes(&content) {
            Cow::Borrowed(_) => content.clone(),
            Cow::Owned(clean) => clean.into(),
        }))
    }
}

/// Hand in an artefact
///
/// The body is the file, at most 8 MiB; its `Content-Type` is kept with it. Secrets that the server knows are masked in it,
/// and its length stays. All artefacts of one sandbox may have
/// 64 MiB. Handing in the same again is harmless.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/artifacts", params(("id" = SandboxId, Path), Named),
    request_body(content = ArtifactContent, content_type = "application/octet-stream"),
    responses((status = 201, body = Artifact)), tag = "sandboxes")]
async fn hand_in(
    State(api): State<Api>,
    who: WorkerOf,
    Path(id): Path<SandboxId>,
    Query(Named { name }): Query<Named>,
    headers: HeaderMap,
    ArtifactContent(content): ArtifactContent,
) -> ApiResult<(StatusCode, Answer<Artifact>)> {
    check_name(&name).map_err(|why| ApiError::invalid("validation_failed", why))?;
    let stored = api
        .store
        .artifact_create(&id, &name, &api.store.secrets().text(&content_type(&headers)), &content)
        .await;
    stored.map(|artifact| (StatusCode::CREATED, Answer(artifact))).map_err(|error| who.refused(error))
}

/// List the artefacts of a sandbox, oldest first
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/artifacts", params(("id" = SandboxId, Path), Paging),
    responses((status = 200, body = Page<Artifact>)), tag = "sandboxes")]
async fn list_artifacts(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Artifact>>> {
    let limit = paging.limit()?;
    let rows = api.store.artifact_list(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |artifact| artifact.id.to_string()))
}

/// List the artefacts of a task, of all its attempts, oldest first
#[utoipa::path(get, path = "/api/v1/tasks/{id}/artifacts", params(("id" = TaskId, Path), Paging),
    responses((status = 200, body = Page<Artifact>)), tag = "tasks")]
async fn list_of_task(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<TaskId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Artifact>>> {
    let limit = paging.limit()?;
    let rows = api.store.artifact_list_of_task(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |artifact| artifact.id.to_string()))
}

/// Fetch an artefact
///
/// As a file to save: whatever its sandbox says that it is, no browser shows it.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/artifacts/{artifact}",
    params(("id" = SandboxId, Path), ("artifact" = ArtifactId, Path)),
    responses((status = 200, body = ArtifactContent, content_type = "application/octet-stream")), tag = "sandboxes")]
async fn download(
    State(api): State<Api>,
    _: ReaderOf,
    Path((id, artifact)): Path<(SandboxId, ArtifactId)>,
) -> ApiResult<Response> {
    let (artifact, content) = api.store.artifact_get(&id, &artifact).await?;
    let disposition = HeaderValue::from_str(&disposition(&artifact.name));
    let mut response = Body::from(content).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(UNKNOWN_TYPE));
    headers
        .insert(header::CONTENT_DISPOSITION, disposition.unwrap_or(HeaderValue::from_static("attachment")));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// One name of a file that can be saved anywhere, and is no way to another directory.
fn check_name(name: &str) -> Result<(), String> {
    check::text("name", name, 1, NAME_CHARS_MAX)?;
    if name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\')) || matches!(name, "." | "..") {
        return Err(format!("name is {name:?}; it must be a file's name without directories"));
    }
    Ok(())
}

/// What the sandbox says that the content is, if it can be repeated.
fn content_type(headers: &HeaderMap) -> String {
    let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::trim);
    let plain = said.filter(|said| said.contains('/') && said.len() <= TYPE_CHARS_MAX);
    plain.unwrap_or(UNKNOWN_TYPE).to_owned()
}

/// The name twice: in ASCII for all, and whole for those that read RFC 5987.
fn disposition(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    let mut whole = String::new();
    for byte in name.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => whole.push(char::from(byte)),
            byte => whole.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{whole}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_way_out() {
        for (name, fine) in [
            ("report.txt", true),
            ("résumé (1).pdf", true),
            ("..", false),
            ("../x", false),
            ("a\\b", false),
            ("a\nb", false),
            (" ", false),
        ] {
            assert_eq!(check_name(name).is_ok(), fine, "{name:?}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let header = disposition("a\"; x=é\r\n.txt");
        assert_eq!(
            header,
            "attachment; filename=\"a___x____.txt\"; filename*=UTF-8''a%22%3B%20x%3D%C3%A9%0D%0A.txt"
        );
    }
}
