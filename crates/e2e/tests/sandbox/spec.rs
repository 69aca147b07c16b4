//! Specs in real sandboxes: the demo from an idea to proven tasks, what a phase sees, and kills of worker and server in
//! each phase.

use std::collections::BTreeMap;

use omoi_protocol::{ProjectId, SandboxId};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    demo::omoi,
    git::Repository,
    omoi::{Omoi, PATIENCE, data},
};

const SCENARIO: &str = include_str!("../../../server/scenarios/spec.yaml");
const PHASES: [&str; 6] = ["explore", "prd", "requirements", "design", "tasks", "sync"];

/// Writes down what it finds around it, in the place of an output.
const SPY: &str = r#"
about: looks around
steps:
  - name: look
    say: I look around.
    call:
      tool: Bash
      input:
        command: 'echo "spec=$SPEC_ID phase=$SPEC_PHASE project=$PROJECT_ID mode=$EXECUTION_MODE"; ls /workspace; ps -e -o args= 2>/dev/null; ls /'
  - name: leave
    say: I write into the work tree, which is not mine.
    call: { tool: Write, input: { file_path: README.md, content: "mine\n" } }
  - name: bad
    say: I write an output that is none.
    call: { tool: Write, input: { file_path: /tmp/omoi-spec/explore.json, content: "{\"codebase_summary\": 1}" } }
  - name: end
    say: That is all.
    end: true
"#;

impl Omoi {
    /// A project of the files that the scenario speaks of.
    async fn units(&self, settings: Value) -> (ProjectId, Repository) {
        let repository = Repository::small();
        repository.write("check.sh", "exec python3 -B -m unittest discover -s tests -t .\n");
        repository.write("units/length.py", "FACTORS = {}\n");
        repository.write("tests/test_length.py", "import unittest\n");
        for package in ["units", "tests"] {
            repository.write(&format!("{package}/__init__.py"), "");
        }
        repository.commit("Units");
        (self.project_with(&repository, settings).await, repository)
    }

    async fn new_spec(&self, project: &ProjectId, gates: Value) -> String {
        let body = json!({ "project_id": project, "title": "More units", "description": "Convert more.", "gates": gates });
        let (status, spec) = self.post("/api/v1/specs", &body).await;
        assert_eq!(status, 201, "{spec}");
        spec["id"].as_str().unwrap().to_owned()
    }

    async fn execute(&self, spec: &str) -> Value {
        let (status, begun) = self.post(&format!("/api/v1/specs/{spec}/execute"), &json!({})).await;
        assert_eq!(status, 202, "{begun}");
        begun
    }

    async fn spec(&self, spec: &str) -> Value {
        self.get(&format!("/api/v1/specs/{spec}")).await
    }

