//! Commands that people run in a sandbox. A request writes down what is wanted; the loop that holds the provider runs
//! it, and its output is in the sandbox's events.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    CommandId, SandboxId,
    page::Page,
    sandbox::{Command, NewCommand},
};

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::ApiResult,
    route::{Routes, routes},
};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list_commands, run)).routes(routes!(get_command))
}

/// Run a command in a sandbox
///
/// Its output and its end are events `command.*` of the sandbox.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/commands", params(("id" = SandboxId, Path)), request_body = NewCommand,
    responses((status = 202, body = Command)), tag = "sandboxes")]
async fn run(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
    Json(new): Json<NewCommand>,
) -> ApiResult<(StatusCode, Answer<Command>)> {
    let command = api.store.command_create(who.name(), &id, new).await?;
    api.wake.notify_one();
    Ok((StatusCode::ACCEPTED, Answer(command)))
}

/// List a sandbox's commands, newest first
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/commands", params(("id" = SandboxId, Path), Paging),
    responses((status = 200, body = Page<Command>)), tag = "sandboxes")]
async fn list_commands(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SandboxId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<Command>>> {
    let limit = paging.limit()?;
    let rows = api.store.command_list(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |command| command.id.to_string()))
}

/// Show a command
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/commands/{command_id}", params(("id" = SandboxId, Path), ("command_id" = CommandId, Path)),
    responses((status = 200, body = Command)), tag = "sandboxes")]
async fn get_command(
    State(api): State<Api>,
    _: Viewer,
    Path((id, command)): Path<(SandboxId, CommandId)>,
) -> ApiResult<Answer<Command>> {
    Ok(Answer(api.store.command_get(&id, &command).await?))
}
