//! Actions: what people do to work by authority. Each is written down with what was before and after, in the transaction
//! that does it, and taken back where that can be.

use omoi_protocol::{
    ActionId, ActionKind, MessageId, MessageType, Priority, ProjectId, SandboxId, TaskId,
    action::{Action, CancelTask, OverridePriority, PauseOrResume, Reallocate},
    message::NewMessage,
};
use serde_json::{Value as Json, json};

use super::{
    Ask, Error, Store, Tx, message, project, sandbox, task,
    transition::{Note, order},
    value::{Row, params},
};
use crate::domain::task::TaskEvent;

const COLUMNS: &str = "id, action_type, project_id, entity_type, entity_id, reason, actor, before_it, after_it, created_at, \
                       reverted_at, reverted_by";
const GO_ON: &str = "Go on with what you were doing.";

/// One action as it is written down.
struct Deed<'a> {
    kind: ActionKind,
    project_id: &'a ProjectId,
    entity: (&'static str, &'a str),
    reason: &'a str,
    before: Json,
    after: Json,
}

impl Store {
    pub async fn action_cancel(&self, actor: &str, new: CancelTask) -> Result<Action, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let old = task::get(tx, &new.task_id).await?;
            order(tx, &old.id, TaskEvent::Cancelled, Note::error(&new.reason)).await?;
            let deed = Deed {
                kind: ActionKind::CancelTask,
                project_id: &old.project_id,
                entity: ("task", old.id.as_str()),
                reason: &new.reason,
                before: json!({ "status": old.status }),
                after: json!({ "status": "cancelled" }),
            };
            write_down(tx, &actor, deed).await
        })
        .await
    }

    pub async fn action_prioritise(&self, actor: &str, new: OverridePriority) -> Result<Action, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let old = task::get(tx, &new.task_id).await?;
            set_priority(tx, &old.id, new.priority).await?;
            let deed = Deed {
                kind: ActionKind::OverridePriority,
                project_id: &old.project_id,
                entity: ("task", old.id.as_str()),
                reason: &new.reason,
                before: json!({ "priority": old.priority }),
                after: json!({ "priority": new.priority }),
            };
            write_down(tx, &actor, deed).await
        })
        .await
    }

    /// A project without a limit of its own has the server's; from then on it has one.
    pub async fn action_reallocate(&self, actor: &str, new: Reallocate) -> Result<Action, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            if new.from_project_id == new.to_project_id {
                return Err(Error::invalid("same_project", "places move from one project to another"));
            }
            let (giver, taker) =
                (project::get(tx, &new.from_project_id).await?, project::get(tx, &new.to_project_id).await?);
            let has = |limit: Option<i64>| limit.unwrap_or(tx.rules.max_concurrent_per_project);
            let (from, to) = (has(giver.max_concurrent), has(taker.max_concurrent));
            if from < new.capacity {
                let detail =
                    format!("project {} has {from} places, so it cannot give {}", giver.name, new.capacity);
                return Err(Error::conflict("capacity_missing", detail));
            }
            let (less, more) = (from - new.capacity, to + new.capacity);
            set_limit(tx, &giver.id, Some(less)).await?;
            set_limit(tx, &taker.id, Some(more)).await?;
            let limits = |from, to| {
                json!({ "from_project_id": giver.id, "to_project_id": taker.id,
                    "from_max_concurrent": from, "to_max_concurrent": to })
            };
            let deed = Deed {
                kind: ActionKind::ReallocateCapacity,
                project_id: &giver.id,
                entity: ("project", taker.id.as_str()),
                reason: &new.reason,
                before: limits(giver.max_concurrent, taker.max_concurrent),
                after: limits(Some(less), Some(more)),
            };
            write_down(tx, &actor, deed).await
        })
        .await
    }

    /// A project's tasks wait; a sandbox's agent halts until it is spoken to.
    pub async fn action_pause(&self, actor: &str, new: PauseOrResume) -> Result<Action, Error> {
        self.action_hold(actor, new, true).await
    }

    pub async fn action_resume(&self, actor: &str, new: PauseOrResume) -> Result<Action, Error> {
        self.action_hold(actor, new, false).await
    }

    async fn action_hold(&self, actor: &str, new: PauseOrResume, hold: bool) -> Result<Action, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| match (&new.project_id, &new.sandbox_id) {
            (Some(id), None) => hold_project(tx, &actor, id, &new.reason, hold).await,
            (None, Some(id)) => hold_sandbox(tx, &actor, id, &new.reason, hold).await,
            _ => Err(Error::invalid("one_target", "name either a project_id or a sandbox_id")),
        })
        .await
    }

    /// Newest first.
    pub async fn action_list(
        &self,
        project: Option<ProjectId>,
        before: Option<ActionId>,
        limit: usize,
    ) -> Result<Vec<Action>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM guardian_actions"));
            ask.and_some("project_id =", project.as_ref());
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn action_get(&self, id: &ActionId) -> Result<Action, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// Puts back what was before, unless somebody has changed it since.
    pub async fn action_revert(&self, actor: &str, id: &ActionId) -> Result<Action, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let action = get(tx, &id).await?;
            if action.reverted_at.is_some() {
                return Err(Error::conflict("already_reverted", format!("action {id} is taken back already")));
            }
            undo(tx, &action).await?;
            let sql = "UPDATE guardian_actions SET reverted_at = $2, reverted_by = $3 WHERE id = $1";
            tx.execute(sql, params![&id, tx.now, actor.as_str()]).await?;
            let told = json!({ "action_id": id, "action_type": action.action_type, "before": action.after, "after": action.before });
            let entity_type = entity(&action.entity_type)?;
            tx.tell("guardian.intervention.reverted", entity_type, &action.target_entity, &told);
            tx.record(&actor, "action.revert", &action.entity_type, &action.target_entity, told);
            get(tx, &id).await
        })
        .await
    }
}

