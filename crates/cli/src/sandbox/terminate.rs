//! Ending a sandbox, and waiting until nothing of it can be lost.

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{SandboxId, task::Reason};

use super::{
    follow::{Follow, newest},
    watch::{Until, Watch},
};
use crate::Context;

/// End a sandbox; what it did is kept before it is removed
///
/// A task that it holds is cancelled with it and can be retried. The server stops the sandbox, keeps what its branch does
/// not have, and removes it; this command returns before that, unless it is told to wait.
#[derive(Debug, clap::Args)]
pub struct Terminate {
    /// As `omoi sandbox list` shows it
    id: SandboxId,
    /// Why, for those who read about it later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Wait until its work is kept
    #[arg(long)]
    wait: bool,
}

impl Terminate {
    pub fn waits(&self) -> bool {
        self.wait
    }

    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let before = newest(client, &self.id).await?;
        let mut sandbox = client.sandbox_terminate(&self.id, &Reason { reason: self.reason }).await?;
        if !self.wait {
            return cx.out.answer(&sandbox, |_| format!("{} is {}", sandbox.id, sandbox.status));
        }
        let follow = Follow::behind(client, &self.id, before.as_ref());
        let mut watch = Watch::ending(cx, client, follow);
        sandbox = watch.run(Until::Kept).await?;
        cx.out.answer(&sandbox, |_| watch.told.sum(&sandbox))
    }
}
