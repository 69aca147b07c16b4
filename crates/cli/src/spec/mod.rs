//! `omoi spec`: from an idea, phase by phase, to tasks.

mod exchange;
mod whole;

use anyhow::Result;
use omoi_client::{Client, SpecQuery};
use omoi_protocol::{
    SpecFlow, SpecId, SpecPhase, SpecStatus,
    spec::{
        ApprovePhase, ExecuteSpec, NewSpec, PhaseAttempt, PhaseDetail, RequestChanges, SpecCoverage,
        SpecDetail, SpecSummary,
    },
};
use omoi_server::clock::Clock;

use crate::{
    Context,
    args::word,
    connect::Connect,
    out::Style,
    page::{Limit, collect},
    project,
    table::{Item, Table, fields, maybe, number},
    text::{moment, relative, reported},
};

const EXAMPLES: &str = "\
Examples:
  omoi spec new --project shop 'Export orders as CSV' --description 'Accounting wants them every month.'
  omoi spec execute spec-...
  omoi spec show spec-... --phase requirements
  omoi spec approve spec-... requirements --comment 'Good.'
  omoi spec request-changes spec-... design 'No new table, please.'
  omoi spec execute spec-... --from design                redoes that phase and those behind it
  omoi spec duplicates spec-... --link TSK-003 task-...     an existing task stands in its place
  omoi spec branch spec-...                               one branch with the work of all its tasks
  omoi spec gates shop tasks sync                         these phases wait for a person from now on
  omoi spec export spec-... --layout kiro --to ~/src/shop   .kiro/specs/NAME/requirements.md, design.md, tasks.md
  omoi spec import ~/src/shop/.kiro/specs/export --project shop
  omoi demo --spec                                        all of it, without a key";

