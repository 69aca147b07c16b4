//! A trajectory as people and programs read it.

use jiff::Timestamp;
use omoi_protocol::{
    SandboxId,
    guardian::{SandboxSummary, SummaryCall, SummaryError, SummaryFile, SummaryInstruction, SummaryMark},
};
use serde::Serialize;

use super::trajectory::{Trajectory, step::Outcome};

/// What the events come to; what stands in no event is left to the caller.
pub fn summary(sandbox_id: SandboxId, trajectory: &Trajectory, now: Timestamp) -> SandboxSummary {
    let last_progress_at = trajectory.mark.map(|mark| mark.at);
    let until = trajectory.ended_at.unwrap_or(now);
    let since = last_progress_at.or(trajectory.began_at).map(|at| until.duration_since(at).as_secs().max(0));
    SandboxSummary {
        sandbox_id,
        agent_id: None,
        task_id: None,
        goal: trajectory.goal.clone(),
        constraints: trajectory.constraints.clone(),
        instructions: trajectory
            .instructions
            .iter()
            .map(|one| SummaryInstruction {
                seq: one.seq,
                from: one.from.clone(),
                text: one.text.clone(),
                at: one.at,
            })
            .collect(),
        phase: word(trajectory.phase),
        focus: word(trajectory.focus()),
        files: trajectory
            .files
            .iter()
            .map(|file| SummaryFile {
                path: file.path.clone(),
                edits: i64::from(file.edits),
                last_seq: file.last_seq,
                outside: file.outside,
            })
            .collect(),
        calls: trajectory
            .steps
            .iter()
            .map(|step| SummaryCall {
                seq: step.seq,
                at: step.at,
                title: step.title.clone(),
                result: match step.outcome {
                    Outcome::Open => "open",
                    Outcome::Ok { .. } => "ok",
                    Outcome::Failed { .. } => "failed",
                }
                .to_owned(),
            })
            .collect(),
        calls_total: trajectory.steps.count as i64,
        errors: trajectory
            .troubles
            .iter()
            .map(|trouble| SummaryError {
                text: trouble.text.clone(),
                times: i64::from(trouble.times),
                seqs: trouble.seqs.clone(),
                since: trouble.since,
            })
            .collect(),
        progress: trajectory
            .marks
            .iter()
            .map(|mark| SummaryMark { seq: mark.seq, at: mark.at, what: word(mark.what) })
            .collect(),
        events: trajectory.events as i64,
        cost_usd: trajectory.spend.usd,
        tokens: i64::try_from(trajectory.spend.tokens).unwrap_or(i64::MAX),
        helpers: trajectory.helpers.total as i64,
        question: trajectory.question.as_ref().map(|question| question.text.clone()),
        said: trajectory.said.text.clone(),
        began_at: trajectory.began_at,
        last_event_at: (trajectory.events > 0).then_some(trajectory.at),
        last_progress_at,
        seconds_since_progress: since,
        ended_at: trajectory.ended_at,
        success: trajectory.success,
        alignment: 1.0,
        open_findings: Vec::new(),
    }
}

fn word(one: impl Serialize) -> String {
    serde_json::to_value(one).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}