async fn undo(tx: &mut Tx, action: &Action) -> Result<(), Error> {
    match action.action_type {
        ActionKind::CancelTask => {
            let id = id_of::<TaskId>(&action.target_entity)?;
            order(tx, &id, TaskEvent::Retried, Note::default()).await
        }
        ActionKind::OverridePriority => {
            let id = id_of::<TaskId>(&action.target_entity)?;
            unchanged(json!(task::get(tx, &id).await?.priority), &action.after["priority"], action)?;
            set_priority(tx, &id, word(&action.before["priority"])?).await
        }
        ActionKind::ReallocateCapacity => {
            for (project, limit) in
                [("from_project_id", "from_max_concurrent"), ("to_project_id", "to_max_concurrent")]
            {
                let id: ProjectId = word(&action.before[project])?;
                let now = project::get(tx, &id).await?.max_concurrent;
                unchanged(json!(now), &action.after[limit], action)?;
                set_limit(tx, &id, action.before[limit].as_i64()).await?;
            }
            Ok(())
        }
        ActionKind::Pause | ActionKind::Resume if action.entity_type == "project" => {
            let id = id_of::<ProjectId>(&action.target_entity)?;
            unchanged(json!(project::get(tx, &id).await?.paused), &action.after["paused"], action)?;
            set_paused(tx, &id, action.before["paused"] == true).await
        }
        ActionKind::Pause | ActionKind::Resume => {
            let detail = "what an agent has read cannot be taken back; pause or resume its sandbox instead";
            Err(Error::conflict("not_reversible", detail))
        }
    }
}

async fn hold_project(
    tx: &mut Tx,
    actor: &str,
    id: &ProjectId,
    reason: &str,
    hold: bool,
) -> Result<Action, Error> {
    let old = project::get(tx, id).await?;
    if old.paused == hold {
        let (code, is) =
            if hold { ("already_paused", "paused already") } else { ("not_paused", "not paused") };
        return Err(Error::conflict(code, format!("project {} is {is}", old.name)));
    }
    set_paused(tx, id, hold).await?;
    let deed = Deed {
        kind: if hold { ActionKind::Pause } else { ActionKind::Resume },
        project_id: id,
        entity: ("project", id.as_str()),
        reason,
        before: json!({ "paused": old.paused }),
        after: json!({ "paused": hold }),
    };
    write_down(tx, actor, deed).await
}

async fn hold_sandbox(
    tx: &mut Tx,
    actor: &str,
    id: &SandboxId,
    reason: &str,
    hold: bool,
) -> Result<Action, Error> {
    let held = sandbox::get(tx, id).await?;
    let Some(task_id) = held.task_id.filter(|_| held.status.is_live()) else {
        return Err(Error::conflict("sandbox_ended", format!("sandbox {id} has no task at work")));
    };
    let project_id = task::get(tx, &task_id).await?.project_id;
    let (kind, message_type, content) = if hold {
        (ActionKind::Pause, MessageType::Interrupt, reason.to_owned())
    } else {
        (ActionKind::Resume, MessageType::UserMessage, format!("{GO_ON} {reason}"))
    };
    let sent =
        message::queue(tx, MessageId::generate(), actor, id, &NewMessage { content, message_type }).await?;
    let deed = Deed {
        kind,
        project_id: &project_id,
        entity: ("sandbox", id.as_str()),
        reason,
        before: json!({}),
        after: json!({ "message_id": sent.id }),
    };
    write_down(tx, actor, deed).await
}

