//! Messages: something said to a running worker. `queued → delivered → injected → acknowledged`, or `expired`.
//! Handing out marks a message delivered; until the worker says that the agent has it, it is offered again.

use jiff::Timestamp;
use omoi_protocol::{
    MessageId, MessageState, MessageType, SandboxId,
    message::{Message, NewMessage},
};
use serde_json::json;

use super::{
    Error, Store, Tx, account, event, guardian,
    sandbox::{self, Reporter},
    value::{Row, params},
};
use crate::domain::report::Mention;

const COLUMNS: &str = "id, sandbox_id, seq, message_type, content, sender, state, created_at, delivered_at, \
                       injected_at, acknowledged_at, expired_at, deliveries";
/// How much of a message live viewers are told.
const PREVIEW_CHARS: usize = 100;
pub const QUEUED: &str = "SANDBOX_MESSAGE_QUEUED";

impl Store {
    pub async fn message_queue(
        &self,
        sender: &str,
        to: &SandboxId,
        new: NewMessage,
    ) -> Result<Message, Error> {
        let (sender, to) = (sender.to_owned(), to.clone());
        self.write_large(new.content.len(), async move |tx| {
            queue(tx, MessageId::generate(), &sender, &to, &new).await
        })
        .await
    }

    /// Hands out what waits, oldest first, and marks it delivered.
    pub async fn message_deliver(&self, to: &SandboxId, limit: usize) -> Result<Vec<Message>, Error> {
        let to = to.clone();
        self.write(async move |tx| {
            let sql = format!(
                "SELECT {COLUMNS} FROM messages WHERE sandbox_id = $1 AND state IN ('queued', 'delivered') \
                 AND offer_at <= $2 AND deliveries < $3 ORDER BY seq LIMIT $4"
            );
            let values = params![&to, tx.now, tx.rules.message_deliveries_max, limit];
            let rows = tx.query(&sql, values).await?;
            let mut messages = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            let offer_at = tx.now + tx.rules.message_offer_again_after;
            for message in &mut messages {
                message.state = MessageState::Delivered;
                message.delivered_at.get_or_insert(tx.now);
                message.deliveries += 1;
                let sql = "UPDATE messages SET state = 'delivered', delivered_at = $2, deliveries = $3, offer_at = $4 \
                           WHERE id = $1";
                tx.execute(sql, params![&message.id, message.delivered_at, message.deliveries, offer_at]).await?;
                changed(tx, message);
            }
            Ok(messages)
        })
        .await
    }

    /// Most polls find nothing: they are answered by a reader and cost no transaction.
    pub async fn message_waiting(&self, to: &SandboxId) -> Result<bool, Error> {
        let to = to.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &to).await?;
            let sql = "SELECT 1 AS found FROM messages WHERE sandbox_id = $1 AND state IN ('queued', 'delivered') \
                       AND offer_at <= $2 AND deliveries < $3 LIMIT 1";
            let values = params![&to, tx.now, tx.rules.message_deliveries_max];
            Ok(tx.query_one(sql, values).await?.is_some())
        })
        .await
    }

    /// What the worker tells of a message: it still has it, the agent has it, or has dealt with it. Repeats are harmless.
    pub async fn message_report(
        &self,
        from: &SandboxId,
        id: &MessageId,
        state: MessageState,
    ) -> Result<Message, Error> {
        let (from, id) = (from.clone(), id.clone());
        self.write(async move |tx| {
            Reporter::load(tx, &from).await?;
            advance(tx, &from, &id, state).await
        })
        .await
    }

    /// All messages of a sandbox with their states, newest first. Hands nothing out.
    pub async fn message_list(
        &self,
        of: &SandboxId,
        before: Option<MessageId>,
        limit: usize,
    ) -> Result<Vec<Message>, Error> {
        let of = of.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &of).await?;
            let bound = match &before {
                Some(id) => {
                    let sql = "SELECT seq FROM messages WHERE id = $1 AND sandbox_id = $2";
                    let row = tx.query_one(sql, params![id, &of]).await?;
                    row.ok_or_else(|| Error::not_found("message", id))?.get("seq")?
                }
                None => i64::MAX,
            };
            let sql = format!(
                "SELECT {COLUMNS} FROM messages WHERE sandbox_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"
            );
            tx.query(&sql, params![&of, bound, limit]).await?.iter().map(read).collect()
        })
        .await
    }

    /// Gives up on messages that nobody took, or that were handed out too often. Says how many.
    pub async fn message_expire(&self, limit: usize) -> Result<usize, Error> {
        self.write(async move |tx| {
            let old = tx.now - tx.rules.message_expire_after;
            let aged = format!(
                "SELECT {COLUMNS} FROM messages WHERE state IN ('queued', 'delivered') AND created_at <= $1 \
                 ORDER BY created_at LIMIT $2"
            );
            let mut rows = tx.query(&aged, params![old, limit]).await?;
            let tried = format!(
                "SELECT {COLUMNS} FROM messages WHERE state = 'delivered' AND offer_at <= $1 AND deliveries >= $2 \
                 AND created_at > $3 ORDER BY offer_at LIMIT $4"
            );
            rows.extend(tx.query(&tried, params![tx.now, tx.rules.message_deliveries_max, old, limit]).await?);
            for row in &rows {
                let mut message = read(row)?;
                message.state = MessageState::Expired;
                let sql = "UPDATE messages SET state = 'expired', expired_at = $2 WHERE id = $1";
                tx.execute(sql, params![&message.id, tx.now]).await?;
                changed(tx, &message);
            }
            Ok(rows.len())
        })
        .await
    }
}

