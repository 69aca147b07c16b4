//! Outputs that are too much: refused in little time and with few words.

use omoi_protocol::spec::{OUTPUT_BYTES_MAX, shape};
use serde_json::json;

use super::*;

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
