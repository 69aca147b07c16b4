//! Specs: what is wanted of them is written down here, and the loop that advances them does it. Nothing of a phase runs
//! in this process.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Json as Answer, extract::State, http::StatusCode};
use omoi_protocol::{
    ProjectId, SpecFlow, SpecId, SpecPhase, SpecStatus,
    page::Page,
    spec::{
        ApprovePhase, DecideDuplicate, EditPhase, ExecuteSpec, ImportSpec, NewSpec, PhaseAttempt, PhaseData,
        PhaseDetail, RequestChanges, SetSpecGates, SpecBranch, SpecCoverage, SpecDetail, SpecDuplicate,
        SpecEvent, SpecExecution, SpecFiles, SpecGates, SpecLayout, SpecPatch, SpecSummary, SpecVersion,
        shape_of,
    },
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Api,
    auth::{Operator, Viewer},
    check::Valid,
    extract::{Json, Path, Query},
    page::{self, Paging},
    problem::{ApiError, ApiResult},
    route::{Routes, routes},
};
use crate::{
    domain::spec::{
        Known,
        exchange::{self, Layout},
    },
    store::{self, Judged, SpecFilter},
};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get_one, update))
        .routes(routes!(archive))
        .routes(routes!(execute))
        .routes(routes!(approve))
        .routes(routes!(request_changes))
        .routes(routes!(phases))
        .routes(routes!(phase, edit_phase))
        .routes(routes!(phase_data))
        .routes(routes!(coverage))
        .routes(routes!(branch, make_branch))
        .routes(routes!(duplicates, decide_duplicate))
        .routes(routes!(gates, set_gates))
        .routes(routes!(export))
        .routes(routes!(import))
        .routes(routes!(versions))
        .routes(routes!(events))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Filter {
    #[serde(alias = "project")]
    project_id: Option<ProjectId>,
    status: Option<SpecStatus>,
    /// Only those that are archived; absent, only those that are not.
    #[serde(default)]
    archived: bool,
}

/// List specs, newest first
#[utoipa::path(get, path = "/api/v1/specs", params(Filter, Paging), responses((status = 200, body = Page<SpecSummary>)), tag = "specs")]
async fn list(
    State(api): State<Api>,
    _: Viewer,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<SpecSummary>>> {
    let limit = paging.limit()?;
    let Filter { project_id, status, archived } = filter;
    let filter = SpecFilter { project_id, status, archived: Some(archived) };
    let rows = api.store.spec_list(filter, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |row| row.spec.id.to_string()))
}

/// Create a spec
#[utoipa::path(post, path = "/api/v1/specs", request_body = NewSpec, responses((status = 201, body = SpecDetail)), tag = "specs")]
async fn create(
    State(api): State<Api>,
    who: Operator,
    Json(new): Json<NewSpec>,
) -> ApiResult<(StatusCode, Answer<SpecDetail>)> {
    Ok((StatusCode::CREATED, Answer(api.store.spec_create(who.name(), new).await?)))
}

/// Show a spec, with where each phase stands and what its tasks have become
#[utoipa::path(get, path = "/api/v1/specs/{id}", params(("id" = SpecId, Path)), responses((status = 200, body = SpecDetail)), tag = "specs")]
async fn get_one(State(api): State<Api>, _: Viewer, Path(id): Path<SpecId>) -> ApiResult<Answer<SpecDetail>> {
    Ok(Answer(api.store.spec_get(&id).await?))
}

/// Change a spec
///
/// Names the version that was seen, and is refused when there is a newer one.
#[utoipa::path(patch, path = "/api/v1/specs/{id}", params(("id" = SpecId, Path)), request_body = SpecPatch,
    responses((status = 200, body = SpecDetail)), tag = "specs")]
async fn update(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
    Json(patch): Json<SpecPatch>,
) -> ApiResult<Answer<SpecDetail>> {
    Ok(Answer(api.store.spec_update(who.name(), &id, patch).await?))
}

/// Archive a spec; lists leave it out, and a patch of `archived` brings it back
#[utoipa::path(post, path = "/api/v1/specs/{id}/archive", params(("id" = SpecId, Path)), responses((status = 200, body = SpecDetail)), tag = "specs")]
async fn archive(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
) -> ApiResult<Answer<SpecDetail>> {
    Ok(Answer(api.store.spec_archive(who.name(), &id).await?))
}

