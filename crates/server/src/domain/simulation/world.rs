//! Tasks, sandboxes, a provider and a clock, and everything that may happen to them.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use omoi_protocol::{FailureKind, Place, SandboxId, Stage, TaskStatus};

use super::{Dice, rules::Rules};
use crate::domain::{
    check,
    lease::{Lease, Word},
    place::{AfterFailure, Patience, Step},
    retry::{self, Policy},
    task::{Effect, Proof, TaskEvent, TaskState},
};

const TASKS: usize = 5;
const LIVE_MAX: usize = 3;
const MAX_RETRIES: i64 = 2;
const LEASE: Duration = Duration::from_secs(120);
const GRACE: Duration = Duration::from_secs(3_600);
const PATIENCE: Patience = Patience { tries: 2, wait_max: Duration::from_secs(60) };
/// Enough for everything that is under way to come to its end.
const SETTLING_ROUNDS: usize = 400;

pub struct World {
    dice: Dice,
    rules: Rules,
    now: Timestamp,
    tasks: Vec<Task>,
    sandboxes: BTreeMap<SandboxId, Sandbox>,
    /// Nothing fails any more.
    calm: bool,
    /// The history, if it is to be told.
    told: Option<Vec<String>>,
}

struct Task {
    state: TaskState,
    generation: i64,
    retry_count: i64,
    not_before: Option<Timestamp>,
    /// The task that must be completed first.
    after: Option<usize>,
    /// Checks are declared, so that its work has to be proven.
    checked: bool,
    stage: Stage,
    /// Generation and stage of whoever completed it.
    completions: Vec<(i64, Stage)>,
}

impl Task {
    fn is_pending(&self) -> bool {
        self.state.status() == TaskStatus::Pending
    }
}

/// A row, the place it has at the provider, and the worker in it.
struct Sandbox {
    task: usize,
    generation: i64,
    stage: Stage,
    live: bool,
    place: Place,
    worker: Worker,
    /// Work that is in the sandbox and nowhere else.
    unsaved: u32,
    /// Rescues of it that failed.
    tries: u32,
    /// A person has discarded its work.
    is_discarded: bool,
    /// Reports on their way; each may arrive late, and twice.
    reports: Vec<Report>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    /// The provider has nothing of it.
    Absent,
    Running,
    /// Its process is gone, its disk is there.
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    Started,
    Completed,
    Failed(FailureKind),
}

impl World {
    pub fn new(mut dice: Dice, rules: Rules, is_told: bool) -> Self {
        let task = |after, checked| Task {
            state: TaskState::Pending,
            generation: 0,
            retry_count: 0,
            not_before: None,
            after,
            checked,
            stage: Stage::Work,
            completions: Vec::new(),
        };
        let tasks =
            (0..TASKS).map(|n| task((n > 0 && dice.once_in(3)).then(|| dice.roll(n)), dice.once_in(2)));
        let tasks = tasks.collect();
        let now = Timestamp::constant(1_750_000_000, 0);
        Self {
            dice,
            rules,
            now,
            tasks,
            sandboxes: BTreeMap::new(),
            calm: false,
            told: is_told.then(Vec::new),
        }
    }

    /// One thing happens.
    pub fn step(&mut self) -> Result<(), String> {
        match self.dice.roll(14) {
            0 | 1 => self.dispatch(),
            2 | 3 => self.look_after_one(),
            4 => self.work(),
            5 | 6 => self.deliver(),
            7 => self.heartbeat(),
            8 => {
                let seconds = 1 + self.dice.roll(200) as u64;
                self.pass(Duration::from_secs(seconds));
            }
            9 => self.expire(),
            10 => self.kill_worker(),
            11 => self.person(),
            12 => self.lose_report(),
            _ => self.pass(Duration::from_secs(1)),
        }
        self.check()
    }

