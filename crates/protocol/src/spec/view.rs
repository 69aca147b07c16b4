//! Specs as the API shows them, and what is said to change one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    DuplicateDecision, MergeOutcome, PhaseDecision, PhaseState, ProjectId, SandboxId, SpecBranchState,
    SpecFlow, SpecId, SpecPhase, SpecStatus, TaskId, TaskStatus, TicketId, cost::ReportedCost,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewSpec {
    /// Needed before it can be executed.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: String,
    /// The idea, in as many words as it needs.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 100_000))]
    pub description: String,
    #[serde(default = "full")]
    #[cfg_attr(feature = "schema", schema(default = "full"))]
    pub flow: SpecFlow,
    /// The phases that wait for a person; absent leaves it to the project (`settings.spec.gates`).
    #[serde(default)]
    pub gates: Option<Vec<SpecPhase>>,
}

fn full() -> SpecFlow {
    SpecFlow::Full
}

/// Absent fields stay as they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecPatch {
    /// The version that was seen; another one is a conflict.
    pub version: i64,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 100_000))]
    pub description: Option<String>,
    /// Only while it has none, or nothing was executed.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    #[serde(default)]
    pub gates: Option<Vec<SpecPhase>>,
    #[serde(default)]
    pub archived: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Spec {
    pub id: SpecId,
    pub project_id: Option<ProjectId>,
    pub title: String,
    pub description: String,
    pub flow: SpecFlow,
    pub status: SpecStatus,
    pub current_phase: SpecPhase,
    /// Grows with every change.
    pub version: i64,
    /// The phases that wait for a person.
    pub gates: Vec<SpecPhase>,
    /// The score from which on the output of a phase passes.
    pub threshold: f64,
    pub archived: bool,
    /// Why it failed.
    pub last_error: Option<String>,
    pub created_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One spec in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecSummary {
    #[serde(flatten)]
    pub spec: Spec,
    /// The mean of what the last attempts at its phases came to; null before the first is judged.
    pub score: Option<f64>,
    /// Of all its phases and tasks.
    pub cost_usd: f64,
    /// What the workers of its phases and tasks report of their own cost; absent where they report none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<ReportedCost>,
}

/// One spec with where each of its phases stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecDetail {
    #[serde(flatten)]
    pub spec: Spec,
    /// In their order; those that were begun.
    pub phases: Vec<PhaseAttempt>,
    /// The phases of its flow, in their order.
    pub flow_phases: Vec<SpecPhase>,
    /// Per cent: the phases that are done, and then its tasks.
    pub progress: u8,
    /// What came of its tasks phase.
    pub items: Vec<SpecItem>,
    /// Of all its phases and tasks.
    pub cost_usd: f64,
    /// What the workers of its phases and tasks report of their own cost; absent where they report none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<ReportedCost>,
    /// Tasks of its own that may exist already.
    pub duplicates: Vec<SpecDuplicate>,
    /// The branch that holds the work of all its tasks; null until they are completed, or somebody asks for it.
    pub branch: Option<SpecBranch>,
}

/// The branch that holds the work of all tasks of a spec, merged in the order of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecBranch {
    pub name: String,
    pub state: SpecBranchState,
    /// The commit of the default branch that it began with.
    pub base_commit: Option<String>,
    /// Its tip.
    pub commit: Option<String>,
    /// Every task, in the order in which they are merged.
    pub merges: Vec<SpecMerge>,
    /// Why it could not be made.
    pub error: Option<String>,
    /// The task that runs the declared checks on it, and how that stands; null where there are none.
    pub check_task_id: Option<TaskId>,
    pub check_status: Option<TaskStatus>,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecMerge {
    /// `TSK-001`.
    pub symbol: String,
    pub task_id: TaskId,
    pub commit: Option<String>,
    pub outcome: MergeOutcome,
    /// Whom it conflicts with.
    pub conflicts: Vec<SpecConflict>,
    /// The tasks it builds on that are not in.
    pub without: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecConflict {
    /// A task such as `TSK-001`; null for the default branch, or for several tasks together.
    pub with: Option<String>,
    pub files: Vec<String>,
}

/// A task of a spec that may exist already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecDuplicate {
    /// `TSK-001`.
    pub symbol: String,
    /// The task that was made for it. It begins once it is decided, unless no phase waits for a person.
    pub task_id: TaskId,
    pub title: String,
    pub existing_task_id: TaskId,
    pub existing_title: String,
    pub existing_status: TaskStatus,
    /// How alike the titles are, from 0 to 1.
    pub similarity: f64,
    /// Null until somebody decides.
    pub decision: Option<DuplicateDecision>,
    pub decided_by: Option<String>,
    pub decided_at: Option<Timestamp>,
}

/// The body of `POST /specs/{id}/duplicates`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DecideDuplicate {
    /// `TSK-001`.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 100))]
    pub symbol: String,
    pub decision: DuplicateDecision,
    /// To link: the task that stands in its place, one of those that are offered.
    #[serde(default)]
    pub existing_task_id: Option<TaskId>,
}

/// The body of `PUT /projects/{id}/spec-gates`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetSpecGates {
    /// The phases that wait for a person; null leaves it to Omoi.
    #[cfg_attr(feature = "schema", schema(max_items = 6))]
    pub gates: Option<Vec<SpecPhase>>,
}

/// Which phases of a project's specs wait for a person, where a spec does not say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecGates {
    /// What the project says; null where it says nothing.
    pub gates: Option<Vec<SpecPhase>>,
    /// What counts.
    pub effective: Vec<SpecPhase>,
}

