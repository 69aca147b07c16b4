//! What the agent is told of its phase: what the phase is for, what its output must hold, and where everything lies.

use std::{fmt::Write, path::Path};

use omoi_protocol::{
    SpecPhase,
    launch::{LaunchSpec, SpecLaunch},
    spec::outline,
};

use super::Files;

/// The part of the task that is about the phase.
pub fn section(launch: &LaunchSpec, spec: &SpecLaunch) -> String {
    let (phase, files) = (spec.phase, Files::of(launch));
    let mut text = format!(
        "# You work on the phase {phase} of a spec\n\n{} What is asked for above is built later, by others; change nothing in the repository.\n\n\
         Write one JSON object, and nothing around it, to {}. That file is what you are asked for, and is not part of the repository. It has these keys:\n\n{}\n\n\
         What it is judged by, without a model:\n",
        purpose(phase),
        files.output(phase.as_str()).display(),
        outline(phase),
    );
    for rule in rules(phase) {
        let _ = writeln!(text, "- {rule}");
    }
    if !spec.phase_context.is_empty() {
        text.push_str("\nWhat the phases before came to; read it, and build on it:\n");
        for earlier in spec.phase_context.keys() {
            let _ = writeln!(text, "- {}", files.output(earlier).display());
        }
    }
    if spec.previous.is_some() {
        let _ = writeln!(
            text,
            "\nWhat an attempt before this one handed in is in {}. Keep what is good of it.",
            files.previous(phase.as_str()).display()
        );
    }
    text.trim_end().to_owned()
}

/// Said of an output that cannot be taken.
pub fn wrong(output: &Path, wrong: &str) -> String {
    format!(
        "Your output in {} cannot be taken. Put this right in that file, and end again:\n{wrong}",
        output.display()
    )
}

fn purpose(phase: SpecPhase) -> &'static str {
    match phase {
        SpecPhase::Explore => {
            "You read the project and write up what somebody has to know of it to plan the feature."
        }
        SpecPhase::Prd => "You say what the feature is for, for whom, and where it ends.",
        SpecPhase::Requirements => {
            "You say what must be true when it is done, each thing by itself and so that it can be tested."
        }
        SpecPhase::Design => {
            "You say how it is built: which parts, in which files, and how they hang together."
        }
        SpecPhase::Tasks => {
            "You cut the work into tasks of one to four hours that others do, side by side where they can."
        }
        SpecPhase::Sync => {
            "You hold requirements, design and tasks against each other and say whether the work can begin."
        }
    }
}

fn rules(phase: SpecPhase) -> &'static [&'static str] {
    match phase {
        SpecPhase::Explore => &[
            "every path that is named is a file of the repository, from its root",
            "at least three key_files, each with what it is for",
            "discovery_questions in the categories Problem & Value, Users & Journeys, Scope & Boundaries, Technical Context, Trade-offs & Risks",
        ],
        SpecPhase::Prd => &[
            "user_stories have ids such as US-001 and acceptance_criteria that can be tested",
            "what is out of scope is named, and so are risks with their mitigation",
        ],
        SpecPhase::Requirements => &[
            "each id is REQ-FEATURE-CATEGORY-NNN with a category of FUNC, PERF, SEC, USE, REL, CON",
            "each text is in EARS form: WHEN or WHILE or WHERE or IF …, THE SYSTEM SHALL …",
            "each has at least two acceptance_criteria that a test can decide",
        ],
        SpecPhase::Design => &[
            "each component names its file_path: one that is there, or one that it says it creates",
            "names of components are not given twice, and dependencies name components",
        ],
        SpecPhase::Tasks => &[
            "ids are TSK-001 and TKT-001; every id that is named exists; no task waits for itself through others",
            "every task has a parent_ticket, one to four estimated_hours, files and acceptance_criteria",
            "every requirement and every component of the design is covered by a task",
            "two tasks that touch the same file are ordered by a dependency",
        ],
        SpecPhase::Sync => &[
            "what you say of coverage, order and ids is worked out again, and what differs fails",
            "ready_for_execution is true only with nothing in blockers",
        ],
    }
}

#[cfg(test)]
mod tests {
    use omoi_protocol::{
        ProviderKind, SandboxId,
        launch::{Door, SandboxToken},
    };

    use super::*;

    #[test]
    fn each_phase_names_its_file_its_keys_and_what_lies_before_it() {
        let door = Door::new("http://127.0.0.1:1", None);
        let launch =
            LaunchSpec::new(SandboxId::generate(), ProviderKind::Local, door, SandboxToken::new("hidden"));
        for phase in SpecPhase::ALL {
            let earlier = serde_json::json!({ "explore": {} });
            let spec = SpecLaunch {
                spec_id: "spec-1".parse().unwrap(),
                phase: *phase,
                title: "t".to_owned(),
                description: String::new(),
                phase_context: earlier.as_object().unwrap().clone(),
                previous: None,
            };
            let text = section(&launch, &spec);
            for part in [
                format!("/tmp/omoi-spec/{phase}.json"),
                "/tmp/omoi-spec/explore.json".to_owned(),
                outline(*phase),
            ] {
                assert!(text.contains(&part), "{part} is not in {text}");
            }
            assert!(!text.contains("hidden"));
        }
    }
}
