//! Sandboxes as they stand: a list of them, and one in full.

use anyhow::Result;
use omoi_client::{Client, SandboxQuery};
use omoi_protocol::{Place, SandboxStatus, TaskId, sandbox::Sandbox};
use omoi_server::clock::Clock;

use super::told::{isolation, kept};
use crate::{
    Context,
    args::word,
    page::{Limit, collect},
    project::find_id,
    table::{Item, Table, maybe},
    text::{moment, relative},
};

/// List sandboxes, newest first
#[derive(Debug, clap::Args)]
pub struct List {
    /// Only those in this state
    #[arg(long, value_parser = word!(SandboxStatus), ignore_case = true)]
    status: Option<SandboxStatus>,
    /// Only those of this project, by id or name
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Only those of this task
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// Only those that have not ended
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    limit: Limit,
}

impl List {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let query = SandboxQuery {
            status: self.status,
            project_id: find_id(client, self.project.as_deref()).await?,
            task_id: self.task,
            live: self.live.then_some(true),
            ..SandboxQuery::default()
        };
        let fetch = async |size, cursor| {
            client.sandbox_list(&SandboxQuery { limit: Some(size), cursor, ..query.clone() }).await
        };
        let page = collect(self.limit.get(), fetch).await?;
        cx.out.answer(&page, |style| rows(Table::new(style, HEADER), &page.items).render())?;
        self.limit.tell(cx, &page);
        Ok(())
    }
}

pub const HEADER: &[&str] =
    &["id", "status", "place", "isolation", "kept", "task", "heartbeat", "created", "ended"];

pub fn rows(table: Table, sandboxes: &[Sandbox]) -> Table {
    let now = Clock::Real.now();
    sandboxes.iter().fold(table, |table, sandbox| {
        table.row([
            sandbox.id.to_string().into(),
            Item::Word(sandbox.status.as_str()),
            place(sandbox).into(),
            maybe(sandbox.isolation.as_ref().and_then(|isolation| isolation["level"].as_str())),
            maybe(sandbox.kept.as_ref().map(|kept| if kept.kept { "yes" } else { "on the branch" })),
            maybe(sandbox.task_id.as_ref()),
            maybe(sandbox.last_heartbeat_at.map(|at| relative(now, at))),
            relative(now, sandbox.created_at).into(),
            maybe(sandbox.ended_at.map(|at| relative(now, at))),
        ])
    })
}

/// Whose it is, and for one of ours where it stands.
fn place(sandbox: &Sandbox) -> String {
    match sandbox.place {
        Place::None => sandbox.provider.to_string(),
        place => format!("{} {place}", sandbox.provider),
    }
}

/// One in full, as `fields` takes it.
pub fn pairs(sandbox: &Sandbox) -> Vec<(&'static str, Option<String>)> {
    let now = Clock::Real.now();
    let when = |at: Option<jiff::Timestamp>| at.map(|at| moment(now, at));
    let labels: Vec<_> = sandbox.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        ("id", Some(sandbox.id.to_string())),
        ("status", Some(sandbox.status.to_string())),
        ("place", Some(place(sandbox))),
        ("isolation", sandbox.isolation.as_ref().map(|_| isolation(sandbox))),
        ("task", sandbox.task_id.as_ref().map(ToString::to_string)),
        ("project", sandbox.project_id.as_ref().map(ToString::to_string)),
        ("agent", sandbox.agent_id.as_ref().map(ToString::to_string)),
        ("branch", sandbox.branch_name.clone()),
        ("base", sandbox.base_commit.clone()),
        ("generation", Some(sandbox.generation.to_string())),
        ("lease ends", when(sandbox.lease_expires_at)),
        ("created", when(Some(sandbox.created_at))),
        ("started", when(sandbox.started_at)),
        ("heartbeat", when(sandbox.last_heartbeat_at)),
        ("ended", when(sandbox.ended_at)),
        ("reason", sandbox.end_reason.clone()),
        ("kept", kept(sandbox)),
        ("problem", sandbox.place_error.clone()),
        ("labels", Some(labels.join("\n")).filter(|text| !text.is_empty())),
    ]
}
