//! Joining a server from anywhere, as a sandbox of the provider `external`.

use std::{fs, io, path::PathBuf};

use omoi_client::{Client, TaskQuery};
use omoi_protocol::{
    ProjectId, ProviderKind, TaskId, TaskStatus,
    launch::{Door, LaunchSpec, SandboxToken, TaskBrief, TaskContext},
    sandbox::{AttachSandbox, SandboxAttached},
    task::Task,
};

use crate::{args::Attach, say::say};

/// How many pending tasks of a project are tried, since others may take them meanwhile.
const TRIED_MAX: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the token from {path}: {source}")]
    Token { path: PathBuf, source: io::Error },
    #[error("cannot work in {path}: {source}")]
    Workspace { path: PathBuf, source: io::Error },
    #[error("project {0} has no task that could be taken now; add one, or name one with --task")]
    NoTask(ProjectId),
    #[error("cannot join {url}: {source}")]
    Refused { url: String, source: omoi_client::Error },
}

/// The launch that a provider would have given.
pub async fn join(args: Attach) -> Result<LaunchSpec, Error> {
    let token = fs::read_to_string(&args.token_file)
        .map_err(|source| Error::Token { path: args.token_file.clone(), source })?;
    let given = args.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
    let workspace =
        given.canonicalize().map_err(|source| Error::Workspace { path: given.clone(), source })?;
    let refused = |source| Error::Refused { url: args.url.clone(), source };
    let client = Client::new(&args.url, token.trim()).map_err(refused)?;
    let attached = match (&args.task, &args.project) {
        (None, Some(project)) => take_one(&client, project, &refused).await?,
        (task, _) => attach(&client, task.clone()).await.map_err(refused)?,
    };
    let task = match &attached.sandbox.task_id {
        Some(_) => Some(client.sandbox_task(&attached.sandbox.id).await.map_err(refused)?),
        None => None,
    };
    let door = Door { url: client.url().to_owned(), model_url: None, proxy_url: None };
    let (sandbox, token) = (attached.sandbox, SandboxToken::new(attached.token));
    say(&format!("joined {} as sandbox {}", client.url(), sandbox.id));
    Ok(LaunchSpec {
        project_id: sandbox.project_id,
        task_id: sandbox.task_id,
        workspace_path: workspace.display().to_string(),
        command: Some(args.command),
        context: task.map(context),
        ..LaunchSpec::new(sandbox.id, ProviderKind::External, door, token)
    })
}

async fn attach(client: &Client, task_id: Option<TaskId>) -> Result<SandboxAttached, omoi_client::Error> {
    client.sandbox_attach(&AttachSandbox { task_id, ..AttachSandbox::default() }).await
}

/// The first pending task that nobody else takes and that waits for no other.
async fn take_one(
    client: &Client,
    project: &ProjectId,
    refused: &impl Fn(omoi_client::Error) -> Error,
) -> Result<SandboxAttached, Error> {
    let query = TaskQuery {
        status: Some(TaskStatus::Pending),
        project_id: Some(project.clone()),
        limit: Some(TRIED_MAX),
        ..TaskQuery::default()
    };
    for task in client.task_list(&query).await.map_err(refused)?.items {
        match attach(client, Some(task.id)).await {
            Err(error) if error.status() == Some(409) => {}
            attached => return attached.map_err(refused),
        }
    }
    Err(Error::NoTask(project.clone()))
}

fn context(task: Task) -> TaskContext {
    let task = TaskBrief {
        id: task.id,
        task_type: task.task_type,
        title: task.title,
        description: task.description,
        priority: task.priority,
        phase_id: Some(task.phase_id),
    };
    TaskContext { task, ticket: None, revision: None, markdown: None, extra: serde_json::Map::new() }
}
