//! What was found: a row for each figure, as a table for people and JSON for programs.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;
use serde_json::Value;

use crate::{bench::Scale, machine::Machine, place::Kind};

/// One figure, beside its limit.
#[derive(Debug, Serialize)]
pub struct Row {
    pub measurement: String,
    pub store: Kind,
    pub result: Figure,
    /// The same on this machine without us.
    pub raw: Option<Raw>,
    pub ratio: Option<f64>,
    pub target: Option<Target>,
    /// Whether the target was reached.
    pub ok: Option<bool>,
    /// What came out wrong, however fast it was.
    pub wrong: Option<String>,
    pub details: Value,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Raw {
    #[serde(flatten)]
    pub figure: Figure,
    pub what: &'static str,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figure {
    pub value: f64,
    pub unit: &'static str,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtLeast(f64),
    AtMost(f64),
}

pub fn figure(value: f64, unit: &'static str) -> Figure {
    Figure { value, unit }
}

impl Figure {
    fn text(self) -> String {
        let decimals = match self.value.abs() {
            v if v >= 100.0 || v == 0.0 => 0,
            v if v >= 10.0 => 1,
            v if v >= 1.0 => 2,
            _ => 4,
        };
        format!("{:.decimals$} {}", self.value, self.unit).trim_end().to_owned()
    }
}

impl Target {
    fn text(self, unit: &str) -> String {
        match self {
            Self::RatioAtLeast(n) => format!("ratio ≥ {n:.2}"),
            Self::RatioAtMost(n) => format!("ratio ≤ {n:.2}"),
            Self::AtLeast(n) => format!("≥ {n} {unit}").trim_end().to_owned(),
            Self::AtMost(n) => format!("≤ {n} {unit}").trim_end().to_owned(),
        }
    }
}

impl Row {
    pub fn new(measurement: impl Into<String>, store: Kind, result: Figure) -> Self {
        Self {
            measurement: measurement.into(),
            store,
            result,
            raw: None,
            ratio: None,
            target: None,
            ok: None,
            wrong: None,
            details: Value::Null,
        }
    }

    #[must_use]
    pub fn beside(mut self, raw: f64, what: &'static str) -> Self {
        self.raw = Some(Raw { figure: figure(raw, self.result.unit), what });
        self.ratio = (raw > 0.0).then(|| self.result.value / raw);
        self
    }

    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        let value = self.result.value;
        self.ok = match target {
            Target::RatioAtLeast(n) => self.ratio.map(|ratio| ratio >= n),
            Target::RatioAtMost(n) => self.ratio.map(|ratio| ratio <= n),
            Target::AtLeast(n) => Some(value >= n),
            Target::AtMost(n) => Some(value <= n),
        };
        self.target = Some(target);
        self
    }

    #[must_use]
    pub fn wrong(mut self, wrong: Option<String>) -> Self {
        self.wrong = wrong;
        self
    }

    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    fn cells(&self) -> [String; 7] {
        let dash = || "–".to_owned();
        let ok = match (&self.wrong, self.ok) {
            (Some(_), _) => "WRONG".to_owned(),
            (None, Some(true)) => "yes".to_owned(),
            (None, Some(false)) => "NO".to_owned(),
            (None, None) => dash(),
        };
        [
            self.measurement.clone(),
            self.store.to_string(),
            self.result.text(),
            self.raw.map_or_else(dash, |raw| format!("{} ({})", raw.figure.text(), raw.what)),
            self.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
            self.target.map_or_else(dash, |target| target.text(self.result.unit)),
            ok,
        ]
    }
}

#[derive(Serialize)]
pub struct Report {
    machine: Machine,
    scale: Scale,
    rows: Vec<Row>,
    /// Measurements that could not be made, and why.
    failures: Vec<String>,
}

impl Report {
    pub fn new(machine: Machine, scale: Scale) -> Self {
        Self { machine, scale, rows: Vec::new(), failures: Vec::new() }
    }

    /// Takes a row down, and shows it at once: a run is long.
    pub fn push(&mut self, row: Row) {
        let line = row.cells().join("  |  ");
        let wrong = row.wrong.as_ref().map(|wrong| format!("\n    {wrong}")).unwrap_or_default();
        let _ = writeln!(io::stderr(), "{line}{wrong}");
        self.rows.push(row);
    }

    pub fn failed(&mut self, what: String) {
        let _ = writeln!(io::stderr(), "{what}");
        self.failures.push(what);
    }

    pub fn is_sound(&self) -> bool {
        self.failures.is_empty() && self.rows.iter().all(|row| row.wrong.is_none())
    }

    /// Writes bench.json and bench.txt, and prints the latter.
    pub fn finish(&self, out: &Path) -> anyhow::Result<()> {
        let text = self.text();
        std::fs::write(out.join("bench.json"), serde_json::to_vec_pretty(self)?)
            .and_then(|()| std::fs::write(out.join("bench.txt"), &text))
            .with_context(|| format!("cannot write to {}", out.display()))?;
        writeln!(io::stdout(), "{text}")?;
        Ok(())
    }

    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(["measurement", "store", "result", "raw limit", "ratio", "target", "ok"]);
        for row in &self.rows {
            table.add_row(row.cells());
        }
        for column in [2, 4] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let quick = if self.scale.quick { "\nquick: too short to mean much" } else { "" };
        let wrong = self.rows.iter().filter_map(|row| {
            let wrong = row.wrong.as_ref()?;
            Some(format!("\nWRONG: {} on {}: {wrong}", row.measurement, row.store))
        });
        let failures = self.failures.iter().map(|failure| format!("\nFAILED: {failure}"));
        format!("{}{quick}\n{table}{}", self.machine.lines(), wrong.chain(failures).collect::<String>())
    }
}

/// The one in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_held_against_the_ratio_or_the_figure() {
        let row = || Row::new("x", Kind::Sqlite, figure(60.0, "events/s")).beside(100.0, "raw");
        assert_eq!(row().target(Target::RatioAtLeast(0.5)).ok, Some(true));
        assert_eq!(row().target(Target::RatioAtMost(0.5)).ok, Some(false));
        assert_eq!(row().target(Target::AtLeast(61.0)).ok, Some(false));
        assert_eq!(row().target(Target::AtMost(61.0)).ok, Some(true));
        assert_eq!(row().wrong(Some("lost".to_owned())).cells()[6], "WRONG");
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
