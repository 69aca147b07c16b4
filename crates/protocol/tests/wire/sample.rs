//! One value for each name of a field in event data, whichever kind it is in.

use serde_json::{Value, json};

pub fn sample(field: &str) -> Value {
    match field {
        "task_id" => json!("task-1"),
        "agent_id" => json!("agent-1"),
        "sandbox_id" => json!("sbx-1"),
        "spec_id" => json!("spec-1"),
        "ticket_id" => json!("tkt-1"),
        "phase_id" => json!("PHASE_IMPLEMENTATION"),
        "session_id" | "last_session_id" | "resumed_session_id" => json!("0198c0de-session"),
        "message_id" => json!("msg-1"),
        "sender_id" => json!("operator"),
        "tool_use_id" | "parent_tool_use_id" => json!("toolu_01"),
        "usage" => json!({ "input_tokens": 12, "output_tokens": 3 }),
        "attempt" => json!(2),
        "attempts_max" => json!(10),
        "retry_delay_ms" => json!(750),
        "criterion_id" => json!("crit-1"),
        "requirement_id" => json!("req-1"),
        "local_id" => json!("TKT-001"),
        "api_id" | "ticket_api_id" => json!("tkt-2"),

        "call_id" => json!("call-1"),
        "vendor" => json!("anthropic"),
        "state" => json!("done"),
        "status_code" => json!(200),
        "estimated" => json!(false),
        "level" => json!("task"),
        "limit_usd" => json!(10),
        "spent_usd" => json!(10.25),
        "reported_usd" => json!(1.5),

        "timestamp" => json!("2026-01-21T17:44:08Z"),
        "provider" => json!("local"),
        "worker_version" => json!("0.1.0"),
        "step" => json!("install"),
        "percent" => json!(62.5),
        "silent_seconds" => json!(91.5),
        "verification" => json!("verified"),
        "failure_kind" => json!("out_of_memory"),
        "exit_code" => json!(137),
        "signal" => json!(9),
        "actor" => json!("operator"),
        "ref_name" => json!("refs/preserved/sbx-1"),
        "tries" => json!(8),
        "disk_bytes" => json!(5_242_880),
        "set_aside" => {
            let listed =
                json!([{ "file": "000001", "path": ".git.", "reason": "hasDotgit: contains '.git'" }]);
            json!({ "ref": "refs/set-aside/sbx-1", "commit": "8b7a6053", "files": 1, "listed": listed })
        }
        "left_out" => {
            json!([{ "path": "big.bin", "bytes": 157_286_400, "reason": "it is larger than a push" }])
        }
        "left_out_files" => json!(1),
        "left_out_bytes" => json!(157_286_400),
        "commit" | "base_commit" => json!("4f2c9d1e8b7a6053c4d2e1f09a8b7c6d5e4f3a2b"),
        "branch_name" => json!("feature/tkt-1-health-check"),
        "host" => json!("evil.example"),
        "port" => json!(443),
        "code" => json!("not_listed"),
        "env_left_out" => json!(["TASK_DESCRIPTION"]),
        "name" => json!("test"),
        "command_id" => json!("cmd-1"),
        "argv" => json!(["cargo", "test"]),
        "cwd" => json!("/workspace"),
        "stream" => json!("stdout"),
        "text" => json!("test result: ok\n"),
        "command" => json!("cargo test"),

        "sdk" => json!("claude_agent_sdk"),
        "model" => json!("claude-opus-4-5-20251101"),
        "task" | "goal" => json!("Add a health check"),
        "ticket_title" | "title" => json!("Health check"),
        "mode" => json!("spec_state_machine"),
        "metadata" => json!({ "subtype": "init" }),
        "stop_reason" => json!("completion_signal"),
        "content" | "message" | "summary" | "feedback" | "final_output" => {
            json!("The health check answers 200.")
        }
        "prompt_preview" => json!("Add a health check. Then"),
        "output_preview" => json!("test result: ok"),
        "thinking_type" => json!("extended_thinking"),
        "message_type" => json!("guardian_nudge"),
        "reason" => json!("evaluation_failed"),
        "error" => json!("no space left on device"),
        "error_type" => json!("command_failed"),
        "traceback" => json!("Traceback (most recent call last)"),
        "status" => json!("alive"),
        "agent_type" => json!("implementer"),

        "tool" => json!("Bash"),
        "input" | "tool_input" => json!({ "command": "ls -a" }),
        "tool_response" => json!({ "stdout": ".git", "interrupted": false }),
        "event_subtype" => json!("tool_use"),
        "result" => json!(".git"),
        "skill_name" => json!("git-workflow"),
        "subagent_type" => json!("code-reviewer"),
        "subagent_description" | "description" => json!("Review the change"),
        "subagent_prompt" => json!("Look for mistakes"),
        "subagent_result" => json!([{ "type": "text", "text": "None found" }]),
        "subagent_usage" => json!({ "output_tokens": 120 }),

        "file_path" => json!("src/health.rs"),
        "previous_path" => json!("src/alive.rs"),
        "path" => json!(".spec-output/requirements.md"),
        "change_type" => json!("renamed"),
        "diff_preview" | "full_diff" => json!("--- a/src/health.rs\n+++ b/src/health.rs\n"),

        "pr_url" => json!("https://github.com/acme/shop/pull/12"),
        "ci_status" => json!([{ "name": "build", "state": "SUCCESS" }]),
        "checks" => json!([{ "name": "test", "command": "cargo test", "passed": false, "exit_code": 1 }]),
        "git_status" => {
            json!({ "is_clean": true, "is_pushed": true, "has_pr": false, "branch_name": "feature/tkt-1" })
        }
        "limits" => json!({ "max_iterations": 10, "max_total_cost_usd": 20.0, "max_duration_seconds": 3600 }),
        "validation_requirements" => json!({ "require_clean_git": true }),
        "completion_signal" => json!("TASK_COMPLETE"),
        "task_type" => json!("research"),
        "errors" => json!(["Code not pushed to remote"]),

        "phase" | "spec_phase" | "current_phase" | "failed_phase" => json!("design"),
        "phases" | "phases_completed" => json!(["explore", "prd"]),
        "phase_data" => json!({ "explore": { "project_type": "service" } }),
        "phase_output" => json!({ "feature_name": "health" }),
        "sync_summary" => json!({ "status": "completed" }),
        "eval_feedback" => json!("architecture_overview is too short"),
        "eval_details" => json!({ "components": 0.2 }),
        "evidence" => json!("cargo test health"),
        "artifact_type" => json!("markdown"),
        "markdown_artifacts" => json!([".spec-output/design.md"]),
        "ticket_creation" => json!({ "tickets_created": 2 }),
        "items_to_sync" | "items_synced" => json!(5),
        "transcript_b64" => json!("e30K"),

        "failure" => json!("key_invalid"),
        "advice" => json!("set ANTHROPIC_API_KEY to a valid key and restart the server"),

        "cost_usd" | "total_cost_usd" | "subagent_cost_usd" => json!(0.42),
        "eval_score" => json!(0.92),
        "elapsed_seconds" | "duration_seconds" | "cpu_seconds" => json!(45.25),
        "duration_ms" | "duration_api_ms" | "elapsed_ms" | "subagent_duration_ms" => json!(1234),

        "success"
        | "continuous"
        | "fatal"
        | "lossy"
        | "passed"
        | "is_error"
        | "is_resuming"
        | "fork_session"
        | "dry_run"
        | "validation_passed"
        | "tests_passed"
        | "code_committed"
        | "code_pushed"
        | "pr_created"
        | "eval_passed"
        | "result_truncated"
        | "full_diff_available"
        | "has_architecture"
        | "design_updated"
        | "design_skipped"
        | "design_failed" => json!(true),

        "turn"
        | "turns"
        | "num_turns"
        | "total_turns"
        | "iteration_num"
        | "successful_iterations"
        | "error_count"
        | "signal_count"
        | "threshold"
        | "completion_signal_count"
        | "completion_threshold"
        | "intervention_number"
        | "retry_count"
        | "max_retries"
        | "block_count"
        | "pr_number"
        | "files_changed"
        | "processes"
        | "lines_added"
        | "lines_removed"
        | "uncommitted_files"
        | "event_count"
        | "requirement_count"
        | "component_count"
        | "task_count"
        | "ticket_count"
        | "tickets_created"
        | "tasks_created"
        | "requirements_created"
        | "requirements_updated"
        | "requirements_skipped"
        | "requirements_failed" => json!(3),

        "content_length"
        | "result_full_length"
        | "final_output_length"
        | "task_description_length"
        | "full_diff_size"
        | "transcript_bytes"
        | "memory_bytes"
        | "io_bytes"
        | "output_bytes"
        | "dropped_bytes"
        | "input_tokens"
        | "output_tokens"
        | "cache_read_tokens"
        | "cache_write_tokens" => json!(8192),

        _ => panic!("no sample for the field {field}"),
    }
}
