//! What model calls cost: one record per call, and sums.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{CallId, CallPurpose, CallState, ProjectId, SandboxId, TaskId, Vendor};

/// One call to a model. What was said is not kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ModelCall {
    pub id: CallId,
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    pub vendor: Vendor,
    pub model: String,
    pub purpose: CallPurpose,
    pub state: CallState,
    /// The status of the vendor's answer, once there is one.
    pub status_code: Option<u16>,
    pub stop_reason: Option<String>,
    /// Without those that were read from or written to the vendor's cache.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_usd: f64,
    /// Some of the tokens or the price are a guess, because nobody told them.
    pub estimated: bool,
    pub request_bytes: u64,
    pub first_byte_ms: Option<u64>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// What workers say that they spent. Nobody has checked it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReportedCost {
    /// All that they report, including what the server counted as well.
    pub cost_usd: f64,
    /// The part of it that budgets count: of sandboxes that made no model call through the server.
    pub counted_usd: f64,
    /// How many reported amounts were ignored, because they are not an amount in USD from 0 to 100000.
    pub ignored: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CostTotals {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// What the server counted.
    pub cost_usd: f64,
    /// Beside it, what workers report of their own cost; absent where they report none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<ReportedCost>,
}

/// Calls newest first, with the sums of all that were asked for, on this page or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CostPage {
    pub items: Vec<ModelCall>,
    /// `cursor` of the following page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    pub totals: CostTotals,
}

/// What calls are added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum CostGroupBy {
    Project,
    Task,
    Sandbox,
    Model,
    /// Of UTC.
    Day,
}

/// The sums of calls that have something in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CostGroup {
    /// The id, the model or the day; absent for calls that belong to none.
    pub key: Option<String>,
    #[serde(flatten)]
    pub totals: CostTotals,
}

/// The groups that cost most, or the newest days.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CostGroups {
    pub items: Vec<CostGroup>,
    /// Whether there are more groups than these.
    pub is_cut: bool,
}
