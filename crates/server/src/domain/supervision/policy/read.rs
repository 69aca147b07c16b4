//! From a YAML text to a policy. Whatever does not fit is refused with the file and the line or the key.

use std::time::Duration;

use omoi_protocol::{FindingKind, FindingSeverity, Intervention, Steering};
use serde::{Deserialize, Deserializer, de};

use super::{DEFAULT, Limits, Policy, Response, Rules, Rung};
use crate::{
    config::parse_duration,
    domain::supervision::{
        judge::{Judging, When},
        shell::Pattern,
        trajectory::step::STEPS,
    },
};

const RULES_MAX: usize = 200;
const PATTERNS_MAX: usize = 500;
const TEXT_CHARS_MAX: usize = 4_000;
/// Fields that a text may hold.
const FIELDS: [&str; 3] = ["finding", "count", "goal"];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("policy {name} is not as it should be: {source}")]
    Yaml { name: String, source: Box<serde_saphyr::Error> },
    #[error("policy {name}, {key}: {what}")]
    Key { name: String, key: String, what: String },
}

/// A duration as configuration files write it.
#[derive(Clone, Copy)]
struct Span(Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong =
            || de::Error::custom(format!("{text:?} is no duration; it takes one such as 30s, 5m or 1h"));
        parse_duration(&text).map(Self).ok_or_else(wrong)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    steering: Option<Steering>,
    #[serde(default)]
    thresholds: Thresholds,
    forbidden_commands: Option<Vec<String>>,
    judge: Option<JudgeFile>,
    limits: Option<LimitsFile>,
    rules: Option<Vec<RuleFile>>,
}

/// Each threshold on its own, absent where the default holds.
macro_rules! thresholds {
    ($($kind:ident { $($field:ident: $type:ty),+ })+) => {
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct Thresholds { $($kind: $kind,)+ }
        $(
            #[allow(non_camel_case_types, reason = "named as in the file")]
            #[derive(Default, Deserialize)]
            #[serde(deny_unknown_fields, default)]
            struct $kind { $($field: Option<$type>,)+ }
        )+
    };
}

