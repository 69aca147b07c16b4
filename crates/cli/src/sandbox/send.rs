//! Saying something to a running worker, and seeing it arrive.

use std::time::Duration;

use anyhow::Result;
use omoi_client::Client;
use omoi_protocol::{
    MessageState, MessageType, SandboxId,
    message::{Message, NewMessage},
};
use tokio::time::{Instant, sleep};

use crate::{
    Context,
    args::word,
    failure::{FAILED, Stop},
    text::parse_span,
};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The message is among the newest of its sandbox.
const LOOK_AT: usize = 100;

/// Say something to a running worker
#[derive(Debug, clap::Args)]
pub struct Send {
    /// As `omoi sandbox list` shows it
    id: SandboxId,
    /// What to say
    text: String,
    /// How to say it: an interrupt also stops what the agent is doing
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_parser = word!(MessageType),
        ignore_case = true,
        default_value = "user_message"
    )]
    message_type: MessageType,
    /// Wait until the worker has it (delivered), or until the agent does: --wait=injected
    #[arg(
        long,
        value_name = "STATE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "delivered",
        value_parser = ["delivered", "injected", "acknowledged"]
    )]
    wait: Option<String>,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_span, requires = "wait")]
    timeout: Duration,
}

impl Send {
    pub async fn run(self, cx: &Context, client: &Client) -> Result<()> {
        let new = NewMessage { content: self.text.clone(), message_type: self.message_type };
        let queued = client.message_send(&self.id, &new).await?;
        let Some(wanted) = self.wait.as_deref().and_then(|word| word.parse().ok()) else {
            return cx.out.answer(&queued, |_| format!("{} is {}", queued.message_id, queued.status));
        };
        let give_up = Instant::now() + self.timeout;
        let mut told = MessageState::Queued;
        loop {
            let history = client.message_history(&self.id, LOOK_AT).await?;
            let message = history.into_iter().find(|message| message.id == queued.message_id);
            let state = message.as_ref().map_or(told, |message| message.state);
            if state != told && !cx.out.is_json() {
                cx.out.note(&format!("{}: {told}, then {state}", queued.message_id));
                told = state;
            }
            match message {
                Some(message) if arrived(&message, wanted) => {
                    return cx.out.answer(&message, |_| format!("{} is {}", message.id, message.state));
                }
                Some(message) if message.state == MessageState::Expired => {
                    return Err(Stop::new(FAILED, format!("{} expired: no worker took it up", message.id))
                        .hint("`omoi sandbox show` says when the worker was last heard of")
                        .into());
                }
                _ if Instant::now() >= give_up => return Err(self.too_late(state, wanted).into()),
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    fn too_late(&self, state: MessageState, wanted: MessageState) -> Stop {
        let seconds = self.timeout.as_secs();
        Stop::new(FAILED, format!("the message is {state}, not {wanted}, after {seconds} s"))
            .hint("it stays there for the worker; `omoi sandbox show` says when that was last heard of")
    }
}

/// States follow one another in the order of their declaration; expired is the one that never arrives.
fn arrived(message: &Message, wanted: MessageState) -> bool {
    message.state >= wanted && (message.state != MessageState::Expired || wanted == MessageState::Expired)
}
