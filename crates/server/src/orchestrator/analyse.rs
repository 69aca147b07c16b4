//! What all that is under way comes to: tasks that seem to be the same work, and how well everything fits together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use omoi_protocol::{AnalysisId, ProjectId, SandboxId, TaskId, conductor::Analysis};

use crate::{
    domain::coherence::{self, ALIGNED_FROM, Agent},
    store::{Alike, Member, OpenConflicts},
};

/// Live members of one project that are compared.
const MEMBERS_MAX: usize = 64;
const FILES_MAX: usize = 20;

/// How alike goals are, by pair of tasks, so that texts are compared once.
pub type Goals = HashMap<(TaskId, TaskId), f64>;

/// Pairs of live tasks of one project, in one phase, that are more alike than `from`.
pub fn duplicates(members: &[Member], from: f64, goals: &mut Goals) -> Vec<Alike> {
    let mut live: Vec<&Member> = members.iter().filter(|member| member.live).take(MEMBERS_MAX).collect();
    live.sort_by(|a, b| a.task_id.cmp(&b.task_id));
    let mut found = Vec::new();
    for (at, a) in live.iter().enumerate() {
        for b in &live[at + 1..] {
            if a.phase != b.phase || a.task_id == b.task_id {
                continue;
            }
            let alike = goals
                .entry((a.task_id.clone(), b.task_id.clone()))
                .or_insert_with(|| coherence::goals_alike(&goal(a), &goal(b)));
            let (files, others) = (files(a), files(b));
            let similarity = coherence::alike(*alike, &files, &others);
            if similarity > from {
                found.push(Alike {
                    project_id: a.project_id.clone(),
                    a: a.side(),
                    b: b.side(),
                    similarity,
                    files: files
                        .intersection(&others)
                        .take(FILES_MAX)
                        .map(|file| (*file).to_owned())
                        .collect(),
                });
            }
        }
    }
    found
}

fn goal(member: &Member) -> String {
    format!("{}\n{}", member.title, member.description)
}

fn files(member: &Member) -> BTreeSet<&str> {
    member.seen.files.keys().chain(&member.owned_files).map(String::as_str).collect()
}

/// What is found: pairs that nobody has dismissed by project, and open conflicts.
pub struct Findings {
    pub duplicates: BTreeMap<ProjectId, usize>,
    pub conflicts: OpenConflicts,
}

/// One for each project with something under way, and one for all. `aligned` says how well a sandbox keeps to its goal, from
/// 0 to 1, where something was found; its conflicts count as well, and the worse of both is told.
pub fn analyses(
    projects: &BTreeMap<ProjectId, Vec<Member>>,
    findings: &Findings,
    aligned: impl Fn(&SandboxId) -> Option<f64>,
    now: Timestamp,
) -> Vec<Analysis> {
    let mut all = (Vec::new(), 0, 0);
    let mut found = Vec::new();
    for (project, members) in projects {
        let live: Vec<&Member> = members.iter().filter(|member| member.live).collect();
        let mut agents = Vec::with_capacity(live.len());
        for member in &live {
            let own = findings.conflicts.by_sandbox.get(member.sandbox_id.as_str()).copied().unwrap_or(0);
            let by_conflicts = coherence::alignment_by_conflicts(own, live.len().saturating_sub(1).max(own));
            let alignment = aligned(&member.sandbox_id).unwrap_or(1.0).min(by_conflicts);
            let needs_steering = alignment < ALIGNED_FROM;
            agents.push(Agent { phase: member.phase.clone(), alignment, needs_steering });
        }
        // Those between tasks that are done count as well: somebody has to bring them together.
        let conflicts = findings.conflicts.by_project.get(project).copied().unwrap_or(0);
        all.2 += conflicts;
        if agents.is_empty() {
            continue;
        }
        let duplicates = findings.duplicates.get(project).copied().unwrap_or(0);
        all.0.extend(agents.iter().cloned());
        all.1 += duplicates;
        found.push(analysis(Some(project.clone()), &agents, duplicates, conflicts, now));
    }
    found.push(analysis(None, &all.0, all.1, all.2, now));
    found
}

fn analysis(
    project_id: Option<ProjectId>,
    agents: &[Agent],
    duplicates: usize,
    conflicts: usize,
    now: Timestamp,
) -> Analysis {
    let coherence_score = coherence::coherence(agents, conflicts);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Analysis {
        id: AnalysisId::generate(),
        project_id,
        at: now,
        coherence_score,
        system_status: coherence::status(coherence_score, agents.len(), duplicates),
        num_agents: count(agents.len()),
        average_alignment: coherence::mean_alignment(agents),
        misaligned: count(agents.iter().filter(|agent| agent.alignment < ALIGNED_FROM).count()),
        duplicate_count: count(duplicates),
        conflict_count: count(conflicts),
        phase_distribution: coherence::phases(agents),
    }
}
