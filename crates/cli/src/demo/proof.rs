//! Whether the demo did what it says: judged by what the server has stored, not by what the agent claims.

use std::collections::BTreeMap;

use omoi_protocol::{
    SandboxId, TaskId, TaskStatus,
    event::{Payload, StoredEvent},
    sandbox::Sandbox,
    task::Task,
};
use serde::Serialize;
use serde_json::Value;

/// C(50,25).
pub const RESULT: &str = "126410606437752";
pub const FILE: &str = "binomial.py";

const HELD: &str = "completed";
const FAILED: &str = "failed";
const DETACHED: &str = "detached";

/// Everything that is told of a demo.
#[derive(Debug, Default, Serialize)]
pub struct Proof {
    /// `completed` when all of it held, else `failed`.
    pub status: &'static str,
    pub task_id: Option<TaskId>,
    pub sandbox_id: Option<SandboxId>,
    pub branch: Option<String>,
    pub commits: Vec<String>,
    pub events: usize,
    pub event_types: BTreeMap<String, usize>,
    pub files_changed: Vec<FileChanged>,
    /// The number, where a tool has printed it.
    pub result: Option<String>,
    pub isolation: Value,
    pub durations_ms: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChanged {
    pub path: String,
    pub change_type: String,
    pub lines_added: u64,
    pub lines_removed: u64,
    pub has_diff: bool,
}

/// The branch as the mirror has it.
#[derive(Debug, Default)]
pub struct Branch {
    /// Beyond what it started from, newest first.
    pub commits: Vec<String>,
    pub has_file: bool,
}

impl Proof {
    pub fn failed(error: String) -> Self {
        Self { status: FAILED, error: Some(error), ..Self::default() }
    }

    /// Somebody turned away before the end.
    pub fn detached() -> Self {
        Self { status: DETACHED, ..Self::default() }
    }

    pub fn is_detached(&self) -> bool {
        self.status == DETACHED
    }

