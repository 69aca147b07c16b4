//! What an agent does, as people read it: a line for each step, in the order of its events. Everything that comes from
//! inside a sandbox is made safe to show.

use std::collections::{BTreeMap, HashSet};

use omoi_protocol::{
    CallState,
    event::{AgentFileEdited, AgentStreamError, AgentToolCompleted, Payload, StoredEvent},
};
use owo_colors::Style as Paint;
use serde_json::Value;

use super::diff;
use crate::{
    out::{Style, clean},
    sandbox::{
        describe::argument,
        told::{abbreviate, cost, usd},
    },
    text::{short, span},
};

const LINE_CHARS_MAX: usize = 160;
const TEXT_CHARS_MAX: usize = 4_000;
const OUTPUT_LINES_MAX: usize = 6;
/// The cost is told again when it has grown by this much, and by a tenth.
const COST_STEP_MICRO_USD: i64 = 10_000;
const CALLS_MAX: usize = 10_000;

/// Goes through the events of one sandbox.
#[derive(Debug)]
pub struct Story {
    style: Style,
    /// Tool calls that have begun; the output of their commands comes with their results.
    calls: HashSet<String>,
    last_text: String,
    told_micro_usd: i64,
    pub known: Known,
}

/// What is known of the attempt so far.
#[derive(Debug, Default)]
pub struct Known {
    pub events: u64,
    pub turns: u64,
    pub micro_usd: i64,
    pub commits: Vec<String>,
    /// Lines added and removed, by file.
    pub files: BTreeMap<String, (u64, u64)>,
    /// The agent's last words.
    pub final_output: Option<String>,
    pub session_id: Option<String>,
    pub error: Option<String>,
}

impl Story {
    pub fn new(style: Style) -> Self {
        Self {
            style,
            calls: HashSet::new(),
            last_text: String::new(),
            told_micro_usd: 0,
            known: Known::default(),
        }
    }

    /// The lines for an event; none for one that says nothing to people.
    pub fn tell(&mut self, event: &StoredEvent) -> Vec<String> {
        self.known.events += 1;
        match event.payload() {
            Payload::ModelCall(data) => {
                self.known.micro_usd += cost(event.event_data.get()).unwrap_or(0);
                let refused = data.state == Some(CallState::Broken) || data.failure.is_some();
                let status = data.status_code.map(|code| format!(" with {code}")).unwrap_or_default();
                let advice = data.advice.as_deref().map(|advice| format!(": {advice}")).unwrap_or_default();
                let told = refused.then(|| self.bad(&format!("a model call failed{status}{advice}")));
                told.into_iter().chain(self.cost_so_far()).collect()
            }
            payload => self.step(payload),
        }
    }

    fn step(&mut self, payload: Payload) -> Vec<String> {
        match payload {
            Payload::WorkspaceProgress(_)
            | Payload::WorkspaceReady(_)
            | Payload::WorkspacePushed(_)
            | Payload::CommandStarted(_)
            | Payload::CommandOutput(_)
            | Payload::CommandCompleted(_)
            | Payload::CheckCompleted(_) => self.of_place(payload),
            Payload::AgentToolUse(data) => self.call(data.tool, data.tool_use_id, data.input.as_ref()),
            Payload::AgentSubagentInvoked(data) => {
                self.call(data.tool, data.tool_use_id, data.input.as_ref())
            }
            Payload::AgentSkillInvoked(data) => self.call(data.tool, data.tool_use_id, data.input.as_ref()),
            Payload::AgentToolResult(data) => {
                let shows = data.tool.as_deref() == Some("Bash") || data.is_error == Some(true);
                let result = data.result.filter(|_| shows).unwrap_or_default();
                self.output(&result)
            }
            Payload::AgentToolCompleted(data) => self.called(&data),
            Payload::AgentFileEdited(data) => self.file(&data),
            Payload::AgentCompleted(_) | Payload::AgentFailed(_) | Payload::SandboxFailed(_) => {
                self.ended(payload);
                Vec::new()
            }
            Payload::IterationStarted(_) | Payload::IterationFailed(_) | Payload::IterationValidation(_) => {
                self.of_iteration(payload)
            }
            payload => self.of_agent(payload),
        }
    }

