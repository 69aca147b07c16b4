//! Outputs that are too much: refused in little time and with few words.

use omoi_protocol::spec::{OUTPUT_BYTES_MAX, shape};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::spec::work;

#[test]
fn text_that_is_no_output_is_refused_with_a_reason() {
    let deep = "[".repeat(100_000);
    let deep_object = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
    let huge = format!("\"{}\"", "x".repeat(OUTPUT_BYTES_MAX));
    let cases = [
        ("", "$: not JSON (EOF while parsing a value at line 1 column 0); write one JSON object"),
        ("Here is the output:\n{}", "$: not JSON (expected value at line 1 column 1)"),
        ("```json\n{}\n```", "$: not JSON (expected value at line 1 column 1)"),
        ("{\"tasks\": [", "$: not JSON (EOF while parsing a list at line 1 column 11)"),
        ("{} {}", "$: not JSON (trailing characters at line 1 column 4)"),
        ("[]", "$ is a list; expected an object with feature_name, tickets, tasks"),
        ("null", "$ is null; expected an object with feature_name, tickets, tasks"),
        (
            "{}",
            "$.feature_name is missing; expected a string\n$.tickets is missing; expected a list of objects with",
        ),
        (deep.as_str(), "$: lists and objects are nested deeper than 64 levels at byte 64; flatten them"),
        (deep_object.as_str(), "$: lists and objects are nested deeper than 64 levels"),
        (huge.as_str(), "$: the output has 1048578 bytes; at most 1048576 are taken"),
    ];
    for (text, why) in cases {
        let error = shape(Phase::Tasks, text).unwrap_err().to_string();
        assert!(error.starts_with(why), "{}: {error}", &text[..text.len().min(40)]);
    }
}

#[test]
fn what_is_good_is_read_as_it_is() {
    for (phase, output) in samples() {
        assert_eq!(shape(phase, &output.to_string()), Ok(output));
    }
    let brackets = json!({ "note": "[{".repeat(200), "quote": "\\\"[" });
    let mut output = sample(Phase::Tasks);
    set(&mut output, "/house_rule", Some(brackets));
    assert_eq!(shape(Phase::Tasks, &output.to_string()), Ok(output));
}

#[test]
fn a_deep_value_that_was_never_text_is_refused() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let mut output = sample(Phase::Tasks);
    set(&mut output, "/house_rule", Some(deep));
    let found = issues(&evaluated(Phase::Tasks, &output, &samples()));
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with("is nested deeper than 64 levels; flatten it"), "{found:?}");
}

#[test]
fn many_faults_are_counted_and_not_all_listed() {
    let mut output = sample(Phase::Tasks);
    set(&mut output, "/tasks", Some(json!(vec![1; 400])));
    let error = shape(Phase::Tasks, &output.to_string()).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 21);
    assert!(error.ends_with("and 380 more"), "{error}");
}

#[test]
fn as_many_tasks_as_are_taken_are_evaluated_whatever_they_say_of_each_other() {
    let ids: Vec<String> = (0..500).map(|n| format!("TSK-{n:03}")).collect();
    let task = |at: usize| {
        json!({
            "id": ids[at], "title": "Change it", "description": "Change the one file there is",
            "parent_ticket": "TKT-001", "estimated_hours": 1, "files_to_modify": ["src/main.rs"],
            "acceptance_criteria": ["The file has been changed"], "dependencies": { "depends_on": ids[..at.min(60)] },
        })
    };
    let output = json!({
        "feature_name": "Everything at once",
        "tickets": [{ "id": "TKT-001", "title": "All", "description": "All of it", "tasks": ids }],
        "tasks": (0..500).map(task).collect::<Vec<_>>(),
    });
    let evaluation = evaluated(Phase::Tasks, &output, &BTreeMap::new());
    assert!(!evaluation.passed);
    assert_eq!(evaluation.findings.len(), 51);
    let last = evaluation.findings.last().unwrap();
    assert!(last.text.ends_with("more findings are not listed"), "{last:?}");
}

