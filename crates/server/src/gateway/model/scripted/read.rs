//! From a file to a scenario. Whatever does not fit is refused with the file, the step and the field.

use std::{collections::BTreeMap, time::Duration};

use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::scenario::{Branch, Conditions, Fault, FaultKind, Scenario, Spot, Step, Test, ToolCall};
use crate::{config::parse_duration, domain::price::Tariff};

pub const NAME_CHARS_MAX: usize = 40;
const STEPS_MAX: usize = 1000;
/// How often a step that waits for a message is played at most, where it does not say.
const WAITS_MAX: u32 = 3600;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the scenarios in {path} cannot be read (model.scenarios): {source}")]
    Directory { path: String, source: std::io::Error },
    #[error("scenario {file} is not YAML: {source}")]
    Yaml { file: String, source: Box<serde_saphyr::Error> },
    #[error("scenario {file}: {what}")]
    File { file: String, what: String },
    #[error("scenario {file}, {at}: {what}")]
    Field { file: String, at: String, what: String },
}

/// `file` is named in errors; `name` is what the scenario is called by.
pub fn scenario(file: &str, name: &str, text: &str) -> Result<Scenario, Error> {
    let refused = |what: String| Error::File { file: file.to_owned(), what };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(plain) {
        let what = format!("its name must have 1 to {NAME_CHARS_MAX} of a to z, 0 to 9 and -");
        return Err(refused(what));
    }
    let options = serde_saphyr::options! { with_snippet: false, emit_comments: false };
    let tree = serde_saphyr::from_str_with_options(text, options)
        .map_err(|source| Error::Yaml { file: file.to_owned(), source: Box::new(source) })?;
    let mut fields = Fields::new(file, String::new(), tree)?;
    // For who reads the file.
    let _: Option<String> = fields.take("about")?;
    let price = price(&mut fields, name)?;
    let pacing = Pacing { delay: fields.time("delay")?, pace: fields.time("pace")? };
    let steps: Vec<Value> = fields.take("steps")?.ok_or_else(|| fields.bad("steps", "is missing"))?;
    fields.done()?;
    if steps.is_empty() || steps.len() > STEPS_MAX {
        return Err(refused(format!("steps must be a list of 1 to {STEPS_MAX}")));
    }
    let names = Names::of(file, &steps)?;
    let steps = steps.into_iter().enumerate().map(|(index, step)| names.step(index, step, &pacing));
    Ok(Scenario { name: name.to_owned(), price, steps: steps.collect::<Result<_, _>>()? })
}

fn price(fields: &mut Fields<'_>, name: &str) -> Result<Option<Tariff>, Error> {
    let Some(mut price) = fields.below("price")? else { return Ok(None) };
    let mut amounts = Vec::new();
    for (kind, needed) in [("input", true), ("output", true), ("cache_read", false), ("cache_write", false)] {
        match price.word(kind)? {
            Some(amount) => amounts.push(amount),
            None if needed => return Err(price.bad(kind, "is missing")),
            None => amounts.push(amounts[0].clone()),
        }
    }
    price.done()?;
    let tariff = format!("scripted/{name}={}", amounts.join("/"));
    let what = "takes USD per million tokens, such as 3 or 0.25, with at most 6 decimals";
    tariff.parse().map(Some).map_err(|()| price.bad("", what))
}

/// What holds for all steps that say nothing else.
struct Pacing {
    delay: Option<Duration>,
    pace: Option<Duration>,
}

/// How steps are called.
struct Names<'a> {
    file: &'a str,
    count: usize,
    /// Names and numbers.
    places: BTreeMap<String, usize>,
}

impl<'a> Names<'a> {
    fn of(file: &'a str, steps: &[Value]) -> Result<Self, Error> {
        let count = steps.len();
        let mut places: BTreeMap<String, usize> = (0..count).map(|n| ((n + 1).to_string(), n)).collect();
        for (index, step) in steps.iter().enumerate() {
            let Some(name) = step.get("name").and_then(Value::as_str) else { continue };
            if places.insert(name.to_owned(), index).is_some() {
                let (at, what) = (format!("step {}: name", index + 1), format!("{name:?} is taken"));
                return Err(Error::Field { file: file.to_owned(), at, what });
            }
        }
        Ok(Self { file, count, places })
    }