/// Turn an idea into requirements, a design and tasks, and those into branches
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
    /// Write down an idea
    New {
        /// What is wanted, in one line
        title: String,
        /// The project it is for, by id or name
        #[arg(long, value_name = "PROJECT")]
        project: String,
        /// The idea, in full
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        description: String,
        /// full goes through all phases, quick cuts tasks at once, bugfix shows, traces, mends and guards
        #[arg(long, value_parser = word!(SpecFlow), ignore_case = true, default_value = "full")]
        flow: SpecFlow,
        /// A phase that waits for a person, instead of those that the project says; may be repeated
        #[arg(long = "gate", value_name = "PHASE", value_parser = word!(SpecPhase), ignore_case = true)]
        gates: Vec<SpecPhase>,
        /// Let no phase wait for a person
        #[arg(long, conflicts_with = "gates")]
        no_gates: bool,
    },
    /// List specs
    List {
        /// Only those of this project, by id or name
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
        /// Only those in this state
        #[arg(long, value_parser = word!(SpecStatus), ignore_case = true)]
        status: Option<SpecStatus>,
        /// Those that are archived instead of those that are not
        #[arg(long)]
        archived: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one spec, or what one of its phases came to
    Show {
        /// As `omoi spec list` shows it
        id: SpecId,
        /// The output of this phase, what was found in it and what was said of it
        #[arg(long, value_parser = word!(SpecPhase), ignore_case = true)]
        phase: Option<SpecPhase>,
        /// Which tasks, commits and checks each requirement is covered by
        #[arg(long, conflicts_with = "phase")]
        coverage: bool,
    },
    /// Start a spec, or let it go on; its sandbox is made and this returns at once
    Execute {
        id: SpecId,
        /// Redo this phase and those behind it; those before it stand
        #[arg(long, value_name = "PHASE", value_parser = word!(SpecPhase), ignore_case = true)]
        from: Option<SpecPhase>,
        /// Do not hold its tasks against those that exist
        #[arg(long)]
        no_duplicates: bool,
    },
    /// Approve a phase that waits
    Approve {
        id: SpecId,
        #[arg(value_parser = word!(SpecPhase), ignore_case = true)]
        phase: SpecPhase,
        /// What to say with it
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        comment: String,
    },
    /// Have a phase done again
    RequestChanges {
        id: SpecId,
        #[arg(value_parser = word!(SpecPhase), ignore_case = true)]
        phase: SpecPhase,
        /// What is to be different; the next attempt is told
        comment: String,
    },
    /// Show the branch that holds the work of all tasks, and what conflicts
    Branch(whole::Branch),
    /// Show tasks that may exist already, or decide about one
    Duplicates(whole::Duplicates),
    /// Show or choose which phases of a project's specs wait for a person
    Gates(whole::Gates),
    /// Put a spec away; lists leave it out
    Archive {
        id: SpecId,
    },
    Export(exchange::Export),
    Import(exchange::Import),
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
            Verb::New { title, project, description, flow, gates, no_gates } => {
                let project = project::find(&client, &project).await?;
                let gates = (no_gates || !gates.is_empty()).then_some(gates);
                let new = NewSpec { project_id: Some(project.id), title, description, flow, gates };
                let spec = client.spec_create(&new).await?;
                cx.out.answer(&spec, |style| show(style, &spec))
            }
            Verb::List { project, status, archived, limit } => {
                let project_id = project::find_id(&client, project.as_deref()).await?;
                let query =
                    SpecQuery { project_id, status, archived: Some(archived), ..SpecQuery::default() };
                list(cx, &client, &query, &limit).await
            }
            Verb::Show { id, phase: Some(phase), .. } => {
                let shown = client.spec_phase(&id, phase).await?;
                cx.out.answer(&shown, |_| show_phase(&shown))
            }
            Verb::Show { id, coverage: true, .. } => {
                let coverage = client.spec_coverage(&id).await?;
                cx.out.answer(&coverage, |style| show_coverage(style, &coverage))
            }
            Verb::Show { id, .. } => {
                let spec = client.spec_get(&id).await?;
                cx.out.answer(&spec, |style| show(style, &spec))
            }
            Verb::Execute { id, from, no_duplicates } => {
                let asked = ExecuteSpec { resume_from_phase: from, enable_embeddings: !no_duplicates };
                let begun = client.spec_execute(&id, &asked).await?;
                cx.out.answer(&begun, |_| begun.message.clone())
            }
            Verb::Approve { id, phase, comment } => {
                let spec = client.spec_approve(&id, &ApprovePhase { phase, comment, version: None }).await?;
                cx.out.answer(&spec, |style| show(style, &spec))
            }
            Verb::RequestChanges { id, phase, comment } => {
                let said = RequestChanges { phase, comment, version: None };
                let spec = client.spec_request_changes(&id, &said).await?;
                cx.out.answer(&spec, |style| show(style, &spec))
            }
            Verb::Branch(branch) => branch.run(cx, &client).await,
            Verb::Duplicates(duplicates) => duplicates.run(cx, &client).await,
            Verb::Gates(gates) => gates.run(cx, &client).await,
            Verb::Archive { id } => {
                let spec = client.spec_archive(&id).await?;
                cx.out.answer(&spec, |style| show(style, &spec))
            }
            Verb::Export(export) => export.run(cx, &client).await,
            Verb::Import(import) => {
                let spec = import.run(&client).await?;
                cx.out.answer(&spec, |style| show(style, &spec))
            }
        }
    }
}

async fn list(cx: &Context, client: &Client, query: &SpecQuery, limit: &Limit) -> Result<()> {
    let fetch = async |size, cursor| {
        client.spec_list(&SpecQuery { limit: Some(size), cursor, ..query.clone() }).await
    };
    let page = collect(limit.get(), fetch).await?;
    cx.out.answer(&page, |style| {
        let header = ["id", "status", "phase", "flow", "score", "cost", "updated", "title"];
        page.items.iter().fold(Table::new(style, &header), row).render()
    })?;
    limit.tell(cx, &page);
    Ok(())
}

