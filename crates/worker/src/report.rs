//! What is said of the work when it begins and when it has ended.

use jiff::Timestamp;
use omoi_protocol::{
    event::{AgentCompleted, AgentFailed, AgentShutdown, AgentStarted, SandboxPreserved},
    launch::LaunchSpec,
    outcome::Failure,
};

use crate::{keep::Kept, outbox::Outbox, workspace::Pushed};

/// How it went, before it is reported.
pub struct Done {
    pub code: u8,
    pub result: Result<(), Failure>,
    pub pushed: Option<Pushed>,
    pub kept: Option<Kept>,
}

impl Done {
    pub fn failed(code: u8, failure: Failure) -> Self {
        Self { code, result: Err(failure), pushed: None, kept: None }
    }
}

pub fn started(launch: &LaunchSpec) -> AgentStarted {
    AgentStarted {
        timestamp: Some(now().to_string()),
        sdk: Some(if launch.command.is_some() { "command" } else { "none" }.to_owned()),
        task: launch.context.as_ref().map(|context| context.task.title.clone()),
        mode: Some(launch.mode.as_str().to_owned()),
        ..AgentStarted::default()
    }
}

/// Where the work is kept, how it ended, and the worker's last words.
pub fn end(outbox: &Outbox, launch: &LaunchSpec, done: &Done) {
    if let Some(kept) = &done.kept {
        outbox.push(preserved(kept));
    }
    let reason = match &done.result {
        Ok(()) => {
            outbox.push(completed(launch, done.pushed.as_ref()));
            "completed".to_owned()
        }
        Err(failure) => {
            outbox.push(failed(failure));
            failure.kind.to_string()
        }
    };
    let timestamp = Some(now().to_string());
    outbox.push(AgentShutdown { reason: Some(reason), timestamp, ..AgentShutdown::default() });
}

fn preserved(kept: &Kept) -> SandboxPreserved {
    SandboxPreserved {
        ref_name: kept.ref_name.clone(),
        commit: Some(kept.commit.clone()),
        base_commit: kept.base_commit.clone(),
        files_changed: Some(kept.files),
        ..SandboxPreserved::default()
    }
}

fn completed(launch: &LaunchSpec, pushed: Option<&Pushed>) -> AgentCompleted {
    AgentCompleted {
        success: Some(true),
        stop_reason: Some("exit".to_owned()),
        branch_name: launch.repository.as_ref().map(|repository| repository.branch_name.clone()),
        commit: pushed.map(|pushed| pushed.commit.clone()),
        code_pushed: pushed.map(|pushed| pushed.is_new),
        timestamp: Some(now().to_string()),
        ..AgentCompleted::default()
    }
}

fn failed(failure: &Failure) -> AgentFailed {
    AgentFailed {
        error: Some(failure.message.clone()),
        failure_kind: Some(failure.kind.to_string()),
        exit_code: failure.exit_code.map(i64::from),
        signal: failure.signal.map(i64::from),
        ..AgentFailed::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "a worker has no clock but the machine's")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
