//! A session: the loop in which the model is asked, its calls are run and their results shown to it, until it has nothing more
//! to call. Between one and the next is the boundary, where messages reach the agent, limits are checked and a conversation that
//! has become too long is cut.

use std::{collections::VecDeque, io, time::Duration};

use futures_util::future::join_all;
use omoi_client::Client;
use omoi_protocol::{
    FailureKind, MessageId, MessageType,
    event::{AgentError, AgentInterrupted, AgentMessageInjected, AgentProcessing, AgentUserMessage},
    launch::{ExecutionMode, LaunchSpec},
    message::Message as Said,
    outcome::Failure,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    context::Context,
    guard::{Guard, Verdict},
    kit::{self, Kit, Means},
    log::{Entry, Log, Replay},
    model::{self, Answer, Ask, Model, Progress},
    prompt,
    spent::Spent,
    steer::{Steering, spoken},
    talk::{Block, Message, Role},
    tell::{Tell, cut},
    tool::{Call, Effect, is_note},
};
use crate::{
    changes::Changes,
    work::{Stop, Wish, more_than},
};

/// A conversation is cut when it has this share of what the model can take in, and keeps this share of it as it was.
const CUT_AT: f64 = 0.8;
const KEPT_SHARE: f64 = 0.25;
const SUMMARY_TOKENS: u32 = 8_000;
const EVENT_TEXT_CHARS_MAX: usize = 100_000;
/// Of what people said, for conversations that begin anew.
const TOLD_MAX: usize = 20;
const TOLD_CHARS_MAX: usize = 2_000;
const COST_LIMIT: Duration = Duration::from_secs(2);

/// What a session works with.
pub struct Parts<'a> {
    pub launch: &'a LaunchSpec,
    pub client: &'a Client,
    pub tell: Tell,
    pub steering: &'a Steering,
    pub model: Model,
    pub kit: Kit,
    pub log: Log,
    pub changes: Option<Changes>,
    pub group: &'a watch::Sender<Option<i32>>,
}

pub struct Session<'a> {
    parts: Parts<'a>,
    pub id: String,
    system: String,
    /// What the conversation began with.
    opening: String,
    context: Context,
    /// What is said to the model next: results, messages, notes.
    next: Vec<Block>,
    /// Messages that are in it, and those that the agent has not answered to yet.
    carried: Vec<MessageId>,
    unanswered: Vec<Said>,
    /// What people and Guardian have said in all conversations, the last of it.
    told: VecDeque<String>,
    guard: Guard,
    pub spent: Spent,
    pub turn: u64,
    interventions: u64,
    begun: Instant,
    deadline: Instant,
    /// What the agent has said last.
    pub last_words: String,
}

/// How a query ended.
#[derive(Debug)]
pub enum Ended {
    /// The model has nothing more to call.
    Finished,
    /// Somebody wants it to stop and will say how it goes on.
    Interrupted,
    /// There is no money left until a person gives some.
    OverBudget(String),
    Failed(Failure),
    Stopped(Stop),
}

/// What breaks off a question or a call.
enum Halt {
    Interrupt,
    Stop(Stop),
    Duration,
}

impl<'a> Session<'a> {
    /// Begins, or goes on where the log ends. A `note` is told besides.
    pub fn begin(parts: Parts<'a>, replay: Replay, note: Option<String>) -> io::Result<Self> {
        let launch = parts.launch;
        let system = prompt::system(launch, &parts.kit.skills, &parts.kit.helpers);
        let id = replay.session_id.clone().unwrap_or_else(|| format!("session-{}", launch.sandbox_id));
        let is_new = replay.context.is_empty();
        let opening = prompt::task(launch);
        let next = if is_new { opening.clone() } else { prompt::resumed(launch, replay.unknown.len()) };
        parts.steering.forget(replay.applied);
        let begun = Instant::now();
        let mut session = Self {
            id,
            system,
            opening,
            context: Context::new(replay.context),
            next: vec![Block::text(next)],
            carried: Vec::new(),
            unanswered: Vec::new(),
            told: VecDeque::new(),
            guard: Guard::default(),
            spent: Spent::default(),
            turn: replay.turn,
            interventions: 0,
            begun,
            deadline: begun + Duration::from_secs(launch.limits.max_duration_seconds),
            last_words: String::new(),
            parts,
        };
        if let Some(note) = note {
            session.note(&note);
        }
        session.parts.log.append(&Entry::Session {
            session_id: session.id.clone(),
            sandbox_id: launch.sandbox_id.to_string(),
            model: launch.agent.model.clone().unwrap_or_default(),
            at: crate::report::now().to_string(),
        })?;
        if let Some(message) = replay.closing {
            session.parts.log.append(&Entry::Said { turn: session.turn, message, messages: Vec::new() })?;
        }
        Ok(session)
    }

