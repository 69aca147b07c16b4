//! `omoi task`: units of agent work.

mod watch;

use std::time::Duration;

use anyhow::Result;
use omoi_client::{Client, TaskQuery};
use omoi_protocol::{
    DependencyPolicy, Priority, ProjectId, Stage, TaskId, TaskStatus, TicketId,
    sandbox::NewSandbox,
    task::{AttemptMade, Evidence, NewTask, Reason, Task},
};
use omoi_server::clock::Clock;
use serde::Serialize;

use crate::{
    Context,
    args::word,
    connect::Connect,
    import,
    page::{Limit, collect},
    project::find_id,
    run::checks,
    table::{Item, Table, fields, maybe},
    text::{moment, parse_span, relative, reported},
};

const EXAMPLES: &str = "\
Examples:
  omoi task create --project shop 'Fix the parser'
  omoi task create --ticket tkt-... --priority high --depends-on task-... 'Write the docs'
  omoi task import plan.yaml --project shop
  omoi task list --status failed
  omoi task watch task-...
  omoi task retry task-...
  omoi task cancel task-... task-... --reason 'not wanted any more'";

/// Create, import, list, show, watch, cancel and retry tasks
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create a task
    Create(Box<Create>),
    /// Create tasks that depend on each other, from a file
    ///
    /// The file is YAML or JSON: a list of tasks, each with a key and a title, or that list under `tasks`. What a
    /// task depends on is named in `depends_on`, by key or by id. All of them are made, or none.
    Import(import::Import),
    /// List tasks
    List {
        /// Only those in this state
        #[arg(long, value_parser = word!(TaskStatus), ignore_case = true)]
        status: Option<TaskStatus>,
        /// Only those of this project, by id or name
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Only those of this ticket
        #[arg(long, value_name = "ID")]
        ticket: Option<TicketId>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one task in full
    Show {
        /// As `omoi task list` shows it
        id: TaskId,
    },
    Watch(watch::Watch),
    /// Cancel tasks; a sandbox that holds one is ended
    Cancel {
        /// One or more
        #[arg(required = true, value_name = "ID")]
        ids: Vec<TaskId>,
        /// Why, for those who look later
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Start pending tasks now, whatever their project and the limits say
    Start {
        /// One or more
        #[arg(required = true, value_name = "ID")]
        ids: Vec<TaskId>,
    },
    /// Offer failed or cancelled tasks again
    Retry {
        /// One or more
        #[arg(required = true, value_name = "ID")]
        ids: Vec<TaskId>,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// What is to be done, in one line
    title: String,
    /// The project it belongs to, by id or name; a ticket's task has its ticket's
    #[arg(long, value_name = "PROJECT", required_unless_present = "ticket")]
    project: Option<String>,
    /// The ticket it is part of
    #[arg(long, value_name = "ID")]
    ticket: Option<TicketId>,
    /// What is to be done, in full, as the agent is told
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    description: String,
    /// What kind of work it is
    #[arg(long = "type", value_name = "TYPE", default_value = "implementation")]
    task_type: String,
    /// Which phase of its ticket it is in
    #[arg(long, default_value = "PHASE_IMPLEMENTATION", value_name = "PHASE")]
    phase: String,
    /// How soon it is wanted
    #[arg(long, value_parser = word!(Priority), ignore_case = true, default_value = "MEDIUM")]
    priority: Priority,
    /// A task that must be completed first; may be given more than once
    #[arg(long, value_name = "ID")]
    depends_on: Vec<TaskId>,
    /// What becomes of it when one of those fails
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = word!(DependencyPolicy),
        ignore_case = true,
        default_value = "block"
    )]
    if_dependency_fails: DependencyPolicy,
    /// What an attached agent must be able to do; may be given more than once
    #[arg(long, value_name = "CAPABILITY")]
    requires: Vec<String>,
    /// Attempts after the first
    #[arg(long, value_name = "N")]
    max_retries: Option<i64>,
    /// How long one attempt may take, such as 30m
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    timeout: Option<Duration>,
}

impl Args {
    pub fn answers_signals(&self) -> bool {
        matches!(self.verb, Verb::Watch(_))
    }

    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
            Verb::Create(create) => {
                let project = find_id(&client, create.project.as_deref()).await?;
                let task = client.task_create(&create.wish(project)).await?;
                cx.out.answer(&task, |_| show(&task))
            }
            Verb::Import(import) => import.run(cx, &client).await,
            Verb::List { status, project, ticket, limit } => {
                let project_id = find_id(&client, project.as_deref()).await?;
                let query = TaskQuery { status, project_id, ticket_id: ticket, ..TaskQuery::default() };
                list(cx, &client, &query, &limit).await
            }
            Verb::Show { id } => {
                let task = client.task_get(&id).await?;
                let evidence = client.task_evidence(&id).await?;
                cx.out.answer(&Shown { task: &task, evidence: &evidence }, |_| {
                    format!("{}\n{}", show(&task), prove(&evidence))
                })
            }
            Verb::Watch(watch) => Box::pin(watch.run(cx, &client)).await,
            Verb::Cancel { ids, reason } => {
                let reason = Reason { reason };
                each(cx, &ids, async |id| client.task_cancel(id, &reason).await).await
            }
            Verb::Start { ids } => start(cx, &client, &ids).await,
            Verb::Retry { ids } => each(cx, &ids, async |id| client.task_retry(id).await).await,
        }
    }
}

