//! An attached agent: a long-lived one that somebody runs elsewhere. What it claims, it holds as a sandbox of
//! provider `external`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{AgentId, AgentStatus, sandbox::Sandbox, task::Task};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewAgent {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub name: String,
    #[serde(default = "implementer")]
    #[cfg_attr(feature = "schema", schema(default = "implementer", min_length = 1, max_length = 100))]
    pub agent_type: String,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 100))]
    pub capabilities: Vec<String>,
}

fn implementer() -> String {
    "implementer".to_owned()
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Agent {
    pub id: AgentId,
    pub name: String,
    pub agent_type: String,
    pub capabilities: Vec<String>,
    pub status: AgentStatus,
    pub last_heartbeat_at: Option<Timestamp>,
    pub heartbeat_sequence: i64,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Heartbeat {
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub sequence_number: i64,
    #[serde(default)]
    pub status: Option<AgentStatus>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HeartbeatAck {
    pub received: bool,
    /// Heartbeats that did not arrive between the last one and this.
    pub missed: i64,
    pub message: String,
}

/// The best task that the agent can do, and the sandbox that holds it. The token is shown this once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Claim {
    pub task: Task,
    pub sandbox: Sandbox,
    pub token: String,
}
