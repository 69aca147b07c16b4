//! How well all that is under way fits together, in one number from 0 to 1 and one word; and which tasks seem to be the same
//! work.

use std::collections::{BTreeMap, BTreeSet};

use omoi_protocol::{SystemStatus, conductor::Analysis};

use super::spec::Likeness;

/// Below this an agent is off its goal.
pub const ALIGNED_FROM: f64 = 0.5;
const MISALIGNED: f64 = 0.2;
const STEERING: f64 = 0.3;
const PHASES: f64 = 0.1;
const BALANCE: f64 = 0.1;
const CONFLICTS: f64 = 0.2;
const CRITICAL_BELOW: f64 = 0.3;
const WARNING_BELOW: f64 = 0.5;
const OPTIMAL_ABOVE: f64 = 0.8;
const DUPLICATES_MAX: f64 = 0.3;
/// How much the words of two tasks count against their files.
const WORDS: f64 = 0.7;

/// One agent at work.
#[derive(Debug, Clone)]
pub struct Agent {
    pub phase: String,
    /// From 0 to 1.
    pub alignment: f64,
    pub needs_steering: bool,
}

/// What an agent's alignment is as long as nobody judges its work: how few of the others it gets in the way of.
pub fn alignment_by_conflicts(conflicts: usize, others: usize) -> f64 {
    if others == 0 { 1.0 } else { (1.0 - conflicts as f64 / others as f64).clamp(0.0, 1.0) }
}

pub fn mean_alignment(agents: &[Agent]) -> f64 {
    if agents.is_empty() {
        return 1.0;
    }
    agents.iter().map(|agent| agent.alignment).sum::<f64>() / agents.len() as f64
}

/// 1 where nobody is at work and no conflict is open.
pub fn coherence(agents: &[Agent], conflicts: usize) -> f64 {
    if agents.is_empty() {
        return beside_conflicts(1.0, conflicts);
    }
    let count = agents.len() as f64;
    let share = |fits: fn(&Agent) -> bool| agents.iter().filter(|agent| fits(agent)).count() as f64 / count;
    let misaligned = share(|agent| agent.alignment < ALIGNED_FROM);
    let steering = share(|agent| agent.needs_steering);
    let phases = phases(agents);
    let (least, most) =
        (phases.values().min().copied().unwrap_or(0), phases.values().max().copied().unwrap_or(1));
    let balance = f64::from(least) / f64::from(most.max(1));
    let score = mean_alignment(agents) - MISALIGNED * misaligned - STEERING * steering
        + PHASES * phases.len() as f64 / count
        + BALANCE * balance
        - CONFLICTS * (conflicts as f64 / count).min(1.0);
    beside_conflicts(score.clamp(0.0, 1.0), conflicts)
}

/// A score is never so high that it is called optimal while a conflict is open.
fn beside_conflicts(score: f64, conflicts: usize) -> f64 {
    if conflicts > 0 { score.min(OPTIMAL_ABOVE) } else { score }
}

/// Brings an analysis up to date with conflicts that were found after it.
pub fn amend(analysis: &mut Analysis, conflicts: u32) {
    if conflicts <= analysis.conflict_count {
        return;
    }
    analysis.conflict_count = conflicts;
    analysis.coherence_score = beside_conflicts(analysis.coherence_score, conflicts as usize);
    if analysis.system_status == SystemStatus::Optimal {
        analysis.system_status = SystemStatus::Normal;
    }
}

pub fn phases(agents: &[Agent]) -> BTreeMap<String, u32> {
    let mut phases = BTreeMap::new();
    for agent in agents {
        *phases.entry(agent.phase.clone()).or_insert(0) += 1;
    }
    phases
}

pub fn status(coherence: f64, agents: usize, duplicates: usize) -> SystemStatus {
    match coherence {
        _ if agents == 0 => SystemStatus::NoAgents,
        score if score < CRITICAL_BELOW => SystemStatus::Critical,
        score if score < WARNING_BELOW => SystemStatus::Warning,
        _ if duplicates as f64 > DUPLICATES_MAX * agents as f64 => SystemStatus::Inefficient,
        score if score > OPTIMAL_ABOVE => SystemStatus::Optimal,
        _ => SystemStatus::Normal,
    }
}

/// How alike two goals are, from 0 to 1.
pub fn goals_alike(a: &str, b: &str) -> f64 {
    Likeness::of(a).to(&Likeness::of(b))
}

