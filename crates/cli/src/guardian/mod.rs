//! `omoi guardian`: what is found in the work of agents, what is done about it, and by which policy.

mod policy;
mod show;

use anyhow::Result;
use omoi_protocol::{
    InterventionId, SandboxId,
    guardian::{ApproveIntervention, DismissIntervention, NewNudge},
};

use crate::{Context, connect::Connect};

const EXAMPLES: &str = "\
Examples:
  omoi guardian show                          how well sandboxes do, what is open, what waits for you
  omoi guardian show sbx-...                  one sandbox: what it is at, what was found and done
  omoi guardian nudge sbx-... 'Look at the failing test first'
  omoi guardian judge sbx-...                 asks a model whether it keeps to its task, where the server has one
  omoi guardian approve int-...               makes what was suggested
  omoi guardian dismiss int-... --reason 'It is right to poll here'
  omoi guardian policy show --project shop > policy.yaml
  omoi guardian policy try policy.yaml --project shop
                                              what it would have found and done in the last 24 hours
  omoi guardian policy set policy.yaml --project shop";

/// See what is found in the work of agents, and decide what is done about it
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
    Show(show::Show),
    /// Say something to an agent in the Guardian's place
    Nudge {
        /// As `omoi sandbox list` shows it
        sandbox: SandboxId,
        text: String,
    },
    /// Ask a model whether a sandbox keeps to its task
    Judge {
        /// As `omoi sandbox list` shows it
        sandbox: SandboxId,
    },
    /// Make an intervention that was suggested
    Approve {
        /// As `omoi guardian show` shows it
        id: InterventionId,
        /// Say this in place of what was suggested
        #[arg(long)]
        text: Option<String>,
    },
    /// Drop an intervention that was suggested
    Dismiss {
        /// As `omoi guardian show` shows it
        id: InterventionId,
        #[arg(long)]
        reason: Option<String>,
    },
    Policy(policy::Policy),
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        let made = match self.verb {
            Verb::Show(show) => return show.run(cx, &client).await,
            Verb::Policy(policy) => return policy.run(cx, &client).await,
            Verb::Judge { sandbox } => {
                let asked = client.sandbox_judge(&sandbox).await?;
                return cx.out.answer(&asked, |_| {
                    format!(
                        "{} is {}; `omoi guardian show {sandbox}` tells what came of it",
                        asked.id, asked.state
                    )
                });
            }
            Verb::Nudge { sandbox, text } => client.sandbox_nudge(&sandbox, &NewNudge { text }).await?,
            Verb::Approve { id, text } => {
                client.intervention_approve(&id, &ApproveIntervention { text }).await?
            }
            Verb::Dismiss { id, reason } => {
                client.intervention_dismiss(&id, &DismissIntervention { reason }).await?
            }
        };
        cx.out.answer(&made, |_| match &made.error {
            Some(error) => format!("{} is {}: {error}", made.id, made.state),
            None => format!("{} is {}", made.id, made.state),
        })
    }
}
