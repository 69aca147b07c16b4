//! The launch of a sandbox, put together from what is stored and configured. What was asked for wins over the project's
//! settings, and those over the configuration.

use std::collections::BTreeMap;

use omoi_protocol::{
    launch::{
        Check, Door, LaunchSpec, Limits, PlainEnv, Repository, Resources, Resume, Revision, SandboxToken,
        TaskBrief, TaskContext, TicketBrief, WORKSPACE_PATH, fitting,
    },
    sandbox::Sandbox,
    task::Task,
    ticket::Ticket,
};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::{
    config,
    domain::{agent, limit},
    sandbox::local::{API_PORT, PROXY_PORT},
    store::{Before, Facts, Session},
};

/// What is left of a sandbox's grace when its worker has to be gone.
const STOP_MARGIN_SECONDS: u64 = 5;

/// How long a sandbox of checks may take before the first of them begins, and after the last.
const CHECK_SETUP_SECONDS: u64 = 20 * 60;

/// What a project's settings say about its sandboxes. Whatever cannot be read was refused when it was set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    image: Option<String>,
    memory_gb: Option<u32>,
    cpu: Option<u32>,
    disk_gb: Option<u32>,
    env: PlainEnv,
    setup: Option<String>,
    git_author_name: Option<String>,
    git_author_email: Option<String>,
}