async fn list(cx: &Context, client: &Client, query: &TaskQuery, limit: &Limit) -> Result<()> {
    let fetch = async |size, cursor| {
        client.task_list(&TaskQuery { limit: Some(size), cursor, ..query.clone() }).await
    };
    let page = collect(limit.get(), fetch).await?;
    cx.out.answer(&page, |style| {
        let header = ["id", "status", "priority", "sandbox", "updated", "title"];
        page.items.iter().fold(Table::new(style, &header), row).render()
    })?;
    limit.tell(cx, &page);
    Ok(())
}

/// Does the same to several tasks and says what became of each, up to the first that is refused.
async fn each(
    cx: &Context,
    ids: &[TaskId],
    act: impl AsyncFn(&TaskId) -> Result<Task, omoi_client::Error>,
) -> Result<()> {
    for id in ids {
        let task = act(id).await?;
        cx.out.item(&task, |_| format!("{} is {}", task.id, task.status))?;
    }
    Ok(())
}

async fn start(cx: &Context, client: &Client, ids: &[TaskId]) -> Result<()> {
    for id in ids {
        let sandbox = client.task_start(id, &NewSandbox::default()).await?;
        cx.out.item(&sandbox, |_| format!("{id} has {}", sandbox.id))?;
    }
    Ok(())
}

impl Create {
    fn wish(self, project_id: Option<ProjectId>) -> NewTask {
        NewTask {
            project_id,
            ticket_id: self.ticket,
            description: self.description,
            task_type: self.task_type,
            phase_id: self.phase,
            priority: self.priority,
            dependencies: self.depends_on,
            dependency_policy: self.if_dependency_fails,
            required_capabilities: self.requires,
            max_retries: self.max_retries,
            timeout_seconds: self.timeout.map(|limit| limit.as_secs().try_into().unwrap_or(i64::MAX)),
            ..NewTask::plain(self.title)
        }
    }
}

fn row(table: Table, task: &Task) -> Table {
    table.row([
        task.id.to_string().into(),
        Item::Word(task.status.as_str()),
        Item::Word(task.priority.as_str()),
        maybe(task.sandbox_id.as_ref()),
        relative(Clock::Real.now(), task.updated_at).into(),
        task.title.as_str().into(),
    ])
}

/// A task with what proves it, as one object.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    task: &'a Task,
    evidence: &'a Evidence,
}

fn prove(evidence: &Evidence) -> String {
    let attempt = |one: &AttemptMade| {
        let why = one.end_reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("{} {} {}{why}", one.sandbox_id, one.stage, one.status)
    };
    let attempts: Vec<String> = evidence.attempts.iter().map(attempt).collect();
    fields([
        ("proof", Some(evidence.verification.to_string())),
        ("commit", evidence.commit.clone()),
        ("checks", checks(&evidence.checks)),
        ("attempts", Some(attempts.join("\n")).filter(|text| !text.is_empty())),
    ])
}

fn show(task: &Task) -> String {
    let now = Clock::Real.now();
    let when = |at: Option<jiff::Timestamp>| at.map(|at| moment(now, at));
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let waits_for: Vec<_> = task.dependencies.iter().map(ToString::to_string).collect();
    fields([
        ("id", Some(task.id.to_string())),
        ("title", text(&task.title)),
        ("status", Some(task.status.to_string())),
        ("stage", (task.stage == Stage::Check).then(|| "its checks".to_owned())),
        ("priority", Some(format!("{} (score {:.2})", task.priority, task.score))),
        ("project", Some(task.project_id.to_string())),
        ("ticket", task.ticket_id.as_ref().map(ToString::to_string)),
        ("type", text(&task.task_type)),
        ("phase", text(&task.phase_id)),
        ("sandbox", task.sandbox_id.as_ref().map(ToString::to_string)),
        ("agent", task.assigned_agent_id.as_ref().map(ToString::to_string)),
        ("branch", task.branch_name.clone()),
        ("waits for", text(&waits_for.join("\n"))),
        ("retries", Some(format!("{} of {}", task.retry_count, task.max_retries))),
        ("cost", Some(format!("${:.2}", task.cost_usd))),
        ("as reported", reported(task.reported_cost.as_ref(), task.cost_usd)),
        ("waits", task.waiting_reason.clone()),
        ("not before", when(task.not_before)),
        ("has no sandbox", task.waiting_for.as_ref().map(|waiting| waiting.text.clone())),
        ("failure", task.failure_kind.map(|kind| kind.to_string())),
        ("error", task.error_message.clone()),
        ("created", when(Some(task.created_at))),
        ("started", when(task.started_at)),
        ("completed", when(task.completed_at)),
        ("result", task.result.as_ref().map(ToString::to_string)),
        ("description", text(&task.description)),
    ])
}