    /// Asks until the spec is as wanted.
    async fn until_spec(&self, spec: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let waited = timeout(3 * PATIENCE, async {
            loop {
                let shown = self.spec(spec).await;
                if is_it(&shown) {
                    return shown;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        });
        match waited.await {
            Ok(shown) => shown,
            Err(_) => panic!("it does not come to that: {:#}\n{}", self.spec(spec).await, self.last_words()),
        }
    }

    /// The outputs that stand, with the attempts that they are of.
    async fn outputs(&self, spec: &str) -> (BTreeMap<String, Value>, Value) {
        let data = self.get(&format!("/api/v1/specs/{spec}/phase-data")).await;
        let outputs = data["phase_data"].as_object().unwrap().clone().into_iter().collect();
        (outputs, data["phase_attempts"].clone())
    }
}

fn phase<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    spec["phases"].as_array()?.iter().find(|one| one["phase"] == name)
}

fn sandbox_of(spec: &Value, name: &str) -> Option<SandboxId> {
    phase(spec, name)?["sandbox_id"].as_str()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_takes_a_spec_from_an_idea_to_proven_tasks_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let said = omoi(&["demo", "--spec", "--exit", "--json"], dir.path()).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let proof: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    assert_eq!((said.status.code(), &proof["status"]), (Some(0), &json!("completed")), "{proof:#}\n{err}");
    assert_eq!(
        (proof["phases"].as_array().unwrap().len(), &proof["approvals"], &proof["coverage_percent"]),
        (6, &json!(2), &json!(100))
    );
    assert_eq!(proof["tasks"].as_array().unwrap().len(), 5);
    assert!(proof["parallel"].as_u64().unwrap() >= 2);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phase_sees_its_spec_and_its_project_and_nothing_of_the_server() {
    let server = Omoi::with_scenarios(&[("spy", SPY)]).await;
    let (project, repository) =
        server.units(json!({ "model": "scripted/spy", "memory_gb": 1, "disk_gb": 1 })).await;
    let spec = server.new_spec(&project, json!([])).await;
    let begun = server.execute(&spec).await;
    let sandbox: SandboxId = begun["sandbox_id"].as_str().unwrap().parse().unwrap();
    server.until_event(&sandbox, "agent.started").await;
    assert!(!runs_below(server.pid(), "omoi-worker"), "no agent runs in the server's process");
    let seen = server.until(&sandbox, |event| event.event_type == "spec.phase_failed").await;
    let of = |kind: &str| seen.iter().filter(|event| event.event_type == kind).map(data).collect::<Vec<_>>();
    let looked = of("agent.tool_result")[0]["result"].as_str().unwrap().to_owned();
    let expected = format!("spec={spec} phase=explore project={project} mode=exploration");
    assert!(looked.contains(&expected), "{looked}");
    assert!(looked.contains("check.sh") && !looked.contains("omoi serve"), "{looked}");
    assert_eq!(of("spec.phase_started")[0]["phase"], "explore");
    let retries = of("spec.phase_retry");
    assert_eq!(retries.len(), 2, "the agent is told what is wrong, and only so often");
    let wrong = retries[0]["error"].as_str().unwrap();
    assert!(wrong.contains("$.codebase_summary is the number 1; expected a string"), "{wrong}");
    assert!(
        of("agent.tool_result")[1]["result"].as_str().unwrap().contains("explores"),
        "the work tree is not its own"
    );
    drop(repository);
}

/// Whether a program of this name hangs below a process.
fn runs_below(pid: u32, name: &str) -> bool {
    let mut open = vec![pid];
    while let Some(pid) = open.pop() {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()) {
            let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if line.contains(name) {
                return true;
            }
            open.push(child);
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_of_worker_and_server_in_each_phase_resumes_there_and_touches_nothing_earlier() {
    let slow = SCENARIO.replace("pace: 5ms", "pace: 5ms\ndelay: 700ms");
    let mut server = Omoi::with_scenarios(&[("slow", &slow)]).await;
    let settings = json!({ "model": "scripted/slow", "memory_gb": 1, "disk_gb": 1, "checks": [] });
    let (project, _repository) = server.units(settings).await;
    let spec = server.new_spec(&project, json!([])).await;
    server.execute(&spec).await;
    for (at, name) in PHASES.into_iter().enumerate() {
        let shown = server.until_spec(&spec, |spec| sandbox_of(spec, name).is_some()).await;
        let first = sandbox_of(&shown, name).unwrap();
        let before = server.outputs(&spec).await;
        assert_eq!(before.0.len(), at, "the phases before it stand");
        server.until_event(&first, "spec.phase_started").await;
        assert!(server.try_kill_init(&first), "the worker of {name} is killed");
        let shown =
            server.until_spec(&spec, |spec| sandbox_of(spec, name).is_some_and(|it| it != first)).await;
        let second = sandbox_of(&shown, name).unwrap();
        server.until_event(&second, "spec.phase_started").await;
        server.kill().await;
        server.start_again().await;
        let shown = server
            .until_spec(&spec, |spec| {
                phase(spec, name).is_some_and(|one| one["state"] == "passed") || spec["status"] == "failed"
            })
            .await;
        let one = phase(&shown, name).unwrap();
        assert_eq!((&one["state"], &one["attempt"]), (&json!("passed"), &json!(1)), "{shown:#}");
        let after = server.outputs(&spec).await;
        for (earlier, output) in &before.0 {
            assert_eq!((&after.0[earlier], &after.1[earlier]), (output, &json!(1)), "{earlier} is untouched");
        }
    }
    let done = server
        .until_spec(&spec, |spec| ["completed", "failed"].contains(&spec["status"].as_str().unwrap()))
        .await;
    assert_eq!(done["status"], "completed", "{done:#}");
}