    /// Works until there is nothing more to do, or something stands in the way.
    pub async fn query(&mut self, stop: &mut Wish) -> Ended {
        self.spent.begin_query();
        match self.work(stop).await {
            Ok(()) => Ended::Finished,
            Err(ended) => ended,
        }
    }

    /// Begins a new conversation, of which `opening` is the first message. The log keeps the old one, and turns are
    /// counted on. Messages that the agent has not answered to are said again.
    pub fn begin_anew(&mut self, opening: String) -> Result<(), Failure> {
        let cleared = self.parts.log.append(&Entry::Compacted { context: Vec::new() });
        cleared.map_err(|error| unwritten(&error))?;
        self.context = Context::default();
        self.guard = Guard::default();
        self.last_words = String::new();
        self.next = vec![Block::text(opening.clone())];
        self.next.extend(self.unanswered.iter().map(|message| Block::text(spoken(message))));
        self.opening = opening;
        Ok(())
    }

    /// Since it began in this sandbox.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The first message of the conversation.
    pub fn opening(&self) -> &str {
        &self.opening
    }

    /// What was said to the agent so far, but for what it hears again anyway.
    pub fn told(&self) -> impl Iterator<Item = &str> {
        let answered = self.told.len().saturating_sub(self.unanswered.len());
        self.told.iter().take(answered).map(String::as_str)
    }

    /// Whether there is something that the agent has not heard yet.
    pub fn has_mail(&self) -> bool {
        self.parts.steering.has_mail()
    }

    /// Ends what was left running in the background.
    pub async fn close(&mut self) {
        self.parts.kit.tools.end_background().await;
    }

    async fn work(&mut self, stop: &mut Wish) -> Result<(), Ended> {
        let mut nudged = false;
        loop {
            self.boundary(stop).await?;
            let answer = match self.answer(stop).await {
                // What broke it off waits at the boundary.
                Err(Ended::Interrupted) => continue,
                answer => answer?,
            };
            let calls = kit::calls(&answer);
            let said = kit::text(&answer);
            if !said.trim().is_empty() {
                self.last_words = said;
            }
            match &answer.stop {
                model::Stop::Refusal => {
                    return Err(failed(FailureKind::Agent, "the model refused to go on".to_owned()));
                }
                _ if !calls.is_empty() => self.run(&answer, stop).await?,
                model::Stop::PauseTurn => {}
                model::Stop::MaxTokens => {
                    self.spent.came_to(false);
                    self.note("Your answer was cut off because it was too long. Go on in smaller pieces.");
                }
                _ if answer.content.is_empty() && !nudged => {
                    nudged = true;
                    self.spent.came_to(false);
                    self.note(
                        "Your answer was empty. Go on with the task, or say what you did if it is done.",
                    );
                }
                _ if self.has_mail() => {}
                _ => return Ok(()),
            }
        }
    }

    /// Told with what is said next, by the program that runs the agent.
    pub fn note(&mut self, text: &str) {
        self.next.push(Block::text(prompt::reminder(text)));
    }

    /// Between one step and the next.
    async fn boundary(&mut self, stop: &mut Wish) -> Result<(), Ended> {
        let interrupted = self.take_mail();
        self.say_next()?;
        if interrupted {
            return Err(Ended::Interrupted);
        }
        if let Some(wish) = stop.borrow().filter(|wish| *wish > Stop::Interrupt) {
            return Err(Ended::Stopped(wish));
        }
        if let Some(why) = self.spent.beyond(&self.parts.launch.limits) {
            return Err(failed(FailureKind::Limit, why));
        }
        if self.context.tokens() as f64 > CUT_AT * self.parts.launch.agent.context_tokens as f64 {
            match self.compact(stop).await {
                // The question that follows breaks off as well.
                Err(Ended::Interrupted) => {}
                compacted => compacted?,
            }
        }
        Ok(())
    }