/// One attempt at a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PhaseAttempt {
    pub phase: SpecPhase,
    pub attempt: i64,
    pub state: PhaseState,
    /// The task that works on it; absent where a person wrote the output.
    pub task_id: Option<TaskId>,
    /// The last sandbox of that task.
    pub sandbox_id: Option<SandboxId>,
    pub edited_by: Option<String>,
    /// The commit whose files the output was held against.
    pub commit: Option<String>,
    /// From 0 to 1, once it is judged.
    pub score: Option<f64>,
    pub findings: Vec<Finding>,
    /// What this attempt was told of those before it.
    pub feedback: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Finding {
    /// `issue` or `warning`.
    pub severity: String,
    /// Where in the output.
    pub at: String,
    pub text: String,
}

/// One attempt with all there is to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PhaseDetail {
    #[serde(flatten)]
    pub attempt: PhaseAttempt,
    /// Every attempt at this phase, oldest first.
    pub attempts: Vec<i64>,
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub output: Option<Value>,
    /// The output for people.
    pub markdown: Option<String>,
    pub comments: Vec<PhaseComment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PhaseComment {
    pub n: i64,
    pub phase: SpecPhase,
    pub attempt: i64,
    pub decision: PhaseDecision,
    pub actor: String,
    pub comment: String,
    pub created_at: Timestamp,
}

/// All outputs that count, by phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PhaseData {
    pub spec_id: SpecId,
    pub current_phase: SpecPhase,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub phase_data: Map<String, Value>,
    /// How often each phase was tried.
    pub phase_attempts: BTreeMap<String, i64>,
    pub last_error: Option<String>,
}

/// The body of `POST /specs/{id}/execute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ExecuteSpec {
    /// Whether its tasks are held against those that exist, to offer duplicates for merging. Likeness of texts is found
    /// without a model.
    pub enable_embeddings: bool,
    /// Redoes this phase and those behind it; those before it stand. Otherwise from where the spec stands.
    pub resume_from_phase: Option<SpecPhase>,
}

impl Default for ExecuteSpec {
    fn default() -> Self {
        Self { enable_embeddings: true, resume_from_phase: None }
    }
}

/// The answer to `POST /specs/{id}/execute`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecExecution {
    pub spec_id: SpecId,
    pub status: ExecutionStatus,
    /// Ordered, and perhaps not there yet: a request records what is wanted and runs nothing. Null while no phase is
    /// worked on.
    pub sandbox_id: Option<SandboxId>,
    pub current_phase: SpecPhase,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum ExecutionStatus {
    Started,
    AlreadyRunning,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ApprovePhase {
    pub phase: SpecPhase,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 20_000))]
    pub comment: String,
    /// The version that was seen; another one is a conflict.
    #[serde(default)]
    pub version: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RequestChanges {
    pub phase: SpecPhase,
    /// Told to the next attempt.
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 20_000))]
    pub comment: String,
    /// The version that was seen; another one is a conflict.
    #[serde(default)]
    pub version: Option<i64>,
}

/// An output that a person wrote.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EditPhase {
    /// The version that was seen; another one is a conflict.
    pub version: i64,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub output: Value,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 20_000))]
    pub comment: String,
}

/// What the spec was at a version of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecVersion {
    pub version: i64,
    /// created, updated, executed, phase_passed, phase_failed, approved, changes_requested, edited, synced, completed, failed.
    pub cause: String,
    pub actor: String,
    /// Its fields, and which attempt at each phase counted: outputs are shown by phase and attempt.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub snapshot: Value,
    pub created_at: Timestamp,
}

/// What a symbolic id of its tasks phase has become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecItem {
    /// `TSK-001` or `TKT-001`.
    pub symbol: String,
    pub ticket_id: Option<TicketId>,
    pub task_id: Option<TaskId>,
    pub title: String,
    /// Of a task.
    pub status: Option<TaskStatus>,
}

/// Something that happened to a spec.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecEvent {
    /// Its place in the order of everything.
    pub position: i64,
    pub event_type: String,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub payload: Value,
    pub created_at: Timestamp,
}

/// Each requirement with the tasks that bring it about, their commits and the checks that passed on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecCoverage {
    pub spec_id: SpecId,
    /// Per cent of the rows that are proven, rounded down.
    pub proven_percent: u8,
    pub rows: Vec<CoverageRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoverageRow {
    /// Of a spec without requirements, the ticket.
    pub requirement: String,
    pub title: String,
    /// uncovered, planned, begun, done or proven.
    pub status: String,
    pub tasks: Vec<CoverageTask>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoverageTask {
    /// `TSK-001`.
    pub key: String,
    pub task_id: Option<TaskId>,
    pub status: Option<TaskStatus>,
    /// What its checks ran on.
    pub commit: Option<String>,
    pub checks: Vec<CoverageCheck>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoverageCheck {
    pub name: String,
    pub passed: bool,
}

/// A spec as files that people know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpecFiles {
    /// By path from the root of a repository, the text of each.
    pub files: BTreeMap<String, String>,
}

/// How a spec is laid out in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum SpecLayout {
    /// One document.
    #[default]
    Json,
    /// `.kiro/specs/NAME/requirements.md`, `design.md` and `tasks.md`.
    Kiro,
    /// `specs/NNN-NAME/spec.md`, `plan.md` and `tasks.md`.
    SpecKit,
}

/// A spec that was written elsewhere: a folder in the layout of Kiro or of spec-kit, or one JSON document.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ImportSpec {
    /// What it says of files is held against this one's.
    pub project_id: ProjectId,
    /// In the place of the one that the files tell.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 500))]
    pub title: Option<String>,
    /// By path or name, the text of each file.
    pub files: BTreeMap<String, String>,
}
