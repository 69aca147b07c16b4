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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Config,
        gateway::model::scripted::{
            library::Library,
            read,
            talk::{Exchange, Heard, ToolResult},
        },
    };

    fn scenario(text: &str) -> Scenario {
        read::scenario("x.yaml", "x", text).unwrap()
    }

    fn called(id: String, result: &str) -> Exchange {
        let results = vec![ToolResult { text: result.to_owned(), is_error: false }];
        Exchange { ids: vec![id], heard: Heard { results, texts: Vec::new() } }
    }

    fn said(message: &str) -> Exchange {
        let texts = vec![message.to_owned()];
        Exchange { ids: Vec::new(), heard: Heard { texts, results: Vec::new() } }
    }

    fn place(step: usize, repetition: u32, turn: u32) -> Place {
        Place { step, repetition, turn }
    }

    #[test]
    fn the_place_is_found_in_what_is_left_of_a_conversation() {
        let x = scenario(
            "steps:\n  - { call: { tool: A }, repeat: 2 }\n  - { say: b }\n  - { call: { tool: C }, next: 1 }\n",
        );
        let id = |step, repetition, turn| place(step, repetition, turn).id("x", 0, "unique");
        let cases = [
            (vec![], place(0, 1, 1)),
            (vec![said("its calls were cut off")], place(0, 1, 1)),
            (vec![called(id(0, 1, 1), "")], place(0, 2, 2)),
            (vec![called(id(0, 2, 2), "")], place(1, 1, 3)),
            (vec![called(id(0, 1, 1), ""), called(id(0, 2, 2), ""), said("go on")], place(2, 1, 4)),
            (vec![called(id(0, 2, 2), ""), said("go on"), said("its calls were cut off")], place(2, 1, 4)),
            (vec![called(id(2, 1, 40), "")], place(0, 1, 41)),
            // Of another scenario, of a longer one, of somebody else.
            (vec![called(place(1, 1, 9).id("y", 0, "u"), "")], place(0, 1, 1)),
            (vec![called(id(7, 1, 9), "")], place(3, 1, 9)),
            (vec![called("toolu_01A09q90qw90lq917835lq9".to_owned(), "")], place(0, 1, 1)),
            (vec![called("toolu_x_0_1_1_0_u".to_owned(), "")], place(0, 1, 1)),
        ];
        for (exchanges, expected) in cases {
            let talk = Talk { exchanges, ..Talk::default() };
            assert_eq!(Place::find(&x, &talk), expected, "{talk:?}");
        }
    }

    #[test]
    fn a_step_that_waits_is_played_until_a_message_comes_or_it_has_waited_enough() {
        let x = scenario(
            "steps:\n  - { call: { tool: A }, wait_for_message: true, repeat: 3 }\n  - { say: b, end: true }\n",
        );
        let silence = Heard::default();
        assert_eq!(x.after(place(0, 1, 1), &silence), place(0, 2, 2));
        assert_eq!(x.after(place(0, 3, 3), &silence), place(1, 1, 4));
        assert_eq!(x.after(place(0, 1, 1), &said("hello").heard), place(1, 1, 2));
    }

    #[test]
    fn the_long_scenario_has_two_thousand_turns_and_the_soak_half_an_hour() {
        let library = Library::load(&Config::default().model).unwrap();
        for (name, calls) in [("long", 2000), ("soak", 1800)] {
            let scenario = library.choose(&format!("scripted/{name}"), &Talk::default()).unwrap();
            let (mut talk, mut turns) = (Talk::default(), 0);
            let mut at = Place::find(&scenario, &talk);
            while !scenario.steps[at.step].calls.is_empty() {
                turns += 1;
                assert!(turns <= calls, "{name} goes on");
                // All but the last is forgotten.
                talk.exchanges = vec![called(at.id(name, 0, "u"), "ok")];
                at = Place::find(&scenario, &talk);
            }
            assert_eq!((turns, scenario.steps[at.step].name.as_str()), (calls, "done"), "{name}");
        }
    }
}
