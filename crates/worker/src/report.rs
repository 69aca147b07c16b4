//! What is said of the work when it begins and when it has ended.

use jiff::Timestamp;
use omoi_protocol::{
    event::{
        AgentCompleted, AgentFailed, AgentShutdown, AgentStarted, ContinuousCompleted, ContinuousStop,
        Decimal, IterationState, SandboxPreserved,
    },
    launch::LaunchSpec,
    outcome::{CheckResult, Failure, Tokens},
};

use serde_json::{Value, json};

use crate::{keep::Kept, outbox::Outbox, workspace::Pushed};

/// How it went, before it is reported.
pub struct Done {
    pub code: u8,
    pub result: Result<(), Failure>,
    pub pushed: Option<Pushed>,
    pub kept: Option<Kept>,
    /// What the agent did and used, where there was one.
    pub figures: Option<Figures>,
    /// How the iterations ended, where there were any.
    pub looped: Option<Looped>,
    /// What the declared checks came to, where it was they that ran.
    pub checks: Vec<CheckResult>,
}

pub struct Looped {
    pub stop: ContinuousStop,
    pub state: IterationState,
}

#[derive(Debug, Clone)]
pub struct Figures {
    pub session_id: String,
    pub turns: u64,
    pub cost_usd: f64,
    pub tokens: Tokens,
    pub final_output: String,
    /// The branch has commits of this sandbox.
    pub committed: bool,
}

impl Done {
    pub fn ended() -> Self {
        Self {
            code: 0,
            result: Ok(()),
            pushed: None,
            kept: None,
            figures: None,
            looped: None,
            checks: Vec::new(),
        }
    }

    pub fn failed(code: u8, failure: Failure) -> Self {
        Self { code, result: Err(failure), ..Self::ended() }
    }
}

pub fn command_started(launch: &LaunchSpec) -> AgentStarted {
    let sdk = if launch.command.is_some() { "command" } else { "none" };
    AgentStarted { sdk: Some(sdk.to_owned()), ..begun(launch) }
}

pub fn checks_started(launch: &LaunchSpec) -> AgentStarted {
    AgentStarted { sdk: Some("checks".to_owned()), ..begun(launch) }
}

/// The built-in agent has its task.
pub fn started(launch: &LaunchSpec, session_id: &str) -> AgentStarted {
    let context = launch.context.as_ref();
    AgentStarted {
        sdk: Some(launch.agent.kind.as_str().to_owned()),
        model: launch.agent.model.clone(),
        task_description_length: context.map(|context| context.task.description.chars().count() as u64),
        ticket_title: context.and_then(|context| Some(context.ticket.as_ref()?.title.clone())),
        is_resuming: Some(launch.resume.is_some()),
        resumed_session_id: launch.resume.as_ref().map(|resume| resume.session_id.clone()),
        session_id: Some(session_id.to_owned()),
        ..begun(launch)
    }
}

fn begun(launch: &LaunchSpec) -> AgentStarted {
    AgentStarted {
        timestamp: Some(now().to_string()),
        task: launch.context.as_ref().map(|context| context.task.title.clone()),
        mode: Some(launch.mode.as_str().to_owned()),
        spec_phase: phase(launch),
        ..AgentStarted::default()
    }
}

/// Where the work is kept, how it ended, and the worker's last words.
pub fn end(outbox: &Outbox, launch: &LaunchSpec, done: &Done) {
    if let Some(kept) = &done.kept {
        outbox.push(preserved(kept));
    }
    if let Some(looped) = &done.looped {
        outbox.push(iterated(launch, done, looped));
    }
    let reason = match &done.result {
        Ok(()) => {
            outbox.push(completed(launch, done));
            "completed".to_owned()
        }
        Err(failure) => {
            outbox.push(failed(failure, done));
            failure.kind.to_string()
        }
    };
    let timestamp = Some(now().to_string());
    let total_turns = done.figures.as_ref().map(|figures| figures.turns);
    outbox.push(AgentShutdown { reason: Some(reason), timestamp, total_turns, ..AgentShutdown::default() });
}

fn preserved(kept: &Kept) -> SandboxPreserved {
    SandboxPreserved {
        ref_name: kept.ref_name.clone(),
        commit: Some(kept.commit.clone()),
        base_commit: kept.base_commit.clone(),
        files_changed: Some(kept.files),
        set_aside: kept.set_aside.as_ref().and_then(|aside| serde_json::to_value(aside).ok()),
        left_out: serde_json::to_value(&kept.losses.listed).ok().filter(|_| kept.losses.files > 0),
        left_out_files: Some(kept.losses.files).filter(|files| *files > 0),
        left_out_bytes: Some(kept.losses.bytes).filter(|_| kept.losses.files > 0),
        ..SandboxPreserved::default()
    }
}

