//! What the Conductor sees across sandboxes: who gets in whose way, who does the same work, and how well it all fits.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    AnalysisId, ConflictId, ConflictKind, DuplicateId, PairState, ProjectId, SandboxId, SystemStatus, TaskId,
};

/// Lines of a file, counted from one, as the file was before either changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LineRange {
    pub first: u32,
    /// Absent: to the end of the file.
    pub last: Option<u32>,
}

/// A file that two change, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Clash {
    pub path: String,
    /// None: the file as a whole, or nobody knows which lines.
    pub lines: Vec<LineRange>,
}

/// One side of a conflict: a task's sandbox, or the default branch alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Side {
    pub sandbox_id: Option<SandboxId>,
    pub task_id: Option<TaskId>,
    /// Of the task, or of the branch.
    pub title: String,
    pub branch: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Conflict {
    pub id: ConflictId,
    pub project_id: ProjectId,
    pub a: Side,
    pub b: Side,
    pub kind: ConflictKind,
    /// The first few.
    pub files: Vec<Clash>,
    pub since: Timestamp,
    /// When its kind or its files last changed.
    pub changed_at: Timestamp,
    pub cleared_at: Option<Timestamp>,
    /// The sandboxes that were told.
    pub told: Vec<SandboxId>,
}

/// Everybody against everybody, as the radar last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Matrix {
    pub project_id: ProjectId,
    /// Absent before the first look.
    pub at: Option<Timestamp>,
    /// Rows and columns alike; the default branch, where there is one, comes last.
    pub members: Vec<MatrixMember>,
    /// Each pair once, by places in `members`, the smaller first. A pair that is not listed was not looked at.
    pub pairs: Vec<MatrixPair>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MatrixMember {
    #[serde(flatten)]
    pub side: Side,
    /// Its sandbox lives; otherwise its work waits to be merged.
    pub live: bool,
    /// The commit that its branch is at.
    pub commit: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MatrixPair {
    pub a: usize,
    pub b: usize,
    pub state: PairState,
    pub files: Vec<Clash>,
}

/// Two tasks under way that seem to be the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Duplicate {
    pub id: DuplicateId,
    pub project_id: ProjectId,
    pub a: Side,
    pub b: Side,
    /// From 0 to 1.
    pub similarity: f64,
    /// Files that both change.
    pub files: Vec<String>,
    pub found_at: Timestamp,
    /// A person says that they are not the same.
    pub dismissed_at: Option<Timestamp>,
    pub dismissed_by: Option<String>,
}

/// One look over all that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Analysis {
    pub id: AnalysisId,
    /// Absent: of all projects together.
    pub project_id: Option<ProjectId>,
    pub at: Timestamp,
    /// From 0 to 1.
    pub coherence_score: f64,
    pub system_status: SystemStatus,
    /// Live sandboxes with a task.
    pub num_agents: u32,
    pub average_alignment: f64,
    pub misaligned: u32,
    pub duplicate_count: u32,
    pub conflict_count: u32,
    /// Live sandboxes in each phase.
    pub phase_distribution: std::collections::BTreeMap<String, u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ConductorStatus {
    pub enabled: bool,
    pub period_seconds: u64,
    /// `note` or `tell`.
    pub on_conflict: String,
    /// Absent before the first look.
    pub last_analysis: Option<Analysis>,
    /// The newest of each project that has something under way.
    pub projects: Vec<Analysis>,
    pub open_conflicts: u32,
    pub open_duplicates: u32,
}