thresholds! {
    repeated_action { times: usize, polls: usize }
    alternating_actions { rounds: usize }
    same_error { times: usize }
    edit_undo { times: usize }
    no_progress { calls: usize, quiet: Span }
    drift { allow: Vec<String> }
    ignored_instruction { calls: usize }
    unanswered_question { after: Span }
    budget_burn { share: f64, usd: f64, tokens: u64 }
    runaway_subagents { at_once: usize, total: usize, same: usize }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct JudgeFile {
    when: Option<When>,
    period: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsFile {
    interventions: Option<u32>,
    cool_down: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    on: FindingKind,
    severity: Option<FindingSeverity>,
    count: Option<u32>,
    #[serde(rename = "do")]
    action: Intervention,
    text: Option<String>,
    cool_down: Option<Span>,
    limit: Option<u32>,
    #[serde(default)]
    escalate: Vec<RungFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RungFile {
    after: u32,
    #[serde(rename = "do")]
    action: Intervention,
    text: Option<String>,
}

pub(super) fn policy(name: &str, text: &str) -> Result<Policy, Error> {
    let file = parse(name, text)?;
    let shipped = parse("the default policy", DEFAULT)?;
    let reader = Reader { name };
    let rules = reader.rules(&file, &shipped)?;
    let judging = reader.judging(file.judge, shipped.judge)?;
    let limits = |from: &File| from.limits.as_ref().map(|limits| (limits.interventions, limits.cool_down));
    let (own, usual) = (limits(&file).unwrap_or_default(), limits(&shipped).unwrap_or_default());
    let responses = file.rules.or(shipped.rules).unwrap_or_default();
    reader.within("rules", responses.len(), 0, RULES_MAX)?;
    let responses = responses.into_iter().enumerate().map(|(at, rule)| reader.response(at, rule));
    Ok(Policy {
        steering: file.steering.or(shipped.steering).unwrap_or(Steering::Suggest),
        near: rules.near(),
        rules,
        judging,
        limits: Limits {
            interventions: own.0.or(usual.0).unwrap_or(u32::MAX),
            cool_down: own.1.or(usual.1).map_or(Duration::ZERO, |span| span.0),
        },
        responses: responses.collect::<Result<_, _>>()?,
    })
}

fn parse(name: &str, text: &str) -> Result<File, Error> {
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|source| Error::Yaml { name: name.to_owned(), source: Box::new(source) })
}

struct Reader<'a> {
    name: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, key: &str, what: impl Into<String>) -> Error {
        Error::Key { name: self.name.to_owned(), key: key.to_owned(), what: what.into() }
    }

    fn within(&self, key: &str, value: usize, least: usize, most: usize) -> Result<usize, Error> {
        let fits = (least..=most).contains(&value);
        fits.then_some(value).ok_or_else(|| self.wrong(key, format!("takes {least} to {most}, not {value}")))
    }

    fn rules(&self, file: &File, shipped: &File) -> Result<Rules, Error> {
        let (own, usual) = (&file.thresholds, &shipped.thresholds);
        macro_rules! number {
            ($kind:ident.$field:ident, $least:expr, $most:expr) => {
                self.within(
                    concat!("thresholds.", stringify!($kind), ".", stringify!($field)),
                    own.$kind.$field.or(usual.$kind.$field).unwrap_or($most),
                    $least,
                    $most,
                )?
            };
        }
        macro_rules! value {
            ($kind:ident.$field:ident) => {
                own.$kind.$field.clone().or(usual.$kind.$field.clone())
            };
        }
        let share = value!(budget_burn.share).unwrap_or(1.0);
        if !(share > 0.0 && share <= 1.0) {
            return Err(self
                .wrong("thresholds.budget_burn.share", format!("takes more than 0, up to 1, not {share}")));
        }
        let usd = value!(budget_burn.usd).unwrap_or(f64::MAX);
        if usd <= 0.0 || usd.is_nan() {
            return Err(self.wrong("thresholds.budget_burn.usd", format!("takes more than 0, not {usd}")));
        }
        let never = Duration::MAX;
        Ok(Rules {
            // What is counted has to be remembered, with half as much in between.
            repeated_times: number!(repeated_action.times, 2, STEPS * 2 / 3),
            repeated_polls: number!(repeated_action.polls, 2, STEPS * 2 / 3),
            alternating_rounds: number!(alternating_actions.rounds, 2, STEPS / 3),
            error_times: number!(same_error.times, 2, 1000),
            undo_times: number!(edit_undo.times, 1, 1000),
            idle_steps: number!(no_progress.calls, 5, 1000),
            quiet_after: value!(no_progress.quiet).map_or(never, |span| span.0),
            drift_allowed: value!(drift.allow).unwrap_or_default(),
            instruction_calls: number!(ignored_instruction.calls, 1, 1000),
            question_after: value!(unanswered_question.after).map_or(never, |span| span.0),
            burn_share: share,
            burn_usd: usd,
            burn_tokens: value!(budget_burn.tokens).unwrap_or(u64::MAX),
            helpers_at_once: number!(runaway_subagents.at_once, 1, 60),
            helpers_total: number!(runaway_subagents.total, 1, 100_000),
            helpers_same: number!(runaway_subagents.same, 2, 30),
            forbidden: self
                .forbidden(file.forbidden_commands.as_ref().or(shipped.forbidden_commands.as_ref()))?,
        })
    }

    fn judging(&self, own: Option<JudgeFile>, usual: Option<JudgeFile>) -> Result<Judging, Error> {
        let when = own.and_then(|own| own.when).or(usual.and_then(|usual| usual.when));
        let period = own.and_then(|own| own.period).or(usual.and_then(|usual| usual.period));
        let period = period.map_or(Duration::MAX, |span| span.0);
        if period.is_zero() {
            return Err(self.wrong("judge.period", "takes more than 0"));
        }
        Ok(Judging { when: when.unwrap_or(When::Off), period })
    }

    fn forbidden(&self, commands: Option<&Vec<String>>) -> Result<Vec<Pattern>, Error> {
        let commands = commands.map(Vec::as_slice).unwrap_or_default();
        self.within("forbidden_commands", commands.len(), 0, PATTERNS_MAX)?;
        let read = |(at, text): (usize, &String)| {
            let wrong =
                || self.wrong(&format!("forbidden_commands[{at}]"), format!("{text:?} lacks a command"));
            Pattern::parse(text).ok_or_else(wrong)
        };
        commands.iter().enumerate().map(read).collect()
    }

    fn response(&self, at: usize, rule: RuleFile) -> Result<Response, Error> {
        let key = format!("rules[{at}]");
        let first =
            self.rung(&key, RungFile { after: 0, action: rule.action, text: rule.text.clone() }, None)?;
        let mut steps = vec![first];
        for (number, rung) in rule.escalate.into_iter().enumerate() {
            let key = format!("{key}.escalate[{number}]");
            let before = steps.last().map_or(0, |step: &Rung| step.after);
            if rung.after <= before {
                return Err(self
                    .wrong(&format!("{key}.after"), format!("takes more than {before}, the one before it")));
            }
            steps.push(self.rung(&key, rung, rule.text.as_ref())?);
        }
        Ok(Response {
            on: rule.on,
            severity: rule.severity.unwrap_or(FindingSeverity::Notice),
            count: rule.count.unwrap_or(1),
            cool_down: rule.cool_down.map_or(Duration::ZERO, |span| span.0),
            limit: rule.limit.unwrap_or(u32::MAX),
            steps,
        })
    }

    fn rung(&self, key: &str, rung: RungFile, above: Option<&String>) -> Result<Rung, Error> {
        let key = format!("{key}.text");
        let speaks = matches!(rung.action, Intervention::Nudge | Intervention::Interrupt);
        let text = rung.text.as_ref().or(above.filter(|_| speaks));
        let text = match (text, speaks) {
            (Some(text), _) => text.clone(),
            (None, true) => return Err(self.wrong(&key, format!("a {} needs a text", rung.action))),
            (None, false) => "{finding}".to_owned(),
        };
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(self.wrong(&key, format!("takes at most {TEXT_CHARS_MAX} characters")));
        }
        if let Some(field) = fields(&text).find(|field| !FIELDS.contains(field)) {
            return Err(self.wrong(
                &key,
                format!("{{{field}}} is not known; there are {{finding}}, {{count}} and {{goal}}"),
            ));
        }
        Ok(Rung { after: rung.after, action: rung.action, text })
    }
}

/// Words in braces.
fn fields(text: &str) -> impl Iterator<Item = &str> {
    let plain = |field: &&str| !field.is_empty() && field.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(field, _)| field).filter(plain)
}
