//! The course of a spec: which phases wait for a person, and what follows when one is judged. What an output is worth
//! is judged elsewhere (`domain::spec`).

use omoi_protocol::{SpecFlow, SpecPhase};
use serde_json::{Map, Value as Json};

use super::spec::Flow;

/// Attempts at a phase that nobody has to ask for.
pub const TRIES_MAX: i64 = 3;
/// What waits for a person where nobody says otherwise.
const GATES: &[SpecPhase] = &[SpecPhase::Requirements, SpecPhase::Design];

/// The phases of a flow, in their order.
pub const fn phases(flow: SpecFlow) -> &'static [SpecPhase] {
    match flow {
        SpecFlow::Full => Flow::Full.phases(),
        SpecFlow::Quick => Flow::Quick.phases(),
        SpecFlow::Bugfix => Flow::Bugfix.phases(),
    }
}

/// What follows an attempt at a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A person has to look at it.
    Gate,
    Phase(SpecPhase),
    /// There is no further phase: its tasks are made.
    Tasks,
    /// The same once more, with what was found.
    Again,
    GiveUp,
}

/// After an output that passed: the gate, or what lies behind it.
pub fn passed(phases: &[SpecPhase], phase: SpecPhase, gates: &[SpecPhase]) -> Next {
    if gates.contains(&phase) { Next::Gate } else { behind(phases, phase) }
}

/// What lies behind a phase.
pub fn behind(phases: &[SpecPhase], phase: SpecPhase) -> Next {
    let at = phases.iter().position(|one| *one == phase);
    at.and_then(|at| phases.get(at + 1)).map_or(Next::Tasks, |next| Next::Phase(*next))
}

pub fn failed(tries: i64) -> Next {
    if tries < TRIES_MAX { Next::Again } else { Next::GiveUp }
}

/// What the spec says, else its project's `settings.spec.gates`, else requirements and design.
pub fn gates(of_spec: Option<Vec<SpecPhase>>, project: Option<&Map<String, Json>>) -> Vec<SpecPhase> {
    of_spec.or_else(|| gates_of_project(project?)).unwrap_or_else(|| GATES.to_vec())
}

/// What a project itself says.
pub fn gates_of_project(settings: &Map<String, Json>) -> Option<Vec<SpecPhase>> {
    serde_json::from_value(asked(settings)?.clone()).ok()
}

/// Lets a project's settings say it, or say nothing, and nothing else change.
pub fn set_gates(settings: &mut Map<String, Json>, gates: Option<&[SpecPhase]>) {
    let spec = settings.entry("spec").or_insert_with(|| Json::Object(Map::new()));
    if !spec.is_object() {
        *spec = Json::Object(Map::new());
    }
    if let Json::Object(spec) = spec {
        match gates {
            Some(gates) => spec.insert("gates".to_owned(), serde_json::json!(gates)),
            None => spec.remove("gates"),
        };
    }
}

/// What is wrong with what a project's settings say of its specs, naming the field.
pub fn check(settings: &Map<String, Json>) -> Result<(), String> {
    match settings.get("spec") {
        None | Some(Json::Null | Json::Object(_)) => {}
        Some(other) => {
            return Err(format!(
                "settings.spec is {other}; it must be an object such as {{\"gates\": [\"design\"]}}"
            ));
        }
    }
    let Some(gates) = asked(settings) else { return Ok(()) };
    let read: Result<Vec<SpecPhase>, _> = serde_json::from_value(gates.clone());
    read.map(drop).map_err(|error| {
        format!(
            "settings.spec.gates must be a list of phases such as [\"requirements\", \"design\"]: {error}"
        )
    })
}

fn asked(settings: &Map<String, Json>) -> Option<&Json> {
    settings.get("spec")?.get("gates").filter(|gates| !gates.is_null())
}

#[cfg(test)]
mod tests {
    use omoi_protocol::SpecPhase::{Design, Explore, Requirements, Sync, Tasks};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_passes_goes_on_or_waits_and_what_fails_is_tried_three_times() {
        let quick = [Tasks, Sync];
        let table = [
            (passed(SpecPhase::ALL, Explore, GATES), Next::Phase(SpecPhase::Prd)),
            (passed(SpecPhase::ALL, Requirements, GATES), Next::Gate),
            (behind(SpecPhase::ALL, Requirements), Next::Phase(Design)),
            (passed(&quick, Tasks, GATES), Next::Phase(Sync)),
            (passed(&quick, Sync, GATES), Next::Tasks),
            (passed(&quick, Sync, &[Sync]), Next::Gate),
            (failed(1), Next::Again),
            (failed(2), Next::Again),
            (failed(3), Next::GiveUp),
        ];
        for (at, (next, expected)) in table.into_iter().enumerate() {
            assert_eq!(next, expected, "row {at}");
        }
    }

    #[test]
    fn the_spec_says_which_phases_wait_else_its_project_else_two_do() {
        let settings = |gates: Json| json!({ "spec": { "gates": gates } }).as_object().unwrap().clone();
        let none = settings(json!([]));
        assert_eq!(gates(None, None), GATES);
        assert_eq!(gates(None, Some(&none)), []);
        assert_eq!(gates(Some(vec![Sync]), Some(&none)), [Sync]);
        for (bad, words) in [
            (settings(json!(["desing"])), "settings.spec.gates"),
            (settings(json!(1)), "settings.spec.gates"),
        ] {
            assert!(check(&bad).unwrap_err().contains(words));
        }
        let no_object = json!({ "spec": 1 }).as_object().unwrap().clone();
        assert!(check(&no_object).unwrap_err().contains("settings.spec is 1"));
        assert_eq!(check(&none), Ok(()));
    }
}
