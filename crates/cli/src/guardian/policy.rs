//! Policies of projects.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use omoi_client::Client;
use omoi_protocol::guardian::{PolicyTried, PutPolicy, TryPolicy};

use crate::{
    Context,
    out::Style,
    project,
    table::{Table, maybe},
    text::short,
};

const TEXT_CHARS_MAX: usize = 70;

/// Show, change or try what is found and done in a project
#[derive(Debug, clap::Args)]
pub struct Policy {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print the policy that holds
    Show {
        #[command(flatten)]
        of: Of,
    },
    /// Give a project a policy of its own
    Set {
        /// A YAML file
        file: PathBuf,
        #[command(flatten)]
        of: Of,
    },
    /// Let a project have the usual policy again
    Reset {
        #[command(flatten)]
        of: Of,
    },
    /// Say what a policy would have found and done in the last 24 hours
    Try {
        /// A YAML file; without it, the policy that holds
        file: Option<PathBuf>,
        #[command(flatten)]
        of: Of,
    },
}

#[derive(Debug, clap::Args)]
struct Of {
    /// By id or name
    #[arg(long, value_name = "PROJECT")]
    project: String,
}

impl Policy {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let (Verb::Show { of } | Verb::Set { of, .. } | Verb::Reset { of } | Verb::Try { of, .. }) =
            &self.verb;
        let id = project::find(client, &of.project).await?.id;
        let policy = match &self.verb {
            Verb::Show { .. } => {
                let policy = client.policy_get(&id).await?;
                return cx.out.answer(&policy, |_| policy.text.clone());
            }
            Verb::Try { file, .. } => {
                let text = file.as_deref().map(read).transpose()?;
                let tried = client.policy_try(&id, &TryPolicy { text }).await?;
                return cx.out.answer(&tried, |style| render(style, &tried));
            }
            Verb::Set { file, .. } => {
                client.policy_put(&id, &PutPolicy { text: read(file)?, version: None }).await?
            }
            Verb::Reset { .. } => client.policy_reset(&id).await?,
        };
        cx.out.answer(&policy, |_| {
            format!(
                "{id} has policy version {} ({}), steering {}",
                policy.version, policy.source, policy.steering
            )
        })
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn render(style: Style, tried: &PolicyTried) -> String {
    let header = ["sandbox", "event", "kind", "severity", "would", "what"];
    let mut table = Table::new(style, &header);
    for run in &tried.runs {
        for one in &run.findings {
            let would = one.action.map(|action| match (one.mode, one.held) {
                (_, Some(held)) => format!("note ({held})"),
                (Some(mode), None) => format!("{mode} {action}"),
                (None, None) => action.to_string(),
            });
            table = table.row([
                run.sandbox_id.to_string().into(),
                maybe(one.seqs.last().map(ToString::to_string)),
                one.kind.as_str().into(),
                one.severity.as_str().into(),
                maybe(would),
                short(&one.text, TEXT_CHARS_MAX).into(),
            ]);
        }
    }
    let found: i64 = tried.findings.values().sum();
    let made: i64 = tried.interventions.values().sum();
    let more = if tried.truncated { "; there is more than was looked at" } else { "" };
    let total = format!(
        "{} sandboxes, {} events: {found} findings, {made} interventions{more}\n",
        tried.sandboxes, tried.events
    );
    format!("{total}{}", table.render())
}
