//! `omoi doctor`: what this machine can do, and what to do about what it cannot. It changes nothing.

mod isolation;
mod program;
mod store;

use std::path::Path;

use anyhow::Result;
use owo_colors::Style as Paint;
use serde::Serialize;

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

Exit code 0 when everything that the server needs is there, 1 otherwise. What only sandboxes on this machine would
need is told as well, and does not count.";

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

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub area: &'static str,
    pub name: &'static str,
    pub level: Level,
    /// Whether the server cannot run without it.
    pub required: bool,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    pub fn ok(area: &'static str, name: &'static str, detail: impl Into<String>) -> Self {
        Self { area, name, level: Level::Ok, required: false, detail: detail.into(), fix: None }
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

    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

impl Args {
    pub async fn run(self, cx: &Context) -> Result<()> {
        let resolved = self.settings.resolve(cx)?;
        let mut checks = store::checks(&resolved).await;
        checks.extend(isolation::checks(Path::new("/")));
        checks.extend(program::checks((cx.env)("PATH").as_deref(), (cx.env)("DOCKER_HOST").as_deref()).await);
        let absent = checks.iter().filter(|check| check.required && check.level == Level::Missing);
        let absent: Vec<_> = absent.map(|check| check.name).collect();
        let failed = (!absent.is_empty())
            .then(|| format!("the server cannot run here without: {}", absent.join(", ")));
        let report = Report { ok: failed.is_none(), checks };
        cx.out.answer(&report, |style| text(&report.checks, style))?;
        match failed {
            Some(cause) => Err(Stop::new(FAILED, cause).hint("each line above ends with what to do").into()),
            None => Ok(()),
        }
    }
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
        let word = style.paint(&format!("{word:7}"), paint);
        lines.push(format!("  {word}  {:16}  {}", check.name, clean(&check.detail)));
        if let Some(fix) = &check.fix {
            lines.push(format!("{:29}fix: {}", "", clean(fix)));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_a_line_under_its_area_with_what_to_do() {
        let checks = [
            Check::ok("store", "data directory", "/srv is writable").required(),
            Check::missing("programs", "git", "not on the PATH", "install git"),
        ];
        assert_eq!(
            text(&checks, Style::PLAIN),
            "store\n  ok       data directory    /srv is writable\nprograms\n  missing  git               not on the PATH\n\
             \x20                            fix: install git"
        );
    }
}