/// Steps for each byte of what is held against each other: as many as a list may have entries, and some.
const STEPS_PER_BYTE: u64 = 600;

/// Outputs that say little and ask for much, in about so many bytes. Each phase is held against those before it.
fn hostile(kind: usize, bytes: usize) -> (Phase, BTreeMap<Phase, Value>) {
    let mut outputs = samples();
    let phase = match kind {
        0 => {
            // One group that names the same task over and over, or one that there is not.
            let named = |id: &str| json!(vec![id; bytes / 2 / (id.len() + 3)]);
            let groups = json!([named("TSK-001"), named("x")]);
            set(
                outputs.get_mut(&Phase::Sync).unwrap(),
                "/dependency_analysis/parallel_opportunities",
                Some(groups),
            );
            Phase::Sync
        }
        1 => {
            // A long name that many short ones lead to.
            let long = "T".repeat(bytes / 2);
            let tasks: Vec<&str> = vec!["TSK-001"; 500];
            let tickets: Vec<Value> = (0..bytes / 2 / 500 / 10)
                .map(|n| json!({ "id": format!("TKT-{n:03}"), "title": "One", "description": "One", "tasks": tasks }))
                .collect();
            let tasks = outputs.get_mut(&Phase::Tasks).unwrap();
            set(tasks, "/tickets", Some(json!(tickets)));
            set(tasks, "/tasks/0/parent_ticket", Some(json!(long)));
            Phase::Tasks
        }
        2 => {
            // Every task addresses every requirement, and every row says so.
            let count = (bytes / 2 / 22).isqrt().min(400);
            let id = |n: usize| format!("REQ-CSV-FUNC-{n:03}");
            let ids: Vec<String> = (0..count).map(id).collect();
            let requirement = sample(Phase::Requirements)["requirements"][0].clone();
            let of = |n: usize| {
                let mut one = requirement.clone();
                one["id"] = json!(id(n));
                one
            };
            let requirements: Vec<Value> = (0..count).map(of).collect();
            set(outputs.get_mut(&Phase::Requirements).unwrap(), "/requirements", Some(json!(requirements)));
            let task = sample(Phase::Tasks)["tasks"][0].clone();
            let tasks: Vec<Value> = (0..count)
                .map(|n| {
                    let mut one = task.clone();
                    (one["id"], one["requirements_addressed"]) = (json!(format!("TSK-{n:03}")), json!(ids));
                    one
                })
                .collect();
            set(outputs.get_mut(&Phase::Tasks).unwrap(), "/tasks", Some(json!(tasks)));
            let row = |id: &String| json!({ "requirement_id": id, "covered_by_tasks": [], "status": "not_covered" });
            let rows: Vec<Value> = ids.iter().map(row).collect();
            set(outputs.get_mut(&Phase::Sync).unwrap(), "/coverage_matrix", Some(json!(rows)));
            Phase::Sync
        }
        _ => {
            // Components that nobody speaks of, and long talk.
            let component = |n: usize| json!({ "name": format!("nobody {n}"), "type": "x", "description": "x", "responsibility": "x" });
            let components: Vec<Value> = (0..400).map(component).collect();
            set(outputs.get_mut(&Phase::Design).unwrap(), "/components", Some(json!(components)));
            let talk = "nobod ".repeat(bytes / 6);
            set(outputs.get_mut(&Phase::Tasks).unwrap(), "/tasks/0/description", Some(json!(talk)));
            Phase::Tasks
        }
    };
    (phase, outputs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn whatever_an_output_says_the_work_grows_with_its_size_alone(kind in 0usize..4, bytes in 20_000usize..900_000) {
        let (phase, outputs) = hostile(kind, bytes);
        let size: usize = outputs.values().map(|output| output.to_string().len()).sum();
        prop_assert!(outputs.values().all(|output| output.to_string().len() <= OUTPUT_BYTES_MAX));
        let steps = work::taken(|| drop(evaluated(phase, &outputs[&phase], &outputs)));
        prop_assert!(steps <= STEPS_PER_BYTE * size as u64, "{steps} steps for {size} bytes of kind {kind}");
    }
}
