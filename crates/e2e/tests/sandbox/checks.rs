//! Done means proven: the declared checks run on the pushed commit in a sandbox of their own, and what they say decides.

use omoi_protocol::{ProjectId, SandboxId, TaskId};
use serde_json::{Value, json};

use crate::{agent::of, git::Mirror, omoi::Omoi};

/// Writes down what it was told to do.
const NOTES: &str = r#"
about: writes down its task
steps:
  - name: begin
    say: I begin afresh.
    call: { tool: Bash, input: { command: "rm -f told.txt" } }
  - name: write
    say: I write it down.
    call: { tool: Write, input: { file_path: told.txt, content: "{task}" } }
  - name: end
    say: It is written.
    end: true
"#;

const NOTHING: &str = r#"
about: changes nothing
steps:
  - name: end
    say: There is nothing to do.
    end: true
"#;

impl Omoi {
    async fn checked_project(&self, checks: Value) -> ProjectId {
        self.small_project_with(json!({ "checks": checks })).await
    }

    /// A task that an agent has done, and the sandbox that it did it in.
    async fn worked_on(&self, project: &ProjectId, scenario: &str, max_retries: i64) -> (TaskId, SandboxId) {
        let body = json!({
            "project_id": project, "title": "Do it", "description": "As the scenario says.",
            "execution_config": { "model": format!("scripted/{scenario}") }, "max_retries": max_retries,
        });
        let (status, task) = self.post("/api/v1/tasks", &body).await;
        assert_eq!(status, 201, "{task}");
        let task: TaskId = task["id"].as_str().unwrap().parse().unwrap();
        let sandbox = self.next_attempt(project, &task).await;
        (task, sandbox)
    }

    /// A sandbox for whatever is next with the task.
    async fn ordered(&self, project: &ProjectId, task: &TaskId) -> SandboxId {
        self.order_with(project, json!({ "task_id": task, "memory_gb": 1, "disk_gb": 1 })).await
    }

    /// The same, to its end.
    async fn next_attempt(&self, project: &ProjectId, task: &TaskId) -> SandboxId {
        let sandbox = self.ordered(project, task).await;
        self.gone(&sandbox).await;
        sandbox
    }

    async fn at(&self, task: &TaskId) -> (String, String, i64) {
        let task = self.get(&format!("/api/v1/tasks/{task}")).await;
        let text = |field: &str| task[field].as_str().unwrap().to_owned();
        (text("status"), text("stage"), task["retry_count"].as_i64().unwrap())
    }

    async fn evidence(&self, task: &TaskId) -> Value {
        self.get(&format!("/api/v1/tasks/{task}/evidence")).await
    }
}

