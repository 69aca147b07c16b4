//! The launch of one sandbox.

use std::collections::BTreeMap;

use super::{
    AgentLaunch, ExecutionMode, Gates, Limits, PlainEnv, Repository, Resources, Resume, SandboxToken,
    SpecLaunch, TaskContext,
};
use crate::{ProjectId, ProviderKind, SandboxId, TaskId};

#[derive(Debug, Clone, PartialEq)]
pub struct LaunchSpec {
    pub sandbox_id: SandboxId,
    pub project_id: ProjectId,
    pub task_id: Option<TaskId>,
    pub provider: ProviderKind,
    /// Preferred to `image` by providers that have snapshots.
    pub snapshot: Option<String>,
    pub image: Option<String>,
    pub resources: Resources,
    pub repository: Repository,
    /// Where the worker reaches the control plane, without a path.
    pub callback_url: String,
    pub token: SandboxToken,
    pub mode: ExecutionMode,
    pub agent: AgentLaunch,
    pub limits: Limits,
    /// Whether the worker iterates until its gates are passed; None leaves it to the mode.
    pub continuous: Option<bool>,
    /// What must hold before the worker reports success; None leaves it to the mode.
    pub gates: Option<Gates>,
    pub spec: Option<SpecLaunch>,
    pub resume: Option<Resume>,
    /// For the provider's own lists.
    pub labels: BTreeMap<String, String>,
    pub env: PlainEnv,
    pub context: TaskContext,
}

impl LaunchSpec {
    /// An explicit wish, else: an implementation or validation iterates; a look around and a spec's phase do
    /// not.
    pub fn is_continuous(&self) -> bool {
        self.continuous.unwrap_or(self.mode != ExecutionMode::Exploration && self.spec.is_none())
    }

    /// An explicit wish, else: all, except for a look around.
    pub fn gates(&self) -> Gates {
        let by_mode = if self.mode == ExecutionMode::Exploration { Gates::NONE } else { Gates::ALL };
        self.gates.unwrap_or(by_mode)
    }
}