/// What a person's command finds in a sandbox: where it is and what it is for. It has no token, since the person who asked
/// has their own.
pub fn environment(sandbox: &Sandbox, task: Option<&Task>) -> BTreeMap<String, String> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let mut env = BTreeMap::from(
        [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", "/home/agent"),
            ("USER", "agent"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("NO_PROXY", "127.0.0.1,localhost"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    env.extend(
        ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"]
            .map(|name| (name.to_owned(), proxy.clone())),
    );
    let told = [
        ("SANDBOX_ID", Some(sandbox.id.to_string())),
        ("PROJECT_ID", sandbox.project_id.as_ref().map(ToString::to_string)),
        ("BRANCH_NAME", sandbox.branch_name.clone()),
        ("WORKSPACE_PATH", Some(WORKSPACE_PATH.to_owned())),
        ("TASK_ID", task.map(|task| task.id.to_string())),
        ("TASK_DESCRIPTION", task.map(|task| task.description.clone())),
    ];
    env.extend(told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    fitting(env).0
}

/// The door as a local sandbox sees it.
pub fn door() -> Door {
    Door::new(format!("http://127.0.0.1:{API_PORT}"), Some(format!("http://127.0.0.1:{PROXY_PORT}")))
}

/// What counts where nobody says otherwise.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub sandbox: config::Sandbox,
    pub worker: config::Worker,
    /// What one push may bring.
    pub push_bytes_max: u64,
}

pub fn launch(facts: &Facts, base_commit: &str, resumed: Option<Session>, defaults: &Defaults) -> LaunchSpec {
    let config = &defaults.sandbox;
    let Facts { sandbox, project, task, ticket, wish, token, before, .. } = facts;
    let settings: Settings =
        serde_json::from_value(Json::Object(project.settings.clone())).unwrap_or_default();
    let door = door();
    let mut launch = LaunchSpec::new(
        sandbox.id.clone(),
        sandbox.provider,
        door.clone(),
        SandboxToken::new(token.as_str()),
    );
    launch.project_id = Some(project.id.clone());
    launch.task_id = task.as_ref().map(|task| task.id.clone());
    launch.snapshot = config.snapshot.clone();
    launch.image = wish.image.clone().or(settings.image).or_else(|| config.image.clone());
    let size = |asked: Option<i64>, set: Option<u32>, default: u32| {
        asked.and_then(|n| u32::try_from(n).ok()).or(set).unwrap_or(default)
    };
    launch.resources = Resources {
        memory_gb: size(wish.memory_gb, settings.memory_gb, config.memory_gb),
        cpu: size(wish.cpu, settings.cpu, config.cpu),
        disk_gb: size(wish.disk_gb, settings.disk_gb, config.disk_gb),
    }
    .capped();
    launch.repository = Some(Repository {
        url: door.git_url(&project.id),
        full_name: project.repository_url.as_deref().and_then(full_name),
        branch_name: sandbox.branch_name.clone().unwrap_or_default(),
        base_commit: base_commit.to_owned(),
        author_name: settings.git_author_name,
        author_email: settings.git_author_email,
        push_bytes_max: Some(defaults.push_bytes_max),
    });
    launch.command = (!wish.command.is_empty()).then(|| wish.command.clone());
    let asked = task.as_ref().map(|task| task.execution_config.clone()).unwrap_or_default();
    if let Some(task) = task {
        launch.mode = agent::mode(&task.task_type, &task.phase_id, &asked);
    }
    launch.continuous = agent::continuous(&project.settings, &asked);
    launch.agent = agent::agent(&defaults.worker.model, &project.settings, &asked);
    launch.limits = limits(facts, &asked, &defaults.worker);
    launch.limits.grace_seconds = config.stop_grace.as_secs().saturating_sub(STOP_MARGIN_SECONDS).max(1);
    launch.labels = sandbox.labels.clone();
    launch.spec = facts.spec.clone();
    launch.env = settings.env;
    launch.setup = settings.setup;
    let feedback = facts.feedback.clone().or(before.feedback.clone());
    // Checks begin with the commit that was pushed, whatever else the work left.
    let missing = if facts.owed.is_some() { Vec::new() } else { before.missing.clone() };
    let notice = Before { feedback, missing, commit: None }.notice();
    launch.context = task.as_ref().map(|task| context(task, ticket.as_ref(), notice.as_deref()));
    launch.resume = resumed.map(|session| Resume {
        session_id: session.session_id,
        transcript_b64: Some(session.transcript_b64),
    });
    if let Some(owed) = &facts.owed {
        launch.limits.wall_clock_seconds = check_seconds(&owed.checks);
        (launch.checks, launch.command, launch.resume) = (owed.checks.clone(), None, None);
    }
    launch
}

/// All of their time, and what setting up takes besides.
fn check_seconds(checks: &[Check]) -> u64 {
    checks.iter().map(|check| check.timeout_seconds).sum::<u64>() + CHECK_SETUP_SECONDS
}

fn limits(facts: &Facts, asked: &Map<String, Json>, worker: &config::Worker) -> Limits {
    let kind = if facts.spec.is_some() { Limits::SPEC_PHASE } else { Limits::DEFAULT };
    let defaults = Limits { idle_seconds: worker.idle.as_secs(), ..kind };
    let mut limits = limit::limits(defaults, asked);
    let of_task = facts.task.as_ref().and_then(|task| task.timeout_seconds);
    let timeout = facts.wish.timeout_seconds.or(of_task);
    if let Some(seconds) = timeout.and_then(|seconds| u64::try_from(seconds).ok()) {
        limits.wall_clock_seconds = seconds;
    }
    limits
}

fn context(task: &Task, ticket: Option<&Ticket>, feedback: Option<&str>) -> TaskContext {
    TaskContext {
        task: TaskBrief {
            id: task.id.clone(),
            task_type: task.task_type.clone(),
            title: task.title.clone(),
            description: task.description.clone(),
            priority: task.priority,
            phase_id: Some(task.phase_id.clone()),
        },
        ticket: ticket.map(|ticket| TicketBrief {
            id: ticket.id.clone(),
            ticket_type: ticket.ticket_type,
            title: ticket.title.clone(),
            description: ticket.description.clone(),
            priority: ticket.priority,
            context: serde_json::Map::new(),
        }),
        revision: feedback.map(|feedback| Revision {
            feedback: feedback.to_owned(),
            recommendations: Vec::new(),
            iteration: u32::try_from(task.retry_count).unwrap_or(u32::MAX).max(1),
        }),
        markdown: None,
        extra: serde_json::Map::new(),
    }
}

/// `owner/name` of an address at a forge.
fn full_name(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://").unwrap_or_else(|| url.split_once(':').unwrap_or(("", url)));
    if url.starts_with('/') || url.starts_with("file:") {
        return None;
    }
    let path = if url.contains("://") { rest.split_once('/')?.1 } else { rest };
    let mut parts = path.trim_matches('/').trim_end_matches(".git").rsplit('/');
    let (name, owner) = (parts.next()?, parts.next()?);
    Some(format!("{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::full_name;

    #[test]
    fn a_forge_s_address_tells_owner_and_name() {
        for (url, name) in [
            ("https://forge.example/owner/name.git", Some("owner/name")),
            ("https://forge.example/owner/name", Some("owner/name")),
            ("git@forge.example:owner/name.git", Some("owner/name")),
            ("ssh://git@forge.example/owner/name", Some("owner/name")),
            ("/srv/repositories/owner/name", None),
            ("file:///srv/owner/name", None),
            ("https://forge.example", None),
        ] {
            assert_eq!(full_name(url).as_deref(), name, "{url}");
        }
    }
}