    /// Puts what waits in front of the agent. Says whether it has to halt.
    fn take_mail(&mut self) -> bool {
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

    fn processed(&self, message: &Said) {
        self.parts.tell.push(AgentProcessing {
            message_id: Some(message.id.to_string()),
            message_type: Some(message.message_type.to_string()),
            ..AgentProcessing::default()
        });
    }

    /// Makes what is to be said part of the conversation.
    fn say_next(&mut self) -> Result<(), Ended> {
        if self.next.is_empty() {
            return Ok(());
        }
        let content = std::mem::take(&mut self.next);
        if self.context.is_empty() {
            let text = content
                .iter()
                .find_map(|block| if let Block::Text { text } = block { Some(text) } else { None });
            let text = text.cloned().unwrap_or_default();
            self.parts.tell.push(AgentUserMessage {
                turn: Some(self.turn),
                content_length: Some(text.chars().count() as u64),
                content: Some(cut(&text, EVENT_TEXT_CHARS_MAX)),
                ..AgentUserMessage::default()
            });
        }
        let message = Message::user(content);
        let messages = std::mem::take(&mut self.carried);
        self.log(&Entry::Said { turn: self.turn, message: message.clone(), messages })?;
        self.context.push(message);
        Ok(())
    }

    fn log(&mut self, entry: &Entry) -> Result<(), Ended> {
        let written = self.parts.log.append(entry);
        written.map_err(|error| Ended::Failed(unwritten(&error)))
    }

    /// Asks the model and takes note of its answer.
    async fn answer(&mut self, stop: &mut Wish) -> Result<Answer, Ended> {
        let answer = match self.ask(stop).await? {
            Err(model::Error::TooLong { .. }) => {
                self.compact(stop).await?;
                self.ask(stop).await?
            }
            answer => answer,
        };
        let answer = answer.map_err(|error| self.gave_up(&error))?;
        self.turn += 1;
        self.spent.answered(&answer.usage);
        self.spent.cost_usd = self.cost().await.unwrap_or(self.spent.cost_usd);
        let usage = &answer.usage;
        self.context.count(
            usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        );
        self.parts.tell.answer(self.turn, &answer);
        if !answer.content.is_empty() {
            let message = Message::assistant(answer.content.clone());
            self.log(&Entry::Said { turn: self.turn, message: message.clone(), messages: Vec::new() })?;
            self.context.push(message);
        }
        for message in std::mem::take(&mut self.unanswered) {
            self.processed(&message);
        }
        Ok(answer)
    }

    async fn ask(&self, stop: &mut Wish) -> Result<Result<Answer, model::Error>, Ended> {
        let specs = self.parts.kit.specs();
        let max_tokens = self.parts.launch.agent.answer_tokens;
        let ask = Ask { system: &self.system, tools: &specs, messages: self.context.messages(), max_tokens };
        let mut progress = |progress: Progress<'_>| self.parts.tell.progress(self.turn + 1, &progress);
        tokio::select! {
            answer = self.parts.model.ask(&ask, &mut progress) => Ok(answer),
            halt = halt(self.parts.steering, stop, self.deadline) => self.halted(halt),
        }
    }

    fn halted<T>(&self, halt: Halt) -> Result<T, Ended> {
        match halt {
            Halt::Interrupt => Err(Ended::Interrupted),
            Halt::Stop(stop) => Err(Ended::Stopped(stop)),
            Halt::Duration => {
                let seconds = self.parts.launch.limits.max_duration_seconds;
                Err(failed(
                    FailureKind::Limit,
                    format!("the agent has had its {seconds} s; raise max_duration_seconds"),
                ))
            }
        }
    }

    fn gave_up(&self, error: &model::Error) -> Ended {
        self.parts.tell.push(AgentError {
            error: Some(error.to_string()),
            phase: Some("model".to_owned()),
            failure_kind: Some(error.failure_kind().to_string()),
            ..AgentError::default()
        });
        match error {
            model::Error::OverBudget { message } => Ended::OverBudget(message.clone()),
            other => failed(other.failure_kind(), other.to_string()),
        }
    }

    /// What the gateway has counted so far. Not to know it is no reason to stop: the gateway keeps to the budgets anyway.
    async fn cost(&self) -> Option<f64> {
        let asked = self.parts.client.sandbox_get(&self.parts.launch.sandbox_id);
        let sandbox = tokio::time::timeout(COST_LIMIT, asked).await.ok()?.ok()?;
        Some(sandbox.cost_usd)
    }

    /// Runs the calls of an answer. What comes of them is said at the next boundary.
    async fn run(&mut self, answer: &Answer, stop: &mut Wish) -> Result<(), Ended> {
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
        let Some(changes) = &mut self.parts.changes else { return };
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

    /// Puts a summary in the place of the beginning of the conversation.
    async fn compact(&mut self, stop: &mut Wish) -> Result<(), Ended> {
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
        self.parts.tell.push(omoi_protocol::event::AgentSystemMessage {
            turn: Some(self.turn),
            metadata: Some(metadata),
            ..omoi_protocol::event::AgentSystemMessage::default()
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

/// Waits for a reason to break off.
async fn halt(steering: &Steering, stop: &mut Wish, deadline: Instant) -> Halt {
    let mut interrupt = steering.interrupt();
    tokio::select! {
        _ = interrupt.wait_for(|interrupt| *interrupt) => Halt::Interrupt,
        stop = more_than(stop, Stop::Interrupt) => Halt::Stop(stop),
        () = sleep_until(deadline) => Halt::Duration,
    }
}

fn unwritten(error: &io::Error) -> Failure {
    let why = format!("the agent's log cannot be written: {error}; the sandbox's disk may be full");
    Failure::new(FailureKind::Agent, why)
}

fn failed(kind: FailureKind, why: String) -> Ended {
    Ended::Failed(Failure::new(kind, why))
}

fn trouble(why: &str) -> AgentError {
    AgentError {
        error: Some(why.to_owned()),
        phase: Some("agent".to_owned()),
        fatal: Some(false),
        ..AgentError::default()
    }
}
