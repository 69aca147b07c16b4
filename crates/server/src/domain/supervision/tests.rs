//! The recorded runs in `tests/runs`, judged by the default policy: what is found there may not become worse. And the
//! bounds that a trajectory keeps, whatever it is fed.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;
use omoi_protocol::{
    EventId, EventSource, FindingKind,
    event::{
        AgentFileEdited, AgentMessage, AgentMessageInjected, AgentSubagentInvoked, AgentToolResult,
        AgentToolUse, FileChange, ModelCall, Payload, StoredEvent,
    },
};
use serde::Deserialize;
use serde_json::json;

use super::{
    guard::Guard,
    import::{self, Run},
    policy::Policy,
    replay::{Replay, replay},
    score::{Label, Score, quantile},
    trajectory::{BYTES_MAX, Charter},
};

const PRECISION_MIN: f64 = 0.95;
const RECALL_MIN: f64 = 0.9;
const GOOD_MIN: u32 = 15;
const BAD_MIN: u32 = 15;

/// What of a run's file is read here; the rest is for whoever records it again.
#[derive(Deserialize)]
struct Labelled {
    expect: Vec<Label>,
}

static RUNS: LazyLock<Vec<(Run, Vec<Label>)>> = LazyLock::new(read_runs);

fn read_runs() -> Vec<(Run, Vec<Label>)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let mut names: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    let read = |name: &String| {
        let labels = fs::read_to_string(root.join(format!("{name}.yaml"))).unwrap();
        let labels: Labelled =
            serde_saphyr::from_str(&labels).unwrap_or_else(|error| panic!("{name}.yaml: {error}"));
        let text = fs::read_to_string(root.join(format!("{name}.jsonl")));
        let text =
            text.unwrap_or_else(|error| panic!("{name} is not recorded ({error}); see tests/runs/record.py"));
        (import::read(name, &text).unwrap(), labels.expect)
    };
    names.iter().map(read).collect()
}

fn score(policy: &Policy) -> (Score, BTreeMap<String, Replay>) {
    let (mut score, mut replays) = (Score::default(), BTreeMap::new());
    for (run, labels) in RUNS.iter() {
        let replayed = replay(&run.events, run.charter.clone(), policy);
        score.add(&run.name, &run.events, &replayed, labels).unwrap();
        replays.insert(run.name.clone(), replayed);
    }
    (score, replays)
}

