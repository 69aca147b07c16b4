//! Nothing comes of the work: calls whose results are all known or failures, or no work at all while no process works
//! either. A long build is work that shows in its processes, and whoever waits for a person is not stuck.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{
    policy::Rules,
    trajectory::{Phase, Trajectory},
};

pub fn look(trajectory: &Trajectory, rules: &Rules, now: Timestamp) -> Option<Shown> {
    if trajectory.phase != Phase::Working {
        return None;
    }
    quiet(trajectory, rules, now).or_else(|| idle_steps(trajectory, rules))
}

fn quiet(trajectory: &Trajectory, rules: &Rules, now: Timestamp) -> Option<Shown> {
    let quiet = trajectory.pulse.quiet(now);
    if !trajectory.pulse.is_felt() || quiet < rules.quiet_after {
        return None;
    }
    let since = trajectory.pulse.quiet_since()?;
    let last = trajectory.steps.iter().last();
    let at = last.map_or_else(String::new, |step| format!("; the last call is {}", step.title));
    Some(Shown {
        key: 1,
        severity: FindingSeverity::Warning,
        seqs: last.map(|step| step.seq).into_iter().chain([trajectory.seq]).collect(),
        text: format!("no event and no process shows work for {} minutes{at}", quiet.as_secs() / 60),
        since,
    })
}

fn idle_steps(trajectory: &Trajectory, rules: &Rules) -> Option<Shown> {
    let told =
        trajectory.steps.iter().filter(|step| step.seq <= trajectory.told_seq).map(|step| step.number).max();
    let marked = trajectory.mark.map_or(0, |mark| mark.step).max(told.unwrap_or(0));
    let idle = trajectory.steps.completed.saturating_sub(marked);
    if (idle as usize) < rules.idle_steps {
        return None;
    }
    let newest: Vec<_> = trajectory.steps.iter().rev().take(rules.idle_steps).collect();
    let failed = newest.iter().filter(|step| step.has_failed()).count();
    Some(Shown {
        key: marked.wrapping_add(2),
        severity: FindingSeverity::Warning,
        seqs: newest.iter().map(|step| step.seq).collect(),
        text: format!("{idle} calls brought nothing new, {failed} of the last {} failed", newest.len()),
        since: newest.last().map_or(trajectory.at, |step| step.at),
    })
}
