//! A trajectory: one sandbox's work, summed up as its events come. Taking an event costs the same however many came
//! before, and the summary is bounded whatever they hold; time is the events' own. All rules look at this and nothing else.

pub mod checks;
pub mod evidence;
pub mod file;
pub mod gauge;
pub mod instruction;
pub mod judged;
pub mod step;

use std::sync::Arc;

use jiff::Timestamp;
use omoi_protocol::event::StoredEvent;
use serde::{Deserialize, Serialize};

use super::{
    sign::{Call, Sign},
    text::{Ring, clip, error_of, hash_both, words},
};
use crate::domain::footprint::covers;
use checks::Checks;
use evidence::Evidence;
use file::Files;
use gauge::{Failure, Helpers, Pulse, Seen, Spend, Troubles};
use instruction::{INSTRUCTIONS, Instruction, constraints, hear};
use judged::Judged;
use step::{Exit, Steps};

/// One summary is never larger.
pub const BYTES_MAX: usize = 64 * 1024;
const GOAL_CHARS: usize = 2_000;
const SAID_CHARS: usize = 1_200;
const COMMAND_CHARS: usize = 3_000;
const CHECK_CHARS: usize = 120;
const CONSTRAINTS_MAX: usize = 10;
const GOAL_WORDS_MAX: usize = 200;
const MARKS: usize = 16;

/// What was agreed before the work began and stands in no event.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Charter {
    /// Globs of the files that the task means to change.
    pub owned_files: Vec<String>,
    pub budget_usd: Option<f64>,
}

impl Charter {
    /// What a task says: its files, and the least of its budgets.
    pub fn of_task(
        owned_files: Vec<String>,
        execution_config: &serde_json::Map<String, serde_json::Value>,
    ) -> Self {
        let amount = |key: &str| execution_config.get(key).and_then(serde_json::Value::as_f64);
        let budgets = ["max_total_cost_usd", "max_budget_usd", "budget_usd"];
        let budget_usd =
            budgets.iter().filter_map(|key| amount(key)).filter(|usd| *usd > 0.0).reduce(f64::min);
        Self { owned_files, budget_usd }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Preparing,
    Working,
    /// For somebody to speak.
    Waiting,
    Ended,
}

/// What it is at, as far as its last calls show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Focus {
    Starting,
    Exploring,
    Implementing,
    Testing,
    Debugging,
    Waiting,
}

/// Something that came of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The work tree holds what it never held.
    Content,
    /// A result that was never seen.
    News,
    Push,
    /// A check that passed.
    Check,
}

#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub seq: i64,
    pub at: Timestamp,
    pub what: Progress,
    /// Calls that were completed by then.
    pub step: u64,
}

/// A question that the agent has halted with.
#[derive(Debug, Clone)]
pub struct Question {
    pub seq: i64,
    pub at: Timestamp,
    pub text: String,
}

#[derive(Debug, Clone)]
pub struct Command {
    pub seq: i64,
    pub at: Timestamp,
    pub text: String,
}

