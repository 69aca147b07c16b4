//! What a body must satisfy beyond its types. The same bounds stand in the OpenAPI document.

use std::collections::BTreeMap;

use omoi_protocol::{
    ProviderKind,
    action::{CancelTask, OverridePriority, PauseOrResume, Reallocate},
    agent::{Heartbeat, NewAgent},
    batch::{BATCH_EDGES_MAX, BATCH_TASKS_MAX, BatchTask, NewTaskBatch},
    collaboration::NewTelling,
    diagnosis::Acceptance,
    guardian::{ApproveIntervention, DismissIntervention, NewNudge, PutPolicy, TryPolicy},
    launch::{PlainEnv, Resources},
    message::{MessageReport, NewMessage},
    project::{NewProject, ProjectPatch},
    result::NewResult,
    sandbox::{
        AttachSandbox, NewCommand, NewSandbox, Prune, SESSION_ID_CHARS_MAX, TaskComplete, TranscriptPart,
    },
    session::NewSession,
    spec::{
        ApprovePhase, DecideDuplicate, EditPhase, ExecuteSpec, ImportSpec, NewSpec, RequestChanges,
        SetSpecGates, SpecPatch,
    },
    task::{DependencyList, NewTask, Reason, SetTimeout, TaskPatch},
    ticket::{NewTicket, TicketPatch},
    token::NewToken,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::domain::{
    agent, author, budget, check, collaboration, diagnosis::PROPOSALS_MAX, dispatch, egress::Settings, graph,
    limit, report, repository::Remote, spec_course,
};

pub trait Valid {
    /// What is wrong, naming the field.
    fn check(&self) -> Result<(), String>;
}

const YEAR_SECONDS: i64 = 31_536_000;

pub fn text(field: &str, value: &str, min: usize, max: usize) -> Result<(), String> {
    let chars = value.chars().count();
    if chars < min || (min > 0 && value.trim().is_empty()) {
        return Err(format!("{field} must not be empty"));
    }
    if chars > max {
        return Err(format!("{field} has {chars} characters; {max} are allowed"));
    }
    if value.contains('\0') {
        return Err(format!("{field} holds NUL, which cannot be stored"));
    }
    Ok(())
}

fn some(field: &str, value: Option<&String>, min: usize, max: usize) -> Result<(), String> {
    value.map_or(Ok(()), |value| text(field, value, min, max))
}

pub fn range(field: &str, value: Option<i64>, min: i64, max: i64) -> Result<(), String> {
    match value {
        Some(n) if !(min..=max).contains(&n) => {
            Err(format!("{field} is {n}; it must be from {min} to {max}"))
        }
        _ => Ok(()),
    }
}

fn texts(field: &str, values: &[String], count_max: usize) -> Result<(), String> {
    if values.len() > count_max {
        return Err(format!("{field} has {} entries; {count_max} are allowed", values.len()));
    }
    values.iter().try_for_each(|value| text(field, value, 1, 500))
}

const SETUP_BYTES_MAX: usize = 20_000;
/// What a task came to is shown wherever the task is.
const TASK_RESULT_BYTES_MAX: usize = 1024 * 1024;

/// What one sandbox may have.
const SIZES: [(&str, i64); 3] = [
    ("memory_gb", Resources::CAP.memory_gb as i64),
    ("cpu", Resources::CAP.cpu as i64),
    ("disk_gb", Resources::CAP.disk_gb as i64),
];

/// Sandboxes are made on this machine alone. One that is wanted elsewhere is refused and not quietly made here.
fn provider(field: &str, named: Option<&Value>) -> Result<(), String> {
    match named {
        None | Some(Value::Null) => Ok(()),
        Some(name) if name == ProviderKind::Local.as_str() => Ok(()),
        Some(name) => Err(format!("{field} is {name}; sandboxes can be made at \"local\" alone")),
    }
}

/// What a project's settings say of the sandboxes themselves. One that cannot be read would drop the others at launch.
fn places(settings: &Map<String, Value>) -> Result<(), String> {
    let given = |name: &str| settings.get(name).filter(|value| !value.is_null());
    match given("setup") {
        None => {}
        Some(Value::String(setup)) if setup.len() <= SETUP_BYTES_MAX && !setup.contains('\0') => {}
        Some(_) => {
            return Err(format!("settings.setup must be a shell command of at most {SETUP_BYTES_MAX} bytes"));
        }
    }
    if given("image")
        .is_some_and(|image| !image.as_str().is_some_and(|image| (1..=200).contains(&image.len())))
    {
        return Err("settings.image must be the name of an image".to_owned());
    }
    for (name, max) in SIZES {
        if let Some(size) = given(name)
            && !size.as_i64().is_some_and(|size| (1..=max).contains(&size))
        {
            return Err(format!("settings.{name} is {size}; it must be a whole number from 1 to {max}"));
        }
    }
    match given("env") {
        None => Ok(()),
        Some(env) => PlainEnv::deserialize(env).map(drop).map_err(|error| format!("settings.env: {error}")),
    }
}

/// What a project's settings say of the network, of its agent and of money must be readable.
fn settings(settings: &Map<String, Value>) -> Result<(), String> {
    Settings::parse(settings).map_err(|error| error.to_string())?;
    provider("settings.provider", settings.get("provider"))?;
    places(settings)?;
    dispatch::check("settings", settings)?;
    agent::check("settings", settings)?;
    author::check(settings)?;
    check::check("settings", settings)?;
    spec_course::check(settings)?;
    collaboration::check(settings)?;
    budget::check(settings)
}

/// And so must what a task says of its agent, of its limits and of money.
fn execution(config: &Map<String, Value>) -> Result<(), String> {
    provider("execution_config.provider", config.get("provider"))?;
    dispatch::check("execution_config", config)?;
    agent::check("execution_config", config)?;
    agent::check_task(config)?;
    graph::check(config)?;
    limit::check(config)?;
    check::check("execution_config", config)?;
    budget::check(config)
}

/// An address that could be fetched from, or none. One with a password would show it to everybody who sees the project.
fn repository(url: &str) -> Result<(), String> {
    text("repository_url", url, 0, 2_000)?;
    if url.is_empty() {
        return Ok(());
    }
    Remote::parse(url).map(drop).map_err(|error| format!("repository_url: {error}"))
}

impl Valid for NewProject {
    fn check(&self) -> Result<(), String> {
        text("name", &self.name, 1, 200)?;
        text("description", &self.description, 0, 20_000)?;
        self.repository_url.as_deref().map_or(Ok(()), repository)?;
        text("default_branch", &self.default_branch, 1, 200)?;
        range("max_concurrent", self.max_concurrent, 0, 10_000)?;
        settings(&self.settings)
    }
}

impl Valid for ProjectPatch {
    fn check(&self) -> Result<(), String> {
        some("name", self.name.as_ref(), 1, 200)?;
        some("description", self.description.as_ref(), 0, 20_000)?;
        self.repository_url.as_deref().map_or(Ok(()), repository)?;
        some("default_branch", self.default_branch.as_ref(), 1, 200)?;
        range("max_concurrent", self.max_concurrent.flatten(), 0, 10_000)?;
        self.settings.as_ref().map_or(Ok(()), settings)
    }
}

impl Valid for NewTicket {
    fn check(&self) -> Result<(), String> {
        text("title", &self.title, 1, 500)?;
        text("description", &self.description, 0, 100_000)?;
        self.checks.as_ref().map_or(Ok(()), |checks| check::check_list("checks", checks))
    }
}

impl Valid for TicketPatch {
    fn check(&self) -> Result<(), String> {
        some("title", self.title.as_ref(), 1, 500)?;
        some("description", self.description.as_ref(), 0, 100_000)?;
        self.checks.as_ref().map_or(Ok(()), |checks| check::check_list("checks", checks))
    }
}

impl Valid for NewTask {
    fn check(&self) -> Result<(), String> {
        text("title", &self.title, 1, 500)?;
        text("description", &self.description, 0, 100_000)?;
        text("task_type", &self.task_type, 1, 100)?;
        text("phase_id", &self.phase_id, 1, 50)?;
        texts("required_capabilities", &self.required_capabilities, 100)?;
        texts("owned_files", &self.owned_files, 1_000)?;
        range("dependencies", Some(self.dependencies.len() as i64), 0, 1_000)?;
        range("max_retries", self.max_retries, 0, 100)?;
        range("timeout_seconds", self.timeout_seconds, 1, YEAR_SECONDS)?;
        execution(&self.execution_config)
    }
}

impl Valid for NewTaskBatch {
    fn check(&self) -> Result<(), String> {
        some("batch_key", self.batch_key.as_ref(), 1, 200)?;
        range("tasks", Some(self.tasks.len() as i64), 1, BATCH_TASKS_MAX as i64)?;
        let edges = self.tasks.iter().map(|task| task.depends_on.len()).sum::<usize>();
        range("depends_on of all tasks", Some(edges as i64), 0, BATCH_EDGES_MAX as i64)?;
        self.tasks
            .iter()
            .try_for_each(|task| task.check().map_err(|why| format!("task {:?}: {why}", task.key)))
    }
}

impl Valid for BatchTask {
    fn check(&self) -> Result<(), String> {
        text("key", &self.key, 1, 100)?;
        text("title", &self.title, 1, 500)?;
        text("description", &self.description, 0, 100_000)?;
        text("task_type", &self.task_type, 1, 100)?;
        text("phase_id", &self.phase_id, 1, 50)?;
        texts("required_capabilities", &self.required_capabilities, 100)?;
        texts("owned_files", &self.owned_files, 1_000)?;
        texts("depends_on", &self.depends_on, 1_000)?;
        range("max_retries", self.max_retries, 0, 100)?;
        range("timeout_seconds", self.timeout_seconds, 1, YEAR_SECONDS)?;
        execution(&self.execution_config)
    }
}

impl Valid for TaskPatch {
    fn check(&self) -> Result<(), String> {
        some("title", self.title.as_ref(), 1, 500)?;
        some("description", self.description.as_ref(), 0, 100_000)?;
        self.execution_config.as_ref().map_or(Ok(()), execution)
    }
}

impl Valid for NewSpec {
    fn check(&self) -> Result<(), String> {
        text("title", &self.title, 1, 500)?;
        text("description", &self.description, 0, 100_000)
    }
}

impl Valid for SpecPatch {
    fn check(&self) -> Result<(), String> {
        some("title", self.title.as_ref(), 1, 500)?;
        some("description", self.description.as_ref(), 0, 100_000)
    }
}

impl Valid for ImportSpec {
    fn check(&self) -> Result<(), String> {
        some("title", self.title.as_ref(), 1, 500)?;
        range("files", Some(self.files.len() as i64), 1, 100)
    }
}

impl Valid for ExecuteSpec {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Valid for DecideDuplicate {
    fn check(&self) -> Result<(), String> {
        text("symbol", &self.symbol, 1, 100)
    }
}

impl Valid for SetSpecGates {
    fn check(&self) -> Result<(), String> {
        range("gates", self.gates.as_ref().map(|gates| gates.len() as i64), 0, 6)
    }
}

impl Valid for ApprovePhase {
    fn check(&self) -> Result<(), String> {
        text("comment", &self.comment, 0, 20_000)
    }
}

impl Valid for RequestChanges {
    fn check(&self) -> Result<(), String> {
        text("comment", &self.comment, 1, 20_000)
    }
}

impl Valid for EditPhase {
    fn check(&self) -> Result<(), String> {
        text("comment", &self.comment, 0, 20_000)
    }
}

impl Valid for DependencyList {
    fn check(&self) -> Result<(), String> {
        range("depends_on", Some(self.depends_on.len() as i64), 0, 1_000)
    }
}

impl Valid for Reason {
    fn check(&self) -> Result<(), String> {
        some("reason", self.reason.as_ref(), 0, 2_000)
    }
}

impl Valid for SetTimeout {
    fn check(&self) -> Result<(), String> {
        range("timeout_seconds", self.timeout_seconds, 1, YEAR_SECONDS)
    }
}

impl Valid for AttachSandbox {
    fn check(&self) -> Result<(), String> {
        labels(&self.labels)
    }
}

impl Valid for NewSandbox {
    fn check(&self) -> Result<(), String> {
        provider("provider", self.provider.map(|kind| kind.as_str().into()).as_ref())?;
        argv("command", &self.command, 0)?;
        some("base", self.base.as_ref(), 1, 200)?;
        some("image", self.image.as_ref(), 1, 200)?;
        some("resume_session_id", self.resume_session_id.as_ref(), 1, SESSION_ID_CHARS_MAX)?;
        for ((name, max), size) in SIZES.into_iter().zip([self.memory_gb, self.cpu, self.disk_gb]) {
            range(name, size, 1, max)?;
        }
        range("timeout_seconds", self.timeout_seconds, 1, YEAR_SECONDS)?;
        labels(&self.labels)
    }
}

impl Valid for Prune {
    fn check(&self) -> Result<(), String> {
        range("older_than_seconds", self.older_than_seconds, 0, YEAR_SECONDS)
    }
}

impl Valid for TranscriptPart {
    fn check(&self) -> Result<(), String> {
        text("session_id", &self.session_id, 1, SESSION_ID_CHARS_MAX)?;
        range("offset", Some(self.offset), 0, i64::MAX)
    }
}

impl Valid for NewCommand {
    fn check(&self) -> Result<(), String> {
        argv("argv", &self.argv, 1)
    }
}

/// A program and its arguments, as the kernel takes them.
fn argv(name: &str, argv: &[String], min: i64) -> Result<(), String> {
    range(name, Some(argv.len() as i64), min, 1_000)?;
    argv.iter().try_for_each(|argument| text(name, argument, 0, 100_000))
}

fn labels(labels: &BTreeMap<String, String>) -> Result<(), String> {
    range("labels", Some(labels.len() as i64), 0, 100)?;
    labels.iter().try_for_each(|(key, value)| {
        text("labels", key, 1, 100)?;
        text("labels", value, 0, 1_000)
    })
}

impl Valid for NewMessage {
    fn check(&self) -> Result<(), String> {
        text("content", &self.content, 1, usize::MAX)
    }
}

impl Valid for MessageReport {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Valid for NewTelling {
    fn check(&self) -> Result<(), String> {
        text("content", &self.content, 1, 16_384)
    }
}

impl Valid for CancelTask {
    fn check(&self) -> Result<(), String> {
        reason(&self.reason)
    }
}

impl Valid for OverridePriority {
    fn check(&self) -> Result<(), String> {
        reason(&self.reason)
    }
}

impl Valid for Reallocate {
    fn check(&self) -> Result<(), String> {
        range("capacity", Some(self.capacity), 1, 10_000)?;
        reason(&self.reason)
    }
}

impl Valid for PauseOrResume {
    fn check(&self) -> Result<(), String> {
        reason(&self.reason)
    }
}

/// Whoever does something by authority says why.
fn reason(reason: &str) -> Result<(), String> {
    text("reason", reason, 1, 2_000)
}

impl Valid for Acceptance {
    fn check(&self) -> Result<(), String> {
        let named = self.proposals.as_ref().map(|named| named.len() as i64);
        range("proposals", named, 0, PROPOSALS_MAX as i64)
    }
}

impl Valid for TaskComplete {
    fn check(&self) -> Result<(), String> {
        some("error_message", self.error_message.as_ref(), 0, report::ERROR_CHARS_MAX)?;
        let bytes = self.result.as_ref().map_or(0, |result| result.to_string().len());
        match bytes > TASK_RESULT_BYTES_MAX {
            true => Err(format!("result has {bytes} bytes; {TASK_RESULT_BYTES_MAX} are allowed")),
            false => Ok(()),
        }
    }
}

impl Valid for NewAgent {
    fn check(&self) -> Result<(), String> {
        text("name", &self.name, 1, 200)?;
        text("agent_type", &self.agent_type, 1, 100)?;
        texts("capabilities", &self.capabilities, 100)
    }
}

impl Valid for Heartbeat {
    fn check(&self) -> Result<(), String> {
        range("sequence_number", Some(self.sequence_number), 0, i64::MAX)
    }
}

impl Valid for NewResult {
    fn check(&self) -> Result<(), String> {
        text("summary", &self.summary, 1, 2_000)?;
        text("content", &self.content, 1, 102_400)
    }
}

impl Valid for NewToken {
    fn check(&self) -> Result<(), String> {
        text("name", &self.name, 1, 200)
    }
}

impl Valid for NewSession {
    fn check(&self) -> Result<(), String> {
        text("token", &self.token, 1, 500)
    }
}

const SPOKEN_CHARS_MAX: usize = 4_000;
const POLICY_CHARS_MAX: usize = 65_536;

impl Valid for ApproveIntervention {
    fn check(&self) -> Result<(), String> {
        some("text", self.text.as_ref(), 1, SPOKEN_CHARS_MAX)
    }
}

impl Valid for DismissIntervention {
    fn check(&self) -> Result<(), String> {
        some("reason", self.reason.as_ref(), 0, 2_000)
    }
}

impl Valid for NewNudge {
    fn check(&self) -> Result<(), String> {
        text("text", &self.text, 1, SPOKEN_CHARS_MAX)
    }
}

impl Valid for PutPolicy {
    fn check(&self) -> Result<(), String> {
        text("text", &self.text, 1, POLICY_CHARS_MAX)
    }
}

impl Valid for TryPolicy {
    fn check(&self) -> Result<(), String> {
        some("text", self.text.as_ref(), 1, POLICY_CHARS_MAX)
    }
}
