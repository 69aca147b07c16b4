//! Interventions, as people see them, decide about them, and make them themselves.

use omoi_protocol::{
    Intervention, InterventionId, InterventionMode, InterventionState, MessageState, ProjectId, SandboxId,
    TaskId, guardian::GuardianIntervention,
};
use serde_json::json;

use super::{
    super::{
        Ask, Error, Store, Tx, sandbox, system,
        value::{Row, params},
    },
    act::{self, Making},
    take,
};

const SELECT: &str = "SELECT i.id, i.finding_id, i.sandbox_id, i.task_id, i.project_id, i.kind, i.action, i.mode, i.text, \
     i.held, i.state, i.message_id, i.error, i.created_by, i.created_at, i.decided_by, i.decided_at, i.decided_because, \
     i.effect, i.effect_by, i.effect_at, i.alignment_before, i.alignment_after, f.text AS finding, \
     m.state AS message_state, m.delivered_at, m.injected_at, m.acknowledged_at FROM interventions i \
     LEFT JOIN findings f ON f.id = i.finding_id LEFT JOIN messages m ON m.id = i.message_id";

/// Which interventions are wanted; whatever is absent does not matter. Notes only by their mode.
#[derive(Debug, Clone, Default)]
pub struct InterventionFilter {
    pub project_id: Option<ProjectId>,
    pub sandbox_id: Option<SandboxId>,
    pub task_id: Option<TaskId>,
    pub mode: Option<InterventionMode>,
    /// Those that wait for a person.
    pub waiting: Option<bool>,
}

impl Store {
    /// Newest first.
    pub async fn intervention_list(
        &self,
        filter: InterventionFilter,
        before: Option<InterventionId>,
        limit: usize,
    ) -> Result<Vec<GuardianIntervention>, Error> {
        self.read(async move |tx| {
            let mut ask = Ask::new(SELECT);
            ask.and_some("i.sandbox_id =", filter.sandbox_id.as_ref());
            ask.and_some("i.task_id =", filter.task_id.as_ref());
            ask.and_some("i.project_id =", filter.project_id.as_ref());
            match filter.mode {
                Some(mode) => ask.and_some("i.mode =", Some(mode.as_str())),
                None => ask.raw("i.mode <> 'record'"),
            }
            match filter.waiting {
                Some(true) => ask.raw("i.state = 'suggested'"),
                Some(false) => ask.raw("i.state <> 'suggested'"),
                None => {}
            }
            ask.and_some("i.id <", before.as_ref());
            let (sql, values) = ask.order_limit("i.id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn intervention_get(&self, id: &InterventionId) -> Result<GuardianIntervention, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// Makes what was suggested, in the words of the suggestion or in others.
    pub async fn intervention_approve(
        &self,
        actor: &str,
        id: &InterventionId,
        text: Option<String>,
    ) -> Result<GuardianIntervention, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let old = suggested(tx, &id).await?;
            let text = text.clone().unwrap_or(old.text);
            decide(tx, &id, &actor, &text, None).await?;
            told(tx, &old.sandbox_id, "approved", &id, &actor, None).await?;
            let (sandbox_id, task_id, action) = (old.sandbox_id, old.task_id, old.action);
            let making = Making { id: id.clone(), sandbox_id, task_id, action, text };
            act::make(tx, &actor, super::NAME, &making).await?;
            get(tx, &id).await
        })
        .await
    }

    pub async fn intervention_dismiss(
        &self,
        actor: &str,
        id: &InterventionId,
        reason: Option<String>,
    ) -> Result<GuardianIntervention, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let old = suggested(tx, &id).await?;
            decide(tx, &id, &actor, &old.text, reason.as_deref()).await?;
            tx.execute("UPDATE interventions SET state = 'dismissed' WHERE id = $1", params![&id]).await?;
            told(tx, &old.sandbox_id, "dismissed", &id, &actor, reason.as_deref()).await?;
            let detail = json!({ "intervention_id": id, "reason": reason });
            tx.record(&actor, "guardian.dismiss", "sandbox", old.sandbox_id.as_str(), detail);
            get(tx, &id).await
        })
        .await
    }

    /// A person says something to the agent in the Guardian's place.
    pub async fn intervention_nudge(
        &self,
        actor: &str,
        to: &SandboxId,
        text: String,
    ) -> Result<GuardianIntervention, Error> {
        let (actor, to, id) = (actor.to_owned(), to.clone(), InterventionId::generate());
        self.write(async move |tx| {
            let sandbox = sandbox::get(tx, &to).await?;
            if !sandbox.status.is_live() {
                let detail = format!("sandbox {to} has ended, so nobody would hear the nudge");
                return Err(Error::conflict("sandbox_ended", detail));
            }
            let before = take::alignment(tx, &to).await?;
            let sql = "INSERT INTO interventions (id, sandbox_id, task_id, project_id, action, mode, text, state, created_by, \
                       created_at, alignment_before) VALUES ($1, $2, $3, $4, $5, $6, $7, 'suggested', $8, $9, $10)";
            let values = params![
                &id,
                &to,
                sandbox.task_id.as_ref(),
                sandbox.project_id.as_ref(),
                Intervention::Nudge.as_str(),
                InterventionMode::Act.as_str(),
                text.as_str(),
                actor.as_str(),
                tx.now(),
                before
            ];
            tx.execute(sql, values).await?;
            let told = json!({
                "intervention_id": id, "do": Intervention::Nudge, "mode": InterventionMode::Act, "text": text,
                "by": actor, "alignment": before,
            });
            system::append(tx, &to, "guardian.steering.intervention", &told).await?;
            let (action, task_id) = (Intervention::Nudge, sandbox.task_id);
            let making = Making { id: id.clone(), sandbox_id: to.clone(), task_id, action, text: text.clone() };
            act::make(tx, &actor, &actor, &making).await?;
            get(tx, &id).await
        })
        .await
    }
}

