//! The Guardian: what it finds in the work of sandboxes, what it does about that, and by which policy.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    AgentId, CallId, ClearedBy, FindingId, FindingKind, FindingSeverity, HeldReason, Intervention,
    InterventionId, InterventionMode, InterventionState, JudgementCause, JudgementFailure, JudgementId,
    JudgementState, MessageId, PolicySource, ProjectId, SandboxId, Steering, SteeringEffect, SteeringType,
    SystemHealth, TaskId,
};

/// Something in the work of a sandbox that somebody should know, with the events that show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianFinding {
    pub id: FindingId,
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    pub kind: FindingKind,
    pub severity: FindingSeverity,
    /// Which finding of its kind it is in the sandbox, from 1.
    pub number: i64,
    /// The events that show it, by their `seq`; the newest where there are many.
    pub seqs: Vec<i64>,
    /// The last event that had been seen when it was found.
    pub seq: i64,
    pub text: String,
    /// When it began.
    pub since: Timestamp,
    pub found_at: Timestamp,
    /// Absent while it goes on.
    pub cleared_at: Option<Timestamp>,
    pub cleared_by: Option<ClearedBy>,
}

/// What is done about a finding, or what a person says as the Guardian.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianIntervention {
    pub id: InterventionId,
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    /// Absent where a person nudged.
    pub finding_id: Option<FindingId>,
    pub kind: Option<FindingKind>,
    /// What the finding said.
    pub finding: Option<String>,
    #[serde(rename = "do")]
    pub action: Intervention,
    pub mode: InterventionMode,
    /// What is said to the agent or to a person.
    pub text: String,
    /// Why no more than a note was made of it, where the policy asks for more.
    pub held: Option<HeldReason>,
    pub state: InterventionState,
    /// The message by which it is delivered.
    pub message_id: Option<MessageId>,
    /// Why it could not be made.
    pub error: Option<String>,
    /// `guardian`, or who nudged.
    pub created_by: String,
    pub created_at: Timestamp,
    /// Who approved or dismissed a suggestion; `guardian` where it came to nothing by itself.
    pub decided_by: Option<String>,
    pub decided_at: Option<Timestamp>,
    pub decided_because: Option<String>,
    pub delivered_at: Option<Timestamp>,
    pub injected_at: Option<Timestamp>,
    pub acknowledged_at: Option<Timestamp>,
    /// Whether the behaviour changed; absent until that is known.
    pub effect: Option<SteeringEffect>,
    /// What shows it.
    pub effect_by: Option<String>,
    pub effect_at: Option<Timestamp>,
    /// The sandbox's alignment when it was made.
    pub alignment_before: Option<f64>,
    /// And when its effect was known.
    pub alignment_after: Option<f64>,
}

/// A suggestion is made after all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApproveIntervention {
    /// In place of the text that was suggested.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4_000))]
    pub text: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DismissIntervention {
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 2_000))]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewNudge {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 4_000))]
    pub text: String,
}

/// What a model was asked about the course of a sandbox, and what it thinks, or why that is not known.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianJudgement {
    pub id: JudgementId,
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    pub state: JudgementState,
    pub cause: JudgementCause,
    /// What the detectors were not sure of.
    pub doubts: Vec<FindingKind>,
    /// `guardian`, or who wanted to know.
    pub asked_by: String,
    pub asked_at: Timestamp,
    pub answered_at: Option<Timestamp>,
    /// The last event that the model was told of.
    pub seq: Option<i64>,
    pub model: Option<String>,
    /// Absent where no call was made.
    pub call_id: Option<CallId>,
    pub cost_usd: f64,
    /// Why nobody knows what it thinks.
    pub failure: Option<JudgementFailure>,
    pub error: Option<String>,
    /// What it thinks; absent unless it is `done`.
    pub judgement: Option<Judgement>,
}

/// What a model thinks of the course of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Judgement {
    pub current_phase: String,
    pub trajectory_aligned: bool,
    /// From 0 to 1.
    pub alignment_score: f64,
    pub needs_steering: bool,
    /// Present where it needs steering, as is the recommendation.
    pub steering_type: Option<SteeringType>,
    pub steering_recommendation: Option<String>,
    pub trajectory_summary: String,
    pub current_focus: String,
    pub details: JudgementDetails,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JudgementDetails {
    pub phase_alignment: String,
    pub constraint_violations: Vec<String>,
    pub missing_steps: Vec<String>,
    pub progress_indicators: Vec<String>,
    pub risk_factors: Vec<String>,
}

/// The model that is asked for a second opinion, and what that has cost in the last 24 hours.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JudgeStatus {
    pub enabled: bool,
    pub model: String,
    /// What 24 hours may cost; absent where nothing limits it.
    pub day_budget_usd: Option<f64>,
    pub spent_usd: f64,
    pub done: i64,
    pub failed: i64,
}

