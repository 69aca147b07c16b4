//! How the whole is doing: figures over time, what is unusual in them, and the dashboard.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{AnomalyId, AnomalySeverity, AnomalyType, DiskState, MetricRange, SandboxId, SystemStatus};

/// The figures of one stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Figures {
    pub events_per_second: f64,
    /// Tasks completed, and attempts that failed.
    pub completions: f64,
    pub failures: f64,
    /// Absent where nothing happened that could be measured.
    pub queue_wait_seconds: Option<f64>,
    pub task_duration_seconds: Option<f64>,
    pub spawn_seconds: Option<f64>,
    pub queue_depth: f64,
    pub live_sandboxes: f64,
    pub running_tasks: f64,
    /// Tasks that wait for a person.
    pub waiting_tasks: f64,
    pub cost_usd: f64,
    /// Of the live sandbox that was last heard of longest ago.
    pub heartbeat_age_seconds: Option<f64>,
    pub open_conflicts: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MetricPoint {
    /// The beginning of the stretch.
    pub at: Timestamp,
    #[serde(flatten)]
    pub figures: Figures,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MetricSeries {
    pub range: MetricRange,
    /// How long each point stands for. Where nobody measured there is none.
    pub step_seconds: u64,
    /// Oldest first.
    pub points: Vec<MetricPoint>,
}

/// Something that is far from what is usual.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Anomaly {
    pub id: AnomalyId,
    /// A figure of the monitor, or `agent_score` of a sandbox.
    pub metric: String,
    pub sandbox_id: Option<SandboxId>,
    /// Kind of agent and phase, where it is a sandbox's.
    pub subject: Option<String>,
    pub anomaly_type: AnomalyType,
    pub severity: AnomalySeverity,
    pub value: f64,
    /// What was expected; for a score, the threshold.
    pub baseline: f64,
    /// How far it is off, in standard deviations; for a score, in thresholds.
    pub deviation: f64,
    pub description: String,
    pub detected_at: Timestamp,
    pub acknowledged_at: Option<Timestamp>,
    pub acknowledged_by: Option<String>,
}

/// What is usual for a kind of agent in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BaselineRow {
    pub agent_kind: String,
    pub phase: String,
    pub samples: u64,
    pub latency_ms: f64,
    pub latency_std: f64,
    pub error_rate: f64,
    /// Processors' time in the time taken: 1 is one processor all the time.
    pub cpu: f64,
    pub memory_bytes: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Dashboard {
    pub total_tasks_pending: u64,
    pub total_tasks_running: u64,
    pub total_tasks_completed: u64,
    pub total_tasks_failed: u64,
    /// Live sandboxes, and agents elsewhere that are idle or running.
    pub active_agents: u64,
    /// Live sandboxes and agents that have not been heard of for longer than their heartbeats allow.
    pub stale_agents: u64,
    /// Leases that somebody holds.
    pub active_locks: u64,
    /// The newest that nobody has acknowledged.
    pub recent_anomalies: Vec<Anomaly>,
    /// How many of the unacknowledged are critical.
    pub critical_alerts: u64,
    pub open_conflicts: u64,
    /// Ended sandboxes whose work could not be kept, for which a person has to decide.
    #[serde(default)]
    pub unkept_sandboxes: u64,
    pub coherence_score: Option<f64>,
    pub system_status: Option<SystemStatus>,
    /// The newest figures.
    pub now: Option<MetricPoint>,
    pub baselines: Vec<BaselineRow>,
    /// The disk with the least free space among those that hold the server's data.
    #[serde(default)]
    pub disk: Option<Disk>,
}

/// The space of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Disk {
    /// A directory on it.
    pub path: String,
    pub state: DiskState,
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// With less free space the disk is full, and writes are refused.
    pub full_below_bytes: u64,
    /// With less free space the disk is low.
    pub low_below_bytes: u64,
}
