//! Projects.

use omoi_protocol::{
    ProjectId, RepositoryReach,
    project::{NewProject, Project, ProjectPatch},
    spec::{SetSpecGates, SpecGates},
};
use serde_json::{Value as Json, json};

use super::{
    Error, Store, Tx, account,
    value::{Row, params},
};
use crate::domain::{dispatch, repository::Rebuilt, spec_course};

const COLUMNS: &str = "id, name, description, repository_url, repository_reach, default_branch, max_concurrent, settings, \
                       archived, paused, created_at, updated_at";

impl Store {
    /// Newest first.
    pub async fn project_list(&self, before: Option<ProjectId>, limit: usize) -> Result<Vec<Project>, Error> {
        self.read(async move |tx| {
            let mut ask = super::Ask::new(&format!("SELECT {COLUMNS} FROM projects"));
            ask.and_some("id <", before.as_ref());
            let (sql, values) = ask.order_limit("id DESC", limit);
            tx.query(&sql, values).await?.iter().map(read).collect()
        })
        .await
    }

    pub async fn project_get(&self, id: &ProjectId) -> Result<Project, Error> {
        let id = id.clone();
        self.read(async move |tx| get(tx, &id).await).await
    }

    /// `reach` is what the caller may set: it is stored with the address.
    pub async fn project_create(
        &self,
        actor: &str,
        new: NewProject,
        reach: RepositoryReach,
    ) -> Result<Project, Error> {
        let actor = actor.to_owned();
        self.write(async move |tx| {
            name_is_free(tx, &new.name, None).await?;
            let id = ProjectId::generate();
            tx.execute(
                "INSERT INTO projects (id, name, description, repository_url, default_branch, max_concurrent, settings, \
                 autonomous, repository_reach, tickets_made, live_sandboxes, archived, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $9, $10, 0, 0, 0, $8, $8)",
                params![
                    &id,
                    new.name.as_str(),
                    new.description.as_str(),
                    new.repository_url.as_deref(),
                    new.default_branch.as_str(),
                    new.max_concurrent,
                    Json::Object(new.settings.clone()).to_string(),
                    tx.now,
                    dispatch::autonomous(&new.settings).map(i64::from),
                    reach.as_str()
                ],
            )
            .await?;
            tx.tell("PROJECT_CREATED", "project", id.as_str(), &json!({ "name": new.name }));
            tx.record(&actor, "project.create", "project", id.as_str(), json!({ "name": new.name }));
            get(tx, &id).await
        })
        .await
    }

    /// `reach` is what the caller may set. It is stored where the address changes. An address that stays keeps the reach
    /// that it has, unless an administrator names it again.
    pub async fn project_update(
        &self,
        actor: &str,
        id: &ProjectId,
        patch: ProjectPatch,
        reach: RepositoryReach,
    ) -> Result<Project, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let old = get(tx, &id).await?;
            if let Some(name) = &patch.name {
                name_is_free(tx, name, Some(&id)).await?;
            }
            let settings = patch.settings.clone().unwrap_or(old.settings);
            super::dispatch::look_again(tx, &id).await?;
            let autonomous = dispatch::autonomous(&settings);
            let moves = patch.repository_url.is_some() && patch.repository_url != old.repository_url;
            let allows = patch.repository_url.is_some() && reach == RepositoryReach::Any;
            let reach = if moves || allows { reach } else { old.repository_reach };
            tx.execute(
                "UPDATE projects SET name = $2, description = $3, repository_url = $4, default_branch = $5, \
                 max_concurrent = $6, settings = $7, archived = $8, updated_at = $9, autonomous = $10, \
                 repository_reach = $11 WHERE id = $1",
                params![
                    &id,
                    patch.name.clone().unwrap_or(old.name),
                    patch.description.clone().unwrap_or(old.description),
                    patch.repository_url.clone().or(old.repository_url),
                    patch.default_branch.clone().unwrap_or(old.default_branch),
                    patch.max_concurrent.unwrap_or(old.max_concurrent),
                    Json::Object(settings).to_string(),
                    patch.archived.unwrap_or(old.archived),
                    tx.now,
                    autonomous.map(i64::from),
                    reach.as_str()
                ],
            )
            .await?;
            if patch.settings.is_some() {
                account::clear_waiting_in(tx, &id).await?;
            }
            let changed = serde_json::to_value(&patch).unwrap_or(Json::Null);
            tx.tell("PROJECT_UPDATED", "project", id.as_str(), &changed);
            tx.record(&actor, "project.update", "project", id.as_str(), changed);
            get(tx, &id).await
        })
        .await
    }
}

