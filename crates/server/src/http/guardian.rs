//! What the Guardian finds and does, and what people decide about it.

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    FindingId, FindingKind, InterventionId, InterventionMode, ProjectId, SandboxId, TaskId,
    guardian::{
        ApproveIntervention, DismissIntervention, GuardianFinding, GuardianIntervention, GuardianJudgement,
        GuardianStatus, NewNudge, SandboxSummary,
    },
    page::Page,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::{
    domain::supervision::summary::summary,
    store::{FindingFilter, InterventionFilter},
};

/// Open findings that a summary names: there is one of each kind at most.
const OPEN_MAX: usize = 50;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(status))
        .routes(routes!(findings))
        .routes(routes!(finding))
        .routes(routes!(interventions))
        .routes(routes!(intervention))
        .routes(routes!(approve))
        .routes(routes!(dismiss))
        .routes(routes!(nudge))
        .routes(routes!(judgements))
        .routes(routes!(judge))
        .routes(routes!(summarise))
}

/// Show whether the Guardian runs and how well sandboxes do
#[utoipa::path(get, path = "/api/v1/guardian/status", responses((status = 200, body = GuardianStatus)), tag = "guardian")]
async fn status(State(api): State<Api>, _: Viewer) -> ApiResult<Answer<GuardianStatus>> {
    Ok(Answer(api.store.guardian_status(api.usual.policy.steering, &api.judge).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Findings {
    project_id: Option<ProjectId>,
    sandbox_id: Option<SandboxId>,
    task_id: Option<TaskId>,
    kind: Option<FindingKind>,
    /// `true`: those that go on; `false`: those that do not.
    open: Option<bool>,
}

/// List what was found in the work of sandboxes, newest first
#[utoipa::path(get, path = "/api/v1/findings", params(Findings, Paging),
    responses((status = 200, body = Page<GuardianFinding>)), tag = "guardian")]
async fn findings(
    State(api): State<Api>,
    _: Viewer,
    Query(asked): Query<Findings>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<GuardianFinding>>> {
    let limit = paging.limit()?;
    let Findings { project_id, sandbox_id, task_id, kind, open } = asked;
    let filter = FindingFilter { project_id, sandbox_id, task_id, kind, open };
    let rows = api.store.finding_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |finding| finding.id.to_string()))
}

/// Show a finding
#[utoipa::path(get, path = "/api/v1/findings/{id}", params(("id" = FindingId, Path)),
    responses((status = 200, body = GuardianFinding)), tag = "guardian")]
async fn finding(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<FindingId>,
) -> ApiResult<Answer<GuardianFinding>> {
    Ok(Answer(api.store.finding_get(&id).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Interventions {
    project_id: Option<ProjectId>,
    sandbox_id: Option<SandboxId>,
    task_id: Option<TaskId>,
    /// Without it, all but notes (`record`).
    mode: Option<InterventionMode>,
    /// `true`: those that wait for a person.
    waiting: Option<bool>,
}

/// List what was done about findings, newest first
#[utoipa::path(get, path = "/api/v1/interventions", params(Interventions, Paging),
    responses((status = 200, body = Page<GuardianIntervention>)), tag = "guardian")]
async fn interventions(
    State(api): State<Api>,
    _: Viewer,
    Query(asked): Query<Interventions>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<GuardianIntervention>>> {
    let limit = paging.limit()?;
    let Interventions { project_id, sandbox_id, task_id, mode, waiting } = asked;
    let filter = InterventionFilter { project_id, sandbox_id, task_id, mode, waiting };
    let rows = api.store.intervention_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |intervention| intervention.id.to_string()))
}

/// Show an intervention
#[utoipa::path(get, path = "/api/v1/interventions/{id}", params(("id" = InterventionId, Path)),
    responses((status = 200, body = GuardianIntervention)), tag = "guardian")]
