//! The loop that makes sandboxes, looks after them, keeps their work and removes them. It looks at stored rows and at
//! the provider, and moves each sandbox one step; any number of steps run side by side, one per sandbox.
//!
//! One process per data directory does this, the one that holds its lock; another takes over when it ends.

mod ending;
mod rescues;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use omoi_protocol::{
    CommandId, FailureKind, Place, ProjectId, SandboxId,
    sandbox::{Command, KEEP_LIMIT},
};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use self::rescues::Rescues;
use super::{
    commands,
    launch::{self, Defaults},
    node::Node,
};
use crate::{
    clock::Clock,
    crash::Point,
    domain::{
        commit::CommitId,
        place::{self, Patience, Share, Step},
    },
    gateway::door::Doors,
    git::{self, Checkouts, Mirrors},
    sandbox::{self, Inspection, Local, Order, Provider},
    store::{self, Facts, Owed, Placed, Session, Store},
};

/// How many rows one look takes in.
const LIMIT: usize = 5_000;
/// A spawn that fails by something that may pass is tried this often before the attempt has failed.
const SPAWN_TRIES: i64 = 5;
const RESCUE_TIMEOUT: Duration = Duration::from_secs(600);
/// A rescue also sends the events that its worker could not send.
const _: () = assert!(KEEP_LIMIT.as_secs() + 100 < RESCUE_TIMEOUT.as_secs());
/// Sandboxes that are asked to stop at the same time. Each waits on a thread.
const STOPS_AT_ONCE: usize = 32;
const LOG_TAIL_BYTES: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Sandbox(#[from] sandbox::Error),
    #[error(transparent)]
    Git(#[from] git::Error),
    #[error("the door cannot be served: {0}")]
    Door(std::io::Error),
    #[error("the project has no branch or commit {0:?} to start from")]
    NoBase(String),
    #[error(
        "commit {commit} was reported and is not on {branch}, so there is nothing to check; push it there"
    )]
    NotPushed { commit: CommitId, branch: String },
    #[error("the rescue took longer than {RESCUE_TIMEOUT:?}")]
    RescueTimeout,
}

impl Error {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Sandbox(error) => error.kind(),
            Self::Git(error) if !error.may_pass() => FailureKind::Invalid,
            Self::NoBase(_) => FailureKind::Invalid,
            // The work is not there, so it is to be done again.
            Self::NotPushed { .. } => FailureKind::Checks,
            _ => FailureKind::Spawn,
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Sandbox(error) => error.may_pass(),
            Self::Git(error) => error.may_pass(),
            Self::NoBase(_) | Self::NotPushed { .. } => false,
            _ => true,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub steps_begun: usize,
    /// Ended sandboxes that are to go now.
    pub pruned: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub places: usize,
    pub checkouts: usize,
    pub egress_lines: usize,
}

#[derive(Clone)]
pub struct Places(Arc<Shared>);

struct Shared {
    store: Store,
    clock: Clock,
    provider: Local,
    mirrors: Mirrors,
    checkouts: Checkouts,
    doors: Doors,
    defaults: Defaults,
    node: Node,
    tracker: TaskTracker,
    busy: Mutex<HashSet<SandboxId>>,
    /// To make and to remove; rescues and stops have permits of their own.
    permits: Semaphore,
    stops: Semaphore,
    rescues: Rescues,
    patience: Patience,
    wake: Arc<Notify>,
    /// Commands under way here.
    running: Mutex<HashSet<CommandId>>,
    orphans_ended: AtomicBool,
}

/// What the loop works with.
pub struct Parts {
    pub store: Store,
    pub clock: Clock,
    pub provider: Local,
    pub mirrors: Mirrors,
    pub checkouts: Checkouts,
    pub doors: Doors,
    pub node: Node,
    pub wake: Arc<Notify>,
}

