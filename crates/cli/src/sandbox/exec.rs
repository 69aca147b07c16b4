//! A further command in a sandbox that is there.

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{
    CommandState, SandboxId,
    event::StoredEvent,
    sandbox::{Command, NewCommand},
};

use super::{
    follow::{Follow, News, newest, patiently},
    told::Told,
};
use crate::{
    Context,
    failure::{Code, FAILED, INTERRUPTED, Stop},
};

/// Run a command in a sandbox; its output and its exit code are ours
///
/// The command runs in /workspace as the sandbox's user, without a shell and without input. Ctrl-C leaves it running.
#[derive(Debug, clap::Args)]
pub struct Exec {
    /// As `omoi sandbox list` shows it
    id: SandboxId,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Exec {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        cx.out.outlast_reader();
        // What it writes comes behind this.
        let before = newest(client, &self.id).await?;
        let command = client.command_run(&self.id, &NewCommand { argv: self.command }).await?;
        let mut follow = Follow::behind(client, &self.id, before.as_ref());
        let mut told = Told::of_command(command.id.as_str());
        let show = |told: &mut Told, events: &[StoredEvent]| {
            let ours = events.iter().filter(|event| is_of(event, command.id.as_str()));
            ours.into_iter().try_for_each(|event| told.event(cx, event))
        };
        let ended = loop {
            let news = tokio::select! {
                news = follow.next() => news?,
                _ = cx.signals.next() => return Err(left(cx, &command).into()),
            };
            if let News::Events(events) = &news {
                show(&mut told, events)?;
            }
            if matches!(news, News::Quiet) || told.exit_code.is_some() {
                let now = patiently(async || client.command_get(&self.id, &command.id).await).await?;
                if now.state == CommandState::Done || told.exit_code.is_some() {
                    break now;
                }
            }
        };
        // Its last output may have come while that was asked.
        show(&mut told, &follow.rest().await?)?;
        if cx.out.is_json() {
            cx.out.item(&ended, |_| String::new())?;
        }
        verdict(&ended, told.exit_code)
    }
}

fn is_of(event: &StoredEvent, command: &str) -> bool {
    let data: Result<serde_json::Value, _> = serde_json::from_str(event.event_data.get());
    data.is_ok_and(|data| data["command_id"] == command)
}

fn left(cx: &Context, command: &Command) -> Code {
    let Command { id, sandbox_id, .. } = command;
    cx.out.note(&format!("{id} goes on in {sandbox_id}; `omoi sandbox logs {sandbox_id} --follow` shows it"));
    Code(INTERRUPTED)
}

fn verdict(ended: &Command, seen: Option<i64>) -> Result<()> {
    match (&ended.error, ended.exit_code.or(seen)) {
        (Some(error), _) => Err(Stop::new(FAILED, format!("the command could not be run: {error}"))
            .hint(format!("`omoi sandbox show {}` says how the sandbox is", ended.sandbox_id))
            .into()),
        (None, Some(0) | None) => Ok(()),
        (None, Some(code)) => Err(Code(u8::try_from(code).unwrap_or(1)).into()),
    }
}