    fn of_iteration(&self, payload: Payload) -> Vec<String> {
        match payload {
            Payload::IterationStarted(data) => {
                vec![self.mark("↻", &format!("iteration {}", data.state.iteration_num.unwrap_or(0)))]
            }
            Payload::IterationFailed(data) => {
                vec![self.bad(&format!("the iteration failed: {}", data.error.unwrap_or_default()))]
            }
            Payload::IterationValidation(data) if data.passed == Some(true) => {
                vec![self.good("the work has passed")]
            }
            Payload::IterationValidation(data) => {
                vec![self.bad(&format!("the work has not passed: {}", errors(data.errors.as_ref())))]
            }
            _ => Vec::new(),
        }
    }

    /// The workspace, and commands that no tool call has begun.
    fn of_place(&mut self, payload: Payload) -> Vec<String> {
        match payload {
            Payload::WorkspaceProgress(data) => {
                let words = [data.step, data.message];
                let text = words.into_iter().flatten().collect::<Vec<_>>().join(": ");
                if text.is_empty() { Vec::new() } else { vec![self.dim(&text)] }
            }
            Payload::WorkspaceReady(data) => {
                let branch = data.branch_name.unwrap_or_else(|| "its branch".to_owned());
                let at = data.commit.as_deref().map(|commit| format!(" at {}", abbreviate(commit)));
                vec![self.dim(&format!("workspace ready on {branch}{}", at.unwrap_or_default()))]
            }
            Payload::WorkspacePushed(data) => {
                let commit = data.commit.unwrap_or_default();
                let branch = data.branch_name.unwrap_or_else(|| "its branch".to_owned());
                let line = self.good(&format!("pushed {} to {branch}", abbreviate(&commit)));
                self.known.commit(commit);
                vec![line]
            }
            Payload::CommandStarted(data) if !self.is_call(data.command_id.as_deref()) => {
                vec![self.mark("$", &data.argv.unwrap_or_default().join(" "))]
            }
            Payload::CommandOutput(data) if !self.is_call(data.command_id.as_deref()) => {
                self.output(&data.text.unwrap_or_default())
            }
            Payload::CommandCompleted(data) if !self.is_call(data.command_id.as_deref()) => {
                vec![self.exit(data.exit_code, data.signal, data.duration_ms.map(|ms| ms as f64))]
            }
            Payload::CheckCompleted(data) => {
                let name = data.name.unwrap_or_else(|| "a check".to_owned());
                vec![if data.passed == Some(true) {
                    self.good(&format!("{name} passed"))
                } else {
                    self.bad(&format!("{name} failed"))
                }]
            }
            _ => Vec::new(),
        }
    }