/// Execute a spec
///
/// Orders a sandbox for the phase that is next and answers at once. `resume_from_phase` redoes that phase and those behind it.
/// A project that is paused or archived starts nothing (409).
#[utoipa::path(post, path = "/api/v1/specs/{id}/execute", params(("id" = SpecId, Path)), request_body = ExecuteSpec,
    responses((status = 202, body = SpecExecution), (status = 400, description = "It has no project")), tag = "specs")]
async fn execute(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
    Json(asked): Json<ExecuteSpec>,
) -> ApiResult<(StatusCode, Answer<SpecExecution>)> {
    let begun = api.store.spec_execute(who.name(), &id, asked).await.map_err(|error| match error {
        store::Error::Invalid { code: code @ "spec_without_project", detail } => {
            ApiError::new(StatusCode::BAD_REQUEST, code, detail)
        }
        error => error.into(),
    })?;
    api.wake.notify_one();
    Ok((StatusCode::ACCEPTED, Answer(begun)))
}

/// Approve a phase that waits; what lies behind it begins
#[utoipa::path(post, path = "/api/v1/specs/{id}/approve", params(("id" = SpecId, Path)), request_body = ApprovePhase,
    responses((status = 200, body = SpecDetail)), tag = "specs")]
async fn approve(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
    Json(said): Json<ApprovePhase>,
) -> ApiResult<Answer<SpecDetail>> {
    Ok(Answer(api.store.spec_approve(who.name(), &id, said).await?))
}

/// Have a phase done again, with a comment that its next attempt is told
#[utoipa::path(post, path = "/api/v1/specs/{id}/request-changes", params(("id" = SpecId, Path)), request_body = RequestChanges,
    responses((status = 200, body = SpecDetail)), tag = "specs")]
async fn request_changes(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
    Json(said): Json<RequestChanges>,
) -> ApiResult<Answer<SpecDetail>> {
    Ok(Answer(api.store.spec_request_changes(who.name(), &id, said).await?))
}

/// List every attempt at every phase
#[utoipa::path(get, path = "/api/v1/specs/{id}/phases", params(("id" = SpecId, Path)), responses((status = 200, body = Vec<PhaseAttempt>)), tag = "specs")]
async fn phases(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
) -> ApiResult<Answer<Vec<PhaseAttempt>>> {
    Ok(Answer(api.store.spec_phase_list(&id).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// The last one unless named.
    attempt: Option<i64>,
}

/// Show an attempt at a phase: its output, for programs and for people, and what was found and said
#[utoipa::path(get, path = "/api/v1/specs/{id}/phases/{phase}", params(("id" = SpecId, Path), ("phase" = SpecPhase, Path), Which),
    responses((status = 200, body = PhaseDetail)), tag = "specs")]
async fn phase(
    State(api): State<Api>,
    _: Viewer,
    Path((id, phase)): Path<(SpecId, SpecPhase)>,
    Query(Which { attempt }): Query<Which>,
) -> ApiResult<Answer<PhaseDetail>> {
    Ok(Answer(api.store.spec_phase_get(&id, phase, attempt).await?))
}

/// Write a phase's output by hand
///
/// It is held to the same shape at once and judged in the same way a moment later; the phases behind it become stale and are redone.
#[utoipa::path(put, path = "/api/v1/specs/{id}/phases/{phase}", params(("id" = SpecId, Path), ("phase" = SpecPhase, Path)),
    request_body = EditPhase, responses((status = 202, body = SpecDetail)), tag = "specs")]
async fn edit_phase(
    State(api): State<Api>,
    who: Operator,
    Path((id, phase)): Path<(SpecId, SpecPhase)>,
    Json(said): Json<EditPhase>,
) -> ApiResult<(StatusCode, Answer<SpecDetail>)> {
    let actor = who.name();
    shape_of(phase, &said.output)
        .map_err(|error| ApiError::invalid("output_malformed", error.to_string()))?;
    Ok((StatusCode::ACCEPTED, Answer(api.store.spec_phase_edit(actor, &id, phase, said).await?)))
}

