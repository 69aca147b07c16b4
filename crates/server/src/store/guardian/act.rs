//! An intervention is made: by a message, by a task that waits for a person, or by the end of the sandbox. All of it in the
//! transaction that stores it.

use omoi_protocol::{
    Intervention, InterventionId, InterventionState, MessageId, MessageType, SandboxId, TaskId,
    message::NewMessage,
};
use serde_json::json;

use super::{
    super::{Error, Tx, message, sandbox, value::params},
    ASKS, NAME, PAUSED, message_id,
};

#[derive(Debug, Clone)]
pub(super) struct Making {
    pub id: InterventionId,
    pub sandbox_id: SandboxId,
    pub task_id: Option<TaskId>,
    pub action: Intervention,
    pub text: String,
}

/// How far it has come at once.
struct Made {
    state: InterventionState,
    message_id: Option<MessageId>,
    error: Option<String>,
}

impl Made {
    fn done() -> Self {
        Self { state: InterventionState::Done, message_id: None, error: None }
    }
}

/// Makes one that is stored already. `actor` decided it, `sender` speaks.
pub(super) async fn make(tx: &mut Tx, actor: &str, sender: &str, making: &Making) -> Result<(), Error> {
    let made = perform(tx, sender, making).await?;
    let sql = "UPDATE interventions SET state = $2, message_id = $3, error = $4 WHERE id = $1";
    let values = params![&making.id, made.state.as_str(), made.message_id.as_ref(), made.error.as_deref()];
    tx.execute(sql, values).await?;
    let detail = json!({
        "intervention_id": making.id, "do": making.action, "state": made.state, "text": making.text,
        "message_id": made.message_id, "error": made.error,
    });
    let id = making.sandbox_id.as_str();
    tx.tell(&format!("guardian.intervention.{}", made.state), "sandbox", id, &detail);
    tx.record(actor, &format!("guardian.{}", making.action), "sandbox", id, detail);
    Ok(())
}

async fn perform(tx: &mut Tx, sender: &str, making: &Making) -> Result<Made, Error> {
    match making.action {
        Intervention::Note => Ok(Made { state: InterventionState::Recorded, ..Made::done() }),
        Intervention::Nudge => say(tx, sender, making, MessageType::GuardianNudge).await,
        Intervention::Interrupt => say(tx, sender, making, MessageType::Interrupt).await,
        Intervention::Ask => {
            wait(tx, making, ASKS).await?;
            Ok(Made::done())
        }
        Intervention::Pause => {
            let said = say(tx, sender, making, MessageType::Interrupt).await?;
            if said.error.is_none() {
                wait(tx, making, PAUSED).await?;
            }
            Ok(said)
        }
        Intervention::Terminate => {
            sandbox::terminate(tx, NAME, &making.sandbox_id, Some(&making.text)).await?;
            Ok(Made::done())
        }
    }
}

async fn say(tx: &mut Tx, sender: &str, making: &Making, message_type: MessageType) -> Result<Made, Error> {
    let id = message_id(&making.id).unwrap_or_else(MessageId::generate);
    let new = NewMessage { content: making.text.clone(), message_type };
    match message::queue(tx, id, sender, &making.sandbox_id, &new).await {
        Ok(message) => Ok(Made { state: InterventionState::Sent, message_id: Some(message.id), error: None }),
        Err(fault) if fault.is_fault() => Err(fault),
        Err(refusal) => {
            let error = Some(refusal.to_string());
            Ok(Made { state: InterventionState::Failed, message_id: None, error })
        }
    }
}

/// The task waits for a person; what it does meanwhile is its own.
async fn wait(tx: &mut Tx, making: &Making, how: &str) -> Result<(), Error> {
    let Some(task) = &making.task_id else { return Ok(()) };
    let reason = format!("{how}{}", making.text);
    let sql = "UPDATE tasks SET waiting_reason = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, params![task, reason.as_str(), tx.now()]).await?;
    let told = json!({
        "task_id": task, "sandbox_id": making.sandbox_id, "intervention_id": making.id, "waiting_reason": reason,
    });
    tx.tell("TASK_WAITING", "task", task.as_str(), &told);
    Ok(())
}
