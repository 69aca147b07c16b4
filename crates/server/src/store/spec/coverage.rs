//! Coverage: requirement → task → commit → check, from what is stored of the tasks.

use std::collections::BTreeMap;

use omoi_protocol::{
    SpecId, TaskStatus,
    outcome::CheckResult,
    spec::{CoverageCheck, CoverageRow, CoverageTask, Spec, SpecCoverage},
    task::Task,
};
use serde_json::Value as Json;

use super::{get, phase, phases, sync};
use crate::{
    domain::spec::{Coverage, Proof, ProofCheck, coverage, proven_percent},
    store::{Error, Store, Tx, task},
};

impl Store {
    pub async fn spec_coverage(&self, id: &SpecId) -> Result<SpecCoverage, Error> {
        let id = id.clone();
        self.read(async move |tx| {
            let spec = get(tx, &id).await?;
            of(tx, &spec).await
        })
        .await
    }
}

pub(super) async fn of(tx: &mut Tx, spec: &Spec) -> Result<SpecCoverage, Error> {
    let outputs = phase::outputs(tx, &spec.id, phases(spec.flow)).await?;
    let mut tasks: BTreeMap<String, Task> = BTreeMap::new();
    for item in sync::items(tx, &spec.id).await? {
        if let Some(id) = &item.task_id {
            tasks.insert(item.symbol, task::get(tx, id).await?);
        }
    }
    let done = |key: &str| tasks.get(key).filter(|task| task.status == TaskStatus::Completed).map(proof);
    let rows = coverage(&outputs, &done);
    let shown = |key: &str| {
        let task = tasks.get(key);
        let proof = task.map(proof).unwrap_or(Proof { commit: None, checks: Vec::new() });
        CoverageTask {
            key: key.to_owned(),
            task_id: task.map(|task| task.id.clone()),
            status: task.map(|task| task.status),
            commit: proof.commit,
            checks: proof
                .checks
                .into_iter()
                .map(|ProofCheck { name, passed }| CoverageCheck { name, passed })
                .collect(),
        }
    };
    Ok(SpecCoverage {
        spec_id: spec.id.clone(),
        proven_percent: proven_percent(&rows),
        rows: rows
            .into_iter()
            .map(|row| CoverageRow {
                status: word(row.status).to_owned(),
                tasks: row.tasks.iter().map(|task| shown(&task.key)).collect(),
                requirement: row.requirement,
                title: row.title,
            })
            .collect(),
    })
}

/// What the server itself has found of a task; what its worker said is not in it.
fn proof(task: &Task) -> Proof {
    let known = |key| task.result.as_ref().and_then(|result| result.get(key)).cloned().unwrap_or(Json::Null);
    let checks: Vec<CheckResult> = serde_json::from_value(known("checks")).unwrap_or_default();
    Proof {
        commit: known("commit").as_str().map(str::to_owned),
        checks: checks
            .into_iter()
            .map(|check| ProofCheck { name: check.name, passed: check.passed })
            .collect(),
    }
}

fn word(coverage: Coverage) -> &'static str {
    match coverage {
        Coverage::Uncovered => "uncovered",
        Coverage::Planned => "planned",
        Coverage::Begun => "begun",
        Coverage::Done => "done",
        Coverage::Proven => "proven",
    }
}
