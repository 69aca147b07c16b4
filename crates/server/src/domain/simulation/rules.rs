//! The rules that a history is played by: ours, and some that are broken on purpose.

use jiff::Timestamp;
use omoi_protocol::Place;

use crate::domain::{
    lease::Lease,
    place::{self, Step},
    task::{Proof, Refused, TaskEvent, TaskState, Transition},
};

#[derive(Clone, Copy)]
pub struct Rules {
    pub task: fn(&TaskState, TaskEvent, Timestamp) -> Result<Transition, Refused>,
    pub place: fn(Place, bool) -> Option<Step>,
}

impl Rules {
    pub fn ours() -> Self {
        Self { task: TaskState::apply, place: place::next }
    }

    pub fn broken() -> [(&'static str, Self); 7] {
        let ours = Self::ours();
        [
            ("a place is removed before its work is kept", Self { place: removes_at_once, ..ours }),
            ("what could not be kept is removed", Self { place: removes_unkept, ..ours }),
            ("an old lease completes a task", Self { task: believes_everybody, ..ours }),
            ("a held task is claimed again", Self { task: gives_twice, ..ours }),
            (
                "a lease goes back although another sandbox holds the task",
                Self { task: returns_twice, ..ours },
            ),
            ("an agent's word is proof enough", Self { task: believes_the_agent, ..ours }),
            ("late news takes a completion back", Self { task: takes_back, ..ours }),
        ]
    }
}

fn removes_at_once(place: Place, live: bool) -> Option<Step> {
    match (place, live) {
        (Place::Up, false) => Some(Step::Remove),
        (place, live) => place::next(place, live),
    }
}

fn removes_unkept(place: Place, live: bool) -> Option<Step> {
    match place {
        Place::Unkept => Some(Step::Remove),
        place => place::next(place, live),
    }
}

/// Whatever generation reports, it counts as the one that holds the task.
fn believes_everybody(state: &TaskState, event: TaskEvent, now: Timestamp) -> Result<Transition, Refused> {
    let current = state.lease().map_or(0, |lease| lease.generation);
    let event = match event {
        TaskEvent::Completed { proof, .. } => TaskEvent::Completed { generation: current, proof },
        event => event,
    };
    state.apply(event, now)
}

fn gives_twice(state: &TaskState, event: TaskEvent, now: Timestamp) -> Result<Transition, Refused> {
    match event {
        TaskEvent::Claimed(lease) if state.lease().is_some() => Ok((TaskState::Assigned(lease), Vec::new())),
        event => state.apply(event, now),
    }
}

fn returns_twice(state: &TaskState, event: TaskEvent, now: Timestamp) -> Result<Transition, Refused> {
    match (state, event) {
        (TaskState::Assigned(lease) | TaskState::Running(lease), TaskEvent::Reclaimed { generation, .. })
            if generation < lease.generation =>
        {
            Ok((TaskState::Running(Lease { generation, ..lease.clone() }), Vec::new()))
        }
        (state, event) => state.apply(event, now),
    }
}

fn believes_the_agent(state: &TaskState, event: TaskEvent, now: Timestamp) -> Result<Transition, Refused> {
    match event {
        TaskEvent::Completed { generation, proof: Proof::Owed } => {
            state.apply(TaskEvent::Completed { generation, proof: Proof::Undeclared }, now)
        }
        event => state.apply(event, now),
    }
}

fn takes_back(state: &TaskState, event: TaskEvent, now: Timestamp) -> Result<Transition, Refused> {
    match (state, event) {
        (TaskState::Completed, TaskEvent::Failed { .. }) => Ok((TaskState::Pending, Vec::new())),
        (state, event) => state.apply(event, now),
    }
}