#[test]
fn on_the_recorded_runs_findings_are_right_and_few_are_missed() {
    let (score, replays) = score(&Policy::shipped());
    let bad = score.runs - score.good;
    println!(
        "{} runs: {} good ones, nothing was found in {}; {bad} bad ones",
        score.runs, score.good, score.quiet
    );
    println!("{:<20} labels found wrong precision recall  seconds events    usd", "kind");
    let mut worse = Vec::new();
    for (kind, tally) in &score.kinds {
        if *kind == FindingKind::Misaligned {
            // Nobody was asked, and what a judge says is not for rules to be right about.
            assert_eq!(tally.precision(), None);
            continue;
        }
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        println!(
            "{:<20} {:>6} {:>5} {:>5} {:>9} {:>6} {:>8} {:>6} {:>6.2}",
            kind.as_str(),
            tally.labelled,
            tally.found,
            tally.wrong,
            number(tally.precision()),
            number(tally.recall()),
            number(quantile(&tally.delays_seconds, 0.5)),
            number(quantile(&tally.delays_events, 0.5).map(|events| events as f64)),
            tally.usd,
        );
        let fine = tally.labelled >= 2
            && tally.precision().is_some_and(|precision| precision >= PRECISION_MIN)
            && tally.recall().is_some_and(|recall| recall >= RECALL_MIN);
        if !fine {
            for name in tally.wrong_in.iter().chain(&tally.missed_in) {
                println!("  {name}: {:#?}", replays[name].findings);
            }
            worse.push(format!("{kind}: missed in {:?}, wrong in {:?}", tally.missed_in, tally.wrong_in));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
    assert!(score.good >= GOOD_MIN && bad >= BAD_MIN, "{} good and {bad} bad", score.good);
}

#[test]
fn a_policy_that_makes_it_worse_does_not_pass() {
    let table = [
        ("thresholds: { repeated_action: { times: 2 } }", FindingKind::RepeatedAction),
        ("thresholds: { same_error: { times: 2 } }", FindingKind::SameError),
        ("thresholds: { edit_undo: { times: 1 } }", FindingKind::EditUndo),
        ("thresholds: { no_progress: { calls: 5 } }", FindingKind::NoProgress),
        ("thresholds: { no_progress: { quiet: 2h, calls: 500 } }", FindingKind::NoProgress),
        ("thresholds: { drift: { allow: [] } }", FindingKind::Drift),
        ("forbidden_commands: []", FindingKind::ForbiddenCommand),
        ("thresholds: { runaway_subagents: { at_once: 2 } }", FindingKind::RunawaySubagents),
    ];
    for (text, kind) in table {
        let (score, _) = score(&Policy::read("p.yaml", text).unwrap());
        let tally = &score.kinds[&kind];
        let precise = tally.precision().is_some_and(|precision| precision >= PRECISION_MIN);
        let whole = tally.recall().is_some_and(|recall| recall >= RECALL_MIN);
        assert!(!(precise && whole), "{text} does not show in {kind}");
    }
}

#[test]
fn what_is_found_does_not_depend_on_how_often_the_clock_is_looked_at() {
    let policy = Policy::shipped();
    for (run, _) in RUNS.iter() {
        let mut guard = Guard::new(Arc::new(run.charter.clone()));
        let mut seen = 0;
        for event in &run.events {
            seen += guard.take(event, &policy.rules).len();
            // Ticks that come late or twice bring nothing that the event has not.
            seen += guard.tick(event.created_at, &policy.rules).len() * 1000;
            seen += guard.take(event, &policy.rules).len() * 1000;
        }
        assert!(seen < 1000, "{}", run.name);
    }
}

fn event(seq: i64, payload: impl Into<Payload>) -> StoredEvent {
    let payload = payload.into();
    StoredEvent {
        id: EventId(seq),
        sandbox_id: "sbx-1".parse().unwrap(),
        seq,
        worker_seq: None,
        event_type: payload.event_type().to_owned(),
        event_data: payload.to_raw(),
        source: EventSource::Agent,
        created_at: Timestamp::from_second(1_000_000 + seq).unwrap(),
    }
}

/// Everything long, everything different, nothing ever closed.
fn hostile(seq: i64) -> Payload {
    let long = format!("{seq} {}", "wörter und Pfade/ ".repeat(180));
    let id = Some(format!("id-{seq}"));
    match seq % 8 {
        0 => AgentToolUse {
            tool: Some("Bash".to_owned()),
            tool_use_id: id,
            input: Some(json!({ "command": long })),
            ..AgentToolUse::default()
        }
        .into(),
        1 => AgentToolResult {
            tool_use_id: Some(format!("id-{}", seq - 1)),
            result: Some(format!("Error: {long}")),
            is_error: Some(true),
            ..AgentToolResult::default()
        }
        .into(),
        2 => AgentFileEdited {
            file_path: Some(format!("tests/{long}")),
            change_type: Some(FileChange::Modified),
            diff_preview: Some(format!("-assert {long}\n+x")),
            ..AgentFileEdited::default()
        }
        .into(),
        3 => AgentMessage { content: Some(format!("{long}?")), ..AgentMessage::default() }.into(),
        4 => AgentMessageInjected {
            message_type: Some("user_message".to_owned()),
            content: Some(format!("do not touch a/{long}. must {long}")),
            sender_id: Some(long),
            ..AgentMessageInjected::default()
        }
        .into(),
        5 => AgentSubagentInvoked {
            tool_use_id: id,
            subagent_prompt: Some(long),
            ..AgentSubagentInvoked::default()
        }
        .into(),
        6 => AgentToolUse {
            tool: Some(long.clone()),
            tool_use_id: id,
            input: Some(json!({ "file_path": long })),
            ..AgentToolUse::default()
        }
        .into(),
        _ => ModelCall { input_tokens: Some(u64::MAX / 2), ..ModelCall::default() }.into(),
    }
}

#[test]
fn a_trajectory_stays_small_whatever_it_is_fed() {
    let (mut guard, policy) = (Guard::new(Arc::new(Charter::default())), Policy::shipped());
    let mut most = 0;
    for seq in 1..=10_000 {
        guard.take(&event(seq, hostile(seq)), &policy.rules);
        most = most.max(guard.bytes());
    }
    println!("at most {most} bytes");
    assert!(most <= BYTES_MAX, "{most} bytes");
    assert_eq!(guard.trajectory.events, 10_000);
}

#[test]
fn data_that_fits_nothing_is_taken_for_nothing() {
    let (mut guard, policy) = (Guard::new(Arc::new(Charter::default())), Policy::shipped());
    for (seq, (kind, data)) in (1..).zip([
        ("agent.tool_use", "[]"),
        ("agent.tool_use", r#"{"input": "text", "tool": 5}"#),
        ("agent.tool_use", r#"{"input": [1], "tool": null}"#),
        ("agent.file_edited", "{}"),
        ("agent.tool_result", r#"{"tool_use_id": "never asked"}"#),
        ("nobody.knows", r#"{"a": {"b": 1}}"#),
        ("agent.heartbeat", r#"{"cpu_seconds": -1e300}"#),
        ("model.call", r#"{"cost_usd": -5}"#),
    ]) {
        let payload = Payload::Other {
            event_type: kind.to_owned(),
            data: serde_json::value::RawValue::from_string(data.to_owned()).unwrap(),
        };
        assert_eq!(guard.take(&event(seq, payload), &policy.rules), [], "{kind} {data}");
    }
    assert_eq!(guard.trajectory.spend.usd, 0.0);
}
