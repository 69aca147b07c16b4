//! Policies of projects: every change is kept, the last one holds.

use jiff::Timestamp;
use omoi_protocol::{ProjectId, SandboxId};
use serde_json::json;

use super::super::{
    Error, Store, Tx, project,
    value::{Row, params},
};

/// A project's own policy, as it was last changed.
#[derive(Debug, Clone)]
pub struct Stored {
    pub project_id: ProjectId,
    pub version: i64,
    /// None: it is the default again.
    pub text: Option<String>,
    pub created_by: String,
    pub created_at: Timestamp,
}

impl Store {
    /// The last of each project that ever had one.
    pub async fn policy_list(&self) -> Result<Vec<Stored>, Error> {
        self.read(async move |tx| {
            let sql = "SELECT p.project_id, p.version, p.text, p.created_by, p.created_at FROM policies p \
                       WHERE p.version = (SELECT max(q.version) FROM policies q WHERE q.project_id = p.project_id)";
            tx.query(sql, params![]).await?.iter().map(read).collect()
        })
        .await
    }

    /// How many changes there were, ever: another number means that something changed.
    pub async fn policy_changes(&self) -> Result<i64, Error> {
        self.read(async move |tx| {
            let row = tx.query_one("SELECT count(*) AS changes FROM policies", params![]).await?;
            row.map_or(Ok(0), |row| row.get("changes"))
        })
        .await
    }

    pub async fn policy_get(&self, project: &ProjectId) -> Result<Option<Stored>, Error> {
        let project = project.clone();
        self.read(async move |tx| {
            project::get(tx, &project).await?;
            get(tx, &project).await
        })
        .await
    }

    /// Another text, or none for the default. `seen` is the version that whoever changes it has seen.
    pub async fn policy_put(
        &self,
        actor: &str,
        project: &ProjectId,
        text: Option<String>,
        seen: Option<i64>,
    ) -> Result<Option<Stored>, Error> {
        let (actor, project) = (actor.to_owned(), project.clone());
        self.write(async move |tx| {
            project::get(tx, &project).await?;
            let old = get(tx, &project).await?;
            let version = old.as_ref().map_or(0, |old| old.version);
            if seen.is_some_and(|seen| seen != version) {
                let detail = format!("the policy of {project} is at version {version} by now; read it again");
                return Err(Error::conflict("version_conflict", detail));
            }
            let same = old.map_or(text.is_none(), |old| old.text == text);
            if same {
                return get(tx, &project).await;
            }
            let sql = "INSERT INTO policies (project_id, version, text, created_by, created_at) VALUES ($1, $2, $3, $4, $5)";
            let values = params![&project, version + 1, text.as_deref(), actor.as_str(), tx.now()];
            tx.execute(sql, values).await?;
            let told = json!({ "version": version + 1, "own": text.is_some() });
            tx.tell("POLICY_CHANGED", "project", project.as_str(), &told);
            let detail = json!({ "version": version + 1, "text": text });
            tx.record(&actor, "policy.set", "project", project.as_str(), detail);
            get(tx, &project).await
        })
        .await
    }

    /// Sandboxes of a project since a time, newest first.
    pub async fn policy_runs(
        &self,
        project: &ProjectId,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SandboxId>, Error> {
        let project = project.clone();
        self.read(async move |tx| {
            project::get(tx, &project).await?;
            let sql = "SELECT id FROM sandboxes WHERE project_id = $1 AND created_at >= $2 \
                       ORDER BY created_at DESC, id DESC LIMIT $3";
            tx.query(sql, params![&project, since, limit]).await?.iter().map(|row| row.parse("id")).collect()
        })
        .await
    }
}

async fn get(tx: &mut Tx, project: &ProjectId) -> Result<Option<Stored>, Error> {
    let sql = "SELECT project_id, version, text, created_by, created_at FROM policies WHERE project_id = $1 \
               ORDER BY version DESC LIMIT 1";
    tx.query_one(sql, params![project]).await?.as_ref().map(read).transpose()
}

fn read(row: &Row) -> Result<Stored, Error> {
    Ok(Stored {
        project_id: row.parse("project_id")?,
        version: row.get("version")?,
        text: row.get("text")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
    })
}
