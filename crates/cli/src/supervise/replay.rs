//! `omoi supervise replay`: what supervision would have found and done, and how good that is.

use std::path::{Path, PathBuf};

use anyhow::Result;
use omoi_server::domain::supervision::{
    import::{Format, Ledger},
    policy::Policy,
    replay::{self, Replay as Replayed},
    score::Score,
};
use serde::Serialize;

use super::{labels::Labels, run::Run, show};
use crate::{
    Context,
    connect::Connect,
    failure::{Stop, USAGE},
};

const EXAMPLES: &str = "\
Examples:
  omoi supervise replay sbx-01a1…                        a sandbox of the server's
  omoi supervise replay run.jsonl --policy strict.yaml   what another policy would have done
  omoi supervise replay runs/*.jsonl --labels runs       precision, recall, delay and cost for each kind

A file holds our events (one per line, as `omoi sandbox events --follow --json` prints them), Claude Code's stream-json or
transcripts, Codex (app-server, exec --json or rollouts), ACP session logs, a SWE-agent .traj, or an OpenHands trajectory.
Every line is counted: `understood` when its kind is known, `unknown` when it is JSON of another kind, `broken` when it cannot
be read (not JSON, cut off, not UTF-8, too long). Blank lines are not counted. Labels say what somebody sees in runs: a file `runs: { NAME: [{ kind, from }] }`,
where `from` is a text that the first event of it holds, or a directory of NAME.yaml with `expect: [{ kind, from }]`.";

/// Show what supervision would have found and done in recorded runs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Replay {
    /// Ids of sandboxes, or files
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// The policy to try, instead of the one that comes with the program
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// What there is to be found, to score what is found
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    #[command(flatten)]
    connect: Connect,
}

#[derive(Serialize)]
struct Answer {
    runs: Vec<Of>,
    /// The lines of all files together.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Ledger>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<show::Figures>,
}

#[derive(Serialize)]
pub struct Of {
    pub run: String,
    /// Of a file: its format, and what became of its lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Ledger>,
    #[serde(flatten)]
    pub replay: Replayed,
}

impl Replay {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let policy = policy(self.policy.as_deref())?;
        let labels = self.labels.as_deref().map(Labels::read).transpose()?;
        let (mut answer, mut score) =
            (Answer { runs: Vec::new(), lines: None, score: None }, Score::default());
        for of in &self.runs {
            let run = Run::read(of, &self.connect).await?;
            let replay = replay::replay(&run.events, run.charter, &policy);
            match labels.as_ref().map(|labels| labels.of(&run.name)) {
                Some(Some(judged)) => score.add(&run.name, &run.events, &replay, judged)?,
                Some(None) => cx.out.note(&format!("nobody has judged {}; it is not scored", run.name)),
                None => {}
            }
            let (format, lines) = run.source.unzip();
            if let Some(lines) = &lines {
                answer.lines.get_or_insert_default().add(lines);
            }
            answer.runs.push(Of { run: run.name, format, lines, replay });
        }
        answer.score = labels.map(|_| show::Figures::of(&score));
        cx.out.answer(&answer, |style| {
            let mut text = show::runs(&answer.runs, style, answer.score.is_some());
            if let Some(lines) = answer.lines.as_ref().filter(|_| answer.runs.len() > 1) {
                text.push_str(&format!("all files: {lines}\n\n"));
            }
            if let Some(figures) = &answer.score {
                text.push_str(&figures.text(style));
            }
            text
        })
    }
}

/// The policy in a file, or the one that comes with the program.
pub fn policy(path: Option<&Path>) -> Result<Policy> {
    let Some(path) = path else { return Ok(Policy::shipped()) };
    let name = path.display().to_string();
    let wrong =
        |what: String| Stop::new(USAGE, what).hint("`omoi supervise policy` prints one with every key");
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("policy {name}: {error}")))?;
    Ok(Policy::read(&name, &text).map_err(|error| wrong(error.to_string()))?)
}
