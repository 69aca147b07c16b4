//! The messages of Claude Code, as far as they tell of a run, and the names of those that do not.

use serde::Deserialize;
use serde_json::Value;

/// Kinds of messages that tell supervision nothing: pieces of what comes whole, and the program's own affairs.
pub const SILENT: [&str; 23] = [
    "stream_event",
    "control_response",
    "control_cancel_request",
    "command_lifecycle",
    "keep_alive",
    "rate_limit_event",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "prompt_suggestion",
    "update_environment_variables",
    "summary",
    "file-history-snapshot",
    "queue-operation",
    "progress",
    "attachment",
    "last-prompt",
    "custom-title",
    "ai-title",
    "agent-name",
    "permission-mode",
    "mode",
    "pr-link",
];
pub const SYSTEM: [&str; 29] = [
    "status",
    "api_retry",
    "api_error",
    "permission_denied",
    "task_started",
    "task_progress",
    "task_updated",
    "task_notification",
    "background_tasks_changed",
    "session_state_changed",
    "compact_boundary",
    "microcompact_boundary",
    "informational",
    "thinking_tokens",
    "hook_started",
    "hook_progress",
    "hook_response",
    "stop_hook_summary",
    "files_persisted",
    "local_command",
    "local_command_output",
    "turn_duration",
    "away_summary",
    "bridge_status",
    "elicitation_complete",
    "memory_saved",
    "agents_killed",
    "scheduled_task_fire",
    "notification",
];
pub const CONTROLS: [&str; 24] = [
    "initialize",
    "interrupt",
    "can_use_tool",
    "hook_callback",
    "mcp_message",
    "mcp_status",
    "mcp_set_servers",
    "mcp_reconnect",
    "mcp_toggle",
    "mcp_authenticate",
    "set_permission_mode",
    "set_model",
    "set_max_thinking_tokens",
    "get_context_usage",
    "get_settings",
    "apply_flag_settings",
    "rewind_files",
    "cancel_async_message",
    "stop_task",
    "end_session",
    "elicitation",
    "generate_session_title",
    "seed_read_state",
    "supported_commands",
];

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    System(System),
    Assistant(Spoken),
    User(Spoken),
    Result(Ending),
    ControlRequest { request: Control },
}

#[derive(Deserialize)]
pub struct System {
    pub subtype: String,
    pub model: Option<String>,
}

#[derive(Deserialize)]
pub struct Control {
    pub subtype: String,
}

/// A message of either side.
#[derive(Deserialize)]
pub struct Spoken {
    pub message: Turn,
    pub parent_tool_use_id: Option<String>,
    #[serde(default, rename = "isSidechain")]
    pub is_sidechain: bool,
    #[serde(default, rename = "isSynthetic", alias = "isMeta")]
    pub is_synthetic: bool,
    #[serde(default, rename = "isReplay")]
    pub is_replay: bool,
    /// The structured output of a tool.
    #[serde(default, alias = "toolUseResult")]
    pub tool_use_result: Option<Value>,
}

#[derive(Deserialize)]
pub struct Turn {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub content: Content,
    #[serde(default)]
    pub usage: Usage,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default)]
        is_error: Option<bool>,
    },
    /// Thinking, images and what else there may be.
    #[serde(other)]
    Other,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub cache_creation_input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub struct Ending {
    pub subtype: String,
    #[serde(default)]
    pub is_error: bool,
    pub result: Option<String>,
    pub total_cost_usd: Option<f64>,
}

/// What a tool that changes a file says of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileResult {
    #[serde(default)]
    pub structured_patch: Vec<Hunk>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    pub old_start: u64,
    pub old_lines: u64,
    pub new_start: u64,
    pub new_lines: u64,
    pub lines: Vec<String>,
}

impl Spoken {
    /// The call that a helper works for.
    pub fn parent(&self) -> Option<String> {
        self.parent_tool_use_id.clone().or_else(|| self.is_sidechain.then(|| "sidechain".to_owned()))
    }
}
