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
    table::{Item, Table, maybe, number},
    text::{moment, relative, reported},
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
    /// Only those whose work could not be kept, for which you have to decide
    #[arg(long)]
    unkept: bool,
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
            unkept: self.unkept.then_some(true),
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
    &["id", "status", "place", "isolation", "kept", "task", "events", "heartbeat", "created", "ended"];

pub fn rows(table: Table, sandboxes: &[Sandbox]) -> Table {
    let now = Clock::Real.now();
    sandboxes.iter().fold(table, |table, sandbox| {
        table.row([
            sandbox.id.to_string().into(),
            Item::Word(sandbox.status.as_str()),
            place(sandbox).into(),
            maybe(sandbox.isolation.as_ref().and_then(|isolation| isolation["level"].as_str())),
            maybe(kept_word(sandbox)),
            maybe(sandbox.task_id.as_ref()),
            number(&sandbox.event_count),
            maybe(sandbox.last_heartbeat_at.map(|at| relative(now, at))),
            relative(now, sandbox.created_at).into(),
            maybe(sandbox.ended_at.map(|at| relative(now, at))),
        ])
    })
}

/// Whether its work is kept, in a word; none while that is not known.
fn kept_word(sandbox: &Sandbox) -> Option<&'static str> {
    match (&sandbox.kept, sandbox.place) {
        (Some(_), Place::Unkept) => Some("in part, decide"),
        (Some(kept), _) if kept.left_out_files > 0 => Some("in part"),
        (Some(kept), _) if kept.kept => Some("yes"),
        (Some(_), _) => Some("on the branch"),
        (None, Place::Unkept) => Some("no, decide"),
        (None, Place::Discarded | Place::Gone) if sandbox.rescue.is_some() => Some("discarded"),
        (None, _) => sandbox.rescue.as_ref().map(|_| "not yet"),
    }
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
        ("events", Some(sandbox.event_count.to_string())),
        ("kept", kept(sandbox)),
        ("problem", problem(sandbox)),
        ("disk", sandbox.rescue.as_ref().and_then(|rescue| rescue.disk_bytes).map(size)),
        ("next", next(sandbox)),
        ("cost", Some(format!("${:.2}", sandbox.cost_usd))),
        ("as reported", reported(sandbox.reported_cost.as_ref(), sandbox.cost_usd)),
        ("labels", Some(labels.join("\n")).filter(|text| !text.is_empty())),
    ]
}

/// Why it failed, and why its work is not kept.
fn problem(sandbox: &Sandbox) -> Option<String> {
    let rescue = sandbox.rescue.as_ref().map(|rescue| &rescue.error);
    let own = sandbox.place_error.as_ref().filter(|own| Some(*own) != rescue);
    let rescue = rescue.map(|error| format!("not kept: {error}"));
    let all: Vec<String> = own.cloned().into_iter().chain(rescue).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// What happens next with work that is not kept, or what a person can do.
pub fn next(sandbox: &Sandbox) -> Option<String> {
    let (id, rescue) = (&sandbox.id, sandbox.rescue.as_ref()?);
    match sandbox.place {
        Place::Unkept => Some(format!(
            "the server gave up after {} tries; nothing is deleted until you decide:\n\
             omoi sandbox rescue {id}   once the problem is solved\n\
             omoi sandbox discard {id}  gives up what only this sandbox holds",
            rescue.tries
        )),
        Place::Wanted | Place::Up => {
            let when = rescue.next_at.map(|at| format!(" {}", moment(Clock::Real.now(), at)));
            Some(format!("{} tries failed; it is tried again{}", rescue.tries, when.unwrap_or_default()))
        }
        Place::Discarded => {
            Some("its work was discarded, and what is left of it is being removed".to_owned())
        }
        Place::Gone => Some("its work was discarded".to_owned()),
        Place::None | Place::Kept => None,
    }
}

pub fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
