//! Replayed runs and their score, for people and for programs.

use std::collections::BTreeMap;

use omoi_protocol::FindingKind;
use omoi_server::domain::supervision::{
    decide::{Action, Mode},
    finding::Finding,
    score::{Score, Tally},
};
use serde::Serialize;

use super::replay::Of;
use crate::{
    out::Style,
    table::{Item, Table, maybe, number},
};

/// Each finding, and what would have been done about it. With a score, runs in which nothing was found are left out.
pub fn runs(runs: &[Of], style: Style, scored: bool) -> String {
    let mut text = String::new();
    for of in runs.iter().filter(|of| !scored || !of.replay.findings.is_empty()) {
        let found = of.replay.findings.len();
        text.push_str(&format!("{}  {} events, {found} findings\n", of.run, of.replay.events));
        let header = ["event", "at", "finding", "severity", "would", "what"];
        let table = of.replay.findings.iter().fold(Table::new(style, &header), |table, finding| {
            let action = of
                .replay
                .actions
                .iter()
                .find(|one| one.finding == finding.kind && one.number == finding.number);
            row(table, finding, action)
        });
        if found > 0 {
            text.push_str(&table.render());
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

fn row(table: Table, finding: &Finding, action: Option<&Action>) -> Table {
    let at = finding.at.strftime("%H:%M:%S").to_string();
    let would = action.map(|action| match (action.mode, action.held) {
        (Mode::Record, Some(held)) => format!("note ({})", word(held)),
        (Mode::Record, None) => "note".to_owned(),
        (Mode::Suggest, _) => format!("suggest {}", action.intervention),
        (Mode::Act, _) => action.intervention.to_string(),
    });
    table.row([
        number(&finding.seq),
        at.into(),
        Item::Word(finding.kind.as_str()),
        Item::Word(finding.severity.as_str()),
        maybe(would),
        finding.text.clone().into(),
    ])
}

fn word(held: impl Serialize) -> String {
    serde_json::to_value(held).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The score as it is printed.
#[derive(Serialize)]
pub struct Figures {
    runs: u32,
    good_runs: u32,
    /// Good ones in which nothing was found.
    quiet_runs: u32,
    kinds: BTreeMap<FindingKind, Figure>,
}

#[derive(Serialize)]
struct Figure {
    labelled: u32,
    found: u32,
    wrong: u32,
    precision: Option<f64>,
    recall: Option<f64>,
    delay_seconds: Option<f64>,
    delay_events: Option<f64>,
    /// What was spent between the beginning and the finding, in all.
    cost_usd: f64,
    cost_tokens: u64,
    missed_in: Vec<String>,
    wrong_in: Vec<String>,
}

impl Figures {
    pub fn of(score: &Score) -> Self {
        let figure = |tally: &Tally| Figure {
            labelled: tally.labelled,
            found: tally.found,
            wrong: tally.wrong,
            precision: tally.precision(),
            recall: tally.recall(),
            delay_seconds: tally.mean_seconds(),
            delay_events: tally.mean_events(),
            cost_usd: tally.usd,
            cost_tokens: tally.tokens,
            missed_in: tally.missed_in.clone(),
            wrong_in: tally.wrong_in.clone(),
        };
        let kinds = score.kinds.iter().map(|(kind, tally)| (*kind, figure(tally))).collect();
        Self { runs: score.runs, good_runs: score.good, quiet_runs: score.quiet, kinds }
    }

    pub fn text(&self, style: Style) -> String {
        let header = [
            "finding",
            "labels",
            "found",
            "wrong",
            "precision",
            "recall",
            "seconds",
            "events",
            "USD",
            "tokens",
        ];
        let share = |value: Option<f64>| maybe(value.map(|value| format!("{value:.2}")));
        let mean = |value: Option<f64>| maybe(value.map(|value| format!("{value:.1}")));
        let row = |table: Table, (kind, one): (&FindingKind, &Figure)| {
            table.row([
                Item::Word(kind.as_str()),
                number(&one.labelled),
                number(&one.found),
                number(&one.wrong),
                share(one.precision),
                share(one.recall),
                mean(one.delay_seconds),
                mean(one.delay_events),
                number(&format!("{:.2}", one.cost_usd)),
                number(&one.cost_tokens),
            ])
        };
        let shown = self.kinds.iter().filter(|(_, one)| one.labelled + one.wrong > 0);
        let table = shown.fold(Table::new(style, &header), row).render();
        let missed = self.kinds.iter().flat_map(|(kind, one)| {
            let missed = one.missed_in.iter().map(move |run| format!("missed in {run}: {kind}\n"));
            missed.chain(one.wrong_in.iter().map(move |run| format!("wrong in {run}: {kind}\n")))
        });
        let missed: String = missed.collect();
        let bad = self.runs - self.good_runs;
        format!(
            "{} runs: {bad} with something to find, {} without, of which {} are quiet\n{table}\n{missed}",
            self.runs, self.good_runs, self.quiet_runs
        )
    }
}
