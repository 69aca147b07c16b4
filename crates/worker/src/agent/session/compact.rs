//! A conversation that has become too long: its beginning makes room for a summary.

use omoi_protocol::event::AgentSystemMessage;

use super::{
    super::{
        kit,
        log::Entry,
        model::{self, Ask, Progress},
        prompt,
        talk::{Block, Message, Role},
        tell::cut,
    },
    EVENT_TEXT_CHARS_MAX, Ended, Session, halt, trouble,
};
use crate::work::Wish;

/// A conversation is cut when it has this share of what the model can take in, and keeps this share of it as it was.
const CUT_AT: f64 = 0.8;
const KEPT_SHARE: f64 = 0.25;
const SUMMARY_TOKENS: u32 = 8_000;

impl Session<'_> {
    pub(super) fn is_too_long(&self) -> bool {
        self.context.tokens() as f64 > CUT_AT * self.parts.launch.agent.context_tokens as f64
    }

    /// Puts a summary in the place of the beginning of the conversation.
    pub(super) async fn compact(&mut self, stop: &mut Wish) -> Result<(), Ended> {
        let kept = KEPT_SHARE * self.parts.launch.agent.context_tokens as f64;
        let Some(at) = self.context.cut(kept as u64) else { return Ok(()) };
        let before = self.context.tokens();
        let summary = self.summary(stop).await?;
        let head = Message::user(vec![Block::text(prompt::after_cut(&self.opening, &summary))]);
        let context = self.context.compact(head, at);
        self.log(&Entry::Compacted { context })?;
        let metadata = serde_json::json!({
            "subtype": "compacted", "tokens_before": before, "tokens_after": self.context.tokens(),
            "summary": cut(&summary, EVENT_TEXT_CHARS_MAX),
        });
        self.parts.tell.push(AgentSystemMessage {
            turn: Some(self.turn),
            metadata: Some(metadata),
            ..AgentSystemMessage::default()
        });
        Ok(())
    }

    /// In the model's own words; without them, that something was taken away.
    async fn summary(&mut self, stop: &mut Wish) -> Result<String, Ended> {
        let mut messages = self.context.messages().to_vec();
        let wish = Block::text(prompt::SUMMARISE);
        match messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.push(wish),
            _ => messages.push(Message::user(vec![wish])),
        }
        let ask = Ask { system: &self.system, tools: &[], messages: &messages, max_tokens: SUMMARY_TOKENS };
        let mut progress = |progress: Progress<'_>| self.parts.tell.progress(self.turn, &progress);
        let answer = tokio::select! {
            answer = self.parts.model.ask(&ask, &mut progress) => answer,
            halt = halt(self.parts.steering, stop, self.deadline) => return self.halted(halt),
        };
        let text = match answer {
            Ok(answer) => {
                self.spent.answered(&answer.usage);
                kit::text(&answer)
            }
            Err(error @ model::Error::OverBudget { .. }) => return Err(self.gave_up(&error)),
            Err(error) => {
                self.parts
                    .tell
                    .push(trouble(&format!("the conversation was cut without a summary: {error}")));
                String::new()
            }
        };
        let none = || {
            format!(
                "(There is no summary. {} turns have passed; look at the work tree to see what is done.)",
                self.turn
            )
        };
        Ok(if text.trim().is_empty() { none() } else { text })
    }
}
