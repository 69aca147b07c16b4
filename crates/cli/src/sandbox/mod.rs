//! `omoi sandbox`: attempts at tasks, what happens in them, and what is said to them.

mod attach;
mod compare;
mod describe;
mod events;
mod prune;
mod send;
mod show;

use anyhow::Result;
use omoi_protocol::SandboxId;

use crate::{Context, connect::Connect, out::clean, table::fields};

const EXAMPLES: &str = "\
Examples:
  omoi sandbox list --live
  omoi sandbox events sbx-... --follow --type agent.tool_use
  omoi sandbox send sbx-... 'Leave the tests alone' --wait
  omoi sandbox send sbx-... 'Stop' --type interrupt
  omoi sandbox compare sbx-... sbx-...
  omoi sandbox prune --older-than 7d --dry-run
  omoi sandbox attach --task task-... --label host=laptop";

/// List, watch, steer, compare, prune and attach sandboxes
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
    List(show::List),
    /// Show one sandbox in full
    Show {
        /// As `omoi sandbox list` shows it
        id: SandboxId,
    },
    Events(events::Events),
    Trajectory(events::Trajectory),
    /// Print the events as readable lines, oldest first
    Logs {
        /// As `omoi sandbox list` shows it
        id: SandboxId,
        /// Only the last so many lines
        #[arg(long, value_name = "N")]
        tail: Option<usize>,
    },
    Send(send::Send),
    /// Show two sandboxes side by side: their events by type, and how long they took
    Compare {
        /// The one to compare with
        a: SandboxId,
        /// The one whose differences are told
        b: SandboxId,
    },
    Prune(prune::Prune),
    Attach(attach::Attach),
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
            Verb::List(list) => list.run(cx, &client).await,
            Verb::Show { id } => {
                let sandbox = client.sandbox_get(&id).await?;
                cx.out.answer(&sandbox, |_| fields(show::pairs(&sandbox)))
            }
            Verb::Events(events) => events.run(cx, &client).await,
            Verb::Trajectory(trajectory) => trajectory.run(cx, &client).await,
            Verb::Logs { id, tail } => {
                let logs = client.sandbox_logs(&id, tail).await?;
                cx.out.answer(&logs, |_| clean(&logs))
            }
            Verb::Send(send) => send.run(cx, &client).await,
            Verb::Compare { a, b } => compare::run(cx, &client, &a, &b).await,
            Verb::Prune(prune) => prune.run(cx, &client).await,
            Verb::Attach(attach) => attach.run(cx, &client).await,
        }
    }
}
