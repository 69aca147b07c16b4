//! The Conductor: looks across the sandboxes of each project for tasks that get in each other's way. What a look means is
//! decided in `domain::radar`; branches are merged for a try in the project's mirror. Once a period it says what all of it
//! comes to (`analyse.rs`).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use omoi_protocol::{
    ProjectId, SandboxId,
    conductor::{Matrix, MatrixMember, MatrixPair, Side},
};

use super::{
    analyse::{Findings, Goals, analyses, duplicates},
    node::Node,
};
use crate::{
    clock::Clock,
    config,
    domain::{
        commit::CommitId,
        radar::{self, Seen, Trial, Verdict},
    },
    git::{self, Mirrors, branch_ref},
    store::{Alike, ConflictsFound, DuplicatesKept, Error, Member, Pair, Store},
};

/// Members of one project that are compared; those that live come first.
const MEMBERS_MAX: usize = 64;
/// What is remembered of pairs of commits.
const KNOWN_MAX: usize = 20_000;

type Known<T> = Mutex<HashMap<(CommitId, CommitId), T>>;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub merges_tried: usize,
    pub conflicts_found: usize,
    pub conflicts_cleared: usize,
    pub told: usize,
    /// Pairs of tasks that seem to be the same work.
    pub duplicates: usize,
}

#[derive(Clone)]
pub struct Conductor {
    store: Store,
    clock: Clock,
    node: Node,
    mirrors: Mirrors,
    pub settings: config::Conductor,
    tried: Arc<Known<Trial>>,
    merged: Arc<Known<bool>>,
    goals: Arc<Mutex<Goals>>,
    analysed: Arc<Mutex<Option<Timestamp>>>,
}

impl Conductor {
    pub fn new(
        store: Store,
        clock: Clock,
        node: Node,
        mirrors: Mirrors,
        settings: config::Conductor,
    ) -> Self {
        let (tried, merged) = (Arc::default(), Arc::default());
        let (goals, analysed) = (Arc::default(), Arc::default());
        Self { store, clock, node, mirrors, settings, tried, merged, goals, analysed }
    }

    pub async fn tick(&self) -> Result<Report, Error> {
        if !self.node.is_keeper() {
            return Ok(Report::default());
        }
        let mut report = Report::default();
        let mut members = self.store.radar_members(self.settings.finished_for).await?;
        for project in self.store.radar_projects().await? {
            members.entry(project).or_default();
        }
        for (project, members) in &members {
            self.look(project, members.clone(), &mut report).await?;
        }
        // What was said before a conflict was found, or is over, is no longer so.
        let has_changed = report.conflicts_found + report.conflicts_cleared > 0;
        if self.is_due(has_changed) {
            report.duplicates = self.analyse(members).await?;
        }
        Ok(report)
    }