    fn step(&self, index: usize, value: Value, pacing: &Pacing) -> Result<Step, Error> {
        let number = index + 1;
        let given = value.get("name").and_then(Value::as_str).map(str::to_owned);
        let at = given.as_ref().map_or(format!("step {number}"), |name| format!("step {number} ({name})"));
        let mut fields = Fields::new(self.file, at, value)?;
        let _: Option<String> = fields.take("name")?;
        let calls = fields.several("call")?.into_iter().map(call).collect::<Result<Vec<_>, _>>()?;
        let faults = fields.several("fault")?.into_iter().map(fault).collect::<Result<Vec<_>, _>>()?;
        let branches = fields.several("when")?.into_iter();
        let branches = branches.map(|branch| self.branch(branch)).collect::<Result<Vec<_>, _>>()?;
        let until_message = fields.flag("wait_for_message")?;
        let end = fields.flag("end")?;
        let next = self.target(&mut fields)?;
        let repeat: Option<u32> = fields.take("repeat")?;
        let step = Step {
            name: given.unwrap_or_else(|| number.to_string()),
            think: fields.take("think")?,
            say: fields.take("say")?,
            delay: fields.time("delay")?.or(pacing.delay).unwrap_or_default(),
            pace: fields.time("pace")?.or(pacing.pace).unwrap_or_default(),
            repeat: repeat.unwrap_or(if until_message { WAITS_MAX } else { 1 }),
            // After its end, a conversation that goes on hears the end again.
            next: if end { index } else { next.unwrap_or(number) },
            until_message,
            calls,
            faults,
            branches,
        };
        fields.done()?;
        let refused = match () {
            () if step.repeat == 0 => Some(("repeat", "must be 1 or more")),
            () if end && !step.calls.is_empty() => {
                Some(("end", "does not go with call: a call has a result"))
            }
            () if end && next.is_some() => Some(("end", "does not go with next")),
            () if until_message && step.calls.is_empty() => {
                Some(("wait_for_message", "needs a call to be played while it waits, such as a short sleep"))
            }
            () if step.calls.is_empty() && step.say.is_none() && step.faults.is_empty() => {
                Some(("say", "is missing, and so are call and fault: the step does nothing"))
            }
            () => None,
        };
        match refused {
            Some((name, what)) => Err(fields.bad(name, what)),
            None => Ok(step),
        }
    }

    fn branch(&self, mut fields: Fields<'_>) -> Result<Branch, Error> {
        let matches: Option<String> = fields.take("result_matches")?;
        let matches = matches.map(|pattern| Regex::new(&pattern)).transpose();
        let conditions = Conditions {
            result_contains: fields.take("result_contains")?,
            result_matches: matches.map_err(|error| fields.bad("result_matches", &error.to_string()))?,
            is_error: fields.take("is_error")?,
            message_contains: fields.take("message_contains")?,
            turn_at_least: fields.take("turn_at_least")?,
        };
        let otherwise = fields.flag("else")?;
        if otherwise != conditions.is_empty() {
            return Err(fields.bad("else", "a branch has conditions, or else: true, and not both"));
        }
        let to = self.target(&mut fields)?.ok_or_else(|| fields.bad("next", "is missing"))?;
        fields.done()?;
        let test = if otherwise { Test::Else } else { Test::When(Box::new(conditions)) };
        Ok(Branch { test, to })
    }

    fn target(&self, fields: &mut Fields<'_>) -> Result<Option<usize>, Error> {
        let Some(name) = fields.word("next")? else { return Ok(None) };
        let place = self.places.get(&name).copied();
        let unknown =
            || format!("{name:?} is neither the name of a step nor a number from 1 to {}", self.count);
        place.map(Some).ok_or_else(|| fields.bad("next", &unknown()))
    }
}

fn call(mut fields: Fields<'_>) -> Result<ToolCall, Error> {
    let tool = fields.take("tool")?.ok_or_else(|| fields.bad("tool", "is missing"))?;
    let input = fields.take("input")?.unwrap_or_default();
    fields.done().map(|()| ToolCall { tool, input })
}

