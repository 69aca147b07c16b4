//! `omoi project`: Git repositories and their settings.

mod add;

pub use add::of_directory;

use anyhow::Result;
use omoi_client::{Client, SandboxQuery};
use omoi_protocol::{
    ProjectId,
    project::{NewProject, Project, ProjectPatch},
};
use omoi_server::clock::Clock;
use serde_json::Map;

use crate::{
    Context,
    connect::Connect,
    failure::{NOT_FOUND, Stop},
    page::{Limit, collect, collect_if},
    table::{Table, fields, maybe},
    text::{moment, relative},
};

const EXAMPLES: &str = "\
Examples:
  omoi project add ~/src/shop
  omoi project add https://example.org/shop.git --allow-host crates.io --allow-host '*.crates.io' --budget-usd 20
  omoi project list
  omoi project show shop --json
  omoi project remove shop";

/// More projects than this are looked through for a name by nobody.
const PROJECTS_MAX: usize = 100_000;

/// Add, list, show and remove projects
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
    Add(add::Add),
    /// Create a project by its name, with a repository or without
    Create {
        /// What people call it
        name: String,
        /// Where the repository is fetched from
        #[arg(long, value_name = "URL")]
        repository: Option<String>,
        /// The branch that work starts from
        #[arg(long, default_value = "main")]
        branch: String,
        /// What it is about
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        description: String,
        /// How many of its tasks may be worked on at once
        #[arg(long, value_name = "N")]
        max_concurrent: Option<i64>,
    },
    /// List projects
    List {
        /// Removed ones too
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one project in full
    Show {
        /// Its id or name
        project: String,
    },
    /// Take a project out of use; what was done in it stays
    Remove {
        /// Its id or name
        project: String,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
            Verb::Add(add) => add.run(cx, &client).await,
            Verb::Create { name, repository, branch, description, max_concurrent } => {
                let new = NewProject {
                    name,
                    description,
                    repository_url: repository,
                    default_branch: branch,
                    max_concurrent,
                    settings: Map::new(),
                };
                let project = client.project_create(&new).await?;
                cx.out.answer(&project, |_| show(&project))
            }
            Verb::List { all, limit } => {
                let fetch =
                    async |size, cursor: Option<String>| client.project_list(size, cursor.as_deref()).await;
                let page = collect_if(limit.get(), |project| all || !project.archived, fetch).await?;
                cx.out.answer(&page, |style| {
                    let header = ["id", "name", "branch", "repository", "created"];
                    page.items.iter().fold(Table::new(style, &header), row).render()
                })?;
                limit.tell(cx, &page);
                Ok(())
            }
            Verb::Show { project } => {
                let project = find(&client, &project).await?;
                cx.out.answer(&project, |_| show(&project))
            }
            Verb::Remove { project } => remove(cx, &client, &project).await,
        }
    }
}

async fn remove(cx: &Context, client: &Client, wanted: &str) -> Result<()> {
    let project = find(client, wanted).await?;
    let patch = ProjectPatch { archived: Some(true), ..ProjectPatch::default() };
    let project = client.project_patch(&project.id, &patch).await?;
    cx.out.answer(&project, |_| format!("removed {} ({})", project.name, project.id))?;
    if cx.out.is_json() {
        return Ok(());
    }
    cx.out.note("its tickets, tasks, events and branches stay, and so does its name; `omoi project add` brings it back");
    let query = SandboxQuery { project_id: Some(project.id), live: Some(true), ..SandboxQuery::default() };
    for sandbox in client.sandbox_list(&query).await?.items {
        cx.out.note(&format!("{} goes on; `omoi sandbox terminate {}` ends it", sandbox.id, sandbox.id));
    }
    Ok(())
}

/// The project of this id or name.
pub async fn find(client: &Client, wanted: &str) -> Result<Project> {
    if let Ok(id) = wanted.parse() {
        match client.project_get(&id).await {
            Err(error) if error.status() == Some(404) => {}
            found => return Ok(found?),
        }
    }
    let named = by_name(client, wanted).await?;
    named.ok_or_else(|| {
        let absent = Stop::new(NOT_FOUND, format!("there is no project {wanted:?}"));
        absent.hint("`omoi project list` shows those there are, `omoi project add` adds one").into()
    })
}

/// The id of such a project, where one is named: nothing of an unknown one is no answer.
pub async fn find_id(client: &Client, wanted: Option<&str>) -> Result<Option<ProjectId>> {
    match wanted {
        Some(wanted) => Ok(Some(find(client, wanted).await?.id)),
        None => Ok(None),
    }
}

async fn by_name(client: &Client, name: &str) -> Result<Option<Project>> {
    Ok(all(client).await?.into_iter().find(|project| project.name == name))
}

async fn all(client: &Client) -> Result<Vec<Project>> {
    let fetch = async |size, cursor: Option<String>| client.project_list(size, cursor.as_deref()).await;
    Ok(collect(PROJECTS_MAX, fetch).await?.items)
}

fn row(table: Table, project: &Project) -> Table {
    table.row([
        project.id.to_string().into(),
        project.name.as_str().into(),
        project.default_branch.as_str().into(),
        match (&project.repository_url, project.archived) {
            (url, false) => maybe(url.as_deref()),
            (url, true) => format!("removed; was {}", url.as_deref().unwrap_or("without one")).into(),
        },
        relative(Clock::Real.now(), project.created_at).into(),
    ])
}

fn show(project: &Project) -> String {
    let now = Clock::Real.now();
    fields([
        ("id", Some(project.id.to_string())),
        ("name", Some(project.name.clone())),
        ("repository", project.repository_url.clone()),
        ("branch", Some(project.default_branch.clone())),
        ("at once", project.max_concurrent.map(|n| n.to_string())),
        ("hosts", hosts(project)),
        ("budget", project.settings.get("budget_usd").map(|usd| format!("${usd}"))),
        ("removed", project.archived.then(|| "yes".to_owned())),
        ("created", Some(moment(now, project.created_at))),
        ("updated", Some(moment(now, project.updated_at))),
        ("description", Some(project.description.clone()).filter(|text| !text.is_empty())),
    ])
}

/// Where its sandboxes may connect to.
fn hosts(project: &Project) -> Option<String> {
    let hosts = project.settings.get("egress_allow")?.as_array()?;
    Some(hosts.iter().filter_map(|host| host.as_str()).collect::<Vec<_>>().join("\n"))
}