    /// What comes of it all is told once a period, however often a file changes, and when conflicts have changed.
    fn is_due(&self, has_changed: bool) -> bool {
        let mut last = self.analysed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let is_due = has_changed || last.is_none_or(|last| now >= last + self.settings.period);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Says how many pairs of tasks were found that seem to be the same work.
    async fn analyse(&self, members: BTreeMap<ProjectId, Vec<Member>>) -> Result<usize, Error> {
        let (goals, from) = (self.goals.clone(), self.settings.duplicate_from);
        let compare = move || {
            let mut goals = goals.lock().unwrap_or_else(PoisonError::into_inner);
            if goals.len() >= KNOWN_MAX {
                goals.clear();
            }
            let alike: Vec<Alike> =
                members.values().flat_map(|members| duplicates(members, from, &mut goals)).collect();
            (members, alike)
        };
        // Comparing texts may take a while, and threads that serve requests have none to spare.
        let compared = tokio::task::spawn_blocking(compare).await;
        let (members, alike) =
            compared.map_err(|error| Error::Unavailable(format!("tasks could not be compared: {error}")))?;
        let kept = if alike.is_empty() {
            DuplicatesKept::default()
        } else {
            self.store.duplicate_keep(alike).await?
        };
        let findings = Findings { duplicates: kept.open, conflicts: self.store.conflict_counts().await? };
        let judged = self.store.alignments().await?;
        let aligned = |sandbox: &SandboxId| judged.get(sandbox.as_str()).copied();
        let analyses = analyses(&members, &findings, aligned, self.clock.now());
        if let Some(all) = analyses.last() {
            metrics::gauge!("omoi_coherence").set(all.coherence_score);
            metrics::gauge!("omoi_conflicts_open").set(f64::from(all.conflict_count));
        }
        self.store.analysis_keep(analyses).await?;
        Ok(kept.found)
    }

    /// One project: everybody against everybody, and against the default branch.
    async fn look(
        &self,
        project: &ProjectId,
        mut members: Vec<Member>,
        report: &mut Report,
    ) -> Result<(), Error> {
        members.truncate(MEMBERS_MAX);
        // A pair is known by its order, which must not change when one of them ends.
        members.sort_by(|a, b| a.sandbox_id.cmp(&b.sandbox_id));
        let branches = if members.is_empty() { Branches::default() } else { self.branches(project).await? };
        let (mut seen, mut tips, mut with_default) = (Vec::new(), Vec::new(), Vec::new());
        for member in members {
            let tip = member.branch.as_ref().and_then(|branch| branches.tips.get(&branch_ref(branch)));
            let standing = self.standing(project, tip, branches.default.as_ref(), report).await;
            // What has ended and is merged, or has pushed nothing, is in nobody's way.
            if !member.live && standing == Standing::NoWork {
                continue;
            }
            tips.push(tip.filter(|_| standing != Standing::NoWork));
            with_default.push(match standing {
                Standing::NoWork => Trial::Nothing,
                Standing::Work(trial) => trial,
            });
            seen.push(member);
        }
        let members = seen;
        let mut sightings = Vec::new();
        for (b, other) in members.iter().enumerate() {
            for (a, one) in members.iter().enumerate().take(b) {
                let trial = match (tips[a], tips[b]) {
                    (Some(x), Some(y)) => self.try_merge(project, x, y, report).await,
                    _ => Trial::Nothing,
                };
                sightings.push((a, b, radar::judge(&trial, &one.seen, &other.seen)));
            }
        }
        if branches.default.is_some() {
            // Nobody works on the default branch itself: what is not pushed yet is compared once it is.
            let still = Seen::default();
            let with_default = with_default.iter().map(|trial| radar::judge(trial, &still, &still));
            let place = members.len();
            sightings.extend(with_default.enumerate().map(|(a, verdict)| (a, place, verdict)));
        }
        let found = self.keep(project, &members, &tips, &branches, sightings).await?;
        report.conflicts_found += found.found;
        report.conflicts_cleared += found.cleared;
        report.told += found.told;
        Ok(())
    }

    async fn keep(
        &self,
        project: &ProjectId,
        members: &[Member],
        tips: &[Option<&CommitId>],
        branches: &Branches,
        sightings: Vec<(usize, usize, Verdict)>,
    ) -> Result<ConflictsFound, Error> {
        let mut shown: Vec<MatrixMember> = members
            .iter()
            .zip(tips)
            .map(|(member, tip)| MatrixMember {
                side: member.side(),
                live: member.live,
                commit: tip.map(ToString::to_string),
            })
            .collect();
        if let (Some(tip), false) = (&branches.default, members.is_empty()) {
            let title = branches.name.clone();
            let side = Side { sandbox_id: None, task_id: None, branch: Some(title.clone()), title };
            shown.push(MatrixMember { side, live: true, commit: Some(tip.to_string()) });
        }
        let pair = |(a, b, verdict): &(usize, usize, Verdict)| MatrixPair {
            a: *a,
            b: *b,
            state: verdict.state(),
            files: verdict.files().to_vec(),
        };
        let matrix = Matrix {
            project_id: project.clone(),
            at: Some(self.clock.now()),
            pairs: sightings.iter().map(pair).collect(),
            members: shown.clone(),
        };
        let side = |at: usize| shown[at].side.clone();
        let pairs = sightings.into_iter().map(|(a, b, verdict)| Pair { a: side(a), b: side(b), verdict });
        self.store.radar_apply(project, pairs.collect(), matrix, self.settings.on_conflict).await
    }

    /// Where branches are; of a repository that nobody has fetched yet, nowhere.
    async fn branches(&self, project: &ProjectId) -> Result<Branches, Error> {
        let project = self.store.project_get(project).await?;
        let name = project.default_branch.clone();
        let tips = self.mirrors.ref_list(&project.id, "refs/heads/").await.unwrap_or_default();
        let default = self.mirrors.default_tip(&project).await.ok();
        Ok(Branches { name, tips, default })
    }

    /// Whether a branch has work of its own, and how that stands to the default branch.
    async fn standing(
        &self,
        project: &ProjectId,
        tip: Option<&CommitId>,
        default: Option<&CommitId>,
        report: &mut Report,
    ) -> Standing {
        let Some(tip) = tip else { return Standing::NoWork };
        let Some(default) = default else { return Standing::Work(Trial::Untried) };
        if tip == default {
            return Standing::NoWork;
        }
        match self.is_merged(project, tip, default).await {
            Ok(true) => Standing::NoWork,
            Ok(false) => Standing::Work(self.try_merge(project, tip, default, report).await),
            Err(_) => Standing::Work(Trial::Untried),
        }
    }

    /// Asked of Git once for the same two commits.
    async fn is_merged(
        &self,
        project: &ProjectId,
        tip: &CommitId,
        default: &CommitId,
    ) -> Result<bool, git::Error> {
        let key = (tip.clone(), default.clone());
        if let Some(known) = self.merged.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*known);
        }
        let is_merged = self.mirrors.is_ancestor(project, tip, default).await?;
        remember(&self.merged, key, is_merged);
        Ok(is_merged)
    }

    /// The same two commits are tried once. One that cannot be tried is not tried again until a branch moves.
    async fn try_merge(&self, project: &ProjectId, a: &CommitId, b: &CommitId, report: &mut Report) -> Trial {
        let key = if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
        if let Some(known) = self.tried.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        if a == b {
            return Trial::Clean;
        }
        if report.merges_tried >= self.settings.merges_max {
            return Trial::Untried;
        }
        report.merges_tried += 1;
        let trial = self.mirrors.trial(project, &key.0, &key.1).await.unwrap_or_else(|error| {
            tracing::warn!(project.id = %project, %error, "{} and {} cannot be merged for a try", key.0, key.1);
            Trial::Untried
        });
        remember(&self.tried, key, trial.clone());
        trial
    }
}

fn remember<T>(known: &Known<T>, key: (CommitId, CommitId), value: T) {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(key, value);
}

/// How a branch stands to the default one.
#[derive(PartialEq, Eq)]
enum Standing {
    /// Nothing was pushed to it, or all of it is merged.
    NoWork,
    Work(Trial),
}

#[derive(Default)]
struct Branches {
    /// Of the default branch.
    name: String,
    tips: BTreeMap<String, CommitId>,
    default: Option<CommitId>,
}
