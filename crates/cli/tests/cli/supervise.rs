//! `omoi supervise`: recorded runs, replayed without a server.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{Dir, run};

const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/runs");

fn recorded(name: &str) -> String {
    Path::new(RUNS).join(format!("{name}.jsonl")).display().to_string()
}

/// The directory of recordings of agents that Omoi did not drive. They are not part of this repository.
#[expect(clippy::disallowed_methods, reason = "the recordings are elsewhere on each machine")]
fn fixtures() -> Option<PathBuf> {
    std::env::var_os("OMOI_FIXTURES").map(PathBuf::from)
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
        (vec!["x.json"], 2, "x.json is not a recording in a known format"),
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

/// What the measure may not fall below, for every kind of finding and for all sources together.
const PRECISION_MIN: f64 = 0.95;
const RECALL_MIN: f64 = 0.95;
/// A test that goes while another comes may have been replaced by it, so a few of these are missed.
const RECALL_OF_WEAKENING_MIN: f64 = 0.9;
/// An agent has to be spoken to while there is still something to save: events from the beginning of a fault to its finding,
/// for nine faults of ten.
const DELAY_EVENTS_MAX: i64 = 180;

#[test]
fn the_rules_are_as_good_as_they_were_on_all_runs_there_are() {
    let dir = Dir::new();
    let mut weakening = Sum::default();
    for seed in ["1", "2", "3", "4", "5"] {
        let told = run(&dir, &["supervise", "measure", RUNS, "--seed", seed, "--json"]).json();
        let made = &told["sources"][1]["score"];
        assert_eq!((&made["runs"], &made["good_runs"]), (&json!(200), &json!(80)));
        assert_eq!(
            made["quiet_runs"], 80,
            "something was found in a good run: {:#}",
            told["sources"][1]["surplus"]
        );
        for (kind, figure) in told["all"]["kinds"].as_object().unwrap() {
            // The judge is a model; no rule is right or wrong about what it says.
            if kind == "misaligned" {
                continue;
            }
            let count = |key: &str| figure[key].as_u64().unwrap();
            let sum = Sum { labelled: count("labelled"), found: count("found"), wrong: count("wrong") };
            let in_time =
                figure["delay_events_p90"].as_i64().is_some_and(|events| events <= DELAY_EVENTS_MAX);
            assert!(sum.labelled >= 4 && in_time, "seed {seed}: {kind}: {figure:#}");
            if kind == "test_weakening" {
                weakening.add(&sum);
            } else {
                sum.assert_at_least(RECALL_MIN, &format!("seed {seed}: {kind}: {figure:#}"));
            }
        }
    }
    // Each seed misses up to two of 18 or finds one too many, so this kind alone is judged over all seeds.
    weakening.assert_at_least(RECALL_OF_WEAKENING_MIN, "test_weakening");
}

/// Runs with a kind of finding.
#[derive(Debug, Default)]
struct Sum {
    labelled: u64,
    found: u64,
    wrong: u64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.labelled += other.labelled;
        self.found += other.found;
        self.wrong += other.wrong;
    }

    #[track_caller]
    fn assert_at_least(&self, recall_min: f64, of: &str) {
        let precision = share(self.found, self.found + self.wrong);
        let recall = share(self.found, self.labelled);
        assert!(precision >= PRECISION_MIN && recall >= recall_min, "{self:?} {of}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs are small")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[test]
fn nothing_is_found_in_recordings_of_others_that_a_reader_would_call_false() {
    let Some(fixtures) = fixtures() else {
        eprintln!("skipped: OMOI_FIXTURES names no directory of recordings");
        return;
    };
    let dir = Dir::new();
    let mut read = 0;
    for name in ["claude-stream-json", "own-recordings"] {
        let recordings = fixtures.join(name).display().to_string();
        let told = run(&dir, &["supervise", "measure", &recordings, "--made", "0", "--json"]).json();
        let source = &told["sources"][0];
        assert_eq!(source["surplus"], json!([]), "{name}");
        // One file is a blank line, which its recorder left behind.
        let refused = source["refused"].as_array().unwrap();
        assert!(refused.iter().all(|why| why.as_str().unwrap().contains("edge-badjson")), "{refused:?}");
        let lines = &source["lines"];
        let count = |key: &str| lines[key].as_u64().unwrap();
        assert_eq!(count("read"), count("understood") + count("unknown") + count("broken"), "{lines}");
        assert_eq!(count("broken"), 0, "{lines}");
        assert!(count("unknown") * 100 < count("read"), "{lines}");
        read += count("read");
    }
    assert!(read > 1_000, "{read} lines");
}

#[test]
fn the_measure_is_printed_with_its_confusions_and_depends_on_its_seed_alone() {
    let dir = Dir::new();
    let measure = |seed: &str| run(&dir, &["supervise", "measure", "--made", "60", "--seed", seed]).ok();
    let text = measure("7");
    for part in ["precision", "recall", "delay events", "lead events", "expected \\ reported", "none"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text, measure("7"));
    assert_ne!(text, measure("8"));
    // Rules that find nothing are seen.
    dir.write("deaf.yaml", "thresholds: { repeated_action: { times: 21 } }\n");
    let told = run(&dir, &["supervise", "measure", "--policy", "deaf.yaml", "--json"]).json();
    assert!(told["all"]["kinds"]["repeated_action"]["recall"].as_f64().unwrap() < 0.5);
    assert!(told["all"]["confusion"]["repeated_action"]["nothing"].as_u64().unwrap() > 0);
}

#[test]
fn recordings_of_one_stem_are_told_apart_and_one_that_cannot_be_read_is_named() {
    let dir = Dir::new();
    let below = dir.path().join("runs/below");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::copy(recorded("flip-flop"), below.join("run.jsonl")).unwrap();
    std::fs::copy(recorded("second-thoughts"), below.join("run.log")).unwrap();
    dir.write("runs/below/run.yaml", "expect: [{ kind: edit_undo, from: agent.file_edited }]\n");
    std::os::unix::fs::symlink(".", dir.path().join("runs/loop")).unwrap();
    std::fs::File::create(dir.path().join("runs/large.jsonl")).unwrap().set_len(300 << 20).unwrap();
    let told = run(&dir, &["supervise", "measure", "runs", "--made", "0", "--json"]).json();
    let source = &told["sources"][0];
    assert_eq!((&source["files"], &source["score"]["runs"]), (&json!(3), &json!(2)), "{source}");
    assert_eq!(source["score"]["kinds"]["edit_undo"]["missed_in"], json!(["below/run.log"]));
    let refused = source["refused"].as_array().unwrap();
    assert!(refused.len() == 1 && refused[0].as_str().unwrap().contains("large.jsonl"), "{refused:?}");
    let told = run(&dir, &["supervise", "measure", "runs/below/run.jsonl", "--made", "0", "--json"]).json();
    assert_eq!(told["sources"][0]["score"]["kinds"]["edit_undo"]["recall"], 1.0);
}

#[test]
fn every_line_of_a_recording_is_accounted_for() {
    let dir = Dir::new();
    let message = json!({ "type": "user", "message": { "content": "Mend the parser" } });
    let mut bytes = format!("{message}\n{}\n\nhello\n", json!({ "type": "news" })).into_bytes();
    bytes.extend(b"\xff\xfe\n{\"type\": \"assist");
    std::fs::write(dir.path().join("mixed.jsonl"), &bytes).unwrap();
    let told = run(&dir, &["supervise", "replay", "mixed.jsonl", &recorded("flip-flop"), "--json"]).json();
    let lines = &told["runs"][0]["lines"];
    let counts =
        |lines: &Value| ["read", "understood", "unknown", "broken"].map(|key| lines[key].as_u64().unwrap());
    assert_eq!(counts(lines), [5, 1, 1, 3], "{lines}");
    assert_eq!(lines["unknown_kinds"], json!({ "news": 1 }));
    assert_eq!(lines["broken_causes"], json!({ "not_utf8": 1, "not_json": 1, "cut_off": 1 }));
    let other = &told["runs"][1]["lines"];
    assert_eq!(other["read"], other["understood"], "our own events are all known: {other}");
    let sum: Vec<u64> = counts(lines).iter().zip(counts(other)).map(|(a, b)| a + b).collect();
    assert_eq!(counts(&told["lines"]).to_vec(), sum);

    let text = run(&dir, &["supervise", "replay", "mixed.jsonl"]).ok();
    let account = "5 lines read, 1 understood (1 became events), 1 unknown (news 1), \
                   3 broken (not UTF-8 1, not JSON 1, cut off 1)";
    assert!(text.contains(account), "{text}");

    dir.write("app.log", "{\"level\": \"info\"}\nstarted\n");
    let said = run(&dir, &["supervise", "replay", "app.log"]);
    for part in [
        "app.log is not a recording in a known format: 2 lines read, 0 understood",
        "1 unknown",
        "not JSON 1",
        "formats that are read",
    ] {
        assert!(said.code == 2 && said.stderr.contains(part), "{part}: {said:?}");
    }
}
