//! The steps themselves: what is done, what should come of it, and what to do when it does not.

use std::{
    collections::HashSet,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use omoi_client::{Client, CostQuery, TrajectoryQuery};
use omoi_protocol::{
    EventId, EventSource, MessageState, MessageType, Priority, ProjectId, SandboxId, TaskId, TaskStatus,
    TicketType,
    event::{FileChange, Payload, StoredEvent},
    message::NewMessage,
    sandbox::{NewSandbox, Sandbox},
    task::NewTask,
    ticket::NewTicket,
};
use serde_json::{Map, json};
use tokio::time::sleep;

use super::{
    eye::Eye,
    log::{Ids, Wrong},
};
use crate::{demo::repository, project, sandbox::watch::is_settled};

/// Works in small steps until it is told something, writes that down, and ends.
const MODEL: &str = "scripted/steering";
const FILE: &str = "answer.txt";
/// C(50,25): told to the agent, and looked for in what it wrote.
const NUMBER: &str = "126410606437752";

/// A server that hands tasks out by itself does so sooner.
const DISPATCH_MAX: Duration = Duration::from_secs(2);
/// From its order to its first event: an image may have to be unpacked first.
const START_MAX: Duration = Duration::from_secs(120);
const STEP_MAX: Duration = Duration::from_secs(60);
const WORK_MAX_SECONDS: i64 = 600;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const MESSAGES: usize = 50;

pub struct Scene<'c> {
    client: &'c Client,
    eye: Option<Eye<'c>>,
    edit: Option<EventId>,
    pub ids: Ids,
}

impl<'c> Scene<'c> {
    pub fn new(client: &'c Client) -> Self {
        Self { client, eye: None, edit: None, ids: Ids::default() }
    }

    pub async fn server(&self) -> Result<String> {
        let who = self.client.whoami().await?;
        Ok(format!("{} answers {}", self.client.url(), who.name))
    }

    /// The named one, or that of a small repository which is made for it.
    pub async fn project(&mut self, wanted: Option<&str>, data_dir: &Path) -> Result<String> {
        let project = match wanted {
            Some(wanted) => project::find(self.client, wanted).await?,
            None => {
                let directory = repository::make(data_dir, &repository::BINOMIAL).await?;
                project::of_directory(self.client, &directory).await?.0
            }
        };
        self.ids.project_id = Some(project.id.clone());
        Ok(format!("{} {}", project.id, project.name))
    }

    pub async fn ticket(&mut self) -> Result<String> {
        let new = NewTicket {
            project_id: self.project_id()?,
            title: "Verify the flow".to_owned(),
            description: format!("Write down what you are told; it is about C(50,25) = {NUMBER}."),
            ticket_type: TicketType::Feature,
            priority: Priority::High,
            create_task: false,
            checks: None,
        };
        let created = self.client.ticket_create(&new).await?;
        self.ids.ticket_id = Some(created.ticket.id.clone());
        Ok(format!("{} number {}", created.ticket.id, created.ticket.number))
    }

    pub async fn task(&mut self) -> Result<String> {
        let config = json!({ "model": MODEL, "heartbeat_seconds": 1 });
        let new = NewTask {
            project_id: Some(self.project_id()?),
            ticket_id: self.ids.ticket_id.clone(),
            description: "Wait for a message and write what it says into answer.txt.".to_owned(),
            priority: Priority::High,
            max_retries: Some(0),
            timeout_seconds: Some(WORK_MAX_SECONDS),
            execution_config: config.as_object().cloned().unwrap_or_else(Map::new),
            ..NewTask::plain("Write down what you are told")
        };
        let task = self.client.task_create(&new).await?;
        self.ids.task_id = Some(task.id.clone());
        Ok(format!("{} {}", task.id, task.status))
    }

