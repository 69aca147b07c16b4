//! The calls of an answer: run, looked at for what they changed, and watched for circles.

use futures_util::future::join_all;
use omoi_protocol::{FailureKind, launch::ExecutionMode};
use tokio::sync::watch;

use super::{
    super::{
        guard::Verdict,
        kit::{self, Means},
        log::Entry,
        model::Answer,
        talk::Block,
        tool::{Call, Effect, is_note},
    },
    Ended, Halt, Session, failed, halt, trouble,
};
use crate::work::Wish;

impl Session<'_> {
    /// Runs the calls of an answer. What comes of them is said at the next boundary.
    pub(super) async fn run(&mut self, answer: &Answer, stop: &mut Wish) -> Result<(), Ended> {
        let (end, ended) = watch::channel(false);
        let (steering, deadline) = (self.parts.steering, self.deadline);
        let mut running = Box::pin(self.run_calls(answer, &ended));
        let (ran, halt) = tokio::select! {
            ran = &mut running => (ran, None),
            halt = halt(steering, stop, deadline) => {
                end.send_replace(true);
                (running.as_mut().await, Some(halt))
            }
        };
        drop(running);
        ran?;
        match halt {
            // The boundary sees the message itself.
            None | Some(Halt::Interrupt) => Ok(()),
            Some(halt) => {
                self.say_next()?;
                self.halted(halt)
            }
        }
    }

    async fn run_calls(&mut self, answer: &Answer, ended: &watch::Receiver<bool>) -> Result<(), Ended> {
        let calls = kit::calls(answer);
        if let Some(changes) = &mut self.parts.changes {
            // What the calls change is seen by what was there before them.
            changes.open().await;
        }
        let mut came_to = false;
        for group in self.parts.kit.groups(&calls) {
            let group = &calls[group];
            for call in group {
                self.log(&Entry::Call { id: call.id.to_owned() })?;
            }
            let results = if *ended.borrow() {
                group.iter().map(|_| kit::interrupted()).collect()
            } else {
                let means = Means {
                    model: &self.parts.model,
                    tell: &self.parts.tell,
                    turn: self.turn,
                    answer_tokens: self.parts.launch.agent.answer_tokens,
                    stop: ended,
                    group: self.parts.group,
                };
                let kit = &self.parts.kit;
                join_all(group.iter().map(|call| kit.run(*call, answer.broken.get(call.id), means))).await
            };
            for (call, done) in group.iter().zip(&results) {
                let mut block = kit::result(call.id, done);
                came_to |= !done.is_error;
                self.look_at_changes(*call, &mut block).await;
                self.log(&Entry::Result { block: block.clone() })?;
                self.next.push(block);
                self.watch_for_loops(*call, &done.content)?;
            }
        }
        self.spent.came_to(came_to);
        Ok(())
    }

    /// Tells which files are different now. Who only explores finds them put back.
    async fn look_at_changes(&mut self, call: Call<'_>, result: &mut Block) {
        if self.parts.kit.effect(call.name, call.input) == Effect::Reads {
            return;
        }
        let Some(opening) = &mut self.parts.changes else { return };
        let Some(changes) = opening.open().await else { return };
        if self.parts.launch.mode == ExecutionMode::Exploration {
            match changes.revert(&is_note).await {
                Ok(back) if !back.is_empty() => {
                    if let Block::ToolResult { content, .. } = result {
                        content.push_str(&format!(
                            "\n[put back, because you only explore: {}]",
                            back.join(", ")
                        ));
                    }
                }
                Ok(_) => {}
                Err(error) => self.parts.tell.push(trouble(&format!("changes cannot be put back: {error}"))),
            }
        }
        match changes.step().await {
            Ok(found) => {
                for change in found {
                    self.parts.tell.push(change.event(self.turn, Some(call.id)));
                }
            }
            Err(error) => {
                self.parts.tell.push(trouble(&format!("changes of the work tree cannot be seen: {error}")));
            }
        }
        for note in changes.notes() {
            self.parts.tell.push(trouble(&note));
        }
    }

    fn watch_for_loops(&mut self, call: Call<'_>, result: &str) -> Result<(), Ended> {
        match self.guard.note(call.name, call.input, result) {
            Verdict::Well => Ok(()),
            Verdict::Warn(times) => {
                self.note(&format!(
                    "You have made the same call of {} {times} times, with the same result. Do something else, or end and say what stands in the way.",
                    call.name
                ));
                Ok(())
            }
            Verdict::Stop(times) => {
                self.say_next()?;
                let why = format!(
                    "the agent goes in circles: the same call of {} {times} times, with the same result",
                    call.name
                );
                Err(failed(FailureKind::Agent, why))
            }
        }
    }
}