/// What the agent has said last, when it was no helper.
#[derive(Debug, Clone, Default)]
pub struct Said {
    pub seq: i64,
    pub text: String,
    /// It has halted, or ended, with these words.
    pub last_words: bool,
    /// A check that failed by the agent's own report.
    pub failed_check: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Trajectory {
    /// Whoever keeps many summaries shares it with the task; it is not counted in their size.
    pub charter: Arc<Charter>,
    pub seq: i64,
    pub events: u64,
    pub began_at: Option<Timestamp>,
    pub at: Timestamp,
    pub phase: Phase,
    pub goal: String,
    goal_words: Vec<u64>,
    /// It was asked to look, not to change.
    pub only_reads: bool,
    pub constraints: Vec<String>,
    pub instructions: Ring<Instruction, INSTRUCTIONS>,
    pub told_seq: i64,
    pub steps: Steps,
    pub files: Files,
    pub edits: u64,
    pub troubles: Troubles,
    pub evidence: Evidence,
    pub checks: Checks,
    pub helpers: Helpers,
    pub spend: Spend,
    pub pulse: Pulse,
    pub marks: Ring<Mark, MARKS>,
    /// The last mark of any kind, and the last that is more than news.
    pub mark: Option<Mark>,
    pub work: Option<Mark>,
    seen: Seen,
    pub command: Option<Command>,
    pub said: Said,
    pub question: Option<Question>,
    pub ended_at: Option<Timestamp>,
    pub success: Option<bool>,
    pub judged: Judged,
}

impl Trajectory {
    pub fn new(charter: Arc<Charter>) -> Self {
        Self {
            charter,
            seq: 0,
            events: 0,
            began_at: None,
            at: Timestamp::UNIX_EPOCH,
            phase: Phase::Preparing,
            goal: String::new(),
            goal_words: Vec::new(),
            only_reads: false,
            constraints: Vec::new(),
            instructions: Ring::default(),
            told_seq: 0,
            steps: Steps::default(),
            files: Files::default(),
            edits: 0,
            troubles: Troubles::default(),
            evidence: Evidence::default(),
            checks: Checks::default(),
            helpers: Helpers::default(),
            spend: Spend::default(),
            pulse: Pulse::default(),
            marks: Ring::default(),
            mark: None,
            work: None,
            seen: Seen::default(),
            command: None,
            said: Said::default(),
            question: None,
            ended_at: None,
            success: None,
            judged: Judged::default(),
        }
    }

    /// Takes an event in. One that was taken before changes nothing.
    pub fn take(&mut self, event: &StoredEvent) -> Sign {
        if event.seq <= self.seq {
            return Sign::Nothing;
        }
        self.seq = event.seq;
        self.events += 1;
        self.at = self.at.max(event.created_at);
        self.began_at.get_or_insert(event.created_at);
        let sign = Sign::of(event);
        if event.is_work() {
            self.pulse.worked_at = Some(self.at);
        }
        self.note(&sign);
        sign
    }

    fn note(&mut self, sign: &Sign) {
        match sign {
            Sign::Began { goal, mode } => self.began(goal, mode),
            Sign::Goal(goal) => self.aim(goal),
            Sign::Said { text, parent } => self.say(text, parent.is_some()),
            Sign::Call(call) => self.call(call),
            Sign::Result { id, text, failed } => self.result(id, text, *failed),
            Sign::Edited(edit) => {
                self.edits += 1;
                let declared = &self.charter.owned_files;
                let outside = |path: &str| !declared.is_empty() && !covers(declared, path);
                let new = self.files.edited(edit, self.seq, self.at, outside);
                self.checks.edited(edit, self.seq, self.steps.completed);
                let paths = [Some(&edit.path), edit.previous_path.as_ref()];
                for path in paths.into_iter().flatten() {
                    self.instructions.iter_mut().for_each(|one| one.edited(path, self.seq));
                    hear(self.instructions.iter_mut(), path);
                }
                if new {
                    self.progress(Progress::Content);
                }
            }
            Sign::HelperAsked { id, prompt } => {
                self.phase = Phase::Working;
                self.helpers.asked(id, prompt, self.seq);
            }
            Sign::HelperDone { id } => self.helpers.done(id),
            Sign::Told { text, from, kind } => self.told(text, from, kind),
            Sign::Halted { text } => self.halt(text.as_deref()),
            Sign::Waiting => self.phase = Phase::Waiting,
            Sign::Ended { success, text, failed_check, usd } => {
                self.end(*success, text.as_deref(), failed_check.as_deref(), *usd);
            }
            Sign::Checked { name, passed } => {
                self.evidence.checked(name, *passed, self.seq);
                if *passed {
                    self.progress(Progress::Check);
                }
            }
            Sign::Pushed => self.progress(Progress::Push),
            Sign::Spent { usd, tokens } => self.spend.add(*usd, *tokens, self.seq),
            Sign::OverBudget => self.spend.exceeded = Some(self.seq),
            Sign::Judged(opinion) => self.judged.take(opinion.as_ref(), self.seq, self.at),
            Sign::Beat { cpu_seconds, io_bytes, .. } => {
                if let Some(cpu) = cpu_seconds {
                    self.pulse.beat(*cpu, io_bytes.unwrap_or(0.0), self.at);
                }
            }
            Sign::Work | Sign::Nothing => {}
        }
    }