fn fault(mut fields: Fields<'_>) -> Result<Fault, Error> {
    let mut kinds = Vec::new();
    let retry_after = fields.time("retry_after")?;
    if let Some(code) = fields.take::<u16>("status")? {
        if !(400..=599).contains(&code) {
            return Err(fields.bad("status", "must be from 400 to 599"));
        }
        kinds.push(FaultKind::Status { code, retry_after });
    } else if retry_after.is_some() {
        return Err(fields.bad("retry_after", "goes with status alone"));
    }
    if let Some(spot) = fields.word("cut")? {
        let bytes = spot.parse().map(Spot::Bytes);
        let spot = if spot == "half" { Ok(Spot::Half) } else { bytes };
        kinds.push(FaultKind::Cut(spot.map_err(|_| fields.bad("cut", "takes half or a number of bytes"))?));
    }
    kinds.extend(fields.time("stall")?.map(FaultKind::Stall));
    kinds.extend(fields.take("error")?.map(FaultKind::Error));
    for (name, kind) in [
        ("html", FaultKind::Html),
        ("broken_json", FaultKind::BrokenJson),
        ("refuse", FaultKind::Refuse),
        ("max_tokens", FaultKind::MaxTokens),
        ("garbage", FaultKind::Garbage),
    ] {
        kinds.extend(fields.flag(name)?.then_some(kind));
    }
    let times = fields.take("times")?.unwrap_or(1);
    let one =
        "has exactly one of status, cut, stall, error, html, broken_json, refuse, max_tokens and garbage";
    fields.done()?;
    let [kind] = <[FaultKind; 1]>::try_from(kinds).map_err(|_| fields.bad("", one))?;
    Ok(Fault { kind, times })
}

/// The fields of one thing in the file, taken out one by one; what is left at the end nobody knows.
struct Fields<'a> {
    file: &'a str,
    at: String,
    map: Map<String, Value>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    fn new(file: &'a str, at: String, value: Value) -> Result<Self, Error> {
        let map = match value {
            Value::Object(map) => Ok(map),
            _ => Err(Self { file, at: at.clone(), map: Map::new(), known: Vec::new() }),
        };
        let map = map.map_err(|fields| fields.bad("", "must be a map of fields"))?;
        Ok(Self { file, at, map, known: Vec::new() })
    }

    fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, Error> {
        self.known.push(name);
        match self.map.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                serde_json::from_value(value).map(Some).map_err(|error| self.bad(name, &error.to_string()))
            }
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, Error> {
        Ok(self.take(name)?.unwrap_or(false))
    }

    /// Text, or a number that is taken as such.
    fn word(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        match self.take::<Value>(name)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.bad(name, "must be a word or a number")),
        }
    }

    fn time(&mut self, name: &'static str) -> Result<Option<Duration>, Error> {
        let Some(word) = self.word(name)? else { return Ok(None) };
        let what = || format!("{word:?} is not a duration such as 200ms, 5s or 1m");
        parse_duration(&word).map(Some).ok_or_else(|| self.bad(name, &what()))
    }

    fn below(&mut self, name: &'static str) -> Result<Option<Self>, Error> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        Self::new(self.file, self.path(name), value).map(Some)
    }

    /// One, or a list of them.
    fn several(&mut self, name: &'static str) -> Result<Vec<Self>, Error> {
        let (values, one) = match self.take(name)? {
            None => return Ok(Vec::new()),
            Some(Value::Array(values)) => (values, false),
            Some(value) => (vec![value], true),
        };
        let path = |n: usize| if one { self.path(name) } else { format!("{}[{}]", self.path(name), n + 1) };
        values.into_iter().enumerate().map(|(n, value)| Self::new(self.file, path(n), value)).collect()
    }

    /// Refuses what nobody has asked for.
    fn done(&self) -> Result<(), Error> {
        let Some(name) = self.map.keys().next() else { return Ok(()) };
        Err(self.bad(name, &format!("is not known; there are {}", self.known.join(", "))))
    }

    fn path(&self, name: &str) -> String {
        match (self.at.as_str(), name) {
            ("", name) => name.to_owned(),
            (at, "") => at.to_owned(),
            (at, name) if at.starts_with("step ") && !at.contains(": ") => format!("{at}: {name}"),
            (at, name) => format!("{at}.{name}"),
        }
    }

    fn bad(&self, name: &str, what: &str) -> Error {
        let (file, what) = (self.file.to_owned(), what.to_owned());
        match self.path(name) {
            at if at.is_empty() => Error::File { file, what },
            at => Error::Field { file, at, what },
        }
    }
}
