//! Every kind of event, listed once: its name, its type on the wire and the fields of its data.
//!
//! Each field may be absent, since an older worker may not send it. Names and types are those of the earlier
//! system wherever it had the event; `Value` stands where its workers disagree about the shape, and text, not
//! a closed set of words, wherever a worker may know a word that we do not.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::{
    part::{
        CommandStream, Common, ContinuousStop, Decimal, FileChange, IterationState, Part, StreamErrorType,
        put, take,
    },
    payload::events,
};
use crate::{
    BudgetLevel, CallState, FailureKind, ModelFailure, ProviderKind, SpecPhase, Vendor, Verification,
};

events! {
    // The sandbox and its worker. Endings are reported by the system, since a worker may be unable to.

    /// The provider has made the place.
    SandboxSpawned = "sandbox.spawned" {
        provider: ProviderKind, branch_name: String, ticket_id: String, phase_id: String, duration_ms: u64,
    }
    /// The worker's first words, before any slow step. `env_left_out` names the variables that the environment could not hold.
    SandboxBooting = "sandbox.booting" {
        timestamp: String, worker_version: String, branch_name: String, env_left_out: Vec<String>,
    }
    /// Its task is done.
    SandboxCompleted = "sandbox.completed" { summary: String, verification: Verification, commit: String }
    /// The attempt failed.
    SandboxFailed = "sandbox.failed" { error: String, failure_kind: FailureKind, exit_code: i64, signal: i64 }
    /// The worker fell silent and the lease ran out.
    SandboxLost = "sandbox.lost" { error: String, silent_seconds: Decimal }
    /// Somebody or something ended it.
    SandboxTerminated = "sandbox.terminated" { reason: String, actor: String }
    /// Its work is in a durable place.
    SandboxPreserved = "sandbox.preserved" {
        ref_name: String, commit: String, base_commit: String, files_changed: u64, uncommitted_files: u64,
        transcript_bytes: u64, set_aside: Value, left_out: Value, left_out_files: u64, left_out_bytes: u64,
    }

    /// The server has given up keeping its work, or a part of it. Its disk stays until a person decides.
    SandboxUnkept = "sandbox.unkept" {
        error: String, tries: i64, branch_name: String, base_commit: String, disk_bytes: u64,
        left_out: Value, left_out_files: u64, left_out_bytes: u64,
    }
    /// A person discarded the work that could not be kept. The fields name the loss.
    SandboxDiscarded = "sandbox.discarded" {
        actor: String, reason: String, error: String, branch_name: String, base_commit: String, disk_bytes: u64,
        left_out: Value, left_out_files: u64, left_out_bytes: u64,
    }

    /// Cloning, installing or starting the agent goes on.
    WorkspaceProgress = "workspace.progress" {
        step: String, message: String, percent: Decimal, elapsed_ms: u64,
    }
    /// The repository is there, on its branch.
    WorkspaceReady = "workspace.ready" { branch_name: String, commit: String, duration_ms: u64 }
    /// Commits have reached the branch outside.
    WorkspacePushed = "workspace.pushed" { branch_name: String, commit: String, files_changed: u64 }

    /// A declared check begins.
    CheckStarted = "check.started" { name: String, command: String, commit: String }
    /// A declared check has ended.
    CheckCompleted = "check.completed" {
        name: String, command: String, commit: String, passed: bool, exit_code: i64, duration_ms: u64,
        output_preview: String,
    }

    // A command that the worker runs.

    /// A command begins; `argv` as it was given, without a shell.
    CommandStarted = "command.started" { command_id: String, argv: Vec<String>, cwd: String }
    /// A piece of what it writes. `lossy` says that some of it was no text and is shown by U+FFFD,
    /// `dropped_bytes` how much more there was when the limit of one command was reached.
    CommandOutput = "command.output" {
        command_id: String, stream: CommandStream, text: String, lossy: bool, dropped_bytes: u64,
    }
    /// It has ended, with an exit code or by a signal.
    CommandCompleted = "command.completed" {
        command_id: String, exit_code: i64, signal: i64, duration_ms: u64, output_bytes: u64,
        dropped_bytes: u64,
    }
    /// The sandbox reached for a host that it may not reach; told once per host.
    EgressDenied = "egress.denied" { host: String, port: u64, code: String, reason: String }
    // Model calls, as the system counted them.

    /// A call to a model has ended.
    ModelCall = "model.call" {
        call_id: String, vendor: Vendor, model: String, state: CallState, status_code: u64, stop_reason: String,
        input_tokens: u64, output_tokens: u64, cache_read_tokens: u64, cache_write_tokens: u64, cost_usd: Decimal,
        estimated: bool, duration_ms: u64, failure: ModelFailure, advice: String,
    }
    /// This budget is used up: a model call was refused, or a worker reported the cost. Told once for each limit.
    /// `reported_usd` is the part of `spent_usd` that only workers report.
    BudgetExceeded = "budget.exceeded" {
        level: BudgetLevel, limit_usd: Decimal, spent_usd: Decimal, reported_usd: Decimal,
    }

    // The agent.

    /// The agent is up and has its task.
    AgentStarted = "agent.started" {
        timestamp: String, sdk: String, model: String, task: String, task_description_length: u64,
        ticket_title: String, resumed_session_id: String, is_resuming: bool, fork_session: bool,
        spec_phase: String, mode: String, session_id: String,
    }
    /// A message was answered to, or acted on.
    AgentProcessing = "agent.processing" { message_id: String, message_type: String }
    /// The loop itself has done something: `metadata.subtype` is `compacted` when the conversation was cut.
    AgentSystemMessage = "agent.system_message" { turn: u64, metadata: Value }
    /// The frame of an answer; its text comes as `agent.message`. `usage` is as the model told it. Here and below,
    /// `parent_tool_use_id` names the call that a helper works for.
    AgentAssistantMessage = "agent.assistant_message" {
        turn: u64, model: String, stop_reason: String, block_count: u64, message_id: String, usage: Value,
        parent_tool_use_id: String,
    }
    /// What the agent says.
    AgentMessage = "agent.message" {
        turn: u64, content: String, content_length: u64, parent_tool_use_id: String,
    }
    AgentTextOutput = "agent.text_output" { turn: u64, content: String, content_length: u64 }
    AgentResponse = "agent.response" { turn: u64, content: String, content_length: u64 }
    /// What it thinks, as far as the model tells.
    AgentThinking = "agent.thinking" {
        turn: u64, content: String, thinking_type: String, parent_tool_use_id: String,
    }
    /// What it is told at the beginning.
    AgentUserMessage = "agent.user_message" { turn: u64, content: String, content_length: u64 }

    /// A tool is about to be run.
    AgentToolUse = "agent.tool_use" {
        turn: u64, tool: String, tool_use_id: String, input: Value, event_subtype: String,
        parent_tool_use_id: String,
    }
    /// A helper is asked.
    AgentSubagentInvoked = "agent.subagent_invoked" {
        turn: u64, tool: String, tool_use_id: String, input: Value, event_subtype: String,
        subagent_type: String, subagent_description: String, subagent_prompt: String,
    }
    /// A skill is loaded.
    AgentSkillInvoked = "agent.skill_invoked" {
        turn: u64, tool: String, tool_use_id: String, input: Value, event_subtype: String, skill_name: String,
    }
    /// What the agent is shown of a call's result.
    AgentToolResult = "agent.tool_result" {
        turn: u64, tool: String, tool_use_id: String, result: String, result_truncated: bool,
        result_full_length: u64, is_error: bool, parent_tool_use_id: String,
    }
    AgentUserToolResult = "agent.user_tool_result" {
        turn: u64, tool_use_id: String, result: String, result_truncated: bool,
    }
    /// A call as a whole, once it is over.
    AgentToolCompleted = "agent.tool_completed" {
        turn: u64, tool: String, tool_use_id: String, tool_input: Value, tool_response: Value, is_error: bool,
        exit_code: i64, duration_ms: Decimal, parent_tool_use_id: String,
    }
    /// A helper has answered.
    AgentSubagentCompleted = "agent.subagent_completed" {
        turn: u64, tool: String, tool_use_id: String, tool_input: Value, tool_response: Value, is_error: bool,
        subagent_type: String, description: String, subagent_prompt: String, subagent_result: Value,
        subagent_usage: Value, subagent_cost_usd: Decimal, subagent_duration_ms: Decimal,
    }
    /// A skill was loaded.
    AgentSkillCompleted = "agent.skill_completed" {
        turn: u64, tool: String, tool_use_id: String, tool_input: Value, tool_response: Value, is_error: bool,
        skill_name: String,
    }
    /// A file of the work tree has changed, by whatever means.
    AgentFileEdited = "agent.file_edited" {
        turn: u64, tool_use_id: String, file_path: String, previous_path: String, change_type: FileChange,
        lines_added: u64, lines_removed: u64, diff_preview: String, full_diff: String,
        full_diff_available: bool, full_diff_size: u64,
    }

    /// The agent has come to a halt: done, interrupted, out of money, or failed.
    AgentTurnComplete = "agent.turn_complete" {
        num_turns: u64, total_cost_usd: Decimal, session_id: String, is_error: bool, duration_ms: Decimal,
        duration_api_ms: Decimal,
    }
    /// What came of it, in the agent's words.
    AgentResult = "agent.result" {
        result: String, num_turns: u64, total_cost_usd: Decimal, session_id: String, is_error: bool,
    }
    /// The agent says that it is done; with `continuous`, that one of several iterations is. `phase_data` holds
    /// the outputs of a spec's phases.
    AgentCompleted = "agent.completed" {
        success: bool, turns: u64, cost_usd: Decimal, session_id: String, transcript_b64: String,
        stop_reason: String, input_tokens: u64, output_tokens: u64, cache_read_tokens: u64,
        cache_write_tokens: u64, final_output: String, branch_name: String, commit: String,
        agent_type: String, validation_passed: bool, tests_passed: bool, code_committed: bool,
        code_pushed: bool, pr_created: bool, pr_url: String, pr_number: u64, files_changed: Value,
        ci_status: Value, timestamp: String, spec_phase: String, phase_data: Value, phases_completed: Value,
        failed_phase: String, error: String, failure_kind: String, sync_summary: Value, continuous: bool,
        checks: Value,
    }
    /// The attempt came to nothing; what was made until then is on the branch all the same.
    AgentFailed = "agent.failed" {
        error: String, failure_kind: String, exit_code: i64, signal: i64, session_id: String, turns: u64,
        cost_usd: Decimal, final_output: String, code_committed: bool, checks: Value,
    }
    /// An error of the run as a whole; `phase` says in which part of it, `fatal` that it ended the run.
    AgentError = "agent.error" {
        error: String, phase: String, fatal: bool, failure_kind: String, traceback: String,
        message_type: String, content_length: u64,
    }
    /// An answer of the model did not come; it is asked again after `retry_delay_ms`. An `attempts_max` of 0 says that time
    /// is the limit.
    AgentStreamError = "agent.stream_error" {
        error: String, error_type: StreamErrorType, turn: u64, final_output_length: u64, attempt: u64,
        attempts_max: u64, retry_delay_ms: u64, status_code: u64, parent_tool_use_id: String,
    }

    /// The agent has nothing to do until somebody speaks.
    AgentWaiting = "agent.waiting" { message: String }
    /// A message is in front of the agent.
    AgentMessageInjected = "agent.message_injected" {
        message_type: String, content: String, content_length: u64, sender_id: String, message_id: String,
        intervention_number: u64, turn: u64,
    }
    /// The turn was stopped; the worker goes on.
    AgentInterrupted = "agent.interrupted" {
        reason: String, sender_id: String, message_id: String, turn: u64,
    }
    /// The worker lives; the figures are those of its whole process tree.
    AgentHeartbeat = "agent.heartbeat" {
        timestamp: String, status: String, event_count: u64, mode: String, spec_phase: String, processes: u64,
        cpu_seconds: Decimal, memory_bytes: u64, io_bytes: u64,
    }
    /// The undotted heartbeat of early workers.
    BareHeartbeat = "heartbeat" { timestamp: String, status: String, event_count: u64 }
    /// The worker's last words.
    AgentShutdown = "agent.shutdown" { reason: String, total_turns: u64, timestamp: String }

    // Runs of several iterations.

    /// A run of several iterations begins.
    ContinuousStarted = "continuous.started" {
        goal: String, limits: Value, completion_signal: String, completion_threshold: u64,
        validation_requirements: Value,
    }
    ContinuousCompleted = "continuous.completed" {
        stop_reason: ContinuousStop, phase_data: Value, error: String, failure_kind: String,
        branch_name: String, commit: String, final_output: String,
    } + state: IterationState
    IterationStarted = "iteration.started" { prompt_preview: String } + state: IterationState
    IterationCompleted = "iteration.completed" {
        cost_usd: Decimal, output_preview: String,
    } + state: IterationState
    /// `error_type` is the name that the worker's language has for the error.
    IterationFailed = "iteration.failed" {
        iteration_num: u64, error: String, error_type: String, error_count: u64,
    }
    IterationCompletionSignal = "iteration.completion_signal" {
        iteration_num: u64, signal_count: u64, threshold: u64,
    }
    IterationValidation = "iteration.validation" {
        iteration_num: u64, passed: bool, feedback: String, task_type: String, git_status: Value,
        errors: Value,
    }

    // Specs.

    SpecExecutionStarted = "spec.execution_started" { title: String, description: String, phases: Value }
    SpecExecutionCompleted = "spec.execution_completed" {
        phases_completed: Value, markdown_artifacts: Value, ticket_creation: Value,
    }
    SpecExecutionFailed = "spec.execution_failed" { failed_phase: String, error: String }
    SpecPhaseStarted = "spec.phase_started" { phase: SpecPhase, timestamp: String }
    SpecPhaseCompleted = "spec.phase_completed" {
        phase: SpecPhase, eval_score: Decimal, duration_seconds: Decimal, retry_count: u64,
        phase_output: Value,
    }
    SpecPhaseFailed = "spec.phase_failed" {
        phase: SpecPhase, reason: String, error: String, eval_score: Decimal, eval_feedback: Value,
        retry_count: u64,
    }
    SpecPhaseRetry = "spec.phase_retry" {
        phase: SpecPhase, reason: String, error: String, eval_score: Decimal, eval_feedback: Value,
        retry_count: u64, max_retries: u64,
    }
    SpecHeartbeat = "spec.heartbeat" { phases_completed: Value, current_phase: String }
    SpecProgress = "spec.progress" {
        phase: SpecPhase, message: String, eval_passed: bool, eval_details: Value,
    }
    SpecEvalResult = "spec.eval_result" {
        phase: SpecPhase, eval_passed: bool, eval_score: Decimal, eval_feedback: Value, eval_details: Value,
    }
    SpecArtifactCreated = "spec.artifact_created" { artifact_type: String, path: String }
    SpecRequirementsGenerated = "spec.requirements_generated" { path: String, requirement_count: u64 }
    SpecDesignGenerated = "spec.design_generated" { path: String, component_count: u64 }
    SpecTasksGenerated = "spec.tasks_generated" { path: String, task_count: u64 }
    SpecSyncStarted = "spec.sync_started" {
        items_to_sync: Value, ticket_count: u64, task_count: u64, dry_run: bool,
    }
    SpecSyncCompleted = "spec.sync_completed" { items_synced: Value }
    SpecTasksQueued = "spec.tasks_queued" { task_count: u64 }
    SpecTicketsCreationStarted = "spec.tickets_creation_started" { ticket_count: u64, task_count: u64 }
    SpecTicketsCreationCompleted = "spec.tickets_creation_completed" {
        tickets_created: u64, tasks_created: u64, errors: Value,
    }
    SpecTicketCreated = "spec.ticket_created" {
        local_id: String, api_id: String, ticket_id: String, title: String,
    }
    SpecTicketUpdated = "spec.ticket_updated" {
        local_id: String, api_id: String, ticket_id: String, title: String,
    }
    SpecTaskCreated = "spec.task_created" {
        local_id: String, api_id: String, ticket_api_id: String, ticket_id: String, title: String,
    }
    SpecTaskUpdated = "spec.task_updated" {
        local_id: String, api_id: String, ticket_api_id: String, ticket_id: String, title: String,
    }
    SpecRequirementsSyncStarted = "spec.requirements_sync_started" { requirement_count: u64 }
    SpecRequirementsSyncCompleted = "spec.requirements_sync_completed" {
        requirements_created: u64, requirements_updated: u64, requirements_skipped: u64,
        requirements_failed: u64,
    }
    SpecRequirementCreated = "spec.requirement_created" { local_id: String, api_id: String, title: String }
    SpecRequirementUpdated = "spec.requirement_updated" { local_id: String, api_id: String, title: String }
    SpecDesignSyncStarted = "spec.design_sync_started" { has_architecture: bool }
    SpecDesignSyncCompleted = "spec.design_sync_completed" {
        design_updated: bool, design_skipped: bool, design_failed: bool, reason: String, error: String,
        dry_run: bool,
    }
    SpecDesignUpdated = "spec.design_updated" {}
    /// An acceptance criterion holds.
    SpecCriterionMet = "spec.criterion_met" {
        criterion_id: String, requirement_id: String, evidence: Value, timestamp: String,
    }
}

