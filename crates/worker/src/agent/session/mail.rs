//! Messages on their way into the conversation.

use omoi_protocol::{
    MessageType,
    event::{AgentInterrupted, AgentMessageInjected, AgentProcessing},
    message::Message as Said,
};

use super::{
    super::{steer::spoken, talk::Block, tell::cut},
    EVENT_TEXT_CHARS_MAX, Session,
};

/// Of what people said, for conversations that begin anew.
const TOLD_MAX: usize = 20;
const TOLD_CHARS_MAX: usize = 2_000;

impl Session<'_> {
    /// Puts what waits in front of the agent. Says whether it has to halt.
    pub(super) fn take_mail(&mut self) -> bool {
        let mut interrupted = false;
        for message in self.parts.steering.drain() {
            self.interventions += 1;
            self.parts.tell.push(AgentMessageInjected {
                message_type: Some(message.message_type.to_string()),
                content_length: Some(message.content.chars().count() as u64),
                content: Some(cut(&message.content, EVENT_TEXT_CHARS_MAX)),
                sender_id: Some(message.sender.clone()),
                message_id: Some(message.id.to_string()),
                intervention_number: Some(self.interventions),
                turn: Some(self.turn),
                ..AgentMessageInjected::default()
            });
            self.next.push(Block::text(spoken(&message)));
            self.carried.push(message.id.clone());
            self.guard.forgive();
            if message.message_type == MessageType::Interrupt {
                interrupted = true;
                self.parts.tell.push(AgentInterrupted {
                    reason: Some(cut(&message.content, EVENT_TEXT_CHARS_MAX)),
                    sender_id: Some(message.sender.clone()),
                    message_id: Some(message.id.to_string()),
                    turn: Some(self.turn),
                    ..AgentInterrupted::default()
                });
                self.processed(&message);
            } else {
                // Whoever speaks behind an interrupt has said how it goes on.
                interrupted = false;
                self.remember(&message);
                self.unanswered.push(message);
            }
        }
        interrupted
    }

    fn remember(&mut self, message: &Said) {
        if self.told.len() >= TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(cut(&spoken(message), TOLD_CHARS_MAX));
    }

    pub(super) fn processed(&self, message: &Said) {
        self.parts.tell.push(AgentProcessing {
            message_id: Some(message.id.to_string()),
            message_type: Some(message.message_type.to_string()),
            ..AgentProcessing::default()
        });
    }
}
