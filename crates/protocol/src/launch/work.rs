//! What the worker is to do: which agent it drives, in which mode, how far, and from where it goes on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{SpecId, SpecPhase, Vendor};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ExecutionMode {
    /// Reads and writes up what it found.
    Exploration,
    #[default]
    Implementation,
    /// Judges what another attempt has made.
    Validation,
}

impl ExecutionMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exploration => "exploration",
            Self::Implementation => "implementation",
            Self::Validation => "validation",
        }
    }

    pub(super) const fn agent_type(self) -> &'static str {
        match self {
            Self::Exploration => "planner",
            Self::Implementation => "implementer",
            Self::Validation => "validator",
        }
    }
}

/// Which agent the worker drives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum AgentKind {
    #[default]
    Builtin,
    ClaudeCode,
    /// Any that speaks the Agent Client Protocol.
    Acp,
    /// The built-in one, with a model that plays a scenario; for the demo and tests.
    Scripted,
}

impl AgentKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::ClaudeCode => "claude_code",
            Self::Acp => "acp",
            Self::Scripted => "scripted",
        }
    }
}

/// How a model is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Wire {
    /// The Messages API of Anthropic.
    #[default]
    Messages,
    /// Chat completions, as OpenAI began them.
    Chat,
}

impl Wire {
    /// How a model of this name is spoken to, where nobody says.
    pub fn of_model(name: &str) -> Self {
        match name.starts_with("claude") || name.starts_with("scripted/") {
            true => Self::Messages,
            false => Self::Chat,
        }
    }

    /// The vendor whose API it is, and in whose place a compatible one answers.
    pub const fn vendor(self) -> Vendor {
        match self {
            Self::Messages => Vendor::Anthropic,
            Self::Chat => Vendor::Openai,
        }
    }
}

/// What the agent may do with its tools. Whatever it does stays in its sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum PermissionMode {
    /// Reads and says what it would do.
    #[serde(rename = "plan")]
    Plan,
    /// Files of the workspace and of the temporary directory, and commands.
    #[default]
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// Any file of the sandbox, and commands.
    #[serde(rename = "all", alias = "bypassPermissions")]
    All,
}

/// A server of tools by the Model Context Protocol: a program to start inside the sandbox, or an address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct McpServer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The agent as a launch describes it, and as `settings.agent` of a project and `agent` of a task's
/// `execution_config` do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentLaunch {
    pub kind: AgentKind,
    pub model: Option<String>,
    /// None leaves it to the model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// planner, implementer, validator and so on; None leaves it to the mode.
    pub agent_type: Option<String>,
    pub permission_mode: PermissionMode,
    /// None allows all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// What the agent is told besides its task and what the repository says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// What the model can take in at once.
    pub context_tokens: u64,
    /// The longest answer that is asked for.
    pub answer_tokens: u32,
}

impl Default for AgentLaunch {
    fn default() -> Self {
        Self {
            kind: AgentKind::default(),
            model: None,
            wire: None,
            agent_type: None,
            permission_mode: PermissionMode::default(),
            allowed_tools: None,
            disallowed_tools: Vec::new(),
            instructions: None,
            mcp_servers: BTreeMap::new(),
            context_tokens: 200_000,
            answer_tokens: 16_000,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Limits {
    /// Of one query.
    pub max_turns: u32,
    /// Of one query.
    pub max_budget_usd: f64,
    pub max_iterations: u32,
    /// Of all iterations.
    pub max_total_cost_usd: f64,
    /// Of all iterations.
    pub max_duration_seconds: u64,
    /// Of all answers of the model.
    pub max_output_tokens: u64,
    /// Answers in a row that came to nothing: void, refused, or nothing but failed tool calls.
    pub max_consecutive_errors: u32,
    /// How long the worker waits for more messages once the agent is done; then it reports and leaves.
    pub idle_seconds: u64,
    /// Of the whole sandbox, from booting to its last push.
    pub wall_clock_seconds: u64,
    /// From one heartbeat of the worker to the next.
    pub heartbeat_seconds: u64,
    /// From being told to leave to being gone, with the work kept.
    pub grace_seconds: u64,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        max_turns: 50,
        max_budget_usd: 10.0,
        max_iterations: 10,
        max_total_cost_usd: 20.0,
        max_duration_seconds: 3_600,
        max_output_tokens: 2_000_000,
        max_consecutive_errors: 10,
        idle_seconds: 0,
        wall_clock_seconds: 5_400,
        heartbeat_seconds: 30,
        grace_seconds: 20,
    };

    /// A phase of a spec is one long query.
    pub const SPEC_PHASE: Self =
        Self { max_turns: 150, max_budget_usd: 50.0, max_total_cost_usd: 50.0, ..Self::DEFAULT };
}

const _: () = assert!(Limits::DEFAULT.max_duration_seconds < Limits::DEFAULT.wall_clock_seconds);
const _: () = assert!(Limits::DEFAULT.max_budget_usd <= Limits::DEFAULT.max_total_cost_usd);

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A declared check, as `settings.checks` of a project and `checks` of a task's `execution_config` list them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Check {
    pub name: String,
    /// Run by a shell in the workspace; it has passed when it ends with 0.
    pub command: String,
    #[serde(default = "check_seconds")]
    pub timeout_seconds: u64,
}

fn check_seconds() -> u64 {
    1_800
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Gates {
    pub clean_git: bool,
    pub code_pushed: bool,
    pub pr_created: bool,
    pub tests: bool,
}

impl Gates {
    pub const ALL: Self = Self { clean_git: true, code_pushed: true, pr_created: true, tests: true };
    pub const NONE: Self = Self { clean_git: false, code_pushed: false, pr_created: false, tests: false };
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpecLaunch {
    pub spec_id: SpecId,
    pub phase: SpecPhase,
    pub title: String,
    pub description: String,
    /// The outputs of earlier phases, by phase.
    pub phase_context: Map<String, Value>,
    /// What the last attempt at this phase handed in, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Value>,
}

/// The name of the artefact that a phase's output is handed in as.
pub fn spec_artifact(phase: SpecPhase) -> String {
    format!("spec-{phase}.json")
}

/// An agent's session to go on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript_b64: Option<String>,
}
