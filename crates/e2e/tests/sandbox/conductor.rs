//! The conflict radar over real sandboxes: two agents that edit the same lines learn of each other while both still work.

use omoi_protocol::{ProjectId, live::LiveEvent};
use serde_json::{Value, json};

use crate::{
    git::Repository,
    omoi::{Omoi, data},
};

/// Edits a line, then works in small steps until somebody says something, and ends.
fn edits(file: &str, old: &str, new: &str) -> String {
    let input = json!({ "file_path": file, "old_string": old, "new_string": new });
    format!(
        r#"
about: edits {file} and waits for word
steps:
  - name: look
    say: I look at it.
    call: {{ tool: Read, input: {{ file_path: {file} }} }}
  - name: edit
    say: I change it.
    call: {{ tool: Edit, input: {input} }}
  - name: wait
    say: "Step {{n}}."
    call: {{ tool: Bash, input: {{ command: "sleep 0.3", description: "Work, step {{n}}" }} }}
    wait_for_message: true
    repeat: 600
    when:
      - {{ message_contains: "", next: heard }}
    next: alone
  - name: heard
    say: "I was told: {{message}}"
    end: true
  - name: alone
    say: "The task failed: nobody said anything."
    end: true
"#
    )
}

impl Omoi {
    async fn conflicts(&self, project: &ProjectId) -> Vec<Value> {
        let found = self.get(&format!("/api/v1/conductor/conflicts?project_id={project}&open=true")).await;
        found["items"].as_array().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tasks_that_edit_the_same_lines_are_flagged_before_either_finishes_and_both_are_told() {
    let scenarios = [
        ("rename", edits("src/lib.rs", "answer()", "the_answer()")),
        ("retype", edits("src/lib.rs", "u32", "u64")),
        ("title", edits("README.md", "A project", "The project")),
    ];
    let scenarios: Vec<(&str, &str)> = scenarios.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let omoi = Omoi::with_scenarios(&scenarios).await;
    let repository = Repository::small();
    let project = omoi.project(&repository).await;
    let (rename, one) = omoi.agent(&project, "rename", json!({})).await;
    let (retype, other) = omoi.agent(&project, "retype", json!({})).await;
    let (title, apart) = omoi.agent(&project, "title", json!({})).await;

    // Neither can end before it is told, and only the radar tells them.
    let (mut found, mut ended) = (Vec::new(), Vec::new());
    for (sandbox, about) in [(&one, "Play retype"), (&other, "Play rename")] {
        let heard = omoi.until_event(sandbox, "agent.message_injected").await;
        let said = heard["payload"]["content"].as_str().unwrap();
        assert!(said.contains(about) && said.contains("src/lib.rs (line 1)"), "{said}");
        let seen = omoi.until(sandbox, |event| event.event_type == "SANDBOX_ENDED").await;
        let at = |event_type: &str| {
            seen.iter().find(|event| event.event_type == event_type).map(|event| event.position)
        };
        found.push(at("conductor.conflict.found").expect("it is on the time line"));
        ended.push(at("SANDBOX_ENDED").unwrap());
        let told = |event: &&LiveEvent| event.event_type == "agent.message_injected";
        assert_eq!(seen.iter().filter(told).count(), 1, "once");
    }
    assert!(found.iter().max() < ended.iter().min(), "{found:?} {ended:?}");
    for task in [&rename, &retype] {
        assert_eq!(omoi.task(task).await["status"], "completed");
    }

    // Now that both have pushed, the branches themselves are known not to merge.
    let of_project = |event: &LiveEvent| data(event)["project_id"] == project.as_str();
    let changed =
        |seen: &[LiveEvent]| seen.iter().any(|event| data(event)["kind"] == "merge" && of_project(event));
    omoi.until_all(&["conductor.conflict.changed"], changed).await;
    let found = omoi.conflicts(&project).await;
    assert_eq!((found.len(), &found[0]["kind"]), (1, &json!("merge")), "{found:?}");
    assert_eq!(found[0]["files"][0]["lines"], json!([{ "first": 1, "last": 1 }]));

    // The third edits another file: nobody is in its way, and nobody told it anything.
    assert_eq!(omoi.get(&format!("/api/v1/sandboxes/{apart}/messages?history=true")).await, json!([]));
    omoi.say(&apart, "user_message", "Go on.").await;
    let seen = omoi.until(&apart, |event| event.event_type == "SANDBOX_ENDED").await;
    assert!(!seen.iter().any(|event| event.event_type.starts_with("conductor.")), "{seen:#?}");
    assert_eq!(omoi.task(&title).await["status"], "completed");
    let matrix = omoi.get(&format!("/api/v1/conductor/matrix?project_id={project}")).await;
    assert!(matrix["members"].as_array().unwrap().len() >= 3, "{matrix}");
}
