//! Tickets. One is made together with its task, in one transaction, and follows what becomes of its tasks.

use omoi_protocol::{
    Priority, ProjectId, TicketId, TicketStatus, TicketType,
    task::NewTask,
    ticket::{NewTicket, Ticket, TicketCreated, TicketPatch},
};
use serde_json::{Value as Json, json};

use super::{
    Error, Store, Tx, task,
    value::{Row, params},
};

const COLUMNS: &str = "id, project_id, number, title, description, ticket_type, priority, status, checks, created_at, updated_at";

impl Store {
    /// Newest first.
    pub async fn ticket_list(
        &self,
        project: Option<ProjectId>,
        status: Option<TicketStatus>,
        before: Option<TicketId>,
        limit: usize,
    ) -> Result<Vec<Ticket>, Error> {
        self.read(async move |tx| {
            let mut ask = super::Ask::new(&format!("SELECT {COLUMNS} FROM tickets"));
            ask.and_some("project_id =", project.as_ref());
            ask.and_some("status =", status.map(TicketStatus::as_str));
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn ticket_get(&self, id: &TicketId) -> Result<Ticket, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    pub async fn ticket_create(&self, actor: &str, new: NewTicket) -> Result<TicketCreated, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            let id = insert(tx, &actor, &new).await?;
            let task_id =
                if new.create_task { Some(task::insert(tx, &task_for(&id, &new)).await?) } else { None };
            Ok(TicketCreated { ticket: get(tx, &id).await?, task_id })
        })
        .await
    }

    pub async fn ticket_update(
        &self,
        actor: &str,
        id: &TicketId,
        patch: TicketPatch,
    ) -> Result<Ticket, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            get(tx, &id).await?;
            tx.execute(
                "UPDATE tickets SET title = COALESCE($2, title), description = COALESCE($3, description), \
                 ticket_type = COALESCE($4, ticket_type), priority = COALESCE($5, priority), \
                 status = COALESCE($6, status), checks = COALESCE($8, checks), updated_at = $7 WHERE id = $1",
                params![
                    &id,
                    patch.title.as_deref(),
                    patch.description.as_deref(),
                    patch.ticket_type.map(TicketType::as_str),
                    patch.priority.map(Priority::as_str),
                    patch.status.map(TicketStatus::as_str),
                    tx.now,
                    patch.checks.as_ref().map(|checks| json!(checks).to_string())
                ],
            )
            .await?;
            let changed = serde_json::to_value(&patch).unwrap_or(Json::Null);
            tx.tell("TICKET_UPDATED", "ticket", id.as_str(), &changed);
            tx.record(&actor, "ticket.update", "ticket", id.as_str(), changed);
            get(tx, &id).await
        })
        .await
    }
}

/// A ticket without its task.
pub(super) async fn insert(tx: &mut Tx, actor: &str, new: &NewTicket) -> Result<TicketId, Error> {
    let sql = "UPDATE projects SET tickets_made = tickets_made + 1 WHERE id = $1 RETURNING tickets_made";
    let rows = tx.query(sql, params![&new.project_id]).await?;
    let row = rows.first().ok_or_else(|| Error::not_found("project", &new.project_id))?;
    let number: i64 = row.get("tickets_made")?;
    let id = TicketId::generate();
    tx.execute(
        "INSERT INTO tickets (id, project_id, number, title, description, ticket_type, priority, status, \
         checks, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'backlog', $9, $8, $8)",
        params![
            &id,
            &new.project_id,
            number,
            new.title.as_str(),
            new.description.as_str(),
            new.ticket_type.as_str(),
            new.priority.as_str(),
            tx.now,
            new.checks.as_ref().map(|checks| json!(checks).to_string())
        ],
    )
    .await?;
    let told = json!({ "project_id": new.project_id, "number": number, "title": new.title, "priority": new.priority });
    tx.tell("TICKET_CREATED", "ticket", id.as_str(), &told);
    tx.record(actor, "ticket.create", "ticket", id.as_str(), told);
    Ok(id)
}

fn task_for(id: &TicketId, new: &NewTicket) -> NewTask {
    NewTask {
        ticket_id: Some(id.clone()),
        description: new.description.clone(),
        task_type: "implement_feature".to_owned(),
        priority: new.priority,
        ..NewTask::plain(new.title.as_str())
    }
}

/// A ticket is building while a task of it is under way, and done when all are completed. A person's word that it is
/// cancelled stands.
pub(super) async fn follow(tx: &mut Tx, id: &TicketId) -> Result<(), Error> {
    // Whether there is one of each kind: counting them would cost more with each task that the ticket has.
    let any = |statuses: &str| {
        format!("EXISTS (SELECT 1 FROM tasks t WHERE t.ticket_id = k.id AND t.status IN ({statuses}))")
    };
    let (busy, open) = (any("'assigned', 'running'"), any("'pending', 'failed', 'cancelled'"));
    let sql = format!(
        "SELECT k.status, CASE WHEN {busy} THEN 'building' WHEN {open} THEN k.status WHEN {} THEN 'done' \
         ELSE k.status END AS new_status FROM tickets k WHERE k.id = $1",
        any("'completed'")
    );
    let row = tx.query_one(&sql, params![id]).await?.ok_or_else(|| Error::not_found("ticket", id))?;
    let (old, new): (TicketStatus, TicketStatus) = (row.parse("status")?, row.parse("new_status")?);
    if new == old || old == TicketStatus::Cancelled {
        return Ok(());
    }
    let sql = "UPDATE tickets SET status = $2, updated_at = $3 WHERE id = $1";
    tx.execute(sql, params![id, new.as_str(), tx.now]).await?;
    tx.tell("TICKET_STATUS_CHANGED", "ticket", id.as_str(), &json!({ "old_status": old, "status": new }));
    Ok(())
}

pub(super) async fn get(tx: &mut Tx, id: &TicketId) -> Result<Ticket, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM tickets WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("ticket", id))?)
}

fn read(row: &Row) -> Result<Ticket, Error> {
    Ok(Ticket {
        id: row.parse("id")?,
        project_id: row.parse("project_id")?,
        number: row.get("number")?,
        title: row.get("title")?,
        description: row.get("description")?,
        ticket_type: row.parse("ticket_type")?,
        priority: row.parse("priority")?,
        status: row.parse("status")?,
        checks: match row.get::<Option<String>>("checks")? {
            Some(_) => Some(row.json("checks")?),
            None => None,
        },
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}
