//! Sandboxes: what there are, one that joins from elsewhere, and what is kept of each.

use std::fmt::Write;

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::StatusCode,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use omoi_protocol::{
    EventId, ProjectId, SandboxId, SandboxStatus, TaskId,
    page::Page,
    sandbox::{
        AttachSandbox, Diff, NewSandbox, Prune, Pruned, Sandbox, SandboxAttached, TRANSCRIPT_PART_BYTES_MAX,
        TaskComplete, TaskCompleted, Transcript, TranscriptPart, TranscriptReceived,
    },
    task::{Reason, Task},
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, ReaderOf, SandboxItself, Viewer, WorkerOf},
    extract::{Json, Path, Query, lines_without_secrets, secret_json},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::store::{EventAsk, SandboxFilter};

/// How much of an event's data a log line shows.
const LOG_LINE_CHARS: usize = 400;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, attach))
        .routes(routes!(order))
        .routes(routes!(get_one))
        .routes(routes!(get_task))
        .routes(routes!(get_diff))
        .routes(routes!(get_transcript, append_transcript))
        .routes(routes!(get_logs))
        .routes(routes!(terminate))
        .routes(routes!(rescue))
        .routes(routes!(discard))
        .routes(routes!(prune))
        .routes(routes!(task_complete))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    status: Option<SandboxStatus>,
    project_id: Option<ProjectId>,
    task_id: Option<TaskId>,
    /// Only those that may hold a task, or only those that may not.
    live: Option<bool>,
    /// Only those whose work could not be kept, for which a person has to decide.
    #[serde(default)]
    unkept: bool,
}

/// List sandboxes, newest first
#[utoipa::path(get, path = "/api/v1/sandboxes", params(Filter, Paging), responses((status = 200, body = Page<Sandbox>)), tag = "sandboxes")]
async fn list(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Sandbox>>> {
    let limit = paging.limit()?;
    let filter = SandboxFilter {
        status: filter.status,
        project_id: filter.project_id,
        task_id: filter.task_id,
        live: filter.live,
        unkept: filter.unkept,
    };
    let rows = api.store.sandbox_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |sandbox| sandbox.id.to_string()))
}

/// Attach a sandbox that runs elsewhere
///
/// Its token is in the answer and nowhere else. A task of a project that is paused or archived is refused (409).
#[utoipa::path(post, path = "/api/v1/sandboxes", request_body = AttachSandbox, responses((status = 201, body = SandboxAttached)), tag = "sandboxes")]
async fn attach(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<AttachSandbox>,
) -> ApiResult<(StatusCode, Answer<SandboxAttached>)> {
    let attached = api.store.sandbox_attach(who.name(), new).await?;
    Ok((StatusCode::CREATED, Answer(attached)))
}

/// Ask for a sandbox
///
/// The server makes it: for a person, with a command or without, or for a pending task. It is not there yet when this
/// answers; its events tell how it goes. A project that is paused or archived starts nothing (409).
#[utoipa::path(post, path = "/api/v1/projects/{id}/sandboxes", params(("id" = ProjectId, Path)), request_body = NewSandbox,
    responses((status = 202, body = Sandbox)), tag = "sandboxes")]
async fn order(
    State(api): State<Api>,
    who: Operator,
    Path(project): Path<ProjectId>,
    Json(new): Json<NewSandbox>,
) -> ApiResult<(StatusCode, Answer<Sandbox>)> {
    let ordered = api.store.sandbox_order(who.name(), &project, new).await?;
    api.wake.notify_one();
    Ok((StatusCode::ACCEPTED, Answer(ordered)))
}

/// Show a sandbox
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}", params(("id" = SandboxId, Path)), responses((status = 200, body = Sandbox)), tag = "sandboxes")]
async fn get_one(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
) -> ApiResult<Answer<Sandbox>> {
    Ok(Answer(api.store.sandbox_get(&id).await?))
}

/// Show the task that a sandbox holds or held
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/task", params(("id" = SandboxId, Path)), responses((status = 200, body = Task)), tag = "sandboxes")]
async fn get_task(State(api): State<Api>, _: ReaderOf, Path(id): Path<SandboxId>) -> ApiResult<Answer<Task>> {
    Ok(Answer(api.store.sandbox_task(&id).await?))
}

/// Show the whole diff of a file change
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/diffs/{event_id}", params(("id" = SandboxId, Path), ("event_id" = EventId, Path)),
    responses((status = 200, body = Diff)), tag = "sandboxes")]
async fn get_diff(
    State(api): State<Api>,
    _: ReaderOf,
    Path((id, event)): Path<(SandboxId, EventId)>,
) -> ApiResult<Answer<Diff>> {
    Ok(Answer(api.store.diff_get(&id, event).await?))
}

/// Show the newest transcript
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/transcript", params(("id" = SandboxId, Path)),
    responses((status = 200, body = Transcript)), tag = "sandboxes")]
async fn get_transcript(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
) -> ApiResult<Answer<Transcript>> {
    Ok(Answer(api.store.transcript_get(&id).await?))
}

/// Add to the transcript of a session
///
/// For the sandbox itself. The answer comes after commit and says how much is stored; to send the same again is harmless.
/// A part that would leave a gap is refused (409), with the `size` to go on from in the problem.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/transcript", params(("id" = SandboxId, Path)), request_body = TranscriptPart,
    responses((status = 200, body = TranscriptReceived)), tag = "sandboxes")]
