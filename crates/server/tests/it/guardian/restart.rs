//! Whatever the Guardian forgets it remembers from the store: recorded runs are watched once without a break and once with
//! all memory lost again and again, and the same is found and done, once.

use std::{collections::HashMap, path::PathBuf};

use jiff::Timestamp;
use omoi_protocol::event::{NewEvent, StoredEvent};
use omoi_server::domain::supervision::import;
use serde_json::{Value, json};

use super::Eye;
use crate::{
    app::{App, Sandbox, unique},
    on_both,
};

/// Each has other findings: by calls, by time, by the end.
const RUNS: &[&str] =
    &["same-command", "same-failure", "question-left-waiting", "false-claim", "flailing", "plain-fix"];

/// SplitMix64: the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)) % sides
    }
}

fn recorded(name: &str) -> Vec<StoredEvent> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/runs/{name}.jsonl"));
    import::read(name, std::fs::read_to_string(path).unwrap()).unwrap().events
}

/// What was found and done, without what differs by name.
async fn outcome(app: &App, sandbox: &Sandbox) -> (Vec<Value>, Vec<Value>) {
    let keep = |rows: Vec<Value>, keys: &[&str]| {
        let pick = |row: &Value| keys.iter().map(|key| row[*key].clone()).collect::<Value>();
        rows.iter().rev().map(pick).collect::<Vec<_>>()
    };
    let findings = app.findings(sandbox).await;
    let mut made = app.interventions(sandbox).await;
    made.extend(app.items(&format!("/api/v1/interventions?mode=record&sandbox_id={}", sandbox.id)).await);
    made.sort_by_key(|row| row["id"].as_str().unwrap().to_owned());
    (
        keep(
            findings,
            &[
                "kind",
                "number",
                "severity",
                "seqs",
                "seq",
                "text",
                "since",
                "found_at",
                "cleared_at",
                "cleared_by",
            ],
        ),
        keep(made, &["kind", "do", "mode", "held", "text", "created_at", "effect"]),
    )
}

/// Plays a run into a sandbox at its own times; `after` comes after each event.
async fn play(app: &App, sandbox: &Sandbox, events: &[StoredEvent], mut after: impl AsyncFnMut()) {
    let mut before: Option<Timestamp> = None;
    for event in events {
        let gap = before.map_or(jiff::SignedDuration::ZERO, |before| event.created_at.duration_since(before));
        before = Some(event.created_at);
        // A long silence is looked at on the way.
        for _ in 0..3 {
            app.clock.advance(gap / 3);
            after().await;
        }
        let new = NewEvent {
            event_type: event.event_type.clone(),
            event_data: event.event_data.clone(),
            source: event.source,
            worker_seq: None,
        };
        match app.store().event_append(&sandbox.id.parse().unwrap(), vec![new]).await {
            Ok(_) => {}
            Err(omoi_server::store::Error::TokenEnded) => break,
            Err(error) => panic!("{error}"),
        }
        after().await;
    }
}

on_both! {
    async fn what_is_found_and_done_is_the_same_however_often_all_is_forgotten(app: App) {
        let mut all = HashMap::new();
        let mut some = 0;
        for name in RUNS {
            let events = recorded(name);
            for seed in [None, Some(1), Some(2)] {
                let sandbox = app.attach(json!({ "sandbox_id": unique(name) })).await;
                let mut eye = Eye::open(&app);
                eye.look().await;
                let mut dice = Dice(seed.unwrap_or(0));
                let began = app.now();
                play(&app, &sandbox, &events, async || {
                    if seed.is_some() && dice.roll(3) == 0 {
                        eye.forget(&app);
                    }
                    eye.look().await;
                }).await;
                let (mut found, mut made) = outcome(&app, &sandbox).await;
                some += found.len();
                // Times count from the beginning.
                for row in found.iter_mut().chain(&mut made) {
                    for cell in row.as_array_mut().unwrap() {
                        if let Some(at) = cell.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
                            *cell = json!(at.duration_since(began).as_micros());
                        }
                    }
                }
                let first = all.entry(*name).or_insert((found.clone(), made.clone()));
                assert_eq!(*first, (found, made), "{name} with seed {seed:?}");
                // The next machine takes over when this one is not heard of.
                app.clock.advance(jiff::SignedDuration::from_secs(20));
            }
        }
        assert!(some >= 12, "the runs show something: {some}");
    }
}
