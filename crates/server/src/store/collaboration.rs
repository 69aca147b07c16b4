//! What agents of one project say to each other: through the queue that people's messages take, to exactly one, if the
//! project's rule allows it.

use omoi_protocol::{
    Collaboration, MessageId, MessageType, ProjectId, SandboxId, TaskId,
    collaboration::{NewTelling, Peer},
    message::{Message, NewMessage},
};
use serde_json::json;

use super::{
    Error, Store, Tx, message,
    sandbox::Reporter,
    value::{Row, params},
};
use crate::domain::collaboration;

const PEERS_MAX: usize = 100;
/// What one agent may have said to another that was not heard yet.
const UNHEARD_MAX: i64 = 10;

/// One who speaks or is spoken to.
struct Party {
    id: SandboxId,
    task_id: TaskId,
    project_id: ProjectId,
    ticket_id: Option<String>,
    rule: Collaboration,
}

impl Store {
    pub async fn collaboration_tell(&self, from: &SandboxId, new: NewTelling) -> Result<Message, Error> {
        let from = from.clone();
        self.write(async move |tx| {
            Reporter::load(tx, &from).await?;
            let speaker = party(tx, &from).await?;
            let listener = party(tx, &new.to_sandbox_id).await?;
            permit(tx, &speaker, &listener).await?;
            heeds(tx, &speaker, &listener).await?;
            let content = format!(
                "[AGENT {} TO AGENT {}]: ({}) {}",
                short(&speaker.id),
                short(&listener.id),
                new.kind,
                new.content
            );
            let new_message = NewMessage { content, message_type: MessageType::AgentMessage };
            let sent = message::queue(tx, MessageId::generate(), speaker.id.as_str(), &listener.id, &new_message).await?;
            let told = json!({
                "message_id": sent.id, "kind": new.kind, "from_sandbox_id": speaker.id, "to_sandbox_id": listener.id,
                "from_task_id": speaker.task_id, "to_task_id": listener.task_id,
            });
            tx.tell("agent.message.sent", "sandbox", speaker.id.as_str(), &told);
            Ok(sent)
        })
        .await
    }

    /// Whom a sandbox may speak to.
    pub async fn collaboration_peers(&self, of: &SandboxId) -> Result<Vec<Peer>, Error> {
        let of = of.clone();
        self.read(async move |tx| {
            // Without a task at work there is nobody to speak to.
            let speaker = match party(tx, &of).await {
                Err(Error::Conflict { .. }) => return Ok(Vec::new()),
                party => party?,
            };
            let sql = "SELECT s.id, t.id AS task_id, t.title, t.branch_name FROM sandboxes s JOIN tasks t ON t.id = s.task_id \
                       WHERE s.live = 1 AND t.project_id = $1 AND s.id <> $2 ORDER BY s.id LIMIT $3";
            let rows = tx.query(sql, params![&speaker.project_id, &of, PEERS_MAX]).await?;
            let mut peers = Vec::new();
            for row in &rows {
                let listener = party(tx, &row.parse("id")?).await?;
                match permit(tx, &speaker, &listener).await {
                    Ok(()) => peers.push(peer(row)?),
                    Err(fault) if fault.is_fault() => return Err(fault),
                    Err(_) => {}
                }
            }
            Ok(peers)
        })
        .await
    }
}

async fn permit(tx: &mut Tx, speaker: &Party, listener: &Party) -> Result<(), Error> {
    let refuse = |detail: String| Err(Error::conflict("not_to_be_told", detail));
    if speaker.id == listener.id {
        return refuse("an agent does not speak to itself".to_owned());
    }
    if speaker.project_id != listener.project_id {
        return refuse(format!("sandbox {} is of another project", listener.id));
    }
    match speaker.rule {
        Collaboration::Project => Ok(()),
        Collaboration::Off => refuse("the project's setting `collaboration` is off".to_owned()),
        Collaboration::Related if speaker.ticket_id.is_some() && speaker.ticket_id == listener.ticket_id => {
            Ok(())
        }
        Collaboration::Related => {
            let sql = "SELECT 1 AS found FROM dependencies WHERE (task_id = $1 AND depends_on = $2) \
                       OR (task_id = $2 AND depends_on = $1) LIMIT 1";
            match tx.query_one(sql, params![&speaker.task_id, &listener.task_id]).await? {
                Some(_) => Ok(()),
                None => refuse(format!("the tasks of {} and {} are not related", speaker.id, listener.id)),
            }
        }
    }
}

/// Whether the listener has heard most of what this one has said so far: who speaks on and on fills nobody's conversation.
async fn heeds(tx: &mut Tx, speaker: &Party, listener: &Party) -> Result<(), Error> {
    let sql = "SELECT count(*) AS waiting FROM messages WHERE sandbox_id = $1 AND sender = $2 \
               AND state IN ('queued', 'delivered')";
    let row = tx.query_one(sql, params![&listener.id, &speaker.id]).await?;
    match row.map_or(Ok(0), |row| row.get::<i64>("waiting"))? < UNHEARD_MAX {
        true => Ok(()),
        false => Err(Error::Busy),
    }
}

/// One with a task at work; a sandbox of nobody's project has nobody to speak to.
async fn party(tx: &mut Tx, id: &SandboxId) -> Result<Party, Error> {
    let sql = "SELECT s.live, t.id AS task_id, t.project_id, t.ticket_id, p.settings FROM sandboxes s \
               LEFT JOIN tasks t ON t.id = s.task_id LEFT JOIN projects p ON p.id = t.project_id WHERE s.id = $1";
    let row = tx.query_one(sql, params![id]).await?.ok_or_else(|| Error::not_found("sandbox", id))?;
    let (Some(task_id), 1) = (row.parse_opt("task_id")?, row.get::<i64>("live")?) else {
        return Err(Error::conflict("sandbox_ended", format!("sandbox {id} has no task at work")));
    };
    Ok(Party {
        id: id.clone(),
        task_id,
        project_id: row.parse("project_id")?,
        ticket_id: row.get("ticket_id")?,
        rule: collaboration::rule(&row.json("settings")?),
    })
}

fn peer(row: &Row) -> Result<Peer, Error> {
    Ok(Peer {
        sandbox_id: row.parse("id")?,
        task_id: row.parse_opt("task_id")?,
        title: row.get("title")?,
        branch_name: row.get("branch_name")?,
    })
}

/// The end of an id differs between those made in one moment.
fn short(id: &SandboxId) -> &str {
    let text = id.as_str();
    &text[text.len().saturating_sub(8)..]
}
