//! Specs: from an idea, phase by phase, to tasks. Each change writes a version, and what is next follows in the same
//! transaction, so that a crash finds a spec between two phases never.

mod branch;
mod coverage;
mod due;
mod duplicate;
mod exchange;
mod execute;
mod gate;
mod history;
mod phase;
mod sync;

use std::collections::BTreeMap;

use omoi_protocol::{
    ProjectId, SpecFlow, SpecId, SpecPhase, SpecStatus,
    cost::ReportedCost,
    spec::{NewSpec, Spec, SpecDetail, SpecPatch, SpecSummary},
};
use serde_json::{Value as Json, json};

pub use branch::{BranchDue, BranchPart, Combined};
pub use due::{Due, Handed, Judged, Judgement};
pub(super) use phase::brief;

use super::{
    Ask, Error, Store, Tx, project, reported_cost,
    value::{Row, params},
};
use crate::domain::{money::Usd, spec::THRESHOLD, spec_course};

const COLUMNS: &str = "id, project_id, title, description, flow, status, current_phase, version, gates, archived, \
                       last_error, created_by, created_at, updated_at";
/// Who is written down where nobody did it.
const ACTOR: &str = "advance";

/// Which specs are wanted.
#[derive(Debug, Clone, Default)]
pub struct SpecFilter {
    pub project_id: Option<ProjectId>,
    pub status: Option<SpecStatus>,
    pub archived: Option<bool>,
}

impl Store {
    /// Newest first; `before` is the last id of the page before.
    pub async fn spec_list(
        &self,
        filter: SpecFilter,
        before: Option<SpecId>,
        limit: usize,
    ) -> Result<Vec<SpecSummary>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM specs"));
            ask.and_some("project_id =", filter.project_id.as_ref());
            ask.and_some("status =", filter.status.map(SpecStatus::as_str));
            match filter.archived {
                Some(true) => ask.raw("archived = 1"),
                Some(false) => ask.raw("archived = 0 /* most */"),
                None => {}
            }
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            let rows = tx.query(&sql, values).await?;
            let mut settings = BTreeMap::new();
            let mut specs = Vec::with_capacity(rows.len());
            for row in &rows {
                let of: Option<ProjectId> = row.parse_opt("project_id")?;
                if let Some(of) = of.filter(|of| !settings.contains_key(of)) {
                    let project = project::get(tx, &of).await?;
                    settings.insert(of, project.settings);
                }
                specs.push(read(row, |of| settings.get(of))?);
            }
            let ids: Vec<String> = specs.iter().map(|spec| spec.id.to_string()).collect();
            let (scores, costs) = (scores(tx, &ids).await?, costs(tx, &ids).await?);
            let summary = |spec: Spec| {
                let cost = costs.get(&spec.id).cloned().unwrap_or_default();
                let score = scores.get(&spec.id).copied();
                SpecSummary { score, cost_usd: cost.usd, reported_cost: cost.reported, spec }
            };
            Ok(specs.into_iter().map(summary).collect())
        })
        .await
    }

    pub async fn spec_get(&self, id: &SpecId) -> Result<SpecDetail, Error> {
        let id = id.clone();
        self.read(async move |tx| detail(tx, &id).await).await
    }

    pub async fn spec_create(&self, actor: &str, new: NewSpec) -> Result<SpecDetail, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let id = insert(tx, &actor, &new).await?;
            detail(tx, &id).await
        })
        .await
    }

    pub async fn spec_update(&self, actor: &str, id: &SpecId, patch: SpecPatch) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let old = get(tx, &id).await?;
            seen(&old, Some(patch.version))?;
            if let Some(named) = patch.project_id.as_ref().filter(|named| old.project_id.as_ref() != Some(*named)) {
                if old.status != SpecStatus::Draft {
                    let detail = format!("spec {id} is {}; only a draft moves to another project", old.status);
                    return Err(Error::conflict("spec_begun", detail));
                }
                project::get(tx, named).await?;
            }
            if patch.archived == Some(true) {
                may_rest(&old)?;
            }
            tx.execute(
                "UPDATE specs SET title = COALESCE($2, title), description = COALESCE($3, description), \
                 project_id = COALESCE($4, project_id), gates = COALESCE($5, gates), archived = COALESCE($6, archived) \
                 WHERE id = $1",
                params![
                    &id,
                    patch.title.as_deref(),
                    patch.description.as_deref(),
                    patch.project_id.as_ref(),
                    patch.gates.as_ref().map(|gates| json!(gates).to_string()),
                    patch.archived
                ],
            )
            .await?;
            let changed = serde_json::to_value(&patch).unwrap_or(Json::Null);
            tx.tell("SPEC_UPDATED", "spec", id.as_str(), &changed);
            tx.record(&actor, "spec.update", "spec", id.as_str(), changed);
            history::version(tx, &id, "updated", &actor).await?;
            detail(tx, &id).await
        })
        .await
    }

    /// Puts a spec away: lists leave it out. Asked twice, it is done once.
    pub async fn spec_archive(&self, actor: &str, id: &SpecId) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let spec = get(tx, &id).await?;
            if !spec.archived {
                may_rest(&spec)?;
                tx.execute("UPDATE specs SET archived = 1 WHERE id = $1", params![&id]).await?;
                let changed = json!({ "archived": true });
                tx.tell("SPEC_UPDATED", "spec", id.as_str(), &changed);
                tx.record(&actor, "spec.archive", "spec", id.as_str(), changed);
                history::version(tx, &id, "archived", &actor).await?;
            }
            detail(tx, &id).await
        })
        .await
    }
}

