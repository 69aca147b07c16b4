//! Specs in real sandboxes: the demo from an idea to proven tasks, what a phase sees, and kills of worker and server in
//! each phase.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use omoi_client::LiveFilter;
use omoi_protocol::{ProjectId, SandboxId};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    demo::omoi,
    git::{Mirror, Repository},
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

    /// Looks whenever something is told of specs or tasks, until the spec is as wanted.
    async fn until_spec(&self, spec: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let kinds = ["spec", "task"].map(str::to_owned).to_vec();
        let filter = LiveFilter { entity_types: kinds, ..LiveFilter::default() };
        let mut told = Box::pin(self.client.stream(&filter, Some(0)).ready_chunks(1000));
        let waited = timeout(3 * PATIENCE, async {
            loop {
                let shown = self.spec(spec).await;
                if is_it(&shown) {
                    return shown;
                }
                told.next().await.expect("it goes on").into_iter().for_each(|event| drop(event.unwrap()));
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
    assert_eq!(proof["branch_checks"], "completed", "{proof:#}");
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

/// The tasks of a small change: one mends, and the other's test passes only with what the first has made.
fn small_tasks(bug: bool) -> Value {
    let task = |id: &str, title: &str, file: &str, on: Value| {
        json!({
            "id": id, "title": title, "description": "Do it so that the metre is there.", "parent_ticket": "TKT-001",
            "type": "implementation", "estimated_hours": 1, "files_to_modify": [file],
            "acceptance_criteria": ["FACTORS[\"m\"] is 1.0"], "dependencies": { "depends_on": on },
        })
    };
    let mut tasks = json!({
        "feature_name": "metre",
        "tickets": [{ "id": "TKT-001", "title": "The metre is missing", "description": "It is not there.", "tasks": ["TSK-001", "TSK-002"] }],
        "tasks": [
            task("TSK-001", "Mend the factors", "units/length.py", json!([])),
            task("TSK-002", "Guard the factors", "tests/test_length.py", json!(["TSK-001"])),
        ],
        "total_estimated_hours": 2,
        "critical_path": ["TSK-001", "TSK-002"],
    });
    if bug {
        tasks["bugfix"] = json!({
            "reproduce": {
                "steps": ["Look for the metre"], "command": "sh check.sh", "observed": "a KeyError", "expected": "1.0",
            },
            "cause": { "file": "units/length.py", "explanation": "The table is empty." },
            "fix": ["TSK-001"],
            "guard": { "test": "tests/test_length.py", "tasks": ["TSK-002"] },
        });
    }
    tasks
}

/// An agent that writes them, and does them. A scenario may be written in JSON.
fn small(bug: bool) -> String {
    let sync = json!({
        "validation_results": {
            "all_requirements_covered": true, "all_design_components_have_tasks": true, "dependency_order_valid": true,
            "no_circular_dependencies": true, "all_ids_valid": true,
        },
        "coverage_matrix": [],
        "traceability_stats": { "requirements": 0, "tickets": 1, "tasks": 2, "dependencies": 1 },
        "dependency_analysis": { "critical_path": ["TSK-001", "TSK-002"], "critical_path_hours": 2, "parallel_opportunities": [] },
        "spec_summary": { "requirement_coverage_percent": 100 },
        "ready_for_execution": true, "blockers": [], "recommendations": ["Mend it first."],
    });
    let write = |name: &str, phase: &str, output: Value| {
        let input =
            json!({ "file_path": format!("/tmp/omoi-spec/{phase}.json"), "content": output.to_string() });
        json!({ "name": name, "say": "I write it.", "call": { "tool": "Write", "input": input }, "next": "end" })
    };
    let change = |name: &str, command: &str| {
        let call = json!({ "tool": "Bash", "input": { "command": command } });
        json!({ "name": name, "say": "I change it.", "call": call, "next": "end" })
    };
    let look = r#"echo "phase=${SPEC_PHASE:-none}"; echo "$TASK_DATA_BASE64" | base64 -d | head -c 600"#;
    let guard = "printf 'import unittest\\nfrom units.length import FACTORS\\n\\nclass Length(unittest.TestCase):\\n    def test_metre(self):\\n        self.assertEqual(FACTORS[\"m\"], 1.0)\\n' > tests/test_length.py && sh check.sh";
    json!({
        "about": "A small change, from its tasks to what they make.",
        "steps": [
            {
                "name": "look", "say": "I look.", "call": { "tool": "Bash", "input": { "command": look } },
                "when": [
                    { "result_contains": "phase=tasks", "next": "tasks" }, { "result_contains": "phase=sync", "next": "sync" },
                    { "result_contains": "Mend the factors", "next": "mend" }, { "result_contains": "Guard the factors", "next": "guard" },
                    { "else": true, "next": "end" },
                ],
            },
            write("tasks", "tasks", small_tasks(bug)),
            write("sync", "sync", sync),
            change("mend", "echo 'FACTORS = {\"m\": 1.0}' > units/length.py"),
            change("guard", guard),
            { "name": "end", "say": "That is all.", "end": true },
        ],
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_change_and_a_bug_go_from_tasks_to_one_checked_branch() {
    let server = Omoi::with_scenarios(&[("quick", &small(false)), ("bugfix", &small(true))]).await;
    for (flow, wrong) in [("quick", None), ("bugfix", Some("scripted/quick"))] {
        let model = wrong.map_or_else(|| format!("scripted/{flow}"), str::to_owned);
        let checks = json!([{ "name": "tests", "command": "sh check.sh" }]);
        let settings = json!({ "model": model, "memory_gb": 1, "disk_gb": 1, "checks": checks });
        let (project, _repository) = server.units(settings.clone()).await;
        let body = json!({ "project_id": project, "title": "The metre", "flow": flow, "gates": ["tasks"] });
        let (status, spec) = server.post("/api/v1/specs", &body).await;
        assert_eq!(status, 201, "{spec}");
        let id = spec["id"].as_str().unwrap().to_owned();
        assert_eq!(server.execute(&id).await["current_phase"], "tasks");
        if wrong.is_some() {
            // What does not say how the bug is shown, mended and kept away is no plan for one.
            let shown = server.until_spec(&id, |spec| spec["status"] == "failed").await;
            assert!(shown["last_error"].as_str().unwrap().contains("$.bugfix: is missing"), "{shown:#}");
            let mut right = settings;
            right["model"] = json!(format!("scripted/{flow}"));
            server.patch(&format!("/api/v1/projects/{project}"), &json!({ "settings": right })).await;
            server.execute(&id).await;
        }
        server.until_spec(&id, |spec| spec["status"] == "waiting").await;
        let (status, answer) =
            server.post(&format!("/api/v1/specs/{id}/approve"), &json!({ "phase": "tasks" })).await;
        assert_eq!(status, 200, "{answer}");
        let over = |spec: &Value| {
            spec["status"] == "failed"
                || ["completed", "failed"].contains(&spec["branch"]["check_status"].as_str().unwrap_or(""))
        };
        let done = server.until_spec(&id, over).await;
        assert_eq!(
            (&done["status"], &done["branch"]["check_status"]),
            (&json!("completed"), &json!("completed")),
            "{done:#}"
        );
        let coverage = server.get(&format!("/api/v1/specs/{id}/coverage")).await;
        assert_eq!(coverage["proven_percent"], 100, "{coverage:#}");
        let mirror = Mirror::of(&server.data(), &project);
        let branch = done["branch"]["name"].as_str().unwrap();
        assert!(mirror.file(branch, "units/length.py").contains("1.0"));
        assert!(mirror.file(branch, "tests/test_length.py").contains("test_metre"));
    }
}

/// Each task writes its title into the same file.
const TITLES: &str = r#"
about: one file
steps:
  - name: write
    say: I write it.
    call: { tool: Bash, input: { command: 'echo "$TASK_DATA_BASE64" | base64 -d | head -c 300 > made.txt; echo "$TASK_ID" > "$TASK_ID.txt"' } }
  - name: end
    say: It is made.
    end: true
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_predecessors_conflict_fails_with_their_names_until_a_person_merges_them() {
    let server = Omoi::with_scenarios(&[("titles", TITLES)]).await;
    let (project, repository) = server
        .units(json!({ "autonomous": true, "model": "scripted/titles", "memory_gb": 1, "disk_gb": 1 }))
        .await;
    let task = |key: &str, on: Value| json!({ "key": key, "title": key, "depends_on": on });
    let tasks = json!([task("one", json!([])), task("two", json!([])), task("both", json!(["one", "two"]))]);
    let (status, made) =
        server.post("/api/v1/tasks/batch", &json!({ "project_id": project, "tasks": tasks })).await;
    assert_eq!(status, 201, "{made}");
    let id = |key: &str| made["tasks"][key]["id"].as_str().unwrap().to_owned();
    let told = server.until_all(&["TASK_CONFLICT", "TASK_FAILED"], |seen| seen.len() >= 2).await;
    let conflict = told.iter().find(|event| event.event_type == "TASK_CONFLICT").map(data).unwrap();
    assert_eq!(conflict["files"], json!(["made.txt"]));
    let failed = server.get(&format!("/api/v1/tasks/{}", id("both"))).await;
    let why = failed["error_message"].as_str().unwrap();
    assert_eq!(failed["status"], "failed");
    assert!(why.contains(&id("one")) && why.contains(&id("two")) && why.contains("made.txt"), "{why}");

    // As the reason says: merged by hand and pushed to the project's repository under the name of its branch.
    let mirror = Mirror::of(&server.data(), &project);
    let mut from = Vec::new();
    for key in ["one", "two"] {
        let shown = server.get(&format!("/api/v1/tasks/{}", id(key))).await;
        from.push(mirror.git(&["rev-parse", shown["branch_name"].as_str().unwrap()]));
    }
    let branch = failed["branch_name"].as_str().unwrap();
    for commit in &from {
        repository.git(&["fetch", "-q", mirror.0.to_str().unwrap(), commit]);
    }
    repository.git(&["checkout", "-q", "-b", branch, &from[0]]);
    repository.git(&["merge", "-q", "-X", "ours", "--no-edit", &from[1]]);
    let merged = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["checkout", "-q", "main"]);
    let (status, answer) = server.post(&format!("/api/v1/tasks/{}/retry", id("both")), &json!({})).await;
    assert_eq!(status, 200, "{answer}");
    server.until_all(&["TASK_COMPLETED"], |seen| seen.len() >= 3).await;
    let ends = mirror.git(&["rev-parse", branch]);
    mirror.git(&["merge-base", "--is-ancestor", &merged, &ends]);
    for key in ["one", "two", "both"] {
        assert!(mirror.file(&ends, &format!("{}.txt", id(key))).contains(&id(key)));
    }
}
