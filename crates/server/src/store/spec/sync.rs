//! What a spec has become: its tickets and tasks, by the symbolic ids of its tasks phase, and how they go.

use std::collections::BTreeMap;

use omoi_protocol::{
    ProjectId, SpecId, SpecStatus, TaskId, TaskStatus, TicketId,
    batch::BatchTask,
    spec::{Spec, SpecItem},
    ticket::NewTicket,
};
use serde_json::{Value as Json, json};

use super::{ACTOR, branch, coverage, duplicate, get, history, phase, phases, set_status};
use crate::{
    domain::{
        self,
        spec::{Plan, PlannedTask, plan},
    },
    store::{
        Error, Store, Tx, batch, ticket,
        value::{Row, params},
    },
};

impl Store {
    /// Ends specs whose tasks have all ended; says how many.
    pub async fn spec_settle(&self, limit: usize) -> Result<usize, Error> {
        let over = self.read(async move |tx| settled(tx, limit).await).await?;
        if over.is_empty() {
            return Ok(0);
        }
        self.write(async move |tx| {
            let over = settled(tx, limit).await?;
            for id in &over {
                settle(tx, id).await?;
            }
            Ok(over.len())
        })
        .await
    }
}

/// Specs at work of which nothing is under way any more.
async fn settled(tx: &mut Tx, limit: usize) -> Result<Vec<SpecId>, Error> {
    let sql = "SELECT s.id FROM specs s WHERE s.status = 'executing' \
               AND NOT EXISTS (SELECT 1 FROM spec_phases p WHERE p.spec_id = s.id AND p.state = 'running') \
               AND NOT EXISTS (SELECT 1 FROM spec_branches b WHERE b.spec_id = s.id AND b.state = 'wanted') \
               AND NOT EXISTS (SELECT 1 FROM spec_items i JOIN tasks t ON t.id = i.task_id WHERE i.spec_id = s.id \
               AND t.status IN ('pending', 'assigned', 'running')) ORDER BY s.id LIMIT $1";
    tx.query(sql, params![limit]).await?.iter().map(|row| row.parse("id")).collect()
}

async fn settle(tx: &mut Tx, id: &SpecId) -> Result<(), Error> {
    let (spec, items) = (get(tx, id).await?, items(tx, id).await?);
    let undone: Vec<String> = items
        .iter()
        .filter_map(|item| match item.status {
            Some(TaskStatus::Completed) | None => None,
            Some(status) => Some(format!("{} ({status})", item.symbol)),
        })
        .collect();
    let phase = spec.current_phase;
    if undone.is_empty() {
        if items.iter().any(|item| item.status.is_some()) && branch::want_whole(tx, &spec).await? {
            return Ok(());
        }
        set_status(tx, id, SpecStatus::Completed, phase, None).await?;
        for met in coverage::of(tx, &spec).await?.rows.iter().filter(|row| row.status == "proven") {
            let told = json!({ "requirement_id": met.requirement, "evidence": met.tasks });
            tx.tell("SPEC_CRITERION_MET", "spec", id.as_str(), &told);
        }
        tx.tell("SPEC_COMPLETED", "spec", id.as_str(), &json!({ "tasks": items.len() }));
        return history::version(tx, id, "completed", ACTOR).await;
    }
    let why = format!("not all of its tasks are completed: {}", undone.join(", "));
    set_status(tx, id, SpecStatus::Failed, phase, Some(&why)).await?;
    tx.tell("SPEC_FAILED", "spec", id.as_str(), &json!({ "phase": phase, "error": why }));
    history::version(tx, id, "failed", ACTOR).await
}

/// Makes the tickets and tasks that are not there yet, by their symbolic ids, in the caller's transaction. What cannot be
/// planned fails the spec.
pub(super) async fn sync(tx: &mut Tx, spec: &Spec) -> Result<(), Error> {
    let Some(project_id) = &spec.project_id else { return Ok(()) };
    let outputs = phase::outputs(tx, &spec.id, phases(spec.flow)).await?;
    let plan = match plan(&outputs) {
        Ok(plan) => plan,
        Err(error) => {
            let why = format!("its tasks cannot be made: {error}");
            return set_status(tx, &spec.id, SpecStatus::Failed, spec.current_phase, Some(&why)).await;
        }
    };
    let mut known = Known::load(tx, &spec.id).await?;
    let tickets = known.make_tickets(tx, spec, project_id, &plan).await?;
    let (tasks, duplicates) = known.make_tasks(tx, spec, project_id, &plan).await?;
    if tasks > 0 {
        branch::outgrown(tx, &spec.id).await?;
    }
    let told = json!({
        "tickets_created": tickets, "tasks_created": tasks, "duplicates": duplicates,
        "skipped": plan.tickets.len() + plan.tasks.len() - tickets - tasks,
    });
    tx.tell("SPEC_SYNCED", "spec", spec.id.as_str(), &told);
    Ok(())
}