async fn set_priority(tx: &mut Tx, id: &TaskId, priority: Priority) -> Result<(), Error> {
    let sql = "UPDATE tasks SET priority = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, params![id, priority.as_str(), tx.now]).await?;
    task::rank(tx, std::slice::from_ref(id)).await?;
    tx.tell("TASK_UPDATED", "task", id.as_str(), &json!({ "priority": priority }));
    Ok(())
}

async fn set_limit(tx: &mut Tx, id: &ProjectId, limit: Option<i64>) -> Result<(), Error> {
    let sql = "UPDATE projects SET max_concurrent = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, params![id, limit, tx.now]).await?;
    tx.tell("PROJECT_UPDATED", "project", id.as_str(), &json!({ "max_concurrent": limit }));
    Ok(())
}

async fn set_paused(tx: &mut Tx, id: &ProjectId, paused: bool) -> Result<(), Error> {
    let sql = "UPDATE projects SET paused = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, params![id, paused, tx.now]).await?;
    tx.tell("PROJECT_UPDATED", "project", id.as_str(), &json!({ "paused": paused }));
    Ok(())
}

async fn write_down(tx: &mut Tx, actor: &str, deed: Deed<'_>) -> Result<Action, Error> {
    let id = ActionId::generate();
    let (entity_type, entity_id) = deed.entity;
    tx.execute(
        "INSERT INTO guardian_actions (id, action_type, project_id, entity_type, entity_id, reason, actor, before_it, \
         after_it, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        params![
            &id,
            deed.kind.as_str(),
            deed.project_id,
            entity_type,
            entity_id,
            deed.reason,
            actor,
            deed.before.to_string(),
            deed.after.to_string(),
            tx.now
        ],
    )
    .await?;
    let told = json!({
        "action_id": id, "action_type": deed.kind, "reason": deed.reason, "before": deed.before, "after": deed.after,
    });
    let name = match deed.kind {
        ActionKind::CancelTask => "guardian.intervention.started",
        ActionKind::ReallocateCapacity => "guardian.resource.reallocated",
        ActionKind::OverridePriority | ActionKind::Pause | ActionKind::Resume => {
            "guardian.intervention.completed"
        }
    };
    tx.tell(name, entity_type, entity_id, &told);
    tx.record(actor, &format!("action.{}", deed.kind), entity_type, entity_id, told);
    get(tx, &id).await
}

fn unchanged(now: Json, then: &Json, action: &Action) -> Result<(), Error> {
    if now == *then {
        return Ok(());
    }
    let detail = format!("{} is {now} by now, not {then}; change it directly", action.target_entity);
    Err(Error::conflict("changed_since", detail))
}

fn entity(name: &str) -> Result<&'static str, Error> {
    let known = ["task", "project", "sandbox"].into_iter().find(|known| *known == name);
    known.ok_or_else(|| Error::corrupt("entity_type", "no kind of entity"))
}

fn id_of<T: std::str::FromStr>(text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| Error::corrupt("entity_id", "not an id"))
}

fn word<T: serde::de::DeserializeOwned>(value: &Json) -> Result<T, Error> {
    serde_json::from_value(value.clone()).map_err(|_| Error::corrupt("before_it", "not what was written"))
}

async fn get(tx: &mut Tx, id: &ActionId) -> Result<Action, Error> {
    let row =
        tx.query_one(&format!("SELECT {COLUMNS} FROM guardian_actions WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("action", id))?)
}

fn read(row: &Row) -> Result<Action, Error> {
    Ok(Action {
        id: row.parse("id")?,
        action_type: row.parse("action_type")?,
        project_id: row.parse("project_id")?,
        entity_type: row.get("entity_type")?,
        target_entity: row.get("entity_id")?,
        reason: row.get("reason")?,
        initiated_by: row.get("actor")?,
        before: row.json("before_it")?,
        after: row.json("after_it")?,
        executed_at: row.get("created_at")?,
        reverted_at: row.get("reverted_at")?,
        reverted_by: row.get("reverted_by")?,
    })
}
