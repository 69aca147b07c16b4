//! Outputs with one thing wrong: each is refused, for that reason and no other.

use serde_json::json;

use super::*;

/// The phase, where something is changed, to what (or taken away), and the issues that follow.
type Case = (Phase, &'static str, Option<Value>, &'static [&'static str]);

#[test]
fn one_broken_rule_gives_exactly_its_issue() {
    let cases: Vec<Case> =
        [shapes(), explore_and_prd(), requirements_and_design(), tasks(), syncs()].concat();
    assert!(cases.len() >= 30);
    let outputs = samples();
    let mut wrong = Vec::new();
    for (phase, pointer, value, expected) in cases {
        let mut output = outputs[&phase].clone();
        set(&mut output, pointer, value.clone());
        let evaluation = evaluated(phase, &output, &outputs);
        let found = issues(&evaluation);
        if evaluation.passed || found != expected {
            wrong.push(format!("{phase} {pointer} {value:?}\n  found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn shapes() -> Vec<Case> {
    vec![
        (Phase::Explore, "/codebase_summary", None, &["$.codebase_summary is missing; expected a string"]),
        (
            Phase::Explore,
            "/key_files",
            Some(json!("src/main.rs")),
            &[r#"$.key_files is the string "src/main.rs"; expected a list of objects with path, purpose"#],
        ),
        (
            Phase::Prd,
            "/goals",
            Some(json!(null)),
            &["$.goals is null; expected an object with primary, success_metrics"],
        ),
        (
            Phase::Prd,
            "/user_stories/0/priority",
            Some(json!("urgent")),
            &[r#"$.user_stories[0].priority is "urgent"; expected one of must, should, could"#],
        ),
        (
            Phase::Requirements,
            "/requirements/1/acceptance_criteria/0",
            Some(json!(7)),
            &["$.requirements[1].acceptance_criteria[0] is the number 7; expected a string"],
        ),
        (
            Phase::Requirements,
            "/requirements/0/title",
            Some(json!("  ")),
            &["$.requirements[0].title is empty; expected a string that says something"],
        ),
        (
            Phase::Design,
            "/components/0",
            Some(json!("csv")),
            &[r#"$.components[0] is the string "csv"; expected an object with name, responsibility"#],
        ),
        (
            Phase::Tasks,
            "/tasks/1/dependencies",
            Some(json!(["TSK-001"])),
            &["$.tasks[1].dependencies is a list; expected an object with depends_on, blocks"],
        ),
        (
            Phase::Tasks,
            "/tasks/1/estimated_hours",
            Some(json!("3 h")),
            &[r#"$.tasks[1].estimated_hours is the string "3 h"; expected a number"#],
        ),
        (
            Phase::Tasks,
            "/tasks/0/acceptance_criteria/0",
            Some(json!("")),
            &["$.tasks[0].acceptance_criteria[0] is empty; write it or leave the item out"],
        ),
        (
            Phase::Tasks,
            "/tasks/0/description",
            Some(json!("a\0b")),
            &["$.tasks[0].description holds a NUL character; take it out"],
        ),
        (
            Phase::Tasks,
            "/tasks/0/house rule",
            Some(json!({ "a": ["\0"] })),
            &[r#"$.tasks[0]["house rule"].a[0] holds a NUL character; take it out"#],
        ),
        (
            Phase::Tasks,
            "/tickets/0/title",
            Some(json!("x".repeat(501))),
            &["$.tickets[0].title has more than 500 characters; shorten it"],
        ),
        (
            Phase::Tasks,
            "/critical_path",
            Some(json!(vec!["TSK-001"; 501])),
            &["$.critical_path has 501 items; at most 500 are taken"],
        ),
        (
            Phase::Sync,
            "/ready_for_execution",
            Some(json!("yes")),
            &[r#"$.ready_for_execution is the string "yes"; expected true or false"#],
        ),
    ]
}

fn explore_and_prd() -> Vec<Case> {
    vec![
        (
            Phase::Explore,
            "/key_files/0/path",
            Some(json!("app/main.rs")),
            &[r#"$.key_files[0].path "app/main.rs" is not in the repository; there is src/main.rs"#],
        ),
        (
            Phase::Explore,
            "/relevant_patterns/0/files/0",
            Some(json!("src/nowhere/")),
            &[r#"$.relevant_patterns[0].files[0] "src/nowhere/" is not in the repository"#],
        ),
        (
            Phase::Explore,
            "/existing_models/0/file",
            Some(json!("../etc/passwd")),
            &[r#"$.existing_models[0].file "../etc/passwd" is not in the repository"#],
        ),
        (
            Phase::Prd,
            "/user_stories",
            Some(json!([])),
            &["$.user_stories is empty; there is nothing to require or to build without a story"],
        ),
        (
            Phase::Prd,
            "/user_stories/0/id",
            Some(json!("STORY-1")),
            &[r#"$.user_stories[0].id "STORY-1" is no id such as US-001"#],
        ),
        (
            Phase::Prd,
            "/user_stories/1/id",
            Some(json!("US-001")),
            &["$.user_stories[1].id US-001 is given to more than one story"],
        ),
        (
            Phase::Prd,
            "/user_stories/0/acceptance_criteria",
            Some(json!([])),
            &["$.user_stories[0].acceptance_criteria has 0; at least 1 that can be tested are needed"],
        ),
        (
            Phase::Prd,
            "/scope/out_of_scope/0",
            Some(json!("Export of all entries")),
            &[
                r#"$.scope.out_of_scope[0] "Export of all entries" is both in scope and out of it; take one away"#,
            ],
        ),
    ]
}

fn requirements_and_design() -> Vec<Case> {
    const FORM: &str = "$.requirements[0].text has no SHALL; write it as \
        \"WHEN <something happens>, THE <system> SHALL <do something>\"";
    vec![
        (
            Phase::Requirements,
            "/requirements",
            Some(json!([])),
            &["$.requirements is empty; there is nothing to design or to test"],
        ),
        (Phase::Requirements, "/requirements/0/text", Some(json!("Export should be nice and fast")), &[FORM]),
        (
            Phase::Requirements,
            "/requirements/0/acceptance_criteria/0",
            None,
            &["$.requirements[0].acceptance_criteria has 1; at least 2 that can be tested are needed"],
        ),
        (
            Phase::Requirements,
            "/requirements/0/acceptance_criteria/0",
            Some(json!("It works")),
            &[
                r#"$.requirements[0].acceptance_criteria[0] "It works" cannot be tested; say what is done and what must be seen"#,
            ],
        ),
        (
            Phase::Requirements,
            "/requirements/0/acceptance_criteria/1",
            Some(json!("a ledger of 3  entries gives 4 lines")),
            &["$.requirements[0].acceptance_criteria[1] says the same as a criterion before it"],
        ),
        (
            Phase::Requirements,
            "/requirements/2/id",
            Some(json!("REQ-3")),
            &[
                r#"$.requirements[2].id "REQ-3" is no id such as REQ-FEATURE-FUNC-001 (FUNC, PERF, SEC, USE, REL, CON)"#,
            ],
        ),
        (
            Phase::Requirements,
            "/requirements/2/id",
            Some(json!("REQ-EXPORT-FUNC-002")),
            &["$.requirements[2].id REQ-EXPORT-FUNC-002 is given to more than one requirement"],
        ),
        (
            Phase::Requirements,
            "/requirements/1/dependencies/0",
            Some(json!("REQ-EXPORT-FUNC-009")),
            &["$.requirements[1].dependencies[0] REQ-EXPORT-FUNC-009 is no requirement of this output"],
        ),
        (
            Phase::Requirements,
            "/requirements/0/dependencies",
            Some(json!(["REQ-EXPORT-FUNC-002"])),
            &[
                "$.requirements depend on each other in a circle: REQ-EXPORT-FUNC-001 → REQ-EXPORT-FUNC-002 → REQ-EXPORT-FUNC-001",
            ],
        ),
        (
            Phase::Requirements,
            "/requirements/0/user_stories/0",
            Some(json!("US-099")),
            &["$.requirements[0].user_stories[0] US-099 is no story of the prd"],
        ),
        (
            Phase::Design,
            "/components",
            Some(json!([])),
            &["$.components is empty; a design without components gives no tasks"],
        ),
        (
            Phase::Design,
            "/components/1/action",
            None,
            &[
                r#"$.components[1].file_path "src/export.rs" is not in the repository; if it is to be made, say "action": "create""#,
            ],
        ),
        (
            Phase::Design,
            "/components/2/action",
            Some(json!("create")),
            &[r#"$.components[2].action "src/main.rs" is in the repository already; say "modify""#],
        ),
        (
            Phase::Design,
            "/components/1/name",
            Some(json!("csv writer")),
            &[r#"$.components[1].name "csv writer" is given to more than one component"#],
        ),
        (
            Phase::Design,
            "/components/0/file_path",
            Some(json!("/src/csv.rs")),
            &[
                r#"$.components[0].file_path "/src/csv.rs" is not a path from the root of the repository with `/` between its parts"#,
            ],
        ),
        (
            Phase::Design,
            "/components/0/requirements/0",
            Some(json!("REQ-EXPORT-SEC-001")),
            &["$.components[0].requirements[0] REQ-EXPORT-SEC-001 is no requirement of this spec"],
        ),
        (
            Phase::Design,
            "/api_endpoints/-",
            Some(json!({ "method": "FETCH", "path": "/x", "description": "Fetches" })),
            &[
                r#"$.api_endpoints[0].method "FETCH" is not one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"#,
            ],
        ),
    ]
}

fn tasks() -> Vec<Case> {
    vec![
        (Phase::Tasks, "/tasks", Some(json!([])), &["$.tasks is empty; there is nothing to do"]),
        (
            Phase::Tasks,
            "/tasks/0/estimated_hours",
            Some(json!(40)),
            &[
                "$.tasks[0].estimated_hours is 40; a task takes 1 to 4 hours, so split it or join it with another",
                "$.total_estimated_hours is 9, but the tasks add up to 47",
            ],
        ),
        (
            Phase::Tasks,
            "/total_estimated_hours",
            Some(json!(2)),
            &["$.total_estimated_hours is 2, but the tasks add up to 9"],
        ),
        (
            Phase::Tasks,
            "/tasks/4/dependencies/depends_on/0",
            Some(json!("TASK-2")),
            &[r#"$.tasks[4].dependencies.depends_on[0] "TASK-2" is no task of this output"#],
        ),
        (
            Phase::Tasks,
            "/tasks/0/dependencies/depends_on",
            Some(json!(["TSK-002"])),
            &[
                "$.tasks the tasks wait for each other in a circle: TSK-001 → TSK-002 → TSK-001; take one dependency away",
            ],
        ),
        (
            Phase::Tasks,
            "/tickets/0/dependencies/blocked_by",
            Some(json!(["TKT-002"])),
            &[
                "$.tickets the tickets wait for each other in a circle: TKT-001 → TKT-002 → TKT-001; take one dependency away",
            ],
        ),
        (
            Phase::Tasks,
            "/tickets/0/dependencies/blocks/0",
            Some(json!("TKT-009")),
            &[r#"$.tickets[0].dependencies.blocks[0] "TKT-009" is no ticket of this output"#],
        ),
        (
            Phase::Tasks,
            "/tickets/1/tasks/2",
            None,
            &["$.tasks[4].parent_ticket TKT-002 does not list TSK-005 among its tasks"],
        ),
        (
            Phase::Tasks,
            "/tickets/0/tasks/-",
            Some(json!("TSK-003")),
            &["$.tickets[0].tasks[2] TSK-003 belongs to TKT-002"],
        ),
        (
            Phase::Tasks,
            "/tasks/4/parent_ticket",
            Some(json!("TKT-007")),
            &[
                r#"$.tasks[4].parent_ticket "TKT-007" is no ticket of this output"#,
                "$.tickets[1].tasks[2] TSK-005 belongs to TKT-007",
            ],
        ),
        (
            Phase::Tasks,
            "/tasks/0/requirements_addressed/0",
            Some(json!("REQ-EXPORT-FUNC-001")),
            &["$.tasks no task addresses REQ-EXPORT-FUNC-002 (Quote fields)"],
        ),
        (
            Phase::Tasks,
            "/tasks/4/requirements_addressed/0",
            Some(json!("REQ-EXPORT-FUNC-777")),
            &[r#"$.tasks[4].requirements_addressed[0] "REQ-EXPORT-FUNC-777" is no requirement of this spec"#],
        ),
        (
            Phase::Tasks,
            "/tasks/2/files_to_modify/0",
            Some(json!("src/ledger.rs")),
            &[r#"$.tasks component "Program" src/main.rs: no task makes or modifies its file"#],
        ),
        (
            Phase::Tasks,
            "/tasks/4/files_to_modify/0",
            Some(json!("docs/README.md")),
            &[
                r#"$.tasks[4].files_to_modify[0] "docs/README.md" is not in the repository and no task makes it; there is README.md"#,
            ],
        ),
        (
            Phase::Tasks,
            "/tasks/4/files_to_create",
            Some(json!(["src/report.rs"])),
            &[
                r#"$.tasks[4].files_to_create[0] "src/report.rs" is in the repository already; put it under files_to_modify"#,
            ],
        ),
        (
            Phase::Tasks,
            "/tasks/4/files_to_create",
            Some(json!(["src/*.rs"])),
            &[
                r#"$.tasks[4].files_to_create[0] "src/*.rs" is a pattern or has blanks around it; name each file by itself"#,
            ],
        ),
        (
            Phase::Tasks,
            "/tasks/4/files_to_modify/-",
            Some(json!("src/main.rs")),
            &["$.tasks[4] TSK-003 and TSK-005 both change src/main.rs; let one depend on the other"],
        ),
        (
            Phase::Tasks,
            "/tasks/4/files_to_create",
            Some(json!(["src/csv.rs"])),
            &["$.tasks[4] TSK-001 and TSK-005 both make src/csv.rs; let one make it and the other modify it"],
        ),
        (
            Phase::Tasks,
            "/tasks/0/files_to_modify",
            Some(json!(["tests/export.rs"])),
            &[
                "$.tasks[3] TSK-001 and TSK-004 change tests/export.rs in the wrong order; whoever makes it comes first",
            ],
        ),
        (
            Phase::Tasks,
            "/tickets/-",
            Some(json!({ "id": "TKT-003", "title": "Later", "description": "Nothing yet", "tasks": [] })),
            &["$.tickets[2].tasks TKT-003 has no task that does it"],
        ),
        (
            Phase::Tasks,
            "/critical_path/0",
            Some(json!("TSK-500")),
            &[r#"$.critical_path[0] "TSK-500" is no task of this output"#],
        ),
    ]
}

fn syncs() -> Vec<Case> {
    vec![
        (
            Phase::Sync,
            "/validation_results/all_ids_valid",
            Some(json!(false)),
            &["$.validation_results.all_ids_valid says false, but nothing is found that is wrong"],
        ),
        (
            Phase::Sync,
            "/coverage_matrix/1/covered_by_tasks",
            Some(json!(["TSK-001", "TSK-099"])),
            &[
                "$.coverage_matrix[1].covered_by_tasks says TSK-001, TSK-099, but REQ-EXPORT-FUNC-002 is named by TSK-001",
            ],
        ),
        (
            Phase::Sync,
            "/coverage_matrix/0/status",
            Some(json!("not_covered")),
            &["$.coverage_matrix[0].status says not_covered, but REQ-EXPORT-FUNC-001 is fully_covered"],
        ),
        (Phase::Sync, "/coverage_matrix/2", None, &["$.coverage_matrix has no row for REQ-EXPORT-REL-001"]),
        (
            Phase::Sync,
            "/traceability_stats/tasks",
            Some(json!(12)),
            &["$.traceability_stats.tasks says 12, but there are 5 tasks"],
        ),
        (
            Phase::Sync,
            "/dependency_analysis/critical_path",
            Some(json!(["TSK-001", "TSK-003"])),
            &["$.dependency_analysis.critical_path is not the longest chain of dependent tasks; \
               the longest chain is TSK-001, TSK-002, TSK-003, TSK-004 with 8 hours"],
        ),
        (
            Phase::Sync,
            "/dependency_analysis/critical_path_hours",
            Some(json!(3)),
            &["$.dependency_analysis.critical_path_hours says 3, but \
               the longest chain is TSK-001, TSK-002, TSK-003, TSK-004 with 8 hours"],
        ),
        (
            Phase::Sync,
            "/dependency_analysis/parallel_opportunities/0",
            Some(json!(["TSK-001", "TSK-004"])),
            &[
                "$.dependency_analysis.parallel_opportunities[0] TSK-004 waits for TSK-001, so they cannot run at once",
            ],
        ),
        (
            Phase::Sync,
            "/spec_summary/requirement_coverage_percent",
            Some(json!(60)),
            &[
                "$.spec_summary.requirement_coverage_percent says 60, but 3 of 3 requirements are covered, which is 100",
            ],
        ),
        (
            Phase::Sync,
            "/ready_for_execution",
            Some(json!(false)),
            &["$.ready_for_execution says false, but no blocker is named and nothing is found that is wrong"],
        ),
        (
            Phase::Sync,
            "/blockers",
            Some(json!(["No key"])),
            &["$.ready_for_execution says true, but blockers are named; clear them or say false"],
        ),
    ]
}

#[test]
fn readiness_with_nothing_behind_it_is_refused() {
    let sync = sample(Phase::Sync);
    let evaluation = evaluated(Phase::Sync, &sync, &BTreeMap::new());
    assert_eq!(issues(&evaluation), ["$ there are no tasks behind it; the tasks phase has to stand first"]);
    assert_eq!((evaluation.passed, evaluation.score), (false, 0.0));

    let lies: [(Phase, &str, Value, &[&str]); 4] = [
        (
            Phase::Tasks,
            "/tasks/0/requirements_addressed",
            json!([]),
            &["all_requirements_covered says true, but no task addresses REQ-EXPORT-FUNC-002"],
        ),
        (
            Phase::Tasks,
            "/tasks/2/files_to_modify",
            json!([]),
            &[r#"all_design_components_have_tasks says true, but no task covers component "Program""#],
        ),
        (
            Phase::Tasks,
            "/tasks/0/dependencies/depends_on",
            json!(["TSK-004"]),
            &[
                "dependency_order_valid says true, but the tasks wait",
                "no_circular_dependencies says true, but the tasks",
            ],
        ),
        (
            Phase::Tasks,
            "/tasks/4/parent_ticket",
            json!("TKT-099"),
            &[r#"all_ids_valid says true, but "TKT-099" is no ticket"#],
        ),
    ];
    for (phase, pointer, value, reasons) in lies {
        let mut outputs = samples();
        set(outputs.get_mut(&phase).unwrap(), pointer, Some(value));
        let evaluation = evaluated(Phase::Sync, &sync, &outputs);
        let found = issues(&evaluation);
        assert!(!evaluation.passed);
        for reason in reasons {
            let told = |issue: &&String| issue.starts_with(&format!("$.validation_results.{reason}"));
            assert!(found.iter().any(|issue| told(&issue)), "{pointer}: {found:#?}");
        }
        assert!(
            found.iter().any(|issue| issue.starts_with("$.ready_for_execution says true, but")),
            "{found:#?}"
        );
    }
}

#[test]
fn a_bug_that_is_not_guarded_is_refused() {
    let cases: [(&str, Value, &str); 5] = [
        ("/bugfix/reproduce/steps", json!([]), "$.bugfix.reproduce.steps is empty; say how to see the bug"),
        (
            "/bugfix/reproduce/observed",
            json!("January comes first"),
            "$.bugfix.reproduce observed and expected are the same, so nothing is wrong",
        ),
        (
            "/bugfix/cause/file",
            json!("src/x.rs"),
            r#"$.bugfix.cause.file "src/x.rs" is not in the repository"#,
        ),
        ("/bugfix/fix/0", json!("TSK-009"), r#"$.bugfix.fix[0] "TSK-009" is no task of this output"#),
        (
            "/bugfix/guard/test",
            json!("tests/other.rs"),
            r#"$.bugfix.guard.test none of the guard's tasks makes or modifies "tests/other.rs""#,
        ),
    ];
    for (pointer, value, expected) in cases {
        let mut output = bugfix();
        set(&mut output, pointer, Some(value));
        assert_eq!(issues(&evaluated(Phase::Tasks, &output, &BTreeMap::new())), [expected]);
    }
}