async fn suggested(tx: &mut Tx, id: &InterventionId) -> Result<GuardianIntervention, Error> {
    let old = get(tx, id).await?;
    if old.state != InterventionState::Suggested {
        let detail = format!("intervention {id} waits for nobody: it is {}", old.state);
        return Err(Error::conflict("intervention_decided", detail));
    }
    Ok(old)
}

async fn decide(
    tx: &mut Tx,
    id: &InterventionId,
    actor: &str,
    text: &str,
    because: Option<&str>,
) -> Result<(), Error> {
    let sql = "UPDATE interventions SET decided_by = $2, decided_at = $3, decided_because = $4, text = $5 WHERE id = $1";
    tx.execute(sql, params![id, actor, tx.now(), because, text]).await
}

async fn told(
    tx: &mut Tx,
    sandbox_id: &SandboxId,
    what: &str,
    id: &InterventionId,
    actor: &str,
    reason: Option<&str>,
) -> Result<(), Error> {
    let data = json!({ "intervention_id": id, "by": actor, "reason": reason });
    let event_type = format!("guardian.intervention.{what}");
    system::append(tx, sandbox_id, &event_type, &data).await?;
    tx.tell(&event_type, "sandbox", sandbox_id.as_str(), &data);
    Ok(())
}

async fn get(tx: &mut Tx, id: &InterventionId) -> Result<GuardianIntervention, Error> {
    let row = tx.query_one(&format!("{SELECT} WHERE i.id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("intervention", id))?)
}

fn read(row: &Row) -> Result<GuardianIntervention, Error> {
    let own: InterventionState = row.parse("state")?;
    let state = match (own, row.parse_opt("message_state")?) {
        (InterventionState::Sent, Some(MessageState::Delivered)) => InterventionState::Delivered,
        (InterventionState::Sent, Some(MessageState::Injected)) => InterventionState::Injected,
        (InterventionState::Sent, Some(MessageState::Acknowledged)) => InterventionState::Acknowledged,
        (InterventionState::Sent, Some(MessageState::Expired)) => InterventionState::Expired,
        (own, _) => own,
    };
    Ok(GuardianIntervention {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        task_id: row.parse_opt("task_id")?,
        project_id: row.parse_opt("project_id")?,
        finding_id: row.parse_opt("finding_id")?,
        kind: row.parse_opt("kind")?,
        finding: row.get("finding")?,
        action: row.parse("action")?,
        mode: row.parse("mode")?,
        text: row.get("text")?,
        held: row.parse_opt("held")?,
        state,
        message_id: row.parse_opt("message_id")?,
        error: row.get("error")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        decided_by: row.get("decided_by")?,
        decided_at: row.get("decided_at")?,
        decided_because: row.get("decided_because")?,
        delivered_at: row.get("delivered_at")?,
        injected_at: row.get("injected_at")?,
        acknowledged_at: row.get("acknowledged_at")?,
        effect: row.parse_opt("effect")?,
        effect_by: row.get("effect_by")?,
        effect_at: row.get("effect_at")?,
        alignment_before: row.get("alignment_before")?,
        alignment_after: row.get("alignment_after")?,
    })
}
