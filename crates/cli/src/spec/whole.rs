//! What a spec comes to as a whole: its branch, tasks that exist already, and who is asked.

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{
    DuplicateDecision, SpecId, SpecPhase, TaskId,
    spec::{DecideDuplicate, SetSpecGates, SpecBranch, SpecDuplicate},
};

use crate::{
    Context,
    args::word,
    out::Style,
    project,
    table::{Item, Table, fields, maybe},
};

#[derive(Debug, clap::Args)]
pub struct Branch {
    id: SpecId,
    /// Make it, or make it again, of what is completed by now
    #[arg(long)]
    make: bool,
}

impl Branch {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let branch = if self.make {
            client.spec_branch_make(&self.id).await?;
            client.spec_branch(&self.id).await?
        } else {
            client.spec_branch(&self.id).await?
        };
        cx.out.answer(&branch, |style| show(style, &branch))
    }
}

fn show(style: Style, branch: &SpecBranch) -> String {
    let text = fields([
        ("branch", Some(branch.name.clone())),
        ("state", Some(branch.state.to_string())),
        ("commit", branch.commit.clone()),
        ("base", branch.base_commit.clone()),
        ("error", branch.error.clone()),
        ("checks", branch.check_status.map(|status| status.to_string())),
    ]);
    if branch.merges.is_empty() {
        return text;
    }
    let header = ["task", "outcome", "commit", "why"];
    let table = branch.merges.iter().fold(Table::new(style, &header), |table, merge| {
        let conflicts = merge.conflicts.iter().map(|conflict| {
            let with = conflict.with.as_deref().unwrap_or("the default branch or several together");
            format!("conflicts with {with} in {}", conflict.files.join(", "))
        });
        let without = merge.without.iter().map(|on| format!("builds on {on}"));
        let why: Vec<String> = conflicts.chain(without).collect();
        table.row([
            merge.symbol.as_str().into(),
            Item::Word(merge.outcome.as_str()),
            maybe(merge.commit.as_ref().map(|commit| commit[..commit.len().min(12)].to_owned())),
            why.join("; ").into(),
        ])
    });
    format!("{}\n\n{}", text.trim_end(), table.render().trim_end())
}

#[derive(Debug, clap::Args)]
pub struct Duplicates {
    id: SpecId,
    /// Let an existing task stand in the place of one of the spec
    #[arg(long, num_args = 2, value_names = ["SYMBOL", "TASK"], conflicts_with = "keep")]
    link: Option<Vec<String>>,
    /// One that is other work; it begins
    #[arg(long, value_name = "SYMBOL")]
    keep: Option<String>,
}

impl Duplicates {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let said = match (self.link.as_deref(), self.keep) {
            (Some([symbol, existing]), _) => Some(DecideDuplicate {
                symbol: symbol.clone(),
                decision: DuplicateDecision::Link,
                existing_task_id: Some(existing.parse::<TaskId>()?),
            }),
            (_, Some(symbol)) => {
                Some(DecideDuplicate { symbol, decision: DuplicateDecision::Keep, existing_task_id: None })
            }
            _ => None,
        };
        let found = match said {
            Some(said) => client.spec_duplicate_decide(&self.id, &said).await?.duplicates,
            None => client.spec_duplicates(&self.id).await?,
        };
        cx.out.answer(&found, |style| {
            let header = ["task", "existing", "status", "alike", "decision", "title", "existing title"];
            found
                .iter()
                .fold(Table::new(style, &header), |table, one| {
                    table.row([
                        one.symbol.as_str().into(),
                        one.existing_task_id.to_string().into(),
                        Item::Word(one.existing_status.as_str()),
                        format!("{:.2}", one.similarity).into(),
                        maybe(one.decision),
                        one.title.as_str().into(),
                        one.existing_title.as_str().into(),
                    ])
                })
                .render()
        })
    }
}

/// Which tasks wait for somebody to decide.
pub fn undecided(duplicates: &[SpecDuplicate]) -> Option<String> {
    let mut open: Vec<&str> =
        duplicates.iter().filter(|one| one.decision.is_none()).map(|one| one.symbol.as_str()).collect();
    open.dedup();
    (!open.is_empty()).then(|| format!("{} may exist already; see `omoi spec duplicates`", open.join(" ")))
}

#[derive(Debug, clap::Args)]
pub struct Gates {
    /// By id or name
    project: String,
    /// The phases that wait for a person from now on
    #[arg(value_parser = word!(SpecPhase), ignore_case = true)]
    phases: Vec<SpecPhase>,
    /// Let no phase wait for a person
    #[arg(long, conflicts_with_all = ["phases", "default"])]
    none: bool,
    /// Leave it to Omoi again
    #[arg(long, conflicts_with = "phases")]
    default: bool,
}

impl Gates {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let project = project::find(client, &self.project).await?;
        let said = match (self.phases.is_empty(), self.none, self.default) {
            (false, ..) => Some(Some(self.phases)),
            (_, true, _) => Some(Some(Vec::new())),
            (_, _, true) => Some(None),
            _ => None,
        };
        let gates = match said {
            Some(gates) => client.project_set_gates(&project.id, &SetSpecGates { gates }).await?,
            None => client.project_gates(&project.id).await?,
        };
        cx.out.answer(&gates, |_| {
            let phases: Vec<&str> = gates.effective.iter().map(|phase| phase.as_str()).collect();
            let by = if gates.gates.is_some() { "the project" } else { "Omoi" };
            match phases.is_empty() {
                true => "No phase waits for a person.".to_owned(),
                false => format!("Chosen by {by}: {}", phases.join(" ")),
            }
        })
    }
}