pub(super) async fn queue(
    tx: &mut Tx,
    id: MessageId,
    sender: &str,
    to: &SandboxId,
    new: &NewMessage,
) -> Result<Message, Error> {
    // What other agents say never takes the place of what people and the Guardian have to say.
    let alike = if new.message_type == MessageType::AgentMessage { "=" } else { "<>" };
    let sql = format!(
        "SELECT s.status, s.reports_until, s.task_id, (SELECT count(*) FROM messages m WHERE m.sandbox_id = s.id \
               AND m.state IN ('queued', 'delivered') AND m.message_type {alike} 'agent_message') AS waiting, \
               (SELECT max(m.seq) FROM messages m WHERE m.sandbox_id = s.id) AS last, \
               (SELECT t.waiting_reason FROM tasks t WHERE t.id = s.task_id) AS waiting_reason \
               FROM sandboxes s WHERE s.id = $1"
    );
    let row = tx.query_one(&sql, params![to]).await?.ok_or_else(|| Error::not_found("sandbox", to))?;
    let reports_until: Option<Timestamp> = row.get("reports_until")?;
    if row.get::<String>("status")? == "terminated" || reports_until.is_some_and(|until| until <= tx.now) {
        let detail = format!("sandbox {to} has ended, so nobody would hear the message");
        return Err(Error::conflict("sandbox_ended", detail));
    }
    if row.get::<i64>("waiting")? >= tx.rules.message_queue_max {
        return Err(Error::Busy);
    }
    let seq = row.get::<Option<i64>>("last")?.unwrap_or(0) + 1;
    tx.execute(
        "INSERT INTO messages (id, sandbox_id, seq, message_type, content, sender, state, created_at, \
         deliveries, offer_at) VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, 0, $7)",
        params![&id, to, seq, new.message_type.as_str(), new.content.as_str(), sender, tx.now],
    )
    .await?;
    let preview: String = new.content.chars().take(PREVIEW_CHARS).collect();
    let priority = if new.message_type == MessageType::Interrupt { "high" } else { "normal" };
    tx.tell(
        QUEUED,
        "sandbox",
        to.as_str(),
        &json!({
            "message_id": id, "content": preview, "message_type": new.message_type,
            "priority": priority, "sender": sender,
        }),
    );
    let detail = json!({ "message_id": id, "message_type": new.message_type });
    tx.record(sender, "message.send", "sandbox", to.as_str(), detail);
    // A person who speaks to it has looked at what the Guardian asked them to.
    let asked = row.get::<Option<String>>("waiting_reason")?.is_some_and(|why| guardian::is_asking(&why));
    let by_person = matches!(new.message_type, MessageType::UserMessage | MessageType::Interrupt)
        && sender != guardian::NAME;
    if let (true, true, Some(task)) = (asked, by_person, row.parse_opt("task_id")?) {
        account::clear_waiting(tx, &task).await?;
    }
    get(tx, to, &id).await
}

