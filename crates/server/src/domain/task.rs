//! The life of a task: `pending → assigned → running → completed / failed / cancelled`. A transition returns
//! the next state and the effects it wants; storing both, in the transaction that read the state, is the
//! caller's part.
//!
//! Reports carry the generation of the reporter's lease, and late news changes nothing: a report from an
//! older lease, or about a task that is over, is refused. A task whose lease ran out is pending and remembers that lease:
//! until another sandbox takes the task, its last holder may reclaim it, which undoes the loss. Failures bring the
//! decision of [`super::retry`] with them, so that a task is either offered again or over in the same step, and never
//! rests in between.

use std::time::Duration;

use jiff::Timestamp;
use omoi_protocol::{FailureKind, Place, SandboxId, SandboxStatus, TaskStatus};

use super::{
    lease::{Lapse, Lease, NotReclaimed, PassedOn, Word},
    retry::RetryDecision,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    Pending,
    /// Pending, and offered because the lease of its last holder ran out.
    Lapsed(Lapse),
    Assigned(Lease),
    Running(Lease),
    Completed,
    Failed {
        kind: FailureKind,
    },
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    Claimed(Lease),
    Started {
        generation: i64,
    },
    Completed {
        generation: i64,
        proof: Proof,
    },
    Failed {
        generation: i64,
        kind: FailureKind,
        retry: RetryDecision,
    },
    /// `retry` is the decision for [`FailureKind::Lost`]; `place` is where the holder is.
    LeaseExpired {
        retry: RetryDecision,
        place: Place,
    },
    /// The last holder is heard of after its lease ran out. It has the lease again, and then reports like any holder.
    Reclaimed {
        generation: i64,
        word: Word,
        /// How long after the loss this is possible.
        grace: Duration,
        /// How long the lease lasts then.
        duration: Duration,
    },
    Cancelled,
    /// What it waits for did not complete, and its policy is to fail then. Those that wait for it in turn are the
    /// caller's part: a chain may be long.
    DependencyFailed,
    /// Somebody wants it tried once more.
    Retried,
}

/// What shows that a success is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// No checks are declared, so the reporter's word is all there is.
    Undeclared,
    /// The declared checks have yet to run, in a sandbox of their own.
    Owed,
    /// They ran and passed.
    Given,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The sandbox holds nothing any more: its work is kept, then its place is removed.
    EndSandbox { sandbox: SandboxId, status: SandboxStatus },
    /// Count one retry more, and hold the task back until then. The kind says at which stage it goes on.
    OfferAgain { kind: FailureKind, not_before: Timestamp },
    /// The sandbox holds the task again under this lease, as if it had never run out: the retry that was counted for the loss
    /// is taken back, and nothing holds the task back.
    ReturnLease { lease: Lease },
    /// The work is done and is to be proven: no retry is counted, and nothing is held back.
    OfferCheck,
    /// Count retries from zero, and hold nothing back.
    OfferAfresh,
    /// Those that wait for this task have one unmet dependency less.
    ReleaseDependants,
    /// Those that wait for this task do so in vain; the dependency policy of each says what becomes of it.
    SettleDependants,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} changes nothing on a task that is {status}: {reason}")]
pub struct Refused {
    pub status: TaskStatus,
    pub event: &'static str,
    pub reason: Reason,
}

