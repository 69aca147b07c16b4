//! A small real feature, and what becomes of it when one thing in it is wrong.

mod bound;
mod good;
mod refused;

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::spec::Phase;
use serde_json::Value;

use super::{Evaluation, Known, Severity, evaluate};

pub fn sample(phase: Phase) -> Value {
    let text = match phase {
        Phase::Explore => include_str!("sample/explore.json"),
        Phase::Prd => include_str!("sample/prd.json"),
        Phase::Requirements => include_str!("sample/requirements.json"),
        Phase::Design => include_str!("sample/design.json"),
        Phase::Tasks => include_str!("sample/tasks.json"),
        Phase::Sync => include_str!("sample/sync.json"),
    };
    serde_json::from_str(text).unwrap()
}

pub fn samples() -> BTreeMap<Phase, Value> {
    Phase::ALL.iter().map(|phase| (*phase, sample(*phase))).collect()
}

fn bugfix() -> Value {
    serde_json::from_str(include_str!("sample/bugfix.json")).unwrap()
}

/// What the repository of the sample holds.
fn files() -> BTreeSet<String> {
    ["Cargo.toml", "README.md", "src/ledger.rs", "src/main.rs", "src/report.rs", "tests/report.rs"]
        .map(str::to_owned)
        .into()
}

fn evaluated(phase: Phase, output: &Value, earlier: &BTreeMap<Phase, Value>) -> Evaluation {
    evaluate(phase, output, &Known { earlier, files: &files() })
}

/// Puts a value at a JSON pointer, or takes away what is there.
fn set(output: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (output.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {pointer}")), value) {
        (Value::Object(object), Some(value)) => drop(object.insert(key.to_owned(), value)),
        (Value::Object(object), None) => drop(object.remove(key).unwrap()),
        (Value::Array(items), Some(value)) if key == "-" => items.push(value),
        (Value::Array(items), Some(value)) => items[key.parse::<usize>().unwrap()] = value,
        (Value::Array(items), None) => drop(items.remove(key.parse().unwrap())),
        _ => panic!("nothing can be put at {pointer}"),
    }
}

/// The issues in the form `at text`.
fn issues(evaluation: &Evaluation) -> Vec<String> {
    let issues = evaluation.findings.iter().filter(|finding| finding.severity == Severity::Issue);
    issues.map(|finding| format!("{} {}", finding.at, finding.text)).collect()
}
