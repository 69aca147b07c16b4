//! The running sums: signs of life, money, helpers, errors, and marks of progress.

use std::time::Duration;

use jiff::Timestamp;

use super::super::text::{Ring, hash};

const HELPERS_MAX: usize = 64;
const PROMPTS: usize = 32;
const ERRORS: usize = 12;
/// Tries further apart than this are not the same struggle.
const ERROR_STEPS: u64 = 30;
const ERROR_SEQS: usize = 8;
const NEWS: usize = 256;

/// Signs of life besides events.
#[derive(Debug, Clone, Default)]
pub struct Pulse {
    /// The last event that shows work.
    pub worked_at: Option<Timestamp>,
    /// When processes were last seen at work.
    pub active_at: Option<Timestamp>,
    last: Option<(Timestamp, f64, f64)>,
}

impl Pulse {
    /// Processes count as working from a hundredth of a processor or from 16 bytes a millisecond on; figures that
    /// fall tell of processes that ended.
    pub fn beat(&mut self, cpu_seconds: f64, io_bytes: f64, at: Timestamp) {
        if let Some((before, cpu, io)) = self.last {
            let ms = at.duration_since(before).as_millis() as f64;
            let works = (cpu_seconds - cpu).abs() * 100_000.0 > ms || (io_bytes - io).abs() > 16.0 * ms;
            if works {
                self.active_at = Some(at);
            }
        } else {
            self.active_at = Some(at);
        }
        self.last = Some((at, cpu_seconds, io_bytes));
    }

    /// Processes are told of at all; without that, a long build cannot be told from a standstill.
    pub fn is_felt(&self) -> bool {
        self.last.is_some()
    }

    /// Since when neither events nor processes show work.
    pub fn quiet_since(&self) -> Option<Timestamp> {
        self.worked_at.max(self.active_at)
    }

    pub fn quiet(&self, now: Timestamp) -> Duration {
        let since = self.quiet_since().unwrap_or(now);
        Duration::try_from(now.duration_since(since)).unwrap_or_default()
    }
}

/// What was spent, in all and by the last time that something came of it.
#[derive(Debug, Clone, Default)]
pub struct Spend {
    pub usd: f64,
    pub tokens: u64,
    usd_at_work: f64,
    tokens_at_work: u64,
    /// Calls of the model since then.
    pub calls_for_nothing: u32,
    pub last_seq: i64,
    /// The event that says that a budget is used up.
    pub exceeded: Option<i64>,
}

impl Spend {
    pub fn add(&mut self, usd: f64, tokens: u64, seq: i64) {
        self.usd += usd.max(0.0);
        self.tokens = self.tokens.saturating_add(tokens);
        self.calls_for_nothing = self.calls_for_nothing.saturating_add(1);
        self.last_seq = seq;
    }

    pub fn worked(&mut self) {
        self.calls_for_nothing = 0;
        (self.usd_at_work, self.tokens_at_work) = (self.usd, self.tokens);
    }

    pub fn usd_for_nothing(&self) -> f64 {
        self.usd - self.usd_at_work
    }

    pub fn tokens_for_nothing(&self) -> u64 {
        self.tokens - self.tokens_at_work
    }
}

/// Helpers that were asked.
#[derive(Debug, Clone, Default)]
pub struct Helpers {
    open: Vec<(u64, i64)>,
    pub total: u64,
    prompts: Ring<(u64, i64), PROMPTS>,
    pub last_seq: i64,
}

impl Helpers {
    pub fn asked(&mut self, id: &str, prompt: &str, seq: i64) {
        self.total += 1;
        self.last_seq = seq;
        self.prompts.push((hash(prompt.trim()), seq));
        if self.open.len() == HELPERS_MAX {
            self.open.remove(0);
        }
        self.open.push((hash(id), seq));
    }

    pub fn done(&mut self, id: &str) {
        let id = hash(id);
        self.open.retain(|(open, _)| *open != id);
    }

    /// The events that asked those at work.
    pub fn open(&self) -> impl ExactSizeIterator<Item = i64> {
        self.open.iter().map(|(_, seq)| *seq)
    }

    /// The events that asked what the last one was asked.
    pub fn same_prompt(&self) -> Vec<i64> {
        let last = self.prompts.last().map(|(prompt, _)| *prompt);
        self.prompts.iter().filter(|(prompt, _)| Some(*prompt) == last).map(|(_, seq)| *seq).collect()
    }

    pub fn heap_bytes(&self) -> usize {
        self.open.capacity() * size_of::<(u64, i64)>() + self.prompts.heap_bytes()
    }
}

/// One kind of error and the calls that met it.
#[derive(Debug, Clone)]
pub struct Trouble {
    pub error: u64,
    pub text: String,
    pub times: u32,
    pub seqs: Vec<i64>,
    pub since: Timestamp,
    /// Several ways were tried: another call, or a change in between.
    pub tried: bool,
    call: u64,
    edits: u64,
    step: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Troubles(Ring<Trouble, ERRORS>);

/// A call that failed.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    pub call: u64,
    pub seq: i64,
    pub at: Timestamp,
    pub step: u64,
    /// How many changes there were before it.
    pub edits: u64,
}

impl Troubles {
    pub fn failed(&mut self, error: u64, text: String, by: Failure) {
        let Failure { call, seq, at, step, edits } = by;
        self.0.retain(|old| step.saturating_sub(old.step) <= ERROR_STEPS);
        if let Some(old) = self.0.iter_mut().find(|old| old.error == error) {
            old.times += 1;
            old.tried |= old.call != call || old.edits != edits;
            (old.call, old.edits, old.step) = (call, edits, step);
            if old.seqs.len() == ERROR_SEQS {
                old.seqs.remove(0);
            }
            old.seqs.push(seq);
            return;
        }
        let seqs = vec![seq];
        self.0.push(Trouble { error, text, times: 1, seqs, since: at, tried: false, call, edits, step });
    }

    /// What failed works now.
    pub fn worked(&mut self, call: u64) {
        self.0.retain(|old| old.call != call);
    }

    pub fn forget(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Trouble> {
        self.0.iter()
    }

    pub fn heap_bytes(&self) -> usize {
        let one = |one: &Trouble| one.text.capacity() + one.seqs.capacity() * size_of::<i64>();
        self.0.heap_bytes() + self.0.iter().map(one).sum::<usize>()
    }
}

/// Results that were seen, so that what is new can be told.
#[derive(Debug, Clone, Default)]
pub struct Seen(Ring<u64, NEWS>);

impl Seen {
    /// Says whether it is new.
    pub fn note(&mut self, result: u64) -> bool {
        let new = !self.0.iter().any(|old| *old == result);
        if new {
            self.0.push(result);
        }
        new
    }

    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