impl Refused {
    pub fn code(&self) -> &'static str {
        match self.reason {
            Reason::PassedOn(_) | Reason::NotReclaimed(_) => "lease_passed_on",
            Reason::Final => "task_final",
            Reason::Held => "task_held",
            Reason::NotHeld => "not_running",
            Reason::LeaseLasts => "lease_lasts",
            Reason::NotOver => "not_over",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error(transparent)]
    PassedOn(#[from] PassedOn),
    #[error(transparent)]
    NotReclaimed(#[from] NotReclaimed),
    #[error("it is over")]
    Final,
    #[error("a sandbox holds it")]
    Held,
    #[error("no sandbox holds it")]
    NotHeld,
    #[error("its lease has not run out")]
    LeaseLasts,
    #[error("only what failed or was cancelled is retried")]
    NotOver,
}

pub type Transition = (TaskState, Vec<Effect>);

impl TaskState {
    pub fn apply(&self, event: TaskEvent, now: Timestamp) -> Result<Transition, Refused> {
        let name = event.name();
        self.next(event, now).map_err(|reason| Refused { status: self.status(), event: name, reason })
    }

    pub fn status(&self) -> TaskStatus {
        match self {
            Self::Pending | Self::Lapsed(_) => TaskStatus::Pending,
            Self::Assigned(_) => TaskStatus::Assigned,
            Self::Running(_) => TaskStatus::Running,
            Self::Completed => TaskStatus::Completed,
            Self::Failed { .. } => TaskStatus::Failed,
            Self::Cancelled => TaskStatus::Cancelled,
        }
    }

    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Assigned(lease) | Self::Running(lease) => Some(lease),
            Self::Pending | Self::Lapsed(_) | Self::Completed | Self::Failed { .. } | Self::Cancelled => None,
        }
    }

    fn next(&self, event: TaskEvent, now: Timestamp) -> Result<Transition, Reason> {
        match event {
            TaskEvent::Claimed(lease) => match self {
                Self::Pending | Self::Lapsed(_) => Ok((Self::Assigned(lease), vec![])),
                Self::Assigned(_) | Self::Running(_) => Err(Reason::Held),
                Self::Completed | Self::Failed { .. } | Self::Cancelled => Err(Reason::Final),
            },
            TaskEvent::Started { generation } => {
                let lease = self.lease_of(generation)?;
                Ok((Self::Running(lease.clone()), vec![]))
            }
            // The report of the start may have been lost, so an assigned task ends like a running one.
            TaskEvent::Completed { generation, proof } => {
                let ended = end(self.lease_of(generation)?, SandboxStatus::Completed);
                Ok(match proof {
                    Proof::Undeclared | Proof::Given => {
                        (Self::Completed, vec![ended, Effect::ReleaseDependants])
                    }
                    Proof::Owed => (Self::Pending, vec![ended, Effect::OfferCheck]),
                })
            }
            TaskEvent::Failed { generation, kind, retry } => {
                Ok(failed(self.lease_of(generation)?, kind, retry, now))
            }
            TaskEvent::LeaseExpired { retry, place } => match self {
                Self::Assigned(lease) | Self::Running(lease) if lease.is_expired(now) => {
                    let (next, effects) = failed(lease, FailureKind::Lost, retry, now);
                    let started = matches!(self, Self::Running(_));
                    let lapse = Lapse { lease: lease.clone(), at: now, started, place };
                    Ok((if next == Self::Pending { Self::Lapsed(lapse) } else { next }, effects))
                }
                Self::Assigned(_) | Self::Running(_) => Err(Reason::LeaseLasts),
                Self::Pending | Self::Lapsed(_) => Err(Reason::NotHeld),
                Self::Completed | Self::Failed { .. } | Self::Cancelled => Err(Reason::Final),
            },
            TaskEvent::Reclaimed { generation, word, grace, duration } => match self {
                Self::Lapsed(lapse) => {
                    let lease = lapse.reclaim(generation, word, grace, duration, now)?;
                    let returned = vec![Effect::ReturnLease { lease: lease.clone() }];
                    Ok((if lapse.started { Self::Running(lease) } else { Self::Assigned(lease) }, returned))
                }
                Self::Pending => Err(Reason::PassedOn(PassedOn { reporter: generation })),
                Self::Assigned(_) | Self::Running(_) => Err(Reason::Held),
                Self::Completed | Self::Failed { .. } | Self::Cancelled => Err(Reason::Final),
            },
            TaskEvent::Cancelled => match self {
                Self::Pending | Self::Lapsed(_) => Ok((Self::Cancelled, vec![Effect::SettleDependants])),
                Self::Assigned(lease) | Self::Running(lease) => {
                    let ended = end(lease, SandboxStatus::Terminated);
                    Ok((Self::Cancelled, vec![ended, Effect::SettleDependants]))
                }
                Self::Completed | Self::Failed { .. } | Self::Cancelled => Err(Reason::Final),
            },
            TaskEvent::DependencyFailed => match self {
                Self::Pending | Self::Lapsed(_) => Ok((Self::Failed { kind: FailureKind::Invalid }, vec![])),
                Self::Assigned(_) | Self::Running(_) => Err(Reason::Held),
                Self::Completed | Self::Failed { .. } | Self::Cancelled => Err(Reason::Final),
            },
            TaskEvent::Retried => match self {
                Self::Failed { .. } | Self::Cancelled => Ok((Self::Pending, vec![Effect::OfferAfresh])),
                Self::Completed => Err(Reason::Final),
                Self::Pending | Self::Lapsed(_) | Self::Assigned(_) | Self::Running(_) => {
                    Err(Reason::NotOver)
                }
            },
        }
    }

