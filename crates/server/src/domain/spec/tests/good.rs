//! Outputs as they should be.

use serde_json::json;

use super::*;
use crate::domain::spec::{
    Coverage, Flow, PlanError, Proof, ProofCheck, THRESHOLD, coverage, plan, proven_percent, render,
};

#[test]
fn every_phase_of_a_small_feature_passes() {
    let outputs = samples();
    for (phase, output) in &outputs {
        let evaluation = evaluated(*phase, output, &outputs);
        assert!(evaluation.passed, "{phase}: {evaluation:#?}");
        assert!(evaluation.findings.is_empty(), "{phase}: {evaluation:#?}");
        let least = if *phase == Phase::Design { 0.85 } else { 1.0 };
        assert!(evaluation.score >= least, "{phase}: {}", evaluation.score);
    }
}

#[test]
fn the_same_output_always_gets_the_same() {
    let outputs = samples();
    for (phase, output) in &outputs {
        let again: Value = serde_json::from_str(&output.to_string()).unwrap();
        assert_eq!(evaluated(*phase, output, &outputs), evaluated(*phase, &again, &outputs));
    }
}

#[test]
fn a_bare_output_scores_too_low_to_pass() {
    let bare = json!({
        "feature_name": "CSV export",
        "architecture_overview": "A command.",
        "components": [{ "name": "Program", "file_path": "src/main.rs", "responsibility": "Everything" }],
        "testing_strategy": {},
    });
    let evaluation = evaluated(Phase::Design, &bare, &samples());
    assert_eq!(issues(&evaluation), [""; 0]);
    assert!(!evaluation.passed && evaluation.score < THRESHOLD, "{evaluation:?}");
    let lenient = crate::domain::spec::evaluate_at(
        0.1,
        Phase::Design,
        &bare,
        &Known { earlier: &samples(), files: &files() },
    );
    assert!(lenient.passed);
}

#[test]
fn a_plan_has_every_dependency_resolved_and_a_footprint() {
    let plan = plan(&samples()).unwrap();
    let depends_on: Vec<(&str, Vec<&str>)> = plan
        .tasks
        .iter()
        .map(|task| (task.key.as_str(), task.depends_on.iter().map(String::as_str).collect()))
        .collect();
    let expected = [
        ("TSK-001", vec![]),
        ("TSK-002", vec!["TSK-001"]),
        ("TSK-003", vec!["TSK-002"]),
        ("TSK-005", vec!["TSK-002"]),
        ("TSK-004", vec!["TSK-003"]),
    ];
    assert_eq!(depends_on, expected);
    let task = plan.tasks[1].to_batch();
    assert_eq!(task.owned_files, ["src/export.rs"]);
    assert_eq!(task.execution_config["estimated_seconds"], 10_800);
    assert!(task.description.contains("- A ledger of 3 entries gives 4 lines"));
    assert!(task.description.ends_with("Requirements: REQ-EXPORT-FUNC-001, REQ-EXPORT-REL-001"));
    assert_eq!(plan.tickets.len(), 2);
}

#[test]
fn tasks_of_a_blocked_ticket_wait_for_those_of_the_ticket_that_blocks_it() {
    let mut outputs = samples();
    let tasks = outputs.get_mut(&Phase::Tasks).unwrap();
    set(tasks, "/tasks/2/dependencies/depends_on", Some(json!([])));
    set(tasks, "/tasks/4/dependencies/depends_on", Some(json!([])));
    let plan = plan(&outputs).unwrap();
    let of = |key: &str| plan.tasks.iter().find(|task| task.key == key).unwrap().depends_on.clone();
    assert_eq!((of("TSK-003"), of("TSK-005")), (vec!["TSK-002".to_owned()], vec!["TSK-002".to_owned()]));
}

#[test]
fn nothing_is_planned_that_cannot_be_done() {
    let broken = |pointer: &str, value: Value| {
        let mut outputs = samples();
        set(outputs.get_mut(&Phase::Tasks).unwrap(), pointer, Some(value));
        plan(&outputs).unwrap_err()
    };
    let error = broken("/tasks/0/dependencies/depends_on", json!(["TSK-004"]));
    assert!(matches!(error, PlanError::Cycle(_)), "{error}");
    let error = broken("/tasks/0/dependencies/depends_on", json!(["TSK-099"]));
    assert_eq!(
        error.to_string(),
        r#"$.tasks[0].dependencies.depends_on[0] "TSK-099" is no task of this output"#
    );
    let error = broken("/tasks/4/files_to_modify", json!(["src/main.rs"]));
    assert!(matches!(error, PlanError::Order(_)), "{error}");
    assert_eq!(plan(&BTreeMap::new()), Err(PlanError::NoTasks));
}