/// What is at work is not put away.
fn may_rest(spec: &Spec) -> Result<(), Error> {
    if spec.status == SpecStatus::Executing {
        let detail = format!("spec {} is executing; wait for it, or cancel its tasks first", spec.id);
        return Err(Error::conflict("spec_running", detail));
    }
    Ok(())
}

pub(super) async fn insert(tx: &mut Tx, actor: &str, new: &NewSpec) -> Result<SpecId, Error> {
    if let Some(named) = &new.project_id {
        project::get(tx, named).await?;
    }
    let id = SpecId::generate();
    let first = phases(new.flow)[0];
    tx.execute(
        "INSERT INTO specs (id, project_id, title, description, flow, status, current_phase, version, gates, archived, \
         created_by, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, 'draft', $6, 0, $7, 0, $8, $9, $9)",
        params![
            &id,
            new.project_id.as_ref(),
            new.title.as_str(),
            new.description.as_str(),
            new.flow.as_str(),
            first.as_str(),
            new.gates.as_ref().map(|gates| json!(gates).to_string()),
            actor,
            tx.now
        ],
    )
    .await?;
    let told = json!({ "spec_id": id, "project_id": new.project_id, "title": new.title, "flow": new.flow });
    tx.tell("SPEC_CREATED", "spec", id.as_str(), &told);
    tx.record(actor, "spec.create", "spec", id.as_str(), told);
    history::version(tx, &id, "created", actor).await?;
    Ok(id)
}

/// The phases of a flow, in their order.
pub(super) fn phases(flow: SpecFlow) -> &'static [SpecPhase] {
    spec_course::phases(flow)
}

pub(super) async fn get(tx: &mut Tx, id: &SpecId) -> Result<Spec, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM specs WHERE id = $1"), params![id]).await?;
    let row = row.ok_or_else(|| Error::not_found("spec", id))?;
    let of: Option<ProjectId> = row.parse_opt("project_id")?;
    let project = match &of {
        Some(of) => Some(project::get(tx, of).await?),
        None => None,
    };
    read(&row, |_| project.as_ref().map(|project| &project.settings))
}

pub(super) async fn detail(tx: &mut Tx, id: &SpecId) -> Result<SpecDetail, Error> {
    let spec = get(tx, id).await?;
    let flow_phases = phases(spec.flow).to_vec();
    let phases = phase::last_of_each(tx, id).await?;
    let items = sync::items(tx, id).await?;
    let cost = costs(tx, &[id.to_string()]).await?.remove(id).unwrap_or_default();
    Ok(SpecDetail {
        progress: progress(&flow_phases, &phases, &items),
        cost_usd: cost.usd,
        reported_cost: cost.reported,
        duplicates: duplicate::of(tx, id).await?,
        branch: branch::of(tx, id).await?,
        spec,
        phases,
        flow_phases,
        items,
    })
}

