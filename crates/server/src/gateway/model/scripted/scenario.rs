//! A scenario: steps, and which of them follows which.

use std::time::Duration;

use regex::Regex;
use serde_json::{Map, Value};

use super::{place::Place, talk::Heard};
use crate::domain::price::Tariff;

#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub price: Option<Tariff>,
    pub steps: Vec<Step>,
}

/// One answer of the model. With calls it asks for tools; without, it ends the turn.
#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub think: Option<String>,
    pub say: Option<String>,
    pub calls: Vec<ToolCall>,
    /// Before the first byte.
    pub delay: Duration,
    /// Between chunks.
    pub pace: Duration,
    pub faults: Vec<Fault>,
    /// How often it is played before the next; where it waits for a message, how often at most.
    pub repeat: u32,
    pub until_message: bool,
    pub branches: Vec<Branch>,
    /// Where no branch fits. One behind the last step: the scenario is over.
    pub next: usize,
}

#[derive(Debug)]
pub struct ToolCall {
    pub tool: String,
    pub input: Map<String, Value>,
}

#[derive(Debug)]
pub struct Branch {
    pub test: Test,
    pub to: usize,
}

#[derive(Debug)]
pub enum Test {
    /// All that are set must hold.
    When(Box<Conditions>),
    Else,
}

#[derive(Debug, Default)]
pub struct Conditions {
    pub result_contains: Option<String>,
    pub result_matches: Option<Regex>,
    pub is_error: Option<bool>,
    pub message_contains: Option<String>,
    pub turn_at_least: Option<u32>,
}

/// What goes wrong with an answer, and how many times before it is given as it should.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    pub times: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// Refused with this status.
    Status { code: u16, retry_after: Option<Duration> },
    /// The connection breaks off within the answer.
    Cut(Spot),
    /// The answer pauses half-way.
    Stall(Duration),
    /// An error of this type is told within the stream.
    Error(String),
    /// A page of some proxy comes in place of the answer.
    Html,
    /// The arguments of tool calls are no JSON.
    BrokenJson,
    /// The model declines.
    Refuse,
    /// The answer ends half-way, before its tool calls.
    MaxTokens,
    /// The second half is noise.
    Garbage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    Half,
    Bytes(usize),
}

impl Scenario {
    /// What is played after `place`, given what was heard since.
    pub fn after(&self, place: Place, heard: &Heard) -> Place {
        let Some(step) = self.steps.get(place.step) else { return place };
        let turn = place.turn.saturating_add(1);
        let to = |step: usize| Place { step, repetition: 1, turn };
        let fitting = step.branches.iter().find(|branch| match &branch.test {
            Test::When(conditions) => conditions.hold(place, heard),
            Test::Else => false,
        });
        if let Some(branch) = fitting {
            return to(branch.to);
        }
        let heard_enough = step.until_message && heard.message().is_some();
        if place.repetition < step.repeat && !heard_enough {
            return Place { repetition: place.repetition + 1, turn, ..place };
        }
        let otherwise = step.branches.iter().find(|branch| matches!(branch.test, Test::Else));
        to(otherwise.map_or(step.next, |branch| branch.to))
    }
}

impl Conditions {
    fn hold(&self, place: Place, heard: &Heard) -> bool {
        let in_result = |fits: &dyn Fn(&str) -> bool| heard.results.iter().any(|result| fits(&result.text));
        let says = |part: &str| heard.message().is_some_and(|message| message.contains(part));
        self.result_contains.as_ref().is_none_or(|part| in_result(&|text| text.contains(part)))
            && self.result_matches.as_ref().is_none_or(|pattern| in_result(&|text| pattern.is_match(text)))
            && self.is_error.is_none_or(|wanted| heard.results.iter().any(|result| result.is_error) == wanted)
            && self.message_contains.as_ref().is_none_or(|part| says(part))
            && self.turn_at_least.is_none_or(|turn| place.turn >= turn)
    }

    pub fn is_empty(&self) -> bool {
        self.result_contains.is_none()
            && self.result_matches.is_none()
            && self.is_error.is_none()
            && self.message_contains.is_none()
            && self.turn_at_least.is_none()
    }
}
