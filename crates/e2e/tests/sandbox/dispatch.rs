//! Tasks that nobody starts: from a ticket to a branch, in order and within limits, through crashes of the server and of
//! the work itself.

use futures_util::StreamExt;
use omoi_client::LiveFilter;
use omoi_protocol::{ProjectId, SandboxId, live::LiveEvent};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    git::{Mirror, Repository},
    omoi::{As, Omoi, PATIENCE, data},
    traces::Traces,
};

/// Makes a file and is done.
pub const QUICK: &str = r#"
about: one file
steps:
  - name: write
    say: I write it.
    call: { tool: Write, input: { file_path: made.txt, content: "made\n" } }
  - name: end
    say: It is made.
    end: true
"#;

/// Leaves a file that nobody has committed, and then takes its time: also when it is resumed, and hears that its command
/// came to nothing.
const SLOW: &str = r#"
about: a file, then a long command
steps:
  - name: write
    say: I begin.
    call: { tool: Write, input: { file_path: begun.txt, content: "begun\n" } }
  - name: wait
    say: This takes a while.
    call: { tool: Bash, input: { command: "touch waits; sleep 600" } }
    when:
      - { is_error: true, next: wait }
"#;

pub fn settings(scenario: &str) -> Value {
    json!({ "autonomous": true, "model": format!("scripted/{scenario}"), "memory_gb": 1, "disk_gb": 1 })
}

impl Omoi {
    pub async fn autonomous(&self, repository: &Repository, scenario: &str) -> ProjectId {
        self.project_with(repository, settings(scenario)).await
    }

    pub async fn new_task(&self, body: Value) -> String {
        let (status, task) = self.post("/api/v1/tasks", &body).await;
        assert_eq!(status, 201, "{task}");
        task["id"].as_str().unwrap().to_owned()
    }

    pub async fn show_task(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/tasks/{id}")).await
    }

    /// Everything of these types from the beginning on, until it is enough.
    pub async fn until_all(&self, types: &[&str], enough: impl Fn(&[LiveEvent]) -> bool) -> Vec<LiveEvent> {
        let filter = LiveFilter {
            event_types: types.iter().map(|one| (*one).to_owned()).collect(),
            ..LiveFilter::default()
        };
        let mut stream = Box::pin(self.client.stream(&filter, Some(0)));
        let mut seen = Vec::new();
        let waited = timeout(3 * PATIENCE, async {
            while !enough(&seen) {
                seen.push(stream.next().await.unwrap().unwrap());
            }
        });
        let waited = waited.await;
        assert!(waited.is_ok(), "it does not come to that: {seen:#?}\n{}", self.last_words());
        seen
    }

    /// The sandbox of the task's n-th attempt.
    pub async fn attempt(&self, task: &str, n: usize) -> SandboxId {
        let of = |event: &&LiveEvent| data(event)["task_id"] == task;
        let assigned = |seen: &[LiveEvent]| seen.iter().filter(of).count() >= n;
        let seen = self.until_all(&["TASK_ASSIGNED"], assigned).await;
        let nth = seen.iter().filter(of).nth(n - 1).unwrap();
        data(nth)["sandbox_id"].as_str().unwrap().parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_s_task_is_worked_on_and_completed_without_anybody_starting_it() {
    let omoi = Omoi::start(As::Root).await;
    let repository = Repository::small();
    let project = omoi.autonomous(&repository, "binomial").await;
    let (_, ticket) =
        omoi.post("/api/v1/tickets", &json!({ "project_id": project, "title": "Compute C(50,25)" })).await;
    // A ticket comes with its first task.
    omoi.until_all(&["TASK_COMPLETED"], |seen| seen.len() == 1).await;
    let tasks = omoi.get(&format!("/api/v1/tasks?ticket_id={}", ticket["id"].as_str().unwrap())).await;
    let task = &tasks["items"][0];
    assert_eq!(task["status"], "completed", "{task}");
    let branch = task["branch_name"].as_str().unwrap();
    assert!(Mirror::of(&omoi.data(), &project).file(branch, "binomial.py").contains("def binomial"));
    let sandbox: SandboxId = task["sandbox_id"].as_str().unwrap().parse().unwrap();
    omoi.gone(&sandbox).await;
    Traces::assert_none(&omoi.data(), &[sandbox.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_sandbox_is_killed_goes_on_with_its_work_and_its_conversation() {
    let omoi = Omoi::with_scenarios(&[("slow", SLOW)]).await;
    let repository = Repository::small();
    let project = omoi.autonomous(&repository, "slow").await;
    let task =
        omoi.new_task(json!({ "project_id": project, "title": "Begin and wait", "max_retries": 1 })).await;
    let first = omoi.attempt(&task, 1).await;
    omoi.until_event(&first, "agent.started").await;
    omoi.until_file(&first, "waits").await;
    omoi.kill_init(&first);

    let second = omoi.attempt(&task, 2).await;
    let started = omoi.until_event(&second, "agent.started").await;
    assert_eq!(started["payload"]["resumed_session_id"], format!("session-{first}"));
    let base = omoi.sandbox(&second).await.base_commit.unwrap();
    let mirror = Mirror::of(&omoi.data(), &project);
    assert_eq!(mirror.file(&base, "begun.txt"), "begun", "what was not committed is there");
    let shown = omoi.show_task(&task).await;
    assert_eq!(omoi.sandbox(&second).await.branch_name.as_deref(), shown["branch_name"].as_str());

    let (status, cancelled) = omoi.post(&format!("/api/v1/tasks/{task}/cancel"), &json!({})).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")));
    omoi.gone(&second).await;
    assert_eq!(omoi.sandbox(&second).await.end_reason.as_deref(), Some("task_cancelled"));
    Traces::assert_none(&omoi.data(), &[first.to_string(), second.to_string()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_gets_nowhere_or_takes_too_long_is_ended_and_its_work_kept() {
    let env = [("OMOI_SUPERVISE_STUCK_AFTER", "6s"), ("OMOI_SUPERVISE_PERIOD", "1s")];
    let omoi = Omoi::with_scenarios_and(&[("slow", SLOW)], &env).await;
    let repository = Repository::small();
    let project = omoi.autonomous(&repository, "slow").await;
    let config = json!({ "heartbeat_seconds": 1 });
    let stuck =
        json!({ "project_id": project, "title": "Stuck", "max_retries": 0, "execution_config": config });
    let late = json!({
        "project_id": project, "title": "Late", "max_retries": 0, "timeout_seconds": 3, "execution_config": config,
    });
    let (stuck, late) = (omoi.new_task(stuck).await, omoi.new_task(late).await);
    for task in [&late, &stuck] {
        let sandbox = omoi.attempt(task, 1).await;
        omoi.gone(&sandbox).await;
        assert_eq!(omoi.show_task(task).await["failure_kind"], "timed_out");
        let kept = omoi.sandbox(&sandbox).await.kept.unwrap();
        let mirror = Mirror::of(&omoi.data(), &project);
        assert_eq!(mirror.file(&kept.commit.unwrap(), "begun.txt"), "begun");
    }
    let stuck = omoi.attempt(&stuck, 1).await;
    assert_eq!(omoi.sandbox(&stuck).await.end_reason.as_deref(), Some("stuck_running"));
    let told = omoi.until_event(&stuck, "SANDBOX_TERMINATED_IDLE").await;
    assert!(told["payload"]["idle_duration_seconds"].as_u64().unwrap() >= 6, "{told}");
}
