//! What one event tells supervision. Only the fields that some rule reads are taken out of an event's data; the long
//! ones that no rule reads (output as it comes) are passed over. Data that does not fit its type tells nothing.

use omoi_protocol::{
    EventSource,
    event::{EventKind, StoredEvent, is_work},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    judge,
    synthetic::{is_interrupt, persons_words},
    text::clip,
    trajectory::{checks::is_about_tests, judged::Opinion},
};

/// Of a larger diff only the beginning is judged.
const DIFF_CHARS_MAX: u64 = 1_000_000;
/// Of what a person says only so much is read.
const TOLD_CHARS_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq)]
pub enum Sign {
    Began {
        goal: String,
        mode: String,
    },
    Goal(String),
    /// A text of the agent; `parent` is the call that a helper works for.
    Said {
        text: String,
        parent: Option<String>,
    },
    Call(Call),
    Result {
        id: String,
        text: String,
        failed: bool,
    },
    Edited(Edit),
    HelperAsked {
        id: String,
        prompt: String,
    },
    HelperDone {
        id: String,
    },
    /// A message is in front of the agent.
    Told {
        text: String,
        from: String,
        kind: String,
    },
    /// The agent has halted; `text` is what it says of it.
    Halted {
        text: Option<String>,
    },
    Waiting,
    Ended {
        success: Option<bool>,
        text: Option<String>,
        /// A check that failed by its own report.
        failed_check: Option<String>,
        usd: Option<f64>,
    },
    Checked {
        name: String,
        passed: bool,
    },
    Pushed,
    Spent {
        usd: f64,
        tokens: u64,
    },
    OverBudget,
    /// What the judge said; none where it failed.
    Judged(Option<Opinion>),
    Beat {
        cpu_seconds: Option<f64>,
        io_bytes: Option<f64>,
        status: Option<String>,
    },
    /// Work of a kind that no rule looks into.
    Work,
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Call {
    pub id: String,
    pub tool: String,
    pub parent: Option<String>,
    /// The whole input as JSON.
    pub input: String,
    /// Of a shell.
    pub command: Option<String>,
    pub path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    pub path: String,
    pub previous_path: Option<String>,
    pub is_created: bool,
    pub is_deleted: bool,
    pub diff: String,
    /// The diff is only the beginning of what was changed.
    pub is_cut: bool,
}

impl Sign {
    pub fn of(event: &StoredEvent) -> Self {
        // Whoever is judged has no say in it.
        if event.event_type == judge::EVENT && event.source == EventSource::System {
            return Self::Judged(judge::answer::opinion(event.event_data.get()));
        }
        let Some(kind) = EventKind::of(&event.event_type) else { return Self::or_work(event) };
        let read = || serde_json::from_str::<Fields<'_>>(event.event_data.get()).ok();
        match kind {
            // Long, frequent, and told again by what follows them.
            EventKind::CommandOutput | EventKind::AgentToolCompleted | EventKind::AgentAssistantMessage => {
                Self::Work
            }
            _ => read().map_or(Self::Nothing, |fields| fields.sign(kind)).or(event),
        }
    }

    /// Whether a rule needs the whole diff of an event that was stored without it.
    pub fn lacks_diff(event: &StoredEvent) -> bool {
        if EventKind::of(&event.event_type) != Some(EventKind::AgentFileEdited) {
            return false;
        }
        let Ok(fields) = serde_json::from_str::<Fields<'_>>(event.event_data.get()) else { return false };
        let is_bounded = fields.full_diff_size.is_none_or(|size| size <= DIFF_CHARS_MAX);
        let is_stored_apart = fields.full_diff.is_none() && fields.full_diff_available == Some(true);
        is_stored_apart && is_bounded && fields.file_path.is_some_and(|path| is_about_tests(&path))
    }

    fn or(self, event: &StoredEvent) -> Self {
        if self == Self::Nothing { Self::or_work(event) } else { self }
    }

