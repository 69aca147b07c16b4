//! Policies of projects: shown, changed, and tried on what has happened.

use std::collections::BTreeMap;

use axum::{Json as Answer, extract::State};
use jiff::SignedDuration;
use omoi_protocol::{
    InterventionMode, PolicySource, ProjectId, SandboxId,
    guardian::{GuardianPolicy, PolicyTried, PolicyTriedFinding, PolicyTriedRun, PutPolicy, TryPolicy},
};

use super::{
    Api,
    auth::{Operator, Viewer},
    extract::{Json, Path},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::{
    domain::supervision::{policy::Policy, replay::Replay},
    store::StoredPolicy,
};

/// What a policy is tried on.
const TRIED_HOURS: i64 = 24;
const TRIED_SANDBOXES: usize = 50;
const TRIED_EVENTS: usize = 100_000;
const TRIED_EVENTS_EACH: usize = 20_000;
/// Findings that are named for each sandbox.
const TRIED_FINDINGS: usize = 50;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(show, put, reset)).routes(routes!(dry_run))
}

/// Show the policy that holds in a project
#[utoipa::path(get, path = "/api/v1/projects/{id}/policy", params(("id" = ProjectId, Path)),
    responses((status = 200, body = GuardianPolicy)), tag = "policies")]
async fn show(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<ProjectId>,
) -> ApiResult<Answer<GuardianPolicy>> {
    let stored = api.store.policy_get(&id).await?;
    Ok(Answer(view(&api, id, stored)))
}

/// Give a project a policy of its own
#[utoipa::path(put, path = "/api/v1/projects/{id}/policy", params(("id" = ProjectId, Path)), request_body = PutPolicy,
    responses((status = 200, body = GuardianPolicy)), tag = "policies")]
async fn put(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<ProjectId>,
    Json(new): Json<PutPolicy>,
) -> ApiResult<Answer<GuardianPolicy>> {
    let actor = who.name();
    read(&new.text)?;
    let stored = api.store.policy_put(actor, &id, Some(new.text), new.version).await?;
    Ok(Answer(view(&api, id, stored)))
}

/// Let a project have the usual policy again
#[utoipa::path(delete, path = "/api/v1/projects/{id}/policy", params(("id" = ProjectId, Path)),
    responses((status = 200, body = GuardianPolicy)), tag = "policies")]
async fn reset(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<ProjectId>,
) -> ApiResult<Answer<GuardianPolicy>> {
    let stored = api.store.policy_put(who.name(), &id, None, None).await?;
    Ok(Answer(view(&api, id, stored)))
}

/// Try a policy on the sandboxes of the last 24 hours
///
/// Nothing is stored and nobody is told anything.
#[utoipa::path(post, path = "/api/v1/projects/{id}/policy/try", params(("id" = ProjectId, Path)), request_body = TryPolicy,
    responses((status = 200, body = PolicyTried)), tag = "policies")]
async fn dry_run(
    State(api): State<Api>,
    _: Operator,
    Path(id): Path<ProjectId>,
    Json(asked): Json<TryPolicy>,
) -> ApiResult<Answer<PolicyTried>> {
    let text = match asked.text {
        Some(text) => text,
        None => view(&api, id.clone(), api.store.policy_get(&id).await?).text,
    };
    let policy = std::sync::Arc::new(read(&text)?);
    let since = api.clock.now() - SignedDuration::from_hours(TRIED_HOURS);
    let mut ids = api.store.policy_runs(&id, since, TRIED_SANDBOXES + 1).await?;
    let mut tried = PolicyTried { truncated: ids.len() > TRIED_SANDBOXES, ..PolicyTried::default() };
    ids.truncate(TRIED_SANDBOXES);
    for id in ids {
        let left = TRIED_EVENTS.saturating_sub(usize::try_from(tried.events).unwrap_or(usize::MAX));
        if left == 0 {
            tried.truncated = true;
            break;
        }
        let (replayed, cut) = api.store.guardian_replay(&id, &policy, left.min(TRIED_EVENTS_EACH)).await?;
        tried.truncated |= cut;
        add(&mut tried, id, replayed);
    }
    Ok(Answer(tried))
}

fn add(tried: &mut PolicyTried, sandbox_id: SandboxId, replayed: Replay) {
    tried.sandboxes += 1;
    tried.events += replayed.events as i64;
    let count =
        |counts: &mut BTreeMap<String, i64>, word: &str| *counts.entry(word.to_owned()).or_default() += 1;
    for action in replayed.actions.iter().filter(|action| action.mode != InterventionMode::Record) {
        count(&mut tried.interventions, action.intervention.as_str());
    }
    let mut findings = Vec::new();
    for finding in replayed.findings {
        count(&mut tried.findings, finding.kind.as_str());
        if findings.len() >= TRIED_FINDINGS {
            tried.truncated = true;
            continue;
        }
        let fits = |action: &&crate::domain::supervision::decide::Action| {
            action.finding == finding.kind && action.number == finding.number
        };
        let action = replayed.actions.iter().find(fits);
        findings.push(PolicyTriedFinding {
            kind: finding.kind,
            severity: finding.severity,
            number: i64::from(finding.number),
            seqs: finding.seqs,
            text: finding.text,
            at: finding.at,
            action: action.map(|action| action.intervention),
            mode: action.map(|action| action.mode),
            held: action.and_then(|action| action.held),
        });
    }
    if !findings.is_empty() {
        tried.runs.push(PolicyTriedRun { sandbox_id, findings });
    }
}

fn read(text: &str) -> ApiResult<Policy> {
    Policy::read("text", text).map_err(|error| ApiError::invalid("invalid_policy", error.to_string()))
}

/// What holds: the project's own, or the usual one.
fn view(api: &Api, project_id: ProjectId, stored: Option<StoredPolicy>) -> GuardianPolicy {
    let version = stored.as_ref().map_or(0, |stored| stored.version);
    let (updated_by, updated_at) =
        stored.as_ref().map(|stored| (stored.created_by.clone(), stored.created_at)).unzip();
    let own = stored.and_then(|stored| stored.text);
    let own = own.and_then(|text| Policy::read("text", &text).ok().map(|policy| (policy.steering, text)));
    let (source, steering, text) = match own {
        Some((steering, text)) => (PolicySource::Project, steering, text),
        None => (api.usual.source, api.usual.policy.steering, api.usual.text.to_string()),
    };
    GuardianPolicy { project_id, source, version, steering, text, updated_by, updated_at }
}