impl Store {
    /// Tells viewers and the audit trail that the mirror of a project was rebuilt, and what could not be saved.
    pub async fn project_mirror_rebuilt(&self, rebuilt: &Rebuilt) -> Result<(), Error> {
        let rebuilt = rebuilt.clone();
        self.write(async move |tx| {
            let id = &get(tx, &rebuilt.project_id).await?.id;
            let told = serde_json::to_value(&rebuilt).unwrap_or(Json::Null);
            tx.tell("MIRROR_REBUILT", "project", id.as_str(), &told);
            tx.record("server", "project.mirror_rebuilt", "project", id.as_str(), told);
            Ok(())
        })
        .await
    }

    pub async fn project_gates(&self, id: &ProjectId) -> Result<SpecGates, Error> {
        let id = id.clone();
        self.read(async move |tx| Ok(gates(&get(tx, &id).await?))).await
    }

    /// Sets `settings.spec.gates` and leaves the other settings alone.
    pub async fn project_set_gates(
        &self,
        actor: &str,
        id: &ProjectId,
        said: SetSpecGates,
    ) -> Result<SpecGates, Error> {
        let (actor, id) = (actor.to_owned(), id.clone());
        self.write(async move |tx| {
            let mut settings = get(tx, &id).await?.settings;
            spec_course::set_gates(&mut settings, said.gates.as_deref());
            let sql = "UPDATE projects SET settings = $2, updated_at = $3 WHERE id = $1";
            tx.execute(sql, params![&id, Json::Object(settings).to_string(), tx.now]).await?;
            let changed = json!({ "spec_gates": said.gates });
            tx.tell("PROJECT_UPDATED", "project", id.as_str(), &changed);
            tx.record(&actor, "project.spec_gates", "project", id.as_str(), changed);
            Ok(gates(&get(tx, &id).await?))
        })
        .await
    }
}

fn gates(project: &Project) -> SpecGates {
    SpecGates {
        gates: spec_course::gates_of_project(&project.settings),
        effective: spec_course::gates(None, Some(&project.settings)),
    }
}

async fn name_is_free(tx: &mut Tx, name: &str, but: Option<&ProjectId>) -> Result<(), Error> {
    let row = tx.query_one("SELECT id FROM projects WHERE name = $1", params![name]).await?;
    let taken = match row {
        Some(row) => but.is_none_or(|id| row.get::<String>("id").is_ok_and(|of| of != id.as_str())),
        None => false,
    };
    if taken {
        return Err(Error::conflict("project_exists", format!("there is a project named {name:?} already")));
    }
    Ok(())
}

pub(super) async fn get(tx: &mut Tx, id: &ProjectId) -> Result<Project, Error> {
    let row = tx.query_one(&format!("SELECT {COLUMNS} FROM projects WHERE id = $1"), params![id]).await?;
    read(&row.ok_or_else(|| Error::not_found("project", id))?)
}

/// The same, if something may start in it.
pub(super) async fn open(tx: &mut Tx, id: &ProjectId) -> Result<Project, Error> {
    let project = get(tx, id).await?;
    if project.archived {
        return Err(Error::conflict("project_archived", format!("project {} is archived", project.name)));
    }
    if project.paused {
        let detail = format!("project {} is paused and starts nothing new; resume it first", project.name);
        return Err(Error::conflict("project_paused", detail));
    }
    Ok(project)
}

fn read(row: &Row) -> Result<Project, Error> {
    Ok(Project {
        id: row.parse("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        repository_url: row.get("repository_url")?,
        repository_reach: row.parse("repository_reach")?,
        default_branch: row.get("default_branch")?,
        max_concurrent: row.get("max_concurrent")?,
        settings: row.json("settings")?,
        archived: row.get("archived")?,
        paused: row.get("paused")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}
