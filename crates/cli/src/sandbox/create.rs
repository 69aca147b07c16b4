//! Asking for a sandbox, and staying with it while it is made and works.

use std::time::Duration;

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{TaskId, sandbox::NewSandbox};

use super::{
    attach::label,
    watch::{Until, Watch, failed},
};
use crate::{Context, project::find, text::parse_span};

const EXAMPLES: &str = "\
Examples:
  omoi sandbox create --project shop -- make test
  omoi sandbox create --project shop --image bookworm --memory-gb 8 -- sh -c 'cargo build && cargo test'
  omoi sandbox create --project shop --base release-2 --timeout 30m --detach -- ./bench
  omoi sandbox create --project shop               stays until you end it

What the command writes comes out as it comes, and its exit code is ours. How the sandbox is made, its branch and what was
kept of it go to standard error. Ctrl-C ends the sandbox and waits until its work is kept; once more does not wait.";

/// Make a sandbox on a branch of a project, and run a command in it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Create {
    /// The project, by id or name
    #[arg(long, value_name = "PROJECT")]
    project: String,
    /// A pending task of the project to take with it
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// What it sees: one of `omoi image list`, or host for the system directories of its machine
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Its memory, in GiB
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1024))]
    memory_gb: Option<i64>,
    /// Its processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1024))]
    cpu: Option<i64>,
    /// Its disk, in GiB
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1024))]
    disk_gb: Option<i64>,
    /// The branch or commit to start from; otherwise the project's default branch
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// End it after this time, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    timeout: Option<Duration>,
    /// Something to know it by; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Print its id and leave it to itself
    #[arg(long)]
    detach: bool,
    /// Program and arguments, without a shell; none: the sandbox stays up for `omoi sandbox exec`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Create {
    /// Whether it stays with the sandbox that it asks for.
    pub fn watches(&self) -> bool {
        !self.detach
    }

    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        cx.out.outlast_reader();
        let project = find(client, &self.project).await?;
        let works = !self.command.is_empty() || self.task.is_some();
        let detach = self.detach;
        let sandbox = client.sandbox_order(&project.id, &self.wish()).await?;
        if detach {
            return cx.out.answer(&sandbox, |_| sandbox.id.to_string());
        }
        let mut watch = Watch::new(cx, client, &sandbox);
        if !works {
            let sandbox = watch.run(Until::Running).await?;
            if !sandbox.status.is_live() {
                // Also one that ended well did not stay.
                watch.verdict(&sandbox)?;
                return Err(failed(&sandbox, None).into());
            }
            let id = &sandbox.id;
            cx.out.item(&sandbox, |_| id.to_string())?;
            if !cx.out.is_json() {
                cx.out.note(&format!("run commands in it: omoi sandbox exec {id} -- COMMAND"));
                cx.out.note(&format!("end it:             omoi sandbox terminate {id}"));
            }
            return Ok(());
        }
        let sandbox = watch.run(Until::Kept).await?;
        if cx.out.is_json() {
            cx.out.item(&sandbox, |_| String::new())?;
        } else {
            cx.out.note(watch.told.sum(&sandbox).trim_end());
        }
        watch.verdict(&sandbox)
    }

    fn wish(self) -> NewSandbox {
        NewSandbox {
            provider: None,
            task_id: self.task,
            command: self.command,
            base: self.base,
            resume_session_id: None,
            image: self.image,
            memory_gb: self.memory_gb,
            cpu: self.cpu,
            disk_gb: self.disk_gb,
            timeout_seconds: self.timeout.map(|span| i64::try_from(span.as_secs()).unwrap_or(i64::MAX)),
            labels: self.label.into_iter().collect(),
        }
    }
}
