//! `omoi sandbox`: attempts at tasks, what happens in them, and what is said to them.

mod attach;
mod compare;
mod create;
mod decide;
pub mod describe;
mod events;
mod exec;
pub mod follow;
mod logs;
mod prune;
mod send;
mod show;
mod terminate;
pub mod told;
pub mod watch;

use anyhow::Result;
use omoi_protocol::SandboxId;

use crate::{Context, connect::Connect, table::fields};

const EXAMPLES: &str = "\
Examples:
  omoi sandbox create --project shop -- make test
  omoi sandbox exec sbx-... -- git log --oneline
  omoi sandbox logs sbx-... --follow
  omoi sandbox terminate sbx-... --wait
  omoi sandbox list --live
  omoi sandbox events sbx-... --follow --type agent.tool_use
  omoi sandbox send sbx-... 'Leave the tests alone' --wait
  omoi sandbox send sbx-... 'Stop' --type interrupt
  omoi sandbox compare sbx-... sbx-...
  omoi sandbox compare --project shop
  omoi sandbox prune --older-than 7d --dry-run
  omoi sandbox list --unkept
  omoi sandbox rescue sbx-...
  omoi sandbox discard sbx-...
  omoi sandbox attach --task task-... --label host=laptop";

/// Make, use, list, watch, steer, compare, end and attach sandboxes
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
    Create(create::Create),
    Exec(exec::Exec),
    Terminate(terminate::Terminate),
    List(show::List),
    /// Show one sandbox in full
    Show {
        /// As `omoi sandbox list` shows it
        id: SandboxId,
    },
    Events(events::Events),
    Trajectory(events::Trajectory),
    Logs(logs::Logs),
    Send(send::Send),
    Compare(compare::Compare),
    Prune(prune::Prune),
    Rescue(decide::Rescue),
    Discard(decide::Discard),
    Attach(attach::Attach),
}

impl Args {
    pub fn answers_signals(&self) -> bool {
        match &self.verb {
            Verb::Create(create) => create.watches(),
            Verb::Exec(_) => true,
            Verb::Terminate(terminate) => terminate.waits(),
            Verb::Discard(discard) => discard.asks(),
            Verb::List(_)
            | Verb::Show { .. }
            | Verb::Events(_)
            | Verb::Trajectory(_)
            | Verb::Logs(_)
            | Verb::Send(_)
            | Verb::Compare(_)
            | Verb::Prune(_)
            | Verb::Rescue(_)
            | Verb::Attach(_) => false,
        }
    }

    pub async fn run(self, cx: &Context) -> Result<()> {
        let client = self.connect.client()?;
        match self.verb {
            Verb::Create(create) => Box::pin(create.run(cx, &client)).await,
            Verb::Exec(exec) => Box::pin(exec.run(cx, &client)).await,
            Verb::Terminate(terminate) => Box::pin(terminate.run(cx, &client)).await,
            Verb::List(list) => list.run(cx, &client).await,
            Verb::Show { id } => {
                let sandbox = client.sandbox_get(&id).await?;
                cx.out.answer(&sandbox, |_| fields(show::pairs(&sandbox)))
            }
            Verb::Events(events) => events.run(cx, &client).await,
            Verb::Trajectory(trajectory) => trajectory.run(cx, &client).await,
            Verb::Logs(logs) => logs.run(cx, &client).await,
            Verb::Send(send) => send.run(cx, &client).await,
            Verb::Compare(compare) => compare.run(cx, &client).await,
            Verb::Prune(prune) => prune.run(cx, &client).await,
            Verb::Rescue(rescue) => rescue.run(cx, &client).await,
            Verb::Discard(discard) => discard.run(cx, &client).await,
            Verb::Attach(attach) => attach.run(cx, &client).await,
        }
    }
}