    /// A sandbox has the task. Where the server does not hand it out by itself, one is ordered, as a person would.
    pub async fn pickup(&mut self) -> Result<String> {
        let (begun, mut ordered) = (Instant::now(), false);
        loop {
            let task = self.client.task_get(&self.task_id()?).await?;
            if let Some(id) = task.sandbox_id {
                self.eye = Some(Eye::on(self.client, &id));
                let by = if ordered { "ordered" } else { "handed out by the server" };
                let seen = format!("{id} is {}, {by}", task.status);
                self.ids.sandbox_id = Some(id);
                return Ok(seen);
            }
            if !ordered && begun.elapsed() > DISPATCH_MAX {
                ordered = true;
                let wish = NewSandbox { task_id: Some(task.id.clone()), ..NewSandbox::default() };
                match self.client.sandbox_order(&self.project_id()?, &wish).await {
                    // It was handed out in this very moment.
                    Err(error) if error.status() == Some(409) => {}
                    made => drop(made?),
                }
            }
            if begun.elapsed() > STEP_MAX {
                return Err(Wrong {
                    expected: format!("a sandbox that takes {} within {} s", task.id, STEP_MAX.as_secs()),
                    seen: format!("it is {}", task.status),
                    next: "see whether the server has a place for it: `omoi doctor`, and its limits in `omoi config show`".to_owned(),
                }
                .into());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Of the worker, since the server tells of a sandbox that could not be made as well.
    pub async fn first_event(&mut self) -> Result<String> {
        let id = self.sandbox_id()?;
        let made = self.client.sandbox_get(&id).await?.created_at;
        let eye = self.eye()?;
        let Some(event) = eye.until(START_MAX, |event| event.source != EventSource::System).await? else {
            let said = eye.failure();
            let sandbox = self.client.sandbox_get(&id).await?;
            let why = said.or(sandbox.place_error).or(sandbox.end_reason);
            let why = why.unwrap_or_else(|| "nobody says why".to_owned());
            return Err(Wrong {
                expected: format!("an event of {id} within {} s", START_MAX.as_secs()),
                seen: format!("none; the sandbox is {}: {why}", sandbox.status),
                next: "`omoi doctor`, on the server's machine, says what it cannot do".to_owned(),
            }
            .into());
        };
        let after = event.created_at.duration_since(made).as_millis().max(0);
        Ok(format!("{}, {after} ms after the order", event.event_type))
    }

    pub async fn heartbeat(&mut self) -> Result<String> {
        self.see("a heartbeat of the worker", StoredEvent::is_heartbeat).await.map(|_| ())?;
        let at = self.client.sandbox_get(&self.sandbox_id()?).await?.last_heartbeat_at;
        let at = at.context("the sandbox does not tell of its heartbeat")?;
        Ok(format!("heard at {}", at.strftime("%H:%M:%SZ")))
    }

    /// A call of a tool, and what came of it under the same id.
    pub async fn tool_result(&mut self) -> Result<String> {
        let is_result = |event: &StoredEvent| matches!(event.payload(), Payload::AgentToolResult(_));
        let result = self.see("agent.tool_result", is_result).await?;
        let Payload::AgentToolResult(data) = result.payload() else { return Ok(result.event_type) };
        let used: HashSet<String> = self.eye()?.events.iter().filter_map(call_of).collect();
        let is_paired = data.tool_use_id.as_ref().is_some_and(|id| used.contains(id));
        if data.is_error == Some(true) || !is_paired {
            return Err(
                self.wrong("a result without an error that pairs with its call", &format!("{data:?}"))
            );
        }
        Ok(format!("{} gave back {:?}", data.tool.unwrap_or_default(), data.result.unwrap_or_default()))
    }

    /// Said while the agent works: each state of the way, in its order.
    pub async fn message(&mut self) -> Result<String> {
        let id = self.sandbox_id()?;
        let content = format!("Write down that C(50,25) = {NUMBER}");
        let new = NewMessage { content, message_type: MessageType::UserMessage };
        let queued = self.client.message_send(&id, &new).await?;
        let begun = Instant::now();
        loop {
            let history = self.client.message_history(&id, MESSAGES).await?;
            let message = history.into_iter().find(|message| message.id == queued.message_id);
            let state = message.as_ref().map_or(queued.status, |message| message.state);
            let over = begun.elapsed() > STEP_MAX || state == MessageState::Expired;
            match message {
                Some(message) if message.state == MessageState::Acknowledged => {
                    let times = [message.delivered_at, message.injected_at, message.acknowledged_at];
                    let times: Vec<_> = times.into_iter().flatten().collect();
                    if times.len() < 3 || !times.is_sorted() {
                        return Err(self.wrong(
                            "delivered, injected and acknowledged, in this order",
                            &format!("{message:?}"),
                        ));
                    }
                    let took = |at: &jiff::Timestamp| at.duration_since(message.timestamp).as_millis();
                    let took: Vec<String> = times.iter().map(|at| format!("{} ms", took(at))).collect();
                    return Ok(format!("delivered, injected, acknowledged after {}", took.join(", ")));
                }
                _ if over => {
                    let seen = format!("it is {state} after {} s", begun.elapsed().as_secs());
                    return Err(self.wrong("a message that the agent acknowledges", &seen));
                }
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    pub async fn file_edit(&mut self) -> Result<String> {
        let is_edit = |event: &StoredEvent| match event.payload() {
            Payload::AgentFileEdited(data) => {
                data.file_path.as_deref() == Some(FILE) && data.change_type == Some(FileChange::Created)
            }
            _ => false,
        };
        let event =
            self.see(&format!("agent.file_edited that says that {FILE} was created"), is_edit).await?;
        self.edit = Some(event.id);
        let Payload::AgentFileEdited(data) = event.payload() else { return Ok(event.event_type) };
        Ok(format!("created {FILE} +{}", data.lines_added.unwrap_or(0)))
    }

    pub async fn diff(&self) -> Result<String> {
        let edit = self.edit.context("there is no edit to ask for")?;
        let diff = self.client.sandbox_diff(&self.sandbox_id()?, edit).await?;
        if diff.full_diff.lines().any(|line| line.starts_with('+') && line.contains(NUMBER)) {
            return Ok(format!("{} bytes, with what the agent was told", diff.full_diff.len()));
        }
        Err(self.wrong(&format!("a diff that adds {NUMBER}"), &diff.full_diff))
    }

    pub async fn completion(&self) -> Result<String> {
        let begun = Instant::now();
        loop {
            let task = self.client.task_get(&self.task_id()?).await?;
            let over = matches!(task.status, TaskStatus::Failed | TaskStatus::Cancelled);
            if task.status == TaskStatus::Completed {
                let output =
                    task.result.as_ref().and_then(|result| result["output"].as_str()).unwrap_or_default();
                return Ok(format!("completed: {output}"));
            }
            if over || begun.elapsed() > STEP_MAX {
                let why = task.error_message.as_deref().unwrap_or("nobody says why");
                let seen = format!("it is {} after {} s: {why}", task.status, begun.elapsed().as_secs());
                return Err(self.wrong("a task that is completed", &seen));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// As whoever fetches finds it.
    pub async fn branch(&self) -> Result<String> {
        let sandbox = self.client.sandbox_get(&self.sandbox_id()?).await?;
        let branch = sandbox.branch_name.clone().context("the sandbox has no branch")?;
        let tip = self.client.branch_tip(&self.project_id()?, &branch).await?;
        match tip {
            Some(tip) if sandbox.base_commit.as_deref() != Some(&tip) => {
                Ok(format!("{branch} is at {}", tip.chars().take(12).collect::<String>()))
            }
            tip => {
                let expected =
                    format!("{branch} with a commit beyond {}", sandbox.base_commit.unwrap_or_default());
                Err(self.wrong(&expected, &tip.unwrap_or_else(|| "no such branch".to_owned())))
            }
        }
    }

    pub async fn transcript(&self) -> Result<String> {
        let transcript = self.client.sandbox_transcript(&self.sandbox_id()?).await?;
        if transcript.transcript_b64.is_empty() {
            return Err(self.wrong("the log of the session", "an empty one"));
        }
        // Four characters stand for three bytes.
        Ok(format!("{}, {} bytes", transcript.session_id, transcript.transcript_b64.len() / 4 * 3))
    }

    /// Every answer of the model was counted, and the sums agree.
    pub async fn costs(&mut self) -> Result<String> {
        let id = self.sandbox_id()?;
        let query = CostQuery { sandbox_id: Some(id.clone()), limit: Some(1), ..CostQuery::default() };
        let totals = self.client.cost_list(&query).await?.totals;
        let sandbox = self.client.sandbox_get(&id).await?;
        let answers = |event: &&StoredEvent| matches!(event.payload(), Payload::AgentAssistantMessage(_));
        let answers = self.eye()?.events.iter().filter(answers).count() as u64;
        let is_agreed = (totals.cost_usd - sandbox.cost_usd).abs() < 1e-9;
        let seen =
            format!("{} calls, {} tokens, ${:.6}", totals.calls, totals.output_tokens, totals.cost_usd);
        if answers == 0 || totals.calls < answers || !is_agreed {
            let expected =
                format!("at least {answers} calls, and ${:.6} as the sandbox says", sandbox.cost_usd);
            return Err(self.wrong(&expected, &seen));
        }
        Ok(seen)
    }

    /// None is missing, none is there twice, and heartbeats and the rest make up the whole.
    pub async fn events(&mut self) -> Result<String> {
        let id = self.sandbox_id()?;
        self.eye()?.rest().await?;
        let numbers: Vec<i64> = self.eye()?.events.iter().map(|event| event.seq).collect();
        if let Some(at) = numbers.iter().zip(1..).position(|(seq, expected)| *seq != expected) {
            let seen = format!("number {} in place {}", numbers[at], at + 1);
            return Err(self.wrong("events numbered from 1 without a gap", &seen));
        }
        let query = TrajectoryQuery { limit: Some(1), ..TrajectoryQuery::default() };
        let told = self.client.trajectory(&id, &query).await?;
        let beats = told.heartbeat_summary.count;
        let seen = format!(
            "{} without a gap: {beats} heartbeats, {} others",
            told.total_events, told.trajectory_events
        );
        if beats + told.trajectory_events != told.total_events || told.total_events < numbers.len() as i64 {
            return Err(self.wrong("heartbeats and others that add up to all", &seen));
        }
        Ok(seen)
    }

    /// Nothing is removed before its work is kept.
    pub async fn kept(&self) -> Result<String> {
        let begun = Instant::now();
        loop {
            let sandbox: Sandbox = self.client.sandbox_get(&self.sandbox_id()?).await?;
            if is_settled(&sandbox) {
                let end = sandbox.end_reason.as_deref().unwrap_or("ended");
                return Ok(format!("{} ({end}), its place is {}", sandbox.status, sandbox.place));
            }
            if begun.elapsed() > STEP_MAX {
                let why = sandbox.place_error.as_deref().unwrap_or("nobody says why");
                let seen = format!("{}, its place is {}: {why}", sandbox.status, sandbox.place);
                return Err(self.wrong("a sandbox that has ended, with its work kept", &seen));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn see(&mut self, what: &str, fits: impl Fn(&StoredEvent) -> bool) -> Result<StoredEvent> {
        let eye = self.eye()?;
        match eye.until(STEP_MAX, fits).await? {
            Some(event) => Ok(event),
            None => {
                let seen = eye.told();
                Err(self.wrong(&format!("{what} within {} s", STEP_MAX.as_secs()), &seen))
            }
        }
    }

    fn wrong(&self, expected: &str, seen: &str) -> anyhow::Error {
        let next = match &self.ids.sandbox_id {
            Some(id) => format!(
                "`omoi sandbox events {id}` shows all that it reported; `omoi sandbox logs {id}` what its worker printed"
            ),
            None => "the server's log says more".to_owned(),
        };
        Wrong { expected: expected.to_owned(), seen: seen.to_owned(), next }.into()
    }

    fn project_id(&self) -> Result<ProjectId> {
        self.ids.project_id.clone().context("there is no project")
    }

    fn task_id(&self) -> Result<TaskId> {
        self.ids.task_id.clone().context("there is no task")
    }

    fn sandbox_id(&self) -> Result<SandboxId> {
        self.ids.sandbox_id.clone().context("there is no sandbox")
    }

    fn eye(&mut self) -> Result<&mut Eye<'c>> {
        self.eye.as_mut().context("there is no sandbox to look at")
    }
}

fn call_of(event: &StoredEvent) -> Option<String> {
    match event.payload() {
        Payload::AgentToolUse(data) => data.tool_use_id,
        _ => None,
    }
}