    fn of_agent(&mut self, payload: Payload) -> Vec<String> {
        match payload {
            Payload::AgentStarted(data) if data.sdk.as_deref() == Some("checks") => {
                vec![self.dim("the declared checks run on the pushed commit")]
            }
            Payload::AgentStarted(data) => {
                let model = data.model.unwrap_or_else(|| "a model of its own".to_owned());
                let on = data.resumed_session_id.map(|id| format!(", going on with session {id}"));
                vec![self.dim(&format!("the agent works with {model}{}", on.unwrap_or_default()))]
            }
            Payload::AgentMessage(data) => self.text(data.content),
            Payload::AgentTextOutput(data) => self.text(data.content),
            Payload::AgentResponse(data) => self.text(data.content),
            Payload::AgentThinking(data) => {
                data.content.map(|text| self.dim(&format!("thinks: {text}"))).into_iter().collect()
            }
            Payload::AgentMessageInjected(data) => {
                let from = data.sender_id.unwrap_or_else(|| "somebody".to_owned());
                vec![self.mark("✉", &format!("{from}: {}", data.content.unwrap_or_default()))]
            }
            Payload::AgentInterrupted(data) => {
                vec![self.bad(&format!(
                    "interrupted: {}",
                    data.reason.unwrap_or_else(|| "by a message".to_owned())
                ))]
            }
            Payload::AgentWaiting(data) => {
                vec![self.dim(&data.message.unwrap_or_else(|| "waits for a message".to_owned()))]
            }
            Payload::AgentStreamError(data) => vec![self.again(&data)],
            Payload::AgentError(data) => vec![self.bad(&data.error.unwrap_or_else(|| "an error".to_owned()))],
            Payload::BudgetExceeded(data) => {
                let level = data.level.map(|level| level.to_string()).unwrap_or_default();
                let limit = data.limit_usd.map(|usd| format!(" (${})", usd.get())).unwrap_or_default();
                vec![self.bad(&format!("the budget of the {level}{limit} is used up"))]
            }
            Payload::EgressDenied(data) => {
                let (host, why) = (data.host.unwrap_or_default(), data.reason.unwrap_or_default());
                vec![self.bad(&format!("may not reach {host}: {why}"))]
            }
            Payload::AgentTurnComplete(data) => {
                self.known.turns = self.known.turns.max(data.num_turns.unwrap_or(0));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn ended(&mut self, payload: Payload) {
        let known = &mut self.known;
        match payload {
            Payload::AgentCompleted(data) => {
                known.turns = known.turns.max(data.turns.unwrap_or(0));
                known.session_id = data.session_id.or(known.session_id.take());
                known.final_output = data.final_output.or(known.final_output.take());
                known.error = data.error.or(known.error.take());
                data.commit.into_iter().for_each(|commit| known.commit(commit));
            }
            Payload::AgentFailed(data) => known.error = data.error.or(known.error.take()),
            Payload::SandboxFailed(data) => known.error = data.error.or(known.error.take()),
            _ => {}
        }
    }

    fn call(&mut self, tool: Option<String>, id: Option<String>, input: Option<&Value>) -> Vec<String> {
        if self.calls.len() < CALLS_MAX {
            self.calls.extend(id);
        }
        let tool = tool.unwrap_or_else(|| "a tool".to_owned());
        let with = input.and_then(argument).map(|text| format!("  {text}")).unwrap_or_default();
        vec![self.mark("→", &format!("{tool}{with}"))]
    }

    fn called(&mut self, data: &AgentToolCompleted) -> Vec<String> {
        if let Some(id) = &data.tool_use_id {
            self.calls.remove(id);
        }
        let took = data.duration_ms.as_ref().map(omoi_protocol::event::Decimal::get);
        match data.exit_code {
            Some(code) => vec![self.exit(Some(code), None, took)],
            None if data.is_error == Some(true) => {
                vec![self.bad(&format!("{} failed", data.tool.as_deref().unwrap_or("the tool")))]
            }
            None => Vec::new(),
        }
    }

    fn file(&mut self, data: &AgentFileEdited) -> Vec<String> {
        let path = data.file_path.clone().unwrap_or_default();
        let (added, removed) = (data.lines_added.unwrap_or(0), data.lines_removed.unwrap_or(0));
        let sum = self.known.files.entry(path.clone()).or_default();
        *sum = (sum.0 + added, sum.1 + removed);
        let change = data.change_type.as_ref().map_or("changed", |change| change.as_str()).to_owned();
        let from = data.previous_path.as_deref().map(|from| format!(" (was {from})")).unwrap_or_default();
        let words = short(&clean(&format!("{change} {path}{from}")), LINE_CHARS_MAX);
        let words = self.style.paint(&words, Paint::new().bold());
        let mut lines = vec![format!("  ± {words}  {}", diff::counts(added, removed, self.style))];
        let diff = data.full_diff.as_deref().or(data.diff_preview.as_deref()).unwrap_or_default();
        lines.extend(diff::small(diff, self.style).into_iter().map(|line| format!("      {line}")));
        lines
    }

    fn text(&mut self, content: Option<String>) -> Vec<String> {
        let text = content.unwrap_or_default();
        // Workers tell the same words under more than one name.
        if text.trim().is_empty() || text == self.last_text {
            return Vec::new();
        }
        let shown: String = clean(text.trim()).chars().take(TEXT_CHARS_MAX).collect();
        let mut lines: Vec<String> = shown.lines().map(|line| format!("  {line}")).collect();
        if text.trim().chars().count() > TEXT_CHARS_MAX {
            lines.push(self.dim("… and more"));
        }
        self.last_text = text;
        lines
    }

    fn output(&self, text: &str) -> Vec<String> {
        let text = clean(text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let shown = lines.iter().take(OUTPUT_LINES_MAX).map(|line| {
            self.style.paint(&format!("      {}", short(line, LINE_CHARS_MAX)), Paint::new().dimmed())
        });
        let more = lines.len().saturating_sub(OUTPUT_LINES_MAX);
        let more = (more > 0).then(|| self.dim(&format!("    … {more} more lines")));
        shown.chain(more).collect()
    }

    fn exit(&self, code: Option<i64>, signal: Option<i64>, took_ms: Option<f64>) -> String {
        let took = took_ms.map(|ms| jiff::SignedDuration::from_millis(ms.round() as i64));
        let took = took.map(|took| format!(" in {}", span(took))).unwrap_or_default();
        match (code, signal) {
            (Some(0), _) => self.good(&format!("exit 0{took}")),
            (Some(code), _) => self.bad(&format!("exit {code}{took}")),
            (None, Some(signal)) => self.bad(&format!("ended by signal {signal}{took}")),
            (None, None) => self.bad(&format!("ended{took}")),
        }
    }

    fn again(&self, data: &AgentStreamError) -> String {
        // Without a number of attempts, time is the limit.
        let attempt = data.attempt.zip(data.attempts_max.filter(|max| *max > 0));
        let attempt = attempt.map(|(n, max)| format!(", attempt {n} of {max}")).unwrap_or_default();
        let pause = data
            .retry_delay_ms
            .map(|ms| jiff::SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX)));
        let pause = pause.map(|pause| format!(" in {}", span(pause))).unwrap_or_default();
        let why = data.error.as_deref().unwrap_or("the stream broke off");
        self.mark("↻", &format!("asks the model again{pause}{attempt}: {why}"))
    }

    fn cost_so_far(&mut self) -> Option<String> {
        let grown = self.known.micro_usd - self.told_micro_usd;
        if grown < COST_STEP_MICRO_USD.max(self.told_micro_usd / 10) {
            return None;
        }
        self.told_micro_usd = self.known.micro_usd;
        Some(self.dim(&format!("{} so far", usd(self.known.micro_usd))))
    }

    fn is_call(&self, id: Option<&str>) -> bool {
        id.is_some_and(|id| self.calls.contains(id))
    }

    fn mark(&self, sign: &str, text: &str) -> String {
        format!("  {} {}", self.style.paint(sign, Paint::new().cyan()), short(&clean(text), LINE_CHARS_MAX))
    }

    fn good(&self, text: &str) -> String {
        format!("  {} {}", self.style.paint("✓", Paint::new().green()), short(&clean(text), LINE_CHARS_MAX))
    }

    fn bad(&self, text: &str) -> String {
        format!("  {} {}", self.style.paint("✗", Paint::new().red()), short(&clean(text), LINE_CHARS_MAX))
    }

    fn dim(&self, text: &str) -> String {
        self.style.paint(&format!("  {}", short(&clean(text), LINE_CHARS_MAX)), Paint::new().dimmed())
    }
}

fn errors(list: Option<&Value>) -> String {
    let texts = list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join("; ")
}

impl Known {
    fn commit(&mut self, commit: String) {
        if !commit.is_empty() && !self.commits.contains(&commit) {
            self.commits.push(commit);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sandbox::describe::tests::event;

    fn told(events: &[(&str, Value)]) -> (Vec<String>, Known) {
        let mut story = Story::new(Style::PLAIN);
        let lines = events.iter().flat_map(|(kind, data)| story.tell(&event(kind, data))).collect();
        (lines, story.known)
    }

    #[test]
    fn a_run_reads_as_a_story() {
        let bash = json!({ "tool": "Bash", "tool_use_id": "t1", "input": { "command": "python3 x.py" } });
        let (lines, known) = told(&[
            ("sandbox.booting", json!({})),
            ("workspace.ready", json!({ "branch_name": "feature/x", "commit": "0123456789abcdef" })),
            ("agent.message", json!({ "content": "I begin.\nSoon." })),
            ("agent.text_output", json!({ "content": "I begin.\nSoon." })),
            ("agent.tool_use", bash),
            ("command.started", json!({ "command_id": "t1", "argv": ["/bin/bash", "-c", "python3 x.py"] })),
            ("command.output", json!({ "command_id": "t1", "text": "42\n" })),
            ("command.completed", json!({ "command_id": "t1", "exit_code": 0 })),
            ("agent.tool_result", json!({ "tool": "Bash", "tool_use_id": "t1", "result": "42\n" })),
            (
                "agent.tool_completed",
                json!({ "tool": "Bash", "tool_use_id": "t1", "exit_code": 0, "duration_ms": 1500.0 }),
            ),
            (
                "agent.file_edited",
                json!({
                    "file_path": "x.py", "change_type": "created", "lines_added": 1, "diff_preview": "--- /dev/null\n+++ b/x.py\n@@ -0,0 +1 @@\n+print(42)\n",
                }),
            ),
            ("agent.message_injected", json!({ "sender_id": "ada", "content": "faster" })),
            ("workspace.pushed", json!({ "branch_name": "feature/x", "commit": "abcdef0123456789" })),
            (
                "agent.completed",
                json!({ "commit": "abcdef0123456789", "turns": 4, "final_output": "42", "session_id": "s" }),
            ),
        ]);
        assert_eq!(
            lines,
            [
                "  workspace ready on feature/x at 0123456789ab",
                "  I begin.",
                "  Soon.",
                "  → Bash  python3 x.py",
                "      42",
                "  ✓ exit 0 in 1s",
                "  ± created x.py  +1 −0",
                "      @@ -0,0 +1 @@",
                "      +print(42)",
                "  ✉ ada: faster",
                "  ✓ pushed abcdef012345 to feature/x",
            ]
        );
        assert_eq!((known.commits, known.turns), (vec!["abcdef0123456789".to_owned()], 4));
        assert_eq!((known.final_output.as_deref(), known.events), (Some("42"), 14));
    }

    #[test]
    fn iterations_are_told_and_what_has_not_passed_says_why() {
        let (lines, _) = told(&[
            ("iteration.started", json!({ "iteration_num": 1 })),
            ("iteration.validation", json!({ "passed": false, "errors": ["no push", "not clean"] })),
            ("iteration.failed", json!({ "error": "no turns left" })),
            ("iteration.started", json!({ "iteration_num": 3 })),
            ("iteration.validation", json!({ "passed": true, "errors": [] })),
        ]);
        assert_eq!(
            lines,
            [
                "  ↻ iteration 1",
                "  ✗ the work has not passed: no push; not clean",
                "  ✗ the iteration failed: no turns left",
                "  ↻ iteration 3",
                "  ✓ the work has passed",
            ]
        );
    }

    #[test]
    fn a_command_without_a_call_tells_of_itself() {
        let (lines, _) = told(&[
            ("command.started", json!({ "command_id": "c", "argv": ["make", "test"] })),
            ("command.output", json!({ "command_id": "c", "text": "1\n2\n3\n4\n5\n6\n7\n8\n" })),
            ("command.completed", json!({ "command_id": "c", "exit_code": 2 })),
        ]);
        assert_eq!(
            (lines.first().unwrap().as_str(), lines.last().unwrap().as_str()),
            ("  $ make test", "  ✗ exit 2")
        );
        assert_eq!(lines[7].trim(), "… 2 more lines");
    }

    #[test]
    fn what_a_sandbox_says_cannot_steer_the_terminal() {
        let evil = "\u{1b}]0;owned\u{7}\u{202e}\r";
        let (lines, _) = told(&[
            ("agent.message", json!({ "content": evil })),
            ("agent.thinking", json!({ "content": evil })),
            ("agent.tool_use", json!({ "tool": evil, "input": { "command": evil } })),
            ("agent.tool_result", json!({ "tool": "Bash", "result": evil })),
            ("agent.file_edited", json!({ "file_path": evil, "diff_preview": format!("@@\n+{evil}") })),
            ("agent.message_injected", json!({ "sender_id": evil, "content": evil })),
            ("agent.stream_error", json!({ "error": evil })),
            ("agent.error", json!({ "error": evil })),
            ("command.started", json!({ "argv": [evil] })),
            ("command.output", json!({ "text": evil })),
            ("workspace.ready", json!({ "branch_name": evil, "commit": evil })),
        ]);
        assert!(lines.len() >= 11);
        for line in lines {
            assert!(!line.contains(['\u{1b}', '\u{7}', '\u{202e}', '\r', '\n']), "{line:?}");
        }
    }

    #[test]
    fn retries_and_money_are_told() {
        let again =
            json!({ "error": "overloaded", "attempt": 2, "attempts_max": 10, "retry_delay_ms": 4000 });
        let call = |usd: f64| ("model.call", json!({ "state": "done", "cost_usd": usd }));
        let (lines, known) = told(&[
            ("agent.stream_error", again),
            ("model.call", json!({ "state": "broken", "status_code": 529 })),
            (
                "model.call",
                json!({ "state": "done", "status_code": 401, "failure": "key_invalid", "advice": "set the key" }),
            ),
            call(0.004),
            call(0.007),
            call(0.001),
        ]);
        assert_eq!(
            lines,
            [
                "  ↻ asks the model again in 4s, attempt 2 of 10: overloaded",
                "  ✗ a model call failed with 529",
                "  ✗ a model call failed with 401: set the key",
                "  $0.011000 so far",
            ]
        );
        assert_eq!(known.micro_usd, 12_000);
    }
}
