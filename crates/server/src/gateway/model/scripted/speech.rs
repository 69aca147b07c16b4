//! What the model says to one request, whichever wire it is asked on.

use serde_json::{Map, Value};

use super::{
    fill::Filling,
    place::Place,
    scenario::{FaultKind, Scenario},
    talk::Talk,
};
use crate::domain::price::{Usage, tokens_of};

#[derive(Debug)]
pub struct Speech {
    /// The model as it was asked for.
    pub model: String,
    /// Of the answer.
    pub id: String,
    pub parts: Vec<Part>,
    pub stop: Stop,
    pub usage: Usage,
}

#[derive(Debug)]
pub enum Part {
    Thinking(String),
    Text(String),
    Call { id: String, tool: String, arguments: Arguments },
}

#[derive(Debug)]
pub enum Arguments {
    Whole(Map<String, Value>),
    /// No JSON, whatever it says.
    Broken(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
}

/// What is around one answer.
pub struct Occasion<'a> {
    pub model: &'a str,
    pub scenario: &'a Scenario,
    pub talk: &'a Talk,
    pub place: Place,
    pub speed: f64,
    pub request_bytes: u64,
    /// Differs from request to request.
    pub unique: &'a str,
}

impl Speech {
    /// The step's answer, marred by the fault.
    pub fn of_step(occasion: &Occasion<'_>, fault: Option<&FaultKind>) -> Self {
        let Occasion { scenario, talk, place, speed, .. } = *occasion;
        let Some(step) = scenario.steps.get(place.step) else {
            return Self::new(occasion, vec![Part::Text(over(scenario))], Stop::EndTurn);
        };
        let filling = Filling { place, talk, speed };
        let think = step.think.iter().map(|text| Part::Thinking(filling.text(text)));
        let say = step.say.iter().map(|text| filling.text(text));
        match fault {
            Some(FaultKind::Refuse) => Self::new(occasion, Vec::new(), Stop::Refusal),
            Some(FaultKind::MaxTokens) => {
                let say = say.map(|text| Part::Text(text.chars().take(text.chars().count() / 2).collect()));
                Self::new(occasion, think.chain(say).collect(), Stop::MaxTokens)
            }
            fault => {
                let calls = step.calls.iter().enumerate().map(|(n, call)| Part::Call {
                    id: place.id(&scenario.name, n, occasion.unique),
                    tool: filling.text(&call.tool),
                    arguments: Arguments::new(filling.input(&call.input), fault),
                });
                let stop = if step.calls.is_empty() { Stop::EndTurn } else { Stop::ToolUse };
                Self::new(occasion, think.chain(say.map(Part::Text)).chain(calls).collect(), stop)
            }
        }
    }

    /// A text for whoever asks without offering tools, such as an agent that makes room in its context.
    pub fn summary(occasion: &Occasion<'_>) -> Self {
        let Occasion { scenario, place, .. } = *occasion;
        let at = match scenario.steps.get(place.step) {
            Some(step) => {
                format!("step {} of {} ({}) is next", place.step + 1, scenario.steps.len(), step.name)
            }
            None => "all steps are done".to_owned(),
        };
        let text = format!(
            "Summary: the scenario {} is played; {at}, and {} answers were given before it.",
            scenario.name,
            place.turn.saturating_sub(1)
        );
        Self::new(occasion, vec![Part::Text(text)], Stop::EndTurn)
    }

    fn new(occasion: &Occasion<'_>, parts: Vec<Part>, stop: Stop) -> Self {
        let bytes: usize = parts.iter().map(Part::bytes).sum();
        let fresh = occasion.talk.fresh_bytes.min(occasion.request_bytes);
        let usage = Usage {
            input: tokens_of(fresh),
            output: tokens_of(bytes as u64).max(1),
            cache_read: tokens_of(occasion.request_bytes - fresh),
            ..Usage::default()
        };
        Self { model: occasion.model.to_owned(), id: format!("msg_{}", occasion.unique), parts, stop, usage }
    }
}

impl Part {
    fn bytes(&self) -> usize {
        match self {
            Self::Thinking(text) | Self::Text(text) => text.len(),
            Self::Call { tool, arguments, .. } => tool.len() + arguments.text().len(),
        }
    }
}

impl Arguments {
    fn new(input: Map<String, Value>, fault: Option<&FaultKind>) -> Self {
        match fault {
            Some(FaultKind::BrokenJson) => {
                let text = Value::Object(input).to_string();
                Self::Broken(format!("{}, \"unfinished", text.trim_end_matches('}')))
            }
            _ => Self::Whole(input),
        }
    }

    pub fn text(&self) -> String {
        match self {
            Self::Whole(input) => Value::Object(input.clone()).to_string(),
            Self::Broken(text) => text.clone(),
        }
    }
}

fn over(scenario: &Scenario) -> String {
    format!("The scenario {} is over; it has no further step.", scenario.name)
}