/// What a phase came to, what was found in it and what was said of it.
fn show_phase(shown: &PhaseDetail) -> String {
    let PhaseAttempt { phase, attempt, state, score, findings, .. } = &shown.attempt;
    let score = score.map(|score| format!(", score {score:.2}")).unwrap_or_default();
    let found = findings.iter().map(|one| format!("\n{} at {}: {}", one.severity, one.at, one.text));
    let comments = shown.comments.iter();
    let said = comments.map(|one| format!("\n{} by {}: {}", one.decision, one.actor, one.comment));
    let rest: String = found.chain(said).collect();
    let output = shown.markdown.as_deref().unwrap_or("It has put out nothing yet.");
    format!("{phase}, attempt {attempt}: {state}{score}{rest}\n\n{output}")
}

fn show_coverage(style: Style, coverage: &SpecCoverage) -> String {
    let header = ["requirement", "status", "tasks", "title"];
    let table = coverage.rows.iter().fold(Table::new(style, &header), |table, row| {
        let tasks: Vec<&str> = row.tasks.iter().map(|task| task.key.as_str()).collect();
        table.row([
            row.requirement.as_str().into(),
            row.status.as_str().into(),
            tasks.join(" ").into(),
            row.title.as_str().into(),
        ])
    });
    format!("{}\n{} % proven", table.render().trim_end(), coverage.proven_percent)
}

fn row(table: Table, row: &SpecSummary) -> Table {
    let spec = &row.spec;
    table.row([
        spec.id.to_string().into(),
        Item::Word(spec.status.as_str()),
        Item::Word(spec.current_phase.as_str()),
        Item::Word(spec.flow.as_str()),
        maybe(row.score.map(|score| format!("{score:.2}"))),
        format!("${:.2}", row.cost_usd).into(),
        relative(Clock::Real.now(), spec.updated_at).into(),
        spec.title.as_str().into(),
    ])
}

fn show(style: Style, detail: &SpecDetail) -> String {
    let (spec, now) = (&detail.spec, Clock::Real.now());
    let gates: Vec<&str> = spec.gates.iter().map(|gate| gate.as_str()).collect();
    let mut text = fields([
        ("id", Some(spec.id.to_string())),
        ("title", Some(spec.title.clone())),
        ("status", Some(format!("{} at {}, {} %", spec.status, spec.current_phase, detail.progress))),
        ("error", spec.last_error.clone()),
        ("flow", Some(spec.flow.to_string())),
        ("gates", Some(gates.join(" ")).filter(|gates| !gates.is_empty())),
        ("project", spec.project_id.as_ref().map(ToString::to_string)),
        ("branch", detail.branch.as_ref().map(|branch| format!("{} ({})", branch.name, branch.state))),
        ("duplicates", whole::undecided(&detail.duplicates)),
        ("version", Some(spec.version.to_string())),
        ("cost", Some(format!("${:.2}", detail.cost_usd))),
        ("as reported", reported(detail.reported_cost.as_ref(), detail.cost_usd)),
        ("updated", Some(moment(now, spec.updated_at))),
        ("description", Some(spec.description.clone()).filter(|text| !text.is_empty())),
    ]);
    if !detail.phases.is_empty() {
        let header = ["phase", "attempt", "state", "score", "sandbox"];
        let table = detail.phases.iter().fold(Table::new(style, &header), |table, one| {
            table.row([
                Item::Word(one.phase.as_str()),
                number(&one.attempt),
                Item::Word(one.state.as_str()),
                maybe(one.score.map(|score| format!("{score:.2}"))),
                maybe(one.sandbox_id.as_ref()),
            ])
        });
        text = format!("{}\n\n{}", text.trim_end(), table.render().trim_end());
    }
    if !detail.items.is_empty() {
        let header = ["item", "status", "task or ticket", "title"];
        let table = detail.items.iter().fold(Table::new(style, &header), |table, item| {
            let id = item
                .task_id
                .as_ref()
                .map(ToString::to_string)
                .or(item.ticket_id.as_ref().map(ToString::to_string));
            table.row([
                item.symbol.as_str().into(),
                maybe(item.status),
                maybe(id),
                item.title.as_str().into(),
            ])
        });
        text = format!("{}\n\n{}", text.trim_end(), table.render().trim_end());
    }
    text
}
