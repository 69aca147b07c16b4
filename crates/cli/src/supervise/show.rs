//! Replayed runs and their score, for people and for programs.

use std::collections::BTreeMap;

use omoi_protocol::FindingKind;
use omoi_server::domain::supervision::{
    decide::{Action, Mode},
    finding::Finding,
    score::{Column, Row, Score, Tally, quantile},
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
        let format = of.format.map_or_else(String::new, |format| format!("  {}", format.as_str()));
        text.push_str(&format!("{}{format}  {} events, {found} findings\n", of.run, of.replay.events));
        if let Some(lines) = &of.lines {
            text.push_str(&format!("{lines}\n"));
        }
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
    /// What was found, by what there was to find: runs with this finding each.
    confusion: BTreeMap<Row, BTreeMap<Column, u32>>,
}

#[derive(Serialize)]
struct Figure {
    labelled: u32,
    found: u32,
    wrong: u32,
    precision: Option<f64>,
    recall: Option<f64>,
    /// From the event that begins it to the finding: the median, and what nine of ten do not exceed.
    delay_seconds: Option<f64>,
    delay_seconds_p90: Option<f64>,
    delay_events: Option<i64>,
    delay_events_p90: Option<i64>,
    /// Events of the run that were still to come: the median.
    lead_events: Option<i64>,
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
            delay_seconds: quantile(&tally.delays_seconds, 0.5),
            delay_seconds_p90: quantile(&tally.delays_seconds, 0.9),
            delay_events: quantile(&tally.delays_events, 0.5),
            delay_events_p90: quantile(&tally.delays_events, 0.9),
            lead_events: quantile(&tally.leads_events, 0.5),
            cost_usd: tally.usd,
            cost_tokens: tally.tokens,
            missed_in: tally.missed_in.clone(),
            wrong_in: tally.wrong_in.clone(),
        };
        let kinds = score.kinds.iter().map(|(kind, tally)| (*kind, figure(tally))).collect();
        let confusion = score.confusion.clone();
        Self { runs: score.runs, good_runs: score.good, quiet_runs: score.quiet, kinds, confusion }
    }

    pub fn text(&self, style: Style) -> String {
        let header = [
            "finding",
            "expected",
            "found",
            "wrong",
            "precision",
            "recall",
            "delay s",
            "p90",
            "delay events",
            "p90",
            "lead events",
            "USD",
            "tokens",
        ];
        let share = |value: Option<f64>| maybe(value.map(|value| format!("{value:.2}")));
        let seconds = |value: Option<f64>| maybe(value.map(|value| format!("{value:.1}")));
        let row = |table: Table, (kind, one): (&FindingKind, &Figure)| {
            table.row([
                Item::Word(kind.as_str()),
                number(&one.labelled),
                number(&one.found),
                number(&one.wrong),
                share(one.precision),
                share(one.recall),
                seconds(one.delay_seconds),
                seconds(one.delay_seconds_p90),
                maybe(one.delay_events),
                maybe(one.delay_events_p90),
                maybe(one.lead_events),
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
            "{bad} runs with expected findings, {} without; {} of those reported nothing\n{table}\n{missed}",
            self.good_runs, self.quiet_runs
        )
    }

    /// A row for what there was to find, a column for what was found.
    pub fn confusions(&self, style: Style) -> String {
        let mut columns: Vec<Column> = self.confusion.values().flat_map(BTreeMap::keys).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        let names = columns.iter().map(|column| <&str>::from(*column));
        let header: Vec<&str> = ["expected \\ reported"].into_iter().chain(names).collect();
        let row = |table: Table, (row, found): (&Row, &BTreeMap<Column, u32>)| {
            let counts =
                columns.iter().map(|column| found.get(column).map_or(Item::Text(String::new()), number));
            table.row([Item::Word(<&str>::from(*row))].into_iter().chain(counts))
        };
        self.confusion.iter().fold(Table::new(style, &header), row).render()
    }
}

/// The first of many names, and how many there are.
pub fn names(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let first = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