    /// Faults stop, loops go round. Then everything has come to an end.
    pub fn settle(&mut self) -> Result<(), String> {
        self.calm = true;
        self.say(|| "calm".to_owned());
        for _ in 0..SETTLING_ROUNDS {
            self.dispatch();
            for id in self.ids() {
                self.decide(&id, Place::Up);
                self.look_after(&id);
                self.finish(&id);
            }
            self.expire();
            self.pass(Duration::from_secs(5));
            self.check()?;
            if self.is_over() {
                return Ok(());
            }
        }
        for (n, task) in self.tasks.iter().enumerate() {
            let waits = task.after.is_some_and(|after| {
                matches!(self.tasks[after].state, TaskState::Failed { .. } | TaskState::Cancelled)
            }) || task.after.is_some_and(|after| self.tasks[after].is_pending());
            if !task.state.status().is_final() && !waits {
                return self
                    .broken(&format!("task {n} neither ends nor waits for anything: {:?}", task.state));
            }
        }
        match self.sandboxes.iter().find(|(_, sandbox)| sandbox.place != Place::Gone) {
            Some((id, sandbox)) => self.broken(&format!("{id} is left behind at {}", sandbox.place)),
            None => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.tasks.iter().all(|task| task.state.status().is_final())
            && self.sandboxes.values().all(|sandbox| sandbox.place == Place::Gone)
    }

    fn check(&self) -> Result<(), String> {
        for (n, task) in self.tasks.iter().enumerate() {
            let live = self.sandboxes.values().filter(|sandbox| sandbox.task == n && sandbox.live).count();
            if live > 1 {
                return self.broken(&format!("task {n} has {live} live sandboxes"));
            }
            if task.completions.len() > 1 {
                return self.broken(&format!("task {n} was completed {} times", task.completions.len()));
            }
            if task.completions.first().is_some_and(|(by, _)| *by != task.generation) {
                return self.broken(&format!("task {n} was completed by an attempt that did not hold it"));
            }
            if task.checked && task.completions.first().is_some_and(|(_, stage)| *stage == Stage::Work) {
                return self.broken(&format!("task {n} is completed and nothing proves it"));
            }
            if !task.completions.is_empty() && task.state != TaskState::Completed {
                return self.broken(&format!("task {n} was completed and is {:?}", task.state));
            }
        }
        let lost = self
            .sandboxes
            .iter()
            .find(|(_, one)| one.place == Place::Gone && one.unsaved > 0 && !one.is_discarded);
        match lost {
            Some((id, _)) => self.broken(&format!("work of {id} was removed before it was kept")),
            None => Ok(()),
        }
    }

    fn broken(&self, what: &str) -> Result<(), String> {
        Err(format!("{what}\n  {}", self.told.as_deref().unwrap_or_default().join("\n  ")))
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            told.push(what());
        }
    }

    fn ids(&self) -> Vec<SandboxId> {
        self.sandboxes.keys().cloned().collect()
    }

    fn any(&mut self) -> Option<SandboxId> {
        let ids = self.ids();
        if ids.is_empty() { None } else { Some(ids[self.dice.roll(ids.len())].clone()) }
    }

    /// A transaction that comes to nothing.
    fn store_fails(&mut self) -> bool {
        !self.calm && self.dice.once_in(8)
    }

    fn pass(&mut self, time: Duration) {
        self.now += SignedDuration::try_from(time).expect("it is short");
    }

    /// Claims the first task that is ready. Two loops may both try, in one moment.
    fn dispatch(&mut self) {
        let claimers = if self.dice.once_in(5) { 2 } else { 1 };
        let live = self.sandboxes.values().filter(|sandbox| sandbox.live).count();
        let Some(n) = (0..self.tasks.len()).find(|n| self.is_ready(*n)) else { return };
        for _ in 0..claimers {
            if live >= LIVE_MAX || self.store_fails() {
                continue;
            }
            let (generation, now) = (self.tasks[n].generation + 1, self.now);
            let id: SandboxId = SandboxId::generate();
            let lease = Lease {
                holder: id.clone(),
                generation,
                expires_at: now + SignedDuration::try_from(LEASE).expect("it is short"),
            };
            if self.apply(n, TaskEvent::Claimed(lease), None) {
                self.tasks[n].generation = generation;
                self.say(|| format!("task {n} is claimed as generation {generation}"));
                let sandbox = Sandbox {
                    task: n,
                    generation,
                    stage: self.tasks[n].stage,
                    live: true,
                    place: Place::Wanted,
                    worker: Worker::Absent,
                    unsaved: 0,
                    tries: 0,
                    is_discarded: false,
                    reports: Vec::new(),
                };
                self.sandboxes.insert(id, sandbox);
            }
        }
    }

    fn is_ready(&self, n: usize) -> bool {
        let task = &self.tasks[n];
        let free = task.after.is_none_or(|after| self.tasks[after].state == TaskState::Completed);
        // What is held is tried as well: the rule has to refuse it.
        !task.state.status().is_final() && free && task.not_before.is_none_or(|due| due <= self.now)
    }

