//! Runs as they are put together: a good one, and in most of them one fault.

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;
use omoi_protocol::{
    EventId,
    event::{EventKind, StoredEvent},
};
use serde::Deserialize;

use super::{
    Case,
    dice::Dice,
    fault::{FAULTS, Fault, Place},
    good,
    scene::Scene,
};
use crate::domain::supervision::{score::Expected, trajectory::Charter};

/// A good run that was recorded, to put faults into.
#[derive(Debug, Clone)]
pub struct Base {
    pub name: String,
    pub charter: Charter,
    pub events: Vec<StoredEvent>,
}

/// Of five runs, so many stay as good as they are.
const GOOD_OF_FIVE: usize = 2;
const PASSAGES_LEAST: usize = 3;
const PASSAGES_MOST: usize = 6;
const PAUSE: Duration = Duration::from_secs(2);

/// Runs with what is to be found in them. The same seed makes the same runs.
pub fn generate(seed: u64, count: usize, bases: &[Base]) -> Vec<Case> {
    let bases: Vec<(&Base, Vec<usize>)> = bases
        .iter()
        .map(|base| (base, boundaries(&base.events)))
        .filter(|(_, all)| !all.is_empty())
        .collect();
    let mut faults = FAULTS.iter().cycle();
    (0..count)
        .map(|number| {
            let mut dice = Dice::new(seed, number as u64);
            match number % 5 < GOOD_OF_FIVE {
                true => good_run(number, dice),
                false => {
                    let fault = faults.next().expect("a cycle has no end");
                    let recorded = fault.place == Place::Anywhere && dice.chance(50) && !bases.is_empty();
                    match recorded {
                        true => {
                            let (base, all) = dice.pick(&bases).clone();
                            spoiled(number, fault, base, &all, dice)
                        }
                        false => {
                            let base = made(dice.clone());
                            let all = boundaries(&base.events);
                            spoiled(number, fault, &base, &all, dice)
                        }
                    }
                }
            }
        })
        .collect()
}

fn good_run(number: usize, dice: Dice) -> Case {
    let Base { charter, events, .. } = made(dice);
    Case { name: format!("made/{number:03} good"), charter, events, expected: Vec::new(), also: &[] }
}

/// A good run that is made here.
fn made(dice: Dice) -> Base {
    let mut scene = Scene::new(dice, "good");
    scene.make.started("scripted", None);
    let goal = *scene.dice.pick(&good::GOALS);
    scene.make.told(goal);
    good::explores(&mut scene);
    for _ in 0..scene.dice.range(PASSAGES_LEAST, PASSAGES_MOST) {
        let passage = *scene.dice.pick(&good::PASSAGES);
        passage(&mut scene);
    }
    good::end(&mut scene);
    Base { name: "made".to_owned(), charter: Charter::default(), events: scene.done() }
}

fn spoiled(number: usize, fault: &Fault, base: &Base, boundaries: &[usize], mut dice: Dice) -> Case {
    let at = match fault.place {
        Place::Anywhere | Place::Made => *dice.pick(boundaries),
        Place::End => boundaries.last().copied().unwrap_or(0),
    };
    let mut scene = Scene::new(dice, "fault");
    (fault.act)(&mut scene);
    let rest = if fault.place == Place::End { &[][..] } else { &base.events[at..] };
    let (events, begin) = splice(&base.events[..at], scene.done(), rest);
    // What a fault changes is agreed, unless that is the fault.
    let mut charter = Charter { owned_files: Vec::new(), ..base.charter.clone() };
    (fault.agreed)(&mut charter);
    let expected = vec![Expected {
        kind: fault.kind,
        seq: begin.0,
        at: begin.1,
        within_seconds: None,
        within_events: None,
    }];
    let name = format!("{}/{number:03} {}: {}", base.name, fault.kind, fault.name);
    Case { name, charter, events, expected, also: fault.also }
}

/// Puts events between others: numbers go on, and what comes after comes later.
fn splice(
    before: &[StoredEvent],
    fault: Vec<StoredEvent>,
    rest: &[StoredEvent],
) -> (Vec<StoredEvent>, (i64, Timestamp)) {
    let later = |at: Timestamp, by: Duration| at.checked_add(by).unwrap_or(at);
    let since =
        |at: Timestamp, from: Timestamp| Duration::try_from(at.duration_since(from)).unwrap_or_default();
    let came = before.last().map_or(Timestamp::UNIX_EPOCH, |event| event.created_at);
    let began = later(came, PAUSE);
    let mut events = before.to_vec();
    for mut event in fault {
        event.created_at = later(began, since(event.created_at, Timestamp::UNIX_EPOCH));
        events.push(event);
    }
    let ended = events.last().map_or(began, |event| event.created_at);
    for event in rest {
        let mut event = event.clone();
        event.created_at = later(later(ended, PAUSE), since(event.created_at, came));
        events.push(event);
    }
    for (event, seq) in events.iter_mut().zip(1..) {
        (event.seq, event.id, event.worker_seq) = (seq, EventId(seq), None);
    }
    let begin = events.get(before.len()).map_or((0, began), |event| (event.seq, event.created_at));
    (events, begin)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Ids {
    tool_use_id: Option<String>,
}

/// Where a turn of the agent begins and no call is under way, before the agent halts for the first time.
fn boundaries(events: &[StoredEvent]) -> Vec<usize> {
    use EventKind as K;
    let (mut open, mut has_goal, mut found) = (HashSet::new(), false, Vec::new());
    for (at, event) in events.iter().enumerate() {
        let id = || serde_json::from_str::<Ids>(event.event_data.get()).ok()?.tool_use_id;
        match EventKind::of(&event.event_type) {
            Some(K::AgentUserMessage) => has_goal = true,
            Some(K::AgentToolUse | K::AgentSubagentInvoked) => open.extend(id()),
            Some(K::AgentToolResult | K::AgentUserToolResult | K::AgentSubagentCompleted) => {
                id().map(|id| open.remove(&id));
            }
            Some(K::AgentTurnComplete | K::AgentWaiting | K::AgentInterrupted | K::AgentMessageInjected) => {
                break;
            }
            Some(K::AgentMessage) if has_goal && open.is_empty() => found.push(at),
            _ => {}
        }
    }
    found
}