fn iterated(launch: &LaunchSpec, done: &Done, looped: &Looped) -> ContinuousCompleted {
    let (failure, figures) = (done.result.as_ref().err(), done.figures.as_ref());
    let mut event = ContinuousCompleted {
        stop_reason: Some(looped.stop.clone()),
        error: failure.map(|failure| failure.message.clone()),
        failure_kind: failure.map(|failure| failure.kind.to_string()),
        branch_name: launch.repository.as_ref().map(|repository| repository.branch_name.clone()),
        commit: done.pushed.as_ref().map(|pushed| pushed.commit.clone()),
        final_output: figures.map(|figures| figures.final_output.clone()),
        state: looped.state.clone(),
        ..ContinuousCompleted::default()
    };
    // What the outcome of a task tells of any agent.
    if let Some(Figures { turns, tokens, .. }) = figures {
        let counts = [
            ("turns", *turns),
            ("input_tokens", tokens.input_tokens),
            ("output_tokens", tokens.output_tokens),
            ("cache_read_tokens", tokens.cache_read_tokens),
            ("cache_write_tokens", tokens.cache_write_tokens),
        ];
        event.extra.extend(counts.map(|(name, count)| (name.to_owned(), count.into())));
    }
    event
}

fn completed(launch: &LaunchSpec, done: &Done) -> AgentCompleted {
    let (pushed, figures) = (done.pushed.as_ref(), done.figures.as_ref());
    let tokens = figures.map(|figures| figures.tokens);
    let base = || launch.repository.as_ref().map(|repository| repository.base_commit.clone());
    let checked = if done.checks.is_empty() { None } else { base() };
    AgentCompleted {
        success: Some(true),
        stop_reason: Some(if figures.is_some() { "end_turn" } else { "exit" }.to_owned()),
        turns: figures.map(|figures| figures.turns),
        cost_usd: figures.and_then(|figures| Decimal::new(figures.cost_usd)),
        session_id: figures.map(|figures| figures.session_id.clone()),
        input_tokens: tokens.map(|tokens| tokens.input_tokens),
        output_tokens: tokens.map(|tokens| tokens.output_tokens),
        cache_read_tokens: tokens.map(|tokens| tokens.cache_read_tokens),
        cache_write_tokens: tokens.map(|tokens| tokens.cache_write_tokens),
        final_output: figures.map(|figures| figures.final_output.clone()),
        agent_type: launch.agent.agent_type.clone(),
        branch_name: launch.repository.as_ref().map(|repository| repository.branch_name.clone()),
        commit: pushed.map(|pushed| pushed.commit.clone()).or(checked),
        checks: checks(done),
        code_committed: figures.map(|figures| figures.committed),
        code_pushed: pushed.map(|pushed| pushed.is_new),
        files_changed: pushed.map(|pushed| pushed.files.into()),
        // The end of the iterations has been told already, and counts.
        continuous: done.looped.as_ref().map(|_| true),
        timestamp: Some(now().to_string()),
        spec_phase: phase(launch),
        ..AgentCompleted::default()
    }
}

fn failed(failure: &Failure, done: &Done) -> AgentFailed {
    let figures = done.figures.as_ref();
    AgentFailed {
        checks: checks(done),
        session_id: figures.map(|figures| figures.session_id.clone()),
        turns: figures.map(|figures| figures.turns),
        cost_usd: figures.and_then(|figures| Decimal::new(figures.cost_usd)),
        final_output: figures.map(|figures| figures.final_output.clone()),
        code_committed: figures.map(|figures| figures.committed),
        error: Some(failure.message.clone()),
        failure_kind: Some(failure.kind.to_string()),
        exit_code: failure.exit_code.map(i64::from),
        signal: failure.signal.map(i64::from),
        ..AgentFailed::default()
    }
}

fn phase(launch: &LaunchSpec) -> Option<String> {
    launch.spec.as_ref().map(|spec| spec.phase.to_string())
}

fn checks(done: &Done) -> Option<Value> {
    (!done.checks.is_empty()).then(|| json!(done.checks))
}

#[expect(clippy::disallowed_methods, reason = "a worker has no clock but the machine's")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