    /// The lease in whose name a reporter of this generation may speak.
    fn lease_of(&self, generation: i64) -> Result<&Lease, Reason> {
        match self {
            Self::Assigned(lease) | Self::Running(lease) => {
                lease.fence().check(generation)?;
                Ok(lease)
            }
            Self::Pending | Self::Lapsed(_) => Err(Reason::PassedOn(PassedOn { reporter: generation })),
            Self::Completed | Self::Failed { .. } | Self::Cancelled => Err(Reason::Final),
        }
    }
}

impl TaskEvent {
    fn name(&self) -> &'static str {
        match self {
            Self::Claimed(_) => "claimed",
            Self::Started { .. } => "started",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::LeaseExpired { .. } => "lease expired",
            Self::Reclaimed { .. } => "lease reclaimed",
            Self::Cancelled => "cancelled",
            Self::DependencyFailed => "dependency failed",
            Self::Retried => "retried",
        }
    }
}

fn failed(lease: &Lease, kind: FailureKind, retry: RetryDecision, now: Timestamp) -> Transition {
    let ended = match kind {
        FailureKind::Lost => end(lease, SandboxStatus::Lost),
        _ => end(lease, SandboxStatus::Failed),
    };
    match retry {
        RetryDecision::Again { after } => {
            let not_before = now.saturating_add(after).unwrap_or(Timestamp::MAX);
            (TaskState::Pending, vec![ended, Effect::OfferAgain { kind, not_before }])
        }
        RetryDecision::GiveUp { .. } => (TaskState::Failed { kind }, vec![ended, Effect::SettleDependants]),
    }
}

fn end(lease: &Lease, status: SandboxStatus) -> Effect {
    Effect::EndSandbox { sandbox: lease.holder.clone(), status }
}

#[cfg(test)]
mod tests {
    use super::{Effect::*, TaskState::*, *};
    use crate::domain::retry::GiveUp;

    const NOW: Timestamp = Timestamp::constant(1_750_000_000, 0);
    const LATER: Timestamp = Timestamp::constant(1_750_000_060, 0);
    const AGAIN: RetryDecision = RetryDecision::Again { after: Duration::from_secs(4) };
    const GIVE_UP: RetryDecision = RetryDecision::GiveUp { reason: GiveUp::Hopeless };
    const CRASHED: TaskState = Failed { kind: FailureKind::Crashed };
    const INVALID: TaskState = Failed { kind: FailureKind::Invalid };
    const LOST: TaskState = Failed { kind: FailureKind::Lost };

    fn lease(expires_at: Timestamp) -> Lease {
        Lease { holder: "sbx-5".parse().unwrap(), generation: 5, expires_at }
    }

    fn held() -> Lease {
        lease(LATER)
    }

    fn expired() -> Lease {
        lease(NOW)
    }

    fn lapse(started: bool) -> Lapse {
        Lapse { lease: expired(), at: NOW, started, place: Place::None }
    }