    fn began(&mut self, goal: &str, mode: &str) {
        self.phase = Phase::Working;
        self.only_reads = matches!(mode, "exploration" | "validation");
        if self.goal.is_empty() {
            self.aim(goal);
        }
    }

    /// The longest text that says what is wanted is the goal.
    fn aim(&mut self, goal: &str) {
        if goal.len() <= self.goal.len() {
            return;
        }
        self.goal = clip(goal, GOAL_CHARS);
        self.goal_words = words(goal).take(GOAL_WORDS_MAX).collect();
        self.constraints = constraints(goal).take(CONSTRAINTS_MAX).map(|one| clip(one, 200)).collect();
    }

    fn say(&mut self, text: &str, is_helper: bool) {
        self.phase = Phase::Working;
        if is_helper {
            return;
        }
        hear(self.instructions.iter_mut(), text);
        self.said = Said { seq: self.seq, text: last_chars(text), last_words: false, failed_check: None };
    }

    fn call(&mut self, call: &Call) {
        self.phase = Phase::Working;
        self.question = None;
        self.steps.call(call, self.seq, self.at);
        if let Some(text) = &call.command {
            self.checks.ran(text);
            self.command = Some(Command { seq: self.seq, at: self.at, text: clip(text, COMMAND_CHARS) });
        }
        for one in self.instructions.iter_mut() {
            one.calls_after = one.calls_after.saturating_add(1);
        }
        hear(self.instructions.iter_mut(), &call.input);
    }

    fn result(&mut self, id: &str, text: &str, failed: bool) {
        self.helpers.done(id);
        let Some(step) = self.steps.result(id, text, failed).cloned() else { return };
        let pair = step.pair().unwrap_or_default();
        // What only fails in another way is no news.
        let news = !failed && self.seen.note(if step.edits { pair } else { hash_both(pair, 1) });
        match (&step.test, self.files.named_in(&step.title)) {
            (Some(test), _) => self.evidence.tried(&step, test, text, failed),
            (None, Some(file)) => match runs(&step.title) {
                // What comes after a program may have failed instead.
                Some(exit) if failed && exit != Exit::Own => {}
                Some(_) => self.evidence.ran(&step, file, failed),
                None => {}
            },
            (None, None) => {}
        }
        if failed {
            if let Some((error, shown)) = error_of(text) {
                let (seq, at, edits) = (step.seq, step.at, self.edits);
                self.troubles.failed(
                    error,
                    shown,
                    Failure { call: step.call, seq, at, step: step.number, edits },
                );
            }
        } else {
            self.troubles.worked(step.call);
        }
        if news {
            self.progress(Progress::News);
        }
    }

    fn told(&mut self, text: &str, from: &str, kind: &str) {
        self.told_seq = self.seq;
        self.question = None;
        self.phase = Phase::Working;
        self.troubles.forget();
        if matches!(kind, "user_message" | "interrupt") {
            let one = Instruction::new(text, from, &self.goal_words, self.seq, self.at);
            self.instructions.push(one);
            let room = CONSTRAINTS_MAX.saturating_sub(self.constraints.len());
            self.constraints.extend(constraints(text).take(room).map(|one| clip(one, 200)));
        }
    }

    fn halt(&mut self, text: Option<&str>) {
        self.phase = Phase::Waiting;
        self.last_words(text);
    }

    fn last_words(&mut self, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let same = self.said.text == last_chars(text);
            let seq = if same { self.said.seq } else { self.seq };
            self.said = Said { seq, text: last_chars(text), ..Said::default() };
        }
        self.said.last_words = true;
        if asks(&self.said.text, self.edits > 0)
            && self.question.as_ref().is_none_or(|old| old.seq != self.said.seq)
        {
            self.question =
                Some(Question { seq: self.said.seq, at: self.at, text: clip(&self.said.text, 300) });
        }
    }

