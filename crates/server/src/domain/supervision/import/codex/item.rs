//! The messages of Codex and the items of its turns, in the spellings of its app-server and of `exec --json`.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Rpc {
    pub id: Option<Value>,
    pub method: Option<String>,
    #[serde(default)]
    pub params: Value,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub item: Option<Value>,
    pub usage: Option<Tokens>,
}

#[derive(Deserialize)]
pub struct Input {
    #[serde(default)]
    pub input: Vec<Part>,
}

#[derive(Deserialize)]
pub struct Part {
    pub text: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Item {
    #[serde(alias = "user_message")]
    UserMessage {
        #[serde(default)]
        content: Vec<Part>,
    },
    #[serde(alias = "agent_message")]
    AgentMessage {
        #[serde(default)]
        text: String,
    },
    #[serde(alias = "command_execution")]
    CommandExecution(Execution),
    #[serde(alias = "file_change")]
    FileChange {
        id: String,
        #[serde(default)]
        changes: Vec<Change>,
        status: Option<String>,
    },
    #[serde(alias = "mcp_tool_call", alias = "dynamicToolCall")]
    McpToolCall(ToolCall),
    #[serde(alias = "web_search")]
    WebSearch {
        id: String,
        #[serde(default)]
        query: String,
    },
    #[serde(alias = "collabToolCall", alias = "collab_tool_call")]
    CollabAgentToolCall {
        id: String,
        #[serde(default)]
        tool: String,
        prompt: Option<String>,
    },
    Reasoning,
    Plan,
    #[serde(alias = "todo_list")]
    TodoList,
    #[serde(alias = "image_view")]
    ImageView,
    #[serde(alias = "context_compaction")]
    ContextCompaction,
    EnteredReviewMode,
    ExitedReviewMode,
    Error,
}

#[derive(Deserialize)]
pub struct Execution {
    pub id: String,
    pub command: String,
    pub status: Option<String>,
    #[serde(default, rename = "aggregatedOutput", alias = "aggregated_output")]
    pub output: Option<String>,
    #[serde(default, rename = "exitCode", alias = "exit_code")]
    pub exit_code: Option<i64>,
}

#[derive(Deserialize)]
pub struct Change {
    pub path: String,
    pub kind: ChangeKind,
    #[serde(default)]
    pub diff: String,
}

/// `exec` names the kind; the app-server has an object of it.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum ChangeKind {
    Name(String),
    Object { r#type: String },
}

#[derive(Deserialize)]
pub struct ToolCall {
    pub id: String,
    #[serde(default)]
    pub server: String,
    #[serde(default)]
    pub tool: String,
    #[serde(default)]
    pub arguments: Value,
    pub status: Option<String>,
    pub result: Option<Value>,
    pub error: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Tokens {
    #[serde(alias = "inputTokens")]
    pub input_tokens: u64,
    #[serde(alias = "cachedInputTokens")]
    pub cached_input_tokens: u64,
    #[serde(alias = "outputTokens")]
    pub output_tokens: u64,
}