/// An event about a message says the same as a report.
pub(super) async fn reported_by_event(
    tx: &mut Tx,
    from: &SandboxId,
    state: MessageState,
    event_type: &str,
    data: &str,
) -> Result<(), Error> {
    let id = match Mention::read(event_type, &event::json(data)?) {
        Some(Mention::Id(id)) => Some(id),
        Some(Mention::Like { content, message_type }) => {
            handed_out(tx, from, state, content.as_deref(), message_type).await?
        }
        None => None,
    };
    let Some(id) = id else { return Ok(()) };
    match advance(tx, from, &id, state).await {
        // An event is stored whatever it says of messages.
        Err(fault) if fault.is_fault() => Err(fault),
        _ => Ok(()),
    }
}

/// The message that an event without an id is about: of those that the worker was handed and that have not come to `state`,
/// the oldest with this content, or else the oldest of this type.
async fn handed_out(
    tx: &mut Tx,
    of: &SandboxId,
    state: MessageState,
    content: Option<&str>,
    message_type: MessageType,
) -> Result<Option<MessageId>, Error> {
    let before = match state {
        MessageState::Acknowledged => "'delivered', 'injected'",
        _ => "'delivered'",
    };
    let sql = format!(
        "SELECT id FROM messages WHERE sandbox_id = $1 AND state IN ({before}) AND (content = $2 OR message_type = $3) \
         ORDER BY CASE WHEN content = $2 THEN 0 ELSE 1 END, seq LIMIT 1"
    );
    let row = tx.query_one(&sql, params![of, content.unwrap_or_default(), message_type.as_str()]).await?;
    row.map(|row| row.parse("id")).transpose()
}

async fn advance(tx: &mut Tx, of: &SandboxId, id: &MessageId, state: MessageState) -> Result<Message, Error> {
    let mut message = get(tx, of, id).await?;
    let column = match state {
        MessageState::Injected => "injected_at",
        MessageState::Acknowledged => "acknowledged_at",
        MessageState::Delivered => return hold(tx, message).await,
        MessageState::Queued | MessageState::Expired => {
            let detail = "a worker reports `delivered`, `injected` or `acknowledged`";
            return Err(Error::invalid("message_state", detail));
        }
    };
    // Words only ever move forward; the order of the states is the order of their declaration.
    if message.state >= state {
        return Ok(message);
    }
    message.state = state;
    let sql = format!("UPDATE messages SET state = $2, {column} = $3 WHERE id = $1");
    tx.execute(&sql, params![id, state.as_str(), tx.now]).await?;
    changed(tx, &message);
    get(tx, of, id).await
}

/// The worker has it and the agent is busy: it is not offered again for a while, and that time does not count.
async fn hold(tx: &mut Tx, message: Message) -> Result<Message, Error> {
    if message.state == MessageState::Delivered {
        let offer_at = tx.now + tx.rules.message_offer_again_after;
        let sql = "UPDATE messages SET offer_at = $2, deliveries = 1 WHERE id = $1";
        tx.execute(sql, params![&message.id, offer_at]).await?;
    }
    get(tx, &message.sandbox_id, &message.id).await
}

fn changed(tx: &mut Tx, message: &Message) {
    tx.tell(
        "SANDBOX_MESSAGE_STATE",
        "sandbox",
        message.sandbox_id.as_str(),
        &json!({ "message_id": message.id, "state": message.state, "deliveries": message.deliveries }),
    );
    guardian::message_changed(tx, message);
}

async fn get(tx: &mut Tx, of: &SandboxId, id: &MessageId) -> Result<Message, Error> {
    let sql = format!("SELECT {COLUMNS} FROM messages WHERE id = $1 AND sandbox_id = $2");
    let row = tx.query_one(&sql, params![id, of]).await?;
    read(&row.ok_or_else(|| Error::not_found("message", id))?)
}

fn read(row: &Row) -> Result<Message, Error> {
    Ok(Message {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        content: row.get("content")?,
        message_type: row.parse("message_type")?,
        sender: row.get("sender")?,
        state: row.parse("state")?,
        timestamp: row.get::<Timestamp>("created_at")?,
        delivered_at: row.get("delivered_at")?,
        injected_at: row.get("injected_at")?,
        acknowledged_at: row.get("acknowledged_at")?,
        expired_at: row.get("expired_at")?,
        deliveries: row.get("deliveries")?,
    })
}
