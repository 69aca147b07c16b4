//! What the Guardian remembers: one guard for each sandbox, and how far it has looked.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use omoi_protocol::{
    FindingId, InterventionId, InterventionMode, ProjectId, SandboxId, TaskId, event::StoredEvent,
};

use super::policies::Policies;
use crate::{
    domain::supervision::{
        decide::{History, decide},
        effect::Heard,
        finding::{Finding, News},
        guard::Guard,
        judge,
        policy::Policy,
    },
    store::{Change, Entry, Error, Found, Mark, Spoken, Store, Subject},
};

/// Sandboxes that are watched together.
const SANDBOXES_MAX: usize = 20_000;
/// Events that are read back at a time.
const PAST_PAGE: usize = 1_000;
const INJECTED: &str = "agent.message_injected";
const ENDED: &str = "SANDBOX_ENDED";
/// Its lease had run out, and its worker was heard of again in time.
const RETURNED: &str = "SANDBOX_RETURNED";

pub struct Watch {
    pub mark: Mark,
    /// The position that is stored, at or before the mark.
    pub stored: i64,
    pub held_at: Timestamp,
    /// How many live ones people were told of then.
    pub told: usize,
    pub policies: Policies,
    /// What is to be stored.
    pub changes: Vec<Change>,
    watched: HashMap<SandboxId, Watched>,
}

struct Watched {
    task_id: Option<TaskId>,
    project_id: Option<ProjectId>,
    guard: Guard,
    history: History,
    /// Interventions that the agent has heard, until it is known what came of them.
    heard: Vec<Heard>,
    /// When the judge was asked about it last.
    asked_at: Option<Timestamp>,
    has_ended: bool,
}

impl Watch {
    pub fn new(mark: Mark, now: Timestamp, usual: Arc<Policy>) -> Self {
        Self {
            stored: mark.position,
            mark,
            held_at: now,
            told: usize::MAX,
            policies: Policies::new(usual),
            changes: Vec::new(),
            watched: HashMap::new(),
        }
    }

    pub fn live(&self) -> usize {
        self.watched.values().filter(|watched| !watched.has_ended).count()
    }

    pub fn bytes(&self) -> usize {
        self.watched.values().map(|watched| watched.guard.bytes()).sum()
    }

    /// All that live, as of the mark.
    pub async fn remember_all(&mut self, store: &Store) -> Result<(), Error> {
        let live = store.guardian_live(SANDBOXES_MAX).await?;
        for ids in live.chunks(500) {
            for subject in store.guardian_subjects(ids.to_vec()).await? {
                let watched = remember(store, &subject, self.mark.position).await?;
                self.watched.insert(subject.id, watched);
            }
        }
        Ok(())
    }

    /// Takes entries, the next behind the mark.
    pub async fn take(&mut self, store: &Store, entries: Vec<Entry>) -> Result<(), Error> {
        self.meet(store, &entries).await?;
        let spoken = spoken(store, &entries).await?;
        for entry in entries {
            self.mark.position = entry.pos;
            self.mark.at = entry.created_at;
            if entry.entity_type != "sandbox" {
                continue;
            }
            if entry.seq.is_none() {
                self.notice(&entry);
                continue;
            }
            self.mark.events += 1;
            let Some(event) = entry.into_event() else { continue };
            if !self.watched.contains_key(&event.sandbox_id) {
                continue;
            }
            let event = store.guardian_whole(event).await?;
            let Some(watched) = self.watched.get_mut(&event.sandbox_id) else { continue };
            let policy = self.policies.of(watched.project_id.as_ref());
            let news = watched.guard.take(&event, &policy.rules);
            watched.hear(&event, &spoken);
            let now = watched.guard.trajectory.at;
            watched.note(&event.sandbox_id, news, &policy, now, &mut self.changes);
        }
        Ok(())
    }

    /// Nothing is new, but time has passed. Those that have ended are let go.
    pub fn pass(&mut self, now: Timestamp) {
        let (policies, changes) = (&self.policies, &mut self.changes);
        self.watched.retain(|id, watched| {
            if watched.has_ended {
                watched.end(id, now, changes);
                return false;
            }
            let policy = policies.of(watched.project_id.as_ref());
            let news = watched.guard.tick(now, &policy.rules);
            watched.note(id, news, &policy, now, changes);
            true
        });
    }

    /// Asks the judge about those of whom policies want to know more.
    pub fn ask(&mut self, now: Timestamp) {
        for (id, watched) in &mut self.watched {
            let policy = self.policies.of(watched.project_id.as_ref());
            if let Some(due) = judge::due(&watched.guard, &policy, watched.asked_at, now) {
                watched.asked_at = Some(now);
                self.changes.push(Change::Ask { sandbox_id: id.clone(), due, at: now });
            }
        }
    }

