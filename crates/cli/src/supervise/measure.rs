//! `omoi supervise measure`: how good the rules are, on recordings and on runs that are made with a known fault.

use std::path::{Path, PathBuf};

use anyhow::Result;
use omoi_protocol::FindingKind;
use omoi_server::domain::supervision::{
    import::Ledger,
    measure::{Base, Case, generate},
    policy::Policy,
    replay::{Replay, replay},
    score::Score,
};
use serde::Serialize;

use super::{
    files::Files,
    replay::policy,
    run::load,
    show::{self, Figures},
};
use crate::{Context, out::Style};

const EXAMPLES: &str = "\
Examples:
  omoi supervise measure                                 200 generated runs; three of five contain one known fault
  omoi supervise measure runs recordings                 these recordings as well; good ones among them get faults too
  omoi supervise measure --seed 7 --made 1000 --json     other runs, and more of them

What a person saw in recordings is read from a `labels.yaml` in their directory (`runs: { NAME: [{ kind, from }] }`), or from a
NAME.yaml beside each (`expect: [{ kind, from }]`). What is found in a recording without labels is listed and not scored.";

const MADE_MAX: u64 = 10_000;

/// Measure how good the rules of supervision are: precision, recall, delay and confusions for each kind of finding
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Measure {
    /// Recordings, or directories of them
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Number of runs to generate
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=MADE_MAX))]
    made: u64,
    /// Seed of the generated runs; the same seed generates the same runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The policy to measure, instead of the one that comes with the program
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

#[derive(Serialize)]
struct Answer {
    seed: u64,
    /// The lines of all recordings together.
    lines: Ledger,
    sources: Vec<Source>,
    all: Figures,
}

/// A directory of recordings, or what was made.
#[derive(Serialize)]
struct Source {
    source: String,
    files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Ledger>,
    /// Files that hold no run, with the reason.
    refused: Vec<String>,
    /// Recordings that no person has judged.
    unjudged: Vec<String>,
    /// Findings that are expected by no label.
    surplus: Vec<Surplus>,
    score: Figures,
}

#[derive(Serialize)]
struct Surplus {
    run: String,
    kind: FindingKind,
    seq: i64,
    text: String,
}

struct Measuring {
    policy: Policy,
    all: Score,
    lines: Ledger,
    bases: Vec<Base>,
}

impl Measure {
    pub fn run(&self, cx: &Context) -> Result<()> {
        let policy = policy(self.policy.as_deref())?;
        let mut measuring =
            Measuring { policy, all: Score::default(), lines: Ledger::default(), bases: Vec::new() };
        let mut sources = Vec::new();
        for path in &self.paths {
            sources.push(measuring.recordings(path)?);
        }
        let cases = generate(self.seed, self.made as usize, &measuring.bases);
        sources.push(measuring.made(&cases));
        let answer =
            Answer { seed: self.seed, lines: measuring.lines, sources, all: Figures::of(&measuring.all) };
        cx.out.answer(&answer, |style| answer.text(style))
    }
}

impl Measuring {
    fn recordings(&mut self, path: &Path) -> Result<Source> {
        let files = Files::of(path)?;
        let (mut score, mut lines) = (Score::default(), Ledger::default());
        let (mut refused, mut unjudged, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
        for (name, path) in &files.paths {
            let run = match load(path) {
                Ok(Ok(run)) => run,
                Ok(Err(error)) => {
                    error.ledger().into_iter().for_each(|own| lines.add(own));
                    refused.push(error.to_string());
                    continue;
                }
                Err(error) => {
                    refused.push(format!("{error:#}"));
                    continue;
                }
            };
            lines.add(&run.ledger);
            let replayed = replay(&run.events, run.charter.clone(), &self.policy);
            let labels = files.labels(name);
            let is_expected =
                |kind| labels.is_some_and(|labels| labels.iter().any(|label| label.kind == kind));
            surplus.extend(Surplus::of(name, &replayed, is_expected));
            match labels {
                Some(labels) => {
                    score.add(name, &run.events, &replayed, labels)?;
                    self.all.add(name, &run.events, &replayed, labels)?;
                    if labels.is_empty() && replayed.findings.is_empty() {
                        self.bases.push(Base {
                            name: name.clone(),
                            charter: run.charter,
                            events: run.events,
                        });
                    }
                }
                None => unjudged.push(name.clone()),
            }
        }
        self.lines.add(&lines);
        let score = Figures::of(&score);
        let source = path.display().to_string();
        Ok(Source { source, files: files.paths.len(), lines: Some(lines), refused, unjudged, surplus, score })
    }

    fn made(&mut self, cases: &[Case]) -> Source {
        let (mut score, mut surplus) = (Score::default(), Vec::new());
        for case in cases {
            let replayed = replay(&case.events, case.charter.clone(), &self.policy);
            let is_expected =
                |kind| case.expected.iter().any(|one| one.kind == kind) || case.also.contains(&kind);
            surplus.extend(Surplus::of(&case.name, &replayed, is_expected));
            for score in [&mut score, &mut self.all] {
                score.judge(&case.name, &case.events, &replayed, &case.expected, case.also);
            }
        }
        Source {
            source: "made".to_owned(),
            files: 0,
            lines: None,
            refused: Vec::new(),
            unjudged: Vec::new(),
            surplus,
            score: Figures::of(&score),
        }
    }
}

impl Surplus {
    fn of(run: &str, replay: &Replay, is_expected: impl Fn(FindingKind) -> bool) -> Vec<Self> {
        let surplus = replay.findings.iter().filter(|finding| !is_expected(finding.kind));
        surplus
            .map(|finding| Self {
                run: run.to_owned(),
                kind: finding.kind,
                seq: finding.seq,
                text: finding.text.clone(),
            })
            .collect()
    }
}

impl Answer {
    fn text(&self, style: Style) -> String {
        let sources: String = self.sources.iter().map(|source| source.text(style)).collect();
        let all = match self.sources.len() {
            1 => String::new(),
            _ => format!("all: {}", self.all.text(style)),
        };
        format!(
            "{sources}{all}Confusion matrix, counted in runs (rows: expected, columns: reported)\n{}\n",
            self.all.confusions(style)
        )
    }
}

impl Source {
    fn text(&self, style: Style) -> String {
        let mut text = format!("{}: {}", self.source, self.score.text(style));
        if let Some(lines) = &self.lines {
            text.push_str(&format!(
                "{} files, {} of them refused; {lines}\n",
                self.files,
                self.refused.len()
            ));
        }
        for reason in &self.refused {
            text.push_str(&format!("refused: {reason}\n"));
        }
        if !self.unjudged.is_empty() {
            text.push_str(&format!("no labels, so not scored: {}\n", show::names(&self.unjudged)));
        }
        for one in &self.surplus {
            text.push_str(&format!(
                "not expected in {} at event {}: {}: {}\n",
                one.run, one.seq, one.kind, one.text
            ));
        }
        text.push('\n');
        text
    }
}