    /// Applies a rule and carries out its effects, as one transaction.
    fn apply(&mut self, n: usize, event: TaskEvent, by: Option<(i64, Stage)>) -> bool {
        let Ok((next, effects)) = (self.rules.task)(&self.tasks[n].state, event, self.now) else {
            return false;
        };
        self.tasks[n].state = next;
        for effect in effects {
            match effect {
                Effect::EndSandbox { sandbox, .. } => {
                    if let Some(sandbox) = self.sandboxes.get_mut(&sandbox) {
                        sandbox.live = false;
                    }
                }
                Effect::OfferAgain { kind, not_before } => {
                    self.tasks[n].retry_count += 1;
                    self.tasks[n].not_before = Some(not_before);
                    self.tasks[n].stage = check::stage_after(self.tasks[n].stage, kind);
                }
                Effect::ReturnLease { lease } => {
                    self.tasks[n].retry_count -= 1;
                    self.tasks[n].not_before = None;
                    if let Some(sandbox) = self.sandboxes.get_mut(&lease.holder) {
                        sandbox.live = true;
                    }
                }
                Effect::OfferCheck => self.tasks[n].stage = Stage::Check,
                Effect::OfferAfresh => {
                    self.tasks[n].retry_count = 0;
                    self.tasks[n].not_before = None;
                }
                Effect::ReleaseDependants => self.tasks[n].completions.extend(by),
                Effect::SettleDependants => {}
            }
        }
        true
    }

    fn look_after_one(&mut self) {
        if let Some(id) = self.any() {
            self.look_after(&id);
        }
    }

    /// One step of the loop of places. A crash may come between what the provider does and what the store is told.
    fn look_after(&mut self, id: &SandboxId) {
        let (place, live) = (self.sandboxes[id].place, self.sandboxes[id].live);
        let Some(step) = (self.rules.place)(place, live) else { return };
        let (crashes, fails) = (!self.calm && self.dice.once_in(6), self.store_fails());
        let is_refused = !self.calm && self.dice.once_in(4);
        let sandbox = self.sandboxes.get_mut(id).expect("it was found");
        let mut dead = None;
        match step {
            Step::Make => {
                if sandbox.worker == Worker::Absent {
                    sandbox.worker = Worker::Running;
                }
                if !crashes && !fails {
                    sandbox.place = Place::Up;
                }
            }
            Step::Watch => {
                dead = (sandbox.worker != Worker::Running && !fails)
                    .then_some((sandbox.task, sandbox.generation));
            }
            Step::End => {
                if sandbox.worker == Worker::Running {
                    sandbox.worker = Worker::Dead;
                }
                if !crashes && is_refused && !fails {
                    sandbox.tries += 1;
                    if PATIENCE.after(sandbox.tries) == AfterFailure::GiveUp {
                        sandbox.place = Place::Unkept;
                    }
                } else if !crashes && !is_refused {
                    // The rescue keeps what is there; it may be made twice.
                    sandbox.unsaved = 0;
                    if !fails {
                        sandbox.place = Place::Kept;
                    }
                }
            }
            Step::Remove => {
                sandbox.worker = Worker::Absent;
                if !crashes && !fails {
                    sandbox.place = Place::Gone;
                }
            }
        }
        self.say(|| format!("{step:?} of {id}{}", if crashes { ", and the server is killed" } else { "" }));
        if let Some((n, generation)) = dead {
            self.report_failed(n, generation, FailureKind::Crashed);
        }
    }

    fn report_completed(&mut self, id: &SandboxId) {
        let Sandbox { task, generation, stage, .. } = self.sandboxes[id];
        let proof = match stage {
            Stage::Check => Proof::Given,
            Stage::Work if self.tasks[task].checked => Proof::Owed,
            Stage::Work => Proof::Undeclared,
        };
        self.reclaim(task, generation);
        self.apply(task, TaskEvent::Completed { generation, proof }, Some((generation, stage)));
    }

    /// The end of an attempt counts although its lease ran out, as long as no other sandbox has taken the task.
    fn reclaim(&mut self, n: usize, generation: i64) {
        let event = TaskEvent::Reclaimed { generation, word: Word::End, grace: GRACE, duration: LEASE };
        if self.apply(n, event, None) {
            self.say(|| format!("generation {generation} of task {n} has its lease again"));
        }
    }

    fn report_failed(&mut self, n: usize, generation: i64, kind: FailureKind) {
        self.reclaim(n, generation);
        let retry = retry::decide(kind, self.tasks[n].retry_count, MAX_RETRIES, &Policy::default(), 0.5);
        self.apply(n, TaskEvent::Failed { generation, kind, retry }, None);
    }