    /// Whoever shows up in these for the first time. One that had ended before the mark has nothing more to say.
    async fn meet(&mut self, store: &Store, entries: &[Entry]) -> Result<(), Error> {
        let mut first: HashMap<SandboxId, i64> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.entity_type == "sandbox") {
            if let (Some(seq), Ok(id)) = (entry.seq, entry.entity_id.parse::<SandboxId>())
                && !self.watched.contains_key(&id)
            {
                first.entry(id).or_insert(seq);
            }
        }
        if first.is_empty() {
            return Ok(());
        }
        for subject in store.guardian_subjects(first.keys().cloned().collect()).await? {
            let is_over = subject.ended_at.is_some_and(|ended| ended < self.mark.at);
            if is_over || self.watched.len() >= SANDBOXES_MAX {
                continue;
            }
            let watched = match first.get(&subject.id) {
                Some(1) => Watched::new(&subject),
                _ => remember(store, &subject, self.mark.position).await?,
            };
            self.watched.insert(subject.id, watched);
        }
        Ok(())
    }

    fn notice(&mut self, entry: &Entry) {
        let has_ended = match entry.event_type.as_str() {
            ENDED => true,
            RETURNED => false,
            _ => return,
        };
        let Ok(sandbox_id) = entry.entity_id.parse::<SandboxId>() else { return };
        match self.watched.get_mut(&sandbox_id) {
            // Its last events may come right behind; it is let go when they are taken.
            Some(watched) => watched.has_ended = has_ended,
            // It is remembered with its next event.
            None if !has_ended => {}
            None => self.changes.push(Change::Ended { sandbox_id, task_id: None, at: entry.created_at }),
        }
    }
}

impl Watched {
    fn new(subject: &Subject) -> Self {
        Self {
            task_id: subject.task_id.clone(),
            project_id: subject.project_id.clone(),
            guard: Guard::new(Arc::new(subject.charter.clone())),
            history: History::default(),
            heard: Vec::new(),
            asked_at: None,
            has_ended: subject.ended_at.is_some(),
        }
    }

    /// Whether an intervention has reached the agent by this event.
    fn hear(&mut self, event: &StoredEvent, spoken: &[Spoken]) {
        if event.event_type != INJECTED || spoken.is_empty() {
            return;
        }
        let Some(id) = message_of(event.event_data.get()) else { return };
        if let Some(said) = spoken.iter().find(|said| said.message_id.as_str() == id) {
            self.heard.push(Heard::new(said.id.clone(), said.kind, &self.guard));
        }
    }

    fn note(
        &mut self,
        id: &SandboxId,
        news: Vec<News>,
        policy: &Policy,
        now: Timestamp,
        changes: &mut Vec<Change>,
    ) {
        let guard = &self.guard;
        self.heard.retain(|heard| match heard.judge(guard, &news, now) {
            Some((effect, by)) => {
                let (sandbox_id, id) = (id.clone(), heard.id.clone());
                changes.push(Change::Effect { sandbox_id, id, effect, by, at: now });
                false
            }
            None => true,
        });
        if news.is_empty() {
            return;
        }
        let mut found: Vec<Finding> = Vec::new();
        for one in news {
            match one {
                News::Found(finding) => found.push(finding),
                News::Cleared { kind, at, .. } => {
                    let (sandbox_id, task_id) = (id.clone(), self.task_id.clone());
                    changes.push(Change::Cleared { sandbox_id, task_id, kind, at });
                }
            }
        }
        let actions = decide(&self.guard.trajectory, &found, policy, &self.history, now);
        actions.iter().for_each(|action| self.history.record(action));
        for finding in found {
            let action =
                actions.iter().find(|one| one.finding == finding.kind && one.number == finding.number);
            changes.push(Change::Found(Box::new(Found {
                id: FindingId::generate(),
                sandbox_id: id.clone(),
                task_id: self.task_id.clone(),
                project_id: self.project_id.clone(),
                action: action.map(|action| (InterventionId::generate(), action.clone())),
                finding,
            })));
        }
    }

    /// What is open in it goes on no more, and what was said to it has come to what it has.
    fn end(&mut self, id: &SandboxId, now: Timestamp, changes: &mut Vec<Change>) {
        for heard in self.heard.drain(..) {
            let (effect, by) = heard.end(&self.guard);
            changes.push(Change::Effect { sandbox_id: id.clone(), id: heard.id, effect, by, at: now });
        }
        changes.push(Change::Ended { sandbox_id: id.clone(), task_id: self.task_id.clone(), at: now });
    }
}

/// Findings, and interventions that are more than notes.
pub fn count(changes: &[Change]) -> (usize, usize) {
    let found = changes.iter().filter_map(|change| match change {
        Change::Found(found) => Some(found.as_ref()),
        _ => None,
    });
    let made = |found: &&Found| {
        found.action.as_ref().is_some_and(|(_, action)| action.mode != InterventionMode::Record)
    };
    (found.clone().count(), found.filter(made).count())
}

/// As it was when the events up to a position had been judged.
async fn remember(store: &Store, subject: &Subject, position: i64) -> Result<Watched, Error> {
    let mut watched = Watched::new(subject);
    let known = store.guardian_known(&subject.id).await?;
    loop {
        let after = watched.guard.trajectory.seq;
        let page = store.guardian_past(&subject.id, after, position, PAST_PAGE).await?;
        for event in &page.rows {
            watched.guard.recall(event);
            watched.hear(event, &known.spoken);
        }
        if page.is_last {
            break;
        }
    }
    for (kind, number, open) in known.findings {
        watched.guard.restore(kind, number, open);
    }
    watched.asked_at = known.asked_at;
    for (kind, at) in known.made {
        watched.history.made(kind, at);
    }
    Ok(watched)
}

/// Interventions that reach their agents by these events.
async fn spoken(store: &Store, entries: &[Entry]) -> Result<Vec<Spoken>, Error> {
    let injected = entries.iter().filter(|entry| entry.event_type == INJECTED && entry.seq.is_some());
    let messages: HashSet<String> = injected
        .filter_map(|entry| message_of(&entry.data))
        .filter(|id| id.starts_with("msg-int-"))
        .collect();
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    store.guardian_spoken(messages.into_iter().collect()).await
}

fn message_of(data: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Injected {
        message_id: Option<String>,
    }
    serde_json::from_str::<Injected>(data).ok()?.message_id
}
