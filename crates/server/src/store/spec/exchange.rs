//! Specs that come from elsewhere, and what of them may be built on at once.

use omoi_protocol::{
    PhaseDecision, PhaseState, SpecFlow, SpecId, SpecPhase, SpecStatus, TaskStatus,
    spec::{NewSpec, SpecDetail},
};
use serde_json::{Value as Json, json};

use super::{detail, due::Judged, get, history, insert, phase, phases, set_status, sync};
use crate::{
    domain::spec::exchange::Exchange,
    store::{Error, Store, Tx, blob, value::params},
};

impl Store {
    /// What stands of a spec, to be written into files.
    pub async fn spec_export(&self, id: &SpecId) -> Result<Exchange, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let spec = get(tx, &id).await?;
            let done = sync::items(tx, &id).await?.into_iter();
            let done = done.filter(|item| item.status == Some(TaskStatus::Completed)).map(|item| item.symbol);
            Ok(Exchange {
                outputs: phase::outputs(tx, &id, phases(spec.flow)).await?,
                done: done.collect(),
                title: spec.title,
            })
        })
        .await
    }

    /// A new spec with outputs that have been judged already, in the order of phases. Those that it does not have count as
    /// left out by whoever wrote it, up to the last that it has.
    pub async fn spec_import(
        &self,
        actor: &str,
        new: NewSpec,
        judged: Vec<(SpecPhase, Judged)>,
    ) -> Result<SpecDetail, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let id = insert(tx, &actor, &new).await?;
            let spec = get(tx, &id).await?;
            let last = judged.last().map(|(phase, _)| *phase);
            let mut open = None;
            for phase in phases(SpecFlow::Full).iter().take_while(|phase| Some(**phase) <= last) {
                let found = judged.iter().find(|(of, _)| of == phase).map(|(_, judged)| judged);
                let state = match found {
                    None => PhaseState::Approved,
                    Some(judged) if !judged.passed => PhaseState::Failed,
                    Some(_) if spec.gates.contains(phase) => PhaseState::Waiting,
                    Some(_) => PhaseState::Passed,
                };
                row(tx, &id, *phase, state, found, &actor).await?;
                if !phase::stands(state) && open.is_none() {
                    open = Some((*phase, state));
                }
            }
            let next = phases(spec.flow).iter().find(|phase| Some(**phase) > last).copied();
            let (at, status) = match open {
                Some((phase, PhaseState::Waiting)) => (phase, SpecStatus::Waiting),
                Some((phase, _)) => (phase, SpecStatus::Draft),
                None => (next.unwrap_or(SpecPhase::Sync), SpecStatus::Draft),
            };
            set_status(tx, &id, status, at, None).await?;
            history::version(tx, &id, "imported", &actor).await?;
            detail(tx, &id).await
        })
        .await
    }
}

async fn row(
    tx: &mut Tx,
    id: &SpecId,
    phase: SpecPhase,
    state: PhaseState,
    judged: Option<&Judged>,
    actor: &str,
) -> Result<(), Error> {
    let hash = match judged.and_then(|judged| judged.output.as_ref()) {
        Some(output) => Some(blob::put(tx, output.to_string().as_bytes()).await?),
        None => None,
    };
    let findings = judged.map_or(Json::Array(Vec::new()), |judged| json!(judged.findings));
    let sql = "INSERT INTO spec_phases (spec_id, phase, attempt, try, state, edited_by, output_hash, commit_id, score, findings, \
               started_at, ended_at) VALUES ($1, $2, 1, 1, $3, $4, $5, $6, $7, $8, $9, $9)";
    let commit = judged.and_then(|judged| judged.commit.as_deref());
    let score = judged.map(|judged| judged.score);
    let values =
        params![id, phase.as_str(), state.as_str(), actor, hash, commit, score, findings.to_string(), tx.now];
    tx.execute(sql, values).await?;
    let said = if judged.is_some() { "imported" } else { "not part of what was imported" };
    history::comment(tx, id, (phase, 1), PhaseDecision::Edited, actor, said).await
}
