//! What the documents that began the project ask of sandboxes and that no other test shows on its own.
//! docs/testing.md has the whole list.

use std::{fs, path::Path};

use omoi_protocol::SandboxId;
use serde_json::{Value, json};

use crate::{
    agent::of,
    dispatch::settings,
    git::Mirror,
    omoi::{As, Omoi},
};

const GIB: u64 = 1 << 30;

impl Omoi {
    /// Makes a sandbox, looks how much memory the kernel gives it, and ends it.
    async fn memory_of_one(&self, project: &omoi_protocol::ProjectId, mut body: Value) -> u64 {
        body["command"] = json!(["/bin/sleep", "1000"]);
        let id = self.order_with(project, body).await;
        self.until_event(&id, "command.started").await;
        let memory = memory_limit(Path::new("/sys/fs/cgroup"), &id, 6);
        self.terminate(&id).await;
        self.gone(&id).await;
        memory.expect("its control group has a limit of memory")
    }
}

/// The limit of the control group of a sandbox, in whichever version this machine has.
fn memory_limit(below: &Path, id: &SandboxId, depth: usize) -> Option<u64> {
    let dirs = || fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path());
    let own = dirs().filter(|path| path.to_string_lossy().contains(id.as_str()));
    let limits = own.flat_map(|path| [path.join("memory.limit_in_bytes"), path.join("memory.max")]);
    let limit = limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min();
    let deeper = || dirs().filter(|path| path.is_dir()).find_map(|path| memory_limit(&path, id, depth - 1));
    limit.or_else(|| if depth > 0 { deeper() } else { None })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parameter_wins_over_the_environment_that_over_the_file_and_that_over_the_default() {
    let mut omoi = Omoi::start(As::Root).await;
    let project = omoi.small_project().await;
    assert_eq!(omoi.memory_of_one(&project, json!({})).await, 4 * GIB, "the default");
    omoi.kill().await;
    fs::write(omoi.data().join("omoi.yaml"), "sandbox:\n  memory_gb: 3\n").unwrap();
    omoi.start_again().await;
    assert_eq!(omoi.memory_of_one(&project, json!({})).await, 3 * GIB, "the file");
    omoi.kill().await;
    omoi.set("SANDBOX_MEMORY_GB", "2");
    omoi.start_again().await;
    assert_eq!(omoi.memory_of_one(&project, json!({})).await, 2 * GIB, "the environment");
    assert_eq!(omoi.memory_of_one(&project, json!({ "memory_gb": 1 })).await, GIB, "the parameter");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_branch_is_there_before_its_sandbox_and_the_sandbox_knows_its_name() {
    let mut omoi = Omoi::start_with(As::Root, &[("OMOI_SANDBOX_DENY_LAYERS", "seccomp")]).await;
    let project = omoi.small_project().await;
    let refused = omoi.order(&project, &["true"]).await;
    omoi.gone(&refused).await;
    let refused = omoi.sandbox(&refused).await;
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = format!("refs/heads/{}", refused.branch_name.unwrap());
    assert_eq!(mirror.refs(&branch), [branch], "no sandbox was made, and its branch is there");

    omoi.kill().await;
    omoi.set("OMOI_SANDBOX_DENY_LAYERS", "");
    omoi.start_again().await;
    let script = "echo $BRANCH_NAME; git ls-remote origin refs/heads/$BRANCH_NAME; git rev-parse HEAD";
    let ran = omoi.sh(&project, script).await;
    let lines: Vec<&str> = ran.ok().lines().collect();
    let sandbox = omoi.sandbox(&ran.id).await;
    assert_eq!(lines[0], sandbox.branch_name.unwrap());
    assert!(lines[1].starts_with(lines[2]), "it is where the sandbox begins: {lines:?}");
}

/// Thinks, makes a file, changes it, runs it.
const TYPICAL: &str = r#"
about: what the first runs did
steps:
  - name: write
    say: I write it.
    call: { tool: Write, input: { file_path: answer.sh, content: "echo 41\n" } }
  - name: edit
    say: It is one more.
    call: { tool: Edit, input: { file_path: answer.sh, old_string: "41", new_string: "42" } }
  - name: run
    say: I run it.
    call: { tool: Bash, input: { command: "sleep 2; sh answer.sh" } }
  - name: end
    say: It is 42.
    end: true
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typical_run_tells_each_kind_of_event_with_its_fields() {
    let omoi = Omoi::with_scenarios(&[("typical", TYPICAL)]).await;
    let project = omoi.small_project_with(settings("typical")).await;
    let task = omoi
        .new_task(json!({
            "project_id": project, "title": "Answer", "description": "Write what it is.", "max_retries": 0,
            "execution_config": { "heartbeat_seconds": 1, "idle_seconds": 1 },
        }))
        .await;
    let sandbox = omoi.attempt(&task, 1).await;
    omoi.gone(&sandbox).await;
    let events = omoi.stored(&sandbox).await;
    let fields: [(&str, usize, &[&str]); 10] = [
        ("agent.started", 1, &["timestamp", "model", "task", "task_description_length", "is_resuming"]),
        ("agent.assistant_message", 4, &["turn", "model", "stop_reason", "block_count"]),
        ("agent.message", 4, &["turn", "content", "content_length"]),
        ("agent.tool_use", 3, &["turn", "tool", "tool_use_id", "input", "event_subtype"]),
        ("agent.tool_result", 3, &["turn", "tool_use_id", "result", "result_truncated", "is_error"]),
        ("agent.tool_completed", 3, &["turn", "tool", "tool_input", "tool_response"]),
        (
            "agent.file_edited",
            2,
            &[
                "turn",
                "file_path",
                "change_type",
                "lines_added",
                "lines_removed",
                "diff_preview",
                "full_diff",
            ],
        ),
        (
            "agent.completed",
            1,
            &["success", "turns", "cost_usd", "session_id", "stop_reason", "final_output", "branch_name"],
        ),
        ("agent.waiting", 1, &["message"]),
        ("agent.heartbeat", 1, &["timestamp", "status", "event_count"]),
    ];
    for (kind, count, fields) in fields {
        let told = of(&events, kind);
        let enough = if kind == "agent.heartbeat" { told.len() >= count } else { told.len() == count };
        assert!(enough, "{} of {kind}", told.len());
        for field in fields {
            assert!(told.iter().all(|event| !event[field].is_null()), "{kind} without {field}: {told:#?}");
        }
    }
    let edits = of(&events, "agent.file_edited");
    let diff = edits[1]["full_diff"].as_str().unwrap();
    assert!(diff.contains("--- a/answer.sh") && diff.contains("+++ b/answer.sh"), "{diff}");
    assert!(diff.contains("-echo 41\n+echo 42"), "{diff}");
    assert_eq!(omoi.show_task(&task).await["status"], "completed");
}