    fn or_work(event: &StoredEvent) -> Self {
        if is_work(&event.event_type) { Self::Work } else { Self::Nothing }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields<'a> {
    task: Option<String>,
    mode: Option<String>,
    goal: Option<String>,
    content: Option<String>,
    turn: Option<u64>,
    tool: Option<String>,
    tool_use_id: Option<String>,
    parent_tool_use_id: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    result: Option<String>,
    is_error: Option<bool>,
    file_path: Option<String>,
    previous_path: Option<String>,
    change_type: Option<String>,
    diff_preview: Option<String>,
    full_diff: Option<String>,
    full_diff_available: Option<bool>,
    full_diff_size: Option<u64>,
    lines_added: Option<u64>,
    lines_removed: Option<u64>,
    subagent_prompt: Option<String>,
    message_type: Option<String>,
    sender_id: Option<String>,
    success: Option<bool>,
    final_output: Option<String>,
    tests_passed: Option<bool>,
    #[serde(borrow)]
    ci_status: Option<&'a RawValue>,
    cost_usd: Option<f64>,
    name: Option<String>,
    passed: Option<bool>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    cpu_seconds: Option<f64>,
    io_bytes: Option<f64>,
    status: Option<String>,
    error: Option<String>,
}

/// A check of a pull request, as GitHub's program lists it.
#[derive(Deserialize)]
struct Check {
    name: Option<String>,
    state: Option<String>,
    conclusion: Option<String>,
}

impl Check {
    fn has_failed(&self) -> bool {
        let failed = ["failure", "failed", "error", "timed_out", "startup_failure"];
        let told = [&self.conclusion, &self.state];
        told.into_iter().flatten().any(|word| failed.contains(&word.to_lowercase().as_str()))
    }
}

/// The fields of inputs that tools of several makers share.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Input {
    command: Option<String>,
    cmd: Option<String>,
    file_path: Option<String>,
    path: Option<String>,
}

impl Fields<'_> {
    fn sign(self, kind: EventKind) -> Sign {
        use EventKind as K;
        match kind {
            K::AgentStarted => {
                Sign::Began { goal: self.task.unwrap_or_default(), mode: self.mode.unwrap_or_default() }
            }
            K::ContinuousStarted => Sign::Goal(self.goal.unwrap_or_default()),
            K::AgentUserMessage if self.turn.unwrap_or(0) == 0 => {
                let goal = clip(&self.content.unwrap_or_default(), TOLD_CHARS_MAX);
                persons_words(&goal).map_or(Sign::Work, |goal| Sign::Goal(goal.into_owned()))
            }
            K::AgentMessage | K::AgentTextOutput | K::AgentResponse => {
                Sign::Said { text: self.content.unwrap_or_default(), parent: self.parent_tool_use_id }
            }
            K::AgentToolUse | K::AgentSkillInvoked => Sign::Call(self.call()),
            K::AgentSubagentInvoked => Sign::HelperAsked {
                id: self.tool_use_id.unwrap_or_default(),
                prompt: self.subagent_prompt.unwrap_or_default(),
            },
            K::AgentSubagentCompleted => Sign::HelperDone { id: self.tool_use_id.unwrap_or_default() },
            K::AgentToolResult | K::AgentUserToolResult => Sign::Result {
                id: self.tool_use_id.unwrap_or_default(),
                text: self.result.unwrap_or_default(),
                failed: self.is_error.unwrap_or(false),
            },
            K::AgentFileEdited => self.edited(),
            K::AgentMessageInjected => self.told(),
            K::AgentTurnComplete => Sign::Halted { text: None },
            K::AgentResult => Sign::Halted { text: self.result },
            K::AgentWaiting | K::AgentInterrupted => Sign::Waiting,
            K::AgentCompleted => Sign::Ended {
                success: self.success,
                failed_check: self.failed_check(),
                text: self.final_output,
                usd: self.cost_usd,
            },
            K::AgentFailed => {
                Sign::Ended { success: Some(false), text: self.error, failed_check: None, usd: self.cost_usd }
            }
            K::SandboxFailed | K::SandboxLost | K::SandboxTerminated | K::AgentShutdown => {
                Sign::Ended { success: None, text: None, failed_check: None, usd: None }
            }
            K::CheckCompleted => {
                Sign::Checked { name: self.name.unwrap_or_default(), passed: self.passed.unwrap_or(false) }
            }
            K::WorkspacePushed => Sign::Pushed,
            K::ModelCall => {
                let tokens = [self.input_tokens, self.output_tokens, self.cache_write_tokens];
                Sign::Spent {
                    usd: self.cost_usd.unwrap_or(0.0),
                    tokens: tokens.into_iter().flatten().fold(0, u64::saturating_add),
                }
            }
            K::BudgetExceeded => Sign::OverBudget,
            K::AgentHeartbeat | K::BareHeartbeat | K::SpecHeartbeat => {
                Sign::Beat { cpu_seconds: self.cpu_seconds, io_bytes: self.io_bytes, status: self.status }
            }
            _ => Sign::Nothing,
        }
    }

    fn told(self) -> Sign {
        let text = clip(&self.content.unwrap_or_default(), TOLD_CHARS_MAX);
        let from = self.sender_id.unwrap_or_default();
        match persons_words(&text) {
            Some(words) => {
                Sign::Told { text: words.into_owned(), from, kind: self.message_type.unwrap_or_default() }
            }
            None if is_interrupt(&text) => Sign::Waiting,
            None => Sign::Work,
        }
    }

    /// The earlier system's worker says `tests_passed: false` where it has looked at no test at all, so a failure is one only
    /// where the checks that it lists tell of it.
    fn failed_check(&self) -> Option<String> {
        if self.tests_passed != Some(false) {
            return None;
        }
        let checks: Vec<Check> = serde_json::from_str(self.ci_status?.get()).ok()?;
        checks.into_iter().find(Check::has_failed).map(|check| check.name.unwrap_or_default())
    }

    fn call(self) -> Call {
        let raw = self.input.map(RawValue::get).unwrap_or("{}");
        let input: Input = serde_json::from_str(raw).unwrap_or_default();
        Call {
            id: self.tool_use_id.unwrap_or_default(),
            tool: self.tool.unwrap_or_default(),
            parent: self.parent_tool_use_id,
            input: raw.to_owned(),
            command: input.command.or(input.cmd),
            path: input.file_path.or(input.path),
        }
    }

    /// The whole diff where the event has it; the preview ends after 100 lines.
    fn edited(self) -> Sign {
        let change = self.change_type.unwrap_or_default();
        let is_whole = self.full_diff.is_some();
        let diff = self.full_diff.or(self.diff_preview).unwrap_or_default();
        let told = self.lines_added.unwrap_or(0) + self.lines_removed.unwrap_or(0);
        let is_cut = !is_whole && (self.full_diff_available == Some(true) || changed_lines(&diff) < told);
        Sign::Edited(Edit {
            path: self.file_path.unwrap_or_default(),
            previous_path: self.previous_path,
            is_created: change == "created",
            is_deleted: change == "deleted",
            diff,
            is_cut,
        })
    }
}

/// Lines that a diff puts in or takes out; headers are counted with them.
fn changed_lines(diff: &str) -> u64 {
    diff.lines().filter(|line| line.starts_with(['+', '-'])).count() as u64
}
