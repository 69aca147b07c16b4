//! Gates: what people decide about phases. Nothing goes past one that nobody has approved.

use omoi_protocol::{
    PhaseDecision, PhaseState, SpecId, SpecPhase, SpecStatus,
    spec::{ApprovePhase, EditPhase, RequestChanges, Spec, SpecDetail},
};
use serde_json::json;

use super::{detail, due, get, history, phase, phases, seen, set_status};
use crate::store::{Error, Store, blob, value::params};

impl Store {
    /// What lies behind the gate begins in the same transaction.
    pub async fn spec_approve(
        &self,
        actor: &str,
        id: &SpecId,
        said: ApprovePhase,
    ) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let spec = get(tx, &id).await?;
            seen(&spec, said.version)?;
            let last = phase::last(tx, &id, said.phase).await?;
            let Some(last) = last.filter(|last| last.shown.state == PhaseState::Waiting) else {
                let detail = format!("the phase {} of spec {id} does not wait for anybody", said.phase);
                return Err(Error::conflict("phase_not_waiting", detail));
            };
            let at = (said.phase, last.shown.attempt);
            phase::set_state(tx, &id, at, PhaseState::Approved).await?;
            history::comment(tx, &id, at, PhaseDecision::Approved, &actor, &said.comment).await?;
            due::go_on(tx, &spec, said.phase).await?;
            history::version(tx, &id, "approved", &actor).await?;
            detail(tx, &id).await
        })
        .await
    }

    /// The phase is tried again with what is said, and what was built on it is redone.
    pub async fn spec_request_changes(
        &self,
        actor: &str,
        id: &SpecId,
        said: RequestChanges,
    ) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let spec = get(tx, &id).await?;
            seen(&spec, said.version)?;
            idle(&spec)?;
            let Some(last) = phase::last(tx, &id, said.phase).await? else {
                let detail = format!("the phase {} of spec {id} was never begun", said.phase);
                return Err(Error::conflict("phase_missing", detail));
            };
            let at = (said.phase, last.shown.attempt);
            history::comment(tx, &id, at, PhaseDecision::ChangesRequested, &actor, &said.comment).await?;
            phase::make_stale(tx, &id, from(&spec, said.phase)).await?;
            let feedback = format!(
                "{actor} looked at attempt {} and asks for changes:\n\n{}",
                last.shown.attempt, said.comment
            );
            phase::begin(tx, &spec, said.phase, 1, Some(&feedback)).await?;
            history::version(tx, &id, "changes_requested", &actor).await?;
            detail(tx, &id).await
        })
        .await
    }

    /// An output that a person wrote takes the place of an agent's, and is judged like one. Its shape has been checked.
    pub async fn spec_phase_edit(
        &self,
        actor: &str,
        id: &SpecId,
        phase: SpecPhase,
        said: EditPhase,
    ) -> Result<SpecDetail, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        let content = said.output.to_string().into_bytes();
        let (hash, size, packed) = (blob::hash(&content), content.len() as i64, blob::compress(&content)?);
        self.write(async move |tx| {
            let spec = get(tx, &id).await?;
            seen(&spec, Some(said.version))?;
            idle(&spec)?;
            if spec.project_id.is_none() {
                let detail = format!("spec {id} has no project to hold an output against; set its project_id");
                return Err(Error::conflict("spec_without_project", detail));
            }
            if !phases(spec.flow).contains(&phase) {
                let detail = format!("the flow {} has no phase {phase}", spec.flow);
                return Err(Error::invalid("phase_not_in_flow", detail));
            }
            phase::make_stale(tx, &id, from(&spec, phase)).await?;
            blob::put_packed(tx, &hash, size, packed.clone()).await?;
            let attempt = phase::next_attempt(tx, &id, phase).await?;
            let sql = "INSERT INTO spec_phases (spec_id, phase, attempt, try, state, edited_by, output_hash, findings, started_at) \
                       VALUES ($1, $2, $3, 1, 'running', $4, $5, '[]', $6)";
            tx.execute(sql, params![&id, phase.as_str(), attempt, actor.as_str(), hash.as_str(), tx.now]).await?;
            set_status(tx, &id, SpecStatus::Executing, phase, None).await?;
            history::comment(tx, &id, (phase, attempt), PhaseDecision::Edited, &actor, &said.comment).await?;
            let told = json!({ "phase": phase, "attempt": attempt, "edited_by": actor });
            tx.tell("SPEC_PHASE_STARTED", "spec", id.as_str(), &told);
            history::version(tx, &id, "edited", &actor).await?;
            detail(tx, &id).await
        })
        .await
    }
}

/// The phase and those behind it.
fn from(spec: &Spec, phase: SpecPhase) -> &'static [SpecPhase] {
    let phases = phases(spec.flow);
    &phases[phases.iter().position(|one| *one == phase).unwrap_or(0)..]
}

fn idle(spec: &Spec) -> Result<(), Error> {
    if spec.archived {
        return Err(Error::conflict("spec_archived", format!("spec {} is archived", spec.id)));
    }
    if spec.status == SpecStatus::Executing {
        let detail = format!("spec {} is executing; wait until it waits, fails or is completed", spec.id);
        return Err(Error::conflict("spec_running", detail));
    }
    Ok(())
}