/// It says that its sender lives, and nothing else.
pub fn is_heartbeat(event_type: &str) -> bool {
    matches!(event_type, "agent.heartbeat" | "spec.heartbeat" | "heartbeat")
}

/// What the server alone tells: whole types, and beginnings of types that end with a dot. A worker's word for it would be
/// taken for the server's.
pub const RESERVED: [&str; 14] = [
    "budget.exceeded",
    "conductor.",
    "egress.denied",
    "git.push",
    "guardian.",
    "model.call",
    "sandbox.completed",
    "sandbox.discarded",
    "sandbox.failed",
    "sandbox.lost",
    "sandbox.spawned",
    "sandbox.terminated",
    "sandbox.unkept",
    "spec.eval_result",
];

/// Beside the list, whatever is in capitals: live viewers know a worker's events by a prefix in front of their type, and
/// `ENDED` would be announced as the server's own `SANDBOX_ENDED`.
pub fn is_reserved(event_type: &str) -> bool {
    let is_told = RESERVED.iter().any(|word| match word.ends_with('.') {
        true => event_type.starts_with(word),
        false => event_type == *word,
    });
    is_told || event_type.contains(char::is_uppercase) && !event_type.contains(char::is_lowercase)
}

/// Whether it is taken from a sandbox that has no more room for events: it shows that the worker lives, or how the
/// attempt ends.
pub fn is_vital(event_type: &str) -> bool {
    let vital = matches!(
        event_type,
        "agent.started"
            | "agent.completed"
            | "agent.failed"
            | "agent.error"
            | "agent.shutdown"
            | "agent.message_injected"
            | "agent.processing"
            | "continuous.completed"
            | "sandbox.preserved"
    );
    vital || is_heartbeat(event_type)
}

/// Whether it shows that work goes forward. All but the listed types do, so that a type that nobody has
/// thought of keeps a sandbox from being taken for idle.
pub fn is_work(event_type: &str) -> bool {
    let is_idle = matches!(
        event_type,
        "agent.started"
            | "agent.error"
            | "agent.stream_error"
            | "agent.waiting"
            | "agent.interrupted"
            | "agent.shutdown"
            | "iteration.failed"
            | "spec.phase_failed"
            | "spec.execution_failed"
            // What a call brings forward shows by itself; one that fails brings nothing.
            | "model.call"
            | "budget.exceeded"
    );
    // News of the sandbox itself is not the work in it, what is thought of it is not, and a loop of refused requests
    // is none either.
    let is_news = ["sandbox.", "egress.", "conductor.", "guardian."]
        .iter()
        .any(|prefix| event_type.starts_with(prefix));
    !is_idle && !is_heartbeat(event_type) && !is_news
}
