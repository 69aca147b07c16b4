//! `omoi supervise`: recorded runs, replayed without a server.

use std::path::Path;

use serde_json::json;

use crate::program::{Dir, run};

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/runs");

fn recorded(name: &str) -> String {
    Path::new(RUNS).join(format!("{name}.jsonl")).display().to_string()
}

#[test]
fn a_recorded_run_is_replayed_with_what_would_have_been_done() {
    let dir = Dir::new();
    let told = run(&dir, &["supervise", "replay", &recorded("same-command"), "--json"]).json();
    let one = &told["runs"][0];
    assert_eq!(
        (&one["run"], &one["findings"][0]["kind"]),
        (&json!("same-command"), &json!("repeated_action"))
    );
    assert_eq!((&one["actions"][0]["do"], &one["actions"][0]["mode"]), (&json!("nudge"), &json!("suggest")));
    assert!(told.get("score").is_none());
    let people = run(&dir, &["supervise", "replay", &recorded("same-command")]).ok();
    assert!(people.contains("suggest nudge") && people.contains("grep -n discount"), "{people}");

    dir.write("on.yaml", "steering: on\nrules: [{ on: repeated_action, do: terminate }]\n");
    let told =
        run(&dir, &["supervise", "replay", &recorded("same-command"), "--policy", "on.yaml", "--json"])
            .json();
    let action = &told["runs"][0]["actions"][0];
    assert_eq!((&action["do"], &action["mode"]), (&json!("terminate"), &json!("act")));
}

#[test]
fn findings_are_scored_against_labels() {
    let dir = Dir::new();
    let (bad, good) = (recorded("flip-flop"), recorded("second-thoughts"));
    let told = run(&dir, &["supervise", "replay", &bad, &good, "--labels", RUNS, "--json"]).json();
    let undo = &told["score"]["kinds"]["edit_undo"];
    assert_eq!((&undo["precision"], &undo["recall"]), (&json!(1.0), &json!(1.0)), "{undo}");
    assert_eq!(told["score"]["quiet_runs"], 1);

    dir.write("labels.yaml", "runs: { second-thoughts: [{ kind: edit_undo, from: agent.file_edited }] }\n");
    let said = run(&dir, &["supervise", "replay", &bad, &good, "--labels", "labels.yaml"]);
    assert!(said.stderr.contains("nobody has judged flip-flop"), "{said:?}");
    assert!(said.stdout.contains("missed in second-thoughts: edit_undo"), "{said:?}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let dir = Dir::new();
    dir.write("x.json", "{}");
    dir.write("p.yaml", "thresholds: { no_progress: { quiet: soon } }\n");
    let run_file = recorded("flip-flop");
    for (args, code, text) in [
        (vec!["x.json"], 2, "x.json is no recorded run"),
        (vec!["nothing/there.jsonl"], 3, "neither a file nor the id of a sandbox"),
        (vec![run_file.as_str(), "--policy", "p.yaml"], 2, "line 1"),
        (vec![run_file.as_str(), "--policy", "none.yaml"], 2, "none.yaml"),
        (vec![run_file.as_str(), "--labels", "none.yaml"], 2, "none.yaml"),
        (vec!["sbx-1"], 4, "no token"),
    ] {
        let args: Vec<&str> = ["supervise", "replay"].into_iter().chain(args).collect();
        let said = run(&dir, &args);
        assert!(said.code == code && said.stderr.contains(text), "{args:?}: {said:?}");
    }
}

#[test]
fn the_default_policy_can_be_printed_and_used() {
    let dir = Dir::new();
    let policy = run(&dir, &["supervise", "policy"]).ok();
    dir.write("own.yaml", &policy);
    let told =
        run(&dir, &["supervise", "replay", &recorded("force-push"), "--policy", "own.yaml", "--json"]).json();
    assert_eq!(told["runs"][0]["findings"][0]["kind"], "forbidden_command");

    let policy = run(&dir, &["supervise", "policy", "--json"]).json();
    dir.write("own.json", &policy.to_string());
    let again =
        run(&dir, &["supervise", "replay", &recorded("force-push"), "--policy", "own.json", "--json"]).json();
    assert_eq!(again["runs"], told["runs"]);
}