impl Places {
    pub fn new(parts: Parts, defaults: Defaults, tracker: TaskTracker) -> Self {
        let Parts { store, clock, provider, mirrors, checkouts, doors, node, wake } = parts;
        let permits = Semaphore::new(defaults.sandbox.steps_at_once);
        let sandbox = &defaults.sandbox;
        let share = Share { at_once: sandbox.rescues_at_once, per_project: sandbox.rescues_per_project };
        let patience = Patience { tries: sandbox.rescue_tries, wait_max: sandbox.rescue_wait_max };
        let busy = Mutex::new(HashSet::new());
        Self(Arc::new(Shared {
            store,
            clock,
            provider,
            mirrors,
            checkouts,
            doors,
            defaults,
            node,
            tracker,
            busy,
            permits,
            stops: Semaphore::new(STOPS_AT_ONCE),
            rescues: Rescues::new(share),
            patience,
            wake,
            running: Mutex::default(),
            orphans_ended: AtomicBool::new(false),
        }))
    }

    /// Begins a step for every sandbox that is due and has none under way.
    pub async fn tick(&self) -> Result<Report, store::Error> {
        let own = &self.0;
        if !own.node.is_keeper() {
            return Ok(Report::default());
        }
        let now = own.clock.now();
        let mut report = Report::default();
        let mut rows = own.store.place_list(own.node.name(), LIMIT).await?;
        // Work that was not tried yet is rescued before work whose rescue keeps failing.
        rows.sort_by_key(|row| row.rescue_tries);
        if rows.iter().any(|row| place::next(row.place, row.live) == Some(Step::Make)) {
            own.store.place_renew_wanted(own.node.name()).await?;
        }
        if rows.iter().any(|row| row.place == Place::Kept && row.removal.is_none()) {
            report.pruned = own.store.place_prune(own.node.name(), own.provider.disk_free()).await?;
        }
        let mut running = Vec::new();
        for row in rows {
            let Some(step) = place::next(row.place, row.live) else { continue };
            let stays = step == Step::Remove && row.removal.is_none();
            let waits =
                row.due_at.is_some_and(|due| due > now) || step == Step::End && own.rescues.must_wait(&row);
            if stays || waits || !own.begin(&row.id) {
                continue;
            }
            if step == Step::Watch {
                running.push(row);
                continue;
            }
            report.steps_begun += 1;
            let places = self.clone();
            own.tracker.spawn(async move {
                let moved = places.0.step(&row, step).await;
                places.0.done(&row.id);
                // A rescue that found no place may have one by now.
                if moved || places.0.rescues.is_next(&row) {
                    places.0.wake.notify_one();
                }
            });
        }
        if !running.is_empty() {
            let places = self.clone();
            own.tracker.spawn(async move { places.0.watch_all(&running).await });
        }
        if report.pruned > 0 {
            own.wake.notify_one();
        }
        self.run_commands().await?;
        Ok(report)
    }