/// Whether the Guardian runs, and what it sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianStatus {
    /// It has looked lately.
    pub running: bool,
    /// The machine that it runs on.
    pub node: Option<String>,
    pub last_tick_at: Option<Timestamp>,
    /// How long the last look took.
    pub last_tick_ms: Option<f64>,
    /// Live sandboxes that it watches.
    pub sandboxes_watched: i64,
    /// What it remembers of them takes so much memory.
    pub bytes: i64,
    /// Events that it has looked at since the database was made.
    pub events_taken: i64,
    /// Up to here in the order of everything.
    pub position: i64,
    /// How far it goes by itself where a project has no policy of its own.
    pub steering: Steering,
    /// Projects with a policy of their own.
    pub policies: i64,
    pub health: GuardianHealth,
    /// Open findings by kind.
    pub open_findings: BTreeMap<String, i64>,
    /// Suggestions that wait for a person.
    pub waiting: i64,
    /// Of the interventions that were made in the last 24 hours.
    pub effects: GuardianEffects,
    pub judge: JudgeStatus,
}

/// How well live sandboxes do, by what is found in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianHealth {
    pub system: SystemHealth,
    /// Live sandboxes.
    pub sandboxes: i64,
    /// Those with an open finding of `warning` or worse.
    pub need_steering: i64,
    /// From 0 to 1; 1 where nothing is open.
    pub average_alignment: f64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianEffects {
    pub made: i64,
    pub changed: i64,
    pub unchanged: i64,
    /// It could not be told.
    pub unknown: i64,
}

/// When something is a finding in a project, and what is done about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GuardianPolicy {
    pub project_id: ProjectId,
    /// Where it comes from.
    pub source: PolicySource,
    /// Grows with every change of the project's own; 0 where there never was one.
    pub version: i64,
    pub steering: Steering,
    /// YAML.
    pub text: String,
    pub updated_by: Option<String>,
    pub updated_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PutPolicy {
    /// YAML. What it leaves out is as in the policy that comes with the program.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 65_536))]
    pub text: String,
    /// The version that was seen; another one is refused.
    #[serde(default)]
    pub version: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TryPolicy {
    /// YAML; without it, what holds now is tried.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 65_536))]
    pub text: Option<String>,
}

/// What a policy would have found and done in the sandboxes of the last 24 hours.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicyTried {
    pub sandboxes: i64,
    pub events: i64,
    /// There were more sandboxes or events than are looked at.
    pub truncated: bool,
    /// Findings by kind.
    pub findings: BTreeMap<String, i64>,
    /// Interventions by what is done, without notes.
    pub interventions: BTreeMap<String, i64>,
    pub runs: Vec<PolicyTriedRun>,
}

/// One sandbox in which something would have been found.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicyTriedRun {
    pub sandbox_id: SandboxId,
    pub findings: Vec<PolicyTriedFinding>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicyTriedFinding {
    pub kind: FindingKind,
    pub severity: FindingSeverity,
    pub number: i64,
    pub seqs: Vec<i64>,
    pub text: String,
    pub at: Timestamp,
    /// What would have been done; absent where no rule fits.
    #[serde(rename = "do")]
    pub action: Option<Intervention>,
    pub mode: Option<InterventionMode>,
    pub held: Option<HeldReason>,
}

/// What a sandbox's events come to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxSummary {
    pub sandbox_id: SandboxId,
    pub agent_id: Option<AgentId>,
    pub task_id: Option<TaskId>,
    pub goal: String,
    pub constraints: Vec<String>,
    /// What people have said since.
    pub instructions: Vec<SummaryInstruction>,
    /// `preparing`, `working`, `waiting` or `ended`.
    pub phase: String,
    /// `starting`, `exploring`, `implementing`, `testing`, `debugging` or `waiting`.
    pub focus: String,
    pub files: Vec<SummaryFile>,
    /// The last calls, oldest first.
    pub calls: Vec<SummaryCall>,
    pub calls_total: i64,
    pub errors: Vec<SummaryError>,
    pub progress: Vec<SummaryMark>,
    pub events: i64,
    pub cost_usd: f64,
    pub tokens: i64,
    pub helpers: i64,
    /// What it halted with and nobody answered.
    pub question: Option<String>,
    pub said: String,
    pub began_at: Option<Timestamp>,
    pub last_event_at: Option<Timestamp>,
    pub last_progress_at: Option<Timestamp>,
    pub seconds_since_progress: Option<i64>,
    pub ended_at: Option<Timestamp>,
    pub success: Option<bool>,
    /// From 0 to 1, by its open findings or by its last judgement, whichever is less.
    pub alignment: f64,
    pub open_findings: Vec<GuardianFinding>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SummaryInstruction {
    pub seq: i64,
    pub from: String,
    pub text: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SummaryFile {
    pub path: String,
    pub edits: i64,
    pub last_seq: i64,
    /// Outside of the files that the task declares.
    pub outside: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SummaryCall {
    pub seq: i64,
    pub at: Timestamp,
    pub title: String,
    /// `open`, `ok` or `failed`.
    pub result: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SummaryError {
    pub text: String,
    pub times: i64,
    pub seqs: Vec<i64>,
    pub since: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SummaryMark {
    pub seq: i64,
    pub at: Timestamp,
    /// `content`, `news`, `push` or `check`.
    pub what: String,
}