/// Half of it is the way to its tasks, and the other half those.
fn progress(
    flow: &[SpecPhase],
    phases: &[omoi_protocol::spec::PhaseAttempt],
    items: &[omoi_protocol::spec::SpecItem],
) -> u8 {
    let done = phases.iter().filter(|one| phase::stands(one.state)).count();
    let tasks: Vec<_> = items.iter().filter_map(|item| item.status).collect();
    let completed = tasks.iter().filter(|status| **status == omoi_protocol::TaskStatus::Completed).count();
    let share = |part: usize, whole: usize| 50 * part / whole.max(1);
    u8::try_from(share(done, flow.len()) + share(completed, tasks.len())).unwrap_or(100).min(100)
}

/// The mean of the last attempts that were judged, by spec.
async fn scores(tx: &mut Tx, of: &[String]) -> Result<BTreeMap<SpecId, f64>, Error> {
    let sql = format!(
        "SELECT p.spec_id, avg(p.score) AS score FROM spec_phases p WHERE p.spec_id = ANY($1) AND p.score IS NOT NULL \
         AND {} GROUP BY p.spec_id",
        phase::LAST
    );
    let rows = tx.query(&sql, params![of.to_vec()]).await?;
    rows.iter().map(|row| Ok((row.parse("spec_id")?, row.get("score")?))).collect()
}

/// What the phases and tasks of a spec have cost.
#[derive(Debug, Clone, Default)]
struct Cost {
    usd: f64,
    reported: Option<ReportedCost>,
}

async fn costs(tx: &mut Tx, of: &[String]) -> Result<BTreeMap<SpecId, Cost>, Error> {
    let sql = "SELECT x.spec_id, CAST(sum(m.spent) AS BIGINT) AS spent, CAST(sum(m.reported) AS BIGINT) AS reported, \
               CAST(sum(m.reported_counted) AS BIGINT) AS reported_counted, \
               CAST(sum(m.reported_ignored) AS BIGINT) AS reported_ignored FROM \
               (SELECT spec_id, task_id FROM spec_phases WHERE spec_id = ANY($1) UNION \
               SELECT spec_id, task_id FROM spec_items WHERE spec_id = ANY($1)) x \
               JOIN spend m ON m.level = 'task' AND m.entity_id = x.task_id GROUP BY x.spec_id";
    let rows = tx.query(sql, params![of.to_vec()]).await?;
    let cost = |row: &Row| {
        let usd = Usd::from_nanos(row.get("spent")?).as_f64();
        Ok((row.parse("spec_id")?, Cost { usd, reported: reported_cost::read(row)? }))
    };
    rows.iter().map(cost).collect()
}

/// Who changes something has seen it as it is.
fn seen(spec: &Spec, version: Option<i64>) -> Result<(), Error> {
    match version {
        Some(version) if version != spec.version => {
            let detail = format!(
                "spec {} is at version {}, and version {version} was seen; look at it again",
                spec.id, spec.version
            );
            Err(Error::conflict("version_conflict", detail))
        }
        _ => Ok(()),
    }
}

/// How the whole of it stands.
async fn set_status(
    tx: &mut Tx,
    id: &SpecId,
    status: SpecStatus,
    phase: SpecPhase,
    error: Option<&str>,
) -> Result<(), Error> {
    let sql = "UPDATE specs SET status = $2, current_phase = $3, last_error = $4 WHERE id = $1";
    tx.execute(sql, params![id, status.as_str(), phase.as_str(), error]).await
}

fn read<'p>(
    row: &Row,
    settings: impl Fn(&ProjectId) -> Option<&'p serde_json::Map<String, Json>>,
) -> Result<Spec, Error> {
    let project_id: Option<ProjectId> = row.parse_opt("project_id")?;
    let gates = match row.get::<Option<String>>("gates")? {
        Some(_) => Some(row.json("gates")?),
        None => None,
    };
    Ok(Spec {
        id: row.parse("id")?,
        gates: spec_course::gates(gates, project_id.as_ref().and_then(settings)),
        project_id,
        title: row.get("title")?,
        description: row.get("description")?,
        flow: row.parse("flow")?,
        status: row.parse("status")?,
        current_phase: row.parse("current_phase")?,
        version: row.get("version")?,
        threshold: THRESHOLD,
        archived: row.get("archived")?,
        last_error: row.get("last_error")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}