/// Show all outputs that stand
#[utoipa::path(get, path = "/api/v1/specs/{id}/phase-data", params(("id" = SpecId, Path)), responses((status = 200, body = PhaseData)), tag = "specs")]
async fn phase_data(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
) -> ApiResult<Answer<PhaseData>> {
    Ok(Answer(api.store.spec_phase_data(&id).await?))
}

/// Show which requirements are covered by which tasks, commits and checks
#[utoipa::path(get, path = "/api/v1/specs/{id}/coverage", params(("id" = SpecId, Path)), responses((status = 200, body = SpecCoverage)), tag = "specs")]
async fn coverage(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
) -> ApiResult<Answer<SpecCoverage>> {
    Ok(Answer(api.store.spec_coverage(&id).await?))
}

/// Show the branch that holds the work of all tasks, with what conflicts
#[utoipa::path(get, path = "/api/v1/specs/{id}/branch", params(("id" = SpecId, Path)), responses((status = 200, body = SpecBranch)), tag = "specs")]
async fn branch(State(api): State<Api>, _: Viewer, Path(id): Path<SpecId>) -> ApiResult<Answer<SpecBranch>> {
    Ok(Answer(api.store.spec_branch_get(&id).await?))
}

/// Have that branch made, or made again
///
/// Merges what is completed by then. A spec whose tasks are all completed has its branch made without being asked.
#[utoipa::path(post, path = "/api/v1/specs/{id}/branch", params(("id" = SpecId, Path)), responses((status = 202, body = SpecDetail)), tag = "specs")]
async fn make_branch(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
) -> ApiResult<(StatusCode, Answer<SpecDetail>)> {
    Ok((StatusCode::ACCEPTED, Answer(api.store.spec_branch_want(who.name(), &id).await?)))
}

/// List tasks of a spec that may exist already
#[utoipa::path(get, path = "/api/v1/specs/{id}/duplicates", params(("id" = SpecId, Path)), responses((status = 200, body = Vec<SpecDuplicate>)), tag = "specs")]
async fn duplicates(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
) -> ApiResult<Answer<Vec<SpecDuplicate>>> {
    Ok(Answer(api.store.spec_duplicates(&id).await?))
}

/// Decide about a task that may exist already
///
/// `link` lets an existing task stand in its place, and what waited for it waits for that one; `keep` lets it begin.
#[utoipa::path(post, path = "/api/v1/specs/{id}/duplicates", params(("id" = SpecId, Path)), request_body = DecideDuplicate,
    responses((status = 200, body = SpecDetail)), tag = "specs")]
async fn decide_duplicate(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<SpecId>,
    Json(said): Json<DecideDuplicate>,
) -> ApiResult<Answer<SpecDetail>> {
    Ok(Answer(api.store.spec_duplicate_decide(who.name(), &id, said).await?))
}

/// Show which phases of a project's specs wait for a person
#[utoipa::path(get, path = "/api/v1/projects/{id}/spec-gates", params(("id" = ProjectId, Path)), responses((status = 200, body = SpecGates)), tag = "specs")]
async fn gates(State(api): State<Api>, _: Viewer, Path(id): Path<ProjectId>) -> ApiResult<Answer<SpecGates>> {
    Ok(Answer(api.store.project_gates(&id).await?))
}

/// Choose which phases of a project's specs wait for a person
///
/// It is `settings.spec.gates` of the project, set alone. Specs that say it themselves are not concerned.
#[utoipa::path(put, path = "/api/v1/projects/{id}/spec-gates", params(("id" = ProjectId, Path)), request_body = SetSpecGates,
    responses((status = 200, body = SpecGates)), tag = "specs")]
