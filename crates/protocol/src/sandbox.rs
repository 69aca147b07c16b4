//! A sandbox: one attempt at one task; and the bodies of its endpoints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentId, CommandId, CommandState, EventId, FindingSeverity, Place, ProjectId, ProviderKind, Removal,
    SandboxId, SandboxStatus, Stage, TaskId, TaskStatus, cost::ReportedCost, event::StoredEvent,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Sandbox {
    pub id: SandboxId,
    pub task_id: Option<TaskId>,
    pub project_id: Option<ProjectId>,
    pub agent_id: Option<AgentId>,
    pub provider: ProviderKind,
    pub status: SandboxStatus,
    /// What it is for: the work on its task, or the checks that prove it.
    #[serde(default = "work")]
    pub stage: Stage,
    /// Fences older holders of the same task.
    pub generation: i64,
    pub lease_expires_at: Option<Timestamp>,
    pub branch_name: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub last_heartbeat_at: Option<Timestamp>,
    /// Why it ended, in one word.
    pub end_reason: Option<String>,
    /// How many events it has, heartbeats among them.
    #[serde(default)]
    pub event_count: i64,
    /// What its model calls have cost.
    #[serde(default)]
    pub cost_usd: f64,
    /// What its worker reports of its own cost; absent where it reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_cost: Option<ReportedCost>,
    pub place: Place,
    /// What it started from.
    pub base_commit: Option<String>,
    /// Each layer of isolation that it has, once it is there.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub isolation: Option<Value>,
    /// What was kept of its work, once it has ended.
    pub kept: Option<Kept>,
    /// What stands in the way of the next step with its place.
    pub place_error: Option<String>,
    /// How the rescue of its work failed; absent unless the last try failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rescue: Option<Rescue>,
    /// The worst that is found in its work and goes on; absent where nothing is.
    #[serde(default)]
    pub verdict: Option<FindingSeverity>,
    /// From 0 to 1, by what is found in its work and goes on.
    #[serde(default = "aligned")]
    pub alignment: f64,
}

fn aligned() -> f64 {
    1.0
}

fn work() -> Stage {
    Stage::Work
}

/// Tries to keep the work of an ended sandbox that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Rescue {
    /// Failed tries since the sandbox ended, or since a person last asked for a rescue.
    pub tries: i64,
    /// Why the last try failed.
    pub error: String,
    /// When the next try begins; absent when the server has given up and a person decides.
    pub next_at: Option<Timestamp>,
    /// What the sandbox takes of the disk, once the server has given up.
    pub disk_bytes: Option<u64>,
}

/// How long a worker may take to keep its work. The server waits longer for a rescue: what the worker could not push in time
/// is then named, and what it pushed counts.
pub const KEEP_LIMIT: std::time::Duration = std::time::Duration::from_secs(480);

/// What was kept of a sandbox before it was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Kept {
    /// Whether there was any work beyond what it started from.
    pub kept: bool,
    /// The ref in the project's mirror that holds it: its branch, or `refs/preserved/…` when that had not all of it.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    pub commit: Option<String>,
    /// Files that differ from the last commit.
    pub files: u64,
    /// Events that had not been sent.
    pub events: u64,
    /// Files that Git does not take under their names; their content is kept beside the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// What holds data and could not be kept, with the reason: the first fifty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// How many files and directories were left out in all.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out_files: u64,
    /// What these had in all, as far as that is known.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out_bytes: u64,
    /// What was changed in keeping it, and what holds no data and was left out, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Kept {
    /// Names what could not be kept; None if everything was.
    pub fn loss(&self) -> Option<String> {
        const NAMED_MAX: usize = 5;
        if self.left_out_files == 0 {
            return None;
        }
        // A branch, and a directory that cannot be read, have no size.
        let one = |left: &LeftOut| match left.bytes {
            0 => format!("{}: {}", left.path, left.reason),
            bytes => format!("{} ({bytes} bytes): {}", left.path, left.reason),
        };
        let named: Vec<String> = self.left_out.iter().take(NAMED_MAX).map(one).collect();
        let beyond = self.left_out_files.saturating_sub(named.len() as u64);
        let beyond = if beyond > 0 { format!("; and {beyond} more") } else { String::new() };
        let count = match self.left_out_files {
            1 => "1 item".to_owned(),
            count => format!("{count} items"),
        };
        Some(format!("{count} could not be kept: {}{beyond}", named.join("; ")))
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where files are whose names Git does not take: numbered, with a file `INDEX` that says where each was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SetAside {
    /// The ref in the project's mirror.
    #[serde(rename = "ref")]
    pub reference: String,
    pub commit: String,
    pub files: u64,
    /// The first of them.
    pub listed: Vec<AsideFile>,
}

/// A file that is kept under a number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AsideFile {
    /// Its name in the commit.
    pub file: String,
    /// Where it was in the work tree.
    pub path: String,
    /// Why it is not kept there.
    pub reason: String,
}

/// Something in a work tree that could not be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LeftOut {
    /// Relative to the work tree; of a long one both ends.
    pub path: String,
    pub bytes: u64,
    pub reason: String,
}

/// What is left of ended sandboxes is to go.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Prune {
    /// Of those that ended so long ago; absent: as configured (`sandbox.keep_ended`).
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 0, maximum = 31_536_000))]
    pub older_than_seconds: Option<i64>,
    /// Only say which.
    #[serde(default)]
    pub dry_run: bool,
}

/// Oldest first. They are gone a moment later.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pruned {
    pub items: Vec<Removed>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Removed {
    pub sandbox_id: SandboxId,
    pub reason: Removal,
    pub ended_at: Option<Timestamp>,
    /// What it takes of the disk.
    pub disk_bytes: u64,
}

