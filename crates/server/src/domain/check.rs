//! Declared checks: what must pass on a task's commit before the task is completed, and what a run of them proves. Who runs
//! them, and where, is up to others.

use std::collections::BTreeSet;

use omoi_protocol::{
    FailureKind, Stage, event::OUTPUT_PREVIEW_CHARS_MAX, launch::Check, outcome::CheckResult,
};
use serde_json::{Map, Value as Json};

const CHECKS_MAX: usize = 20;
const NAME_CHARS_MAX: usize = 100;
const COMMAND_BYTES_MAX: usize = 20_000;
const SECONDS_MAX: u64 = 86_400;
/// Of what failed, as much as the next attempt is told.
const FEEDBACK_CHARS_MAX: usize = 20_000;

/// The task's own list, else its ticket's, else its project's. An empty one declares that there are none. What cannot be
/// read was refused when it was set, and counts for nothing.
pub fn declared(
    project: &Map<String, Json>,
    ticket: Option<Vec<Check>>,
    task: &Map<String, Json>,
) -> Vec<Check> {
    let listed = |settings| asked(settings).and_then(|list| serde_json::from_value(list.clone()).ok());
    listed(task).or(ticket).or_else(|| listed(project)).unwrap_or_default()
}

/// What is wrong with the checks in a project's or task's settings, naming the field.
pub fn check(of: &str, settings: &Map<String, Json>) -> Result<(), String> {
    let Some(list) = asked(settings) else { return Ok(()) };
    let checks: Vec<Check> = serde_json::from_value(list.clone()).map_err(|error| {
        format!(
            "{of}.checks must be a list such as [{{\"name\": \"tests\", \"command\": \"make test\"}}]: {error}"
        )
    })?;
    check_list(&format!("{of}.checks"), &checks)
}

pub fn check_list(field: &str, checks: &[Check]) -> Result<(), String> {
    if checks.len() > CHECKS_MAX {
        return Err(format!("{field} has {} entries; {CHECKS_MAX} are allowed", checks.len()));
    }
    let mut names = BTreeSet::new();
    for Check { name, command, timeout_seconds } in checks {
        let chars = name.chars().count();
        if name.trim().is_empty() || chars > NAME_CHARS_MAX || name.chars().any(char::is_control) {
            return Err(format!("{field}: {name:?} is no name of 1 to {NAME_CHARS_MAX} plain characters"));
        }
        if !names.insert(name) {
            return Err(format!("{field}: two checks are called {name:?}"));
        }
        if command.trim().is_empty() || command.len() > COMMAND_BYTES_MAX || command.contains('\0') {
            return Err(format!(
                "{field}: the command of {name:?} must be a shell command of at most {COMMAND_BYTES_MAX} bytes"
            ));
        }
        if !(1..=SECONDS_MAX).contains(timeout_seconds) {
            return Err(format!(
                "{field}: timeout_seconds of {name:?} is {timeout_seconds}; it must be from 1 to {SECONDS_MAX}"
            ));
        }
    }
    Ok(())
}

/// What a run has to show for each declared check, in their order. Whatever was not declared proves nothing.
pub fn results(declared: &[Check], reported: &[CheckResult]) -> Vec<CheckResult> {
    let of = |check: &Check| {
        let result = reported.iter().find(|result| result.name == check.name)?;
        Some(CheckResult {
            command: check.command.clone(),
            passed: result.passed && result.exit_code == Some(0),
            output_preview: end_of(&result.output_preview, OUTPUT_PREVIEW_CHARS_MAX),
            output_blob: None,
            ..result.clone()
        })
    };
    declared.iter().filter_map(of).collect()
}

/// Whether each declared check has passed; if not, what is missing.
pub fn prove(declared: &[Check], results: &[CheckResult]) -> Result<(), String> {
    let has_passed = |check: &&Check| results.iter().any(|result| result.name == check.name && result.passed);
    let missing: Vec<&str> =
        declared.iter().filter(|check| !has_passed(check)).map(|check| check.name.as_str()).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("not shown to pass: {}", missing.join(", "))) }
}

/// Where a task goes on after a failure: one whose checks have failed is worked on again; a failure of their sandbox says
/// nothing of the work.
pub fn stage_after(stage: Stage, kind: FailureKind) -> Stage {
    match kind {
        FailureKind::Checks => Stage::Work,
        FailureKind::Agent
        | FailureKind::Lost
        | FailureKind::Crashed
        | FailureKind::ShutDown
        | FailureKind::OutOfMemory
        | FailureKind::TimedOut
        | FailureKind::Spawn
        | FailureKind::Unavailable
        | FailureKind::Limit
        | FailureKind::Invalid => stage,
    }
}