    fn reclaim(generation: i64, word: Word) -> TaskEvent {
        let (grace, duration) = (Duration::from_secs(3_600), Duration::from_secs(60));
        TaskEvent::Reclaimed { generation, word, grace, duration }
    }

    fn silent(retry: RetryDecision) -> TaskEvent {
        TaskEvent::LeaseExpired { retry, place: Place::None }
    }

    fn crash(generation: i64, retry: RetryDecision) -> TaskEvent {
        TaskEvent::Failed { generation, kind: FailureKind::Crashed, retry }
    }

    fn complete(generation: i64, proof: Proof) -> TaskEvent {
        TaskEvent::Completed { generation, proof }
    }

    fn offer(kind: FailureKind) -> Effect {
        OfferAgain { kind, not_before: Timestamp::constant(1_750_000_004, 0) }
    }

    fn ended(status: SandboxStatus) -> Effect {
        EndSandbox { sandbox: "sbx-5".parse().unwrap(), status }
    }

    /// One event of each kind, as the holder of generation 5 would cause it.
    fn all_events() -> Vec<TaskEvent> {
        vec![
            TaskEvent::Claimed(held()),
            TaskEvent::Started { generation: 5 },
            complete(5, Proof::Undeclared),
            complete(5, Proof::Owed),
            complete(5, Proof::Given),
            crash(5, AGAIN),
            silent(AGAIN),
            reclaim(5, Word::Alive),
            reclaim(5, Word::End),
            TaskEvent::Cancelled,
            TaskEvent::DependencyFailed,
            TaskEvent::Retried,
        ]
    }

    fn all_states() -> Vec<TaskState> {
        let held_states = [Assigned(held()), Running(held()), Assigned(expired()), Running(expired())];
        let pending_states = [Pending, Lapsed(lapse(false)), Lapsed(lapse(true))];
        pending_states.into_iter().chain([Completed, CRASHED, Cancelled]).chain(held_states).collect()
    }

