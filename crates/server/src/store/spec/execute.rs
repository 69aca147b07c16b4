//! Execution: a request says that a spec goes on, and from where. What that means is written down, and done elsewhere.

use omoi_protocol::{
    PhaseState, SandboxId, SpecId, SpecPhase, SpecStatus,
    sandbox::NewSandbox as Wish,
    spec::{ExecuteSpec, ExecutionStatus, Spec, SpecExecution},
};
use serde_json::json;

use super::{get, history, phase, phases, set_status};
use crate::store::{Error, Store, Tx, place, value::params};

impl Store {
    /// Orders the sandbox of the phase that is next; row, task and order in one transaction.
    pub async fn spec_execute(
        &self,
        actor: &str,
        id: &SpecId,
        asked: ExecuteSpec,
    ) -> Result<SpecExecution, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let spec = get(tx, &id).await?;
            let Some(project_id) = spec.project_id.clone() else {
                let detail = format!("spec {id} has no project; set its project_id first");
                return Err(Error::invalid("spec_without_project", detail));
            };
            if spec.archived {
                return Err(Error::conflict("spec_archived", format!("spec {id} is archived")));
            }
            let sql = "UPDATE specs SET find_duplicates = $2 WHERE id = $1";
            tx.execute(sql, params![&id, i64::from(asked.enable_embeddings)]).await?;
            if spec.status == SpecStatus::Executing {
                let sandbox_id = sandbox_of(tx, &spec).await?;
                return Ok(answer(&spec, spec.current_phase, ExecutionStatus::AlreadyRunning, sandbox_id));
            }
            let Some(from) = start(tx, &spec, asked.resume_from_phase).await? else {
                // All phases stand: its tasks are looked at again.
                set_status(tx, &id, SpecStatus::Executing, SpecPhase::Sync, None).await?;
                told(tx, &actor, &spec, SpecPhase::Sync).await?;
                return Ok(answer(&spec, SpecPhase::Sync, ExecutionStatus::Started, None));
            };
            let later = phases(spec.flow).iter().skip_while(|one| **one != from).copied().collect::<Vec<_>>();
            phase::make_stale(tx, &id, &later).await?;
            let task_id = phase::begin(tx, &spec, from, 1, None).await?;
            let wish = Wish { task_id: Some(task_id), ..Wish::default() };
            let sandbox = place::order(tx, &actor, &project_id, wish).await?;
            told(tx, &actor, &spec, from).await?;
            Ok(answer(&spec, from, ExecutionStatus::Started, Some(sandbox.id)))
        })
        .await
    }
}

async fn told(tx: &mut Tx, actor: &str, spec: &Spec, from: SpecPhase) -> Result<(), Error> {
    let told = json!({ "title": spec.title, "from_phase": from, "phases": phases(spec.flow) });
    tx.tell("SPEC_EXECUTION_STARTED", "spec", spec.id.as_str(), &told);
    tx.record(actor, "spec.execute", "spec", spec.id.as_str(), told);
    history::version(tx, &spec.id, "executed", actor).await
}

/// The phase to begin with; none when all of them stand.
async fn start(tx: &mut Tx, spec: &Spec, asked: Option<SpecPhase>) -> Result<Option<SpecPhase>, Error> {
    let (flow, last) = (phases(spec.flow), phase::last_of_each(tx, &spec.id).await?);
    let stands = |wanted: &SpecPhase| last.iter().any(|one| one.phase == *wanted && phase::stands(one.state));
    let first_open = flow.iter().find(|one| !stands(one)).copied();
    let Some(asked) = asked else {
        if spec.status == SpecStatus::Waiting {
            let detail = format!(
                "the phase {} of spec {} waits for a person; approve it, or request changes",
                spec.current_phase, spec.id
            );
            return Err(Error::conflict("approval_needed", detail));
        }
        return Ok(first_open);
    };
    if !flow.contains(&asked) {
        let detail = format!("the flow {} has no phase {asked}", spec.flow);
        return Err(Error::invalid("phase_not_in_flow", detail));
    }
    match phase::before(spec.flow, asked).iter().find(|one| !stands(one)) {
        Some(missing) => {
            let detail = format!("{asked} builds on {missing}, which has no output that stands; begin there");
            Err(Error::conflict("phase_missing", detail))
        }
        None => Ok(Some(asked)),
    }
}

async fn sandbox_of(tx: &mut Tx, spec: &Spec) -> Result<Option<SandboxId>, Error> {
    let last = phase::last(tx, &spec.id, spec.current_phase).await?;
    let running = last.filter(|last| last.shown.state == PhaseState::Running);
    Ok(running.and_then(|last| last.shown.sandbox_id))
}

fn answer(
    spec: &Spec,
    phase: SpecPhase,
    status: ExecutionStatus,
    sandbox_id: Option<SandboxId>,
) -> SpecExecution {
    let message = match (status, &sandbox_id) {
        (ExecutionStatus::AlreadyRunning, _) => format!("spec {} is at its phase {phase} already", spec.id),
        (ExecutionStatus::Started, Some(id)) => format!("the phase {phase} is worked on in sandbox {id}"),
        (ExecutionStatus::Started, None) => "all phases stand; its tasks are looked after".to_owned(),
    };
    SpecExecution { spec_id: spec.id.clone(), status, sandbox_id, current_phase: phase, message }
}
