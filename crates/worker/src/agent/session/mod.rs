//! A session: the loop in which the model is asked, its calls are run and their results shown to it, until it has nothing more
//! to call. Between one and the next is the boundary, where messages reach the agent, limits are checked and a conversation that
//! has become too long is cut.

mod calls;
mod compact;
mod mail;

use std::{collections::VecDeque, io, time::Duration};

use omoi_client::Client;
use omoi_protocol::{
    FailureKind, MessageId,
    event::{AgentError, AgentUserMessage},
    launch::LaunchSpec,
    message::Message as Said,
    outcome::Failure,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    context::Context,
    guard::Guard,
    kit::{self, Kit},
    log::{Entry, Log, Replay},
    model::{self, Answer, Ask, Model, Progress},
    prompt,
    spent::Spent,
    steer::{Steering, spoken},
    talk::{Block, Message},
    tell::{Tell, cut},
};
use crate::{
    changes::Opening,
    work::{Stop, Wish, more_than},
};

const EVENT_TEXT_CHARS_MAX: usize = 100_000;
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
    pub changes: Option<Opening>,
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
        if self.is_too_long() {
            match self.compact(stop).await {
                // The question that follows breaks off as well.
                Err(Ended::Interrupted) => {}
                compacted => compacted?,
            }
        }
        Ok(())
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