/// What the symbolic ids have become so far.
struct Known {
    tickets: BTreeMap<String, TicketId>,
    tasks: BTreeMap<String, TaskId>,
}

impl Known {
    async fn load(tx: &mut Tx, id: &SpecId) -> Result<Self, Error> {
        let (mut tickets, mut tasks) = (BTreeMap::new(), BTreeMap::new());
        for item in items(tx, id).await? {
            if let Some(task_id) = item.task_id {
                tasks.insert(item.symbol, task_id);
            } else if let Some(ticket_id) = item.ticket_id {
                tickets.insert(item.symbol, ticket_id);
            }
        }
        Ok(Self { tickets, tasks })
    }

    async fn make_tickets(
        &mut self,
        tx: &mut Tx,
        spec: &Spec,
        project_id: &ProjectId,
        plan: &Plan,
    ) -> Result<usize, Error> {
        let mut made = 0;
        for planned in &plan.tickets {
            if self.tickets.contains_key(&planned.key) {
                continue;
            }
            let new = NewTicket {
                project_id: project_id.clone(),
                title: planned.title.clone(),
                description: planned.description.clone(),
                ticket_type: planned.ticket_type,
                priority: planned.priority,
                create_task: false,
                checks: None,
            };
            let id = ticket::insert(tx, ACTOR, &new).await?;
            let sql = "INSERT INTO spec_items (spec_id, symbol, ticket_id) VALUES ($1, $2, $3)";
            tx.execute(sql, params![&spec.id, planned.key.as_str(), &id]).await?;
            self.tickets.insert(planned.key.clone(), id);
            made += 1;
        }
        Ok(made)
    }

    /// By the path that batches take. Who asked for the spec has asked for its tasks: nobody has to start them, but those
    /// that may exist already. Says how many were made, and what is offered for them.
    async fn make_tasks(
        &mut self,
        tx: &mut Tx,
        spec: &Spec,
        project_id: &ProjectId,
        plan: &Plan,
    ) -> Result<(usize, Vec<Json>), Error> {
        let fresh: Vec<&PlannedTask> =
            plan.tasks.iter().filter(|planned| !self.tasks.contains_key(&planned.key)).collect();
        let found = duplicate::find(tx, &spec.id, project_id, &fresh).await?;
        let asks = !spec.gates.is_empty();
        let tasks: Vec<BatchTask> = fresh
            .iter()
            .map(|planned| {
                let mut task = planned.to_batch();
                for on in &mut task.depends_on {
                    if let Some(there) = self.tasks.get(on) {
                        *on = there.to_string();
                    }
                }
                let waits = asks && found.contains_key(&planned.key);
                task.execution_config.insert("autonomous".to_owned(), json!(!waits));
                task
            })
            .collect();
        let keys: Vec<_> = tasks.iter().map(|task| (task.key.as_str(), task.depends_on.as_slice())).collect();
        let names = domain::batch::resolve(&keys).map_err(batch::refuse)?;
        let of: BTreeMap<&str, &TicketId> = plan
            .tasks
            .iter()
            .filter_map(|planned| Some((planned.key.as_str(), self.tickets.get(&planned.ticket)?)))
            .collect();
        let ids =
            batch::insert(tx, project_id, &tasks, &|key| of.get(key).map(|id| (*id).clone()), &names).await?;
        for (key, id) in &ids {
            let sql = "INSERT INTO spec_items (spec_id, symbol, ticket_id, task_id) VALUES ($1, $2, $3, $4)";
            tx.execute(sql, params![&spec.id, key.as_str(), of.get(key.as_str()).copied(), id]).await?;
            if let Some(found) = found.get(key) {
                duplicate::offer(tx, &spec.id, (key, id), found).await?;
            }
        }
        let offered = found.iter().flat_map(|(key, found)| {
            found
                .iter()
                .map(move |(existing, how)| json!({ "task": key, "existing": existing, "similarity": how }))
        });
        Ok((ids.len(), offered.collect()))
    }
}

pub(super) async fn items(tx: &mut Tx, id: &SpecId) -> Result<Vec<SpecItem>, Error> {
    let sql = "SELECT i.symbol, i.ticket_id, i.task_id, t.status, COALESCE(t.title, k.title) AS title FROM spec_items i \
               LEFT JOIN tasks t ON t.id = i.task_id LEFT JOIN tickets k ON k.id = i.ticket_id \
               WHERE i.spec_id = $1 ORDER BY i.symbol";
    tx.query(sql, params![id]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<SpecItem, Error> {
    Ok(SpecItem {
        symbol: row.get("symbol")?,
        ticket_id: row.parse_opt("ticket_id")?,
        task_id: row.parse_opt("task_id")?,
        title: row.get::<Option<String>>("title")?.unwrap_or_default(),
        status: row.parse_opt("status")?,
    })
}
