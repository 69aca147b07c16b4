//! The launch of one sandbox.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    AgentLaunch, Check, Door, ExecutionMode, Gates, Limits, PlainEnv, Repository, Resources, Resume,
    SandboxToken, SpecLaunch, TaskContext, WORKSPACE_PATH,
};
use crate::{ProjectId, ProviderKind, SandboxId, TaskId};

/// What is absent in its JSON takes the value that `LaunchSpec::new` gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LaunchSpec {
    pub sandbox_id: SandboxId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ProjectId>,
    /// None for a sandbox that a person asked for, without a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    pub provider: ProviderKind,
    /// Preferred to `image` by providers that have snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(default)]
    pub resources: Resources,
    /// The directory that the work is done in, whether or not there is a repository in it.
    #[serde(default = "workspace_path")]
    pub workspace_path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// Where the worker keeps unsent events; None leaves it to the worker (`SPOOL_PATH`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spool_path: Option<String>,
    pub door: Door,
    pub token: SandboxToken,
    /// Run in the place of an agent: a program and its arguments, without a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Run by a shell in the workspace before the agent begins: installs what the project needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Run in the place of an agent, all of them, on the commit that the repository begins with. Nothing is pushed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    #[serde(default)]
    pub mode: ExecutionMode,
    #[serde(default)]
    pub agent: AgentLaunch,
    #[serde(default)]
    pub limits: Limits,
    /// Whether the worker iterates until its gates are passed; None means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuous: Option<bool>,
    /// What must hold before the worker reports success; None leaves it to the mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<Gates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<SpecLaunch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// For the provider's own lists.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub env: PlainEnv,
    /// What the worker is told about its task; None without a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<TaskContext>,
}

impl LaunchSpec {
    /// A sandbox with nothing in it and nothing to do.
    pub fn new(sandbox_id: SandboxId, provider: ProviderKind, door: Door, token: SandboxToken) -> Self {
        Self {
            sandbox_id,
            project_id: None,
            task_id: None,
            provider,
            snapshot: None,
            image: None,
            resources: Resources::default(),
            workspace_path: workspace_path(),
            repository: None,
            spool_path: None,
            door,
            token,
            command: None,
            setup: None,
            checks: Vec::new(),
            mode: ExecutionMode::default(),
            agent: AgentLaunch::default(),
            limits: Limits::default(),
            continuous: None,
            gates: None,
            spec: None,
            resume: None,
            labels: BTreeMap::new(),
            env: PlainEnv::default(),
            context: None,
        }
    }

    /// Only who is asked to iterates.
    pub fn is_continuous(&self) -> bool {
        self.continuous == Some(true)
    }

    /// An explicit wish, else: all, except for a look around.
    pub fn gates(&self) -> Gates {
        let by_mode = if self.mode == ExecutionMode::Exploration { Gates::NONE } else { Gates::ALL };
        self.gates.unwrap_or(by_mode)
    }
}

fn workspace_path() -> String {
    WORKSPACE_PATH.to_owned()
}
