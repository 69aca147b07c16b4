//! What was looked at and what came of it, step by step: a line each for people, one object for programs.

use std::{fmt, time::Instant};

use anyhow::Result;
use omoi_protocol::{ProjectId, SandboxId, TaskId, TicketId};
use owo_colors::Style as Paint;
use serde::Serialize;

use crate::{
    Context,
    demo::ms,
    failure::Failure,
    out::{Style, clean},
    text::short,
};

const NAME_WIDTH: usize = 12;
const TIME_WIDTH: usize = 9;
const SEEN_CHARS_MAX: usize = 160;

/// What was looked at.
#[derive(Debug, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub held: bool,
    /// From the beginning of the whole to the end of this step.
    pub at_ms: u64,
    pub took_ms: u64,
    pub seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Something is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub expected: String,
    pub seen: String,
    pub next: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}; seen: {}", self.expected, self.seen)
    }
}

impl std::error::Error for Wrong {}

#[derive(Debug, Default, Serialize)]
pub struct Ids {
    pub project_id: Option<ProjectId>,
    pub ticket_id: Option<TicketId>,
    pub task_id: Option<TaskId>,
    pub sandbox_id: Option<SandboxId>,
}

#[derive(Debug, Serialize)]
pub struct Report {
    /// `held` when every step did, else `failed`.
    pub status: &'static str,
    #[serde(flatten)]
    pub ids: Ids,
    pub steps: Vec<Step>,
    /// Steps that nothing came to, because one before them failed.
    pub not_reached: Vec<&'static str>,
    pub duration_ms: u64,
}

pub struct Log<'c> {
    cx: &'c Context,
    began: Instant,
    steps: Vec<Step>,
}

impl<'c> Log<'c> {
    pub fn new(cx: &'c Context) -> Self {
        Self { cx, began: Instant::now(), steps: Vec::new() }
    }

    /// Looks, and tells what came of it. None when it did not hold.
    pub async fn step(
        &mut self,
        name: &'static str,
        look: impl Future<Output = Result<String>>,
    ) -> Option<()> {
        let begun = Instant::now();
        let looked = Box::pin(look).await;
        let step = judge(name, ms(self.began), ms(begun), looked);
        let held = step.held;
        if !self.cx.out.is_json() {
            // Nobody who reads has gone away for good; the exit code still says it.
            let _ = self.cx.out.line(&line(&step, self.cx.out.style));
        }
        self.steps.push(step);
        held.then_some(())
    }

    pub fn report(self, ids: Ids, all: &[&'static str]) -> Report {
        let duration_ms = ms(self.began);
        Report { ids, duration_ms, ..Report::of(self.steps, all) }
    }
}

impl Report {
    fn of(steps: Vec<Step>, all: &[&'static str]) -> Self {
        let reached = |name: &&str| steps.iter().any(|step| step.name == *name);
        let not_reached: Vec<&'static str> = all.iter().filter(|name| !reached(name)).copied().collect();
        let held = not_reached.is_empty() && steps.iter().all(|step| step.held);
        let status = if held { "held" } else { "failed" };
        Self { status, ids: Ids::default(), steps, not_reached, duration_ms: 0 }
    }

    pub fn held(&self) -> bool {
        self.status == "held"
    }

    /// The last line.
    pub fn text(&self) -> String {
        let held = self.steps.iter().filter(|step| step.held).count();
        let took = time(self.duration_ms);
        if self.held() {
            return format!("\nAll {held} steps held in {took}.");
        }
        let mut text = format!("\n{held} steps held, {} did not", self.steps.len() - held);
        if !self.not_reached.is_empty() {
            text.push_str(&format!("; not reached: {}", self.not_reached.join(", ")));
        }
        format!("{text} ({took}).")
    }
}

fn judge(name: &'static str, at_ms: u64, took_ms: u64, looked: Result<String>) -> Step {
    let error = match looked {
        Ok(seen) => return Step { name, held: true, at_ms, took_ms, seen, expected: None, next: None },
        Err(error) => error,
    };
    let wrong = match error.downcast_ref::<Wrong>() {
        Some(wrong) => wrong.clone(),
        None => {
            let failure = Failure::of(&error);
            let next = failure.as_ref().and_then(|failure| failure.hint.clone());
            Wrong {
                expected: "an answer".to_owned(),
                seen: failure.map_or_else(|| error.to_string(), |failure| failure.cause),
                next: next.unwrap_or_else(|| "the server's log says more".to_owned()),
            }
        }
    };
    let (expected, next) = (Some(wrong.expected), Some(wrong.next));
    Step { name, held: false, at_ms, took_ms, seen: wrong.seen, expected, next }
}

fn line(step: &Step, style: Style) -> String {
    let sign = match step.held {
        true => style.paint("✓", Paint::new().green()),
        false => style.paint("✗", Paint::new().red()),
    };
    let (name, took) = (step.name, time(step.took_ms));
    let seen = short(&clean(&step.seen), SEEN_CHARS_MAX);
    let (Some(expected), Some(next)) = (&step.expected, &step.next) else {
        return format!("{sign} {name:NAME_WIDTH$} {took:>TIME_WIDTH$}  {seen}");
    };
    let rest = [("expected", expected.as_str()), ("seen", &step.seen), ("next", next)];
    let rest: Vec<String> =
        rest.iter().map(|(what, text)| format!("    {what:8}  {}", clean(text))).collect();
    format!("{sign} {name:NAME_WIDTH$} {took:>TIME_WIDTH$}\n{}", rest.join("\n"))
}

fn time(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { format!("{:.1} s", ms as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Stop;

    #[test]
    fn a_step_that_held_is_a_line_and_one_that_did_not_says_what_to_do() {
        let held = judge("task", 900, 12, Ok("task-1".to_owned()));
        assert_eq!(line(&held, Style::PLAIN), "✓ task             12 ms  task-1");
        let wrong = Wrong {
            expected: "a heartbeat".to_owned(),
            seen: "3 events\u{1b}[2J".to_owned(),
            next: "look".to_owned(),
        };
        let broken = judge("heartbeat", 900, 30_000, Err(wrong.into()));
        let text = line(&broken, Style::PLAIN);
        assert_eq!(
            text,
            "✗ heartbeat       30.0 s\n    expected  a heartbeat\n    seen      3 events\\u{1b}[2J\n    next      look"
        );
        let refused = judge("project", 1, 1, Err(Stop::new(4, "no token").hint("set OMOI_TOKEN").into()));
        assert_eq!((refused.held, refused.seen.as_str()), (false, "no token"));
        assert_eq!(refused.next.as_deref(), Some("set OMOI_TOKEN"));
    }

    #[test]
    fn a_report_holds_only_when_every_step_was_reached_and_held() {
        let step = |name, held| Step {
            name,
            held,
            at_ms: 1,
            took_ms: 1,
            seen: String::new(),
            expected: None,
            next: None,
        };
        let report = |steps: Vec<Step>| Report::of(steps, &["a", "b"]);
        assert!(report(vec![step("a", true), step("b", true)]).held());
        assert!(!report(vec![step("a", true), step("b", false)]).held());
        let short = report(vec![step("a", true)]);
        assert_eq!((short.held(), short.not_reached.as_slice()), (false, &["b"][..]));
        assert!(short.text().contains("not reached: b"), "{}", short.text());
    }
}