/// What the next attempt is told of the failed ones.
pub fn feedback(error: &str) -> String {
    end_of(error, FEEDBACK_CHARS_MAX)
}

fn end_of(text: &str, chars_max: usize) -> String {
    let chars = text.chars().count();
    text.chars().skip(chars.saturating_sub(chars_max)).collect()
}

fn asked(settings: &Map<String, Json>) -> Option<&Json> {
    settings.get("checks").filter(|list| !list.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Json) -> Map<String, Json> {
        value.as_object().unwrap().clone()
    }

    fn check_named(name: &str) -> Check {
        Check { name: name.to_owned(), command: "true".to_owned(), timeout_seconds: 1_800 }
    }

    fn result(name: &str, passed: bool, exit_code: Option<i32>) -> CheckResult {
        CheckResult {
            name: name.to_owned(),
            command: "what the worker says it ran".to_owned(),
            exit_code,
            passed,
            duration_ms: Some(1),
            output_preview: String::new(),
            output_blob: None,
            sandbox_id: None,
        }
    }

    #[test]
    fn the_nearest_list_counts_whole() {
        let list = |name: &str| json!({ "checks": [{ "name": name, "command": "true" }] });
        let none = || json!({});
        for (project, ticket, task, names) in [
            (none(), None, none(), vec![]),
            (list("p"), None, none(), vec!["p"]),
            (list("p"), Some(vec![check_named("k")]), none(), vec!["k"]),
            (list("p"), Some(vec![check_named("k")]), list("t"), vec!["t"]),
            (list("p"), None, json!({ "checks": null }), vec!["p"]),
            (list("p"), None, json!({ "checks": [] }), vec![]),
            (list("p"), Some(vec![]), none(), vec![]),
            (json!({ "checks": "make test" }), None, none(), vec![]),
        ] {
            let found = declared(&of(project), ticket, &of(task));
            let found: Vec<&str> = found.iter().map(|check| check.name.as_str()).collect();
            assert_eq!(found, names);
        }
    }

    #[test]
    fn a_list_that_cannot_be_run_is_refused_with_its_field() {
        let one = |name: &str, command: &str| json!([{ "name": name, "command": command }]);
        let many: Vec<Json> = (0..21).map(|n| json!({ "name": n.to_string(), "command": "true" })).collect();
        for (list, fine) in [
            (json!(null), true),
            (json!([]), true),
            (one("tests", "make test"), true),
            (json!([{ "name": "a", "command": "true", "timeout_seconds": 60 }]), true),
            (json!("make test"), false),
            (one("", "true"), false),
            (one("a\nb", "true"), false),
            (one("a", " "), false),
            (one("a", "x\0"), false),
            (json!([{ "name": "a", "command": "true", "timeout_seconds": 0 }]), false),
            (json!([{ "name": "a", "command": "true", "shell": "zsh" }]), false),
            (json!([{ "name": "a", "command": "1" }, { "name": "a", "command": "2" }]), false),
            (json!(many), false),
        ] {
            let checked = check("settings", &of(json!({ "checks": list })));
            assert_eq!(checked.is_ok(), fine, "{list}: {checked:?}");
            assert!(checked.err().is_none_or(|why| why.starts_with("settings.checks")), "{list}");
        }
    }

    #[test]
    fn only_a_declared_check_that_ended_with_zero_proves_anything() {
        let declared = [check_named("a"), check_named("b")];
        let passed = |name| result(name, true, Some(0));
        for (reported, proven) in [
            (vec![passed("a"), passed("b")], true),
            (vec![passed("b"), passed("other"), passed("a")], true),
            (vec![], false),
            (vec![passed("a")], false),
            (vec![passed("a"), result("b", false, Some(1))], false),
            (vec![passed("a"), result("b", true, Some(1))], false),
            (vec![passed("a"), result("b", true, None)], false),
        ] {
            let results = results(&declared, &reported);
            assert_eq!(prove(&declared, &results).is_ok(), proven, "{reported:?}");
            assert!(
                results.iter().all(|result| result.command == "true"),
                "what was declared is what is told"
            );
        }
        assert_eq!(prove(&declared, &[passed("a")]), Err("not shown to pass: b".to_owned()));
    }

    #[test]
    fn failed_checks_alone_bring_the_work_back() {
        for kind in FailureKind::ALL {
            let expected = if *kind == FailureKind::Checks { Stage::Work } else { Stage::Check };
            assert_eq!(stage_after(Stage::Check, *kind), expected, "{kind}");
            assert_eq!(stage_after(Stage::Work, *kind), Stage::Work, "{kind}");
        }
    }
}