async fn append_transcript(
    State(api): State<Api>,
    _: SandboxItself,
    Path(id): Path<SandboxId>,
    request: Request,
) -> ApiResult<Answer<TranscriptReceived>> {
    // Masked once it is decoded: in base64, what follows a token's prefix cannot be told from a token.
    let part: TranscriptPart = secret_json(&api, request, api.limits.body_bytes_max).await?;
    let data = STANDARD.decode(&part.data_b64).map_err(|error| {
        ApiError::invalid("validation_failed", format!("data_b64 is no base64 with padding: {error}"))
    })?;
    if data.len() > TRANSCRIPT_PART_BYTES_MAX {
        let detail =
            format!("the part has {} bytes; send at most {TRANSCRIPT_PART_BYTES_MAX} at once", data.len());
        return Err(ApiError::too_large("transcript_part_too_large", detail));
    }
    let data = lines_without_secrets(&api, &data);
    let session_id = api.store.secrets().text(&part.session_id).into_owned();
    Ok(Answer(api.store.transcript_append(&id, &session_id, part.offset, data).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Tail {
    /// How many lines from the end.
    #[param(minimum = 1, maximum = 500, default = 100)]
    tail: Option<i64>,
}

/// Show the last events as lines of text
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/logs", params(("id" = SandboxId, Path), Tail),
    responses((status = 200, body = String, content_type = "text/plain")), tag = "sandboxes")]
async fn get_logs(
    State(api): State<Api>,
    _: ReaderOf,
    Path(id): Path<SandboxId>,
    Query(query): Query<Tail>,
) -> ApiResult<String> {
    let limit = page::limit(query.tail, 100, 500)?;
    let ask = EventAsk { limit, offset: 0, event_type: None, after: None, before: None };
    let events = api.store.event_page(&id, ask).await?.events;
    let mut text = String::new();
    for event in events.iter().rev() {
        // Between its parts JSON may hold line breaks.
        let data: String = event
            .event_data
            .get()
            .chars()
            .take(LOG_LINE_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let _ = writeln!(
            text,
            "{} {:>6} {} {} {data}",
            event.created_at, event.seq, event.source, event.event_type
        );
    }
    Ok(text)
}

/// End a sandbox
///
/// A task that it holds is cancelled with it and can be retried.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/terminate", params(("id" = SandboxId, Path)), request_body = Reason,
    responses((status = 200, body = Sandbox)), tag = "sandboxes")]
async fn terminate(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
    Json(why): Json<Reason>,
) -> ApiResult<Answer<Sandbox>> {
    let ended = api.store.sandbox_terminate(who.name(), &id, why.reason).await?;
    api.gate.doubt_all();
    api.wake.notify_one();
    Ok(Answer(ended))
}

/// Try again to keep the work of an ended sandbox
///
/// For a sandbox whose rescue failed. It is tried again at once; while the server has not given up, only the wait is cut
/// short. Any other sandbox is refused (409).
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/rescue", params(("id" = SandboxId, Path)),
    responses((status = 200, body = Sandbox)), tag = "sandboxes")]
async fn rescue(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
) -> ApiResult<Answer<Sandbox>> {
    let sandbox = api.store.sandbox_rescue(who.name(), &id).await?;
    api.wake.notify_one();
    Ok(Answer(sandbox))
}

/// Discard the work of an ended sandbox that could not be kept
///
/// Its disk is removed, and what no branch and no preserved ref holds is lost for good. The event `sandbox.discarded` names
/// the loss. A sandbox that is live, is kept or is still being rescued is refused (409).
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/discard", params(("id" = SandboxId, Path)), request_body = Reason,
    responses((status = 200, body = Sandbox)), tag = "sandboxes")]
async fn discard(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
    Json(why): Json<Reason>,
) -> ApiResult<Answer<Sandbox>> {
    let sandbox = api.store.sandbox_discard(who.name(), &id, why.reason).await?;
    api.wake.notify_one();
    Ok(Answer(sandbox))
}

/// Remove what is left of ended sandboxes
///
/// Their work is kept. Whatever is beyond the limits of the configuration goes without anybody asking. A sandbox whose work
/// could not be kept stays until a person discards it.
#[utoipa::path(post, path = "/api/v1/sandboxes/prune", request_body = Prune, responses((status = 200, body = Pruned)), tag = "sandboxes")]
async fn prune(State(api): State<Api>, who: Operator, Json(ask): Json<Prune>) -> ApiResult<Answer<Pruned>> {
    let pruned = api.store.sandbox_prune(who.name(), ask).await?;
    api.wake.notify_one();
    Ok(Answer(pruned))
}

/// Report that the sandbox's task is over
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/task-complete", params(("id" = SandboxId, Path)), request_body = TaskComplete,
    responses((status = 200, body = TaskCompleted)), tag = "sandboxes")]
async fn task_complete(
    State(api): State<Api>,
    who: WorkerOf,
    Path(id): Path<SandboxId>,
    Json(said): Json<TaskComplete>,
) -> ApiResult<Answer<TaskCompleted>> {
    api.store.task_complete(&id, said).await.map(Answer).map_err(|error| who.refused(error))
}
