//! `omoi doctor`: what this machine can do, and what to do about what it cannot. It changes nothing.

mod isolation;
mod program;
mod setting;
mod store;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::Result;
use omoi_launcher::Status;
use omoi_server::sandbox::local::Programs;
use owo_colors::Style as Paint;
use serde::Serialize;

use self::isolation::Create;
use crate::{
    Context,
    failure::{FAILED, Stop},
    out::{Style, clean},
    settings::Settings,
};

const EXAMPLES: &str = "\
Examples:
  omoi doctor
  omoi doctor --data-dir /srv/omoi --json

Each layer of isolation is tried in a sandbox that is thrown away, by the user that asks: ask as the one that runs the
server. Exit code 0 when the server can run and sandboxes can be made here, 1 otherwise; the first thing that is missing is
named on standard error.";

/// Say what this machine can do, and how to get what is missing
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// It works with limits, or there is no telling.
    Warn,
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    Server,
    Sandboxes,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub area: &'static str,
    pub name: &'static str,
    pub level: Level,
    /// What cannot be had without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_by: Option<Need>,
    /// How a layer of isolation is had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// What becomes of a sandbox that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<Create>,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    pub fn ok(area: &'static str, name: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let (needed_by, status, create, fix) = (None, None, None, None);
        Self { area, name, level: Level::Ok, needed_by, status, create, detail, fix }
    }

    pub fn warn(
        area: &'static str,
        name: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Warn, fix: Some(fix.into()), ..Self::ok(area, name, detail) }
    }

    pub fn missing(
        area: &'static str,
        name: &'static str,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Missing, ..Self::warn(area, name, detail, fix) }
    }

    pub fn needed_by(self, need: Need) -> Self {
        Self { needed_by: Some(need), ..self }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    /// Whether the server can run.
    server: bool,
    /// Whether sandboxes can be made on this machine.
    sandboxes: bool,
    checks: Vec<Check>,
}

impl Report {
    fn new(checks: Vec<Check>) -> Self {
        let has = |need: Need| first_missing(&checks, need).is_none();
        let (server, sandboxes) = (has(Need::Server), has(Need::Sandboxes));
        Self { ok: server && sandboxes, server, sandboxes, checks }
    }

    fn verdict(&self) -> Result<(), Stop> {
        let stop = |cause: String| Stop::new(FAILED, cause).hint("the lines above end with what to do");
        let missing = |need| first_missing(&self.checks, need);
        if let Some(check) = missing(Need::Server) {
            return Err(stop(format!("the server cannot run here without {}: {}", check.name, check.detail)));
        }
        if let Some(check) = missing(Need::Sandboxes) {
            return Err(stop(format!(
                "no sandbox can be made here without {}: {}",
                check.name, check.detail
            )));
        }
        Ok(())
    }
}

fn first_missing(checks: &[Check], need: Need) -> Option<&Check> {
    checks.iter().find(|check| check.needed_by == Some(need) && check.level == Level::Missing)
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let resolved = self.settings.resolve(cx)?;
        let config = &resolved.config;
        let mut checks = setting::checks(&resolved);
        checks.extend(store::checks(&resolved).await);
        let programs = Programs::new(config, &beside()?);
        let ours = program::ours(&programs);
        let has = |checks: &[Check], name| {
            checks.iter().any(|check: &Check| check.name == name && check.level == Level::Ok)
        };
        // Without the launcher there is nobody to ask.
        if has(&ours, program::LAUNCHER) {
            checks.extend(match has(&checks, store::DATA_DIR) {
                true => isolation::checks(&programs.launcher, &config.data_dir, &config.sandbox).await,
                false => vec![isolation::not_tried()],
            });
        }
        checks.extend(ours);
        checks.extend(program::checks((cx.env)("PATH").as_deref()).await);
        let report = Report::new(checks);
        cx.out.outlast_reader();
        cx.out.answer(&report, |style| text(&report.checks, style))?;
        Ok(report.verdict()?)
    }
}

/// The directory that `omoi` itself is in.
fn beside() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().map(PathBuf::from).unwrap_or_default())
}

/// A name for a scratch file or directory that is removed again. Each is used once: the threads of a scratch store end
/// after it and could remove the log of the next one under the same name.
fn scratch_name() -> String {
    static USED: AtomicUsize = AtomicUsize::new(0);
    format!(".omoi-doctor-{}-{}", std::process::id(), USED.fetch_add(1, Ordering::Relaxed))
}

fn text(checks: &[Check], style: Style) -> String {
    let mut area = "";
    let mut lines = Vec::new();
    for check in checks {
        if check.area != area {
            area = check.area;
            lines.push(style.paint(area, Paint::new().bold()));
        }
        let (word, paint) = match check.level {
            Level::Ok => ("ok", Paint::new().green()),
            Level::Warn => ("warn", Paint::new().yellow()),
            Level::Missing => ("missing", Paint::new().red()),
        };
        let word = match check.status {
            Some(Status::Yes) => "yes",
            Some(Status::Reduced) => "reduced",
            Some(Status::No) => "no",
            None => word,
        };
        let word = style.paint(&format!("{word:7}"), paint);
        lines.push(format!("  {word}  {:17}  {}", check.name, clean(&check.detail)));
        let follows = match check.create {
            Some(Create::Refuses) => Some("sandboxes are refused"),
            Some(Create::RunsReduced) => Some("sandboxes run, with reduced isolation"),
            Some(Create::Runs) | None => None,
        };
        lines.extend(follows.map(|follows| format!("{:30}{follows}", "")));
        if let Some(fix) = check.fix.as_ref().filter(|fix| !fix.is_empty()) {
            lines.push(format!("{:30}fix: {}", "", clean(fix)));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_a_line_under_its_area_with_what_to_do() {
        let layer = Check::missing("isolation", "seccomp", "not there", "use another kernel");
        let checks = [
            Check::ok("store", "data directory", "/srv is writable").needed_by(Need::Server),
            Check { status: Some(Status::No), create: Some(Create::Refuses), ..layer },
            Check::missing("programs", "git", "not on the PATH", "install git"),
        ];
        let expected = "store
  ok       data directory     /srv is writable
isolation
  no       seccomp            not there
                              sandboxes are refused
                              fix: use another kernel
programs
  missing  git                not on the PATH
                              fix: install git";
        assert_eq!(text(&checks, Style::PLAIN), expected);
    }

    #[test]
    fn the_first_thing_that_is_missing_decides() {
        let verdict = |checks: Vec<Check>| Report::new(checks).verdict().err().map(|stop| stop.to_string());
        let git = || Check::missing("programs", "git", "not on the PATH", "install git");
        let of = |need| Check::missing("isolation", "seccomp", "not there", "x").needed_by(need);
        assert_eq!(verdict(vec![git()]), None);
        let said = verdict(vec![of(Need::Sandboxes), git().needed_by(Need::Sandboxes)]).unwrap();
        assert_eq!(said, "no sandbox can be made here without seccomp: not there");
        let said = verdict(vec![git().needed_by(Need::Sandboxes), of(Need::Server)]).unwrap();
        assert!(said.starts_with("the server cannot run here without seccomp"), "{said}");
    }
}