async fn set_gates(
    State(api): State<Api>,
    who: Operator,
    Path(id): Path<ProjectId>,
    Json(said): Json<SetSpecGates>,
) -> ApiResult<Answer<SpecGates>> {
    Ok(Answer(api.store.project_set_gates(who.name(), &id, said).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Laid {
    /// `json`, `kiro` or `spec_kit`.
    #[serde(default)]
    #[param(inline)]
    layout: SpecLayout,
}

/// Show what stands of a spec as files
#[utoipa::path(get, path = "/api/v1/specs/{id}/export", params(("id" = SpecId, Path), Laid), responses((status = 200, body = SpecFiles)), tag = "specs")]
async fn export(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
    Query(Laid { layout }): Query<Laid>,
) -> ApiResult<Answer<SpecFiles>> {
    let spec = api.store.spec_export(&id).await?;
    let name = exchange::slug(&spec.title);
    let in_folder = |layout: Layout| {
        let files = exchange::export(layout, &spec).into_iter();
        files.map(|(file, text)| (format!("{}/{file}", layout.folder(&name, 1)), text)).collect()
    };
    let files = match layout {
        SpecLayout::Json => [(format!("{name}.json"), exchange::to_json(&spec))].into(),
        SpecLayout::Kiro => in_folder(Layout::Kiro),
        SpecLayout::SpecKit => in_folder(Layout::SpecKit),
    };
    Ok(Answer(SpecFiles { files }))
}

/// Take in a spec that was written elsewhere
///
/// A folder in the layout of Kiro or of spec-kit, or one JSON document. What it holds is judged like an agent's output; phases that
/// wait for a person wait here as well. A repository that was never fetched is fetched first: `repository_not_fetched` says when to
/// come back.
#[utoipa::path(post, path = "/api/v1/specs/import", request_body = ImportSpec, responses((status = 201, body = SpecDetail)), tag = "specs")]
async fn import(
    State(api): State<Api>,
    who: Operator,
    Json(asked): Json<ImportSpec>,
) -> ApiResult<(StatusCode, Answer<SpecDetail>)> {
    let actor = who.name();
    let project = api.store.project_get(&asked.project_id).await?;
    let (commit, known) = api.files(&project).await?;
    let ImportSpec { project_id, title, files } = asked;
    // Reading and judging take a while, and other requests of this thread would wait for it.
    let read = tokio::task::spawn_blocking(move || judged(&files, &commit, &known)).await;
    let broke_off = |_| {
        ApiError::invalid("import_unreadable", "what was sent cannot be judged; look at its files".to_owned())
    };
    let (found, judged) = read
        .map_err(broke_off)?
        .map_err(|error| ApiError::invalid("import_unreadable", error.to_string()))?;
    let new = NewSpec {
        project_id: Some(project_id),
        title: title.unwrap_or(found),
        description: String::new(),
        flow: SpecFlow::Full,
        gates: None,
    };
    new.check().map_err(|why| ApiError::invalid("validation_failed", why))?;
    Ok((StatusCode::CREATED, Answer(api.store.spec_import(actor, new, judged).await?)))
}

/// The title that files tell, and what they hold, each held against what comes before it.
fn judged(
    files: &BTreeMap<String, String>,
    commit: &str,
    known: &BTreeSet<String>,
) -> Result<(String, Vec<(SpecPhase, Judged)>), exchange::ImportError> {
    let found = match files.iter().next() {
        Some((name, text)) if files.len() == 1 && name.ends_with(".json") => exchange::from_json(text)?,
        _ => exchange::import(files, known)?,
    };
    let (mut judged, mut earlier) = (Vec::new(), BTreeMap::new());
    for (phase, output) in found.outputs {
        let against = Known { earlier: &earlier, files: known };
        judged.push((phase, Judged::of(SpecFlow::Full, phase, output.clone(), commit, &against)));
        earlier.insert(phase, output);
    }
    Ok((found.title, judged))
}

/// List the versions of a spec, newest first
#[utoipa::path(get, path = "/api/v1/specs/{id}/versions", params(("id" = SpecId, Path), Paging), responses((status = 200, body = Page<SpecVersion>)), tag = "specs")]
async fn versions(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<SpecVersion>>> {
    let limit = paging.limit()?;
    let rows = api.store.spec_versions(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |version| version.version.to_string()))
}

/// List what happened to a spec, oldest first
#[utoipa::path(get, path = "/api/v1/specs/{id}/events", params(("id" = SpecId, Path), Paging), responses((status = 200, body = Page<SpecEvent>)), tag = "specs")]
async fn events(
    State(api): State<Api>,
    _: Viewer,
    Path(id): Path<SpecId>,
    Query(paging): Query<Paging>,
) -> ApiResult<Answer<Page<SpecEvent>>> {
    let limit = paging.limit()?;
    let rows = api.store.spec_events(&id, paging.cursor()?, limit + 1).await?;
    Ok(page::cut(rows, limit, |event| event.position.to_string()))
}
