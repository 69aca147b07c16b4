//! The steps themselves: what is done, what should come of it, and what to do when it does not.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use omoi_client::{Client, FindingQuery, InterventionQuery, TrajectoryQuery};
use omoi_protocol::{
    EventSource, FindingKind, Intervention, InterventionState, MessageState, MessageType, Priority,
    ProjectId, SandboxId, SteeringEffect, TaskId, TaskStatus, Telling, TicketId, TicketType,
    collaboration::NewTelling,
    event::NewEvent,
    guardian::{GuardianIntervention, PutPolicy},
    message::Message,
    sandbox::{AttachSandbox, NewSandbox, SandboxAttached},
    task::{NewTask, Reason},
    ticket::NewTicket,
};
use serde_json::{json, value::RawValue};
use tokio::time::sleep;

use crate::{
    demo::{end, repository},
    project,
    verify_flow::log::Wrong,
};

/// Makes the same call until it is told that it goes in circles.
const CIRCLES: &str = "scripted/circles";
/// Works in small steps until it is told something, writes that down, and ends.
const LISTENS: &str = "scripted/steering";
const POLICY: &str = "steering: on\n";
const SAID: &str = "do you change the parser as well?";
const REASON: &str = "monitoring is verified";

const START_MAX: Duration = Duration::from_secs(120);
const STEP_MAX: Duration = Duration::from_secs(60);
const WORK_MAX_SECONDS: i64 = 600;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const MESSAGES: usize = 50;

pub struct Scene<'c> {
    client: &'c Client,
    pub project_id: Option<ProjectId>,
    completed_before: u64,
    circles: Option<(TaskId, SandboxId)>,
    listens: Option<(TaskId, SandboxId)>,
    /// An agent that somebody runs elsewhere, its ticket and its task.
    elsewhere: Option<(TicketId, TaskId, SandboxAttached)>,
}

impl<'c> Scene<'c> {
    pub fn new(client: &'c Client) -> Self {
        Self { client, project_id: None, completed_before: 0, circles: None, listens: None, elsewhere: None }
    }

    pub async fn server(&self) -> Result<String> {
        let who = self.client.whoami().await?;
        Ok(format!("{} answers {}", self.client.url(), who.name))
    }

    /// A small repository of its own, where the Guardian may speak by itself.
    pub async fn project(&mut self, data_dir: &Path) -> Result<String> {
        let directory = repository::make(data_dir, &repository::BINOMIAL).await?;
        let project = project::of_directory(self.client, &directory).await?.0;
        self.project_id = Some(project.id.clone());
        let put = PutPolicy { text: POLICY.to_owned(), version: None };
        let policy = self.client.policy_put(&project.id, &put).await?;
        self.completed_before = self.client.monitor_dashboard().await?.total_tasks_completed;
        Ok(format!("{}, steering {}", project.id, policy.steering))
    }