/// How alike two tasks are, by their words and, where both have some, by their files.
pub fn alike(goals: f64, a: &BTreeSet<&str>, b: &BTreeSet<&str>) -> f64 {
    if a.is_empty() || b.is_empty() {
        return goals;
    }
    let both = a.intersection(b).count() as f64;
    let all = a.union(b).count() as f64;
    WORDS * goals + (1.0 - WORDS) * both / all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agent(phase: &str, alignment: f64, needs_steering: bool) -> Agent {
        Agent { phase: phase.to_owned(), alignment, needs_steering }
    }

    #[test]
    fn coherence_follows_its_formula() {
        let table: &[(&[Agent], f64)] = &[
            (&[], 1.0),
            (&[agent("a", 1.0, false)], 1.0),
            // 0.5 - 0.2 / 2 + 0.1 / 2 + 0.1
            (&[agent("a", 0.8, false), agent("a", 0.2, false)], 0.55),
            // 0.5 + 0.1 + 0.1 - 0.3 / 2
            (&[agent("a", 0.5, true), agent("b", 0.5, false)], 0.55),
            // 0.6 + 0.1 * 2 / 4 + 0.1 / 3
            (
                &[
                    agent("a", 0.6, false),
                    agent("a", 0.6, false),
                    agent("a", 0.6, false),
                    agent("b", 0.6, false),
                ],
                0.6 + 0.05 + 0.1 / 3.0,
            ),
            (&[agent("a", 0.0, true)], 0.0),
        ];
        for (agents, expected) in table {
            let found = coherence(agents, 0);
            assert!((found - expected).abs() < 1e-9, "{agents:?}: {found}");
        }
    }

    #[test]
    fn nothing_is_optimal_while_a_conflict_is_open() {
        for agents in 0..6 {
            let agents: Vec<Agent> = (0..agents).map(|n| agent(&format!("p{n}"), 1.0, false)).collect();
            for conflicts in 1..8 {
                let score = coherence(&agents, conflicts);
                assert!(score <= 0.8, "{} agents, {conflicts} conflicts: {score}", agents.len());
                assert_ne!(status(score, agents.len(), 0), SystemStatus::Optimal);
                assert!(coherence(&agents, conflicts) <= coherence(&agents, conflicts - 1));
            }
        }
    }

    #[test]
    fn a_word_for_it() {
        let table = [
            (1.0, 0, 0, SystemStatus::NoAgents),
            (0.29, 3, 0, SystemStatus::Critical),
            (0.49, 3, 9, SystemStatus::Warning),
            (0.9, 3, 1, SystemStatus::Inefficient),
            (0.9, 4, 1, SystemStatus::Optimal),
            (0.8, 4, 1, SystemStatus::Normal),
        ];
        for (score, agents, duplicates, expected) in table {
            assert_eq!(status(score, agents, duplicates), expected, "{score} {agents} {duplicates}");
        }
    }

    #[test]
    fn the_same_words_about_other_files_are_less_alike() {
        let files = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<_>>();
        let goal = "Add tests for the parser";
        let same = goals_alike(goal, goal);
        assert_eq!(alike(same, &files(&[]), &files(&["a"])), 1.0);
        assert_eq!(alike(same, &files(&["a"]), &files(&["a"])), 1.0);
        assert!((alike(same, &files(&["a"]), &files(&["b"])) - 0.7).abs() < 1e-9);
        assert!(alike(goals_alike(goal, "Delete stale sessions"), &files(&["a"]), &files(&["a"])) < 0.6);
    }

    proptest! {
        #[test]
        fn coherence_is_from_0_to_1_and_never_falls_when_one_does_better(
            agents in prop::collection::vec(("[a-c]", 0.0f64..=1.0, any::<bool>()), 1..20), better in 0.0f64..=1.0,
            conflicts in 0usize..9,
        ) {
            let mut all: Vec<Agent> = agents.iter().map(|(phase, alignment, steering)| agent(phase, *alignment, *steering)).collect();
            let before = coherence(&all, conflicts);
            prop_assert!((0.0..=1.0).contains(&before));
            all[0].alignment = all[0].alignment.max(better);
            all[0].needs_steering = false;
            prop_assert!(coherence(&all, conflicts) >= before - 1e-12);
        }
    }
}