    fn end(
        &mut self,
        success: Option<bool>,
        text: Option<&str>,
        failed_check: Option<&str>,
        usd: Option<f64>,
    ) {
        if success == Some(true) {
            self.last_words(text);
            self.said.failed_check = failed_check.map(|name| clip(name, CHECK_CHARS));
        }
        self.phase = Phase::Ended;
        self.success = self.success.or(success);
        self.ended_at.get_or_insert(self.at);
        // Whoever counts calls has counted already.
        if self.spend.usd == 0.0 {
            self.spend.add(usd.unwrap_or(0.0), 0, self.seq);
        }
    }

    fn progress(&mut self, what: Progress) {
        let mark = Mark { seq: self.seq, at: self.at, what, step: self.steps.completed };
        self.mark = Some(mark);
        if what != Progress::News {
            self.work = Some(mark);
        }
        if what != Progress::News || self.only_reads {
            self.spend.worked();
        }
        self.marks.push(mark);
    }

    /// The last event before which nothing counts as a repetition: a change, or a word from a person.
    pub fn fresh_seq(&self) -> i64 {
        self.work.map_or(0, |mark| mark.seq).max(self.told_seq)
    }

    pub fn focus(&self) -> Focus {
        if self.phase == Phase::Waiting {
            return Focus::Waiting;
        }
        let newest: Vec<_> = self.steps.iter().rev().take(8).collect();
        let Some(last) = newest.first() else { return Focus::Starting };
        match () {
            () if newest.iter().filter(|step| step.has_failed()).count() >= 3 => Focus::Debugging,
            () if last.test.is_some() => Focus::Testing,
            () if newest.iter().any(|step| step.edits) => Focus::Implementing,
            () => Focus::Exploring,
        }
    }

    /// What the summary takes in memory.
    pub fn bytes(&self) -> usize {
        let texts = [&self.goal, &self.said.text].iter().map(|text| text.capacity()).sum::<usize>();
        let command = self.command.as_ref().map_or(0, |command| command.text.capacity());
        let question = self.question.as_ref().map_or(0, |question| question.text.capacity());
        let constraints =
            self.constraints.iter().map(|one| one.capacity() + size_of::<String>()).sum::<usize>();
        let instructions = self.instructions.iter().map(Instruction::heap_bytes).sum::<usize>();
        size_of::<Self>()
            + texts
            + command
            + question
            + constraints
            + instructions
            + self.goal_words.capacity() * size_of::<u64>()
            + self.instructions.heap_bytes()
            + self.steps.heap_bytes()
            + self.files.heap_bytes()
            + self.troubles.heap_bytes()
            + self.evidence.heap_bytes()
            + self.checks.heap_bytes()
            + self.helpers.heap_bytes()
            + self.marks.heap_bytes()
            + self.seen.heap_bytes()
            + self.judged.heap_bytes()
    }
}

/// The end of a text is where its sense is.
fn last_chars(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().rev().nth(SAID_CHARS) {
        None => text.to_owned(),
        Some((start, _)) => text[start..].to_owned(),
    }
}

/// Whose exit code it is, of a command that runs a program rather than looks at a file.
fn runs(title: &str) -> Option<Exit> {
    let command = title.strip_prefix("Bash ").unwrap_or_default();
    let run = super::shell::commands(command);
    let at = run.iter().position(|one| {
        let program = one.words[0].trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        // What `sh -c` runs stands in its text, and is looked at by itself.
        let has_script = one.words.get(1).is_some_and(|word| !word.starts_with('-'));
        has_script
            && matches!(program, "python" | "node" | "ruby" | "perl" | "php" | "deno" | "bun" | "sh" | "bash")
            || one.words[0].ends_with(".sh")
            || one.words[0].ends_with(".py")
    })?;
    Some(Exit::of(&run, at))
}

/// Whether somebody halts with a question that has to be answered. To offer more when the work is done is none.
fn asks(text: &str, has_worked: bool) -> bool {
    let Some(end) = text
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | ')' | '"'))
        .strip_suffix('?')
    else {
        return false;
    };
    let last = end.rsplit(['.', '!', '?', '\n']).next().unwrap_or_default().trim().to_lowercase();
    let offers = [
        "would you like",
        "do you want me to",
        "want me to",
        "anything else",
        "shall i also",
        "should i also",
        "is there anything",
    ];
    !(has_worked && offers.iter().any(|offer| last.contains(offer)))
}
