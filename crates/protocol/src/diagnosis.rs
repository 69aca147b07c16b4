//! A diagnosis: why a ticket cannot go on, from what its tasks have left, and what a person could do about it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{DiagnosisId, DiagnosisState, Priority, ProjectId, ProposalKind, TaskId, TicketId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Hypothesis {
    pub statement: String,
    /// From 0 to 1.
    pub likelihood: f64,
    /// The tasks that show it.
    pub tasks: Vec<TaskId>,
}

/// Something that could be done. It is done when a person accepts it, and not before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Proposal {
    pub kind: ProposalKind,
    pub title: String,
    pub description: String,
    pub priority: Priority,
    /// The task that failed.
    pub about: TaskId,
    /// What came of it, once it was accepted.
    pub task_id: Option<TaskId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diagnosis {
    pub id: DiagnosisId,
    pub project_id: ProjectId,
    pub ticket_id: TicketId,
    pub state: DiagnosisState,
    /// Counts the diagnoses of a ticket from 1.
    pub number: i64,
    pub total_tasks: i64,
    pub completed_tasks: i64,
    pub failed_tasks: i64,
    pub root_cause: String,
    pub hypotheses: Vec<Hypothesis>,
    pub proposals: Vec<Proposal>,
    pub created_at: Timestamp,
    pub decided_at: Option<Timestamp>,
    pub decided_by: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Acceptance {
    /// Which proposals, counted from 0; absent: all.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 5))]
    pub proposals: Option<Vec<usize>>,
}