#[test]
fn coverage_goes_from_requirement_to_check() {
    let outputs = samples();
    let proof = |passed| {
        let checks = vec![ProofCheck { name: "test".to_owned(), passed }];
        Some(Proof { commit: Some("4f2c9d1e".to_owned()), checks })
    };
    let statuses = |done: &dyn Fn(&str) -> Option<Proof>| -> Vec<Coverage> {
        coverage(&outputs, done).into_iter().map(|row| row.status).collect()
    };
    assert_eq!(statuses(&|_| None), [Coverage::Planned; 3]);
    assert_eq!(
        statuses(&|key| proof(true).filter(|_| matches!(key, "TSK-001" | "TSK-002"))),
        [Coverage::Begun, Coverage::Proven, Coverage::Begun]
    );
    assert_eq!(statuses(&|_| proof(false)), [Coverage::Done; 3]);
    assert_eq!(statuses(&|_| Some(Proof { commit: None, checks: vec![] })), [Coverage::Done; 3]);
    let rows = coverage(&outputs, &|_| proof(true));
    assert_eq!(proven_percent(&rows), 100);
    assert_eq!(
        rows[2].tasks.iter().map(|task| task.key.as_str()).collect::<Vec<_>>(),
        ["TSK-002", "TSK-004"]
    );
}

#[test]
fn a_spec_without_requirements_is_covered_by_its_tickets() {
    let outputs = BTreeMap::from([(Phase::Tasks, bugfix())]);
    let rows = coverage(&outputs, &|_| None);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].requirement.as_str(), rows[0].tasks.len()), ("TKT-001", 2));
    assert_eq!(proven_percent(&[]), 0);
}

#[test]
fn a_bug_is_shown_traced_mended_and_guarded() {
    let (none, files) = (BTreeMap::new(), files());
    let known = Known { earlier: &none, files: &files };
    let evaluation = Flow::Bugfix.evaluate(THRESHOLD, Phase::Tasks, &bugfix(), &known);
    assert!(evaluation.passed, "{evaluation:#?}");
    let mut plain = bugfix();
    set(&mut plain, "/bugfix", None);
    assert!(Flow::Quick.evaluate(THRESHOLD, Phase::Tasks, &plain, &known).passed);
    let evaluation = Flow::Bugfix.evaluate(THRESHOLD, Phase::Tasks, &plain, &known);
    assert_eq!(
        issues(&evaluation),
        ["$.bugfix is missing; expected an object with reproduce, cause, fix, guard"]
    );
    assert!(!evaluation.passed);
    let evaluation = Flow::Full.evaluate(THRESHOLD, Phase::Prd, &sample(Phase::Prd), &known);
    assert_eq!(issues(&evaluation), ["$ the explore phase has to stand before the prd phase"]);
    let evaluation = Flow::Quick.evaluate(THRESHOLD, Phase::Prd, &sample(Phase::Prd), &known);
    assert_eq!(issues(&evaluation), ["$ a quick spec has no prd phase"]);
}

#[test]
fn everything_in_an_output_is_shown() {
    let bug = (Phase::Tasks, bugfix());
    for (phase, mut output) in samples().into_iter().chain([bug]) {
        let mut count = 0;
        add_rules(&mut output, &mut count);
        let shown = render(phase, &output);
        let mut texts = Vec::new();
        collect(&output, &mut texts);
        assert!(count > 0);
        for text in texts {
            assert!(shown.contains(&text), "{phase} does not show {text:?}:\n{shown}");
        }
        assert!(render(phase, &json!({ "odd": [1] })).contains('1'), "{phase}");
        assert!(
            render(phase, &json!({ "feature_name": 7, "odd": "kept" })).contains("- **Odd:** kept"),
            "{phase}"
        );
    }
}

#[test]
fn a_requirement_reads_well() {
    let mut output = sample(Phase::Requirements);
    set(&mut output, "/requirements/2", None);
    set(&mut output, "/requirements/0", None);
    let expected = "\
# Requirements: CSV export

## REQ-EXPORT-FUNC-002 Quote fields

> IF a field holds a comma, a quote or a line break, THEN THE exporter SHALL quote it as RFC 4180 says.

- **Category:** FUNC
- **Priority:** high
- **Acceptance criteria:**
  - A text with a comma is put in quotes
  - A quote within a text is doubled
- **Depends on:** REQ-EXPORT-FUNC-001
- **From:** US-001
- **Type:** functional

## Assumptions

- A ledger fits into memory

## Out of scope

- import of CSV

## Traceability

- **Prd sections:**
  - user_stories
";
    assert_eq!(render(Phase::Requirements, &output), expected);
}

/// A key that no form knows in every object.
fn add_rules(value: &mut Value, count: &mut usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add_rules(item, count)),
        Value::Object(object) => {
            object.values_mut().for_each(|value| add_rules(value, count));
            *count += 1;
            object.insert("house_rule".to_owned(), format!("rule {count}.").into());
        }
        _ => {}
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(object) => object.values().for_each(|value| collect(value, texts)),
        _ => {}
    }
}