    /// Two sandboxes with a task at work, and an agent elsewhere.
    pub async fn running(&mut self) -> Result<String> {
        self.circles = Some(self.work("Look after the parser", CIRCLES).await?);
        self.listens = Some(self.work("Write down what you are told", LISTENS).await?);
        let (ticket, task) = self.ticket("Repair the printer").await?;
        let attach = AttachSandbox { task_id: Some(task.clone()), ..AttachSandbox::default() };
        let attached = self.client.sandbox_attach(&attach).await?;
        let elsewhere = attached.sandbox.id.clone();
        self.elsewhere = Some((ticket, task, attached));
        let (circles, listens) = (self.circles()?.1, self.listens()?.1);
        for id in [&circles, &listens] {
            let begun = Instant::now();
            while self.client.sandbox_get(id).await?.started_at.is_none() {
                if begun.elapsed() > START_MAX {
                    let sandbox = self.client.sandbox_get(id).await?;
                    let why = sandbox.place_error.or(sandbox.end_reason).unwrap_or_default();
                    return Err(wrong(&format!("{id} at work"), &format!("it is {}: {why}", sandbox.status)));
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(format!("{circles}, {listens}, and elsewhere {elsewhere}"))
    }

    pub async fn monitor(&self) -> Result<String> {
        let shown = self.client.monitor_dashboard().await?;
        if shown.active_agents < 3 {
            return Err(wrong("at least 3 agents at work", &format!("{} are", shown.active_agents)));
        }
        Ok(format!("{} agents at work, {} tasks running", shown.active_agents, shown.total_tasks_running))
    }

    /// It watches them, and sees what one of them does.
    pub async fn guardian(&self) -> Result<String> {
        let (_, id) = self.circles()?;
        let query = FindingQuery {
            sandbox_id: Some(id),
            kind: Some(FindingKind::RepeatedAction),
            ..FindingQuery::default()
        };
        let begun = Instant::now();
        loop {
            let status = self.client.guardian_status().await?;
            if let Some(found) = self.client.finding_list(&query).await?.items.into_iter().next() {
                return Ok(format!("watches {}: {}", status.sandboxes_watched, found.text));
            }
            if begun.elapsed() > STEP_MAX {
                let seen = format!("running: {}, watching {}", status.running, status.sandboxes_watched);
                return Err(wrong("that an agent goes in circles", &seen));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    pub async fn conductor(&self) -> Result<String> {
        let ids = [self.circles()?.1, self.listens()?.1];
        let begun = Instant::now();
        loop {
            let matrix = self.client.conductor_matrix(&self.project_id()?).await?;
            let sees =
                |id: &SandboxId| matrix.members.iter().any(|one| one.side.sandbox_id.as_ref() == Some(id));
            if ids.iter().all(sees) {
                return Ok(format!("{} in {} pairs", matrix.members.len(), matrix.pairs.len()));
            }
            if begun.elapsed() > STEP_MAX {
                return Err(wrong("both sandboxes on the radar", &format!("{} are", matrix.members.len())));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// By the id of the sandbox alone.
    pub async fn trajectory(&self) -> Result<String> {
        let (task, id) = self.circles()?;
        let summary = self.client.sandbox_summary(&id).await?;
        if summary.sandbox_id != id || summary.task_id.as_ref() != Some(&task) || summary.goal.is_empty() {
            return Err(wrong(&format!("{id} with its task {task} and a goal"), &format!("{summary:?}")));
        }
        Ok(format!("{} about {:?}", summary.focus, summary.goal.lines().next().unwrap_or_default()))
    }

    pub async fn output(&self) -> Result<String> {
        let (_, id) = self.circles()?;
        let told = self.client.trajectory(&id, &TrajectoryQuery::default()).await?;
        let has = |event_type: &str| told.events.iter().any(|event| event.event_type == event_type);
        if !has("agent.tool_use") || !has("agent.tool_completed") {
            return Err(wrong(
                "calls of tools and what came of them",
                &format!("{} events", told.events.len()),
            ));
        }
        Ok(format!("{} events, {} heartbeats", told.trajectory_events, told.heartbeat_summary.count))
    }

    /// The agent is told while it works, and has read it.
    pub async fn intervention(&self) -> Result<String> {
        let read = |made: &GuardianIntervention| made.state == InterventionState::Acknowledged;
        let made = self.nudge("a nudge that the agent has acknowledged", read).await?;
        Ok(format!("told: {}", made.text.lines().next().unwrap_or_default()))
    }

    pub async fn effect(&self) -> Result<String> {
        let made = self.nudge("whether it changed anything", |made| made.effect.is_some()).await?;
        match made.effect {
            Some(SteeringEffect::Changed) => {
                Ok(made.effect_by.unwrap_or_else(|| "it does something else".to_owned()))
            }
            effect => {
                Err(wrong("that the agent does something else", &format!("{effect:?}: {:?}", made.effect_by)))
            }
        }
    }

    /// From the agent elsewhere to the one that listens.
    pub async fn collaboration(&self) -> Result<String> {
        let (_, to) = self.listens()?;
        let (_, _, from) = self.elsewhere()?;
        let as_agent = Client::new(self.client.url(), &from.token)?;
        let new = NewTelling { to_sandbox_id: to.clone(), kind: Telling::Question, content: SAID.to_owned() };
        let sent = as_agent.peer_tell(&from.sandbox.id, &new).await?;
        let begun = Instant::now();
        loop {
            let history = self.client.message_history(&to, MESSAGES).await?;
            let message = history.into_iter().find(|message: &Message| message.id == sent.message_id);
            match message {
                Some(message) if message.state == MessageState::Acknowledged => {
                    if message.message_type != MessageType::AgentMessage || !message.content.contains(SAID) {
                        return Err(wrong("the question of the other agent", &format!("{message:?}")));
                    }
                    return Ok(format!("{} read: {}", to, message.content));
                }
                message if begun.elapsed() > STEP_MAX => {
                    return Err(wrong("that the other agent reads it", &format!("{message:?}")));
                }
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    pub async fn results(&self) -> Result<String> {
        let mut said = Vec::new();
        for (task, _) in [self.circles()?, self.listens()?] {
            let begun = Instant::now();
            loop {
                let now = self.client.task_get(&task).await?;
                if now.status == TaskStatus::Completed {
                    let output = now.result.as_ref().and_then(|result| result["output"].as_str());
                    said.push(output.context("a completed task without a result")?.to_owned());
                    break;
                }
                let over = matches!(now.status, TaskStatus::Failed | TaskStatus::Cancelled);
                if over || begun.elapsed() > STEP_MAX {
                    let why = now.error_message.unwrap_or_default();
                    return Err(wrong(&format!("{task} completed"), &format!("it is {}: {why}", now.status)));
                }
                sleep(LOOK_EVERY).await;
            }
        }
        Ok(said.join("; "))
    }

    pub async fn metrics(&self) -> Result<String> {
        let completed = self.client.monitor_dashboard().await?.total_tasks_completed;
        let more = completed.saturating_sub(self.completed_before);
        if more < 2 {
            return Err(wrong("2 more completed tasks", &format!("{more} more")));
        }
        Ok(format!("{completed} tasks completed, {more} of them in this run"))
    }

    /// The agent elsewhere gives up; somebody is told why its ticket does not go on.
    pub async fn diagnosis(&self) -> Result<String> {
        let (ticket, task, from) = self.elsewhere()?;
        let as_agent = Client::new(self.client.url(), &from.token)?;
        let data = json!({ "error": "the printer is on fire", "failure_kind": "invalid" });
        let event = NewEvent {
            event_type: "agent.failed".to_owned(),
            event_data: RawValue::from_string(data.to_string())?,
            source: EventSource::Agent,
            worker_seq: None,
        };
        as_agent.event_append(&from.sandbox.id, &event).await?;
        let found = self.client.ticket_diagnose(ticket).await?;
        let about = found.proposals.iter().any(|proposal| proposal.about == *task);
        if !about || !found.root_cause.contains("on fire") {
            return Err(wrong("a diagnosis that names the task and its error", &format!("{found:?}")));
        }
        Ok(found.root_cause)
    }

    pub async fn retry(&self) -> Result<String> {
        let (_, task, _) = self.elsewhere()?;
        let again = self.client.task_retry(task).await?;
        if again.status != TaskStatus::Pending {
            return Err(wrong("a task that is offered again", &format!("it is {}", again.status)));
        }
        Ok(format!("{task} is {} again", again.status))
    }

    /// Whatever is still under way is ended, and what it left is kept: a sandbox outlives its server.
    pub async fn leave(&self) -> Result<()> {
        for (_, sandbox) in [&self.circles, &self.listens].into_iter().flatten() {
            end(self.client, sandbox, REASON).await?;
        }
        if let Some((_, task, _)) = &self.elsewhere {
            let now = self.client.task_get(task).await?.status;
            if matches!(now, TaskStatus::Pending | TaskStatus::Assigned | TaskStatus::Running) {
                self.client.task_cancel(task, &Reason { reason: Some(REASON.to_owned()) }).await?;
            }
        }
        Ok(())
    }

    /// The first nudge of the agent that goes in circles, once it is as it should be.
    async fn nudge(
        &self,
        expected: &str,
        fits: impl Fn(&GuardianIntervention) -> bool,
    ) -> Result<GuardianIntervention> {
        let (_, id) = self.circles()?;
        let query = InterventionQuery { sandbox_id: Some(id), ..InterventionQuery::default() };
        let begun = Instant::now();
        loop {
            let all = self.client.intervention_list(&query).await?.items;
            let first = all.into_iter().rfind(|made| made.action == Intervention::Nudge);
            match first {
                Some(made) if fits(&made) => return Ok(made),
                made if begun.elapsed() > STEP_MAX => {
                    let seen =
                        made.map_or_else(|| "no nudge".to_owned(), |made| format!("it is {}", made.state));
                    return Err(wrong(expected, &seen));
                }
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn work(&self, title: &str, model: &str) -> Result<(TaskId, SandboxId)> {
        let new = task(Some(self.project_id()?), None, title, model);
        let made = self.client.task_create(&new).await?;
        let wish = NewSandbox { task_id: Some(made.id.clone()), ..NewSandbox::default() };
        match self.client.sandbox_order(&self.project_id()?, &wish).await {
            Ok(sandbox) => Ok((made.id, sandbox.id)),
            // It was handed out in this very moment.
            Err(error) if error.status() == Some(409) => {
                let held = self.client.task_get(&made.id).await?.sandbox_id;
                Ok((made.id, held.context("a task that is taken has a sandbox")?))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn ticket(&self, title: &str) -> Result<(TicketId, TaskId)> {
        let new = NewTicket {
            project_id: self.project_id()?,
            title: title.to_owned(),
            description: String::new(),
            ticket_type: TicketType::Bug,
            priority: Priority::Low,
            create_task: false,
            checks: None,
        };
        let ticket = self.client.ticket_create(&new).await?.ticket.id;
        // For whoever attaches: a server that hands tasks out by itself leaves it alone.
        let mut new = task(None, Some(ticket.clone()), title, LISTENS);
        new.execution_config.insert("autonomous".to_owned(), false.into());
        Ok((ticket, self.client.task_create(&new).await?.id))
    }

    fn project_id(&self) -> Result<ProjectId> {
        self.project_id.clone().context("there is no project")
    }

    fn circles(&self) -> Result<(TaskId, SandboxId)> {
        self.circles.clone().context("there is no sandbox")
    }

    fn listens(&self) -> Result<(TaskId, SandboxId)> {
        self.listens.clone().context("there is no second sandbox")
    }

    fn elsewhere(&self) -> Result<&(TicketId, TaskId, SandboxAttached)> {
        self.elsewhere.as_ref().context("there is no agent elsewhere")
    }
}

fn task(project_id: Option<ProjectId>, ticket_id: Option<TicketId>, title: &str, model: &str) -> NewTask {
    let config = json!({ "model": model, "heartbeat_seconds": 1 });
    NewTask {
        project_id,
        ticket_id,
        description: "Until somebody says otherwise.".to_owned(),
        priority: Priority::High,
        max_retries: Some(0),
        timeout_seconds: Some(WORK_MAX_SECONDS),
        execution_config: config.as_object().cloned().unwrap_or_default(),
        ..NewTask::plain(title)
    }
}

fn wrong(expected: &str, seen: &str) -> anyhow::Error {
    let next = "`omoi guardian show`, `omoi conductor show` and `omoi monitor` show what they see; the server's log says more";
    Wrong { expected: expected.to_owned(), seen: seen.to_owned(), next: next.to_owned() }.into()
}
