//! From the work to its proof: a task whose work is done is followed through the sandboxes that check it.

use std::time::Duration;

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{SandboxId, Stage, TaskId, project::Project, sandbox::NewSandbox, task::Task};

use super::attempt::{Attempt, Seen};
use crate::Context;

/// A task that nobody holds when it is refused as held is about to change.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How following it ended.
pub enum Followed {
    /// As far as the task goes by itself; its state says how.
    Ended {
        task: Box<Task>,
        failure: Option<String>,
        interrupted: bool,
    },
    Detached,
}

/// Until the task is over, or goes back to work.
pub async fn follow(cx: &Context, client: &Client, project: &Project, id: &TaskId) -> Result<Followed> {
    let mut failure = None;
    loop {
        let task = Box::new(client.task_get(id).await?);
        if task.stage != Stage::Check || task.status.is_final() {
            return Ok(Followed::Ended { task, failure, interrupted: false });
        }
        let Some(sandbox) = holder(client, project, &task).await? else {
            tokio::time::sleep(LOOK_AGAIN).await;
            continue;
        };
        if !cx.out.is_json() {
            cx.out.line(&format!("{sandbox}  checks {}", crate::out::clean(&task.title)))?;
        }
        let mut attempt = Attempt::new(cx, client, &sandbox);
        match attempt.run().await? {
            Seen::Settled(_) => failure = attempt.failure().map(str::to_owned),
            Seen::Interrupted(_) => {
                let task = Box::new(client.task_get(id).await?);
                return Ok(Followed::Ended { task, failure, interrupted: true });
            }
            Seen::Detached => return Ok(Followed::Detached),
        }
    }
}

/// The sandbox that checks it: the one that there is, or one that is ordered now. None while it passes from hand to hand.
async fn holder(client: &Client, project: &Project, task: &Task) -> Result<Option<SandboxId>> {
    if task.sandbox_id.is_some() {
        return Ok(task.sandbox_id.clone());
    }
    let wish = NewSandbox { task_id: Some(task.id.clone()), ..NewSandbox::default() };
    match client.sandbox_order(&project.id, &wish).await {
        Ok(sandbox) => Ok(Some(sandbox.id)),
        Err(error) if error.code() == Some("task_held") => Ok(None),
        Err(error) => Err(error.into()),
    }
}