    /// Without a branch, when the mirror cannot be looked into from here.
    pub fn judge(task: &Task, sandbox: &Sandbox, events: &[StoredEvent], branch: Option<Branch>) -> Self {
        let files_changed: Vec<FileChanged> = events.iter().filter_map(file_changed).collect();
        let result = events.iter().any(prints_result).then(|| RESULT.to_owned());
        let isolation = sandbox.isolation.clone().unwrap_or_default();
        let wrong = match task.status {
            TaskStatus::Completed => missing(&files_changed, result.as_deref(), branch.as_ref(), &isolation),
            // Whatever else is missing follows from this.
            status => {
                let why = task.error_message.as_deref().unwrap_or("no reason is stored");
                vec![format!("the task is {status}, not completed: {why}")]
            }
        };
        let mut event_types = BTreeMap::new();
        for event in events {
            *event_types.entry(event.event_type.clone()).or_default() += 1;
        }
        Self {
            status: if wrong.is_empty() { HELD } else { FAILED },
            task_id: Some(task.id.clone()),
            sandbox_id: Some(sandbox.id.clone()),
            branch: sandbox.branch_name.clone(),
            commits: branch.map(|branch| branch.commits).unwrap_or_default(),
            events: events.len(),
            event_types,
            files_changed,
            result,
            isolation,
            durations_ms: BTreeMap::new(),
            error: (!wrong.is_empty()).then(|| wrong.join("; ")),
        }
    }
}

/// Names each thing that a completed task should have left behind and did not.
fn missing(
    files_changed: &[FileChanged],
    result: Option<&str>,
    branch: Option<&Branch>,
    isolation: &Value,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for change in ["created", "modified"] {
        let seen = |file: &&FileChanged| file.path.ends_with(FILE) && file.change_type == change;
        match files_changed.iter().find(seen) {
            None => wrong.push(format!("no agent.file_edited event shows that {FILE} was {change}")),
            Some(file) if !file.has_diff => wrong.push(format!("{FILE} was {change} without a diff")),
            Some(_) => {}
        }
    }
    if result.is_none() {
        wrong.push(format!("no tool result contains {RESULT}"));
    }
    match branch {
        Some(branch) if branch.commits.is_empty() => wrong.push("the branch has no commit".to_owned()),
        Some(branch) if !branch.has_file => wrong.push(format!("the branch does not contain {FILE}")),
        _ => {}
    }
    if !matches!(isolation["level"].as_str(), Some("full" | "reduced")) {
        wrong.push(format!("the sandbox was not isolated: {isolation}"));
    }
    wrong
}

fn file_changed(event: &StoredEvent) -> Option<FileChanged> {
    let Payload::AgentFileEdited(data) = event.payload() else { return None };
    let inline = data.full_diff.as_deref().or(data.diff_preview.as_deref());
    let has_diff = inline.is_some_and(|diff| diff.contains("@@")) || data.full_diff_available == Some(true);
    Some(FileChanged {
        path: data.file_path.unwrap_or_default(),
        change_type: data.change_type.map(String::from).unwrap_or_default(),
        lines_added: data.lines_added.unwrap_or(0),
        lines_removed: data.lines_removed.unwrap_or(0),
        has_diff,
    })
}

/// What a tool gave back, as opposed to what the agent says.
fn prints_result(event: &StoredEvent) -> bool {
    match event.payload() {
        Payload::AgentToolResult(data) => {
            data.is_error != Some(true) && data.result.is_some_and(|result| result.contains(RESULT))
        }
        Payload::AgentToolCompleted(data) => {
            data.is_error != Some(true)
                && data.tool_response.is_some_and(|said| said.to_string().contains(RESULT))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::{EventId, EventSource};
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn task(status: &str) -> Task {
        serde_json::from_value(json!({
            "id": "task-1", "project_id": "prj-1", "phase_id": "p", "task_type": "t", "title": "t", "description": "",
            "priority": "MEDIUM", "status": status, "score": 0.0, "dependencies": [], "unmet_dependencies": 0,
            "dependency_policy": "block", "required_capabilities": [], "owned_files": [], "retry_count": 0, "max_retries": 0,
            "execution_config": {}, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn sandbox(level: &str) -> Sandbox {
        serde_json::from_value(json!({
            "id": "sbx-1", "provider": "local", "status": "completed", "generation": 0, "labels": {}, "place": "gone",
            "created_at": "2026-01-01T00:00:00Z", "branch_name": "feature/x", "isolation": { "level": level },
        }))
        .unwrap()
    }

    fn event(event_type: &str, data: Value) -> StoredEvent {
        StoredEvent {
            id: EventId(9),
            sandbox_id: "sbx-1".parse().unwrap(),
            seq: 7,
            worker_seq: None,
            event_type: event_type.to_owned(),
            event_data: to_raw_value(&data).unwrap(),
            source: EventSource::Agent,
            created_at: "2026-01-01T12:30:05Z".parse().unwrap(),
        }
    }

    fn edited(change: &str) -> StoredEvent {
        event(
            "agent.file_edited",
            json!({ "file_path": FILE, "change_type": change, "diff_preview": "@@ -0,0 +1 @@\n+x" }),
        )
    }

    fn printed(result: &str) -> StoredEvent {
        event("agent.tool_result", json!({ "tool": "Bash", "result": result }))
    }

    fn whole() -> Vec<StoredEvent> {
        vec![edited("created"), edited("modified"), printed("126410606437752\n")]
    }

    fn branch(commits: usize, has_file: bool) -> Option<Branch> {
        Some(Branch { commits: vec!["c".to_owned(); commits], has_file })
    }

    #[test]
    fn a_demo_that_did_everything_holds() {
        let proof = Proof::judge(&task("completed"), &sandbox("reduced"), &whole(), branch(1, true));
        assert_eq!((proof.status, &proof.error), (HELD, &None));
        assert_eq!((proof.events, proof.event_types["agent.file_edited"]), (3, 2));
        assert_eq!((proof.result.as_deref(), proof.branch.as_deref()), (Some(RESULT), Some("feature/x")));
    }

    #[test]
    fn each_thing_that_is_missing_is_named() {
        let said = event("agent.message", json!({ "content": RESULT }));
        let wrong = |task: &Task, level: &str, events: Vec<StoredEvent>, branch, words: &str| {
            let proof = Proof::judge(task, &sandbox(level), &events, branch);
            assert!(
                proof.status == FAILED && proof.error.as_ref().unwrap().contains(words),
                "{words}: {:?}",
                proof.error
            );
        };
        let done = task("completed");
        wrong(&task("failed"), "full", whole(), branch(1, true), "not completed");
        wrong(&done, "full", vec![edited("created"), printed(RESULT)], branch(1, true), "was modified");
        wrong(
            &done,
            "full",
            vec![edited("created"), edited("modified"), said],
            branch(1, true),
            "no tool result contains",
        );
        wrong(&done, "full", whole(), branch(0, false), "no commit");
        wrong(&done, "full", whole(), branch(1, false), "does not contain");
        wrong(&done, "none", whole(), branch(1, true), "not isolated");
        // A task that failed is the one cause to name: no sandbox, so no file, no result and no branch either.
        let mut refused = task("failed");
        refused.error_message = Some("layer memory_limit: permission denied".to_owned());
        let proof = Proof::judge(&refused, &sandbox("none"), &[], branch(0, false));
        assert_eq!(
            proof.error.as_deref(),
            Some("the task is failed, not completed: layer memory_limit: permission denied")
        );
        let bare = event("agent.file_edited", json!({ "file_path": FILE, "change_type": "created" }));
        wrong(
            &done,
            "full",
            vec![bare, edited("modified"), printed(RESULT)],
            branch(1, true),
            "without a diff",
        );
    }
}