async fn intervention(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<InterventionId>,
) -> ApiResult<Answer<GuardianIntervention>> {
    Ok(Answer(api.store.intervention_get(&id).await?))
}

/// Make an intervention that was suggested
#[utoipa::path(post, path = "/api/v1/interventions/{id}/approve", params(("id" = InterventionId, Path)),
    request_body = ApproveIntervention, responses((status = 200, body = GuardianIntervention)), tag = "guardian")]
async fn approve(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<InterventionId>,
    Json(said): Json<ApproveIntervention>,
) -> ApiResult<Answer<GuardianIntervention>> {
    Ok(Answer(api.store.intervention_approve(who.name(), &id, said.text).await?))
}

/// Drop an intervention that was suggested
#[utoipa::path(post, path = "/api/v1/interventions/{id}/dismiss", params(("id" = InterventionId, Path)),
    request_body = DismissIntervention, responses((status = 200, body = GuardianIntervention)), tag = "guardian")]
async fn dismiss(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<InterventionId>,
    Json(said): Json<DismissIntervention>,
) -> ApiResult<Answer<GuardianIntervention>> {
    Ok(Answer(api.store.intervention_dismiss(who.name(), &id, said.reason).await?))
}

/// Say something to the agent in the Guardian's place
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/nudge", params(("id" = SandboxId, Path)), request_body = NewNudge,
    responses((status = 201, body = GuardianIntervention)), tag = "guardian")]
async fn nudge(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
    Json(new): Json<NewNudge>,
) -> ApiResult<(StatusCode, Answer<GuardianIntervention>)> {
    let made = api.store.intervention_nudge(who.name(), &id, new.text).await?;
    Ok((StatusCode::CREATED, Answer(made)))
}

/// List what a model thinks of the course of a sandbox, newest first
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/judgements", params(("id" = SandboxId, Path), Paging),
    responses((status = 200, body = Page<GuardianJudgement>)), tag = "guardian")]
async fn judgements(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SandboxId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<GuardianJudgement>>> {
    let limit = paging.limit()?;
    let rows = api.store.judgement_list(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |judgement| judgement.id.to_string()))
}

/// Ask a model now what it thinks of the course of a sandbox
///
/// The answer comes later, as an event `guardian.judgement` and in the list of judgements. A question that is open already is
/// not asked twice.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/judge", params(("id" = SandboxId, Path)),
    responses((status = 202, body = GuardianJudgement)), tag = "guardian")]
async fn judge(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SandboxId>,
) -> ApiResult<(StatusCode, Answer<GuardianJudgement>)> {
    let actor = who.name();
    if !api.judge.enabled {
        let detail =
            "this server asks no model for its opinion; set judge.enabled and judge.model to change that";
        return Err(ApiError::new(StatusCode::CONFLICT, "judge_disabled", detail));
    }
    Ok((StatusCode::ACCEPTED, Answer(api.store.judgement_ask(actor, &id).await?)))
}

/// Sum up what a sandbox has done
///
/// The id of an attached agent stands for the sandbox that it works in, or worked in last.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/summary", params(("id" = SandboxId, Path)),
    responses((status = 200, body = SandboxSummary)), tag = "guardian")]
async fn summarise(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SandboxId>,
) -> ApiResult<Answer<SandboxSummary>> {
    let subject = api.store.guardian_subject(id.as_str()).await?;
    let trajectory = api.store.guardian_trajectory(&subject).await?;
    let open =
        FindingFilter { sandbox_id: Some(subject.id.clone()), open: Some(true), ..FindingFilter::default() };
    let open_findings = api.store.finding_list(open, None, OPEN_MAX).await?;
    let sandbox = api.store.sandbox_get(&subject.id).await?;
    let summed = summary(subject.id, &trajectory, api.clock.now());
    Ok(Answer(SandboxSummary {
        agent_id: sandbox.agent_id,
        task_id: subject.task_id,
        alignment: sandbox.alignment,
        open_findings,
        ..summed
    }))
}
