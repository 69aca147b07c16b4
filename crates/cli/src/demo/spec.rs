//! `omoi demo --spec`: a spec from an idea to proven tasks. A scripted model writes what agents would; phases, gates, tasks,
//! sandboxes and checks are real.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use futures_util::StreamExt;
use jiff::Timestamp;
use omoi_client::{Client, LiveFilter};
use omoi_protocol::{
    PhaseState, ProjectId, SandboxId, SpecBranchState, SpecFlow, SpecId, SpecPhase, SpecStatus, Stage,
    TaskId, TaskStatus, Verification,
    project::ProjectPatch,
    spec::{ApprovePhase, ExecuteSpec, NewSpec, SpecDetail},
    task::Evidence,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{gone, house::House, repository};
use crate::{
    Context,
    failure::{Code, FAILED, Failure, INTERRUPTED, Stop},
    project,
};

const MODEL: &str = "scripted/spec";
const TITLE: &str = "Convert temperatures, weights and volumes";
const IDEA: &str = "The library converts lengths alone. Let it convert temperatures, weights and volumes as well, each \
in a module of its own with tests, and write a guide that names every unit.";
/// All of it; the scenario itself takes a minute or two.
const ALL_MAX: Duration = Duration::from_secs(900);
const TASKS_MIN: usize = 5;
/// Of what is told at once, so much is taken in before the next look.
const NEWS_MAX: usize = 256;

/// Everything that is told of it.
#[derive(Debug, Default, Serialize)]
pub struct Proof {
    /// `completed` when all of it held, else `failed`.
    status: &'static str,
    spec_id: Option<SpecId>,
    project_id: Option<ProjectId>,
    phases: Vec<Phase>,
    approvals: usize,
    tasks: Vec<Task>,
    /// How many tasks were worked on at once, at most.
    parallel: usize,
    coverage_percent: u8,
    /// Where all of it is merged, and what its checks came to.
    branch: Option<String>,
    branch_checks: Option<TaskStatus>,
    durations_ms: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Phase {
    phase: SpecPhase,
    state: PhaseState,
    score: Option<f64>,
    sandbox_id: Option<SandboxId>,
}

#[derive(Debug, Serialize)]
struct Task {
    symbol: String,
    task_id: TaskId,
    title: String,
    status: TaskStatus,
    verification: Verification,
    commit: Option<String>,
}

impl Proof {
    fn failed(error: String) -> Self {
        Self { status: "failed", error: Some(error), ..Self::default() }
    }
}

pub async fn play(cx: &Context, house: &House) -> Result<Proof> {
    let client = &house.client;
    let directory = repository::make(&house.config.data_dir, &repository::UNITS).await?;
    let (project, _) = project::of_directory(client, &directory).await?;
    let settings = json!({
        "autonomous": true, "model": MODEL, "memory_gb": 1, "disk_gb": 1, "checks": [{ "name": "tests", "command": "sh check.sh" }],
    });
    let Value::Object(settings) = settings else { return Ok(Proof::failed("no settings".to_owned())) };
    client
        .project_patch(&project.id, &ProjectPatch { settings: Some(settings), ..ProjectPatch::default() })
        .await?;
    let new = NewSpec {
        project_id: Some(project.id.clone()),
        title: TITLE.to_owned(),
        description: IDEA.to_owned(),
        flow: SpecFlow::Full,
        gates: None,
    };
    let spec = client.spec_create(&new).await?.spec;
    let begun = Instant::now();
    say(cx, &format!("{}: {TITLE}", spec.id))?;
    client.spec_execute(&spec.id, &ExecuteSpec::default()).await?;
    let watched = tokio::select! {
        watched = timeout(ALL_MAX, watch(cx, client, &spec.id)) => watched,
        _ = cx.signals.next() => return Err(Code(INTERRUPTED).into()),
    };
    let Ok(watched) = watched else {
        return Ok(Proof::failed(format!("{} has not ended within {} s", spec.id, ALL_MAX.as_secs())));
    };
    let (spec, approvals) = watched?;
    let mut proof = judge(client, &spec, approvals).await?;
    proof.durations_ms.insert("spec", u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    Ok(proof)
}

/// Follows it to its end, and approves what waits.
async fn watch(cx: &Context, client: &Client, id: &SpecId) -> Result<(SpecDetail, usize)> {
    let (mut approvals, mut seen) = (0, BTreeMap::new());
    let kinds = ["spec", "task"].map(str::to_owned).to_vec();
    let filter = LiveFilter { entity_types: kinds, ..LiveFilter::default() };
    let mut told = Box::pin(client.stream(&filter, Some(0)).ready_chunks(NEWS_MAX));
    loop {
        let spec = client.spec_get(id).await?;
        for line in news(&spec, &mut seen) {
            say(cx, &line)?;
        }
        match spec.spec.status {
            SpecStatus::Waiting => {
                let phase = spec.spec.current_phase;
                let comment = "Approved by the demo.".to_owned();
                client
                    .spec_approve(id, &ApprovePhase { phase, comment, version: Some(spec.spec.version) })
                    .await?;
                approvals += 1;
                continue;
            }
            SpecStatus::Completed if !is_checked(&spec) => {}
            SpecStatus::Completed | SpecStatus::Failed => return Ok((spec, approvals)),
            SpecStatus::Draft | SpecStatus::Executing => {}
        }
        let Some(news) = told.next().await else { bail!("the server tells nothing any more") };
        news.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
}

/// Whether the checks of its branch are over, if there are any.
fn is_checked(spec: &SpecDetail) -> bool {
    let checks = spec.branch.as_ref().and_then(|branch| branch.check_status);
    checks.is_none_or(TaskStatus::is_final)
}

/// What has changed since the last look, a line each.
fn news(spec: &SpecDetail, seen: &mut BTreeMap<String, String>) -> Vec<String> {
    let phases = spec.phases.iter().map(|one| {
        let score = one.score.map(|score| format!(", score {score:.2}")).unwrap_or_default();
        (format!("phase {}", one.phase), format!("{}{score}", one.state))
    });
    let tasks = spec.items.iter().filter_map(|item| {
        Some((format!("task {} ({})", item.symbol, item.title), item.status?.to_string()))
    });
    let mut lines = Vec::new();
    for (what, state) in phases.chain(tasks) {
        if seen.insert(what.clone(), state.clone()).as_ref() != Some(&state) {
            lines.push(format!("  {what}: {state}"));
        }
    }
    lines
}

fn say(cx: &Context, line: &str) -> Result<()> {
    if cx.out.is_json() { Ok(()) } else { cx.out.line(line) }
}

async fn judge(client: &Client, spec: &SpecDetail, approvals: usize) -> Result<Proof> {
    let (mut tasks, mut spans) = (Vec::new(), Vec::new());
    for item in &spec.items {
        let (Some(task_id), Some(status)) = (item.task_id.clone(), item.status) else { continue };
        let evidence = client.task_evidence(&task_id).await?;
        spans.extend(spans_of(&evidence));
        for attempt in &evidence.attempts {
            gone(client, &attempt.sandbox_id).await?;
        }
        tasks.push(Task {
            symbol: item.symbol.clone(),
            title: item.title.clone(),
            verification: evidence.verification,
            commit: evidence.commit,
            task_id,
            status,
        });
    }
    if let Some(task_id) = spec.branch.as_ref().and_then(|branch| branch.check_task_id.as_ref()) {
        for attempt in &client.task_evidence(task_id).await?.attempts {
            gone(client, &attempt.sandbox_id).await?;
        }
    }
    for sandbox in spec.phases.iter().filter_map(|one| one.sandbox_id.as_ref()) {
        gone(client, sandbox).await?;
    }
    let mut proof = Proof {
        spec_id: Some(spec.spec.id.clone()),
        project_id: spec.spec.project_id.clone(),
        phases: spec
            .phases
            .iter()
            .map(|one| Phase {
                phase: one.phase,
                state: one.state,
                score: one.score,
                sandbox_id: one.sandbox_id.clone(),
            })
            .collect(),
        approvals,
        parallel: at_once(&spans),
        coverage_percent: client.spec_coverage(&spec.spec.id).await?.proven_percent,
        tasks,
        branch: spec.branch.as_ref().map(|branch| branch.name.clone()),
        branch_checks: spec.branch.as_ref().and_then(|branch| branch.check_status),
        ..Proof::default()
    };
    let wrong = wrong(spec, &proof);
    proof.status = if wrong.is_empty() { "completed" } else { "failed" };
    proof.error = (!wrong.is_empty()).then(|| wrong.join("; "));
    Ok(proof)
}

fn wrong(spec: &SpecDetail, proof: &Proof) -> Vec<String> {
    let mut wrong = Vec::new();
    if spec.spec.status != SpecStatus::Completed {
        let why = spec.spec.last_error.as_deref().unwrap_or("nobody said why");
        wrong.push(format!("the spec is {} and not completed: {why}", spec.spec.status));
    }
    let stands = |one: &&Phase| matches!(one.state, PhaseState::Passed | PhaseState::Approved);
    let standing = proof.phases.iter().filter(stands).count();
    if standing != SpecPhase::ALL.len() {
        wrong.push(format!("{standing} of {} phases stand", SpecPhase::ALL.len()));
    }
    if proof.approvals != 2 {
        wrong.push(format!("{} phases were approved and not 2", proof.approvals));
    }
    let proven = proof
        .tasks
        .iter()
        .filter(|task| task.status == TaskStatus::Completed && task.verification == Verification::Verified);
    let proven = proven.count();
    if proven < TASKS_MIN || proven != proof.tasks.len() {
        wrong.push(format!("{proven} of {} tasks are proven, and {TASKS_MIN} are wanted", proof.tasks.len()));
    }
    if proof.parallel < 2 {
        wrong.push("no two tasks were worked on at once".to_owned());
    }
    if proof.coverage_percent != 100 {
        wrong.push(format!("{} % of the requirements are proven", proof.coverage_percent));
    }
    let merged = spec.branch.as_ref().is_some_and(|branch| branch.state == SpecBranchState::Merged);
    if !merged || proof.branch_checks != Some(TaskStatus::Completed) {
        wrong.push("its tasks were not merged into one branch that passes the checks".to_owned());
    }
    wrong
}

/// When each attempt at the work itself began and ended.
fn spans_of(evidence: &Evidence) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let work = evidence.attempts.iter().filter(|attempt| attempt.stage == Stage::Work);
    work.filter_map(|attempt| Some((attempt.started_at?, attempt.ended_at?)))
}

fn at_once(spans: &[(Timestamp, Timestamp)]) -> usize {
    let holds = |at: Timestamp| spans.iter().filter(|(from, to)| *from <= at && at < *to).count();
    spans.iter().map(|(from, _)| holds(*from)).max().unwrap_or(0)
}

/// One object for programs; for people the verdict, since they have seen the rest.
pub fn tell(cx: &Context, played: Result<Proof>) -> Result<()> {
    let (proof, code) = match played {
        Ok(proof) => (proof, FAILED),
        Err(error) if !cx.out.is_json() => return Err(error),
        Err(error) => match error.downcast_ref::<Code>() {
            Some(Code(code)) => (Proof::failed("interrupted".to_owned()), *code),
            None => {
                let failure = Failure::of(&error);
                let code = failure.as_ref().map_or(FAILED, |failure| failure.code);
                (Proof::failed(failure.map(|failure| failure.cause).unwrap_or_default()), code)
            }
        },
    };
    cx.out.item(&proof, |_| match &proof.error {
        None => format!(
            "All of it held: {} phases, {} approvals, {} tasks proven ({} at once), {} % of the requirements covered, all on {}.",
            proof.phases.len(),
            proof.approvals,
            proof.tasks.len(),
            proof.parallel,
            proof.coverage_percent,
            proof.branch.as_deref().unwrap_or("no branch")
        ),
        Some(_) => "Not all of it held.".to_owned(),
    })?;
    match &proof.error {
        None => Ok(()),
        Some(_) if cx.out.is_json() => Err(Code(code).into()),
        Some(error) => {
            Err(Stop::new(code, error.clone()).hint("`omoi spec show` says how each phase went").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_was_worked_on_at_once() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(at_once(&[]), 0);
        assert_eq!(at_once(&[(at(0), at(5)), (at(5), at(9))]), 1);
        assert_eq!(at_once(&[(at(0), at(5)), (at(4), at(9)), (at(4), at(6)), (at(7), at(8))]), 3);
    }
}