    #[test]
    fn what_each_event_does_where_it_is_accepted() {
        use SandboxStatus as Sandbox;
        let started = || TaskEvent::Started { generation: 5 };
        let completed = |proof| complete(5, proof);
        let owed = || vec![ended(Sandbox::Completed), OfferCheck];
        let returned = || vec![ReturnLease { lease: held() }];
        let proven = || vec![ended(Sandbox::Completed), ReleaseDependants];
        let hopeless = |status| vec![ended(status), SettleDependants];
        let offered = |status, kind| vec![ended(status), offer(kind)];
        let (crashed, lost) = (FailureKind::Crashed, FailureKind::Lost);
        let stopped = || hopeless(Sandbox::Terminated);
        #[rustfmt::skip]
        let table = [
            (Pending,             TaskEvent::Claimed(held()), Assigned(held()), vec![]),
            (Assigned(held()),    started(),         Running(held()),    vec![]),
            (Running(held()),     started(),         Running(held()),    vec![]),
            (Assigned(expired()), started(),         Running(expired()), vec![]),
            (Assigned(held()),    completed(Proof::Undeclared), Completed, proven()),
            (Running(held()),     completed(Proof::Undeclared), Completed, proven()),
            (Running(held()),     completed(Proof::Given), Completed,    proven()),
            (Running(expired()),  completed(Proof::Given), Completed,    proven()),
            (Assigned(held()),    completed(Proof::Owed), Pending,       owed()),
            (Running(held()),     completed(Proof::Owed), Pending,       owed()),
            (Running(expired()),  completed(Proof::Owed), Pending,       owed()),
            (Assigned(held()),    crash(5, AGAIN),   Pending,            offered(Sandbox::Failed, crashed)),
            (Running(held()),     crash(5, AGAIN),   Pending,            offered(Sandbox::Failed, crashed)),
            (Assigned(held()),    crash(5, GIVE_UP), CRASHED,            hopeless(Sandbox::Failed)),
            (Running(held()),     crash(5, GIVE_UP), CRASHED,            hopeless(Sandbox::Failed)),
            (Assigned(expired()), silent(AGAIN),     Lapsed(lapse(false)), offered(Sandbox::Lost, lost)),
            (Running(expired()),  silent(AGAIN),     Lapsed(lapse(true)), offered(Sandbox::Lost, lost)),
            (Assigned(expired()), silent(GIVE_UP),   LOST,               hopeless(Sandbox::Lost)),
            (Running(expired()),  silent(GIVE_UP),   LOST,               hopeless(Sandbox::Lost)),
            (Lapsed(lapse(false)), reclaim(5, Word::Alive), Assigned(held()), returned()),
            (Lapsed(lapse(true)), reclaim(5, Word::Alive), Running(held()), returned()),
            (Lapsed(lapse(true)), reclaim(5, Word::End), Running(held()), returned()),
            (Lapsed(lapse(true)), TaskEvent::Claimed(held()), Assigned(held()), vec![]),
            (Lapsed(lapse(true)), TaskEvent::Cancelled, Cancelled,       vec![SettleDependants]),
            (Lapsed(lapse(true)), TaskEvent::DependencyFailed, INVALID,  vec![]),
            (Pending,             TaskEvent::Cancelled, Cancelled,       vec![SettleDependants]),
            (Assigned(held()),    TaskEvent::Cancelled, Cancelled,       stopped()),
            (Running(held()),     TaskEvent::Cancelled, Cancelled,       stopped()),
            (Pending,             TaskEvent::DependencyFailed, INVALID,  vec![]),
            (CRASHED,             TaskEvent::Retried, Pending,           vec![OfferAfresh]),
            (Cancelled,           TaskEvent::Retried, Pending,           vec![OfferAfresh]),
        ];
        for (state, event, next, effects) in table {
            assert_eq!(state.apply(event.clone(), NOW), Ok((next, effects)), "{state:?} on {event:?}");
        }
    }

    #[test]
    fn what_is_refused_and_why() {
        let removed = Lapsed(Lapse { place: Place::Up, ..lapse(true) });
        let past = Lapsed(Lapse { at: Timestamp::constant(1_749_996_400, 0), ..lapse(true) });
        let started = |generation| TaskEvent::Started { generation };
        let table = [
            (Assigned(held()), TaskEvent::Claimed(held()), "task_held"),
            (Running(expired()), TaskEvent::Claimed(held()), "task_held"),
            (Completed, TaskEvent::Claimed(held()), "task_final"),
            (Cancelled, TaskEvent::Claimed(held()), "task_final"),
            (Pending, started(5), "lease_passed_on"),
            (Pending, complete(5, Proof::Owed), "lease_passed_on"),
            (Pending, crash(5, AGAIN), "lease_passed_on"),
            (Assigned(held()), started(4), "lease_passed_on"),
            (Running(held()), complete(4, Proof::Owed), "lease_passed_on"),
            (Running(held()), crash(4, GIVE_UP), "lease_passed_on"),
            (Running(held()), crash(6, GIVE_UP), "lease_passed_on"),
            (Completed, started(5), "task_final"),
            (Completed, crash(5, GIVE_UP), "task_final"),
            (CRASHED, complete(5, Proof::Owed), "task_final"),
            (Cancelled, complete(5, Proof::Owed), "task_final"),
            (Lapsed(lapse(true)), started(5), "lease_passed_on"),
            (Lapsed(lapse(true)), complete(5, Proof::Owed), "lease_passed_on"),
            (Lapsed(lapse(true)), crash(5, AGAIN), "lease_passed_on"),
            (Lapsed(lapse(true)), reclaim(4, Word::End), "lease_passed_on"),
            (Lapsed(lapse(true)), reclaim(6, Word::Alive), "lease_passed_on"),
            (Pending, reclaim(5, Word::End), "lease_passed_on"),
            (removed, reclaim(5, Word::Alive), "lease_passed_on"),
            (past, reclaim(5, Word::End), "lease_passed_on"),
            (Assigned(held()), reclaim(4, Word::End), "task_held"),
            (Running(held()), reclaim(5, Word::End), "task_held"),
            (LOST, reclaim(5, Word::End), "task_final"),
            (Cancelled, reclaim(5, Word::Alive), "task_final"),
            (Pending, silent(AGAIN), "not_running"),
            (Lapsed(lapse(true)), silent(AGAIN), "not_running"),
            (Assigned(held()), silent(AGAIN), "lease_lasts"),
            (Running(held()), silent(AGAIN), "lease_lasts"),
            (CRASHED, silent(AGAIN), "task_final"),
            (Cancelled, TaskEvent::Cancelled, "task_final"),
            (Assigned(held()), TaskEvent::DependencyFailed, "task_held"),
            (Running(held()), TaskEvent::DependencyFailed, "task_held"),
            (Cancelled, TaskEvent::DependencyFailed, "task_final"),
            (Pending, TaskEvent::Retried, "not_over"),
            (Lapsed(lapse(true)), TaskEvent::Retried, "not_over"),
            (Running(held()), TaskEvent::Retried, "not_over"),
        ];
        for (state, event, code) in table {
            let refused = state.apply(event.clone(), NOW).expect_err("refused");
            assert_eq!(refused.code(), code, "{state:?} on {event:?}");
        }
    }