    /// A worker does something, and may be done.
    fn work(&mut self) {
        let Some(id) = self.any() else { return };
        let roll = self.dice.roll(8);
        let sandbox = self.sandboxes.get_mut(&id).expect("it was found");
        if sandbox.worker != Worker::Running {
            return;
        }
        sandbox.unsaved += 1;
        let report = match roll {
            0 => Report::Completed,
            1 => Report::Failed(FailureKind::Agent),
            2 => Report::Failed(FailureKind::Invalid),
            3 => Report::Failed(FailureKind::Checks),
            _ => Report::Started,
        };
        sandbox.reports.push(report);
        self.say(|| format!("{id} works and says {report:?}"));
    }

    /// A report arrives: the oldest, or again one that has arrived before.
    fn deliver(&mut self) {
        let Some(id) = self.any() else { return };
        let again = self.dice.once_in(4);
        if self.store_fails() {
            return;
        }
        let sandbox = self.sandboxes.get_mut(&id).expect("it was found");
        let Some(report) = sandbox.reports.first().copied() else { return };
        if !again {
            sandbox.reports.remove(0);
        }
        let (n, generation) = (sandbox.task, sandbox.generation);
        self.say(|| format!("{report:?} of {id} arrives"));
        match report {
            Report::Started => {
                self.apply(n, TaskEvent::Started { generation }, None);
            }
            Report::Completed => self.report_completed(&id),
            Report::Failed(kind) => self.report_failed(n, generation, kind),
        }
    }

    /// In calm, a worker that runs for a live sandbox comes to its end, and its word arrives.
    fn finish(&mut self, id: &SandboxId) {
        let sandbox = &self.sandboxes[id];
        if sandbox.live && sandbox.worker == Worker::Running && sandbox.place == Place::Up {
            self.report_completed(id);
        }
    }

    fn heartbeat(&mut self) {
        let Some(id) = self.any() else { return };
        let (n, running) = (self.sandboxes[&id].task, self.sandboxes[&id].worker == Worker::Running);
        let now = self.now;
        if let (true, TaskState::Assigned(lease) | TaskState::Running(lease)) =
            (running, &mut self.tasks[n].state)
            && lease.holder == id
        {
            *lease = lease.renew(now, LEASE);
        }
    }

    fn expire(&mut self) {
        for n in 0..self.tasks.len() {
            let expired = self.tasks[n].state.lease().is_some_and(|lease| lease.is_expired(self.now));
            if expired && !self.store_fails() {
                let retry = retry::decide(
                    FailureKind::Lost,
                    self.tasks[n].retry_count,
                    MAX_RETRIES,
                    &Policy::default(),
                    0.5,
                );
                self.apply(n, TaskEvent::LeaseExpired { retry, place: Place::Up }, None);
                self.say(|| format!("the lease of task {n} has run out"));
            }
        }
    }

    fn kill_worker(&mut self) {
        let Some(id) = self.any() else { return };
        let sandbox = self.sandboxes.get_mut(&id).expect("it was found");
        if sandbox.worker == Worker::Running {
            sandbox.worker = Worker::Dead;
            self.say(|| format!("the worker of {id} is killed"));
        }
    }

    /// Somebody cancels a task, or wants it once more.
    fn person(&mut self) {
        if let Some(id) = self.any() {
            let decision = if self.dice.once_in(2) { Place::Up } else { Place::Discarded };
            self.decide(&id, decision);
        }
        let n = self.dice.roll(self.tasks.len());
        let event = if self.dice.once_in(2) { TaskEvent::Cancelled } else { TaskEvent::Retried };
        let what = event.clone();
        if !self.store_fails() && self.apply(n, event, None) {
            self.say(|| format!("a person says {what:?} of task {n}"));
        }
    }

    /// A person has work rescued again that could not be kept, or discards it.
    fn decide(&mut self, id: &SandboxId, decision: Place) {
        let sandbox = self.sandboxes.get_mut(id).expect("it was found");
        if sandbox.place == Place::Unkept {
            (sandbox.place, sandbox.tries) = (decision, 0);
            sandbox.is_discarded = decision == Place::Discarded;
            self.say(|| format!("a person decides about {id}: {decision}"));
        }
    }

    /// A report that nobody acknowledged is lost with its worker.
    fn lose_report(&mut self) {
        let Some(id) = self.any() else { return };
        let sandbox = self.sandboxes.get_mut(&id).expect("it was found");
        if sandbox.worker != Worker::Running {
            sandbox.reports.clear();
        }
    }
}