fn at(status: &str, stage: &str, retries: i64) -> (String, String, i64) {
    (status.to_owned(), stage.to_owned(), retries)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_that_pass_on_the_pushed_commit_verify_the_task() {
    let omoi = Omoi::with_scenarios(&[("notes", NOTES)]).await;
    let project = omoi
        .checked_project(json!([
            { "name": "written", "command": "echo looking; grep -q scenario told.txt && echo found it" },
            { "name": "clean", "command": "test -z \"$(git status --porcelain)\" && echo made by a check > more.txt" },
        ]))
        .await;
    let (task, worker) = omoi.worked_on(&project, "notes", 0).await;
    assert_eq!(omoi.at(&task).await, at("pending", "check", 0));

    let checks = omoi.next_attempt(&project, &task).await;
    assert_eq!(omoi.at(&task).await, at("completed", "check", 0));
    let events = omoi.stored(&checks).await;
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .filter(|kind| kind.starts_with("check.") || *kind == "agent.completed")
        .collect();
    assert_eq!(
        kinds,
        ["check.started", "check.completed", "check.started", "check.completed", "agent.completed"]
    );
    let written: Vec<_> = of(&events, "command.output")
        .iter()
        .filter(|event| event["command_id"] == "check-written")
        .map(|event| event["text"].clone())
        .collect();
    assert!(
        written.iter().any(|text| text.as_str().unwrap().contains("found it")),
        "what they print is live"
    );

    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = omoi.sandbox(&worker).await.branch_name.unwrap();
    let tip = mirror.git(&["rev-parse", &branch]);
    let evidence = omoi.evidence(&task).await;
    assert_eq!((&evidence["verification"], &evidence["commit"]), (&json!("verified"), &json!(tip)));
    assert_eq!(omoi.sandbox(&checks).await.base_commit.unwrap(), tip, "it began with that very commit");
    let results = evidence["checks"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{evidence}");
    assert_eq!((&results[0]["exit_code"], &results[0]["sandbox_id"]), (&json!(0), &json!(checks)));
    assert!(results[0]["output_preview"].as_str().unwrap().ends_with("looking\nfound it\n"), "{results:?}");
    let task = omoi.get(&format!("/api/v1/tasks/{task}")).await;
    assert!(task["result"]["output"].as_str().unwrap().contains("It is written."), "{task}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_reaches_the_next_attempt_which_mends_it_on_the_same_branch() {
    let omoi = Omoi::with_scenarios(&[("notes", NOTES)]).await;
    let command = "grep -q 'a line that is missing' told.txt || { echo 'a line that is missing'; exit 3; }";
    let project = omoi
        .checked_project(
            json!([{ "name": "lines", "command": command }, { "name": "always", "command": "true" }]),
        )
        .await;
    let (task, first) = omoi.worked_on(&project, "notes", 1).await;
    let failed = omoi.next_attempt(&project, &task).await;
    assert_eq!(omoi.at(&task).await, at("pending", "work", 1));
    let evidence = omoi.evidence(&task).await;
    let passed: Vec<_> =
        evidence["checks"].as_array().unwrap().iter().map(|check| check["passed"].clone()).collect();
    assert_eq!(passed, [json!(false), json!(true)], "all are run even when one fails: {evidence}");
    assert_eq!(
        (&evidence["verification"], &evidence["checks"][0]["exit_code"]),
        (&json!("disputed"), &json!(3))
    );
    let before = evidence["commit"].clone();

    let second = omoi.next_attempt(&project, &task).await;
    assert_eq!(omoi.at(&task).await, at("pending", "check", 1));
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = omoi.sandbox(&second).await.branch_name.unwrap();
    assert_eq!(omoi.sandbox(&first).await.branch_name.as_ref(), Some(&branch));
    let told = mirror.file(&branch, "told.txt");
    assert!(told.contains("1 of 2 checks failed") && told.contains("a line that is missing"), "{told}");

    let passed = omoi.next_attempt(&project, &task).await;
    assert_eq!(omoi.at(&task).await, at("completed", "check", 1));
    let evidence = omoi.evidence(&task).await;
    assert_eq!(evidence["verification"], "verified");
    assert_ne!(evidence["commit"], before, "it is the mended commit that is proven");
    let attempts: Vec<_> =
        evidence["attempts"].as_array().unwrap().iter().map(|one| one["sandbox_id"].clone()).collect();
    assert_eq!(attempts, [json!(first), json!(failed), json!(second), json!(passed)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_checks_run_cannot_speak_for_their_sandbox() {
    let omoi = Omoi::with_scenarios(&[("notes", NOTES)]).await;
    let hostile = "env | grep -E 'TOKEN|API_KEY|Bearer|oms_|extraHeader' && exit 1; \
                   cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -E 'TOKEN=|API_KEY=|Bearer' && exit 2; \
                   echo pwned > told.txt; git commit -qam pwned || exit 3; \
                   git push origin HEAD 2>&1 && exit 4; \
                   git push origin HEAD:refs/heads/other 2>&1 && exit 5; exit 0";
    let project = omoi.checked_project(json!([{ "name": "hostile", "command": hostile }])).await;
    let (task, worker) = omoi.worked_on(&project, "notes", 0).await;
    let mirror = Mirror::of(&omoi.data(), &project);
    let branch = omoi.sandbox(&worker).await.branch_name.unwrap();
    let tip = mirror.git(&["rev-parse", &branch]);
    omoi.next_attempt(&project, &task).await;
    let evidence = omoi.evidence(&task).await;
    assert_eq!(omoi.at(&task).await, at("completed", "check", 0), "{evidence}");
    assert_eq!(evidence["commit"], json!(tip));
    assert_eq!(mirror.git(&["rev-parse", &branch]), tip, "the branch has not moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_check_sandbox_is_tried_again_and_the_work_is_not() {
    let omoi = Omoi::with_scenarios(&[("notes", NOTES)]).await;
    let waits = "until test -e go; do sleep 0.05; done";
    let project = omoi.checked_project(json!([{ "name": "waits", "command": waits }])).await;
    let (task, _) = omoi.worked_on(&project, "notes", 2).await;
    let killed = omoi.ordered(&project, &task).await;
    omoi.until_event(&killed, "command.started").await;
    omoi.kill_init(&killed);
    omoi.gone(&killed).await;
    assert_eq!(omoi.at(&task).await, at("pending", "check", 1));

    let next = omoi.ordered(&project, &task).await;
    omoi.until_event(&next, "command.started").await;
    assert_eq!(omoi.exec(&next, &["/bin/sh", "-c", "touch /workspace/go"]).await.code, Some(0));
    omoi.gone(&next).await;
    assert_eq!(omoi.at(&task).await, at("completed", "check", 1));
    assert_eq!(omoi.evidence(&task).await["verification"], "verified");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_was_changed_the_commit_it_began_with_is_checked() {
    let omoi = Omoi::with_scenarios(&[("nothing", NOTHING)]).await;
    let project = omoi
        .checked_project(json!([
            { "name": "there", "command": "test -f README.md" },
            { "name": "late", "command": "echo begun; sleep 600", "timeout_seconds": 1 },
        ]))
        .await;
    let (task, worker) = omoi.worked_on(&project, "nothing", 0).await;
    let began = omoi.sandbox(&worker).await.base_commit.unwrap();
    omoi.next_attempt(&project, &task).await;
    let shown = omoi.get(&format!("/api/v1/tasks/{task}")).await;
    assert_eq!((&shown["status"], &shown["failure_kind"]), (&json!("failed"), &json!("checks")), "{shown}");
    assert!(shown["error_message"].as_str().unwrap().contains("late: took longer than 1 s"), "{shown}");
    let evidence = omoi.evidence(&task).await;
    assert_eq!(evidence["commit"], json!(began));
    assert_eq!(
        (&evidence["checks"][0]["passed"], &evidence["checks"][1]["passed"]),
        (&json!(true), &json!(false))
    );
    assert!(evidence["checks"][1]["output_preview"].as_str().unwrap().contains("begun"), "{evidence}");
}
