//! Where a conversation is in its scenario, found in the conversation itself: the ids of tool calls name the step that
//! made them. What an agent drops when it compacts its context is therefore not needed, as long as its last tool calls
//! stay.

use super::{scenario::Scenario, talk::Talk};

/// One playing of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// From zero; one behind the last step: the scenario is over.
    pub step: usize,
    /// Which of the step's repetitions, from one.
    pub repetition: u32,
    /// Which of the conversation's answers, from one.
    pub turn: u32,
}

const START: Place = Place { step: 0, repetition: 1, turn: 1 };
const PREFIX: &str = "toolu";

impl Place {
    /// Which answer this conversation wants next.
    pub fn find(scenario: &Scenario, talk: &Talk) -> Self {
        let named = |ids: &Vec<String>| ids.iter().find_map(|id| Self::of_id(id, &scenario.name));
        let last = talk.exchanges.iter().enumerate().rev();
        let last = last.filter_map(|(index, exchange)| Some((index, named(&exchange.ids)?))).next();
        let (mut place, behind) = match last {
            Some((index, place)) => {
                let place = Self { step: place.step.min(scenario.steps.len()), ..place };
                (scenario.after(place, &talk.exchanges[index].heard), index + 1)
            }
            None => (START, 0),
        };
        for exchange in &talk.exchanges[behind..] {
            // A step with calls is not done while its calls are nowhere: its answer was cut off or declined.
            if scenario.steps.get(place.step).is_some_and(|step| step.calls.is_empty()) {
                place = scenario.after(place, &exchange.heard);
            }
        }
        place
    }

    /// The id of its n-th call; `unique` tells conversations apart that play the same.
    pub fn id(self, scenario: &str, n: usize, unique: &str) -> String {
        let Self { step, repetition, turn } = self;
        format!("{PREFIX}_{scenario}_{}_{repetition}_{turn}_{n}_{unique}", step + 1)
    }

    fn of_id(id: &str, scenario: &str) -> Option<Self> {
        let parts: Vec<&str> = id.split('_').collect();
        let [PREFIX, name, step, repetition, turn, _, _] = parts[..] else { return None };
        let step = step.parse::<usize>().ok()?.checked_sub(1)?;
        (name == scenario).then_some(Self {
            step,
            repetition: repetition.parse().ok()?,
            turn: turn.parse().ok()?,
        })
    }
}

/// The scenario that a tool call belongs to.
pub fn scenario_of_id(id: &str) -> Option<&str> {
    id.strip_prefix(PREFIX)?.strip_prefix('_')?.split('_').next()
}