    #[test]
    fn a_refusal_reads_alone() {
        let late = Completed.apply(TaskEvent::Started { generation: 5 }, NOW).unwrap_err();
        assert_eq!(late.to_string(), r#""started" changes nothing on a task that is completed: it is over"#);
        let old = Running(held()).apply(complete(4, Proof::Owed), NOW).unwrap_err();
        let why = "the lease of generation 4 has passed on";
        assert_eq!(
            old.to_string(),
            format!(r#""completed" changes nothing on a task that is running: {why}"#)
        );
    }

    #[test]
    fn nothing_changes_a_completed_task() {
        for event in all_events() {
            assert!(Completed.apply(event.clone(), LATER).is_err(), "{event:?}");
        }
    }

    #[test]
    fn a_task_that_loses_its_holder_ends_that_sandbox_exactly_once() {
        for state in all_states() {
            for event in all_events() {
                let Ok((next, effects)) = state.apply(event.clone(), NOW) else { continue };
                let ends = effects.iter().filter(|effect| matches!(effect, EndSandbox { .. })).count();
                let let_go = state.lease().is_some() && next.lease().is_none();
                assert_eq!(ends, usize::from(let_go), "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn a_sandbox_that_fell_silent_cannot_speak_for_the_next_holder() {
        let (pending, _) = Running(expired()).apply(silent(AGAIN), NOW).unwrap();
        let next = Lease { holder: "sbx-6".parse().unwrap(), generation: 6, expires_at: LATER };
        let (assigned, _) = pending.apply(TaskEvent::Claimed(next.clone()), NOW).unwrap();

        let late = assigned.apply(complete(5, Proof::Owed), NOW).unwrap_err();
        assert_eq!(late.code(), "lease_passed_on");
        let back = assigned.apply(reclaim(5, Word::End), NOW).unwrap_err();
        assert_eq!(back.code(), "task_held");
        assert_eq!(assigned.apply(TaskEvent::Started { generation: 6 }, NOW).unwrap().0, Running(next));
    }

    #[test]
    fn a_loss_that_is_taken_back_leaves_the_task_as_it_was() {
        for state in [Assigned(expired()), Running(expired())] {
            let (lapsed, _) = state.apply(silent(AGAIN), NOW).unwrap();
            assert_eq!(lapsed.status(), TaskStatus::Pending);
            let (back, _) = lapsed.apply(reclaim(5, Word::Alive), NOW).unwrap();
            assert_eq!((back.status(), back.lease()), (state.status(), Some(&held())));
        }
    }
}
