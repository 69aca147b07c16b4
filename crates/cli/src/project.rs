//! `omoi project`: Git repositories and their settings.

use anyhow::Result;
use omoi_protocol::{
    ProjectId,
    project::{NewProject, Project},
};
use omoi_server::clock::Clock;
use serde_json::Map;

use crate::{
    Context,
    connect::Connect,
    page::{Limit, collect},
    table::{Table, fields, maybe},
    text::{moment, relative},
};

const EXAMPLES: &str = "\
Examples:
  omoi project create shop --repository https://example.org/shop.git
  omoi project list
  omoi project show prj-... --json";

/// Create, list and show projects
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
    /// Create a project
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
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one project in full
    Show {
        /// As `omoi project list` shows it
        id: ProjectId,
    },
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
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
            Verb::List { limit } => {
                let fetch =
                    async |size, cursor: Option<String>| client.project_list(size, cursor.as_deref()).await;
                let page = collect(limit.get(), fetch).await?;
                cx.out.answer(&page, |style| {
                    let header = ["id", "name", "branch", "repository", "created"];
                    page.items.iter().fold(Table::new(style, &header), row).render()
                })?;
                limit.tell(cx, &page);
                Ok(())
            }
            Verb::Show { id } => {
                let project = client.project_get(&id).await?;
                cx.out.answer(&project, |_| show(&project))
            }
        }
    }
}

fn row(table: Table, project: &Project) -> Table {
    table.row([
        project.id.to_string().into(),
        project.name.as_str().into(),
        project.default_branch.as_str().into(),
        maybe(project.repository_url.as_deref()),
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
        ("archived", project.archived.then(|| "yes".to_owned())),
        ("created", Some(moment(now, project.created_at))),
        ("updated", Some(moment(now, project.updated_at))),
        ("description", Some(project.description.clone()).filter(|text| !text.is_empty())),
    ])
}