/// A sandbox that the server is to make.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewSandbox {
    #[serde(default)]
    pub provider: Option<ProviderKind>,
    /// A pending task of the project to take with it.
    #[serde(default)]
    pub task_id: Option<TaskId>,
    /// What to run in it, without a shell. Absent: an agent works on its task; without a task it waits for commands
    /// until it is ended.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_items = 1000))]
    pub command: Vec<String>,
    /// The branch to start from, or a commit; absent: where the session that is resumed left off, or the project's
    /// default branch.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 200))]
    pub base: Option<String>,
    /// A session of this project for the agent to go on with; absent: the one that the task's `execution_config` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub resume_session_id: Option<String>,
    /// An image of `omoi image list`; absent: the project's, or the configured one.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 200))]
    pub image: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 8))]
    pub memory_gb: Option<i64>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 4))]
    pub cpu: Option<i64>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 10))]
    pub disk_gb: Option<i64>,
    /// Ends it after this time.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_536_000))]
    pub timeout_seconds: Option<i64>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A command that somebody runs in a sandbox. Its output is in the sandbox's events.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Command {
    pub id: CommandId,
    pub sandbox_id: SandboxId,
    pub argv: Vec<String>,
    pub state: CommandState,
    /// 128 and the signal's number when a signal ended it.
    pub exit_code: Option<i64>,
    /// Why it could not be run.
    pub error: Option<String>,
    pub requested_by: String,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NewCommand {
    /// Program and arguments, without a shell.
    #[cfg_attr(feature = "schema", schema(min_items = 1, max_items = 1000))]
    pub argv: Vec<String>,
}

/// A sandbox that somebody runs elsewhere joins with this.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AttachSandbox {
    /// Chosen by the caller, or made here.
    #[serde(default)]
    pub sandbox_id: Option<SandboxId>,
    /// A pending task to take with it.
    #[serde(default)]
    pub task_id: Option<TaskId>,
    /// How long it holds its task after it was last heard of, within `lease.request_min` and `lease.request_max`; absent:
    /// `lease.duration`. A worker that is silent while a long command runs asks for a longer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 31_536_000))]
    pub lease_seconds: Option<i64>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// The one time the token is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxAttached {
    pub sandbox: Sandbox,
    /// Valid for this sandbox alone, while its lease lasts.
    pub token: String,
}

/// The answer to one posted event.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventReceived {
    /// `received`.
    pub status: String,
    pub sandbox_id: SandboxId,
    pub event_type: String,
    pub event_id: EventId,
    pub seq: i64,
    pub timestamp: Timestamp,
    /// Why the event changed nothing, when it meant to: the code of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What became of the task, in words, where the event was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
}

/// The answer to a batch: every event, in the order they came.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventsReceived {
    pub status: String,
    pub sandbox_id: SandboxId,
    pub events: Vec<EventReceived>,
}

/// Events newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventPage {
    pub events: Vec<StoredEvent>,
    pub total_count: i64,
    /// Whether more follow in the direction of the page. A page may be shorter than its limit: large events fill it earlier.
    pub has_more: bool,
    pub sandbox_id: SandboxId,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HeartbeatSummary {
    pub count: i64,
    pub first_heartbeat: Option<Timestamp>,
    pub last_heartbeat: Option<Timestamp>,
}

/// Events without heartbeats, newest first, with stable cursors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Trajectory {
    pub sandbox_id: SandboxId,
    pub events: Vec<StoredEvent>,
    pub heartbeat_summary: HeartbeatSummary,
    /// All events, heartbeats included.
    pub total_events: i64,
    /// All events without heartbeats.
    pub trajectory_events: i64,
    /// The oldest event of this page, when there are more in the direction asked for.
    pub next_cursor: Option<EventId>,
    /// The newest event of this page.
    pub prev_cursor: Option<EventId>,
    pub has_more: bool,
}

/// A worker's direct word that its task is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskComplete {
    pub task_id: TaskId,
    #[serde(default = "yes")]
    #[cfg_attr(feature = "schema", schema(default = true))]
    pub success: bool,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub result: Option<Value>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(max_length = 20_000))]
    pub error_message: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskCompleted {
    /// `accepted`.
    pub status: String,
    pub task_id: TaskId,
    pub new_status: TaskStatus,
    pub unblocked_tasks: Vec<TaskId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Transcript {
    pub sandbox_id: SandboxId,
    pub session_id: String,
    pub created_at: Timestamp,
    pub transcript_b64: String,
}

/// How much of a session's log one request may bring.
pub const TRANSCRIPT_PART_BYTES_MAX: usize = 1 << 20;
/// How much of a session's log is kept.
pub const TRANSCRIPT_BYTES_MAX: usize = 64 << 20;
/// A longer log is not resumed: it would not fit into a launch.
pub const RESUME_BYTES_MAX: usize = 16 << 20;
pub const SESSION_ID_CHARS_MAX: usize = 200;

/// The next bytes of a session's log. A session is known by its name in its sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TranscriptPart {
    #[cfg_attr(feature = "schema", schema(min_length = 1, max_length = 200))]
    pub session_id: String,
    /// Where the bytes belong: right behind those that are stored. What is stored already may come again.
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub offset: i64,
    /// At most 1 MiB, in base64. Empty asks how much is stored.
    pub data_b64: String,
}

/// How much of a session's log is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TranscriptReceived {
    pub session_id: String,
    /// In bytes; the next part begins here.
    pub size: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diff {
    pub event_id: EventId,
    pub sandbox_id: SandboxId,
    pub file_path: String,
    pub full_diff: String,
}
