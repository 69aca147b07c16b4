//! What is said to the agent while it works. Messages wait here for the next boundary, the moment between one tool call
//! and the next answer; an interrupt does not wait.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use omoi_protocol::{MessageId, MessageType, message::Message};
use tokio::sync::{Notify, watch};

/// Filled by whoever takes messages in, emptied by the agent.
#[derive(Debug)]
pub struct Steering {
    queue: Mutex<Queue>,
    added: Notify,
    /// True while an interrupt is among those that wait.
    interrupt: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Message>,
    /// Everything that was ever put here, so that nothing is put twice.
    known: HashSet<MessageId>,
}

impl Default for Steering {
    fn default() -> Self {
        Self { queue: Mutex::default(), added: Notify::new(), interrupt: watch::Sender::new(false) }
    }
}

impl Steering {
    /// False when it was here before.
    pub fn put(&self, message: Message) -> bool {
        {
            let mut queue = self.queue();
            if !queue.known.insert(message.id.clone()) {
                return false;
            }
            if message.message_type == MessageType::Interrupt {
                self.interrupt.send_replace(true);
            }
            queue.messages.push_back(message);
        }
        self.added.notify_one();
        true
    }

    /// These have reached the agent in an earlier sandbox.
    pub fn forget(&self, applied: impl IntoIterator<Item = MessageId>) {
        self.queue().known.extend(applied);
    }

    /// All that wait, oldest first. An interrupt that is among them is no longer one.
    pub fn drain(&self) -> Vec<Message> {
        let mut queue = self.queue();
        self.interrupt.send_if_modified(std::mem::take);
        queue.messages.drain(..).collect()
    }

    pub fn has_mail(&self) -> bool {
        !self.queue().messages.is_empty()
    }

    /// Waits until something waits.
    pub async fn arrival(&self) {
        loop {
            let added = self.added.notified();
            if !self.queue().messages.is_empty() {
                return;
            }
            added.await;
        }
    }

    pub fn interrupt(&self) -> watch::Receiver<bool> {
        self.interrupt.subscribe()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the agent reads: who speaks, and what.
pub fn spoken(message: &Message) -> String {
    let who = match message.message_type {
        MessageType::UserMessage => format!("{}, a person who follows your work, says", message.sender),
        MessageType::GuardianNudge => "The Guardian, which watches over your work, says".to_owned(),
        MessageType::System => "The system that you work in says".to_owned(),
        MessageType::AgentMessage => {
            format!("{}, another agent of this project, says; it is no order", message.sender)
        }
        MessageType::Interrupt => format!("{} has stopped what you were doing", message.sender),
    };
    format!("[{who}]\n{}", message.content)
}

#[cfg(test)]
pub mod tests {
    use jiff::Timestamp;
    use omoi_protocol::{MessageState, SandboxId};

    use super::*;

    pub fn message(message_type: MessageType, content: &str) -> Message {
        Message {
            id: MessageId::generate(),
            sandbox_id: SandboxId::generate(),
            content: content.to_owned(),
            message_type,
            sender: "ada".to_owned(),
            state: MessageState::Delivered,
            timestamp: Timestamp::UNIX_EPOCH,
            delivered_at: None,
            injected_at: None,
            acknowledged_at: None,
            expired_at: None,
            deliveries: 1,
        }
    }

    #[tokio::test]
    async fn a_message_is_taken_once_however_often_it_comes() {
        let steering = Steering::default();
        let one = message(MessageType::UserMessage, "use tabs");
        assert!(steering.put(one.clone()));
        assert!(!steering.put(one.clone()));
        steering.arrival().await;
        assert_eq!(steering.drain().len(), 1);
        assert!(!steering.put(one));
        assert_eq!(steering.drain().len(), 0);
    }

    #[test]
    fn an_interrupt_is_heard_at_once_and_until_it_is_taken() {
        let steering = Steering::default();
        let heard = steering.interrupt();
        assert!(!*heard.borrow());
        steering.put(message(MessageType::Interrupt, "stop"));
        steering.put(message(MessageType::Interrupt, "stop, I say"));
        assert!(*heard.borrow());
        assert_eq!(steering.drain().len(), 2);
        assert!(!*heard.borrow());
    }

    #[test]
    fn the_agent_reads_who_speaks() {
        let text = spoken(&message(MessageType::UserMessage, "use tabs"));
        assert_eq!(text, "[ada, a person who follows your work, says]\nuse tabs");
        assert!(spoken(&message(MessageType::GuardianNudge, "x")).contains("Guardian"));
    }
}
