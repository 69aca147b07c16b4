//! The Guardian's side of the store: how far it has looked, whom it watches, what it found and what was done about it.

mod act;
mod finding;
mod intervention;
mod judgement;
mod past;
mod policy;
mod status;
mod take;
mod watch;
mod whole;

use omoi_protocol::{InterventionId, MessageId, message::Message};
use serde_json::json;

use super::Tx;
pub use finding::FindingFilter;
pub use intervention::InterventionFilter;
pub(super) use judgement::JUDGED;
pub use judgement::{Ended as JudgementEnded, Question};
pub use policy::Stored as StoredPolicy;
pub use take::{Change, ELSEWHERE, Found, Taken};
pub use watch::{Hold, Known, Mark, Spoken, Subject};

/// Who speaks, in messages and in the audit trail.
pub(super) const NAME: &str = "guardian";
/// How a task says that it waits for a person on the Guardian's behalf.
const ASKS: &str = "guardian: ";
const PAUSED: &str = "paused by the guardian: ";

/// Whether a task waits because the Guardian asked.
pub(super) fn is_asking(waiting_reason: &str) -> bool {
    waiting_reason.starts_with(ASKS) || waiting_reason.starts_with(PAUSED)
}

/// The message of an intervention is named after it, so that one is never sent twice.
fn message_id(of: &InterventionId) -> Option<MessageId> {
    format!("msg-{of}").parse().ok()
}

/// An intervention follows its message.
pub(super) fn message_changed(tx: &mut Tx, message: &Message) {
    let named = message.id.as_str().strip_prefix("msg-").filter(|rest| rest.starts_with("int-"));
    let Some(id) = named.map(str::to_owned) else { return };
    let told = json!({ "intervention_id": id, "message_id": message.id, "state": message.state });
    tx.tell(
        &format!("guardian.intervention.{}", message.state),
        "sandbox",
        message.sandbox_id.as_str(),
        &told,
    );
}
