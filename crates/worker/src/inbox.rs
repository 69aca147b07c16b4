//! The inbox: asks for messages all the time and hands each on once.

use std::{collections::VecDeque, time::Duration};

use omoi_client::{Client, Retry};
use omoi_protocol::{MessageId, MessageState, SandboxId, message::Message};
use tokio::sync::mpsc;

/// How long the server holds a question that it has no answer to.
const WAIT: Duration = Duration::from_secs(25);
const RETRY: Retry =
    Retry { attempts_max: u32::MAX, base: Duration::from_millis(100), cap: Duration::from_secs(2) };
/// What was handed on is remembered, since the server offers it again until it is reported.
const REMEMBERED_MAX: usize = 1000;

/// Ends when nobody takes what it hands on. While the server is away or refuses, it goes on asking; whether
/// that makes sense is for the outbox to find out.
pub async fn take(client: Client, sandbox: SandboxId, to: mpsc::Sender<Message>) {
    let client = client.with_retry(Retry { attempts_max: 1, ..Retry::default() });
    let mut handed: VecDeque<MessageId> = VecDeque::new();
    let mut failures = 0;
    while !to.is_closed() {
        let messages = match client.message_take(&sandbox, WAIT).await {
            Ok(messages) => messages,
            Err(_) => {
                failures += 1;
                tokio::time::sleep(RETRY.pause(failures, None).unwrap_or(RETRY.cap)).await;
                continue;
            }
        };
        failures = 0;
        for message in messages {
            if handed.contains(&message.id) {
                // The agent is busy with something long; the message is in good hands.
                let _ = client.message_report(&sandbox, &message.id, MessageState::Delivered).await;
                continue;
            }
            handed.push_back(message.id.clone());
            if handed.len() > REMEMBERED_MAX {
                handed.pop_front();
            }
            if to.send(message).await.is_err() {
                return;
            }
        }
    }
}
