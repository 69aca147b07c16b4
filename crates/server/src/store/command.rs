//! Commands that people run in a sandbox.

use omoi_protocol::{
    CommandId, CommandState, Place, SandboxId,
    sandbox::{Command, NewCommand},
};
use serde_json::json;

use super::{
    Ask, Error, Store, Tx, sandbox,
    value::{Row, params},
};

const COLUMNS: &str = "id, sandbox_id, argv, state, exit_code, error, requested_by, created_at, ended_at";

impl Store {
    pub async fn command_create(
        &self,
        actor: &str,
        sandbox_id: &SandboxId,
        new: NewCommand,
    ) -> Result<Command, Error> {
        let (actor, sandbox_id) = (actor.to_owned(), sandbox_id.clone());
        self.write(async move |tx| {
            let sandbox = sandbox::get(tx, &sandbox_id).await?;
            if sandbox.place == Place::None {
                let detail =
                    format!("sandbox {sandbox_id} is run by somebody else; commands cannot be sent there");
                return Err(Error::conflict("sandbox_elsewhere", detail));
            }
            if !sandbox.status.is_live() {
                let detail = format!("sandbox {sandbox_id} has ended: it is {}", sandbox.status);
                return Err(Error::conflict("sandbox_ended", detail));
            }
            let id = CommandId::generate();
            let argv = serde_json::to_string(&new.argv).unwrap_or_default();
            tx.execute(
                "INSERT INTO commands (id, sandbox_id, argv, state, requested_by, created_at) \
                 VALUES ($1, $2, $3, 'pending', $4, $5)",
                params![&id, &sandbox_id, argv, actor.as_str(), tx.now],
            )
            .await?;
            let detail = json!({ "command_id": id, "argv": new.argv });
            tx.record(&actor, "sandbox.exec", "sandbox", sandbox_id.as_str(), detail);
            get(tx, &id).await
        })
        .await
    }

    pub async fn command_get(&self, sandbox_id: &SandboxId, id: &CommandId) -> Result<Command, Error> {
        let (sandbox_id, id) = (sandbox_id.clone(), id.clone());
        self.read(async move |tx| {
            let command = get(tx, &id).await?;
            if command.sandbox_id == sandbox_id { Ok(command) } else { Err(Error::not_found("command", &id)) }
        })
        .await
    }

    /// Newest first.
    pub async fn command_list(
        &self,
        sandbox_id: &SandboxId,
        before: Option<CommandId>,
        limit: usize,
    ) -> Result<Vec<Command>, Error> {
        let sandbox_id = sandbox_id.clone();
        self.read(async move |tx| {
            sandbox::must_exist(tx, &sandbox_id).await?;
            let mut ask = Ask::new(&format!("SELECT {COLUMNS} FROM commands"));
            ask.and_some("sandbox_id =", Some(&sandbox_id));
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    /// Commands to run in sandboxes of a machine, or to give up because their sandbox has ended; oldest first.
    pub async fn command_list_pending(
        &self,
        node: &str,
        limit: usize,
    ) -> Result<Vec<(Command, bool)>, Error> {
        let node = node.to_owned();
        self.read(async move |tx| {
            let sql = "SELECT c.id, c.sandbox_id, c.argv, c.state, c.exit_code, c.error, c.requested_by, c.created_at, \
                       c.ended_at, s.live FROM commands c JOIN sandboxes s ON s.id = c.sandbox_id \
                       WHERE c.state IN ('pending', 'running') AND c.state = 'pending' AND s.node = $1 \
                       AND (s.place = 'up' OR s.live = 0) \
                       ORDER BY c.id LIMIT $2";
            let rows = tx.query(sql, params![node.as_str(), limit]).await?;
            rows.iter().map(|row| Ok((read(row)?, row.get("live")?))).collect()
        })
        .await
    }

    /// Marks a pending command as begun; says whether it was pending.
    pub async fn command_begin(&self, id: &CommandId) -> Result<bool, Error> {
        let id = id.clone();
        self.write(async move |tx| {
            let sql =
                "UPDATE commands SET state = 'running' WHERE id = $1 AND state = 'pending' RETURNING id";
            Ok(!tx.returning(sql, params![&id]).await?.is_empty())
        })
        .await
    }

    pub async fn command_end(&self, id: &CommandId, how: Result<i64, String>) -> Result<(), Error> {
        let id = id.clone();
        self.write(async move |tx| {
            let (code, error) = match &how {
                Ok(code) => (Some(*code), None),
                Err(error) => (None, Some(error.as_str())),
            };
            let sql = "UPDATE commands SET state = 'done', exit_code = $2, error = $3, ended_at = $4 \
                       WHERE id = $1 AND state <> 'done'";
            tx.execute(sql, params![&id, code, error, tx.now]).await
        })
        .await
    }

    /// Those that ran when the server of this machine ended: their output is lost, so they are over.
    pub async fn command_end_orphans(&self, node: &str) -> Result<Vec<Command>, Error> {
        let node = node.to_owned();
        self.write(async move |tx| {
            let sql = "SELECT c.id FROM commands c JOIN sandboxes s ON s.id = c.sandbox_id \
                       WHERE c.state IN ('pending', 'running') AND c.state = 'running' AND s.node = $1";
            let rows = tx.query(sql, params![node.as_str()]).await?;
            let ids: Vec<String> = rows.iter().map(|row| row.get("id")).collect::<Result<_, _>>()?;
            let sql = format!(
                "UPDATE commands SET state = 'done', error = 'the server ended while it ran', ended_at = $1 \
                 WHERE id = ANY($2) RETURNING {COLUMNS}"
            );
            tx.returning(&sql, params![tx.now, ids]).await?.iter().map(read).collect()
        })
        .await
    }
}

async fn get(tx: &mut Tx, id: &CommandId) -> Result<Command, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM commands WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("command", id))?)
}

fn read(row: &Row) -> Result<Command, Error> {
    Ok(Command {
        id: row.parse("id")?,
        sandbox_id: row.parse("sandbox_id")?,
        argv: row.json("argv")?,
        state: row.parse::<CommandState>("state")?,
        exit_code: row.get("exit_code")?,
        error: row.get("error")?,
        requested_by: row.get("requested_by")?,
        created_at: row.get("created_at")?,
        ended_at: row.get("ended_at")?,
    })
}