    /// Removes what crashes have left: places of sandboxes that are gone, and checkouts that nobody uses.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let own = &self.0;
        if !own.node.is_keeper() {
            return Ok(Swept::default());
        }
        let references = own.checkouts.references().await?;
        let rows = own.store.place_list(own.node.name(), LIMIT).await?;
        let mut live: BTreeSet<SandboxId> = rows.iter().map(|row| row.id.clone()).collect();
        let mut swept = Swept::default();
        for id in own.provider.list().await? {
            if live.contains(&id) {
                continue;
            }
            match own.store.sandbox_get(&id).await {
                // Its work was kept before it was gone.
                Ok(sandbox) if sandbox.place == Place::Gone => {
                    own.provider.remove(&id).await?;
                    swept.places += 1;
                }
                Ok(_) => {
                    live.insert(id);
                }
                Err(store::Error::NotFound { .. }) => {
                    tracing::warn!(sandbox.id = %id, "sandbox {id} is on this machine and the store does not know it; it stays");
                    live.insert(id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        swept.egress_lines = own.store.egress_prune(LIMIT).await?;
        swept.checkouts = own.checkouts.reconcile(references, &live).await?;
        for row in &rows {
            own.restore_reference(row).await?;
        }
        own.checkouts.sweep().await?;
        Ok(swept)
    }

    /// Begins what people want to run in sandboxes that are up.
    async fn run_commands(&self) -> Result<(), store::Error> {
        let own = &self.0;
        if !own.orphans_ended.load(Ordering::Relaxed) {
            for command in own.store.command_end_orphans(own.node.name()).await? {
                commands::tell_given_up(&own.store, &command).await?;
            }
            own.orphans_ended.store(true, Ordering::Relaxed);
        }
        for (command, live) in own.store.command_list_pending(own.node.name(), LIMIT).await? {
            if !own.running.lock().unwrap_or_else(PoisonError::into_inner).insert(command.id.clone()) {
                continue;
            }
            let own = own.clone();
            own.tracker.clone().spawn(async move {
                let done = if live {
                    own.run_command(&command).await
                } else {
                    commands::give_up(&own.store, &command).await
                };
                if let Err(error) = done {
                    tracing::warn!(sandbox.id = %command.sandbox_id, %error, "a command could not be told of");
                }
                own.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&command.id);
            });
        }
        Ok(())
    }
}

impl Shared {
    async fn run_command(&self, command: &Command) -> Result<(), store::Error> {
        let sandbox = self.store.sandbox_get(&command.sandbox_id).await?;
        let task = match &sandbox.task_id {
            Some(id) => Some(self.store.task_get(id).await?),
            None => None,
        };
        let env = launch::environment(&sandbox, task.as_ref());
        commands::run(&self.store, &self.provider, command, &env).await
    }

    fn begin(&self, id: &SandboxId) -> bool {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone())
    }

    /// Writes the reference of a sandbox to its checkout again if it was lost. No step of the sandbox runs meanwhile, and one
    /// that is to be removed gets none: a step that has released the checkout already would leave the reference for good.
    async fn restore_reference(&self, row: &Placed) -> Result<(), Error> {
        let Some(commit) = row.base_commit.as_ref().and_then(|base| base.parse().ok()) else { return Ok(()) };
        if !self.checkouts.is_lost(&row.project_id, &commit, &row.id) || !self.begin(&row.id) {
            return Ok(());
        }
        let restored = async {
            let place = self.store.sandbox_get(&row.id).await?.place;
            if matches!(place, Place::Wanted | Place::Up) {
                self.checkouts.restore(&row.project_id, &commit, &row.id).await?;
            }
            Ok(())
        };
        let restored = restored.await;
        self.done(&row.id);
        restored
    }

    fn done(&self, id: &SandboxId) {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Says whether there is something to do next.
    async fn step(&self, row: &Placed, step: Step) -> bool {
        if step == Step::End {
            return self.end(row).await;
        }
        let Ok(_permit) = self.permits.acquire().await else { return false };
        let done = match step {
            Step::Make => self.make(row).await,
            // Sandboxes are looked at together, and ended above.
            Step::Watch | Step::End => return false,
            Step::Remove => self.remove(row).await,
        };
        let Err(error) = done else { return true };
        tracing::warn!(sandbox.id = %row.id, ?step, %error, "a step with sandbox {} did not work", row.id);
        let noted = if let Error::Git(git::Error::Conflict { one, two, files }) = &error {
            let why = format!(
                "what it builds on does not go together: {error}; merge them, push that to the project's repository as {}, \
                 and retry the task",
                row.branch_name
            );
            self.store.place_conflict(&row.id, &why, &[one.clone(), two.clone()], files).await
        } else if step == Step::Make && (!error.may_pass() || row.tries + 1 >= SPAWN_TRIES) {
            self.store.place_failed(&row.id, error.kind(), &error.to_string()).await
        } else {
            self.store.place_try_again(row, &error.to_string()).await
        };
        if let Err(error) = noted {
            tracing::warn!(sandbox.id = %row.id, %error, "and that could not be stored");
        }
        false
    }

    /// Branch first, then the sandbox. Each part finds what a crash has left of it.
    async fn make(&self, row: &Placed) -> Result<(), Error> {
        let id = &row.id;
        if !self.store.place_take(id, self.node.name(), self.provider.slots()).await? {
            return Ok(());
        }
        match self.provider.inspect(id).await? {
            Inspection::Running => {
                // Made, and the server ended before it could say so.
                self.open_door(row).await?;
                self.store.place_up(id, json!({ "level": "unknown" })).await?;
                return Ok(());
            }
            Inspection::Exited(ended) => {
                let error = format!("the worker {ended} before it was seen");
                self.store.place_failed(id, ended.kind(), &error).await?;
                return Ok(());
            }
            Inspection::Dead | Inspection::Absent => {}
        }
        let facts = self.store.place_facts(id).await?;
        let resumed = match &facts.wish.resume_session_id {
            Some(session) => Some(self.store.session_get(&facts.project.id, session).await?),
            None => None,
        };
        let order = self.order(&facts, resumed, row).await?;
        let made = self.provider.create(&order).await?;
        self.open_door(row).await?;
        self.store.place_up(id, made.isolation).await?;
        Ok(())
    }

    /// The commit that a sandbox starts from, with its branch made there. Found once, and the same from then on.
    async fn base(&self, facts: &Facts, resumed: Option<&Session>, row: &Placed) -> Result<CommitId, Error> {
        let (project, id) = (&facts.project, &row.id);
        if let Some(base) = row.base_commit.as_ref().and_then(|base| base.parse().ok()) {
            return Ok(base);
        }
        let tip = self.mirrors.refresh(project).await?;
        if let Some(owed) = &facts.owed {
            let commit = self.pushed(&project.id, &row.branch_name, owed, tip).await?;
            self.store.place_set_base(id, commit.as_str()).await?;
            return Ok(commit);
        }
        let from = match (&facts.wish.base, resumed) {
            (None, None) => self.mirrors.start(project, &row.branch_name, tip, &facts.built_on).await?,
            (None, Some(session)) => self.left_off(&project.id, session).await?.unwrap_or(tip),
            (Some(name), _) => match name.parse() {
                Ok(commit) => commit,
                Err(_) => {
                    let tip = self.mirrors.branch_tip(&project.id, name).await?;
                    tip.ok_or_else(|| Error::NoBase(name.clone()))?
                }
            },
        };
        let kept = facts.before.commit.as_ref().filter(|_| facts.wish.base.is_none());
        if let Some(kept) = kept.and_then(|commit| commit.parse().ok()) {
            // The branch has what was pushed; what was kept of the attempt before may be more.
            self.mirrors.branch_forward(&project.id, &row.branch_name, &kept).await?;
        }
        let base = self.mirrors.branch_create(project, &row.branch_name, &from, id).await?;
        self.store.place_set_base(id, base.as_str()).await?;
        Ok(base)
    }

    /// The commit to check: what the worker named, if it is on the branch, else what the branch holds. The branch stays as
    /// it is; without one nothing was made, and the default branch is what there is to check.
    async fn pushed(
        &self,
        project: &ProjectId,
        branch: &str,
        owed: &Owed,
        default_tip: CommitId,
    ) -> Result<CommitId, Error> {
        let held = self.mirrors.branch_tip(project, branch).await?.unwrap_or(default_tip);
        let Some(named) = owed.commit.as_ref().and_then(|commit| commit.parse().ok()) else {
            return Ok(held);
        };
        let there = named == held
            || (self.mirrors.has_commit(project, &named).await?
                && self.mirrors.is_ancestor(project, &named, &held).await?);
        if there { Ok(named) } else { Err(Error::NotPushed { commit: named, branch: branch.to_owned() }) }
    }

    /// Where the work of a session is: what was kept of its sandbox, or the tip of its branch.
    async fn left_off(&self, project: &ProjectId, session: &Session) -> Result<Option<CommitId>, Error> {
        let kept = session.kept.as_ref().and_then(|kept| kept.commit.as_ref()?.parse().ok());
        match (kept, &session.branch_name) {
            (Some(commit), _) => Ok(Some(commit)),
            (None, Some(branch)) => Ok(self.mirrors.branch_tip(project, branch).await?),
            (None, None) => Ok(None),
        }
    }

    async fn order(&self, facts: &Facts, resumed: Option<Session>, row: &Placed) -> Result<Order, Error> {
        let base = self.base(facts, resumed.as_ref(), row).await?;
        let checkout = match self.checkouts.acquire(&facts.project.id, &base, &row.id).await {
            // The mirror may be damaged, which a fetch finds out and puts right.
            Err(git::Error::Git(_) | git::Error::NoCommit { .. } | git::Error::NoMirror(_)) => {
                self.mirrors.refresh(&facts.project).await?;
                self.checkouts.acquire(&facts.project.id, &base, &row.id).await?
            }
            acquired => acquired?,
        };
        let launch = launch::launch(facts, base.as_str(), resumed, &self.defaults);
        Ok(Order { launch, checkout: Some(checkout), slot: facts.slot })
    }

    async fn open_door(&self, row: &Placed) -> Result<(), Error> {
        if let Some(sockets) = self.provider.doors(&row.id).await? {
            self.doors.open_for(&row.id, &row.project_id, sockets).map_err(Error::Door)?;
        }
        Ok(())
    }

    /// Looks at all of them together: each look alone takes a thread, and many sandboxes are to cost few.
    async fn watch_all(&self, rows: &[Placed]) {
        let ids = rows.iter().map(|row| row.id.clone()).collect();
        let seen = self.provider.inspect_all(ids).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "sandboxes cannot be looked at");
            Vec::new()
        });
        let mut moved = false;
        let mut seen = seen.into_iter();
        for row in rows {
            if let Some(seen) = seen.next() {
                moved |= self.watch_or_tell(row, seen).await;
            }
            self.done(&row.id);
        }
        if moved {
            self.wake.notify_one();
        }
    }

    async fn watch_or_tell(&self, row: &Placed, seen: Result<Inspection, sandbox::Error>) -> bool {
        let watched = async { self.watch(row, seen?).await };
        watched.await.unwrap_or_else(|error: Error| {
            tracing::warn!(sandbox.id = %row.id, %error, "sandbox {} cannot be looked at", row.id);
            false
        })
    }

    /// A running sandbox has its door served; one whose worker has ended without a word has failed.
    async fn watch(&self, row: &Placed, seen: Inspection) -> Result<bool, Error> {
        let (kind, error) = match seen {
            Inspection::Running => {
                if !self.doors.is_open(&row.id) {
                    self.open_door(row).await?;
                }
                return Ok(false);
            }
            Inspection::Exited(ended) => (ended.kind(), format!("the worker {ended} without a report")),
            Inspection::Dead => (FailureKind::Crashed, "the sandbox was killed from outside".to_owned()),
            Inspection::Absent => (FailureKind::Lost, "the sandbox is no longer on its machine".to_owned()),
        };
        let log = self.provider.logs(&row.id, LOG_TAIL_BYTES).await.unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let error =
            if log.trim().is_empty() { error } else { format!("{error}; its last words: {}", log.trim()) };
        self.store.place_failed(&row.id, kind, &error).await?;
        Ok(true)
    }

    async fn remove(&self, row: &Placed) -> Result<(), Error> {
        self.provider.remove(&row.id).await?;
        Point::Removed.pass();
        self.checkouts.release(&row.id).await?;
        Point::Released.pass();
        self.store.place_gone(&row.id).await?;
        Point::Gone.pass();
        Ok(())
    }
}
