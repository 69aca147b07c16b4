//! A person's decision about a sandbox whose work could not be kept: have it rescued again, or discard it.

use std::io::{IsTerminal, stdin};

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{Place, SandboxId, sandbox::Sandbox, task::Reason};
use tokio::sync::oneshot;

use super::show::size;
use crate::{
    Context,
    failure::{Code, FAILED, INTERRUPTED, Stop, USAGE},
    out::clean,
    table::fields,
};

/// Try again to keep the work of ended sandboxes
///
/// For sandboxes whose rescue failed. Each is tried at once, as often as after its end (sandbox.rescue_tries). This command
/// does not wait; `omoi sandbox show` tells what became of it.
#[derive(Debug, clap::Args)]
pub struct Rescue {
    /// As `omoi sandbox list --unkept` shows them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<SandboxId>,
}

impl Rescue {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        for id in &self.ids {
            let sandbox = client.sandbox_rescue(id).await?;
            cx.out.item(&sandbox, |_| {
                format!("another rescue of {id} was requested; `omoi sandbox show {id}` shows the result")
            })?;
        }
        Ok(())
    }
}

/// Discard the work of an ended sandbox that could not be kept
///
/// Removes its disk. What no branch and no preserved ref holds is lost for good. Only for a sandbox that the server has
/// given up on: its place is `unkept`.
#[derive(Debug, clap::Args)]
pub struct Discard {
    /// As `omoi sandbox list --unkept` shows it
    id: SandboxId,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Why, for those who read about it later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Discard {
    /// Whether it asks before it discards, so that Ctrl-C is an answer.
    pub fn asks(&self) -> bool {
        !self.yes
    }

    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        if !self.yes {
            let sandbox = client.sandbox_get(&self.id).await?;
            // The server says why any other cannot be discarded.
            if sandbox.place == Place::Unkept && !confirmed(cx, &sandbox).await? {
                return Err(Stop::new(FAILED, format!("{} is not discarded", self.id)).into());
            }
        }
        let sandbox = client.sandbox_discard(&self.id, &Reason { reason: self.reason }).await?;
        cx.out.answer(&sandbox, |_| format!("{} is discarded\n{}", sandbox.id, loss(&sandbox)))
    }
}

async fn confirmed(cx: &Context, sandbox: &Sandbox) -> Result<bool> {
    let id = &sandbox.id;
    if cx.out.is_json() || !stdin().is_terminal() {
        let stop = Stop::new(
            USAGE,
            format!("discarding {id} loses its work for good, and nobody can be asked here"),
        );
        return Err(stop.hint(format!("`omoi sandbox discard {id} --yes` does not ask")).into());
    }
    cx.out.note(&clean(&format!("Everything that only {id} holds is lost for good:")));
    cx.out.note(loss(sandbox).trim_end());
    cx.out.note("Discard it? [y/N]");
    let (answer, answered) = oneshot::channel();
    // A thread of its own: the runtime would wait for the answer when the program ends.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = stdin().read_line(&mut line);
        let _ = answer.send(line);
    });
    tokio::select! {
        line = answered => Ok(is_yes(&line.unwrap_or_default())),
        _ = cx.signals.next() => Err(Code(INTERRUPTED).into()),
    }
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// What is lost with a sandbox.
fn loss(sandbox: &Sandbox) -> String {
    let rescue = sandbox.rescue.as_ref();
    fields([
        ("branch", sandbox.branch_name.clone()),
        ("base", sandbox.base_commit.clone()),
        ("task", sandbox.task_id.as_ref().map(ToString::to_string)),
        ("not kept", rescue.map(|rescue| rescue.error.clone())),
        ("tries", rescue.map(|rescue| rescue.tries.to_string())),
        ("disk", rescue.and_then(|rescue| rescue.disk_bytes).map(size)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_discards() {
        for (line, yes) in
            [("y\n", true), (" YES \n", true), ("\n", false), ("", false), ("yo\n", false), ("n\n", false)]
        {
            assert_eq!(is_yes(line), yes, "{line:?}");
        }
    }
}
