//! What a spec's tasks become: tickets and tasks that still go by their symbolic ids, every dependency resolved among them.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::{
    DependencyPolicy, Priority, TicketType,
    batch::{BATCH_EDGES_MAX, BATCH_TASKS_MAX, BatchTask},
    spec::{
        Phase, ShapeError, Wrong,
        output::{self, Requirements, Tasks},
    },
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{fact, name};
use crate::domain::batch;

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub feature: String,
    pub tickets: Vec<PlannedTicket>,
    /// In an order of work: each comes after all it depends on.
    pub tasks: Vec<PlannedTask>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTicket {
    /// `TKT-001`.
    pub key: String,
    pub title: String,
    pub description: String,
    pub ticket_type: TicketType,
    pub priority: Priority,
    /// Ids of requirements.
    pub requirements: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTask {
    /// `TSK-001`.
    pub key: String,
    /// Key of its ticket.
    pub ticket: String,
    /// Keys of tasks of this plan.
    pub depends_on: Vec<String>,
    pub title: String,
    /// With its criteria, so that whoever does it needs nothing else.
    pub description: String,
    pub task_type: String,
    pub priority: Priority,
    /// Paths it makes or modifies.
    pub owned_files: Vec<String>,
    /// Ids of requirements.
    pub requirements: Vec<String>,
    pub estimated_seconds: u64,
}

impl PlannedTask {
    /// As an entry of a batch whose keys are those of the plan.
    pub fn to_batch(&self) -> BatchTask {
        let config = [("estimated_seconds".to_owned(), Value::from(self.estimated_seconds))];
        BatchTask {
            key: self.key.clone(),
            depends_on: self.depends_on.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            task_type: self.task_type.clone(),
            phase_id: "PHASE_IMPLEMENTATION".to_owned(),
            priority: self.priority,
            dependency_policy: DependencyPolicy::Block,
            parent_task_id: None,
            required_capabilities: Vec::new(),
            owned_files: self.owned_files.clone(),
            max_retries: None,
            timeout_seconds: None,
            deadline_at: None,
            execution_config: Map::from_iter(config),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the spec has no output of the tasks phase; execute that phase first")]
    NoTasks,
    #[error("the output of the tasks phase cannot be read: {0}")]
    Shape(#[from] ShapeError),
    #[error("{} {}", .0.at, .0.text)]
    Name(Wrong),
    #[error("{} {}", .0.at, .0.text)]
    Cycle(Wrong),
    #[error("{} {}", .0.at, .0.text)]
    Order(Wrong),
    #[error(
        "the plan has {tasks} tasks and {edges} dependencies; {BATCH_TASKS_MAX} and {BATCH_EDGES_MAX} are allowed"
    )]
    TooLarge { tasks: usize, edges: usize },
    #[error(transparent)]
    Batch(#[from] batch::Refused),
}

pub fn plan(outputs: &BTreeMap<Phase, Value>) -> Result<Plan, PlanError> {
    let value = outputs.get(&Phase::Tasks).ok_or(PlanError::NoTasks)?;
    output::shape_of(Phase::Tasks, value)?;
    let unreadable = |error: serde_json::Error| ShapeError::NotJson { why: error.to_string() };
    let tasks = Tasks::deserialize(value).map_err(unreadable)?;
    let requirements =
        outputs.get(&Phase::Requirements).and_then(|value| Requirements::deserialize(value).ok());
    if tasks.tasks.is_empty() {
        return Err(PlanError::NoTasks);
    }
    first(fact::ids(&tasks, requirements.as_ref()), PlanError::Name)?;
    first(fact::cycles(&tasks), PlanError::Cycle)?;
    first(fact::order(&tasks), PlanError::Order)?;
    let edges = fact::order_edges(&tasks);
    if tasks.tasks.len() > BATCH_TASKS_MAX || edges.len() > BATCH_EDGES_MAX {
        return Err(PlanError::TooLarge { tasks: tasks.tasks.len(), edges: edges.len() });
    }
    let plan = Plan {
        feature: tasks.feature_name.clone(),
        tickets: tasks.tickets.iter().map(|one| ticket(one, tasks.bugfix.is_some())).collect(),
        tasks: sorted(&tasks, &edges).into_iter().map(|one| task(one, &edges)).collect(),
    };
    let keys: Vec<(&str, &[String])> =
        plan.tasks.iter().map(|task| (task.key.as_str(), task.depends_on.as_slice())).collect();
    batch::resolve(&keys)?;
    Ok(plan)
}

/// The word an output uses for how much something is wanted.
pub fn priority(word: &str) -> Priority {
    match word.to_lowercase().as_str() {
        "critical" => Priority::Critical,
        "high" | "must" => Priority::High,
        "low" | "could" => Priority::Low,
        _ => Priority::Medium,
    }
}

fn first(wrong: Vec<Wrong>, error: fn(Wrong) -> PlanError) -> Result<(), PlanError> {
    wrong.into_iter().next().map_or(Ok(()), |wrong| Err(error(wrong)))
}

/// Each after all it depends on, otherwise in the order of the output.
fn sorted<'a>(output: &'a Tasks, edges: &BTreeSet<fact::Edge<'_>>) -> Vec<&'a output::Task> {
    let before = fact::Before::new(edges);
    let mut tasks: Vec<&output::Task> = output.tasks.iter().collect();
    // Whatever comes before a task has fewer before it than the task has.
    tasks.sort_by_key(|task| before.count(&task.id));
    tasks
}

fn ticket(ticket: &output::Ticket, bug: bool) -> PlannedTicket {
    PlannedTicket {
        key: ticket.id.clone(),
        title: ticket.title.trim().to_owned(),
        description: described(&ticket.description, &ticket.acceptance_criteria, &ticket.requirements),
        ticket_type: if bug { TicketType::Bug } else { TicketType::Feature },
        priority: priority(&ticket.priority),
        requirements: ticket.requirements.clone(),
    }
}

fn task(task: &output::Task, edges: &BTreeSet<fact::Edge<'_>>) -> PlannedTask {
    let mut files: Vec<String> = Vec::new();
    for file in task.files_to_create.iter().chain(&task.files_to_modify) {
        if let Ok(path) = name::path(file)
            && !files.iter().any(|other| other == path)
        {
            files.push(path.to_owned());
        }
    }
    let named = task.r#type.trim();
    let kind = if named.is_empty() || named.chars().count() > 100 { "implementation" } else { named };
    PlannedTask {
        key: task.id.clone(),
        ticket: task.parent_ticket.clone(),
        depends_on: edges.iter().filter(|(id, _)| *id == task.id).map(|(_, on)| (*on).to_owned()).collect(),
        title: task.title.trim().to_owned(),
        description: described(&task.description, &task.acceptance_criteria, &task.requirements_addressed),
        task_type: kind.to_owned(),
        priority: priority(&task.priority),
        owned_files: files,
        requirements: task.requirements_addressed.clone(),
        estimated_seconds: fact::seconds(task).max(1),
    }
}

/// As much as the description of a task may be.
const DESCRIPTION_CHARS_MAX: usize = 100_000;

fn described(description: &str, criteria: &[String], requirements: &[String]) -> String {
    let mut text = description.trim().to_owned();
    if !criteria.is_empty() {
        text.push_str("\n\nDone when:\n");
        criteria.iter().for_each(|criterion| text.push_str(&format!("- {}\n", criterion.trim())));
    }
    if !requirements.is_empty() {
        text.push_str(&format!("\n\nRequirements: {}", requirements.join(", ")));
    }
    let text = text.replace("\n\n\n", "\n\n");
    match text.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.trim_end().to_owned(),
    }
}
